//! Communicators that were freed. As in MPI nothing is begun on them, and what is under way goes on; a message that nobody will receive is
//! refused, or its sender would keep a credit less, or wait to be asked for its bytes, for ever.

use super::super::{Comm, Token};
use super::flow::Then;
use super::{Body, Message, Own, Pending, kind};
use crate::Class;

impl Own {
    /// Nothing is begun on it any more.
    pub(super) fn free_group(&mut self, comm: Comm) {
        let is_on = |pending: &Pending| match pending {
            Pending::Receive { comm: of, .. } => *of == comm,
            Pending::Collective(running) => running.comm == comm,
            _ => false,
        };
        let open = || self.pending.iter().filter(|(_, pending)| is_on(pending)).map(|(token, _)| *token);
        let open: Vec<Token> = open().collect();
        let group = self.groups.get_mut(comm).filter(|_| comm > 1).and_then(Option::as_mut);
        let Some(group) = group.filter(|group| group.freed.is_none()) else { return };
        group.freed = Some(open);
        self.leaving.push(comm);
        self.bury();
        self.refuse_all();
    }

    /// Ends those on which nothing is under way any more.
    pub(super) fn bury(&mut self) {
        let mut moved = false;
        let Own { leaving, groups, pending, .. } = self;
        let is_open = |token: &Token| {
            matches!(pending.get(token), Some(Pending::Receive { .. } | Pending::Collective(_)))
        };
        leaving.retain(|comm| {
            let open = groups[*comm].as_mut().and_then(|group| group.freed.as_mut());
            let left = open.map_or(0, |open| {
                let before = open.len();
                open.retain(is_open);
                moved |= open.len() < before;
                open.len()
            });
            if left == 0 {
                groups[*comm] = None;
            }
            left > 0
        });
        if moved {
            self.refuse_all();
        }
    }

    /// Whether nobody here will receive a message of this context that no receive waits for. Contexts are numbered: one below the next one that
    /// is no communicator's was freed, or never this process's; one above is that of a split which others have finished.
    pub(super) fn is_over(&self, context: u64) -> bool {
        let of_messages = context & !1;
        let group = self.groups.iter().flatten().find(|group| group.context == of_messages);
        let Some(group) = group else { return of_messages < self.next_context };
        let runs = |token: &Token| matches!(self.pending.get(token), Some(Pending::Collective(_)));
        group.freed.as_ref().is_some_and(|open| context == of_messages || !open.iter().any(runs))
    }

    /// Of all messages that wait, those that nobody will receive.
    pub(super) fn refuse_all(&mut self) {
        let mut matching = std::mem::take(&mut self.matching);
        let over = matching.drop_contexts(|context| self.is_over(context));
        self.matching = matching;
        over.into_iter().for_each(|message| self.refuse(message));
    }

    /// The message that has just begun to wait.
    pub(super) fn refuse_last(&mut self) {
        if let Some(message) = self.matching.drop_last() {
            self.refuse(message);
        }
    }

    /// Its credit goes back; who has its bytes yet is told.
    fn refuse(&mut self, message: Message<Body>) {
        let source = message.envelope.source;
        match message.body {
            Body::Bytes(_) => self.net.received(source as usize),
            Body::Asks { send, .. } if source == self.rank => self.refused(source, send),
            Body::Asks { send, .. } => {
                self.frame(source, kind::REFUSE, [send, 0, 0, 0, 0], Vec::new(), Then::Nothing);
            }
        }
    }

    /// Nobody there will receive what a process was told of.
    pub(super) fn refused(&mut self, by: u32, send: Token) {
        self.limits.granted(by);
        match self.pending.remove(&send) {
            Some(Pending::Send { .. }) => self.end(send, Err(Class::COMM)),
            Some(Pending::Piece { of, .. }) => self.fail_collective(of, Class::COMM),
            Some(other) => {
                self.pending.insert(send, other);
            }
            None => {}
        }
    }
}

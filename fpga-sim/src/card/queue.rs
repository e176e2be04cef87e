//! Packets of a VPID that wait for those before them, in order; what is known of them has begun meanwhile.

use std::collections::VecDeque;

use super::ahead::Ahead;
use super::writing::Writing;
use crate::memory::{Memory, Ticket};
use crate::packet::{NOBODY, Packet};

/// A packet of a VPID whose completer waits for bytes.
pub(super) enum Waiting {
    /// Its bytes are being written, or will be.
    Writing(Box<Writing>),
    /// It has none, or nowhere to put them, and is reported behind those before it.
    Report(Packet),
    /// What it does depends on what comes before.
    Packet(Packet),
}

/// See the module's description.
#[derive(Default)]
pub(super) struct Queue {
    waiting: VecDeque<Waiting>,
    /// How many have been the oldest before the one that is.
    over: u64,
    /// Those of which it is not known what they do.
    unknown: usize,
}

impl Queue {
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether what is behind all of these can be looked at.
    #[inline]
    pub(super) fn is_known(&self) -> bool {
        self.unknown == 0
    }

    pub(super) fn push(&mut self, waiting: Waiting) {
        self.unknown += usize::from(matches!(waiting, Waiting::Packet(_)));
        self.waiting.push_back(waiting);
    }

    /// The oldest.
    pub(super) fn pop(&mut self) -> Option<Waiting> {
        let waiting = self.waiting.pop_front()?;
        self.over += 1;
        self.unknown -= usize::from(matches!(waiting, Waiting::Packet(_)));
        Some(waiting)
    }

    /// The oldest goes on to wait.
    pub(super) fn put_back(&mut self, writing: Box<Writing>) {
        self.over -= 1;
        self.waiting.push_front(Waiting::Writing(writing));
    }

    /// Adds a payload, which begins if none before it is written to the same place.
    pub(super) fn begin(&mut self, mut writing: Box<Writing>, memory: &dyn Memory, ahead: &mut Ahead) {
        let place = self.writings().filter(|(_, w)| w.overlaps(writing.target())).map(|(at, _)| at).last();
        match place {
            Some(at) => writing.behind = Some(self.over + at as u64),
            None => {
                let waits = self.writings().any(|(_, w)| w.wants_room);
                writing.begin(memory, (!waits).then_some(ahead));
            }
        }
        self.push(Waiting::Writing(writing));
    }

    /// The VPID is closed: nobody is told of these. Those of which it is not known what they do come to who has it then, as late packets do.
    pub(super) fn close(&mut self) {
        for waiting in &mut self.waiting {
            match waiting {
                Waiting::Writing(writing) => writing.close(),
                Waiting::Report(packet) => packet.process = NOBODY,
                Waiting::Packet(_) => {}
            }
        }
    }

    /// What devices still do for payloads.
    pub(super) fn tickets(&self) -> impl Iterator<Item = Ticket> {
        self.writings().filter_map(|(_, writing)| writing.ticket())
    }

    fn writings(&self) -> impl Iterator<Item = (usize, &Writing)> {
        self.waiting.iter().enumerate().filter_map(|(at, waiting)| match waiting {
            Waiting::Writing(writing) => Some((at, &**writing)),
            _ => None,
        })
    }

    /// The oldest is over: those begin that it was in the way of, and there may be room for others, in their order.
    pub(super) fn begin_more(&mut self, memory: &dyn Memory, ahead: &mut Ahead) {
        let (ended, mut room) = (self.over - 1, true);
        for waiting in &mut self.waiting {
            let Waiting::Writing(writing) = waiting else { continue };
            if writing.behind == Some(ended) {
                writing.behind = None;
                writing.begin(memory, None);
            }
            if room && writing.wants_room {
                writing.fetch_early(ahead);
                room = !writing.wants_room;
            }
        }
    }
}

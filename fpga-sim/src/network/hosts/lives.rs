//! Beats, goodbyes and ends of processes that were met, and what is due: the other half of [`Meetings`].

use std::io;
use std::time::{Duration, Instant};

use super::events::{Connection, End, News, Out};
use super::meeting::{Calling, Meetings, State, Up};
use super::proof::{Answer, Hello, Papers, Word};
use ggas_members::meeting::bad;

/// Lost processes of a node that are remembered.
const LOST_MAX: usize = 16;

impl Meetings {
    pub(super) fn met(&mut self, on: Connection, node: u16, process: u64, papers: Papers, now: Instant) {
        let up = Up { on, process, silent: Duration::ZERO, said: now, leaves: false, broke: None };
        self.set(node, State::Up(up));
        self.news.push(News::Met { node, process, papers });
    }

    /// What a process that is up says.
    pub(super) fn told(&mut self, node: u16, word: Word) -> io::Result<()> {
        let State::Up(up) = &mut self.nodes[usize::from(node)].state else { return Ok(()) };
        match word {
            Word::Beat => {}
            Word::Goodbye { .. } if up.leaves => return Err(bad("it said goodbye twice")),
            Word::Goodbye { sent, taken } => {
                up.leaves = true;
                self.news.push(News::Leaves { node, sent, taken });
            }
            Word::Farewell if self.leaving => {
                let on = up.on;
                self.close(on);
                self.set(node, State::Unmet);
            }
            Word::Farewell => return Err(bad("it says farewell to who stays")),
        }
        Ok(())
    }

    /// All that a process sent before its goodbye is here.
    pub fn has_all(&mut self, node: u16) {
        if let State::Up(Up { on, leaves: true, .. }) = self.nodes[usize::from(node)].state {
            self.say(on, Word::Farewell);
            self.gone(node, End::Left);
        }
    }

    /// A process broke the rules of packets, or cannot be reached.
    pub fn expel(&mut self, node: u16) {
        if matches!(self.nodes[usize::from(node)].state, State::Up(_)) {
            self.gone(node, End::Lost);
        }
    }

    /// Says goodbye to all, with what `counts` says of packets sent and taken.
    pub fn leave(&mut self, counts: impl Fn(u16) -> ([u32; 2], [u32; 2])) {
        self.leaving = true;
        for node in (0..self.nodes.len()).map(|node| node as u16) {
            match self.nodes[usize::from(node)].state {
                State::Up(Up { on, broke: None, .. }) => {
                    let (sent, taken) = counts(node);
                    self.say(on, Word::Goodbye { sent, taken });
                }
                // For them this process is up already.
                State::Called { on, papers: Some(_), .. } => {
                    self.say(on, Word::Goodbye { sent: [0; 2], taken: [0; 2] });
                }
                State::Calling { on, .. } | State::Called { on, .. } => {
                    self.close(on);
                    self.settle(node, State::Unmet);
                }
                _ => {}
            }
        }
    }

    /// Nobody is left who might wait for what this process sent.
    pub fn has_left(&self) -> bool {
        let waits = |state: &State| matches!(state, State::Up(_) | State::Called { papers: Some(_), .. });
        self.leaving && !self.nodes.iter().any(|node| waits(&node.state))
    }

    /// Does what is due; when to look again. What connections brought has to be told before: a process that stood still
    /// itself takes nobody for silent. It looks at least once a beat; where more time has passed it did not run, and where it has
    /// to wait for a processor others may have to, too. So silence counts by looks, in each of which the other one could have
    /// been heard: ten of them at least, however far apart they are.
    pub fn look(&mut self, now: Instant) -> Option<Instant> {
        let passed = now.saturating_duration_since(self.looked).min(self.bounds.beat);
        self.looked = now;
        let late = self.unknown.iter().filter(|(_, until)| *until <= now);
        self.out.extend(late.map(|(on, _)| Out::Close(*on)));
        self.unknown.retain(|(_, until)| *until > now);
        let nodes = (0..self.nodes.len()).filter_map(|node| self.look_at(node as u16, passed, now));
        let next = nodes.collect::<Vec<_>>().into_iter();
        next.chain(self.unknown.iter().map(|(_, until)| *until)).min()
    }

    fn look_at(&mut self, node: u16, passed: Duration, now: Instant) -> Option<Instant> {
        let (beat, silence, again) = (self.bounds.beat, self.bounds.silence, now + self.bounds.nobody);
        match &mut self.nodes[usize::from(node)].state {
            State::Unmet | State::Nobody { .. } => None,
            State::Awaited { until } | State::Calling { until, .. } | State::Called { until, .. }
                if *until > now =>
            {
                Some(*until)
            }
            State::Calling { on, .. } => {
                let on = *on;
                self.close(on);
                self.settle(node, State::Nobody { until: again });
                None
            }
            State::Called { on, .. } => {
                let on = *on;
                self.close(on);
                self.settle(node, State::Unmet);
                None
            }
            State::Awaited { .. } => {
                self.settle(node, State::Unmet);
                None
            }
            State::Up(up) => {
                up.silent += passed;
                let over = up.broke.map_or(up.silent >= silence, |until| until <= now);
                if over {
                    let end = if up.leaves { End::Left } else { End::Lost };
                    self.gone(node, end);
                    return None;
                }
                let on = (up.broke.is_none() && !self.leaving && now >= up.said + beat).then_some(up.on);
                if on.is_some() {
                    up.said = now;
                }
                let next = up.broke.unwrap_or(up.said.max(now) + beat);
                if let Some(on) = on {
                    self.say(on, Word::Beat);
                }
                Some(next)
            }
        }
    }

    pub(super) fn gone(&mut self, node: u16, end: End) {
        if let State::Up(Up { on, process, .. }) = self.nodes[usize::from(node)].state {
            if end == End::Lost {
                self.remember_lost(node, process);
            }
            self.close(on);
        }
        self.set(node, State::Unmet);
        self.news.push(News::Gone { node, end });
    }

    pub(super) fn remember_lost(&mut self, node: u16, process: u64) {
        let lost = &mut self.nodes[usize::from(node)].lost;
        if !lost.contains(&process) {
            lost.push(process);
            if lost.len() > LOST_MAX {
                lost.remove(0);
            }
        }
    }

    /// What waits for the node is tried again, or thrown away.
    pub(super) fn settle(&mut self, node: u16, state: State) {
        self.set(node, state);
        self.news.push(News::Settled { node });
    }

    pub(super) fn set(&mut self, node: u16, state: State) {
        self.nodes[usize::from(node)].state = state;
    }

    pub(super) fn close(&mut self, on: Connection) {
        self.connections.remove(&on);
        self.out.push(Out::Close(on));
    }

    /// The node that this connection calls, and how far that is.
    pub(super) fn calling(&mut self, on: Connection) -> Option<(u16, &mut Calling)> {
        let node = *self.connections.get(&on)?;
        match &mut self.nodes[usize::from(node)].state {
            State::Calling { on: own, stage, .. } if *own == on => Some((node, stage)),
            _ => None,
        }
    }

    pub(super) fn say(&mut self, on: Connection, word: Word) {
        self.out.push(Out::Say(on, word.bytes()));
    }

    pub(super) fn say_papers(&mut self, on: Connection, ticket: u64) {
        let (provider, address) = (self.provider.clone(), self.address.clone());
        self.out.push(Out::Say(on, Papers { ticket, provider, address }.bytes()));
    }

    pub(super) fn say_hello(&mut self, on: Connection, node: u16, answer: Answer) -> io::Result<()> {
        let hello = Hello { from: self.me, to: node, answer, incarnation: self.process };
        let number = (self.random)()?;
        self.out.push(Out::Say(on, hello.bytes(number)));
        Ok(())
    }
}

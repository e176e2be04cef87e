//! Beats, goodbyes and ends of processes that were met, and what is due: the other half of [`Meetings`].

use std::io;
use std::time::{Duration, Instant};

use super::events::{Bounds, Connection, End, News, Out};
use super::meeting::{Calling, Meetings, Node, State, Up};
use super::proof::{Answer, Hello, Papers, Word};
use ggas_members::meeting::bad;

/// Of the packets of two processes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ways {
    /// Some were to go to the other one.
    pub used: bool,
    /// Some have come from there, and since the last look.
    pub came: bool,
    pub fresh: bool,
    /// Some have gone there since the last look.
    pub went: bool,
}

/// Lost processes of a node that are remembered.
const LOST_MAX: usize = 16;

impl Meetings {
    pub(super) fn met(&mut self, on: Connection, node: u16, process: u64, papers: Papers, now: Instant) {
        let (silent, unheard) = (Duration::ZERO, Duration::ZERO);
        let of = &mut self.nodes[usize::from(node)];
        (of.vain, of.silent) = (None, false);
        // Packets of one that is known go on as they do, if they do.
        let wired = of.wired.take();
        let is_news = wired.as_ref().is_none_or(|wired| !wired.is_reached());
        let misses = wired.as_ref().is_some_and(|wired| wired.misses());
        let (leaves, broke) = wired.map_or((false, None), |wired| wired.ends());
        let up = Up { on, process, silent, unheard, heard: false, said: now, leaves, broke };
        self.set(node, State::Up(up));
        match (misses, is_news) {
            (true, _) => self.expel(node), // the wire does not reach it for good
            // What waits may go on.
            (false, true) => self.news.push(News::Met { node, process, papers }),
            (false, false) => self.news.push(News::Settled { node }),
        }
    }

    /// What a process that is up says.
    pub(super) fn told(&mut self, node: u16, word: Word) -> io::Result<()> {
        let State::Up(up) = &mut self.nodes[usize::from(node)].state else { return Ok(()) };
        match word {
            Word::Beat { came } => up.heard |= came,
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
        } else if self.is_leaving(node) {
            self.news.push(News::Farewell { node });
            self.gone(node, End::Left);
        }
    }

    /// A process broke the rules of packets, or cannot be reached. Who has left before is not lost by that.
    pub fn expel(&mut self, node: u16) {
        let end = match &self.nodes[usize::from(node)] {
            Node { wired: Some(wired), .. } => wired.end(),
            Node { state: State::Up(up), .. } => up.end(),
            _ => return,
        };
        self.gone(node, end);
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
                State::Calling { on, .. } => {
                    self.close(on);
                    self.settle(node, State::Unmet);
                }
                // Of those who call this process is up for some already: they hear of it once they have said their papers.
                _ => {}
            }
            self.leave_wired(node, counts(node));
        }
    }

    /// Nobody is left who might wait for what this process sent.
    pub fn has_left(&self) -> bool {
        let waits = |state: &State| matches!(state, State::Up(_) | State::Called { .. });
        self.leaving && !self.nodes.iter().any(|node| waits(&node.state) || node.wired.is_some())
    }

    /// Does what is due; when to look again. What connections brought has to be told before: a process that stood still
    /// itself takes nobody for silent. It looks at least once a beat; where more time has passed it did not run, and where it has
    /// to wait for a processor others may have to, too. So silence counts by looks, in each of which the other one could have
    /// been heard: ten of them at least, however far apart they are. `ways` says what has become of the ways of packets to and from a node.
    pub fn look(&mut self, now: Instant, mut ways: impl FnMut(u16) -> Ways) -> Option<Instant> {
        let passed = now.saturating_duration_since(self.looked).min(self.bounds.beat);
        let late = self.unknown.iter().filter(|unknown| unknown.until <= now);
        self.out.extend(late.map(|unknown| Out::Close(unknown.on)));
        self.unknown.retain(|unknown| unknown.until > now);
        let mut next = None;
        for node in 0..self.nodes.len() as u16 {
            let ways = ways(node);
            let wired = self.look_at_wired(node, ways, passed, now);
            let met = self.look_at(node, ways, passed, now);
            next = next.into_iter().chain(wired).chain(met).min();
        }
        next = next.into_iter().chain(self.look_at_calls(now)).min();
        self.looked = now;
        self.next = next.into_iter().chain(self.unknown.iter().map(|unknown| unknown.until)).min();
        self.next
    }

    fn look_at(&mut self, node: u16, ways: Ways, passed: Duration, now: Instant) -> Option<Instant> {
        let Bounds { beat, silence, unreached, nobody, .. } = self.bounds;
        match &mut self.nodes[usize::from(node)].state {
            State::Unmet => None,
            // Of a job the packets wait.
            State::Nobody { until } if self.job && *until > now => Some(*until),
            State::Nobody { .. } if self.job => {
                self.settle(node, State::Unmet);
                None
            }
            State::Nobody { until } => {
                let again = *until + unreached;
                self.look_at_silent(node, again, now)
            }
            State::Awaited { until } | State::Calling { until, .. } | State::Called { until, .. }
                if *until > now =>
            {
                Some(*until)
            }
            State::Calling { on, .. } => {
                let on = *on;
                self.out.push(Out::Unanswered(node));
                self.close(on);
                self.nobody(node, now);
                self.look_at_silent(node, now + nobody + unreached, now)
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
                let passed = passed.min(now.saturating_duration_since(up.said)); // it may have been met since the last look
                up.silent += passed;
                let before = up.unheard;
                if ways.used && !up.heard && up.broke.is_none() && !up.leaves {
                    up.unheard += passed;
                }
                let passes = |bound: Duration| before < bound && up.unheard >= bound;
                if passes(unreached / 4) {
                    self.out.push(Out::Unheard(node)); // the program may not wait until the end
                }
                let over = up.broke.map_or(up.silent >= silence, |until| until <= now);
                if over || passes(unreached) {
                    let end = up.end();
                    self.gone(node, end);
                    return None;
                }
                let on = (up.broke.is_none() && !self.leaving && now >= up.said + beat).then_some(up.on);
                if on.is_some() {
                    up.said = now;
                }
                let next = up.broke.unwrap_or(up.said.max(now) + beat);
                if let Some(on) = on {
                    self.say(on, Word::Beat { came: ways.came });
                }
                Some(next)
            }
        }
    }

    /// Nobody was met. Packets of a job are for a process that is there, or was: it is lost where that goes on.
    pub(super) fn nobody(&mut self, node: u16, now: Instant) {
        self.note_silence(node, now);
        match self.job && self.in_vain(node, now) >= self.bounds.unreached && !self.is_heard(node) {
            true => self.never_met(node),
            false => self.settle(node, State::Nobody { until: now + self.bounds.nobody }),
        }
    }

    /// So long a node is called.
    pub(super) fn in_vain(&self, node: u16, now: Instant) -> Duration {
        self.nodes[usize::from(node)]
            .vain
            .map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    /// A process of a job is lost, whoever it is.
    pub(super) fn never_met(&mut self, node: u16) {
        self.nodes[usize::from(node)].never = true;
        self.gone(node, End::Lost);
    }

    pub(super) fn gone(&mut self, node: u16, end: End) {
        if let State::Up(Up { on, process, .. }) = self.nodes[usize::from(node)].state {
            if end == End::Lost {
                self.remember_lost(node, process);
            }
            self.close(on);
        }
        if let Some(known) = self.known.as_ref().and_then(|known| known.process(node)) {
            self.hang_up(node);
            let of = &mut self.nodes[usize::from(node)];
            (of.wired, of.never) = (None, true);
            if end == End::Lost {
                self.remember_lost(node, known);
            }
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

#[cfg(test)]
mod tests;

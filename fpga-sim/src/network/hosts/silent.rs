//! Hosts of a network that do not answer. A card's packets go in order, so what waits for one of them holds up all behind it: packets wait
//! for the first call of a silent host, for those of others only shortly while one is silent, and for no later call until one is answered.

use std::time::{Duration, Instant};

use super::events::{Bounds, News, Want};
use super::meeting::{Calling, Meetings, State};

/// A call that came to nothing after so long was not answered. Where another host is silent already, packets wait no longer for one.
const NO_ANSWER: Duration = Duration::from_secs(1);

impl Meetings {
    /// Whether packets wait for a call that is made now.
    pub(super) fn waits_for_call(&self, node: u16) -> Want {
        if self.nodes[usize::from(node)].silent { Want::ThrowAway } else { Want::Wait }
    }

    /// A call came to nothing. The network may say sooner that the host is not reached (Linux does after 3 s on one's own); that it refuses,
    /// it says at once. Packets of a job wait all the same: its processes are there, or lost.
    pub(super) fn note_silence(&mut self, node: u16, now: Instant) {
        let (meeting, answer) = (self.bounds.meeting, self.answer());
        let of = &mut self.nodes[usize::from(node)];
        if let State::Calling { until, stage: Calling::Connecting, .. } = of.state {
            let took = meeting.saturating_sub(until.saturating_duration_since(now));
            of.silent |= took >= answer && !self.job;
        }
    }

    fn answer(&self) -> Duration {
        NO_ANSWER.min(self.bounds.meeting / 2)
    }

    /// A host that does not answer is called again as long as it was wanted lately, so that packets for it never wait. Of who is not, the
    /// next one waits again.
    pub(super) fn look_at_silent(&mut self, node: u16, again: Instant, now: Instant) -> Option<Instant> {
        let Bounds { meeting, nobody, wanted, .. } = self.bounds;
        let of = &mut self.nodes[usize::from(node)];
        if !of.silent || self.leaving {
            return None;
        }
        if of.wanted.is_none_or(|since| now >= since + wanted) {
            of.silent = false;
            return None;
        }
        if now < again {
            return Some(again);
        }
        match self.call(node, now) {
            Ok(()) => Some(now + meeting),
            Err(error) => {
                tracing::warn!("node {node} cannot be called: {error}");
                self.set(node, State::Nobody { until: now + nobody });
                Some(now + nobody + self.bounds.unreached)
            }
        }
    }

    /// Where a host is silent packets for others wait only shortly for calls, which go on; when to look again. Those for many of them, one after
    /// the other, would else wait as long for each.
    pub(super) fn look_at_calls(&mut self, now: Instant) -> Option<Instant> {
        if !self.nodes.iter().any(|node| node.silent) {
            return None;
        }
        let (meeting, answer) = (self.bounds.meeting, self.answer());
        let mut next = None;
        for (of, node) in self.nodes.iter_mut().zip(0..) {
            let State::Calling { until, stage: Calling::Connecting, .. } = of.state else { continue };
            match (until + answer).checked_sub(meeting).filter(|_| !of.silent) {
                None => {}
                Some(until) if until > now => next = next.into_iter().chain([until]).min(),
                Some(_) => {
                    of.silent = true;
                    self.news.push(News::Unanswered { node });
                }
            }
        }
        next
    }
}

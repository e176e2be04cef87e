//! Cores of a host, where it has more threads than cores.
//!
//! A thread has a core while it computes, and keeps it until that is done. It also has one while it polls, but gives it up
//! after `host.slice_ns` to one that wants it; when its word has changed it wants one again. Who wants a core gets the one
//! that is to be had first, in the order in which they ask. A thread that waits for room in the card's queue has none.

use super::Ps;
use super::flag::Poll;

/// Those of a node.
#[derive(Default)]
pub(super) struct Cores {
    threads: u64,
    /// None: there are enough for all.
    cores: Vec<Core>,
}

#[derive(Clone, Copy, Default)]
struct Core {
    /// When what computes is done.
    free: Ps,
    /// Who polls there, and since when.
    poller: Option<(u32, Ps)>,
}

impl Core {
    fn available(&self, here: Ps, slice: Ps) -> Ps {
        let polled = self.poller.map_or(Ps::ZERO, |(_, since)| since + slice);
        here.max(self.free).max(polled)
    }
}

impl Cores {
    /// A thread begins, on a host of so many cores.
    pub fn begin(&mut self, cores: u64) {
        self.threads += 1;
        if self.threads > cores && self.cores.is_empty() {
            self.cores.resize(usize::try_from(cores).unwrap_or(usize::MAX), Core::default());
        }
    }

    pub fn end(&mut self) {
        self.threads -= 1;
        if self.threads == 0 {
            self.cores.clear();
        }
    }

    fn first(&mut self, here: Ps, slice: Ps) -> Option<(Ps, &mut Core)> {
        let when = |core: &Core| core.available(here, slice);
        // Of two the one on which nobody polls.
        let core = self.cores.iter_mut().min_by_key(|core| (when(core), core.poller.is_some()))?;
        Some((core.available(here, slice), core))
    }

    /// A thread computes for so long from `here` on: when it is done.
    pub fn compute(&mut self, here: Ps, time: Ps, slice: Ps) -> Ps {
        let Some((start, core)) = self.first(here, slice) else { return here + time };
        *core = Core { free: start + time, poller: None };
        start + time
    }

    /// A thread polls from `here` on: when it first looks.
    pub fn poll(&mut self, task: u32, here: Ps, slice: Ps) -> Ps {
        let Some((start, core)) = self.first(here, slice) else { return here };
        *core = Core { free: start, poller: Some((task, start)) };
        start
    }

    /// The word changes at `now` that a thread polls since then: when it goes on.
    pub fn sees(&mut self, task: u32, since: Ps, poll: Poll, now: Ps, slice: Ps) -> Ps {
        let enough = self.cores.is_empty();
        let own = |core: &&mut Core| core.poller.is_some_and(|(poller, _)| poller == task);
        match self.cores.iter_mut().find(own) {
            Some(core) => {
                let at = poll.sees(since, now);
                *core = Core { free: at, poller: None };
                at
            }
            None if enough => poll.sees(since, now),
            // It lost its core, and looks as soon as it has one again.
            None => self.compute(now, poll.look, slice),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE: Ps = Ps(1000);

    fn cores(cores: u64, threads: u64) -> Cores {
        let mut all = Cores::default();
        (0..threads).for_each(|_| all.begin(cores));
        all
    }

    #[test]
    fn threads_queue_where_there_are_more_than_cores() {
        let mut enough = cores(3, 3);
        assert_eq!([0, 0, 0].map(|at| enough.compute(Ps(at), Ps(10), SLICE).0), [10, 10, 10]);
        let mut scarce = cores(2, 3);
        assert_eq!([0, 0, 0, 12].map(|at| scarce.compute(Ps(at), Ps(10), SLICE).0), [10, 10, 20, 22]);
        (0..3).for_each(|_| scarce.end());
        assert_eq!(scarce.compute(Ps(0), Ps(10), SLICE).0, 10, "none is left to share with");
    }

    #[test]
    fn who_polls_gives_its_core_up_after_a_slice() {
        let mut one = cores(1, 2);
        let poll = Poll { period: Ps(10), look: Ps(3) };
        assert_eq!(one.poll(7, Ps(100), SLICE), Ps(100));
        assert_eq!(one.compute(Ps(200), Ps(50), SLICE), Ps(1150));
        // It looks again when the other is done, which its word's change did not wait for.
        assert_eq!(one.sees(7, Ps(100), poll, Ps(1120), SLICE), Ps(1153));
        assert_eq!(one.poll(8, Ps(1160), SLICE), Ps(1160));
        assert_eq!(one.sees(8, Ps(1160), poll, Ps(1165), SLICE), Ps(1173), "it kept its core");
        assert_eq!(one.compute(Ps(1165), Ps(1), SLICE), Ps(1174));
    }
}

//! Both rings of a node: attributes to the host, answers to the GPU.

use std::collections::VecDeque;

use extoll_sim::timed::{Block, Flag, Node, Ps, Timed};

use super::costs::Costs;
use crate::memory::Memory;

/// A call, as its attribute says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// Read, and nothing done: Fig. 5.
    Nothing {
        arguments: u64,
    },
    Isend {
        bytes: u64,
    },
    Irecv,
    /// Of one request, or of all.
    Wait {
        arguments: u64,
    },
    Allreduce,
}

impl Call {
    /// Arguments of the MPI function.
    pub fn arguments(self) -> u64 {
        match self {
            Call::Nothing { arguments } | Call::Wait { arguments } => arguments,
            Call::Isend { .. } | Call::Irecv => 7,
            Call::Allreduce => 6,
        }
    }
}

/// A counter on the other side of the bus: each count is visible a while after it was made.
#[derive(Clone)]
struct Counter {
    flag: Flag,
    visible: Memory<Vec<Ps>>,
}

impl Counter {
    fn new(timed: &Timed) -> Counter {
        Counter { flag: timed.flag(), visible: Memory::default() }
    }

    fn count(&self, visible: Ps) {
        self.visible.lock().push(visible);
        self.flag.add(1);
    }

    /// When looks that began at `since`, one behind the other, have seen the `count`th.
    fn seen(&self, since: Ps, count: u64, look: Ps) -> Ps {
        let visible = self.visible.lock()[count as usize - 1];
        let before = visible.saturating_sub(since).0.div_ceil(look.0.max(1));
        since + look * (before + 1)
    }
}

/// Rings of one port.
#[derive(Clone)]
pub(super) struct Ring {
    pub costs: Costs,
    posted: Counter,
    answered: Counter,
    calls: Memory<VecDeque<Call>>,
}

impl Ring {
    pub fn new(timed: &Timed, costs: Costs) -> Ring {
        let (posted, answered) = (Counter::new(timed), Counter::new(timed));
        Ring { costs, posted, answered, calls: Memory::default() }
    }

    /// A kernel makes a call and goes on.
    pub fn post(&self, block: &Block<'_>, call: Call) {
        block.work(self.costs.post);
        self.calls.lock().push_back(call);
        self.posted.count(block.now() + self.costs.crossing);
    }

    /// `GMPI_Synchronize`: a kernel waits until all of its `count` calls are answered.
    pub fn synchronize(&self, block: &Block<'_>, count: u64) {
        let since = block.now();
        block.wait(&self.answered.flag, count, self.costs.placement.answers());
        let seen = self.answered.seen(since, count, self.costs.kernel_look);
        block.work(seen.saturating_sub(block.now()));
    }

    /// The daemon takes the `count`th call, from 1.
    pub fn take(&self, node: Node<'_>, count: u64) -> Option<Call> {
        let since = node.now();
        node.wait(&self.posted.flag, count);
        let seen = self.posted.seen(since, count, self.costs.look);
        node.work(seen.saturating_sub(node.now()));
        let call = self.calls.lock().pop_front()?;
        node.work(self.costs.read(call.arguments()));
        Some(call)
    }

    /// The daemon answers a call.
    pub fn answer(&self, node: Node<'_>) {
        node.work(self.costs.answer);
        self.answered.count(node.now() + self.costs.back);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use extoll_sim::timed::System;

    #[test]
    fn a_count_is_seen_by_the_first_look_that_begins_behind_it() {
        let timed = Timed::new(&System::named("ha-pacs").unwrap(), 1, 1).unwrap();
        let counter = Counter::new(&timed);
        counter.count(Ps(25));
        for (since, seen) in [(0, 40), (5, 35), (25, 35), (30, 40)] {
            assert_eq!(counter.seen(Ps(since), 1, Ps(10)), Ps(seen), "since {since}");
        }
    }
}

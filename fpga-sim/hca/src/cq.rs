//! Completion queues.

use std::collections::VecDeque;

use crate::work::Completion;

/// A completion queue was full: the completion is lost and the queue is broken (IBTA 10.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overrun;

/// Where an adapter puts completions: a queue of its own, or one in memory in some adapter's format.
pub trait CompletionQueue: Send {
    /// Puts one in.
    ///
    /// # Errors
    /// [`Overrun`]: the reader has not made room.
    fn push(&mut self, completion: &Completion) -> Result<(), Overrun>;

    /// Takes one out; queues in memory are read there.
    fn pop(&mut self) -> Option<Completion> {
        None
    }
}

/// A completion queue in the adapter, which is read by calls.
pub struct Queue {
    entries: VecDeque<Completion>,
    depth: usize,
}

impl Queue {
    /// A queue of `depth` entries.
    pub fn new(depth: usize) -> Queue {
        Queue { entries: VecDeque::new(), depth }
    }
}

impl CompletionQueue for Queue {
    fn push(&mut self, completion: &Completion) -> Result<(), Overrun> {
        if self.entries.len() >= self.depth {
            return Err(Overrun);
        }
        self.entries.push_back(*completion);
        Ok(())
    }

    fn pop(&mut self) -> Option<Completion> {
        self.entries.pop_front()
    }
}

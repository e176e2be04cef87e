//! What is going to happen in a [`World`](super::World), by time.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::time::Instant;

use crate::network::links::link::Frame;
use crate::network::links::torus::Direction;

/// Something to come.
pub(super) enum Happening<T> {
    /// A frame reaches the end of its cable at a node's port.
    Arrive { node: u16, port: Direction, frame: Frame<T> },
    /// A link's timer may have run out.
    Timer { node: u16, port: Direction },
    /// A node may try again to inject.
    Retry { node: u16, channel: usize },
}

struct Timed<T>(Instant, u64, Happening<T>);

impl<T> Timed<T> {
    fn key(&self) -> (Instant, u64) {
        (self.0, self.1)
    }
}

impl<T> PartialEq for Timed<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<T> Eq for Timed<T> {}

impl<T> PartialOrd for Timed<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Timed<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

/// Happenings by time; simultaneous ones in the order in which they were added.
pub(super) struct Agenda<T> {
    entries: BinaryHeap<Reverse<Timed<T>>>,
    added: u64,
}

impl<T> Agenda<T> {
    pub fn new() -> Self {
        Agenda { entries: BinaryHeap::new(), added: 0 }
    }

    pub fn add(&mut self, at: Instant, happening: Happening<T>) {
        self.added += 1;
        self.entries.push(Reverse(Timed(at, self.added, happening)));
    }

    /// The next happening that is due.
    pub fn pop(&mut self, now: Instant) -> Option<Happening<T>> {
        self.next().filter(|&at| at <= now)?;
        self.entries.pop().map(|Reverse(timed)| timed.2)
    }

    /// When something is due next.
    pub fn next(&self) -> Option<Instant> {
        self.entries.peek().map(|Reverse(timed)| timed.0)
    }

    /// Forgets frames and timers of links.
    pub fn forget_links(&mut self) {
        self.entries.retain(|Reverse(timed)| matches!(timed.2, Happening::Retry { .. }));
    }
}

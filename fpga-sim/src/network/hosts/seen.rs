//! What threads see of the others without asking the core: who is gone, and whether packets are there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

use super::asks::Asks;
use super::events::End;
use crate::packet::{ANYONE, Class, NOBODY};

pub(super) struct Seen {
    nodes: Box<[Node]>,
    /// Moves whenever a process is found to be gone.
    departures: Arc<AtomicU32>,
    /// A bit for each class of which packets wait.
    arrivals: AtomicU8,
    pub asks: Asks,
}

#[derive(Default)]
struct Node {
    process: AtomicU64,
    /// Numbers processes of the node; [`ANYONE`]: none was met.
    era: AtomicU32,
    /// The last number that was given.
    last: AtomicU32,
    /// 0, or how the last process ended that was met.
    end: AtomicU8,
    /// It has a landing for this process.
    lands: AtomicBool,
}

impl Seen {
    pub fn new(nodes: usize) -> Arc<Seen> {
        let nodes = (0..nodes).map(|_| Node::default()).collect();
        Arc::new(Seen {
            nodes,
            departures: Arc::default(),
            arrivals: AtomicU8::new(0),
            asks: Asks::default(),
        })
    }

    /// The number that a process has, or gets when it is met.
    pub fn number(&self, node: u16, process: u64) -> u32 {
        let node = &self.nodes[usize::from(node)];
        let era = node.era.load(Ordering::Relaxed);
        if era != ANYONE && node.process.load(Ordering::Relaxed) == process {
            return era;
        }
        let last = node.last.load(Ordering::Relaxed);
        let next = if last >= NOBODY - 1 { 1 } else { last + 1 };
        node.last.store(next, Ordering::Relaxed);
        next
    }

    /// A process was met that has this number.
    pub fn met(&self, node: u16, process: u64, era: u32) {
        let node = &self.nodes[usize::from(node)];
        node.process.store(process, Ordering::Relaxed);
        node.end.store(0, Ordering::Release);
        node.era.store(era, Ordering::Release);
    }

    /// The process at a node has a landing for this one, or no more.
    pub fn set_lands(&self, node: u16, lands: bool) {
        self.nodes[usize::from(node)].lands.store(lands, Ordering::Relaxed);
    }

    pub fn lands(&self, node: u16) -> bool {
        self.nodes.get(usize::from(node)).is_some_and(|node| node.lands.load(Ordering::Relaxed))
    }

    pub fn gone(&self, node: u16, end: End) {
        self.nodes[usize::from(node)].end.store(end as u8, Ordering::Release);
        self.departures.fetch_add(1, Ordering::Release);
    }

    /// The number of the process at a node, or of the last one.
    pub fn era(&self, node: u16) -> u32 {
        self.nodes.get(usize::from(node)).map_or(ANYONE, |node| node.era.load(Ordering::Acquire))
    }

    /// The process at a node, or the last one.
    #[cfg(test)]
    pub fn process(&self, node: u16) -> u64 {
        self.nodes[usize::from(node)].process.load(Ordering::Acquire)
    }

    /// How the last process ended that was met at a node.
    pub fn end(&self, node: u16) -> Option<End> {
        match self.nodes.get(usize::from(node))?.end.load(Ordering::Acquire) {
            0 => None,
            1 => Some(End::Left),
            _ => Some(End::Lost),
        }
    }

    pub fn departures(&self) -> &Arc<AtomicU32> {
        &self.departures
    }

    /// Of which classes packets wait for the card: a bit for each. Under the core's lock.
    #[inline]
    pub fn set_arrivals(&self, classes: u8) {
        if self.arrivals.load(Ordering::Relaxed) != classes {
            self.arrivals.store(classes, Ordering::Release);
        }
    }

    #[inline]
    pub fn has_arrivals(&self) -> bool {
        self.arrivals.load(Ordering::Acquire) != 0
    }

    /// Whether packets of this class wait.
    #[inline]
    pub fn has_arrivals_of(&self, class: Class) -> bool {
        self.arrivals.load(Ordering::Acquire) & 1 << class as u8 != 0
    }
}

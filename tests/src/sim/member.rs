//! One node as its program has it: its port, what others put to it, and what it gets from them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use ggas::{Connection, Port};

use super::area::Area;
use super::messages::Mail;
use super::stores::Share;
use super::streams::{Expected, Streams};

/// What a node has for one start of another node.
pub struct Pair {
    /// What the other puts.
    pub inbox: Area,
    /// What this one gets from it.
    pub fetched: Area,
    pub connection: Connection,
    /// Value of the lock that the other has here.
    pub lock: Cell<i32>,
}

/// One start of a node.
pub struct Member {
    pub node: usize,
    /// Which start of the node this is.
    pub start: u64,
    pub port: Port,
    /// In networks with messages.
    pub mail: Option<Mail>,
    /// In networks with windows.
    pub share: Option<Share>,
    /// Never changes: what it puts, and what others get.
    pub outbox: Area,
    /// By the other node and its start.
    pub pairs: RefCell<BTreeMap<(usize, u64), Rc<Pair>>>,
    /// What must come, by the other node.
    pub streams: RefCell<Vec<Streams>>,
    /// Notifications that were seen never to come.
    pub gaps: Cell<usize>,
    /// Deaths of nodes that its program knows of.
    pub acknowledged: Cell<u64>,
    /// Its program no longer reads nor posts.
    pub over: Cell<bool>,
}

impl Member {
    pub fn pair(&self, other: &Member) -> Option<Rc<Pair>> {
        self.pairs.borrow().get(&(other.node, other.start)).cloned()
    }

    /// Nobody knows any more what comes from this node, or about it.
    pub fn doubt(&self, node: usize) {
        self.streams.borrow_mut()[node].uncertain = true;
        self.mail.iter().for_each(|mail| mail.doubt(node));
        self.share.iter().for_each(|share| share.doubt(node));
    }

    /// The first of them.
    pub fn first_missing(&self) -> Option<Expected> {
        self.streams
            .borrow()
            .iter()
            .filter(|streams| !streams.uncertain)
            .find_map(Streams::first_missing)
            .copied()
    }

    /// Notifications that have not come.
    pub fn missing(&self) -> usize {
        self.streams.borrow().iter().filter(|streams| !streams.uncertain).map(Streams::missing).sum()
    }
}

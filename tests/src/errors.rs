//! Error counters of a node (spec 8.3).

use std::collections::BTreeMap;

use extoll_abi::regs::{ERROR_COUNTERS, ErrorCounter};
use ggas::Node;

/// All error counters of the RMA unit at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Errors(BTreeMap<&'static str, u16>);

impl Errors {
    /// The counters of `node` now.
    pub fn of(node: &Node) -> Errors {
        let read = |c: &ErrorCounter| (c.name, c.count(node.read_register(c.register).unwrap()));
        Errors(ERROR_COUNTERS.iter().map(read).collect())
    }

    /// What was counted since `before`, without zeroes.
    pub fn since(&self, before: &Errors) -> Vec<(&'static str, u16)> {
        let grown = self.0.iter().map(|(name, count)| (*name, count - before.0[name]));
        grown.filter(|(_, count)| *count != 0).collect()
    }

    /// One counter.
    pub fn count(&self, counter: ErrorCounter) -> u16 {
        self.0[counter.name]
    }
}

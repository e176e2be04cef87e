//! What programs of figures share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use extoll_sim::timed::{Node, Ps, Timed};

/// The time that node 0's rounds take.
#[derive(Clone, Default)]
pub(crate) struct Span(Arc<AtomicU64>);

impl Span {
    /// Runs the rounds of a node; those of node 0 are timed.
    pub(crate) fn over(&self, node: usize, now: impl Fn() -> Ps, rounds: impl FnOnce()) {
        let from = now();
        rounds();
        if node == 0 {
            // One thread runs all programs.
            self.0.store((now() - from).0, Ordering::Relaxed);
        }
    }

    /// What was timed.
    pub(crate) fn length(&self) -> Ps {
        Ps(self.0.load(Ordering::Relaxed))
    }
}

/// Runs a program on each node's host.
pub(crate) fn on_all<'t>(timed: &'t Timed, nodes: usize, program: impl Fn(Node<'t>) + 't) {
    let program = &program;
    let programs = (0..nodes).map(|me| {
        let node = timed.node(me);
        (me, format!("host {me}"), move || program(node))
    });
    timed.run(programs);
}

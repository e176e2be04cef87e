//! What programs of figures share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use extoll_sim::timed::{Block, Node, Place, Ps, Put, System, Timed};

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

/// Rounds of a side of a ping-pong, from 1: node 0 sends first, node 1 waits first.
pub(crate) fn pingpong(me: usize, rounds: u64, send: impl Fn(u64), wait: impl Fn(u64)) {
    for round in 1..=rounds {
        if me == 0 {
            send(round);
        }
        wait(round);
        if me == 1 {
            send(round);
        }
    }
}

/// A put between the memories of two nodes' GPUs.
pub(crate) fn between_gpus(to: usize, bytes: u64) -> Put {
    Put::new(to, bytes).from(Place::Gpu).into(Place::Gpu)
}

/// What a kernel does behind the look that sees a notification: that is read to its end, the read pointer is read and moved,
/// and its two words are cleared, all in host memory (section 5.6.4).
pub(crate) fn free_notification(block: &Block<'_>) {
    let gpu = &block.timed().system().gpu;
    block.work(Ps::ns(gpu.poll_host_ns) * 2 + Ps::ns(gpu.store_ns) * 3);
}

/// Blocks that a GPU holds at once.
pub(crate) fn places(system: &System) -> usize {
    (system.gpu.sms * system.gpu.blocks_per_sm) as usize
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

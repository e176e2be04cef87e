//! The daemon thread, one call after the other (III C), and the programs of two nodes.

use std::sync::Arc;

use extoll_sim::timed::{Block, Kernel, Node, System, Timed};

use super::costs::{Costs, Placement};
use super::messages::Messages;
use super::ring::{Call, Ring};
use crate::PaperError;

/// Serves so many calls.
pub(super) fn serve(node: Node<'_>, ring: &Ring, messages: &Messages, calls: u64) {
    let (mut received, mut sums) = (0, 0);
    for count in 1..=calls {
        let Some(call) = ring.take(node, count) else { return };
        match call {
            Call::Nothing { .. } => {}
            Call::Isend { bytes } => messages.isend(node, bytes),
            Call::Irecv => messages.irecv(node),
            Call::Wait { .. } => {
                received += 1;
                messages.wait(node, received);
            }
            Call::Allreduce => {
                sums += 1;
                messages.allreduce(node, sums);
            }
        }
        ring.answer(node);
    }
}

/// A thread of a host.
type Program<'t> = Box<dyn FnOnce() + 't>;

/// A kernel of so many blocks on each node, and a daemon beside it that serves so many calls.
pub(super) fn with_daemons(
    system: &System,
    placement: Placement,
    seed: u64,
    (nodes, blocks, calls): (usize, usize, u64),
    kernel: impl Fn(&Arc<Timed>, usize, Ring) -> Box<dyn Fn(Block<'_>) + Send + Sync>,
) -> Result<(), PaperError> {
    let timed = Timed::new(system, nodes, seed)?;
    let messages = Messages::new(&timed, system);
    let rings: Vec<Ring> = (0..nodes).map(|_| Ring::new(&timed, Costs::of(placement, system))).collect();
    let mut programs: Vec<(usize, String, Program<'_>)> = Vec::new();
    for (me, ring) in rings.iter().enumerate() {
        let (node, messages) = (timed.node(me), &messages);
        let code = kernel(&timed, me, ring.clone());
        let daemon = Box::new(move || serve(node, ring, messages, calls));
        programs.push((me, format!("daemon {me}"), daemon));
        let host = Box::new(move || {
            node.stream(0).launch(Kernel::new("program", blocks), code);
            node.stream(0).synchronize();
        });
        programs.push((me, format!("host {me}"), host));
    }
    timed.run(programs);
    Ok(())
}

//! Jobs whose members all lie in this process, each with a card and memory of its own.

use std::sync::Arc;
use std::time::Instant;

use extoll_sim::Fabric;
use extoll_sim::shared::{Nodes, ProcessFabric};
use ggas_members::{Member, Members, Shape};

use super::{Node, PATIENCE, Port, Setup};

/// The cards of a job's members, by rank.
pub fn members(processes: u32, per_node: u32) -> Vec<Node> {
    let job = Member::all_of_job(Shape::new(processes, per_node).unwrap()).unwrap();
    job.into_iter().map(|member| over(&ProcessFabric::join(member).unwrap())).collect()
}

/// The card of a member, on its node.
pub fn over(fabric: &Arc<ProcessFabric>) -> Node {
    let shared = Some(fabric.nodes().clone());
    let setup = Setup { shared, ..Setup::over(fabric.clone() as Arc<dyn Fabric>) };
    setup.node(fabric.member().node())
}

/// The network's nodes, as a member sees them.
pub fn nodes(node: &Node) -> &Arc<Nodes> {
    node.shared.as_ref().unwrap()
}

/// Opens the lowest free VPID of the member's node, as drivers do.
pub fn open(node: &Node) -> Port<'_> {
    let shared = node.shared.as_ref();
    node.open(shared.map_or(0, |nodes| nodes.take_vpid(251).unwrap()), 1)
}

/// Drives all cards until `done`.
pub fn drive(nodes: &[Node], what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "{what} did not come");
        if !nodes.iter().fold(false, |moved, node| moved | node.nic.progress()) {
            std::thread::yield_now();
        }
    }
}

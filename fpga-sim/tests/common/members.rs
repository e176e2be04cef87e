//! Jobs whose members all lie in this process, each with a card and memory of its own.

use std::time::Instant;

use extoll_sim::process::{self, JobSegment, ProcessFabric, Shape, SharedNode, local};

use super::{Node, PATIENCE, Port, Setup};

/// The cards of a job's members, by rank.
pub fn members(processes: u32, per_node: u32) -> Vec<Node> {
    let job = local(Shape::new(processes, per_node).unwrap()).unwrap();
    job.into_iter().map(member).collect()
}

fn member(member: process::Membership) -> Node {
    let (rank, job) = (member.rank, member.job.clone());
    let node = job.shape().node_of(rank);
    let shared = Some(SharedNode { job, rank });
    let setup = Setup { shared, ..Setup::over(ProcessFabric::new(member).unwrap()) };
    setup.node(node)
}

pub fn job(node: &Node) -> &JobSegment {
    &node.shared.as_ref().unwrap().job
}

/// Opens the lowest free VPID of the member's node, as drivers do.
pub fn open(node: &Node) -> Port<'_> {
    let shared = node.shared.as_ref();
    node.open(shared.map_or(0, |shared| shared.job.take_vpid(shared.rank, 251).unwrap()), 1)
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

//! Jobs whose members all lie in this process, each with a card and memory of its own.

use std::sync::Arc;
use std::time::Instant;

use extoll_abi::{Address, Command, CommandCode, ErrorUnits, Mode, Modifier, Spec};
use extoll_sim::Fabric;
use extoll_sim::packet::{ANYONE, Kind, Packet, Payload};
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

/// A packet as it comes from a card, whose address says which of the test's packets it is.
pub fn packet(from: u16, to: Address, kind: Kind, number: u64, payload: Payload) -> Packet {
    let len = payload.len() as u32;
    Packet {
        source: Address::new(from, 0),
        destination: to,
        kind,
        command: CommandCode::from(Command::BtPut),
        spec: Spec::NONE,
        modifier: Modifier::NONE,
        mode: Mode::TE,
        error: ErrorUnits::NONE,
        tc: 0,
        protection: 0,
        fragment: 496,
        address: number,
        aux: 0,
        len,
        total: len,
        offset: 0,
        tag: number as u32,
        process: ANYONE,
        payload,
    }
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

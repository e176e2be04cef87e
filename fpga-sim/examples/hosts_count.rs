//! Half round trips of puts with a notification between two hosts that are this process, by turns on one thread: for whoever counts
//! instructions, which a machine that others use leaves as they are. FILE has two hosts, whose places are free here.
//!
//! ```text
//! hosts_count FILE BYTES HALF_ROUND_TRIPS
//! valgrind --fair-sched=yes --tool=callgrind --toggle-collect='hosts_count::half_round_trips*' hosts_count FILE BYTES HALF_ROUND_TRIPS
//! ```
//!
//! The second one counts without set-up, meeting, and threads beside. How often the receiver asks differs from run to run.

#[path = "../tests/common/mod.rs"]
mod common;

use std::path::Path;

use common::{Node, Pages, Port, Setup};
use extoll_abi::{Access, Address, Modifier, Request, Spec};
use extoll_sim::hosts::{HostsFabric, HostsFile};

/// Where puts go in the memory of their target.
const TO: usize = 1 << 20;
/// So often both cards run before what was posted is taken for lost.
const LOST: usize = 2_000;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let [_, file, bytes, trips] = &args[..] else { panic!("hosts_count FILE BYTES HALF_ROUND_TRIPS") };
    let bytes: u32 = bytes.parse().ok().filter(|bytes| *bytes as usize <= TO).expect("bytes, at most 1 MiB");
    let trips: usize = trips.parse().expect("half round trips");
    let file = HostsFile::read(Path::new(file)).expect("the file");
    let nodes =
        [0, 1].map(|node| Setup::over(HostsFabric::join(&file, node).expect("the network")).node(node));
    let pages = nodes.each_ref().map(|node| Pages::new(&node.memory, 2 * TO, 4096));
    let mut ports = nodes.each_ref().map(|node| node.open(0, 1));
    let nlas = [0, 1].map(|at| nodes[at].register(0, &pages[at], Access::ALL));
    meet(&nodes, &mut ports);
    half_round_trips(&nodes, &mut ports, nlas, (bytes, trips));
}

/// What is counted: a function of its own, so that tools can tell it from the rest.
#[inline(never)]
fn half_round_trips(
    nodes: &[Node; 2],
    ports: &mut [Port<'_>; 2],
    nlas: [u64; 2],
    (bytes, trips): (u32, usize),
) {
    for (from, to) in (0..trips).map(|trip| (trip % 2, 1 - trip % 2)) {
        let target = Address::new(to as u16, 0);
        ports[from].put(target, Spec::COMPLETER, nlas[from], nlas[to] + TO as u64, bytes);
        while ports[to].try_next().is_none() {
            nodes[to].nic.progress();
        }
    }
}

/// Each tells until the other hears: what comes before they have met goes nowhere.
fn meet(nodes: &[Node; 2], ports: &mut [Port<'_>; 2]) {
    let hello = Request::NotificationPut { class: 1, payload: 1 };
    for (from, to) in [(0, 1), (1, 0)] {
        while ports[to].try_next().is_none() {
            if nodes[from].nic.requester_idle(0) {
                ports[from].post(Address::new(to as u16, 0), Spec::COMPLETER, Modifier::NONE, &hello);
            }
            run(nodes);
        }
    }
    run(nodes); // for late ones
    ports.iter_mut().for_each(|port| while port.try_next().is_some() {});
}

/// Runs both cards for a while; threads that meet others get their turns.
fn run(nodes: &[Node; 2]) {
    for _ in 0..LOST {
        nodes.iter().for_each(|node| _ = node.nic.progress());
        std::thread::yield_now();
    }
}

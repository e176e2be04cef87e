//! Full queues of ports that change hands, and of engines that end: nothing is lost, and nothing is there twice.

mod common;

use std::time::Duration;

use common::engines::{CONFIG, errors, is_full};
use common::{SOON, region, until};
use ggas_device::engine::{EngineConfig, EngineErrors, EngineNetwork};
use ggas_kernels::Processor;
use ggas_rma::{Modifier, Node, Path, Port, PortConfig, Region, Request, Spec};

/// Of a queue; one of them stays free.
const ENTRIES: u64 = 256;
const FRAGMENT: u64 = 496;

/// Nothing is dropped for want of time, and the host does not wait for as long as a full queue is waited for.
fn network(timeout: Duration) -> EngineNetwork {
    let config = EngineConfig { queue_timeout: Duration::from_secs(600), timeout, ..EngineConfig::default() };
    EngineNetwork::with_config(&[Processor::cpu(), Processor::cpu()], config).unwrap()
}

fn small_port(network: &EngineNetwork, node: usize) -> Port {
    let small = PortConfig { queue_bytes: 4096, segment_bytes: 4096, ..CONFIG };
    Node::new(network.device(node).unwrap()).open_port(small).unwrap()
}

fn to_kernels_and_back(port: Port) -> Port {
    port.for_kernels(&Processor::cpu(), Path::Slots).unwrap().into_port().unwrap()
}

/// Posts a put with a notification for each of more fragments than a queue has entries; where they are to lie.
fn put_of_many_fragments(origin: &Port, target: &Port, count: u64) -> ([Region; 2], u64) {
    let bytes = (count * FRAGMENT) as usize;
    let (from, to) = (region(origin, bytes, 1), region(target, bytes, 0));
    let write = to.nla(0).unwrap();
    let put = Request::Put { qw: false, read: from.nla(0).unwrap(), write, size: bytes as u32 };
    origin.connect(target.address()).post(&put, Spec::COMPLETER, Modifier::NTR).unwrap();
    ([from, to], write)
}

#[test]
fn a_port_with_a_full_queue_changes_hands_and_drops_nothing() {
    const POSTS: u64 = 2 * ENTRIES;
    let network = network(SOON);
    let (origin, mut target) = (small_port(&network, 0), small_port(&network, 1));
    let _running = network.run().unwrap();
    let connection = origin.connect(target.address());
    (0..POSTS).for_each(|i| connection.notification_put(1, i, Spec::COMPLETER).unwrap());
    for i in 0..POSTS {
        if i % 100 == 0 {
            until("the queue does not fill", || is_full(&target) || POSTS - i < ENTRIES);
            target = to_kernels_and_back(target);
        }
        assert_eq!(target.wait(SOON).unwrap().word0, i);
    }
    assert!(target.poll().is_none());
    assert_eq!(errors(&network, 1), EngineErrors::default());
}

#[test]
fn a_full_queue_holds_up_no_change_of_other_ports() {
    let network = network(SOON);
    let (origin, target) = (small_port(&network, 0), small_port(&network, 1));
    let _running = network.run().unwrap();
    let connection = origin.connect(target.address());
    (0..ENTRIES).for_each(|i| connection.notification_put(1, i, Spec::COMPLETER).unwrap());
    until("the queue does not fill", || is_full(&target));
    // The last one waits, if not at the first of them.
    for _ in 0..4 {
        small_port(&network, 1).close().unwrap();
    }
    for i in 0..ENTRIES {
        assert_eq!(target.wait(SOON).unwrap().word0, i);
    }
    assert_eq!(errors(&network, 1), EngineErrors::default());
}

#[test]
fn fragments_that_wait_for_room_are_told_once_though_their_port_changes_hands() {
    const FRAGMENTS: u64 = 2 * ENTRIES;
    let network = network(SOON);
    let (origin, mut target) = (small_port(&network, 0), small_port(&network, 1));
    let _running = network.run().unwrap();
    let (_regions, nla) = put_of_many_fragments(&origin, &target, FRAGMENTS);
    for i in 0..FRAGMENTS {
        if i % 100 == 0 {
            until("the queue does not fill", || is_full(&target) || FRAGMENTS - i < ENTRIES);
            target = to_kernels_and_back(target);
        }
        assert_eq!(target.wait(SOON).unwrap().word0, nla + i * FRAGMENT, "fragment {i}");
    }
    assert!(target.poll().is_none());
}

#[test]
fn fragments_that_wait_for_room_are_told_once_though_their_engine_ends() {
    const FRAGMENTS: u64 = ENTRIES + 100;
    let network = network(Duration::from_secs(1));
    let (origin, target) = (small_port(&network, 0), small_port(&network, 1));
    let running = network.run().unwrap();
    let (_regions, nla) = put_of_many_fragments(&origin, &target, FRAGMENTS);
    until("the queue does not fill", || is_full(&target));
    drop(running);
    let _running = network.run().unwrap();
    for i in 0..FRAGMENTS {
        assert_eq!(target.wait(SOON).unwrap().word0, nla + i * FRAGMENT, "fragment {i}");
    }
    assert!(target.poll().is_none());
}

#[test]
fn an_error_that_waits_to_be_told_is_counted_once_though_its_port_changes_hands() {
    let network = network(SOON);
    let (origin, mut target) = (small_port(&network, 0), small_port(&network, 1));
    let from = region(&origin, 100, 1);
    let _running = network.run().unwrap();
    let connection = origin.connect(target.address());
    (0..ENTRIES - 1).for_each(|i| connection.notification_put(1, i, Spec::COMPLETER).unwrap());
    // Nobody registered memory there.
    connection.put(&from, 0, 100, 1 << 35, Spec::COMPLETER).unwrap();
    until("the put is not refused", || errors(&network, 1).target > 0);
    for _ in 0..3 {
        target = to_kernels_and_back(target);
    }
    for i in 0..ENTRIES - 1 {
        assert_eq!(target.wait(SOON).unwrap().word0, i);
    }
    assert!(!target.wait(SOON).unwrap().error().is_empty());
    assert_eq!(errors(&network, 1), EngineErrors { target: 1, ..EngineErrors::default() });
}

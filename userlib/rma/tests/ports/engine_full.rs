//! Full queues while other ports open and close, and of engines that end: nothing is lost, and nothing is there twice.

use std::thread;
use std::time::{Duration, Instant};

use crate::common::engines::{
    ENTRIES, FRAGMENT, errors, is_full, patient, put_of_fragments, small_port, with_config,
};
use crate::common::{SOON, bytes, pattern, region, until};
use ggas_device::engine::{EngineConfig, EngineErrors, EngineNetwork};
use ggas_rma::{Port, Region, Spec};

/// Changes of other ports, more of them than an engine can let pass without looking at what waits.
fn changes(network: &EngineNetwork, node: usize) {
    (0..4).for_each(|_| small_port(network, node).close().unwrap());
}

#[test]
fn a_full_queue_holds_up_no_change_of_other_ports() {
    let network = patient(SOON);
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
fn fragments_that_wait_for_room_are_told_once_though_other_ports_change() {
    const FRAGMENTS: u64 = 2 * ENTRIES;
    let network = patient(SOON);
    let (origin, target) = (small_port(&network, 0), small_port(&network, 1));
    let _running = network.run().unwrap();
    let regions = put_of_fragments(&origin, &target, FRAGMENTS, Spec::COMPLETER);
    let nla = regions[1].nla(0).unwrap();
    for i in 0..FRAGMENTS {
        if i % 100 == 0 {
            until("the queue does not fill", || is_full(&target) || FRAGMENTS - i < ENTRIES);
            changes(&network, 1);
        }
        assert_eq!(target.wait(SOON).unwrap().word0, nla + i * FRAGMENT, "fragment {i}");
    }
    assert!(target.poll().is_none());
}

#[test]
fn waiting_fragments_are_reported_once_though_their_engine_ends() {
    const FRAGMENTS: u64 = ENTRIES + 100;
    let network = patient(Duration::from_secs(1));
    let (origin, target) = (small_port(&network, 0), small_port(&network, 1));
    let running = network.run().unwrap();
    let regions = put_of_fragments(&origin, &target, FRAGMENTS, Spec::COMPLETER);
    let nla = regions[1].nla(0).unwrap();
    until("the queue does not fill", || is_full(&target));
    drop(running);
    let _running = network.run().unwrap();
    for i in 0..FRAGMENTS {
        assert_eq!(target.wait(SOON).unwrap().word0, nla + i * FRAGMENT, "fragment {i}");
    }
    assert!(target.poll().is_none());
}

#[test]
fn what_was_not_reported_to_a_port_is_not_to_the_next_one_of_its_vpid() {
    const FRAGMENTS: u64 = ENTRIES + 100;
    let network = patient(Duration::from_secs(1));
    let (origin, target) = (small_port(&network, 0), small_port(&network, 1));
    let address = target.address();
    let running = network.run().unwrap();
    let [_from, to] = put_of_fragments(&origin, &target, FRAGMENTS, Spec::COMPLETER);
    until("the queue does not fill", || is_full(&target));
    drop(running);
    drop(to);
    target.close().unwrap();
    let next = small_port(&network, 1);
    assert_eq!(next.address(), address);
    let len = (FRAGMENTS * FRAGMENT) as usize;
    let memory = region(&next, len, 9);
    let _running = network.run().unwrap();
    origin.connect(address).notification_put(5, 6, Spec::COMPLETER).unwrap();
    let first = next.wait(SOON).unwrap();
    assert_eq!((first.class(), first.word0), (5, 6));
    assert_eq!(bytes(&memory, 0, len), pattern(len, 9));
}

#[test]
fn an_error_that_waits_to_be_told_is_counted_once_though_other_ports_change() {
    let network = patient(SOON);
    let (origin, target) = (small_port(&network, 0), small_port(&network, 1));
    let from = region(&origin, 100, 1);
    let _running = network.run().unwrap();
    let connection = origin.connect(target.address());
    (0..ENTRIES - 1).for_each(|i| connection.notification_put(1, i, Spec::COMPLETER).unwrap());
    // Nobody registered memory there.
    connection.put(&from, 0, 100, 1 << 35, Spec::COMPLETER).unwrap();
    until("the put is not refused", || errors(&network, 1).target > 0);
    changes(&network, 1);
    for i in 0..ENTRIES - 1 {
        assert_eq!(target.wait(SOON).unwrap().word0, i);
    }
    assert!(!target.wait(SOON).unwrap().error().is_empty());
    assert_eq!(errors(&network, 1), EngineErrors { target: 1, ..EngineErrors::default() });
}

/// How long a full queue is waited for, by engines that are in a hurry.
const HURRY: Duration = Duration::from_secs(1);

fn in_a_hurry(nodes: usize) -> EngineNetwork {
    with_config(nodes, EngineConfig { queue_timeout: HURRY, ..EngineConfig::default() })
}

#[test]
fn a_full_queue_times_out_though_its_engine_sees_epochs_all_the_time() {
    let network = in_a_hurry(3);
    let (origin, target) = (small_port(&network, 0), small_port(&network, 1));
    let _running = network.run().unwrap();
    let connection = origin.connect(target.address());
    let losses = network.losses();
    let begun = Instant::now();
    (0..ENTRIES).for_each(|i| connection.notification_put(1, i, Spec::COMPLETER).unwrap());
    until("nothing is dropped", || {
        losses.lost(2);
        // Engines that hear something at every look do nothing else, and looks are rare on a busy machine.
        thread::sleep(HURRY / 10);
        errors(&network, 1).dropped > 0
    });
    assert!(begun.elapsed() >= HURRY, "{:?}", begun.elapsed());
    for i in 0..ENTRIES - 1 {
        assert_eq!(target.wait(SOON).unwrap().word0, i);
    }
    assert_eq!(errors(&network, 1), EngineErrors { dropped: 1, ..EngineErrors::default() });
}

#[test]
fn a_queue_that_was_read_and_is_full_again_is_waited_for_again() {
    let network = in_a_hurry(2);
    let (origin, target) = (small_port(&network, 0), small_port(&network, 1));
    let _running = network.run().unwrap();
    let connection = origin.connect(target.address());
    let post = |i| connection.notification_put(1, i, Spec::COMPLETER).unwrap();
    (0..ENTRIES).for_each(post);
    until("nothing is dropped", || errors(&network, 1).dropped == 1);
    for i in 0..ENTRIES - 1 {
        assert_eq!(target.wait(SOON).unwrap().word0, i);
    }
    // Its read pointer is where it was then.
    post(ENTRIES);
    assert_eq!(target.wait(SOON).unwrap().word0, ENTRIES);
    (0..ENTRIES - 1).for_each(post);
    let begun = Instant::now();
    post(ENTRIES);
    until("nothing is dropped", || errors(&network, 1).dropped == 2);
    assert!(begun.elapsed() >= HURRY, "{:?}", begun.elapsed());
}

/// As many fragments of a put as a packet has, of which a full queue takes `told`.
fn fragments_that_wait(network: &EngineNetwork, told: u64) -> (Port, [Region; 2]) {
    let (origin, target) = (small_port(network, 0), small_port(network, 1));
    let connection = origin.connect(target.address());
    (told..ENTRIES - 1).for_each(|i| connection.notification_put(1, i, Spec::COMPLETER).unwrap());
    let regions = put_of_fragments(&origin, &target, 8, Spec::COMPLETER);
    until("the queue does not fill", || is_full(&target));
    (target, regions)
}

fn told_once(target: &Port, told: u64, nla: u64) {
    for i in told..ENTRIES - 1 {
        assert_eq!(target.wait(SOON).unwrap().word0, i);
    }
    for i in 0..8 {
        let noti = target.wait(SOON).unwrap();
        assert!(noti.error().is_empty(), "fragment {i}: {noti:?}");
        assert_eq!(noti.word0, nla + i * FRAGMENT, "fragment {i}");
    }
    assert!(target.poll().is_none());
}

#[test]
fn what_was_reported_of_a_put_is_not_written_again_though_the_rest_waits() {
    const TOLD: u64 = 5;
    let network = patient(SOON);
    let _running = network.run().unwrap();
    let (target, [_from, to]) = fragments_that_wait(&network, TOLD);
    let (mine, len) = ((TOLD * FRAGMENT) as usize, (8 * FRAGMENT) as usize);
    to.write(0, &vec![0xee; mine]).unwrap();
    changes(&network, 1);
    told_once(&target, TOLD, to.nla(0).unwrap());
    assert!(bytes(&to, 0, mine) == vec![0xee; mine], "written after it was told");
    assert!(bytes(&to, mine, len - mine) == pattern(len, 1)[mine..], "the rest");
}

#[test]
fn a_put_reported_in_part_is_fine_though_its_memory_goes_before_the_rest() {
    const TOLD: u64 = 5;
    let network = patient(SOON);
    let _running = network.run().unwrap();
    let (target, [_from, to]) = fragments_that_wait(&network, TOLD);
    let nla = to.nla(0).unwrap();
    to.unregister().unwrap();
    changes(&network, 1);
    told_once(&target, TOLD, nla);
    assert_eq!(errors(&network, 1), EngineErrors::default());
}

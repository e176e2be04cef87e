//! What runs out, and what the errors say.

use std::time::Duration;

use crate::common::{Pair, SOON, builder, bytes, paths, region};
use extoll_abi::regs::EXTOLL_RF_RMA_BQ_TIMEOUT;
use ggas_device::LockedMemory;
use ggas_device::sim::{SimBuilder, SimNetwork, Simulation};
use ggas_rma::{
    Address, HostBuffer, Kind, Match, Node, PageOption, Path, Port, PortConfig, PostError, RegionError, Spec,
    WaitError,
};

/// Posts notification puts until the port is full: the target's queue of 255 takes no more, so the card does not.
fn fill(pair: &Pair) -> u64 {
    let connection = pair.origin.connect(pair.target.address());
    for posted in 0..1 << 20 {
        match connection.try_notification_put(0, posted, Spec::COMPLETER) {
            Ok(()) => {}
            Err(PostError::WouldBlock) => return posted,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("a million notifications fit into a queue of 255");
}

/// A queue of node 1 that stays full drops nothing, however long the test loses the processor (spec 3.2).
/// Longest nap of a wait, and so what it may be late.
const NAP: Duration = Duration::from_millis(1);

fn full_queues_stay_full() -> SimNetwork {
    full_queues_of(builder())
}

fn full_queues_of(builder: SimBuilder) -> SimNetwork {
    let network = builder.build().unwrap();
    Node::new(network.device(1).unwrap()).write_register(EXTOLL_RF_RMA_BQ_TIMEOUT, 0).unwrap();
    network
}

fn small(config: PortConfig) -> PortConfig {
    PortConfig { queue_bytes: 4096, segment_bytes: 4096, ..config }
}

#[test]
fn a_full_port_says_would_block_and_loses_nothing() {
    for config in paths() {
        let network = full_queues_stay_full();
        let pair = Pair::new(&network, small(config));
        let posted = fill(&pair);
        assert!(posted > 255, "{posted}");
        for expected in 0..posted {
            let noti = pair.target.wait(SOON).unwrap();
            assert_eq!(noti.word0, expected);
        }
        let connection = pair.origin.connect(pair.target.address());
        connection.notification_put(1, 77, Spec::COMPLETER).unwrap();
        assert_eq!(pair.target.wait(SOON).unwrap().word0, 77);
    }
}

#[test]
fn a_post_that_finds_no_room_says_so_after_its_timeout() {
    for config in paths() {
        let simulation = Simulation::new(7);
        let clock = simulation.clock();
        let network = full_queues_of(builder().simulation(&simulation));
        let timeout = Duration::from_millis(50);
        let pair = Pair::new(&network, PortConfig { post_timeout: timeout, ..small(config) });
        fill(&pair);
        let connection = pair.origin.connect(pair.target.address());
        let post = || {
            let start = clock.now();
            (connection.notification_put(0, 0, Spec::COMPLETER), clock.since(start))
        };
        // The card itself may find room for a few more.
        let refused =
            || (0..100_000).map(|_| post()).find(|(result, _)| result.is_err()).expect("room for all");
        let (result, waited) = refused();
        let error = result.unwrap_err();
        assert!(matches!(error, PostError::Timeout { .. }), "{error}");
        assert!(error.to_string().contains("node 0 vpid 0"), "{error}");
        assert!((timeout..timeout + NAP).contains(&waited), "{waited:?}");
    }
}

#[test]
fn waits_end_in_time_and_say_what_they_waited_for() {
    let simulation = Simulation::new(8);
    let clock = simulation.clock();
    let network = builder().simulation(&simulation).build().unwrap();
    let pair = Pair::new(&network, PortConfig::default());
    let connection = pair.origin.connect(pair.target.address());
    connection.notification_put(1, 0, Spec::COMPLETER).unwrap();
    for timeout in [Duration::ZERO, Duration::from_millis(30), Duration::from_secs(3600)] {
        let start = clock.now();
        let error = pair.target.wait_match(&Match::any().class(2), timeout).unwrap_err();
        let (waited, text) = (clock.since(start), error.to_string());
        assert!(text.contains("class 2") && text.contains("node 1 vpid 0"), "{text}");
        assert!((timeout..timeout + NAP).contains(&waited), "{waited:?}");
    }
    let error = pair.target.wait_match(&Match::any().class(2), Duration::from_millis(1)).unwrap_err();
    assert!(matches!(error, WaitError::Timeout { others: 1, .. }), "{error:?}");
}

#[test]
fn a_wait_in_vain_says_what_was_not_asked_for() {
    for config in paths() {
        let pair = Pair::new(&builder().build().unwrap(), config);
        let wanted = |kind| Match::any().kind(kind);
        let text =
            |port: &Port, wanted: &Match| port.wait_match(wanted, Duration::ZERO).unwrap_err().to_string();
        let nothing = text(&pair.origin, &wanted(Kind::Completer));
        assert!(
            nothing.contains("This port posted nothing") && nothing.contains("Spec::COMPLETER"),
            "{nothing}"
        );

        let connection = pair.origin.connect(pair.target.address());
        connection.notification_put(1, 0, Spec::REQUESTER).unwrap();
        pair.origin.wait_match(&wanted(Kind::Requester), SOON).unwrap();
        let lacks = text(&pair.origin, &wanted(Kind::Completer));
        let advice =
            "No descriptor that this port posted asked for a completer notification: set Spec::COMPLETER";
        assert!(lacks.contains(advice), "{lacks}");
        let asked = text(&pair.origin, &wanted(Kind::Requester));
        assert!(!asked.contains("No descriptor") && asked.contains("error counters"), "{asked}");

        connection.notification_put(1, 0, Spec::COMPLETER).unwrap();
        let asked = text(&pair.origin, &wanted(Kind::Completer));
        assert!(!asked.contains("No descriptor"), "{asked}");
    }
}

#[test]
fn a_node_has_251_ports() {
    let network = builder().build().unwrap();
    let node = Node::new(network.device(0).unwrap());
    let config = PortConfig { queue_bytes: 4096, ..PortConfig::default() };
    let mut ports: Vec<_> = (0..251).map(|_| node.open_port(config).unwrap()).collect();
    assert!(ports.iter().enumerate().all(|(vpid, port)| port.address() == Address::new(0, vpid as u8)));
    let error = node.open_port(config).unwrap_err();
    assert!(error.to_string().contains("all 251 ports"), "{error}");
    ports.remove(17).close().unwrap();
    assert_eq!(node.open_port(config).unwrap().address(), Address::new(0, 17), "the lowest free one");
}

#[test]
fn queues_and_rings_of_impossible_shape_are_refused() {
    let network = builder().build().unwrap();
    let node = Node::new(network.device(0).unwrap());
    let default = PortConfig::default();
    let bad = [
        PortConfig { queue_bytes: 0, ..default },
        PortConfig { queue_bytes: 4095, ..default },
        PortConfig { segment_bytes: 100, ..default },
        PortConfig { queue_bytes: 5 * 4096, segment_bytes: 2 * 4096, ..default },
        PortConfig { queue_bytes: 1024 * 4096, segment_bytes: 4096, ..default },
        PortConfig { queue_bytes: 4 << 20, segment_bytes: 4 << 20, ..default },
        PortConfig { path: Some(Path::Slots), slots: 0, ..default },
        PortConfig { path: Some(Path::Slots), slots: 3, ..default },
        PortConfig { path: Some(Path::Slots), slots: 1 << 31, ..default },
    ];
    for config in bad {
        let error = node.open_port(config).unwrap_err();
        assert!(!error.to_string().is_empty());
    }
    // None of them kept a VPID.
    assert_eq!(node.open_port(default).unwrap().address().vpid, 0);
    let largest = PortConfig { queue_bytes: 512 * 4096, segment_bytes: 4096, ..default };
    node.open_port(largest).unwrap();
}

#[test]
fn an_unconfigured_network_opens_no_ports() {
    let network = builder().build().unwrap();
    let node = Node::new(network.device(0).unwrap());
    node.write_register(0x8050, 0).unwrap();
    let error = node.open_port(PortConfig::default()).unwrap_err();
    assert!(error.to_string().contains("network state"), "{error}");
    node.write_register(0x8050, 1).unwrap();
    node.open_port(PortConfig::default()).unwrap();
    assert!(node.read_register(0x8051).is_err() && node.write_register(0x200_0000, 0).is_err());
}

#[test]
fn locked_memory_is_bounded_per_node() {
    let network = builder().locked_memory(LockedMemory::Bytes(3 * 4096)).build().unwrap();
    let pair = Pair::new(&network, PortConfig::default());
    let first = region(&pair.origin, 2 * 4096, 0);
    let error = pair.origin.register(HostBuffer::zeroed(4097).unwrap()).unwrap_err();
    assert!(error.to_string().contains("locked_memory"), "{error}");
    let _other_node = region(&pair.target, 3 * 4096, 0);
    drop(first);
    let _now = region(&pair.origin, 3 * 4096, 0);
}

#[test]
fn bad_ranges_regions_and_sizes_are_errors() {
    let network = builder().build().unwrap();
    let pair = Pair::new(&network, PortConfig::default());
    let (here, there) = (region(&pair.origin, 9 << 20, 0), region(&pair.target, 4096, 0));
    let connection = pair.origin.connect(pair.target.address());
    let put = |region, offset, len| connection.put(region, offset, len, 0, Spec::NONE).unwrap_err();
    for (offset, len) in [(0, (9 << 20) + 1), (9 << 20, 1), (usize::MAX, 2), (1, usize::MAX)] {
        assert!(matches!(put(&here, offset, len), PostError::Region(RegionError::Range { .. })));
    }
    assert!(put(&here, 0, 0).to_string().contains("0 bytes"));
    assert!(put(&here, 0, (8 << 20) + 1).to_string().contains("split the transfer"));
    assert!(put(&there, 0, 8).to_string().contains("belongs to port node 1 vpid 0, not to node 0 vpid 0"));
    assert!(connection.immediate_put(0, 9, 0, Spec::NONE).is_err());
    assert!(pair.origin.register(HostBuffer::zeroed(0).unwrap()).is_err());
    assert!(here.load_u64(3).is_err() && here.load_u64((9 << 20) - 4).is_err());
    assert!(here.nla(9 << 20).is_ok() && here.nla((9 << 20) + 1).is_err());
}

#[test]
fn a_slot_ring_has_one_option() {
    let network = builder().build().unwrap();
    let pair = Pair::new(&network, PortConfig { path: Some(Path::Slots), ..PortConfig::default() });
    let other = pair.origin.connect_with(pair.target.address(), PageOption::TE.with_traffic_class(2));
    let error = other.notification_put(0, 0, Spec::COMPLETER).unwrap_err();
    assert!(error.to_string().contains("slot_option"), "{error}");
}

#[test]
fn networks_of_impossible_shape_are_refused() {
    assert!(SimNetwork::builder().nodes(0).build().is_err());
    assert!(SimNetwork::builder().nodes(9).torus(2, 2, 2).build().is_err());
    assert!(SimNetwork::builder().torus(0, 1, 1).build().is_err());
    assert!(SimNetwork::builder().nodes(usize::MAX).build().is_err());
    let network = builder().build().unwrap();
    assert!(network.device(2).unwrap_err().to_string().contains("nodes 0 to 1"));
}

#[test]
fn huge_regions_span_tables() {
    let network = builder().build().unwrap();
    let pair = Pair::new(&network, PortConfig::default());
    // Never touched beyond a few pages, so this costs addresses only; 3 GiB are three tables in a row.
    let len = 3 << 30;
    let there = pair.target.register(HostBuffer::zeroed(len).unwrap()).unwrap();
    let here = region(&pair.origin, 8192, 5);
    let connection = pair.origin.connect(pair.target.address());
    for edge in [1usize << 30, 2 << 30] {
        connection.put(&here, 0, 8000, there.nla(edge - 4000).unwrap(), Spec::COMPLETER).unwrap();
        assert!(pair.target.wait(SOON).unwrap().error().is_empty());
        assert_eq!(bytes(&there, edge - 4000, 8000), bytes(&here, 0, 8000));
    }
}

//! Ports of real cards in a timed system: bytes, order, and what calls take.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use extoll_abi::{Command, Kind};
use ggas_device::HostBuffer;
use ggas_device::sim::SimNetwork;
use ggas_device::sim::timed::{Moves, Ps, System, Timed};
use ggas_rma::{Node, Port, PortConfig, Spec};

const LIMIT: Duration = Duration::from_secs(1);

/// A system in which cards and links cost what can be told in a sum.
fn system() -> System {
    let mut system = System::named("extoll-fpga").expect("a system");
    (system.host.post_ns, system.host.poll_ns) = (1_000.0, 10.0);
    system
}

struct Bed {
    timed: Arc<Timed>,
    _network: SimNetwork,
    ports: Vec<Port>,
}

fn bed(system: &System, nodes: usize, moves: Moves) -> Bed {
    let timed = Timed::new(system, nodes, 1).expect("a system");
    let network = SimNetwork::builder().nodes(nodes).timed(&timed, moves).build().expect("nodes");
    let open = |node: usize| {
        let node = Node::new(network.device(node).expect("a node"));
        node.open_port(PortConfig::default()).expect("a port")
    };
    let ports = (0..nodes).map(open).collect();
    Bed { timed, _network: network, ports }
}

/// Half a round trip of puts with a completer's notification.
fn ping_pong(system: &System, bytes: usize, rounds: u32, moves: Moves) -> (Ps, u64) {
    let Bed { timed, ports, .. } = &bed(system, 2, moves);
    let regions: Vec<_> = ports
        .iter()
        .map(|port| port.register(HostBuffer::zeroed(2 * bytes).expect("memory")).expect("a region"))
        .collect();
    let (began, took) = (timed.now(), Cell::new(Ps::ZERO));
    let (regions, took_here) = (&regions, &took);
    timed.run((0..2).map(|me| {
        let program = move || {
            let (port, region, other) = (&ports[me], &regions[me], &regions[1 - me]);
            let connection = port.connect(ports[1 - me].address());
            let to = other.nla(bytes).expect("an address");
            for round in 0..rounds {
                let fill = |who: u32| vec![(2 * round + who) as u8 | 1; bytes];
                if me == 0 {
                    region.write(0, &fill(0)).expect("its own");
                    connection.put(region, 0, bytes, to, Spec::COMPLETER).expect("posted");
                }
                let said = port.wait(LIMIT).expect("a notification");
                assert_eq!(
                    (said.kind(), said.command().command()),
                    (Some(Kind::Completer), Some(Command::BtPut))
                );
                let mut found = vec![0; bytes];
                region.read(bytes, &mut found).expect("its own");
                if moves == Moves::Bytes {
                    assert_eq!(found, fill(1 - me as u32), "round {round} at node {me}");
                }
                if me == 1 {
                    region.write(0, &fill(1)).expect("its own");
                    connection.put(region, 0, bytes, to, Spec::COMPLETER).expect("posted");
                }
            }
            took_here.set(took_here.get().max(timed.now()));
        };
        (me, format!("node {me}"), program)
    }));
    (Ps((took.get() - began).0 / u64::from(2 * rounds)), timed.counts().digest)
}

#[test]
fn bytes_arrive_at_what_the_parameters_add_up_to() {
    let system = system();
    let (host, bus, card, network) = (&system.host, &system.bus, &system.card, &system.network);
    for bytes in [8, 400] {
        let (took, _) = ping_pong(&system, bytes, 10, Moves::Bytes);
        let wire = bytes as f64 + network.header_bytes as f64;
        let by_hand = host.post_ns
            + bus.write_ns
            + card.requester_ns
            + card.translate_ns
            + bus.read_ns
            + bytes as f64 / bus.read_bytes_per_ns
            + network.switch_ns
            + network.link_ns
            + wire / network.link_bytes_per_ns
            + card.completer_ns
            + card.translate_ns
            + bytes as f64 / bus.write_bytes_per_ns
            + bus.write_ns;
        let over = took.as_ns() - by_hand;
        // The poll that finds it; the library's clock shows whole nanoseconds.
        assert!((-1.0..=host.poll_ns).contains(&over), "{bytes} bytes: {took}, by hand {by_hand} ns");
    }
}

#[test]
fn the_same_is_the_same_again_with_bytes_or_lengths() {
    let system = system();
    let first = ping_pong(&system, 3_000, 20, Moves::Bytes);
    assert_eq!(ping_pong(&system, 3_000, 20, Moves::Bytes), first);
    assert_eq!(ping_pong(&system, 3_000, 20, Moves::Lengths).0, first.0);
}

#[test]
fn all_put_to_all_and_every_byte_is_there() {
    const NODES: usize = 8;
    const BYTES: usize = 20_000;
    let Bed { timed, ports, .. } = &bed(&system(), NODES, Moves::Bytes);
    let register =
        |port: &Port, len| port.register(HostBuffer::zeroed(len).expect("memory")).expect("a region");
    let inboxes: Vec<_> = ports.iter().map(|port| register(port, NODES * BYTES)).collect();
    let inboxes = &inboxes;
    timed.run((0..NODES).map(|me| {
        let program = move || {
            let (port, outbox) = (&ports[me], register(&ports[me], BYTES));
            outbox.write(0, &vec![me as u8 + 1; BYTES]).expect("its own");
            for other in (0..NODES).filter(|other| *other != me) {
                let to = inboxes[other].nla(me * BYTES).expect("an address");
                let spec = Spec::COMPLETER | Spec::REQUESTER;
                port.connect(ports[other].address()).put(&outbox, 0, BYTES, to, spec).expect("posted");
            }
            let mut seen = [0; NODES];
            for _ in 0..2 * (NODES - 1) {
                let said = port.wait(LIMIT).expect("a notification");
                assert!(said.error().is_empty(), "{said:?}");
                seen[usize::from(said.remote().node)] += 1;
            }
            assert!((0..NODES).all(|node| seen[node] == if node == me { 0 } else { 2 }), "{seen:?}");
            for other in (0..NODES).filter(|other| *other != me) {
                let mut found = vec![0; BYTES];
                inboxes[me].read(other * BYTES, &mut found).expect("its own");
                assert!(found.iter().all(|byte| *byte == other as u8 + 1), "from {other} at {me}");
            }
        };
        (me, format!("node {me}"), program)
    }));
}

/// The requester tells that a source may be used again when it was read, long before it is at the target.
#[test]
fn a_source_is_free_once_it_was_read() {
    let mut system = system();
    system.network.link_bytes_per_ns = 0.01;
    let Bed { timed, ports, .. } = &bed(&system, 2, Moves::Bytes);
    let register = |port: &Port| port.register(HostBuffer::zeroed(4096).expect("memory")).expect("a region");
    let (source, target) = (register(&ports[0]), register(&ports[1]));
    let (target, source, free) = (&target, &source, &Cell::new(Ps::ZERO));
    timed.run((0..2).map(|me| {
        let program = move || {
            if me == 0 {
                source.write(0, &[7; 4096]).expect("its own");
                let connection = ports[0].connect(ports[1].address());
                let spec = Spec::REQUESTER | Spec::COMPLETER;
                connection.put(source, 0, 4096, target.nla(0).expect("an address"), spec).expect("posted");
                assert_eq!(ports[0].wait(LIMIT).expect("a notification").kind(), Some(Kind::Requester));
                free.set(timed.now());
                source.write(0, &[9; 4096]).expect("its own");
            } else {
                assert_eq!(ports[1].wait(LIMIT).expect("a notification").kind(), Some(Kind::Completer));
                assert!(free.get() > Ps::ZERO, "told after the target");
                assert!(timed.now() > free.get() + Ps::us(300.0), "4 KiB at 10 MB/s");
                let mut found = [0; 4096];
                target.read(0, &mut found).expect("its own");
                assert_eq!(found, [7; 4096]);
            }
        };
        (me, format!("node {me}"), program)
    }));
}

//! Packets between nodes: once, in order, undamaged; along the routed path; whoever drives the network.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use extoll_sim::fabric::{Fabric, FabricError};
use extoll_sim::faults::{Event, Faults};
use extoll_sim::network::{Network, NetworkError};
use extoll_sim::packet::Class;
use extoll_sim::torus::{Direction, Torus};
use proptest::prelude::*;

use crate::common::{Bell, CLASSES, PATIENCE, Traffic, packet};

fn torus() -> Torus {
    Torus::new(3, 2, 2).unwrap()
}

fn nasty(seed: u64) -> Faults {
    Faults::none()
        .seed(seed)
        .drop(0.03)
        .corrupt(0.03)
        .reorder(0.05)
        .duplicate(0.03)
        .delay(0.05, Duration::from_micros(100))
        .starve(0.02)
}

#[test]
fn direct_packets_arrive_and_links_count_them() {
    let mut traffic = Traffic::new(Torus::new(4, 3, 1).unwrap(), Faults::none());
    assert!(traffic.network.direct());
    assert!(traffic.send(0, 5, Class::Request)); // 0 -> 1 -> 5
    traffic.drain();
    let counters = |node, direction| traffic.network.link_counters(node, direction);
    assert_eq!(counters(0, Direction::XPlus).sent, 1);
    assert_eq!(counters(1, Direction::XMinus).received, 1);
    assert_eq!(counters(1, Direction::YPlus).sent, 1);
    let all = traffic.network.torus().ids();
    let hops: u64 = all.flat_map(|id| Direction::ALL.map(|d| counters(id, d).sent)).sum();
    assert_eq!(hops, 2);
    traffic.random(1, 20_000);
}

#[test]
fn bulk_packets_count_as_their_fragments() {
    let traffic = Traffic::new(Torus::new(2, 1, 1).unwrap(), Faults::none());
    let bulk = extoll_sim::packet::Packet { len: 1000, ..packet(0, 1, Class::Request, 0) };
    traffic.network.send(0, bulk).unwrap();
    let counters = traffic.network.link_counters(0, Direction::XPlus);
    assert_eq!((counters.sent, counters.sent_bytes), (3, 1000));
}

#[test]
fn links_without_faults_carry_everything() {
    let mut traffic = Traffic::new(torus(), Faults::none().through_links());
    assert!(!traffic.network.direct() && traffic.network.has_links());
    traffic.random(2, 5_000);
    let counters = traffic.network.link_counters(0, Direction::XPlus);
    assert!(counters.sent > 0 && counters.retransmitted == 0, "{counters:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn faulty_links_carry_everything_once_and_in_order(seed in any::<u64>()) {
        let mut traffic = Traffic::new(torus(), nasty(seed));
        traffic.random(seed ^ 1, 1500);
    }
}

#[test]
fn a_thousand_nodes_on_faulty_links() {
    let mut traffic = Traffic::new(Torus::new(10, 10, 10).unwrap(), nasty(3));
    traffic.random(8, 2000);
}

#[test]
fn faults_happen() {
    let mut traffic = Traffic::new(torus(), nasty(5));
    traffic.random(6, 3000);
    let mut total = extoll_sim::link::LinkCounters::default();
    for (node, port) in torus().ids().flat_map(|id| Direction::ALL.map(|port| (id, port))) {
        let counters = traffic.network.link_counters(node, port);
        total.retransmitted += counters.retransmitted;
        total.crc_errors += counters.crc_errors;
        total.sequence_errors += counters.sequence_errors;
    }
    assert!(total.retransmitted > 50 && total.crc_errors > 50 && total.sequence_errors > 50, "{total:?}");
}

#[test]
fn without_credit_packets_come_back_and_the_sender_is_woken() {
    for faults in [Faults::none(), Faults::none().through_links()] {
        let mut traffic = Traffic::new(Torus::new(2, 1, 1).unwrap(), faults);
        while traffic.send(0, 1, Class::Request) {}
        let (accepted, _) = traffic.totals();
        assert!((16..=1024).contains(&accepted), "{accepted} packets under way");
        // Responses do not wait behind the requests.
        assert!(traffic.send(0, 1, Class::Response));
        assert!(traffic.take(1, Class::Response));
        traffic.bells[0].rung();
        assert!(traffic.take(1, Class::Request));
        assert_eq!(traffic.bells[0].rung(), 1, "the sender hears of the credit");
        assert!(traffic.send(0, 1, Class::Request));
        traffic.drain();
    }
}

#[test]
fn receivers_are_woken() {
    for faults in [Faults::none(), Faults::none().through_links()] {
        let mut traffic = Traffic::new(torus(), faults);
        assert!(traffic.send(0, 7, Class::Request));
        assert!(traffic.bells[7].rung() > 0);
        traffic.drain();
    }
}

#[test]
fn packets_for_nobody_are_discarded_and_counted() {
    for faults in [Faults::none(), Faults::none().through_links()] {
        let mut traffic = Traffic::new(torus(), faults);
        traffic.network.send(0, packet(0, 999, Class::Request, 0)).unwrap();
        traffic.network.detach(5);
        traffic.network.send(0, packet(0, 5, Class::Request, 0)).unwrap();
        let mut multicast = packet(0, 1, Class::Request, 0);
        multicast.modifier = extoll_abi::Modifier::MC;
        traffic.network.send(0, multicast).unwrap();
        assert_eq!(traffic.network.discarded(0), 3);
        assert!(traffic.network.poll(999, Class::Request).is_none());
        traffic.network.step(999, Instant::now());
        assert!(traffic.send(0, 4, Class::Request));
        traffic.drain();
    }
}

#[test]
fn cards_attach_once() {
    let network = Network::new(torus(), Faults::none()).unwrap();
    let bell = std::sync::Arc::<Bell>::default();
    network.attach(3, bell.clone()).unwrap();
    assert_eq!(network.attach(3, bell.clone()), Err(FabricError::Taken { node: 3 }));
    assert_eq!(network.attach(12, bell.clone()), Err(FabricError::NoSuchNode { node: 12, nodes: 12 }));
    network.detach(3);
    network.attach(3, bell).unwrap();
}

#[test]
fn senseless_faults_are_refused() {
    let refused = |faults| matches!(Network::new(torus(), faults), Err(NetworkError::Faults(_)));
    assert!(refused(Faults::none().drop(2.0)));
    assert!(refused(Faults::none().after(1, Event::Kill(12))));
    assert!(refused(Faults::none().after(1, Event::LinkDown(12, Direction::XPlus))));
    let line = Network::new(Torus::new(2, 1, 1).unwrap(), Faults::none()).unwrap();
    assert!(line.happen(Event::LinkDown(0, Direction::YPlus)).is_err(), "a line has no y links");
}

/// Every node sends on a thread of its own and polls all others, with retries.
#[test]
fn many_threads_may_drive_the_network() {
    const EACH: u32 = 400;
    for faults in [Faults::none(), nasty(11)] {
        let network = Network::new(torus(), faults).unwrap();
        torus().ids().for_each(|id| network.attach(id, std::sync::Arc::<Bell>::default()).unwrap());
        let taken = AtomicU32::new(0);
        let all = EACH * 12;
        let deadline = Instant::now() + PATIENCE;
        std::thread::scope(|scope| {
            for node in torus().ids() {
                let (network, taken) = (&network, &taken);
                scope.spawn(move || {
                    let mut expected = [[0; 12]; 2];
                    let mut sent = 0;
                    while taken.load(Ordering::Relaxed) < all {
                        assert!(Instant::now() < deadline, "node {node} waited for packets");
                        let to = (node + 1 + (sent % 11) as u16) % 12;
                        let class = CLASSES[sent as usize / 11 % 2];
                        if sent < EACH && network.send(node, packet(node, to, class, sent / 22)).is_ok() {
                            sent += 1;
                        }
                        network.step(node, Instant::now());
                        for (class, expected) in CLASSES.into_iter().zip(&mut expected) {
                            while let Some(packet) = network.poll(node, class) {
                                let next: &mut u32 = &mut expected[usize::from(packet.source.node)];
                                assert_eq!(packet.tag, *next, "from {} to {node}", packet.source.node);
                                *next += 1;
                                taken.fetch_add(1, Ordering::Relaxed);
                            }
                        }
                        std::thread::yield_now();
                    }
                });
            }
        });
    }
}

#[test]
fn a_large_network_stays_small() {
    let before = resident_bytes();
    let network = Network::new(Torus::new(32, 32, 64).unwrap(), Faults::none()).unwrap();
    let each = resident_bytes().saturating_sub(before) / 65_536;
    assert!(each < 4096, "{each} bytes a node");
    let far = network.torus().id([16, 16, 32]);
    for node in [0, far] {
        network.attach(node, std::sync::Arc::<Bell>::default()).unwrap();
    }
    network.send(0, packet(0, far, Class::Request, 0)).unwrap();
    assert!(network.poll(far, Class::Request).is_some());
}

/// Of the whole process, other tests included.
fn resident_bytes() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

//! Cables that go down and nodes that die, in networks between processes: as in one process, for all members.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use extoll_abi::regs::*;
use extoll_abi::{Access, Address, Spec};
use extoll_sim::Fabric;
use extoll_sim::faults::{Event, FaultError, Faults};
use extoll_sim::network::Network;
use extoll_sim::packet::{Class, Kind, Payload};
use extoll_sim::routing::{PORT_DISCARD, PORT_LINK0, Table};
use extoll_sim::shared::{Cables, ProcessFabric};
use extoll_sim::torus::{Direction, Torus};
use extoll_sim::xbar::{link_count, outport_count, route_entry};
use ggas_members::{Member, Members, NetworkShape};

use crate::common::members::{drive, open, over};
use crate::common::*;
use crate::rings::{Bell, packet, reference, until};

/// A member on each node of a torus that nobody else knows; all have met.
fn fabrics(x: u16, y: u16, z: u16) -> Vec<Arc<ProcessFabric>> {
    let first = Member::join_private(&NetworkShape::torus(x, y, z).unwrap(), 0).unwrap();
    let join = |node| Member::join_network(first.network(), first.shape(), node).unwrap();
    let others: Vec<_> = (1..x * y * z).map(join).collect();
    let all = std::iter::once(first).chain(others);
    let fabrics: Vec<_> = all.map(|member| ProcessFabric::join(member).unwrap()).collect();
    crate::members::meet(&fabrics);
    fabrics
}

/// A VPID of each.
fn vpids(fabrics: &[Arc<ProcessFabric>]) -> Vec<Address> {
    let vpid = |fabric: &Arc<ProcessFabric>| {
        Address::new(fabric.member().node(), fabric.nodes().take_vpid(256).unwrap())
    };
    fabrics.iter().map(vpid).collect()
}

fn put(fabric: &ProcessFabric, to: Address, number: u64) -> bool {
    let from = fabric.member().node();
    fabric.send(from, packet(from, to, Kind::Put, number, Payload::None)).is_ok()
}

fn taken(fabric: &ProcessFabric) -> Vec<u64> {
    let next = || fabric.poll(fabric.member().node(), Class::Request);
    std::iter::from_fn(next).map(|packet| packet.address).collect()
}

#[test]
fn packets_wait_for_a_cable_until_it_works_or_routes_lead_around_it() {
    let fabrics = fabrics(3, 1, 1);
    let to = vpids(&fabrics);
    let bell = Arc::new(Bell::default());
    fabrics[0].attach(0, bell.clone()).unwrap();
    assert!(put(&fabrics[0], to[1], 1));
    // Another one says it.
    fabrics[2].happen(Event::LinkDown(1, Direction::XMinus)).unwrap();
    assert!(!put(&fabrics[0], to[1], 2), "it would cross the cable");
    assert!(put(&fabrics[0], to[2], 3) && put(&fabrics[0], to[0], 4), "others do not");
    let woken = bell.0.load(Ordering::SeqCst);
    fabrics[2].happen(Event::LinkUp(0, Direction::XPlus)).unwrap();
    until("who waits is woken", || bell.0.load(Ordering::SeqCst) > woken);
    assert!(put(&fabrics[0], to[1], 5));
    fabrics[1].happen(Event::LinkDown(0, Direction::XPlus)).unwrap();
    assert!(!put(&fabrics[0], to[1], 6));
    fabrics[1].happen(Event::Reroute).unwrap();
    assert!(put(&fabrics[0], to[1], 7), "the other way round");
    // The tables stay as they are until they are computed anew.
    fabrics[1].happen(Event::LinkUp(0, Direction::XPlus)).unwrap();
    fabrics[1].happen(Event::LinkDown(0, Direction::XMinus)).unwrap();
    assert!(!put(&fabrics[0], to[1], 8));
    fabrics[1].happen(Event::Reroute).unwrap();
    assert!(put(&fabrics[0], to[1], 9));
    assert_eq!(taken(&fabrics[1]), [1, 5, 7, 9], "each once, in order");
    assert_eq!((taken(&fabrics[2]), taken(&fabrics[0])), (vec![3], vec![4]));
    assert!(fabrics.iter().all(|fabric| fabric.counters().discarded == 0), "nothing is lost");
}

/// What waits looks again when its card is woken, again and again if need be.
#[test]
fn who_waits_is_woken_by_each_change() {
    let fabrics = fabrics(2, 1, 1);
    let to = vpids(&fabrics);
    let bell = Arc::new(Bell::default());
    fabrics[0].attach(0, bell.clone()).unwrap();
    for direction in [Direction::XPlus, Direction::XMinus] {
        fabrics[1].happen(Event::LinkDown(0, direction)).unwrap();
    }
    for _ in 0..3 {
        assert!(!put(&fabrics[0], to[1], 0));
        let woken = bell.0.load(Ordering::SeqCst);
        // Nothing that helps.
        fabrics[1].happen(Event::LinkUp(0, Direction::XMinus)).unwrap();
        until("who waits is woken", || bell.0.load(Ordering::SeqCst) > woken);
    }
}

#[test]
fn a_dead_node_takes_and_sends_nothing_and_holds_nothing() {
    let fabrics = fabrics(3, 1, 1);
    let to = vpids(&fabrics);
    let (payload, state, _block) = reference(&fabrics[0], 8192);
    fabrics[0].send(0, packet(0, to[1], Kind::Put, 1, payload)).unwrap();
    fabrics[2].happen(Event::Kill(1)).unwrap();
    assert!(!state.is_done());
    assert!(put(&fabrics[0], to[1], 2) && put(&fabrics[1], to[2], 3) && put(&fabrics[1], to[1], 4));
    assert_eq!(taken(&fabrics[1]), [0; 0]);
    fabrics[0].poll(0, Class::Request);
    assert!(state.is_done(), "what had come for it is thrown away, and its memory free");
    let discarded = |node: usize| fabrics[node].counters().discarded;
    assert_eq!([0, 1, 2].map(discarded), [1, 3, 0]);
    assert_eq!([0, 1].map(|node| fabrics[2].reg_read(node, outport_count(PORT_DISCARD))), [Some(1), Some(3)]);
    assert!(put(&fabrics[0], to[2], 5), "around it");
    assert_eq!(taken(&fabrics[2]), [5]);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let fabrics = fabrics(3, 1, 1);
    let refused = |event| fabrics[0].happen(event).unwrap_err();
    assert_eq!(refused(Event::Kill(3)), FaultError::Node(3));
    assert_eq!(refused(Event::LinkDown(0, Direction::YPlus)), FaultError::Link(0, Direction::YPlus));
    for event in [Event::Stop(0), Event::Resume(0), Event::Starve(0), Event::Feed(0)] {
        assert_eq!(refused(event), FaultError::OneProcess(event));
    }
    let word = fabrics[0].cables().broken();
    assert!(word.is_empty() && Cables::of_network("no-such-network").is_err());
}

/// The requester's end is that of a card: its own notification where it asked for one, and nothing from the other side.
#[test]
fn a_node_without_cables_is_reached_by_nothing_until_one_works() {
    let fabrics = fabrics(2, 2, 1);
    let nodes: Vec<Node> = fabrics.iter().map(over).collect();
    let (mut near, mut far) = (open(&nodes[0]), open(&nodes[3]));
    let (source, target) =
        (Pages::new(&nodes[0].memory, 4096, 4096), Pages::new(&nodes[3].memory, 4096, 4096));
    let read = nodes[0].register(near.vpid, &source, Access::ALL);
    let write = nodes[3].register(far.vpid, &target, Access::ALL);
    let cables = || Direction::ALL.into_iter().take(4);
    let happen = |event| fabrics[1].happen(event).unwrap();
    // Routes as they were: what is sent waits, and goes on when a cable on its way works again.
    cables().for_each(|direction| happen(Event::LinkDown(3, direction)));
    source.store(0, 11);
    near.put(far.address(), Spec::REQUESTER | Spec::COMPLETER, read, write, 8);
    assert!(near.drain().is_empty() && far.drain().is_empty(), "it waits");
    cables().for_each(|direction| happen(Event::LinkUp(3, direction)));
    drive(&nodes, "the put", || target.load(0) == 11);
    near.next();
    far.next();
    // No route leads there.
    cables().for_each(|direction| happen(Event::LinkDown(3, direction)));
    happen(Event::Reroute);
    source.store(0, 12);
    near.put(far.address(), Spec::REQUESTER | Spec::COMPLETER, read, write, 8);
    near.get(far.address(), Spec::REQUESTER | Spec::COMPLETER, read, write, 8);
    near.next();
    near.next();
    assert!(near.drain().is_empty() && far.drain().is_empty(), "no answer, no notification");
    assert_eq!(target.load(0), 11);
    assert_eq!(nodes[0].nic.reg_read(outport_count(PORT_DISCARD)), 2);
    happen(Event::LinkUp(3, Direction::YPlus));
    happen(Event::Reroute);
    near.put(far.address(), Spec::COMPLETER, read, write, 8);
    drive(&nodes, "the put", || target.load(0) == 12);
}

/// The same traffic and the same events in both kinds of network: the same registers, through every node.
#[test]
fn registers_are_those_of_a_network_in_one_process() {
    let torus = Torus::new(3, 2, 1).unwrap();
    let fabrics = fabrics(3, 2, 1);
    let network = Network::new(torus, Faults::none()).unwrap();
    let between: Vec<Node> = fabrics.iter().map(over).collect();
    let within: Vec<Node> = torus.ids().map(|node| Setup::over(network.clone()).node(node)).collect();
    for nodes in [&within, &between] {
        let [mut near, mut far] = [0, 1].map(|node| open(&nodes[node]));
        let [source, target] = [0, 1].map(|node| Pages::new(&nodes[node].memory, 8192, 4096));
        let read = nodes[0].register(near.vpid, &source, Access::ALL);
        let write = nodes[1].register(far.vpid, &target, Access::ALL);
        for size in [8, 5000] {
            near.put(far.address(), Spec::REQUESTER | Spec::COMPLETER, read, write, size);
            drive(nodes, "the put", || far.try_next().is_some());
            near.next();
        }
        near.put(Address::new(77, 0), Spec::REQUESTER, read, write, 8);
        near.next();
    }
    assert!(between[5].nic.reg_read(link_count(Direction::XPlus)) == 0);
    assert_eq!(between[0].nic.reg_read(link_count(Direction::XPlus)), 1 + 5000u64.div_ceil(496));
    let alike = |when: &str| {
        for offset in (0x40_0000..0x46_1000).step_by(8) {
            for (node, (a, b)) in within.iter().zip(&between).enumerate() {
                // Inports of one node stand for those of the others.
                if (0x40_4000..0x42_c000).contains(&offset) && node != 4 {
                    continue;
                }
                let (a, b) = (a.nic.reg_read(offset), b.nic.reg_read(offset));
                assert_eq!(a, b, "{when}: {offset:#x} of node {node}");
            }
        }
    };
    alike("at first");
    // Software disables and enables links: all nodes see it.
    for (node, link, value) in [(0, 0, 0), (4, 2, 0), (5, 1, 0), (4, 1, 1), (0, 4, 0)] {
        [&within, &between].into_iter().for_each(|nodes| nodes[node].nic.reg_write(link_status(link), value));
        alike("after a write");
    }
    let status = between[1].nic.reg_read(link_status(1));
    assert!(!LINK_ENABLE.is_set(status) && !LINK_READY.is_set(status), "the other end of the cable");
    for event in [Event::Reroute, Event::LinkUp(1, Direction::XMinus), Event::Kill(5), Event::Reroute] {
        network.happen(event).unwrap();
        fabrics[2].happen(event).unwrap();
        alike("after an event");
    }
    // Between processes tables are nobody's to write.
    let entry = route_entry(0, Table::Local, 1);
    let before = between[0].nic.reg_read(entry);
    between[0].nic.reg_write(entry, u64::from(PORT_LINK0 + 5));
    assert_eq!(between[0].nic.reg_read(entry), before);
}

/// What was counted, and what is down, outlives who did it.
#[test]
fn counts_and_cables_outlive_their_process() {
    let mut fabrics = fabrics(2, 1, 1);
    let name = fabrics[0].member().network().to_owned();
    let last = fabrics.pop().unwrap();
    let to = vpids(&fabrics)[0];
    let node = over(&last);
    assert!(put(&last, to, 1));
    last.happen(Event::LinkDown(1, Direction::XPlus)).unwrap();
    let counted = || fabrics[0].reg_read(1, link_count(Direction::XPlus));
    assert_eq!(counted(), Some(1));
    drop((node, last));
    assert_eq!(counted(), Some(1));
    let cables = Cables::of_network(&name).unwrap();
    assert!(cables.broken().is_down(cables.torus(), 0, Direction::XMinus));
    let status = fabrics[0].reg_read(0, link_status(1)).unwrap();
    assert!(!LINK_ENABLE.is_set(status));
    // Who is no member changes it for those who are.
    cables.happen(Event::LinkUp(0, Direction::XMinus)).unwrap();
    assert!(LINK_READY.is_set(fabrics[0].reg_read(0, link_status(1)).unwrap()));
    // The next one on the node goes on counting.
    let next = Member::join_network(&name, fabrics[0].member().shape(), 1).unwrap();
    let next = ProcessFabric::join(next).unwrap();
    let _node = over(&next);
    let mut came = taken(&fabrics[0]);
    until("they meet", || {
        came.extend(taken(&fabrics[0]));
        put(&next, to, 2)
    });
    came.extend(taken(&fabrics[0]));
    assert_eq!((came, counted()), (vec![1, 2], Some(2)));
}

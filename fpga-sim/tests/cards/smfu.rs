//! The SMFU of whole cards: trapped stores and loads over a clean and a faulty network, registers of other nodes,
//! targets that do not answer.

use std::sync::Arc;
use std::time::Duration;

use crate::common::*;
use extoll_abi::regs::*;
use extoll_abi::{Address, Atomic};
use extoll_sim::fabric::{Carriage, Fabric, FabricError};
use extoll_sim::faults::{Event, Faults};
use extoll_sim::network::Network;
use extoll_sim::packet::{Class, Packet};
use extoll_sim::runs::Runs;
use extoll_sim::smfu::SmfuError;
use extoll_sim::torus::Torus;
use extoll_sim::*;
use ggas_clock::{Clock, Manual};

const SHARE: usize = 64 << 10;

/// Offset in the SMFU BAR of what node `node` shares.
fn share(node: usize) -> u64 {
    window::part(node as u16, SHARE, 0)
}

fn network(faults: Faults) -> Arc<Network> {
    Network::new(Torus::new(3, 2, 1).unwrap(), faults).unwrap()
}

fn nasty(seed: u64) -> Faults {
    Faults::none().seed(seed).drop(0.02).corrupt(0.02).reorder(0.02).delay(0.02, Duration::from_micros(100))
}

/// All nodes, each with memory that it shares; interval 1 + n leads to node n, interval 0 to registers of node 1.
fn cluster(network: &Arc<Network>, driver: Option<Arc<dyn Driver>>) -> Vec<(Node, Pages)> {
    cluster_on(&Clock::real(), network, driver)
}

fn cluster_on(clock: &Clock, network: &Arc<Network>, driver: Option<Arc<dyn Driver>>) -> Vec<(Node, Pages)> {
    let clock = clock.clone();
    let setup = Setup { inline: driver.is_none(), driver, clock, ..Setup::over(network.clone()) };
    let count = network.torus().len();
    network.torus().ids().map(|id| shares(&setup, id, count)).collect()
}

/// A node with memory that it shares, and intervals that lead to `count` nodes.
fn shares(setup: &Setup, id: u16, count: usize) -> (Node, Pages) {
    let node = setup.node(id);
    let pages = Pages::new(&node.memory, SHARE, 4096);
    window::show(&node, &pages, SHARE, count as u16);
    (node, pages)
}

/// Stores are posted: a load of the same node, behind them, waits until they are done.
fn fence(cluster: &[(Node, Pages)], from: usize, to: usize) {
    cluster[from].0.nic.smfu_load(share(to), &mut [0], PATIENCE).unwrap();
}

#[test]
fn stores_and_loads_reach_the_memory_of_others() {
    for faults in [Faults::none(), nasty(1)] {
        let cluster = cluster(&network(faults), None);
        let mut rng = fastrand::Rng::with_seed(7);
        let mut mirror = vec![vec![0u8; SHARE]; cluster.len()];
        for _ in 0..300 {
            let (from, to) = (rng.usize(..cluster.len()), rng.usize(..cluster.len()));
            let len = rng.usize(1..=300);
            let at = rng.usize(0..=SHARE - len);
            let bytes: Vec<u8> = std::iter::repeat_with(|| rng.u8(..)).take(len).collect();
            cluster[from].0.nic.smfu_store(share(to) + at as u64, &bytes).unwrap();
            mirror[to][at..at + len].copy_from_slice(&bytes);
            // The next store to this target may come from another node.
            fence(&cluster, from, to);
            let mut loaded = vec![0; len];
            let reader = rng.usize(..cluster.len());
            cluster[reader].0.nic.smfu_load(share(to) + at as u64, &mut loaded, PATIENCE).unwrap();
            assert_eq!(loaded, bytes);
        }
        for ((node, pages), mirror) in cluster.iter().zip(&mirror) {
            assert!(pages.bytes(0, SHARE) == *mirror, "memory of node {}", node.nic.node());
        }
    }
}

/// Over links that lose and repeat frames each operation is done once, behind what its node did before.
#[test]
fn atomics_are_done_once_and_in_order() {
    for faults in [Faults::none(), nasty(4)] {
        let cluster = cluster(&network(faults), None);
        let mut rng = fastrand::Rng::with_seed(8);
        let mut mirror = vec![0u64; cluster.len()];
        for _ in 0..400 {
            let (from, to) = (rng.usize(..cluster.len()), rng.usize(..cluster.len()));
            let (nic, offset, value) = (&cluster[from].0.nic, share(to) + 64, rng.u64(..));
            match rng.u8(..3) {
                0 => {
                    nic.smfu_store(offset, &value.to_le_bytes()).unwrap();
                    mirror[to] = value;
                }
                1 => {
                    nic.smfu_reduce(offset, Atomic::add(value)).unwrap();
                    mirror[to] = mirror[to].wrapping_add(value);
                }
                _ => {}
            }
            let old = nic.smfu_atomic(offset, Atomic::add(value), PATIENCE);
            assert_eq!(old, Ok(mirror[to]));
            mirror[to] = mirror[to].wrapping_add(value);
        }
        let seen: Vec<u64> = cluster.iter().map(|(_, pages)| pages.load(8)).collect();
        assert_eq!(seen, mirror);
    }
}

#[test]
fn stores_of_one_node_arrive_in_order() {
    for faults in [Faults::none(), nasty(2)] {
        let cluster = cluster(&network(faults), None);
        for value in 1..=500u64 {
            cluster[0].0.nic.smfu_store(share(5) + 64, &value.to_le_bytes()).unwrap();
            let seen = cluster[5].1.load(8);
            assert!(seen <= value);
        }
        fence(&cluster, 0, 5);
        assert_eq!(cluster[5].1.load(8), 500);
    }
}

#[test]
fn many_loads_fit_the_credits() {
    for faults in [Faults::none(), nasty(3)] {
        let cluster = cluster(&network(faults), None);
        cluster[4].1.fill_pattern(3);
        let mut all = vec![0; SHARE];
        cluster[0].0.nic.smfu_load(share(4), &mut all, PATIENCE).unwrap();
        assert!(all == cluster[4].1.bytes(0, SHARE));
        assert_eq!(cluster[0].0.nic.reg_read(EXTOLL_RF_SMFU_SENT_NP), SHARE as u64 / 64);
        assert_eq!(cluster[4].0.nic.reg_read(EXTOLL_RF_SMFU_SENT_RSP), SHARE as u64 / 64);
        assert_eq!(cluster[0].0.nic.reg_read(smfu_count(5)), SHARE as u64 / 64);
    }
}

#[test]
fn an_engine_answers_for_nodes_that_nobody_drives() {
    let cluster = cluster(&network(nasty(4)), Some(NicThreads::new(1)));
    for value in 0..100u64 {
        cluster[0].0.nic.smfu_store(share(3), &value.to_le_bytes()).unwrap();
        let mut loaded = [0; 8];
        cluster[0].0.nic.smfu_load(share(3), &mut loaded, PATIENCE).unwrap();
        assert_eq!(u64::from_le_bytes(loaded), value);
    }
}

#[test]
fn registers_of_other_nodes_are_reached() {
    let cluster = cluster(&network(Faults::none()), None);
    let nic = &cluster[0].0.nic;
    let mut word = [0; 8];
    nic.smfu_load(EXTOLL_RF_INFO_NODE, &mut word, PATIENCE).unwrap();
    assert_eq!(INFO_NODE.get(u64::from_le_bytes(word)), 1);
    nic.smfu_store(scratchpad(4), &77u64.to_le_bytes()).unwrap();
    nic.smfu_load(scratchpad(4), &mut word, PATIENCE).unwrap();
    assert_eq!(u64::from_le_bytes(word), 77);
    assert_eq!(cluster[1].0.nic.reg_read(scratchpad(4)), 77);
    assert_eq!(cluster[0].0.nic.reg_read(scratchpad(4)), 0);
}

#[test]
fn targets_that_do_not_answer_end_in_a_timeout() {
    for (faults, event) in
        [Event::Kill(5), Event::Stop(5)].into_iter().flat_map(|e| [(Faults::none(), e), (nasty(6), e)])
    {
        let (clock, _time) = Manual::new();
        let network = Network::with_clock(Torus::new(3, 2, 1).unwrap(), faults, clock.clone()).unwrap();
        let cluster = cluster_on(&clock, &network, None);
        network.happen(event).unwrap();
        let start = clock.now();
        let limit = Duration::from_millis(30);
        let refused = cluster[0].0.nic.smfu_load(share(5), &mut [0; 8], limit).unwrap_err();
        assert!(matches!(refused, SmfuError::Timeout { .. }), "{event:?}: {refused}");
        let naps = Duration::from_millis(1);
        assert!((limit..limit + naps).contains(&clock.since(start)));
        // Others are not affected.
        fence(&cluster, 0, 1);
        if event == Event::Stop(5) {
            network.happen(Event::Resume(5)).unwrap();
            fence(&cluster, 0, 5);
        }
    }
}

#[test]
fn a_store_that_the_network_does_not_take_is_named_and_not_counted() {
    let (clock, _time) = Manual::new();
    let network = Network::with_clock(Torus::new(3, 2, 1).unwrap(), Faults::none(), clock.clone()).unwrap();
    let cluster = cluster_on(&clock, &network, None);
    let nic = &cluster[0].0.nic;
    let sent = || nic.reg_read(EXTOLL_RF_SMFU_SENT_P);
    network.happen(Event::Stop(5)).unwrap();
    let mut before = (clock.now(), 0);
    // What stands on the way has room for some.
    let refused = loop {
        match nic.smfu_store(share(5), &[1; 8]) {
            Ok(()) => before = (clock.now(), before.1 + 1),
            Err(refused) => break refused,
        }
        assert!(before.1 < 1_000_000, "a node that stands still takes everything");
    };
    assert!(matches!(refused, SmfuError::NotTaken { .. }), "{refused}");
    assert!(clock.since(before.0) >= Duration::from_secs(10));
    assert_eq!(sent(), before.1);
    network.happen(Event::Resume(5)).unwrap();
    // There is no driver: what waits for a card is taken when the card runs.
    cluster[5].0.nic.progress();
    fence(&cluster, 0, 5);
    assert_eq!(cluster[5].0.nic.reg_read(EXTOLL_RF_SMFU_RCVD_P), sent());
}

#[test]
fn the_network_shows_in_the_registers() {
    let network = network(nasty(8));
    let cluster = cluster(&network, None);
    for to in 1..6 {
        (0..100).for_each(|_| fence(&cluster, 0, to));
    }
    let nic = &cluster[0].0.nic;
    let status = nic.reg_read(link_status(0));
    assert!(LINK_READY.is_set(status) && LINK_ERRORS.is_set(status) && LINK_RETRANSMIT.is_set(status));
    assert_eq!(LINK_REMOTE_NODE.get(nic.reg_read(link_ids(0))), 1);
    assert!(nic.reg_read(xbar::outport_count(4)) >= 100, "packets for node 1 at least");
}

/// A network that takes packets and brings none.
struct Silent;

impl Fabric for Silent {
    fn send(&self, _from: u16, _packet: Packet) -> Result<(), Packet> {
        Ok(())
    }

    fn poll(&self, _node: u16, _class: Class) -> Option<Packet> {
        None
    }

    fn carriage(&self, _to: Address, _runs: &Runs) -> Carriage {
        Carriage::Reference
    }

    fn attach(&self, _node: u16, _wake: Arc<dyn Wake>) -> Result<(), FabricError> {
        Ok(())
    }

    fn detach(&self, _node: u16) {}
}

/// Who hears of a store by a packet of this node loads what was stored, whatever way packets take.
#[test]
fn the_own_memory_is_stored_to_without_the_network() {
    let setup = Setup { inline: true, ..Setup::over(Arc::new(Silent)) };
    let (node, pages) = shares(&setup, 0, 1);
    node.nic.smfu_store(share(0) + 64, &7u64.to_le_bytes()).unwrap();
    assert_eq!(pages.load(8), 7);
    node.nic.smfu_reduce(share(0) + 64, Atomic::add(5)).unwrap();
    assert_eq!(pages.load(8), 12);
}

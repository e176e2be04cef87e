//! Cards reduced to what the network needs: they send numbered packets and check what arrives.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use extoll_sim::faults::Faults;
use extoll_sim::network::Network;
use extoll_sim::packet::{Address, Class, Kind, Packet, Payload};
use extoll_sim::torus::Torus;
use extoll_sim::{Fabric, Wake};
use ggas_clock::{Backoff, Ladder, Manual};

/// Bound of every wait that is expected to succeed, on a machine that may stall for seconds.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub const CLASSES: [Class; 2] = [Class::Request, Class::Response];

#[derive(Default)]
pub struct Bell(pub AtomicU64);

impl Wake for Bell {
    fn wake(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Bell {
    pub fn rung(&self) -> u64 {
        self.0.swap(0, Ordering::SeqCst)
    }
}

/// A packet that says which number it has between its nodes, with a payload that follows from the header.
pub fn packet(from: u16, to: u16, class: Class, number: u32) -> Packet {
    let kind = if class == Class::Request { Kind::Put } else { Kind::GetResponse };
    let bytes = content(from, number);
    Packet {
        source: Address { node: from, vpid: 1 },
        destination: Address { node: to, vpid: 2 },
        kind,
        command: Default::default(),
        spec: Default::default(),
        modifier: Default::default(),
        mode: Default::default(),
        error: Default::default(),
        tc: 1,
        protection: 0,
        fragment: 496,
        address: 0x1000,
        aux: 0,
        len: bytes.len() as u32,
        total: bytes.len() as u32,
        offset: 0,
        tag: number,
        process: extoll_sim::packet::ANYONE,
        payload: Payload::copy_of(&bytes),
    }
}

fn content(from: u16, number: u32) -> Vec<u8> {
    (0..number * 37 % 497).map(|i| (i + number) as u8 ^ from as u8).collect()
}

/// All nodes of a network, with what each has sent and taken so far.
pub struct Traffic {
    pub network: Arc<Network>,
    pub bells: Vec<Arc<Bell>>,
    sent: HashMap<(u16, u16, Class), u32>,
    taken: HashMap<(u16, u16, Class), u32>,
}

impl Traffic {
    pub fn new(torus: Torus, faults: Faults) -> Traffic {
        let network = Network::with_clock(torus, faults, Manual::new().0).unwrap();
        let bells: Vec<Arc<Bell>> = torus.ids().map(|_| Arc::default()).collect();
        for (node, bell) in torus.ids().zip(&bells) {
            network.attach(node, bell.clone()).unwrap();
        }
        Traffic { network, bells, sent: HashMap::new(), taken: HashMap::new() }
    }

    /// Sends the next packet between two nodes; false without credit.
    pub fn send(&mut self, from: u16, to: u16, class: Class) -> bool {
        let number = self.sent.entry((from, to, class)).or_default();
        let accepted = self.network.send(from, packet(from, to, class, *number)).is_ok();
        *number += u32::from(accepted);
        accepted
    }

    /// Takes what waits for a node and checks that it is the next in order and undamaged.
    pub fn take(&mut self, node: u16, class: Class) -> bool {
        let Some(packet) = self.network.poll(node, class) else { return false };
        assert_eq!((packet.destination.node, packet.class()), (node, class));
        let from = packet.source.node;
        let expected = self.taken.entry((from, node, class)).or_default();
        assert_eq!(packet.tag, *expected, "order from {from} to {node}, {class:?}");
        assert_eq!(
            packet.payload.bytes().unwrap(),
            content(from, packet.tag),
            "payload from {from} to {node}"
        );
        *expected += 1;
        true
    }

    pub fn take_all(&mut self) {
        let nodes: Vec<u16> = self.network.torus().ids().collect();
        for node in nodes {
            self.network.step(node, self.network.clock().now());
            CLASSES.iter().for_each(|&class| while self.take(node, class) {});
        }
    }

    /// Packets sent and taken.
    pub fn totals(&self) -> (u32, u32) {
        (self.sent.values().sum(), self.taken.values().sum())
    }

    pub fn taken(&self, from: u16, to: u16, class: Class) -> u32 {
        self.taken.get(&(from, to, class)).copied().unwrap_or(0)
    }

    /// Takes until `done`, at most [`PATIENCE`].
    pub fn take_until(&mut self, what: &str, mut done: impl FnMut(&mut Traffic) -> bool) {
        let network = self.network.clone();
        let mut backoff = Backoff::on(Ladder::NEIGHBOUR, network.clock(), PATIENCE);
        loop {
            self.take_all();
            if done(self) {
                return;
            }
            let (sent, taken) = self.totals();
            let waited = backoff.pause();
            assert!(waited.is_ok(), "waited {PATIENCE:?} for {what}; {sent} packets sent, {taken} taken");
        }
    }

    /// Takes until everything sent was taken.
    pub fn drain(&mut self) {
        self.take_until("all packets", |traffic| {
            let (sent, taken) = traffic.totals();
            sent == taken
        });
    }

    /// `count` packets between nodes drawn from a seed, all taken.
    pub fn random(&mut self, seed: u64, count: u32) {
        let mut rng = fastrand::Rng::with_seed(seed);
        let nodes: Vec<u16> = self.network.torus().ids().collect();
        for _ in 0..count {
            let pick = |rng: &mut fastrand::Rng| nodes[rng.usize(..nodes.len())];
            let (from, to) = (pick(&mut rng), pick(&mut rng));
            let class = CLASSES[rng.usize(..2)];
            if !self.send(from, to, class) {
                self.take_until("credit", |traffic| traffic.send(from, to, class));
            }
        }
        self.drain();
    }
}

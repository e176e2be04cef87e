//! Two adapters and a wire between them, in virtual time from a seed.
#![allow(dead_code)]

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use extoll_sim::memory::{HostMemory, RangeKind};
use ggas_hca::wire::{Flow, encode};
use ggas_hca::*;

/// What goes wrong on the wire, each of 1.
#[derive(Clone, Copy, Default)]
pub struct Faults {
    pub lose: f64,
    pub double: f64,
    pub corrupt: f64,
    /// Longest delay beyond the shortest: packets overtake each other.
    pub spread: u64,
}

/// Time from end to end, ns.
pub const DELAY: u64 = 1_000;

/// A datagram under way: when it is there, a number, to whom, bytes.
type Datagram = Reverse<(u64, u64, usize, Vec<u8>)>;

pub struct Pair {
    pub hca: [Hca; 2],
    pub memory: Arc<HostMemory>,
    pub now: u64,
    pub random: fastrand::Rng,
    pub faults: Faults,
    under_way: BinaryHeap<Datagram>,
    number: u64,
    pub sent: u64,
    /// Buffers that regions lie in.
    kept: Vec<Box<[u64]>>,
}

pub fn address(side: usize) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1 + side as u8))
}

pub fn flow_from(side: usize) -> Flow {
    Flow::new(address(side), address(1 - side), 0xc000)
}

impl Pair {
    pub fn new(seed: u64, faults: Faults) -> Pair {
        let memory = HostMemory::new();
        let hca = [0, 1].map(|_| Hca::new(memory.clone()));
        Pair {
            hca,
            memory,
            now: 1,
            random: fastrand::Rng::with_seed(seed),
            faults,
            under_way: BinaryHeap::new(),
            number: 0,
            sent: 0,
            kept: Vec::new(),
        }
    }

    /// Declared memory of `len` bytes that lives as long as the pair.
    pub fn buffer(&mut self, len: usize) -> u64 {
        let mut words = vec![0u64; len.div_ceil(8)].into_boxed_slice();
        let at = words.as_mut_ptr() as u64;
        // SAFETY: the buffer is kept until the pair is gone, adapters with it.
        unsafe { self.memory.add_range(RangeKind::Host, at, words.len() * 8).unwrap() };
        self.kept.push(words);
        at
    }

    /// The bytes of a buffer.
    pub fn bytes(&self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        extoll_sim::memory::Memory::read(&*self.memory, at, &mut bytes).unwrap();
        bytes
    }

    pub fn fill(&self, at: u64, bytes: &[u8]) {
        extoll_sim::memory::Memory::write(&*self.memory, at, bytes).unwrap();
    }

    /// Connects queue pairs of both sides.
    pub fn connect(&mut self, qps: [u32; 2], mtu: Mtu, psn: [u32; 2], reliability: Reliability) {
        for side in 0..2 {
            let connection = Connection {
                flow: flow_from(side),
                peer: qps[1 - side],
                mtu,
                receive_psn: psn[1 - side],
                responses: reliability.reads,
                not_ready: 1,
            };
            let hca = &mut self.hca[side];
            hca.init(qps[side]).unwrap();
            hca.ready_to_receive(qps[side], connection).unwrap();
            hca.ready_to_send(qps[side], Reliability { send_psn: psn[side], ..reliability }).unwrap();
        }
    }

    /// Sends what may be sent.
    pub fn send(&mut self) {
        for side in 0..2 {
            while let Some((flow, packet)) = self.hca[side].transmit(self.now) {
                self.sent += 1;
                let mut bytes = Vec::new();
                encode(&flow, &packet, &mut bytes).unwrap();
                self.put(1 - side, bytes);
            }
        }
    }

    fn put(&mut self, to: usize, mut bytes: Vec<u8>) {
        let Faults { lose, double, corrupt, spread } = self.faults;
        if self.random.f64() < lose {
            return;
        }
        if self.random.f64() < double {
            self.under_way(to, bytes.clone(), spread);
        }
        if self.random.f64() < corrupt {
            // In what the ICRC covers.
            let at = self.random.usize(28..bytes.len());
            if at != 32 {
                bytes[at] ^= 1 << self.random.u32(0..8);
            }
        }
        self.under_way(to, bytes, spread);
    }

    fn under_way(&mut self, to: usize, bytes: Vec<u8>, spread: u64) {
        self.number += 1;
        let at = self.now + DELAY + self.random.u64(0..=spread);
        self.under_way.push(Reverse((at, self.number, to, bytes)));
    }

    /// Goes on to the next thing that happens. `false`: nothing will any more.
    pub fn step(&mut self) -> bool {
        self.send();
        let arrival = self.under_way.peek().map(|Reverse((at, ..))| *at);
        let timers = self.hca.iter().filter_map(Hca::next_deadline);
        let Some(at) = arrival.into_iter().chain(timers).min() else { return false };
        self.now = self.now.max(at);
        while let Some(Reverse((at, ..))) = self.under_way.peek()
            && *at <= self.now
        {
            let Some(Reverse((_, _, to, bytes))) = self.under_way.pop() else { break };
            let _ = self.hca[to].receive_datagram(&bytes, self.now);
        }
        self.hca.iter_mut().for_each(|hca| hca.timers(self.now));
        true
    }

    /// Until nothing happens any more.
    pub fn settle(&mut self) {
        let end = self.now + 60_000_000_000;
        while self.step() {
            assert!(self.now < end, "a minute of virtual time and no end");
        }
    }
}

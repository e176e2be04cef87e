//! A process of a job with adapters that reach those of the others.
#![allow(dead_code, reason = "not every test binary needs all")]

use std::sync::Arc;
use std::time::Instant;

use extoll_sim::memory::HostMemory;
use ggas_clock::Clock;
use ggas_kernels::{IdleGuard, Processor};
use ggas_members::Job;
use ggas_verbs::*;

use crate::common::*;

/// A process's adapters.
pub struct World<'a> {
    pub job: &'a Job,
    pub processor: Processor,
    pub memory: Arc<HostMemory>,
    pub network: Arc<Network>,
    pub connect: Connect,
}

/// Who runs the adapters.
pub struct Running(#[allow(dead_code, reason = "held")] Option<IdleGuard>, #[allow(dead_code)] Driver);

impl World<'_> {
    pub fn join(job: &Job, clock: Clock) -> World<'_> {
        let memory = HostMemory::new();
        let network = network_across(job, &memory, clock, SOON).unwrap();
        World::on(job, network, memory)
    }

    pub fn on(job: &Job, network: Arc<Network>, memory: Arc<HostMemory>) -> World<'_> {
        // Nothing is lost, so a time-out would only tell that the machine is busy: 4.096 us * 2^24 is over a minute.
        let reliability = Reliability { timeout: 24, ..Reliability::default() };
        let connect = Connect { mtu: Mtu::B256, reliability, ..Connect::default() };
        World { job, processor: ggas_selftest::processor(job.rank() as usize), memory, network, connect }
    }

    pub fn run(&self) -> Running {
        let stepped = self.network.clone();
        let idle = self.processor.on_idle(Clock::REAL, move || stepped.step());
        Running(idle, self.network.start().unwrap())
    }

    pub fn rank(&self) -> u32 {
        self.job.rank()
    }

    pub fn barrier(&self) {
        self.job.barrier(SOON).unwrap();
    }

    pub fn end(&self, format: Format, placement: Placement) -> End {
        let context = Context::open(&self.network, &self.memory, &self.processor, format).unwrap();
        context.set_timeout(SOON).unwrap();
        End::open(&self.processor, context, 256, placement, &pattern_of(self.rank()))
    }

    /// What all tell: queue pairs for each rank (of its own none counts), and the region.
    pub fn tell(&self, qps: &[&Qp], mr: &Mr) -> Vec<(Vec<Endpoint>, RemoteRegion)> {
        let mut bytes = mr.remote().to_bytes().to_vec();
        qps.iter().for_each(|qp| bytes.extend(qp.endpoint().to_bytes()));
        let told = self.job.exchange(&bytes, SOON).unwrap();
        let read = |bytes: &Vec<u8>| {
            let (region, endpoints) = bytes.split_at(20);
            let endpoints = endpoints.chunks(24).map(|bytes| Endpoint::from_bytes(bytes).unwrap());
            (endpoints.collect(), RemoteRegion::from_bytes(region).unwrap())
        };
        told.iter().map(read).collect()
    }

    /// Connects it to the other one of two processes, whose region is returned.
    pub fn pair(&self, end: &End) -> RemoteRegion {
        let told = self.tell(&[&end.qp, &end.qp], &end.mr);
        let (endpoints, region) = &told[1 - self.rank() as usize];
        end.qp.connect(&endpoints[0], self.connect).unwrap();
        self.barrier();
        *region
    }

    /// As `poll`, by who runs the adapters himself.
    pub fn completed(&self, cq: &Cq) -> Completion {
        let end = Instant::now() + SOON;
        loop {
            self.network.step();
            if let Some(done) = cq.poll().unwrap() {
                return done;
            }
            assert!(Instant::now() < end, "no completion");
            std::thread::yield_now();
        }
    }
}

pub fn pattern_of(rank: u32) -> Vec<u8> {
    pattern((rank as u8).wrapping_mul(0x55))
}

/// The whole region of rank `rank` of two must be as at first, but for `changed` at `at`.
pub fn expect(end: &End, rank: u32, at: usize, changed: &[u8], what: &str) {
    let mut expected = pattern_of(rank);
    expected[at..at + changed.len()].copy_from_slice(changed);
    assert!(bytes(end.mr.buffer(), 0, REGION) == expected, "{what}");
}

//! Two nodes, a port on each, and what the tests share.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod engines;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ggas_device::LockedMemory;
use ggas_device::sim::{FabricKind, Progress, SimBuilder, SimNetwork};
use ggas_rma::{HostBuffer, Node, Path, Port, PortConfig, Region};

/// Bound of every wait that is expected to succeed, on a machine that may stall for seconds.
pub const SOON: Duration = Duration::from_secs(60);

/// Both paths; slots with one slot and with many.
pub fn paths() -> [PortConfig; 3] {
    let slots = |slots| PortConfig { path: Some(Path::Slots), slots, ..PortConfig::default() };
    [PortConfig::default(), slots(1), slots(256)]
}

pub fn builder() -> SimBuilder {
    SimNetwork::builder().nodes(2).locked_memory(LockedMemory::Unlimited)
}

/// Both ways of progress, in one process and as between processes.
pub fn networks() -> Vec<SimNetwork> {
    [FabricKind::InProcess, FabricKind::Process].into_iter().flat_map(networks_on).collect()
}

/// Both ways of progress on one fabric.
pub fn networks_on(fabric: FabricKind) -> [SimNetwork; 2] {
    [Progress::Inline, Progress::Threads(1)]
        .map(|progress| builder().fabric(fabric).progress(progress).build().unwrap())
}

pub struct Pair {
    pub origin: Port,
    pub target: Port,
}

impl Pair {
    pub fn new(network: &SimNetwork, config: PortConfig) -> Pair {
        let port = |node| Node::new(network.device(node).unwrap()).open_port(config).unwrap();
        Pair { origin: port(0), target: port(1) }
    }
}

/// Waits until `done`, and says what did not come otherwise.
pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < SOON, "{what}");
        std::thread::yield_now();
    }
}

/// Ends what another thread of a scope goes on doing, also where the test fails.
pub struct Stops<'a>(pub &'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A region of `len` bytes of a pattern that `seed` selects.
pub fn region(port: &Port, len: usize, seed: u8) -> Region {
    let region = port.register(HostBuffer::zeroed(len).unwrap()).unwrap();
    region.write(0, &pattern(len, seed)).unwrap();
    region
}

pub fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| (i as u8).wrapping_mul(31) ^ (i >> 8) as u8 ^ seed).collect()
}

pub fn bytes(region: &Region, offset: usize, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    region.read(offset, &mut bytes).unwrap();
    bytes
}

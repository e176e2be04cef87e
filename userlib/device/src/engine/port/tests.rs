//! What a port does once nobody knows what its engine uses.

use std::mem::offset_of;
use std::sync::atomic::AtomicU32;

use ggas_kernels::args::engine_node;

use super::*;
use crate::engine::EngineConfig;
use crate::engine::memory::{EngineMemory, OwnMemory};

/// Memory of a node whose engine cannot be told of one of the next changes.
#[derive(Debug)]
struct Deaf {
    own: OwnMemory,
    /// Which; 0: of none.
    fails: AtomicU32,
}

// SAFETY: it is that of the memory inside.
unsafe impl EngineMemory for Deaf {
    fn address(&self, node: u16) -> u64 {
        self.own.address(node)
    }

    fn load(&self, node: u16, offset: usize, words: &mut [u64]) -> Result<(), DeviceError> {
        self.own.load(node, offset, words)
    }

    fn store(&self, node: u16, offset: usize, words: &[u64]) -> Result<(), DeviceError> {
        let tells = offset == offset_of!(engine_node, epoch);
        let left = |left: u32| left.checked_sub(u32::from(tells));
        if self.fails.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left) == Ok(1) && tells {
            return Err(DeviceError::Timeout { what: "nothing", node, waited: Duration::ZERO });
        }
        self.own.store(node, offset, words)
    }

    fn store_u32(&self, node: u16, offset: usize, value: u32) -> Result<(), DeviceError> {
        self.own.store_u32(node, offset, value)
    }
}

fn open() -> (Arc<Deaf>, EnginePort) {
    let cpu = Processor::cpu();
    let own = OwnMemory::new(std::slice::from_ref(&cpu)).unwrap();
    let deaf = Arc::new(Deaf { own, fails: AtomicU32::new(0) });
    let memory: Arc<dyn EngineMemory> = deaf.clone();
    let node = Arc::new(Node::new(0, &cpu, &memory));
    let runner = Arc::new(Runner::new(memory, vec![node.clone()], 1, EngineConfig::default()));
    let port = EnginePort::new(&node, &runner, 0, &PortSetup::default(), None).unwrap();
    port.open().unwrap();
    (deaf, port)
}

fn is_refused<T>(result: Result<T, DeviceError>) -> bool {
    matches!(result, Err(DeviceError::Closed))
}

#[test]
fn a_slot_ring_stays_if_its_engine_may_use_it() {
    let (deaf, port) = open();
    deaf.fails.store(1, Ordering::Relaxed);
    let error = port.attach_slots(4, PageOption::TE).unwrap_err();
    assert!(matches!(error, DeviceError::Timeout { .. }), "{error}");
    assert!(lock(&port.memory.ring).is_some());
    assert!(lock(&port.state).stuck, "its memory would be given back");
    assert!(is_refused(port.attach_slots(4, PageOption::TE)));
    port.close().unwrap();
}

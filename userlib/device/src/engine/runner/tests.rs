//! What engines are told of processes that end.

use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::engine::memory::OwnMemory;
use crate::{LostPeer, PeerEnd};

/// Memory of two nodes, the second of which is lost.
#[derive(Debug)]
struct Widowed {
    own: OwnMemory,
    /// Announcements.
    told: AtomicU32,
    /// How many of the next stores fail.
    fails: AtomicU32,
}

// SAFETY: it is that of the memory inside.
unsafe impl EngineMemory for Widowed {
    fn address(&self, node: u16) -> u64 {
        self.own.address(node)
    }

    fn load(&self, node: u16, offset: usize, words: &mut [u64]) -> Result<(), DeviceError> {
        self.own.load(node, offset, words)
    }

    fn store(&self, node: u16, offset: usize, words: &[u64]) -> Result<(), DeviceError> {
        let fewer = |left: u32| left.checked_sub(1);
        if self.fails.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer).is_ok() {
            return Err(DeviceError::Timeout { what: "nothing", node, waited: Duration::ZERO });
        }
        self.told.fetch_add(u32::from(offset == offset_of!(engine_node, epoch)), Ordering::Relaxed);
        self.own.store(node, offset, words)
    }

    fn store_u32(&self, node: u16, offset: usize, value: u32) -> Result<(), DeviceError> {
        self.own.store_u32(node, offset, value)
    }

    fn lost(&self, node: u16) -> Option<LostPeer> {
        (node == 1).then_some(LostPeer { rank: 1, node, vpid: None, end: PeerEnd::Lost })
    }
}

#[test]
fn a_lost_process_is_reported_to_an_engine_once_however_often_asked_for() {
    let cpu = [Processor::cpu(), Processor::cpu()];
    let own = OwnMemory::new(&cpu).unwrap();
    let widowed = Arc::new(Widowed { own, told: AtomicU32::new(0), fails: AtomicU32::new(1) });
    let memory: Arc<dyn EngineMemory> = widowed.clone();
    let node = Arc::new(Node::new(0, &cpu[0], &memory));
    let runner = Runner::new(memory, vec![node.clone()], 2, EngineConfig::default());
    let told = || {
        let gone = node.state.load(gone_at(1), 1).unwrap()[0];
        (gone, widowed.told.load(Ordering::Relaxed))
    };
    runner.drain_lost(&node);
    assert_eq!(told(), (0, 0), "the memory could not be written");
    for _ in 0..3 {
        runner.drain_lost(&node);
        assert_eq!(told(), (1, 1));
    }
}

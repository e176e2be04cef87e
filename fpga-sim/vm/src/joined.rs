//! The network as a card of a guest sees it: memory of others is not its own.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use extoll_abi::Address;
use extoll_sim::Wake;
use extoll_sim::fabric::{Carriage, Fabric, FabricError, First, LinkWork, Pending};
use extoll_sim::memory::{Lent, WRITE_MAX};
use extoll_sim::packet::{Class, Packet};
use extoll_sim::runs::Runs;

/// Bytes of a packet: a few fragments, so that long transfers take few packets.
const PACKET_BYTES: u32 = 16 << 10;

/// A network for the card of one node. Payloads to other cards travel as bytes: each card has its own memory, in which
/// another's addresses mean something else.
pub struct Joined {
    network: Arc<dyn Fabric>,
    node: u16,
    late: Mutex<Late>,
    /// Answers are kept, or were and have yet to arrive.
    some_late: AtomicBool,
}

/// Answers that are late, for tests of what becomes of them.
#[derive(Default)]
struct Late {
    /// Those that arrive are kept.
    keep: bool,
    kept: VecDeque<Packet>,
    /// Of the card.
    wake: Option<Arc<dyn Wake>>,
}

impl Joined {
    /// The network for this node's card.
    pub fn new(network: Arc<dyn Fabric>, node: u16) -> Arc<Joined> {
        Arc::new(Joined { network, node, late: Mutex::default(), some_late: AtomicBool::new(false) })
    }

    /// Whether answers to the card stay on the way. What stayed arrives when they no longer do.
    pub fn keep_answers(&self, keep: bool) {
        let mut late = self.late();
        late.keep = keep;
        self.some_late.store(keep || !late.kept.is_empty(), Ordering::Relaxed);
        if let (false, Some(wake)) = (keep || late.kept.is_empty(), &late.wake) {
            wake.wake();
        }
    }

    fn late(&self) -> MutexGuard<'_, Late> {
        self.late.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Fabric for Joined {
    fn send(&self, from: u16, packet: Packet) -> Result<(), Packet> {
        self.network.send(from, packet)
    }

    fn poll(&self, node: u16, class: Class) -> Option<Packet> {
        if class == Class::Request || !self.some_late.load(Ordering::Relaxed) {
            return self.network.poll(node, class);
        }
        let mut late = self.late();
        if late.keep {
            let arrived = std::iter::from_fn(|| self.network.poll(node, class));
            late.kept.extend(arrived);
            return None;
        }
        let first = late.kept.pop_front();
        self.some_late.store(!late.kept.is_empty(), Ordering::Relaxed);
        first.or_else(|| self.network.poll(node, class))
    }

    fn carriage(&self, to: Address, runs: &Runs) -> Carriage {
        match self.network.carriage(to, runs) {
            // Between processes memory of a guest is none that others can read, whatever its address looks like.
            Carriage::Reference if to.node != self.node && self.network.polled() => {
                Carriage::Bytes { most: WRITE_MAX as u32 }
            }
            // Nor is memory that was given back when the packet arrives.
            Carriage::Reference if to.node != self.node || self.some_late.load(Ordering::Relaxed) => {
                Carriage::Bytes { most: PACKET_BYTES }
            }
            carriage => carriage,
        }
    }

    fn polled(&self) -> bool {
        self.network.polled()
    }

    fn pending(&self, node: u16, first: &mut dyn First) -> Pending {
        self.network.pending(node, first)
    }

    fn rest(&self, node: u16) {
        self.network.rest(node);
    }

    fn stage(&self, len: usize) -> Option<Lent> {
        self.network.stage(len)
    }

    fn members(&self, from: u16, group: u16) -> Vec<u16> {
        self.network.members(from, group)
    }

    fn step(&self, node: u16, now: Instant) -> LinkWork {
        self.network.step(node, now)
    }

    fn has_links(&self) -> bool {
        self.network.has_links()
    }

    fn attach(&self, node: u16, wake: Arc<dyn Wake>) -> Result<(), FabricError> {
        self.late().wake = Some(wake.clone());
        self.network.attach(node, wake)
    }

    fn detach(&self, node: u16) {
        *self.late() = Late::default();
        self.some_late.store(false, Ordering::Relaxed);
        self.network.detach(node);
    }

    fn reg_read(&self, node: u16, offset: u64) -> Option<u64> {
        self.network.reg_read(node, offset)
    }

    fn reg_write(&self, node: u16, offset: u64, value: u64) -> bool {
        self.network.reg_write(node, offset, value)
    }
}

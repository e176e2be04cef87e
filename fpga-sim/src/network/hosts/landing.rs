//! Landings: memory that a process lets one peer write to, in slots of a packet each.
//!
//! To have the receiver read a payload takes a way there and back more than to write it. So a peer that sends payloads which do not fit
//! a message is given a landing, once: it writes packets into free slots, which the wire tells of in order with messages, and the card
//! copies each payload from its slot to where it goes. What a peer writes harms nothing but its own packets: no other memory is open
//! to it. A slot is free again when the peer is told that its payload has been taken, as of [long ones](super::grants).

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::collections::HashMap;
use std::ptr;
use std::sync::Arc;

use ggas_wire::Key;

use super::message::LED;

/// Slots of a landing.
pub(super) const SLOTS: u32 = 16;
/// Most payload of a slot.
pub(super) const LANDS: u32 = 64 << 10;
/// Bytes of a slot: what is in front of a payload, and the payload.
pub(super) const SLOT: usize = LED + LANDS as usize;

/// The memory of a landing. Only the wire writes there, and only what [`Ground::take`] says is read by others.
pub(super) struct Ground(*mut u8);

// SAFETY: plain memory, which is accessed by addresses alone.
unsafe impl Send for Ground {}
// SAFETY: as above.
unsafe impl Sync for Ground {}

impl Ground {
    const LAYOUT: Layout = match Layout::from_size_align(SLOTS as usize * SLOT, 4096) {
        Ok(layout) => layout,
        Err(_) => unreachable!(),
    };
    pub const LEN: usize = Self::LAYOUT.size();

    pub fn new() -> Arc<Ground> {
        // SAFETY: it has a size.
        let start = unsafe { alloc_zeroed(Self::LAYOUT) };
        if start.is_null() {
            handle_alloc_error(Self::LAYOUT);
        }
        Arc::new(Ground(start))
    }

    pub fn address(&self) -> u64 {
        self.0 as u64
    }

    /// What is in front of the payload of a slot, below [`SLOTS`]. It is there once: who tells of the slot again finds nothing.
    pub fn take(&self, slot: u32) -> [u8; LED] {
        let mut led = [0; LED];
        // SAFETY: inside of it; the peer may write there at the same time, which is seen as whatever bytes.
        unsafe {
            let from = self.0.add(slot as usize * SLOT);
            ptr::copy_nonoverlapping(from, led.as_mut_ptr(), LED);
            ptr::write_bytes(from, 0, size_of::<u64>());
        }
        led
    }

    /// The payload of a slot, below [`SLOTS`].
    pub fn payload(&self, slot: u32) -> *const u8 {
        // SAFETY: inside of it.
        unsafe { self.0.add(slot as usize * SLOT + LED) }
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        // SAFETY: made so.
        unsafe { dealloc(self.0, Self::LAYOUT) }
    }
}

/// A landing of this process, for one peer.
pub(super) struct Landing<G> {
    pub node: u16,
    pub grant: G,
    pub ground: Arc<Ground>,
    /// Slots whose payloads the card has not taken.
    pub busy: u32,
    /// What the wire tells of the first slot.
    first: u32,
    /// The peer has not been told of it: by what it writes there.
    pub untold: Option<Key>,
}

/// All landings of this process. `G`: the wire's name of memory.
pub(super) struct Landings<G> {
    /// By the immediate value of their first slots, without the slot's number: nobody else guesses them.
    all: HashMap<u32, Landing<G>>,
    by_node: HashMap<u16, u32>,
    /// Nodes that send what a landing is for.
    pub wanted: Vec<u16>,
    /// The library may still write what lost peers sent: to be kept as long as the wire.
    pub parked: Vec<Arc<Ground>>,
}

impl<G> Default for Landings<G> {
    fn default() -> Landings<G> {
        let (all, by_node) = (HashMap::new(), HashMap::new());
        Landings { all, by_node, wanted: Vec::new(), parked: Vec::new() }
    }
}

impl<G> Landings<G> {
    pub fn add(&mut self, node: u16, (grant, key): (G, Key), ground: Arc<Ground>, random: u64) {
        let mut first = random as u32 & !(SLOTS - 1);
        while self.all.contains_key(&first) {
            first = first.wrapping_add(SLOTS);
        }
        self.all.insert(first, Landing { node, grant, ground, busy: 0, first, untold: Some(key) });
        self.by_node.insert(node, first);
    }

    /// The slot that an immediate value names.
    pub fn find(&mut self, immediate: u32) -> Option<(&mut Landing<G>, u32)> {
        Some((self.all.get_mut(&(immediate & !(SLOTS - 1)))?, immediate & (SLOTS - 1)))
    }

    pub fn of(&mut self, node: u16) -> Option<&mut Landing<G>> {
        self.all.get_mut(self.by_node.get(&node)?)
    }

    /// The peer at a node sends what a landing is for.
    pub fn want(&mut self, node: u16) {
        if !self.by_node.contains_key(&node) && !self.wanted.contains(&node) {
            self.wanted.push(node);
        }
    }

    pub fn remove(&mut self, node: u16) -> Option<Landing<G>> {
        self.wanted.retain(|wanted| *wanted != node);
        self.all.remove(&self.by_node.remove(&node)?)
    }
}

impl<G> Landing<G> {
    pub fn first(&self) -> u32 {
        self.first
    }
}

/// A peer's landing, as this process sees it.
#[derive(Debug)]
pub(super) struct Runway {
    pub key: Key,
    /// What the wire tells of the first slot.
    pub first: u32,
    /// A bit for each free slot.
    free: u32,
}

impl Runway {
    /// `None`: a landing has other places.
    pub fn new(key: Key, first: u32) -> Option<Runway> {
        let fits = key.region_len() == Ground::LEN as u64 && first.is_multiple_of(SLOTS);
        fits.then_some(Runway { key, first, free: (1 << SLOTS) - 1 })
    }

    /// The lowest free slot: few in use touch little memory.
    pub fn free(&self) -> Option<u32> {
        (self.free != 0).then(|| self.free.trailing_zeros())
    }

    pub fn occupy(&mut self, slot: u32) {
        self.free &= !(1 << slot);
    }

    pub fn vacate(&mut self, slot: u32) {
        self.free |= 1 << slot;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_told_of_once() {
        let ground = Ground::new();
        let at = |slot: u32| (ground.address() + u64::from(slot) * SLOT as u64) as *mut u8;
        for slot in [0, SLOTS - 1] {
            // SAFETY: inside of it.
            unsafe { at(slot).write_bytes(9, SLOT) };
            assert_eq!(ground.take(slot), [9; LED]);
            assert_eq!(ground.take(slot)[..8], [0; 8]);
            // SAFETY: as above.
            assert_eq!(unsafe { ground.payload(slot).add(LANDS as usize - 1).read() }, 9);
        }
    }

    #[test]
    fn slots_are_used_one_by_one() {
        let key = |len: u64| Key::try_from(&[&len.to_le_bytes()[..], &[9; 16]].concat()[..]).unwrap();
        assert!(Runway::new(key(Ground::LEN as u64 - 1), 0).is_none());
        assert!(Runway::new(key(Ground::LEN as u64), 1).is_none());
        let mut runway = Runway::new(key(Ground::LEN as u64), 32).unwrap();
        for slot in 0..SLOTS {
            assert_eq!(runway.free(), Some(slot));
            runway.occupy(slot);
        }
        assert_eq!(runway.free(), None);
        runway.vacate(3);
        assert_eq!(runway.free(), Some(3));
    }

    #[test]
    fn landings_have_numbers_of_their_own() {
        let key = || Key::try_from(&[0; 24][..]).unwrap();
        let mut landings = Landings::default();
        for node in [3, 4] {
            landings.add(node, ((), key()), Ground::new(), 77);
        }
        let first = landings.of(4).unwrap().first();
        assert_ne!(first, landings.of(3).unwrap().first());
        let (landing, slot) = landings.find(first + 5).unwrap();
        assert_eq!((landing.node, slot), (4, 5));
        assert!(
            landings.remove(4).is_some() && landings.find(first).is_none() && landings.remove(4).is_none()
        );
        landings.want(3);
        landings.want(4);
        landings.want(4);
        assert_eq!(landings.wanted, [4]);
    }
}

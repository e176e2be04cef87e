//! Landings: memory that a process lets one peer write to, in slots of a packet each.
//!
//! To have the receiver read a payload takes a way there and back more than to write it. So a peer that sends payloads which do not fit
//! a message is given a landing, once: it writes packets into free slots, which the wire tells of in order with messages, and the card
//! copies each payload from its slot to where it goes, or from the wire's own buffer, where the wire has one, before it is in the slot. What a peer writes harms nothing but its own packets: no other memory is open
//! to it. A slot is free again when the peer is told that its payload has been taken, as of [long ones](super::grants). Requests
//! and responses have slots of their own, so that a card which takes no requests still gets responses.
//!
//! A library may go on writing what it began when the peer still had the landing, so the addresses of one stay this process's as long
//! as the wire is there; the pages do not.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use ggas_wire::Key;
use memmap2::{MmapOptions, MmapRaw, UncheckedAdvice};

use super::message::LED;
use crate::packet::Class;

/// Slots of a landing.
pub(super) const SLOTS: u32 = 16;
/// Slots for packets of one class: those of requests are in front.
pub(super) const OF_CLASS: u32 = SLOTS / 2;
/// The class of the packets of a slot, below [`SLOTS`].
pub(super) fn class_of(slot: u32) -> Class {
    if slot < OF_CLASS { Class::Request } else { Class::Response }
}

/// Landings whose addresses a process keeps at most, with those of peers that are gone: 4 GiB of addresses.
const KEPT: usize = 4096;
/// Most payload of a slot.
pub(super) const LANDS: u32 = 64 << 10;
/// Bytes of a slot: what is in front of a payload, and the payload.
pub(super) const SLOT: usize = LED + LANDS as usize;

/// The memory of a landing. Only the wire writes there, and only what [`Ground::led`] says is read by others.
pub(super) struct Ground(MmapRaw);

impl Ground {
    pub const LEN: usize = SLOTS as usize * SLOT;

    /// Its pages are there once they are touched.
    ///
    /// # Errors
    /// The system has no room.
    pub fn new() -> io::Result<Arc<Ground>> {
        let map = MmapOptions::new().len(Ground::LEN).no_reserve_swap().map_anon()?;
        Ok(Arc::new(Ground(map.into())))
    }

    pub fn address(&self) -> u64 {
        self.0.as_mut_ptr() as u64
    }

    fn at(&self, slot: u32) -> *mut u8 {
        assert!(slot < SLOTS, "a slot");
        // SAFETY: inside of it.
        unsafe { self.0.as_mut_ptr().add(slot as usize * SLOT) }
    }

    /// What is in front of the payload of a slot, below [`SLOTS`].
    pub fn led(&self, slot: u32) -> [u8; LED] {
        // SAFETY: inside of it; the peer may write there at the same time, which is seen as whatever bytes.
        unsafe { self.at(slot).cast::<[u8; LED]>().read_volatile() }
    }

    /// The packet of a slot, below [`SLOTS`], is taken: who tells of it again names no ticket.
    pub fn clear(&self, slot: u32) {
        // SAFETY: inside of it, and aligned, since slots are of whole words.
        unsafe { self.at(slot).cast::<u64>().write_volatile(0) }
    }

    /// The payload of a slot, below [`SLOTS`].
    pub fn payload(&self, slot: u32) -> *const u8 {
        // SAFETY: inside of it.
        unsafe { self.at(slot).add(LED) }
    }

    /// Nobody reads here any more: its pages go back, and new ones come where somebody still writes.
    fn empty(&self) {
        // SAFETY: what was there is of no use to anybody, and only the wire has the addresses.
        if let Err(error) = unsafe { self.0.unchecked_advise(UncheckedAdvice::DontNeed) } {
            tracing::debug!("the pages of a landing stay: {error}");
        }
    }
}

const _: () = assert!(SLOT.is_multiple_of(size_of::<u64>()));

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
    /// Of peers that are gone, while cards read there.
    parked: Vec<Arc<Ground>>,
    /// Later, without pages. The library may still write there: to be kept as long as the wire.
    empty: Vec<Arc<Ground>>,
}

impl<G> Default for Landings<G> {
    fn default() -> Landings<G> {
        let (all, by_node) = (HashMap::new(), HashMap::new());
        Landings { all, by_node, wanted: Vec::new(), parked: Vec::new(), empty: Vec::new() }
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

    /// Whether there can be no more. Peers that come and go could else have this process keep any number of them.
    pub fn is_full(&self) -> bool {
        self.all.len() + self.parked.len() + self.empty.len() >= KEPT
    }

    /// Keeps the addresses of a landing whose peer is gone.
    pub fn park(&mut self, ground: Arc<Ground>) {
        self.parked.push(ground);
        self.empty_parked();
    }

    /// Gives back the pages of landings of peers that are gone, where no card reads any more.
    pub fn empty_parked(&mut self) {
        for ground in self.parked.extract_if(.., |ground| Arc::strong_count(ground) == 1) {
            ground.empty();
            self.empty.push(ground);
        }
    }

    /// Addresses of all landings that are kept.
    #[cfg(test)]
    pub fn addresses(&self) -> Vec<u64> {
        let in_use = self.all.values().map(|landing| &landing.ground);
        in_use.chain(&self.parked).chain(&self.empty).map(|ground| ground.address()).collect()
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

    /// The lowest free slot for a packet of a class: few in use touch little memory.
    pub fn free(&self, class: Class) -> Option<u32> {
        let of_class = ((1 << OF_CLASS) - 1) << (class as u32 * OF_CLASS);
        let free = self.free & of_class;
        (free != 0).then(|| free.trailing_zeros())
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
    fn a_slot_that_was_taken_names_nobody() {
        let ground = Ground::new().unwrap();
        let at = |slot: u32| (ground.address() + u64::from(slot) * SLOT as u64) as *mut u8;
        for slot in [0, SLOTS - 1] {
            // SAFETY: inside of it.
            unsafe { at(slot).write_bytes(9, SLOT) };
            assert_eq!([ground.led(slot), ground.led(slot)], [[9; LED]; 2]);
            ground.clear(slot);
            assert_eq!(ground.led(slot)[..8], [0; 8]);
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
        for slot in 0..OF_CLASS {
            assert_eq!(runway.free(Class::Request), Some(slot));
            runway.occupy(slot);
        }
        assert_eq!(runway.free(Class::Request), None);
        for slot in OF_CLASS..SLOTS {
            assert_eq!(runway.free(Class::Response), Some(slot));
            runway.occupy(slot);
        }
        assert_eq!(runway.free(Class::Response), None);
        runway.vacate(3);
        assert_eq!((runway.free(Class::Request), runway.free(Class::Response)), (Some(3), None));
    }

    #[test]
    fn pages_of_parked_landings_go_once_no_card_reads_there() {
        let mut landings = Landings::<()>::default();
        let card = Ground::new().unwrap();
        let start = card.address() as *mut u8;
        // SAFETY: inside of it.
        unsafe { start.write_bytes(9, Ground::LEN) };
        landings.park(card.clone());
        // SAFETY: parked.
        assert_eq!(unsafe { start.read_volatile() }, 9);
        drop(card);
        landings.empty_parked();
        assert_eq!(landings.addresses(), [start as u64]);
        // SAFETY: as above; others may write there.
        unsafe {
            assert_eq!([start.read_volatile(), start.add(Ground::LEN - 1).read_volatile()], [0; 2]);
            start.write_volatile(1);
        }
    }

    /// However many peers come and go.
    #[test]
    fn addresses_have_a_bound() {
        let mut landings = Landings::<()>::default();
        let ground = Ground::new().unwrap();
        while !landings.is_full() {
            landings.empty.push(ground.clone());
        }
        assert_eq!(landings.addresses().len(), KEPT);
    }

    #[test]
    fn landings_have_numbers_of_their_own() {
        let key = || Key::try_from(&[0; 24][..]).unwrap();
        let mut landings = Landings::default();
        for node in [3, 4] {
            landings.add(node, ((), key()), Ground::new().unwrap(), 77);
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

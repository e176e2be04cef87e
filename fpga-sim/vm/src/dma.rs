//! A guest's memory as its card reaches it.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use extoll_sim::memory::{Completion, Foreign, MemoryError, Ticket, TicketState, Width};
use extoll_sim::{HostMemory, Memory, RangeKind};
use memmap2::MmapOptions;
use thiserror::Error;

use crate::PeerBar;
use crate::cut::Watched;
use crate::parts::{Part, Piece, Place, place};

/// Why a part of the guest's memory was not taken.
#[derive(Error)]
pub enum DmaError {
    /// The range is empty, wraps, or lies on another one.
    #[error(
        "DMA range {address:#x} (+{size:#x}) is empty, wraps, or overlaps one that is mapped; unmap that first"
    )]
    Range {
        /// Bus address.
        address: u64,
        /// Bytes.
        size: u64,
    },
    /// The file is shorter than the range.
    #[error("the file behind DMA range {address:#x} has {len:#x} bytes, {need:#x} are needed")]
    Short {
        /// Bus address.
        address: u64,
        /// Bytes of the file.
        len: u64,
        /// Bytes needed.
        need: u64,
    },
    /// The file cannot be mapped.
    #[error(
        "the memory behind DMA range {address:#x} cannot be mapped: {source}; share the machine's memory"
    )]
    Map {
        /// Bus address.
        address: u64,
        /// Why.
        source: io::Error,
    },
}

ggas_errors::debug_as_display!(DmaError);

/// Memory of a guest, as one of its cards reaches it: at the bus addresses that the VMM registered, and BARs of
/// other devices of the guest, while the device is a bus master. Any other address is an error. An access may
/// span adjacent parts: its bytes are then moved in ascending order.
pub struct GuestMemory {
    /// Sorted by bus address; none overlap.
    parts: ArcSwap<Vec<Arc<Part>>>,
    peers: Vec<Arc<PeerBar>>,
    /// What is mapped, by addresses of this process: a removal there waits until no access is under way.
    host: Arc<HostMemory>,
    master: AtomicBool,
    /// Taken to change `parts`.
    change: Mutex<()>,
}

impl GuestMemory {
    /// Memory with nothing in it but BARs of other devices.
    ///
    /// # Errors
    /// [`MemoryError`] where a BAR is empty.
    pub fn new(peers: Vec<Arc<PeerBar>>) -> Result<Arc<GuestMemory>, MemoryError> {
        let host = HostMemory::new();
        for peer in &peers {
            let memory = peer.memory();
            // SAFETY: mapped for writing as long as the peer lives, which `peers` keeps.
            unsafe { host.add_range(RangeKind::Host, memory.address(), memory.len() as usize) }?;
        }
        let (parts, master, change) = (ArcSwap::default(), AtomicBool::new(false), Mutex::default());
        Ok(Arc::new(GuestMemory { parts, peers, host, master, change }))
    }

    /// Whether the card may reach memory at all (bus mastering in its command register).
    pub fn set_master(&self, master: bool) {
        self.master.store(master, Ordering::Release);
    }

    /// Adds `size` bytes at `offset` of a file, at bus address `bus`, for reading and writing. Should the file be cut
    /// short later, zeroed memory of nobody takes the part's place.
    ///
    /// # Errors
    /// [`DmaError`].
    pub fn map(&self, bus: u64, size: u64, file: &File, offset: u64) -> Result<(), DmaError> {
        let range = DmaError::Range { address: bus, size };
        let Some(end) = bus.checked_add(size).filter(|end| *end > bus) else { return Err(range) };
        let failed = |source| DmaError::Map { address: bus, source };
        let len = file.metadata().map_err(failed)?.len();
        let need = offset.saturating_add(size);
        if need > len {
            return Err(DmaError::Short { address: bus, len, need });
        }
        let _change = self.lock();
        if self.parts.load().iter().any(|part| part.bus < end && bus < part.end()) {
            return Err(range);
        }
        let map = MmapOptions::new().offset(offset).len(size as usize).map_raw(file).map_err(failed)?;
        let watched = Watched::new(map.as_mut_ptr() as usize, map.len()).map_err(failed)?;
        self.add(Arc::new(Part { bus, size, watched, map })).map_err(|_| range)
    }

    fn add(&self, part: Arc<Part>) -> Result<(), MemoryError> {
        // SAFETY: mapped as long as `parts` has the part; `remove` takes the range back first.
        unsafe { self.host.add_range(RangeKind::Host, part.host(), part.size as usize) }?;
        let mut parts = Vec::clone(&self.parts.load());
        parts.insert(parts.partition_point(|other| other.bus < part.bus), part);
        self.parts.store(Arc::new(parts));
        Ok(())
    }

    /// The same memory for another card; this one is left without any. When the call returns, the card that had it
    /// touches none of it any more.
    ///
    /// # Errors
    /// As [`GuestMemory::new`].
    pub fn succeed(&self) -> Result<Arc<GuestMemory>, MemoryError> {
        let next = GuestMemory::new(self.peers.clone())?;
        self.set_master(false);
        for part in self.remove(|_| true) {
            next.add(part)?;
        }
        for peer in &self.peers {
            self.host.remove_range(peer.memory().address(), peer.memory().len() as usize)?;
        }
        Ok(next)
    }

    /// Takes back every part that has bytes among the `size` at `bus`. When it returns, no card touches them any more.
    pub fn unmap(&self, bus: u64, size: u64) {
        let end = bus.saturating_add(size);
        self.remove(|part| part.bus < end && bus < part.end());
    }

    /// Takes back everything.
    pub fn unmap_all(&self) {
        self.remove(|_| true);
    }

    /// Takes parts out; returns those that nobody accesses any more.
    fn remove(&self, which: impl Fn(&Part) -> bool) -> Vec<Arc<Part>> {
        let _change = self.lock();
        let (mut gone, rest): (Vec<_>, Vec<_>) =
            self.parts.load().iter().cloned().partition(|part| which(part));
        self.parts.store(Arc::new(rest));
        let ranges: Vec<_> = gone.iter().map(|part| (part.host(), part.size as usize)).collect();
        let mut removed = self.host.remove_ranges(&ranges).into_iter();
        gone.retain(|part| {
            let removed = removed.next().unwrap_or(Ok(()));
            if let Err(error) = &removed {
                tracing::error!("memory at {:#x} stays mapped: {error}", part.bus);
                std::mem::forget(part.clone());
            }
            removed.is_ok()
        });
        if let Some(part) = gone.iter().find(|part| part.watched.is_cut()) {
            tracing::error!(
                "the file behind {:#x} was cut short: the card went on with other memory",
                part.bus
            );
        }
        gone
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.change.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where `len` bytes at a bus address are.
    fn place(&self, bus: u64, len: usize) -> Result<Place, MemoryError> {
        let bad = MemoryError::BadAddress { address: bus, len };
        if !self.master.load(Ordering::Acquire) {
            return Err(bad);
        }
        let found = place(&self.parts.load(), bus, len);
        let peer = || self.peers.iter().find_map(|peer| peer.find(bus, len)).map(Place::One);
        found.or_else(peer).ok_or(bad)
    }

    /// Address in this process of `len` bytes that no part's end divides: what is aligned never is.
    fn find(&self, bus: u64, len: usize) -> Result<u64, MemoryError> {
        match self.place(bus, len)? {
            Place::One(at) => Ok(at),
            Place::Many(_) => Err(MemoryError::BadAddress { address: bus, len }),
        }
    }
}

// Addresses are looked up first, in a table that may be out of date by then: `host` refuses those that are gone. All
// of it is memory of the host, so that whatever is copied is there when the call returns.
impl Memory for GuestMemory {
    fn session(&self, work: &mut dyn FnMut()) {
        self.host.session(work);
    }

    fn contains(&self, address: u64, len: usize) -> bool {
        match self.place(address, len) {
            Ok(Place::One(at)) => self.host.contains(at, len),
            Ok(Place::Many(pieces)) => pieces.iter().all(|p| self.host.contains(p.at, p.bytes.len())),
            Err(_) => false,
        }
    }

    fn load(&self, address: u64) -> Result<u64, MemoryError> {
        self.host.load(self.find(address, 8)?)
    }

    fn store(&self, address: u64, value: u64) -> Result<(), MemoryError> {
        self.host.store(self.find(address, 8)?, value)
    }

    fn store_entry(&self, address: u64, word: [u64; 2]) -> Result<Completion, MemoryError> {
        self.host.store_entry(self.find(address, 16)?, word)
    }

    fn fetch_compare_add(&self, address: u64, compare: i32, add: i32) -> Result<(bool, i32), MemoryError> {
        self.host.fetch_compare_add(self.find(address, 4)?, compare, add)
    }

    fn fetch_modify(
        &self,
        address: u64,
        width: Width,
        change: &dyn Fn(u64) -> u64,
    ) -> Result<u64, MemoryError> {
        self.host.fetch_modify(self.find(address, width.bytes())?, width, change)
    }

    fn read(&self, source: u64, out: &mut [u8]) -> Result<(), MemoryError> {
        match self.place(source, out.len())? {
            Place::One(at) => self.host.read(at, out),
            Place::Many(pieces) => {
                pieces.into_iter().try_for_each(|p| self.host.read(p.at, &mut out[p.bytes]))
            }
        }
    }

    fn write(&self, destination: u64, bytes: &[u8]) -> Result<Completion, MemoryError> {
        match self.place(destination, bytes.len())? {
            Place::One(at) => self.host.write(at, bytes),
            Place::Many(pieces) => {
                let write = |_, p: Piece| self.host.write(p.at, &bytes[p.bytes]);
                pieces.into_iter().try_fold(Completion::Done, write)
            }
        }
    }

    fn copy(&self, destination: u64, source: u64, len: usize) -> Result<Completion, MemoryError> {
        if let (Place::One(to), Place::One(from)) = (self.place(destination, len)?, self.place(source, len)?)
        {
            return self.host.copy(to, from, len);
        }
        // The ranges may overlap, in pieces that need not.
        let mut bytes = vec![0; len];
        self.read(source, &mut bytes)?;
        self.write(destination, &bytes)
    }

    fn copy_foreign(
        &self,
        destination: u64,
        source: &Foreign,
        offset: usize,
        len: usize,
    ) -> Result<Completion, MemoryError> {
        match self.place(destination, len)? {
            Place::One(at) => self.host.copy_foreign(at, source, offset, len),
            Place::Many(pieces) => {
                let copy =
                    |_, p: Piece| self.host.copy_foreign(p.at, source, offset + p.bytes.start, p.bytes.len());
                pieces.into_iter().try_fold(Completion::Done, copy)
            }
        }
    }

    fn poll(&self, ticket: Ticket) -> TicketState {
        self.host.poll(ticket)
    }

    fn fetch(&self, source: u64, len: usize) -> Result<Ticket, MemoryError> {
        self.host.fetch(self.find(source, len)?, len)
    }

    fn fetched(&self, ticket: Ticket) -> Result<Option<Box<[u8]>>, MemoryError> {
        self.host.fetched(ticket)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use nix::sys::memfd::{MFdFlags, memfd_create};

    use super::*;

    const PAGE: u64 = 4096;
    const BUS: u64 = 0x7000_0000;

    /// Pages of a file at bus addresses that follow one another, in an order of their own; page 5 is left out.
    fn paged() -> (Arc<GuestMemory>, File) {
        let file = File::from(memfd_create("ram", MFdFlags::MFD_CLOEXEC).unwrap());
        file.set_len(8 * PAGE).unwrap();
        let memory = GuestMemory::new(vec![]).unwrap();
        memory.set_master(true);
        for (page, at) in [(3, 6), (0, 4), (4, 0), (2, 7), (1, 2), (6, 1)] {
            memory.map(BUS + page * PAGE, PAGE, &file, at * PAGE).unwrap();
        }
        (memory, file)
    }

    #[test]
    fn accesses_span_parts_that_follow_one_another() {
        let (memory, file) = paged();
        let bytes: Vec<u8> = (0..3 * PAGE as usize).map(|i| (i * 7 + i / 251) as u8).collect();
        memory.write(BUS + 100, &bytes).unwrap();
        let mut page = vec![0; PAGE as usize];
        file.read_exact_at(&mut page, 2 * PAGE).unwrap();
        assert!(page == bytes[PAGE as usize - 100..][..PAGE as usize], "bus page 1 is page 2 of the file");
        let mut back = vec![0; bytes.len()];
        memory.read(BUS + 100, &mut back).unwrap();
        assert!(back == bytes, "what was written");
        assert!(memory.contains(BUS, 5 * PAGE as usize));
        assert_eq!(memory.load(BUS + PAGE).unwrap().to_le_bytes(), bytes[PAGE as usize - 100..][..8]);
    }

    #[test]
    fn copies_across_parts_may_overlap() {
        for (from, to) in [(50, 300), (300, 50), (7, PAGE + 9)] {
            let (memory, _file) = paged();
            let len = 3 * PAGE as usize;
            let bytes: Vec<u8> = (0..len).map(|i| (i * 13 + i / 241) as u8).collect();
            memory.write(BUS + from, &bytes).unwrap();
            memory.copy(BUS + to, BUS + from, len).unwrap();
            let mut back = vec![0; len];
            memory.read(BUS + to, &mut back).unwrap();
            assert!(back == bytes, "from {from} to {to}");
        }
    }

    #[test]
    fn an_access_with_a_hole_moves_nothing() {
        let (memory, _file) = paged();
        let len = 2 * PAGE as usize;
        assert!(memory.write(BUS + 4 * PAGE + 1, &vec![1; len]).is_err());
        assert!(memory.copy(BUS + 4 * PAGE + 1, BUS, len).is_err());
        assert!(memory.read(BUS + 5 * PAGE - 1, &mut [0; 2]).is_err());
        assert!(memory.read(BUS - 1, &mut [0; 2]).is_err());
        assert!(!memory.contains(BUS + 6 * PAGE, PAGE as usize + 1));
        let mut page = vec![9; PAGE as usize];
        memory.read(BUS + 4 * PAGE, &mut page).unwrap();
        assert!(page.iter().all(|byte| *byte == 0));
    }

    #[test]
    fn memory_whose_file_is_cut_short_is_replaced() {
        let (memory, file) = paged();
        memory.write(BUS, &[1; 16]).unwrap();
        file.set_len(PAGE).unwrap();
        memory.write(BUS + PAGE - 8, &[2; 16]).unwrap();
        let mut back = [9; 24];
        memory.read(BUS + PAGE - 16, &mut back).unwrap();
        assert_eq!(back, *[[0; 8], [2; 8], [2; 8]].concat(), "zeroed, and written");
        memory.unmap_all();
        // A range whose file is good, at an address that may be the same.
        file.set_len(8 * PAGE).unwrap();
        memory.map(BUS, PAGE, &file, 0).unwrap();
        memory.store(BUS, 3).unwrap();
        let mut word = [0; 8];
        file.read_exact_at(&mut word, 0).unwrap();
        assert_eq!(word, 3u64.to_le_bytes());
    }

    #[test]
    fn unmapping_takes_each_part_that_it_touches() {
        let (memory, _file) = paged();
        memory.unmap(BUS + PAGE, 2 * PAGE);
        assert!(memory.contains(BUS, PAGE as usize) && memory.contains(BUS + 3 * PAGE, PAGE as usize));
        assert!(memory.load(BUS + PAGE).is_err() && memory.load(BUS + 2 * PAGE).is_err());
        memory.unmap(BUS + 3 * PAGE + 8, 8);
        assert!(memory.load(BUS + 3 * PAGE).is_err(), "a part of it was to go");
        memory.unmap(0, u64::MAX);
        assert!(memory.load(BUS).is_err());
    }
}

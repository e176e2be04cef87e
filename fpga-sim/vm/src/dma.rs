//! A guest's memory as its card reaches it.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use extoll_sim::memory::{Completion, Foreign, MemoryError, Ticket, TicketState};
use extoll_sim::{HostMemory, Memory, RangeKind};
use memmap2::{MmapOptions, MmapRaw};
use thiserror::Error;

use crate::PeerBar;

/// Why a part of the guest's memory was not taken.
#[derive(Debug, Error)]
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

/// A part of the guest's memory, mapped while the value lives.
struct Part {
    bus: u64,
    size: u64,
    map: MmapRaw,
}

impl Part {
    fn host(&self) -> u64 {
        self.map.as_mut_ptr() as u64
    }

    /// Address here of `len` bytes at a bus address.
    fn find(&self, bus: u64, len: usize) -> Option<u64> {
        let offset = bus.checked_sub(self.bus)?;
        let end = offset.checked_add(len as u64)?;
        (end <= self.size).then(|| self.host() + offset)
    }
}

/// Memory of a guest, as one of its cards reaches it: by the bus addresses that the machine declared, and BARs of
/// other devices of the guest. Only while the device is a bus master. Any other address is an error.
pub struct GuestMemory {
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

    /// Adds `size` bytes at `offset` of a file, at bus address `bus`, for reading and writing.
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
        if self.parts.load().iter().any(|part| part.bus < end && bus < part.bus + part.size) {
            return Err(range);
        }
        let map = MmapOptions::new().offset(offset).len(size as usize).map_raw(file).map_err(failed)?;
        self.add(Arc::new(Part { bus, size, map })).map_err(|_| range)
    }

    fn add(&self, part: Arc<Part>) -> Result<(), MemoryError> {
        // SAFETY: mapped as long as `parts` has the part; `remove` takes the range back first.
        unsafe { self.host.add_range(RangeKind::Host, part.host(), part.size as usize) }?;
        let mut parts = Vec::clone(&self.parts.load());
        parts.push(part);
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

    /// Takes back what lies within `size` bytes at `bus`. When it returns, no card touches it any more.
    pub fn unmap(&self, bus: u64, size: u64) {
        let end = bus.saturating_add(size);
        self.remove(|part| part.bus >= bus && part.bus + part.size <= end);
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
        gone.retain(|part| {
            let removed = self.host.remove_range(part.host(), part.size as usize);
            if let Err(error) = &removed {
                tracing::error!("memory at {:#x} stays mapped: {error}", part.bus);
                std::mem::forget(part.clone());
            }
            removed.is_ok()
        });
        gone
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.change.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Address in this process of `len` bytes at a bus address.
    fn find(&self, bus: u64, len: usize) -> Result<u64, MemoryError> {
        let bad = MemoryError::BadAddress { address: bus, len };
        if !self.master.load(Ordering::Acquire) {
            return Err(bad);
        }
        let part = self.parts.load().iter().find_map(|part| part.find(bus, len));
        part.or_else(|| self.peers.iter().find_map(|peer| peer.find(bus, len))).ok_or(bad)
    }
}

// Addresses are looked up first, in a table that may be out of date by then: `host` refuses those that are gone.
impl Memory for GuestMemory {
    fn session(&self, work: &mut dyn FnMut()) {
        self.host.session(work);
    }

    fn contains(&self, address: u64, len: usize) -> bool {
        self.find(address, len).is_ok_and(|at| self.host.contains(at, len))
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

    fn read(&self, source: u64, out: &mut [u8]) -> Result<(), MemoryError> {
        self.host.read(self.find(source, out.len())?, out)
    }

    fn write(&self, destination: u64, bytes: &[u8]) -> Result<Completion, MemoryError> {
        self.host.write(self.find(destination, bytes.len())?, bytes)
    }

    fn copy(&self, destination: u64, source: u64, len: usize) -> Result<Completion, MemoryError> {
        self.host.copy(self.find(destination, len)?, self.find(source, len)?, len)
    }

    fn copy_foreign(
        &self,
        destination: u64,
        source: &Foreign,
        offset: usize,
        len: usize,
    ) -> Result<Completion, MemoryError> {
        self.host.copy_foreign(self.find(destination, len)?, source, offset, len)
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

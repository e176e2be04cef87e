//! Memory regions: what of memory may be reached by which key, from which protection domain, and how (IBTA 10.6).

use std::collections::VecDeque;
use std::ops::BitOr;

use extoll_sim::memory::{Completion, Memory, MemoryError, TicketState, Width};
use ggas_clock::Clock;

use crate::numbers::ByNumber;

/// What may be done with memory. Reading it locally is always allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access(u8);

impl Access {
    /// Nothing but local reads.
    pub const NONE: Access = Access(0);
    /// The adapter may write here for its own requests: receives, answers.
    pub const LOCAL_WRITE: Access = Access(1);
    /// Peers may write.
    pub const REMOTE_WRITE: Access = Access(2);
    /// Peers may read.
    pub const REMOTE_READ: Access = Access(4);
    /// Peers may do atomic operations.
    pub const REMOTE_ATOMIC: Access = Access(8);
    /// All of these.
    pub const ALL: Access = Access(15);

    /// Whether all of `wanted` is allowed.
    pub fn allows(self, wanted: Access) -> bool {
        self.0 & wanted.0 == wanted.0
    }
}

impl BitOr for Access {
    type Output = Access;

    fn bitor(self, other: Access) -> Access {
        Access(self.0 | other.0)
    }
}

/// A protection domain: keys and queue pairs of one do not work with those of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Domain(pub u32);

/// A key does not allow an access: unknown, of another domain, too few rights, or out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Denied;

/// Why a region cannot be registered.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RegionError {
    /// Empty, wraps around, or is not declared to the adapter's memory.
    #[error("{len} bytes at {address:#x} are not memory that the adapter reaches: declare the range first")]
    Range {
        /// First byte.
        address: u64,
        /// Bytes.
        len: u64,
    },
    /// Peers may not be allowed to change what the adapter itself may not (IBTA 10.6.3.3).
    #[error("remote write and atomic rights need local write rights: add Access::LOCAL_WRITE")]
    Rights,
    /// No region has the key.
    #[error("no region has key {0:#010x}")]
    Unknown(u32),
    /// All keys are taken.
    #[error("the adapter has no free key: deregister a region")]
    Full,
}

ggas_errors::debug_as_display!(RegionError);

#[derive(Clone, Copy)]
struct Region {
    key: u32,
    domain: Domain,
    /// The first byte's address in requests.
    virtual_address: u64,
    /// Its bus address.
    address: u64,
    len: u64,
    access: Access,
}

/// The regions of an adapter. Local and remote key of a region are one number; its low byte changes with each use of
/// an index, and indices are used again when all others were, so that a stale key finds nothing.
#[derive(Default)]
pub struct Regions {
    by_index: ByNumber<Region>,
    next: u32,
    /// Keys of regions that are gone, oldest first.
    free: VecDeque<u32>,
}

/// Indices that are given out: 24 bits less the first 16, among which real adapters have special keys.
const LAST_INDEX: u32 = 0xff_ffff;

impl Regions {
    /// Registers `len` bytes at bus address `address`, which requests call `virtual_address`. Returns the key.
    ///
    /// # Errors
    /// [`RegionError`].
    pub fn register(
        &mut self,
        memory: &dyn Memory,
        domain: Domain,
        virtual_address: u64,
        address: u64,
        len: u64,
        access: Access,
    ) -> Result<u32, RegionError> {
        let range = RegionError::Range { address, len };
        let size = usize::try_from(len).ok().filter(|size| *size > 0).ok_or(range)?;
        address.checked_add(len).and(virtual_address.checked_add(len)).ok_or(range)?;
        if !memory.contains(address, size) {
            return Err(range);
        }
        let changes = !access.allows(Access::LOCAL_WRITE)
            && (access.allows(Access::REMOTE_WRITE) || access.allows(Access::REMOTE_ATOMIC));
        if changes {
            return Err(RegionError::Rights);
        }
        let key = self.new_key()?;
        let region = Region { key, domain, virtual_address, address, len, access };
        self.by_index.insert(key >> 8, region);
        Ok(key)
    }

    fn new_key(&mut self) -> Result<u32, RegionError> {
        if self.next < LAST_INDEX - 16 {
            self.next += 1;
            return Ok((self.next + 16) << 8);
        }
        // As late as can be: each index has only so many keys before its first one comes again.
        let old = self.free.pop_front().ok_or(RegionError::Full)?;
        Ok(old & !0xff | (old.wrapping_add(1) & 0xff))
    }

    /// Takes a region back: from now on its key allows nothing.
    ///
    /// # Errors
    /// [`RegionError::Unknown`].
    pub fn deregister(&mut self, key: u32) -> Result<(), RegionError> {
        match self.by_index.get(&(key >> 8)) {
            Some(region) if region.key == key => {
                self.by_index.remove(&(key >> 8));
                self.free.push_back(key);
                Ok(())
            }
            _ => Err(RegionError::Unknown(key)),
        }
    }

    /// The bus address of `len` bytes at `address`, if `key` allows `wanted` there.
    ///
    /// # Errors
    /// [`Denied`].
    pub fn check(
        &self,
        domain: Domain,
        key: u32,
        address: u64,
        len: u64,
        wanted: Access,
    ) -> Result<u64, Denied> {
        let region = self.by_index.get(&(key >> 8)).filter(|region| region.key == key).ok_or(Denied)?;
        let offset = address.checked_sub(region.virtual_address).ok_or(Denied)?;
        let inside = offset.checked_add(len).is_some_and(|end| end <= region.len);
        if region.domain != domain || !region.access.allows(wanted) || !inside {
            return Err(Denied);
        }
        Ok(region.address + offset)
    }
}

/// Reads bytes, of host memory or a device's.
pub(crate) fn read(memory: &dyn Memory, address: u64, out: &mut [u8]) -> Result<(), MemoryError> {
    if out.is_empty() {
        return Ok(());
    }
    match memory.read(address, out) {
        Err(MemoryError::Device { .. }) => {}
        done => return done,
    }
    let ticket = memory.fetch(address, out.len())?;
    loop {
        if let Some(bytes) = memory.fetched(ticket)? {
            out.copy_from_slice(&bytes);
            return Ok(());
        }
        // A device copies in microseconds, or fails; either way the ticket ends.
        Clock::REAL.spin();
    }
}

/// Writes bytes; the last aligned word becomes visible last, and all are visible when this returns.
pub(crate) fn write(memory: &dyn Memory, address: u64, bytes: &[u8]) -> Result<(), MemoryError> {
    if bytes.is_empty() {
        return Ok(());
    }
    let Completion::Ticket(ticket) = memory.write(address, bytes)? else { return Ok(()) };
    loop {
        match memory.poll(ticket) {
            TicketState::Done => return Ok(()),
            TicketState::Failed => return Err(MemoryError::Device { address }),
            TicketState::Pending => Clock::REAL.spin(),
        }
    }
}

/// Changes an aligned 64-bit word and returns what it was. In host memory atomic for all; in a device's among the requests of one
/// adapter, as `IBV_ATOMIC_HCA` promises.
pub(crate) fn modify(
    memory: &dyn Memory,
    address: u64,
    change: &dyn Fn(u64) -> u64,
) -> Result<u64, MemoryError> {
    match memory.fetch_modify(address, Width::Eight, change) {
        Err(MemoryError::Device { .. }) => {}
        done => return done,
    }
    let mut bytes = [0; 8];
    read(memory, address, &mut bytes)?;
    let before = u64::from_le_bytes(bytes);
    write(memory, address, &change(before).to_le_bytes())?;
    Ok(before)
}

//! Memory as the card sees it: bus addresses, declared ranges, copies that may end later.
//!
//! Bus addresses are addresses of this process (unified with the GPU's). Everything the card may touch is declared
//! as a range first; any other address is an error, never an access, so hostile descriptors cannot reach further.

mod access;
mod far;
mod flight;
mod foreign;
mod host;
mod lengths;
mod lent;
mod move_bytes;
mod reading;
pub mod runs;
mod table;

use extoll_abi::Atomic;
pub use extoll_abi::Width;
pub use far::{Far, FarSource, TAIL};
pub use foreign::Foreign;
pub use host::{HostMemory, RangeKind};
pub use lengths::Lengths;
pub use lent::{Lender, Lent};
pub(crate) use move_bytes::copy_streaming;

use std::sync::Arc;

use crate::packet::HoldState;
use runs::Runs;

/// Names a copy in flight on a device: which copier, and the copier's own number for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    /// Index of the copier in its [`HostMemory`].
    pub copier: u16,
    /// The copier's number for the copy.
    pub id: u64,
}

/// How a transfer ended, or that it has not yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// The bytes are visible.
    Done,
    /// A device copies; whatever is ordered behind waits until [`Memory::poll`] says so.
    Ticket(Ticket),
}

/// State of a copy in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TicketState {
    /// Not finished.
    Pending,
    /// The bytes are visible.
    Done,
    /// The device failed; the bytes are not there.
    Failed,
}

/// Why memory was not touched.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// Part of the range is not declared, or misaligned for this access.
    #[error("bus address {address:#x} (+{len}) lies outside the declared ranges; register the memory first")]
    BadAddress {
        /// First byte.
        address: u64,
        /// Bytes.
        len: usize,
    },
    /// The range is device memory, which the CPU cannot access word by word; use [`Memory::copy`].
    #[error("bus address {address:#x} is device memory; only copies reach it")]
    Device {
        /// First byte.
        address: u64,
    },
    /// Copies are still in flight.
    #[error("copies of the range at {address:#x} are still in flight after {waited_ms} ms")]
    Busy {
        /// First byte.
        address: u64,
        /// How long the removal waited.
        waited_ms: u64,
    },
}

ggas_errors::debug_as_display!(MemoryError);

/// All memory that a card can reach. Calls are safe with any argument.
pub trait Memory: Send + Sync {
    /// Does `work`, during which this thread's calls are cheaper. A removal of a range waits until it is done.
    fn session(&self, work: &mut dyn FnMut()) {
        work();
    }
    /// Whether all of `len` bytes at `address` is declared memory.
    fn contains(&self, address: u64, len: usize) -> bool;
    /// Whether all of `len` bytes at `address` is memory of a device.
    fn is_device(&self, _address: u64, _len: usize) -> bool {
        false
    }
    /// Loads an aligned 64-bit word (acquire).
    fn load(&self, address: u64) -> Result<u64, MemoryError>;
    /// Stores an aligned 64-bit word (release).
    fn store(&self, address: u64, value: u64) -> Result<(), MemoryError>;
    /// Writes a 16-byte queue entry at a 16-byte boundary; `word[1]` becomes visible last.
    fn store_entry(&self, address: u64, word: [u64; 2]) -> Result<Completion, MemoryError>;
    /// On the 32-bit word at `address`: `if value <= compare { value += add }`, signed, atomically. Returns whether
    /// it added, and the resulting value (spec 5).
    fn fetch_compare_add(&self, address: u64, compare: i32, add: i32) -> Result<(bool, i32), MemoryError>;
    /// Changes the aligned word of this width at `address`, atomically; returns what it was before. `change` may be called
    /// more than once; of what it gives the low bytes count.
    fn fetch_modify(
        &self,
        address: u64,
        width: Width,
        change: &dyn Fn(u64) -> u64,
    ) -> Result<u64, MemoryError>;
    /// Reads host memory; [`MemoryError::Device`] where it is a device's.
    fn read(&self, source: u64, out: &mut [u8]) -> Result<(), MemoryError>;
    /// As [`Memory::read`], to memory that another core read last and will read next.
    fn read_for_others(&self, source: u64, out: &mut [u8]) -> Result<(), MemoryError> {
        self.read(source, out)
    }
    /// Writes bytes; the last aligned word becomes visible last. `bytes` are taken before the call returns.
    fn write(&self, destination: u64, bytes: &[u8]) -> Result<Completion, MemoryError>;
    /// The same, to memory of the host alone: nothing is begun for a device's.
    fn write_host(&self, destination: u64, bytes: &[u8]) -> Result<(), MemoryError> {
        match self.is_device(destination, bytes.len()) {
            true => Err(MemoryError::Device { address: destination }),
            false => self.write(destination, bytes).map(|_| ()),
        }
    }
    /// Writes bytes as [`Memory::write_host`], and behind them a queue entry, if there is one, as [`Memory::store_entry`]; an error: neither
    /// was written.
    fn write_with_entry(
        &self,
        destination: u64,
        _bytes: &[u8],
        _entry: Option<(u64, [u64; 2])>,
    ) -> Result<(), MemoryError> {
        Err(MemoryError::Device { address: destination })
    }
    /// Copies; the last aligned word becomes visible last. Ranges may overlap.
    fn copy(&self, destination: u64, source: u64, len: usize) -> Result<Completion, MemoryError>;
    /// Copies `len` bytes from `offset` of memory that no range declares; the last aligned word becomes visible last.
    fn copy_foreign(
        &self,
        destination: u64,
        source: &Foreign,
        offset: usize,
        len: usize,
    ) -> Result<Completion, MemoryError>;
    /// Starts to read `len` bytes from `offset` of memory on another host; [`MemoryError::Device`] where the source does not reach the
    /// destination, and only copies do.
    fn copy_far(
        &self,
        destination: u64,
        _source: &Far,
        _offset: usize,
        _len: usize,
    ) -> Result<Completion, MemoryError> {
        Err(MemoryError::Device { address: destination })
    }
    /// Lets others read memory until the hold is over; removals of ranges wait for that. False, and nothing happened, where not all
    /// of it is host memory that they can be let read; with `device`, memory of devices whose addresses [mean something to
    /// others](DeviceCopier::is_cuda).
    fn lend(&self, _runs: &Runs, _until: &Arc<HoldState>, _device: bool) -> bool {
        false
    }
    /// Has a device copy, and then store a queue entry in host memory at `entry`: one trip to the device less than
    /// waiting for the copy and writing the entry. `None`: not possible here, and nothing was done.
    fn copy_then_entry(
        &self,
        _destination: u64,
        _source: u64,
        _len: usize,
        _entry: u64,
        _word: [u64; 2],
    ) -> Option<Ticket> {
        None
    }
    /// How a copy in flight stands. After `Done` or `Failed` the ticket is spent: do not ask again.
    fn poll(&self, ticket: Ticket) -> TicketState;
    /// Starts to read device memory into a buffer of the memory's own; see [`Memory::fetched`].
    fn fetch(&self, source: u64, len: usize) -> Result<Ticket, MemoryError>;
    /// Starts an atomic operation on an aligned word of device memory; see [`Memory::fetched`] for what was there. `Ok(None)`: nothing was
    /// done, and the device can do it soon, so ask again. [`MemoryError::Device`]: nothing was done, and the device cannot.
    fn modify(&self, address: u64, _atomic: Atomic) -> Result<Option<Ticket>, MemoryError> {
        Err(MemoryError::Device { address })
    }
    /// The bytes of a [`Memory::fetch`], or those before a [`Memory::modify`]; `Ok(None)` while it is in flight. Any other answer spends
    /// the ticket.
    fn fetched(&self, ticket: Ticket) -> Result<Option<Box<[u8]>>, MemoryError>;
    /// Nobody asks for the bytes of a [`Memory::fetch`] or [`Memory::modify`] any more: its ticket is spent.
    fn forget(&self, _ticket: Ticket) {}
}

/// Most bytes of a [`DeviceCopier::write_inline`]: a packet's payload, also between processes.
pub const WRITE_MAX: usize = 4096;

/// Moves bytes to and from one device's memory, asynchronously. Who has such memory implements it.
///
/// Addresses are bus addresses of declared ranges; at least one side of a copy is this device's memory, the other
/// may be host memory (registered with the device or not) or another device's. A copy makes its last aligned word
/// visible last, to kernels as well. Copies are independent: whoever needs order waits for the ticket.
pub trait DeviceCopier: Send + Sync {
    /// Starts a copy of `len` bytes, `len` from 1 to 8 MiB.
    fn copy(&self, destination: u64, source: u64, len: usize) -> u64;
    /// Starts a copy as [`DeviceCopier::copy`] does; behind it the device stores a 16-byte queue entry in host
    /// memory, as a whole. `None`: it cannot, and did nothing.
    fn copy_then_entry(
        &self,
        _destination: u64,
        _source: u64,
        _len: usize,
        _entry: u64,
        _word: [u64; 2],
    ) -> Option<u64> {
        None
    }
    /// Starts a write of 1 to [`WRITE_MAX`] bytes; `bytes` are taken before the call returns.
    fn write_inline(&self, destination: u64, bytes: &[u8]) -> u64;
    /// Starts an atomic operation on an aligned word of this device's memory, atomic with what its kernels do there. `Ok(None)`: it did
    /// nothing, and can soon. An error: it did nothing, and cannot.
    fn modify(&self, address: u64, _atomic: Atomic) -> Result<Option<u64>, MemoryError> {
        Err(MemoryError::Device { address })
    }
    /// What an atomic operation found in its word, asked for once, when [`DeviceCopier::poll`] said that it is done.
    fn take_before(&self, _id: u64) -> Option<u64> {
        None
    }
    /// How a copy, or an atomic operation, stands. Cheap: called in a loop. The number is spent after `Done` or `Failed`.
    fn poll(&self, id: u64) -> TicketState;
    /// Whether its memory is CUDA's, at CUDA's addresses: libraries that know CUDA read and write it themselves.
    fn is_cuda(&self) -> bool {
        false
    }
}

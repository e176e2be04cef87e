//! Memory of a process on another host, which is read into place.

use std::sync::Arc;

use super::TicketState;

/// Last bytes of [`Far`] that came with the packet: they are written behind the others, as a whole, so that who waits for the
/// last word sees all.
pub const TAIL: usize = 64;

/// What carries bytes from the other host.
pub trait FarSource: Send + Sync {
    /// Starts to read `len` bytes from `offset` on, to the address `to`; returns a number for it. `device`: there is memory of a
    /// device, which it [reaches](FarSource::reaches_devices).
    ///
    /// # Safety
    /// Memory that stays mapped writable until [`FarSource::state`] says that it is over, and tolerates access by others.
    unsafe fn read(&self, offset: usize, to: u64, len: usize, device: bool) -> u64;
    /// Whether it reads to memory of devices that is [CUDA's](super::DeviceCopier::is_cuda).
    fn reaches_devices(&self) -> bool {
        false
    }
    /// How a read stands. The number is spent after `Done` or `Failed`.
    fn state(&self, read: u64) -> TicketState;
    /// As [`FarSource::read`], of the first `len` bytes into a buffer of its own.
    fn fetch(&self, len: usize) -> u64;
    /// The bytes of a [`FarSource::fetch`], with room for [`TAIL`] more; `None` while they are under way, an error where they do not
    /// come.
    fn fetched(&self, read: u64) -> Option<Result<Vec<u8>, ()>>;
}

/// Bytes that a process on another host lets this one read once. It learns when this value is dropped.
#[derive(Clone)]
pub struct Far {
    pub(super) source: Arc<dyn FarSource>,
    /// Bytes, those of the tail included.
    len: u32,
    tail: [u8; TAIL],
}

impl Far {
    /// `len` bytes, more than [`TAIL`]; the last of them are here already.
    pub fn new(source: Arc<dyn FarSource>, len: u32, tail: [u8; TAIL]) -> Far {
        Far { source, len, tail }
    }

    /// Bytes.
    #[allow(clippy::len_without_is_empty, reason = "a payload has bytes")]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Bytes that have to be read.
    pub fn body(&self) -> usize {
        self.len().saturating_sub(TAIL)
    }

    /// The bytes behind them.
    pub fn tail(&self) -> &[u8; TAIL] {
        &self.tail
    }

    /// Starts to read all of the body into a buffer: for memory that only copies reach.
    pub fn fetch(&self) -> u64 {
        self.source.fetch(self.body())
    }

    /// All bytes, once the body of a [`Far::fetch`] is there.
    pub fn fetched(&self, read: u64) -> Option<Result<Box<[u8]>, ()>> {
        Some(self.source.fetched(read)?.map(|mut bytes| {
            bytes.extend_from_slice(&self.tail);
            bytes.into_boxed_slice()
        }))
    }
}

impl std::fmt::Debug for Far {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Far").field("len", &self.len).finish_non_exhaustive()
    }
}

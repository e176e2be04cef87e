//! Physically contiguous memory of a card's machine (spec 9.3).

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use extoll_abi::bindings::{EXTOLL_BUFFER_MAX, extoll_buffer_alloc};
use nix::errno::Errno;

use super::file::{CardFile, failed};
use crate::DeviceError;

/// Memory that commands without address translation reach by its bus address. It lives until this is dropped and
/// what was mapped of it is unmapped. For the privileged.
#[derive(Debug)]
pub struct PhysicalBuffer {
    file: CardFile,
    bus_address: u64,
    offset: u64,
}

impl PhysicalBuffer {
    /// Largest buffer in bytes.
    pub const MAX: usize = EXTOLL_BUFFER_MAX as usize;

    /// Zeroed memory in the machine of the card that [`open`](super::open) finds, in whole pages.
    ///
    /// # Errors
    /// [`DeviceError::Privilege`]; [`DeviceError::Memory`], also for sizes of 0 and above [`MAX`](Self::MAX);
    /// [`DeviceError::CardLost`], and as [`open`](super::open).
    pub fn allocate(bytes: usize) -> Result<PhysicalBuffer, DeviceError> {
        let file = CardFile::open(Path::new(&super::first()))?;
        let mut argument = extoll_buffer_alloc { bytes: bytes as u64, ..Default::default() };
        file.buffer_alloc(&mut argument).map_err(|errno| match errno {
            Errno::ENOMEM | Errno::EINVAL => {
                DeviceError::Memory { what: "a physical buffer", bytes, source: io::Error::from(errno) }
            }
            errno => failed("a physical buffer", errno),
        })?;
        let extoll_buffer_alloc { bus_address, map_offset: offset, .. } = argument;
        Ok(PhysicalBuffer { file, bus_address, offset })
    }

    /// Where cards reach its first byte.
    pub fn bus_address(&self) -> u64 {
        self.bus_address
    }

    /// The file and the offset at which `mmap` gives all of it.
    pub fn place(&self) -> (BorrowedFd<'_>, u64) {
        (self.file.as_fd(), self.offset)
    }
}

//! Memory that guests map, and BARs that are such memory.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::MmapRaw;
use nix::fcntl::{FallocateFlags, FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};

/// A file without a name, mapped here and by a virtual machine. Pages that nobody touched take no memory.
pub struct SharedFile {
    file: File,
    map: MmapRaw,
}

impl SharedFile {
    /// Zeroed memory of `bytes`.
    ///
    /// # Errors
    /// The system's, where it has no room.
    pub fn new(name: &str, bytes: u64) -> io::Result<SharedFile> {
        let file = File::from(memfd_create(name, MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?);
        file.set_len(bytes)?;
        // Clients get the file: one that could truncate it would end this process by SIGBUS.
        let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
        fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
        let map = MmapRaw::map_raw(&file)?;
        Ok(SharedFile { file, map })
    }

    /// Bytes.
    pub fn len(&self) -> u64 {
        self.map.len() as u64
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.map.len() == 0
    }

    /// Address in this process; valid as long as the value lives.
    pub fn address(&self) -> u64 {
        self.map.as_mut_ptr() as u64
    }

    /// The file.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Zeroes all of it, for everybody who maps it.
    ///
    /// # Errors
    /// The system's.
    pub fn zero(&self) -> io::Result<()> {
        let flags = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        Ok(nix::fcntl::fallocate(&self.file, flags, 0, self.len() as i64)?)
    }

    /// Copies from `offset` on; false where that leaves the memory.
    pub fn read(&self, offset: u64, out: &mut [u8]) -> bool {
        let Some(at) = self.at(offset, out.len()) else { return false };
        // SAFETY: inside the mapping; the guest may write meanwhile, as with any device memory.
        unsafe { std::ptr::copy_nonoverlapping(at, out.as_mut_ptr(), out.len()) };
        true
    }

    /// Copies to `offset` on; false where that leaves the memory.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> bool {
        let Some(at) = self.at(offset, bytes.len()) else { return false };
        // SAFETY: inside the mapping; others may access it meanwhile, as any device memory.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), at, bytes.len()) };
        true
    }

    fn at(&self, offset: u64, len: usize) -> Option<*mut u8> {
        let end = offset.checked_add(len as u64).filter(|end| *end <= self.len())?;
        // SAFETY: `offset <= end <= len`.
        Some(unsafe { self.map.as_mut_ptr().add((end - len as u64) as usize) })
    }
}

/// A BAR that is memory, where other devices of the same guest find it.
pub struct PeerBar {
    memory: SharedFile,
    /// Bus address, 0 while the device does not decode its memory.
    base: AtomicU64,
}

impl PeerBar {
    /// A BAR of this memory, not yet anywhere.
    pub fn new(memory: SharedFile) -> Arc<PeerBar> {
        Arc::new(PeerBar { memory, base: AtomicU64::new(0) })
    }

    /// Its memory.
    pub fn memory(&self) -> &SharedFile {
        &self.memory
    }

    /// Moves it; `None`: it answers nowhere.
    pub fn place(&self, base: Option<u64>) {
        self.base.store(base.unwrap_or(0), Ordering::Release);
    }

    /// Address in this process of `len` bytes at a bus address, if all of them are in this BAR.
    pub fn find(&self, bus: u64, len: usize) -> Option<u64> {
        let base = self.base.load(Ordering::Acquire);
        let offset = bus.checked_sub(base).filter(|_| base != 0)?;
        let end = offset.checked_add(len as u64)?;
        (end <= self.memory.len()).then(|| self.memory.address() + offset)
    }
}

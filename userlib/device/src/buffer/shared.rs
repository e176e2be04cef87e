//! Memory that several processes map: sealed, without a name in any file system.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::backing::{Backing, Mapping, no_memory};
use super::{HostBuffer, PAGE};
use crate::DeviceError;

/// Shared memory keeps its size, so that nobody's access can fault.
const SEALS: libc::c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

/// Zeroed memory for several processes. It exists until the last process that maps it, or holds its descriptor, has
/// let go.
///
/// ```
/// use std::os::fd::AsFd;
/// use ggas_device::{HostBuffer, SharedMemory};
/// let memory = SharedMemory::new(100)?;
/// // ... the descriptor travels over a Unix socket to another process, which maps it:
/// let (here, there) = (memory.map()?, SharedMemory::received(memory.as_fd().try_clone_to_owned()?, 100)?.map()?);
/// here.store_u64(8, 42);
/// assert_eq!(there.load_u64(8), 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SharedMemory {
    fd: OwnedFd,
    len: usize,
}

impl SharedMemory {
    /// `len` zero bytes; the memory is rounded up to whole pages.
    ///
    /// # Errors
    /// [`DeviceError::Memory`] when the operating system refuses.
    pub fn new(len: usize) -> Result<SharedMemory, DeviceError> {
        create(len).map(|fd| SharedMemory { fd, len }).map_err(|source| refused(len, source))
    }

    /// Memory that another process made with the same `len`.
    ///
    /// # Errors
    /// [`DeviceError::Memory`] where the descriptor is of something else: its size could change under the mapping.
    pub fn received(fd: OwnedFd, len: usize) -> Result<SharedMemory, DeviceError> {
        match is_sealed(&fd, len) {
            Ok(true) => Ok(SharedMemory { fd, len }),
            Ok(false) => {
                let what = "the descriptor is not of sealed memory of this size: all processes give the same";
                Err(refused(len, io::Error::new(io::ErrorKind::InvalidInput, what)))
            }
            Err(source) => Err(refused(len, source)),
        }
    }

    /// Maps it into this process.
    ///
    /// # Errors
    /// [`DeviceError::Memory`] when the operating system refuses.
    pub fn map(&self) -> Result<HostBuffer, DeviceError> {
        let mapping = Mapping::shared(self.fd.as_fd(), self.len);
        let mapping = mapping.map_err(|source| refused(self.len, source))?;
        Ok(HostBuffer { backing: Backing::Mapped(mapping), len: self.len })
    }
}

impl AsFd for SharedMemory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn create(len: usize) -> io::Result<OwnedFd> {
    let size = len.max(1).checked_next_multiple_of(PAGE).ok_or_else(no_memory)?;
    ggas_members::memory::check_file_size(size as u64)?;
    let size = libc::off_t::try_from(size).map_err(|_| no_memory())?;
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: a zero-terminated name; the call makes a new descriptor.
    let fd = unsafe { libc::memfd_create(c"ggas-shared".as_ptr(), flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just opened, and nobody else closes it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: sizes our own descriptor.
    if unsafe { libc::ftruncate(fd.as_raw_fd(), size) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: seals our own descriptor.
    if unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, SEALS) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(fd)
}

/// Whether a descriptor is of memory that has this size for good.
fn is_sealed(fd: &OwnedFd, len: usize) -> io::Result<bool> {
    let size = len.max(1).checked_next_multiple_of(PAGE).ok_or_else(no_memory)?;
    // SAFETY: asks for the seals of an open descriptor; files that have none answer with an error.
    let seals = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GET_SEALS) };
    // SAFETY: all zeros is a valid `stat`, which the call fills in.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: an open descriptor and a structure to write to.
    if unsafe { libc::fstat(fd.as_raw_fd(), &mut stat) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(seals >= 0 && seals & SEALS == SEALS && usize::try_from(stat.st_size) == Ok(size))
}

fn refused(bytes: usize, source: io::Error) -> DeviceError {
    DeviceError::Memory { what: "memory shared between processes", bytes, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_one_for_all_its_mappings_and_outlives_its_descriptor() {
        let memory = SharedMemory::new(5000).unwrap();
        let (a, b) = (memory.map().unwrap(), memory.map().unwrap());
        a.write(4990, b"shared");
        drop((memory, a));
        let mut seen = [0; 6];
        b.read(4990, &mut seen);
        assert_eq!(&seen, b"shared");
    }

    #[test]
    fn only_sealed_memory_of_the_right_size_is_mapped() {
        let memory = SharedMemory::new(5000).unwrap();
        let fd = || memory.as_fd().try_clone_to_owned().unwrap();
        SharedMemory::received(fd(), 8192).expect("the same pages");
        assert!(SharedMemory::received(fd(), 9000).is_err(), "smaller than said");
        // SAFETY: our own descriptor.
        assert_ne!(unsafe { libc::ftruncate(memory.fd.as_raw_fd(), 0) }, 0, "it cannot shrink");
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        assert!(SharedMemory::received(file.into(), 5000).is_err(), "a file");
        // SAFETY: as in `create`, but for the seals.
        let bare =
            unsafe { OwnedFd::from_raw_fd(libc::memfd_create(c"bare".as_ptr(), libc::MFD_ALLOW_SEALING)) };
        // SAFETY: our own descriptor.
        assert_eq!(unsafe { libc::ftruncate(bare.as_raw_fd(), 8192) }, 0);
        assert!(SharedMemory::received(bare, 8192).is_err(), "could be cut off by whoever made it");
        assert!(SharedMemory::new(usize::MAX).is_err());
    }
}

//! Sealed memfds: memory that processes share, of a size that nobody can change any more.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use memmap2::{MmapOptions, MmapRaw};
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use nix::sys::statfs::{TMPFS_MAGIC, fstatfs};

use crate::fds::kept;

/// Page size that layouts of shared memory assume.
pub const PAGE: usize = 4096;

/// Why shared memory of another process was not taken.
#[derive(thiserror::Error)]
pub enum SegmentError {
    /// The system refused to map it.
    #[error(
        "shared memory of {what} cannot be mapped: {source}; raise the limit on address space (ulimit -v)"
    )]
    Map {
        /// Which.
        what: &'static str,
        /// The system's word.
        source: io::Error,
    },
    /// Its size could be changed under us.
    #[error(
        "shared memory of {0} is not sealed against resizing: its maker runs another version, or is hostile"
    )]
    NotSealed(&'static str),
    /// It is not what it should be.
    #[error(
        "shared memory of {what} does not fit this network ({detail}): all processes must run the same version"
    )]
    Mismatch {
        /// Which.
        what: &'static str,
        /// What differs.
        detail: &'static str,
    },
    /// No thread for wake-ups.
    #[error("the wake-up thread was not started: {0}; raise the limit on threads (ulimit -u)")]
    Thread(io::Error),
}

ggas_errors::debug_as_display!(SegmentError);

fn seals() -> SealFlag {
    SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL
}

/// Whether this process may make a file, shared memory included, of so many bytes. To be asked first: who tries is
/// killed (SIGXFSZ).
///
/// # Errors
/// [`io::ErrorKind::FileTooLarge`], with what to change.
pub fn check_file_size(bytes: u64) -> io::Result<()> {
    let (limit, _) = getrlimit(Resource::RLIMIT_FSIZE)?;
    if limit == RLIM_INFINITY || bytes <= limit {
        return Ok(());
    }
    let advice = format!(
        "{bytes} bytes of shared memory are more than the limit on file sizes of {limit}: raise `ulimit -f` \
         (RLIMIT_FSIZE)"
    );
    Err(io::Error::new(io::ErrorKind::FileTooLarge, advice))
}

/// A new memfd of `bytes` zeros, sealed against any change of its size.
///
/// # Errors
/// What the system says: no descriptor, or [`check_file_size`].
pub fn create(name: &std::ffi::CStr, bytes: u64) -> io::Result<OwnedFd> {
    check_file_size(bytes)?;
    let fd = kept(memfd_create(name, MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?);
    let len = i64::try_from(bytes).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    nix::unistd::ftruncate(&fd, len)?;
    fcntl(&fd, FcntlArg::F_ADD_SEALS(seals()))?;
    Ok(fd)
}

/// Size of a memfd whose size cannot change.
///
/// # Errors
/// [`SegmentError`] says what the descriptor is not.
pub fn sealed_len(fd: BorrowedFd<'_>, what: &'static str) -> Result<u64, SegmentError> {
    let has = fcntl(fd, FcntlArg::F_GET_SEALS).map_err(|_| SegmentError::NotSealed(what))?;
    let fixed = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW;
    if !SealFlag::from_bits_truncate(has).contains(fixed) {
        return Err(SegmentError::NotSealed(what));
    }
    // Huge pages have seals, too, and may be missing when they are touched.
    if !fstatfs(fd).is_ok_and(|system| system.filesystem_type() == TMPFS_MAGIC) {
        return Err(SegmentError::Mismatch { what, detail: "it is no ordinary shared memory" });
    }
    let stat = nix::sys::stat::fstat(fd).map_err(|e| SegmentError::Map { what, source: e.into() })?;
    Ok(stat.st_size.max(0) as u64)
}

/// A mapping of part of a sealed memfd: reached by raw pointers and atomics only, since others change it at any time.
pub struct Mapping {
    map: MmapRaw,
}

impl Mapping {
    /// Maps `len` bytes at `offset` (a multiple of the page size), which must lie inside.
    ///
    /// # Errors
    /// The system's.
    pub fn new(fd: BorrowedFd<'_>, offset: u64, len: usize, write: bool) -> io::Result<Mapping> {
        let mut options = MmapOptions::new();
        options.offset(offset).len(len).no_reserve_swap();
        let raw = fd.as_raw_fd();
        let map = if write { options.map_raw(raw) } else { options.map_raw_read_only(raw) }?;
        Ok(Mapping { map })
    }

    /// `len` bytes of zeros that no other process sees.
    ///
    /// # Errors
    /// The system's.
    pub fn private(len: usize) -> io::Result<Mapping> {
        let map = MmapOptions::new().len(len).no_reserve_swap().map_anon()?;
        Ok(Mapping { map: map.into() })
    }

    /// First byte.
    #[inline]
    pub fn base(&self) -> *mut u8 {
        self.map.as_mut_ptr()
    }

    /// Bytes.
    #[inline]
    #[allow(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// What lies at `offset`.
    ///
    /// # Panics
    /// Where `T` would not lie inside, aligned: offsets come from layouts, never from other processes.
    ///
    /// # Safety
    /// `T` is made of atomics only, and any bytes are a value of it.
    #[inline]
    pub unsafe fn at<T>(&self, offset: usize) -> &T {
        let inside = offset.checked_add(size_of::<T>()).is_some_and(|end| end <= self.len());
        assert!(inside && offset.is_multiple_of(align_of::<T>()) && align_of::<T>() <= PAGE);
        // SAFETY: inside the mapping, which lives as long as `self`; aligned; shared access is what atomics are for.
        unsafe { &*self.base().add(offset).cast::<T>() }
    }
}

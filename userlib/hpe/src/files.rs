//! Files to and from any memory (digest 2.7): blocks go through two pinned buffers, so that the disk and a copy engine work at a time.

use std::os::fd::RawFd;
use std::sync::Arc;

use ggas_gpu::Gpu;

use crate::blocks::Range;
use crate::direct::{Direct, LEAST, StorageLibrary};
use crate::error::HpeError;
use crate::fork;
use crate::objects::{Allocation, Place};
use crate::runtime::Runtime;

/// What moves bytes without the host's memory, where the device has them, and what keeps them there.
type PastTheHost<'a> = (&'a Direct, (Option<&'a Gpu>, u64), Option<Arc<Allocation>>);

impl Runtime {
    /// Reads from a file, a pipe or a socket to any memory, as `read` and (with `offset`) `pread` do. Only of a regular file it asks more
    /// than once: what a pipe does not hold yet is not waited for.
    ///
    /// # Safety
    /// As for [`copy`](Self::copy): `into` is not used by others until this returns.
    ///
    /// # Errors
    /// As [`copy`](Self::copy); [`HpeError::System`] with the error of the system call.
    pub unsafe fn read_file(
        &self,
        file: RawFd,
        into: *mut u8,
        len: usize,
        offset: Option<i64>,
    ) -> Result<usize, HpeError> {
        within_files(offset, len)?;
        // SAFETY: the caller's contract.
        let read = |offset: Option<i64>| unsafe { self.read_through(file, into, len, offset) };
        match self.past_the_host(file, into as u64, len)? {
            None => read(offset),
            Some((direct, address, _kept)) => from_position(file, len, offset, |at| {
                // SAFETY: the same; the range was checked.
                let moved = at.and_then(|at| unsafe { direct.transfer(file, address, len, at, false) });
                moved.map_or_else(|| read(at), Ok)
            }),
        }
    }

    /// Reads through the host's memory.
    ///
    /// # Safety
    /// As [`read_file`](Self::read_file).
    unsafe fn read_through(
        &self,
        file: RawFd,
        into: *mut u8,
        len: usize,
        offset: Option<i64>,
    ) -> Result<usize, HpeError> {
        let mut get = |buffer: *mut u8, len: usize, done: usize| {
            // SAFETY: the buffer has so many bytes.
            count(unsafe {
                match offset {
                    Some(offset) => libc::syscall(libc::SYS_pread64, file, buffer, len, offset + done as i64),
                    None => libc::syscall(libc::SYS_read, file, buffer, len),
                }
            })
        };
        // SAFETY: the caller's contract.
        unsafe { self.read_from(into, len, is_regular(file), &mut get) }
    }

    /// Writes any memory to a file, a pipe or a socket, as `write` and (with `offset`) `pwrite` do.
    ///
    /// # Safety
    /// Nobody writes `from` until this returns.
    ///
    /// # Errors
    /// As [`read_file`](Self::read_file).
    pub unsafe fn write_file(
        &self,
        file: RawFd,
        from: *const u8,
        len: usize,
        offset: Option<i64>,
    ) -> Result<usize, HpeError> {
        within_files(offset, len)?;
        // SAFETY: the caller's contract.
        let write = |offset: Option<i64>| unsafe { self.write_through(file, from, len, offset) };
        match self.past_the_host(file, from as u64, len)? {
            Some((direct, address, _kept)) if !appends(file) => from_position(file, len, offset, |at| {
                // SAFETY: the same; the range was checked.
                let moved = at.and_then(|at| unsafe { direct.transfer(file, address, len, at, true) });
                moved.map_or_else(|| write(at), Ok)
            }),
            _ => write(offset),
        }
    }

    /// Writes through the host's memory.
    ///
    /// # Safety
    /// As [`write_file`](Self::write_file).
    unsafe fn write_through(
        &self,
        file: RawFd,
        from: *const u8,
        len: usize,
        offset: Option<i64>,
    ) -> Result<usize, HpeError> {
        let mut put = |buffer: *const u8, len: usize, done: usize| {
            // SAFETY: the buffer has so many bytes.
            count(unsafe {
                match offset {
                    Some(offset) => {
                        libc::syscall(libc::SYS_pwrite64, file, buffer, len, offset + done as i64)
                    }
                    None => libc::syscall(libc::SYS_write, file, buffer, len),
                }
            })
        };
        // SAFETY: the caller's contract.
        unsafe { self.write_to(from, len, &mut put) }
    }

    /// Bytes between files and GPUs that went past memory of the host, or why none do.
    ///
    /// # Errors
    /// A text: nobody asked for it, or what is missing.
    pub fn direct_storage(&self) -> Result<u64, String> {
        self.inner.direct.as_ref().map(Direct::moved).map_err(Clone::clone)
    }

    /// What libcufile is here, and whether it reads past the host's memory or in compatibility mode.
    ///
    /// # Errors
    /// As [`direct_storage`](Self::direct_storage).
    pub fn storage_library(&self) -> Result<StorageLibrary, String> {
        self.inner.direct.as_ref().map(Direct::library).map_err(Clone::clone)
    }

    /// `None` where bytes have to go through the host's memory.
    fn past_the_host(
        &self,
        file: RawFd,
        address: u64,
        len: usize,
    ) -> Result<Option<PastTheHost<'_>>, HpeError> {
        fork::check(self.inner.generation)?;
        let Ok(direct) = &self.inner.direct else { return Ok(None) };
        if len < LEAST {
            return Ok(None);
        }
        let Place::Device { index, address, _kept } = self.place(address, len)? else { return Ok(None) };
        let gpu = self.inner.contexts[index].device.gpu();
        let takes = direct.for_all || gpu.is_some();
        Ok((takes && is_regular(file)).then_some((direct, (gpu, address), _kept)))
    }

    /// Fills memory by `get`, which is told where, how much, and how much there was before. `more`: whether it is asked again after a
    /// block that it filled.
    ///
    /// # Safety
    /// As [`read_file`](Self::read_file).
    ///
    /// # Errors
    /// As [`read_file`](Self::read_file).
    pub unsafe fn read_from(
        &self,
        into: *mut u8,
        len: usize,
        more: bool,
        get: &mut dyn FnMut(*mut u8, usize, usize) -> Result<usize, HpeError>,
    ) -> Result<usize, HpeError> {
        fork::check(self.inner.generation)?;
        if len == 0 {
            return get(into, 0, 0);
        }
        match self.place(into as u64, len)? {
            Place::Host(address) => get(address as *mut u8, len, 0),
            Place::Shared(object, offset) => {
                let _held = object.hold(offset, len, true)?;
                get(object.side(offset) as *mut u8, len, 0)
            }
            Place::Device { index, address, _kept } => {
                let copier = self.copier();
                let len = if more { len } else { len.min(copier.pool.buffer()) };
                let fill = |buffer: &mut [u8], done: usize| get(buffer.as_mut_ptr(), buffer.len(), done);
                // SAFETY: the caller's contract; the range was checked.
                unsafe { copier.feed(&Range::One(&copier.contexts[index], address), len, fill) }
            }
            Place::Remote { rank, address } => Err(HpeError::Elsewhere { rank, address }),
            Place::Spread(object, offset) => {
                let copier = self.copier();
                let len = if more { len } else { len.min(copier.pool.buffer()) };
                let fill = |buffer: &mut [u8], done: usize| get(buffer.as_mut_ptr(), buffer.len(), done);
                // A block is got at once, whatever parts it goes to: a message of a socket is not cut, nor the next one waited for.
                // SAFETY: the same.
                unsafe { copier.feed(&Range::Spread(copier.contexts, &object, offset), len, fill) }
            }
        }
    }

    /// Hands memory to `put`, block by block, until it takes less than it was given.
    ///
    /// # Safety
    /// As [`write_file`](Self::write_file).
    ///
    /// # Errors
    /// As [`read_file`](Self::read_file).
    pub unsafe fn write_to(
        &self,
        from: *const u8,
        len: usize,
        put: &mut dyn FnMut(*const u8, usize, usize) -> Result<usize, HpeError>,
    ) -> Result<usize, HpeError> {
        fork::check(self.inner.generation)?;
        if len == 0 {
            return put(from, 0, 0);
        }
        match self.place(from as u64, len)? {
            Place::Host(address) => put(address as *const u8, len, 0),
            Place::Shared(object, offset) => {
                let _held = object.hold(offset, len, false)?;
                put(object.side(offset) as *const u8, len, 0)
            }
            Place::Device { index, address, _kept } => {
                let copier = self.copier();
                let empty = |buffer: &[u8], done: usize| put(buffer.as_ptr(), buffer.len(), done);
                // SAFETY: the caller's contract; the range was checked.
                unsafe { copier.drain(&Range::One(&copier.contexts[index], address), len, empty) }
            }
            Place::Remote { rank, address } => Err(HpeError::Elsewhere { rank, address }),
            Place::Spread(object, offset) => {
                let copier = self.copier();
                let empty = |buffer: &[u8], done: usize| put(buffer.as_ptr(), buffer.len(), done);
                // SAFETY: the same.
                unsafe { copier.drain(&Range::Spread(copier.contexts, &object, offset), len, empty) }
            }
        }
    }
}

/// Calls with where bytes are in a file. Without `offset` that is its position, which moves on at once by all of them, so that others
/// who use it meanwhile have the bytes behind; then it moves back by what was not moved. `None` where it does not move.
fn from_position(
    file: RawFd,
    len: usize,
    offset: Option<i64>,
    go: impl FnOnce(Option<i64>) -> Result<usize, HpeError>,
) -> Result<usize, HpeError> {
    if offset.is_some() {
        return go(offset);
    }
    // SAFETY: a descriptor of the caller's.
    let end = unsafe { libc::lseek(file, len as i64, libc::SEEK_CUR) };
    if end < 0 {
        return go(None);
    }
    let moved = go(Some(end - len as i64));
    let rest = len - moved.as_ref().map_or(0, |moved| *moved);
    if rest > 0 {
        // SAFETY: the same.
        unsafe { libc::lseek(file, -(rest as i64), libc::SEEK_CUR) };
    }
    moved
}

/// Refuses bytes behind the last offset that there is, as the kernel does before it moves any.
fn within_files(offset: Option<i64>, len: usize) -> Result<(), HpeError> {
    let passes = |offset: i64| offset >= 0 && offset.checked_add_unsigned(len as u64).is_none();
    match offset.is_some_and(passes) {
        true => Err(HpeError::System {
            what: "the file: there is no such offset",
            error: std::io::Error::from_raw_os_error(libc::EINVAL),
        }),
        false => Ok(()),
    }
}

/// What a system call said.
fn count(result: i64) -> Result<usize, HpeError> {
    usize::try_from(result).map_err(|_| HpeError::system("the file"))
}

/// Whether what is written goes to the end that the file has then, wherever it is asked to go: only the kernel knows where.
fn appends(file: RawFd) -> bool {
    // SAFETY: no pointers. What is no descriptor has no flags, and all of them here.
    unsafe { libc::fcntl(file, libc::F_GETFL) & libc::O_APPEND != 0 }
}

/// Whether it is a regular file or a block device: what it holds is there, and not waited for.
pub fn is_regular(file: RawFd) -> bool {
    // SAFETY: plain data that the call fills in.
    unsafe {
        let mut about: libc::stat = std::mem::zeroed();
        libc::fstat(file, &mut about) == 0
            && matches!(about.st_mode & libc::S_IFMT, libc::S_IFREG | libc::S_IFBLK)
    }
}

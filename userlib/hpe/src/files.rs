//! Files to and from any memory (digest 2.7): blocks go through two pinned buffers, so that the disk and a copy engine work at a time.

use std::os::fd::RawFd;

use crate::direct::Direct;
use crate::error::HpeError;
use crate::fork;
use crate::objects::Place;
use crate::runtime::Runtime;
use crate::spread::Piece;

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
        // SAFETY: the caller's contract.
        if let Some(moved) = unsafe { self.past_the_host(file, into as u64, len, offset, false)? } {
            return Ok(moved);
        }
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
        // SAFETY: the caller's contract.
        if let Some(moved) = unsafe { self.past_the_host(file, from as u64, len, offset, true)? } {
            return Ok(moved);
        }
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

    /// Moves bytes by GPUDirect Storage; `None` where they have to go through the host.
    ///
    /// # Safety
    /// As [`read_file`](Self::read_file).
    unsafe fn past_the_host(
        &self,
        file: RawFd,
        address: u64,
        len: usize,
        offset: Option<i64>,
        writes: bool,
    ) -> Result<Option<usize>, HpeError> {
        fork::check(self.inner.generation)?;
        let Ok(direct) = &self.inner.direct else { return Ok(None) };
        let Place::Device { index, address, _kept } = self.place(address, len)? else { return Ok(None) };
        let is_gpu = self.inner.contexts[index].device.gpu().is_some();
        if !(is_gpu || direct.for_all) || !is_regular(file) {
            return Ok(None);
        }
        // SAFETY: the caller's contract; the range was checked.
        Ok(unsafe { direct.transfer(file, address, len, offset, writes) })
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
                unsafe { copier.feed(&copier.contexts[index], address, len, fill) }
            }
            Place::Spread(object, offset) => {
                let copier = self.copier();
                let len = if more { len } else { len.min(copier.pool.buffer()) };
                all(object.pieces(offset, len), |piece| {
                    let fill = |buffer: &mut [u8], done: usize| {
                        get(buffer.as_mut_ptr(), buffer.len(), piece.at + done)
                    };
                    // SAFETY: the same.
                    unsafe { copier.feed(&copier.contexts[piece.index], piece.address, piece.len, fill) }
                })
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
                unsafe { copier.drain(&copier.contexts[index], address, len, empty) }
            }
            Place::Spread(object, offset) => {
                let copier = self.copier();
                all(object.pieces(offset, len), |piece| {
                    let empty =
                        |buffer: &[u8], done: usize| put(buffer.as_ptr(), buffer.len(), piece.at + done);
                    // SAFETY: the same.
                    unsafe { copier.drain(&copier.contexts[piece.index], piece.address, piece.len, empty) }
                })
            }
        }
    }
}

/// Moves pieces until one moves less than its bytes; an error behind the first bytes is left to the next call.
fn all(
    pieces: impl Iterator<Item = Piece>,
    mut one: impl FnMut(&Piece) -> Result<usize, HpeError>,
) -> Result<usize, HpeError> {
    let mut total = 0;
    for piece in pieces {
        match one(&piece) {
            Err(error) if total == 0 => return Err(error),
            Err(_) => break,
            Ok(moved) => total += moved,
        }
        if total < piece.at + piece.len {
            break;
        }
    }
    Ok(total)
}

/// What a system call said.
fn count(result: i64) -> Result<usize, HpeError> {
    usize::try_from(result).map_err(|_| HpeError::system("the file"))
}

fn is_regular(file: RawFd) -> bool {
    // SAFETY: plain data that the call fills in.
    unsafe {
        let mut about: libc::stat = std::mem::zeroed();
        libc::fstat(file, &mut about) == 0
            && matches!(about.st_mode & libc::S_IFMT, libc::S_IFREG | libc::S_IFBLK)
    }
}

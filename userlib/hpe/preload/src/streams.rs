//! `fread` and `fwrite` in place of the C library's, and those that lock nothing. Theirs fills each block, or empties it, or meets the
//! stream's end or an error.

use std::ffi::{c_int, c_void};

use ggas_hpe::HpeError;
use libc::FILE;

use crate::cancel::Uncancelled;
use crate::{fail, is_device, is_gpus, next, runtime};

unsafe extern "C" {
    fn flockfile(file: *mut FILE);
    fn funlockfile(file: *mut FILE);
}

/// A stream that is this thread's, which nobody cancels: a call of several blocks is one for others, and buffers that a device still
/// uses are not left.
struct Alone {
    locked: Option<*mut FILE>,
    _whole: Uncancelled,
}

impl Alone {
    /// # Safety
    /// An open stream.
    unsafe fn with(file: *mut FILE, locks: bool) -> Alone {
        let _whole = Uncancelled::new();
        if locks {
            // SAFETY: the caller's contract.
            unsafe { flockfile(file) };
        }
        Alone { locked: locks.then_some(file), _whole }
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        if let Some(file) = self.locked {
            // SAFETY: locked by this thread. Cancelled it may be behind that.
            unsafe { funlockfile(file) };
        }
    }
}

/// Bytes of so many items, of which there are some, if the pointer is a device's; `None` where they are the C library's to move. More than
/// there can be are no memory of a device.
fn bytes(pointer: *const c_void, size: usize, count: usize) -> Option<Result<usize, HpeError>> {
    if size == 0 || count == 0 || !(is_device(pointer) || is_gpus(pointer)) {
        return None;
    }
    let too_many = HpeError::NoMemory { address: pointer as u64, len: usize::MAX };
    Some(size.checked_mul(count).ok_or(too_many))
}

/// Whole items. An error is the stream's, too, for programs that ask it.
///
/// # Safety
/// An open stream.
unsafe fn items(file: *mut FILE, result: Result<usize, HpeError>, size: usize) -> usize {
    result.map_or_else(
        |error| {
            // SAFETY: the caller's contract. The first word of a stream of glibc are its flags, of which programs themselves read this
            // one (`ferror_unlocked` in stdio.h).
            #[cfg(target_env = "gnu")]
            unsafe {
                const ERROR_SEEN: c_int = 0x20;
                *file.cast::<c_int>() |= ERROR_SEEN;
            }
            fail(&error, 0)
        },
        |bytes| bytes / size,
    )
}

type Read = unsafe fn(*mut c_void, usize, usize, *mut FILE) -> usize;
type Write = unsafe fn(*const c_void, usize, usize, *mut FILE) -> usize;

/// # Safety
/// As the C library's.
unsafe fn read(
    next: Read,
    locks: bool,
    (into, size, count): (*mut c_void, usize, usize),
    file: *mut FILE,
) -> usize {
    let Some(len) = bytes(into, size, count) else {
        // SAFETY: the caller's contract.
        return unsafe { next(into, size, count, file) };
    };
    // SAFETY: the same; the buffer is the runtime's.
    unsafe {
        let _alone = Alone::with(file, locks);
        let mut get = |buffer: *mut u8, len: usize, _: usize| Ok(next(buffer.cast(), 1, len, file));
        let got = len.and_then(|len| runtime()?.read_from(into.cast(), len, true, &mut get));
        items(file, got, size)
    }
}

/// # Safety
/// As the C library's.
unsafe fn write(
    next: Write,
    locks: bool,
    (from, size, count): (*const c_void, usize, usize),
    file: *mut FILE,
) -> usize {
    let Some(len) = bytes(from, size, count) else {
        // SAFETY: the caller's contract.
        return unsafe { next(from, size, count, file) };
    };
    // SAFETY: the same; the buffer is the runtime's.
    unsafe {
        let _alone = Alone::with(file, locks);
        let mut put = |buffer: *const u8, len: usize, _: usize| Ok(next(buffer.cast(), 1, len, file));
        let put = len.and_then(|len| runtime()?.write_to(from.cast(), len, &mut put));
        items(file, put, size)
    }
}

macro_rules! streams {
    ($($name:ident, $unlocked:ident, $pointer:ty, $call:ident;)*) => {$(
        /// The C library's, and of devices.
        ///
        /// # Safety
        /// As the C library's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(at: $pointer, size: usize, count: usize, file: *mut FILE) -> usize {
            // SAFETY: the caller's contract.
            unsafe { $call(next::$name, true, (at, size, count), file) }
        }

        /// The same of a stream that the caller has locked.
        ///
        /// # Safety
        /// As the C library's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $unlocked(at: $pointer, size: usize, count: usize, file: *mut FILE) -> usize {
            // SAFETY: the caller's contract.
            unsafe { $call(next::$unlocked, false, (at, size, count), file) }
        }
    )*};
}

streams! {
    fread, fread_unlocked, *mut c_void, read;
    fwrite, fwrite_unlocked, *const c_void, write;
}

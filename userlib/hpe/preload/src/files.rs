//! `read`, `write`, `pread` and `pwrite` in place of the C library's. A call whose pointer is the host's goes to the C library's own at
//! once, and may be cancelled there (`pthread_cancel`), which unwinds through these.

use std::ffi::{c_int, c_void};

use ggas_hpe::{HpeError, Runtime};

use crate::cancel::uncancelled;
use crate::{fail, is_device, is_gpus, next, runtime, set_errno};

/// Whether a call that the C library ended so is to be made here: the kernel has no memory at a pointer of CUDA's. Who does not use CUDA
/// pays nothing for the question.
fn met_gpu(result: isize, pointer: *const c_void) -> bool {
    // SAFETY: this thread's own.
    if result >= 0 || unsafe { *libc::__errno_location() } != libc::EFAULT {
        return false;
    }
    let is_gpus = is_gpus(pointer);
    // Whatever the question left there.
    set_errno(libc::EFAULT);
    is_gpus
}

/// The most bytes that Linux moves in one call: who asks for more knows that from a short count.
const MOST: usize = 0x7fff_f000;

/// Bytes, or -1 and `errno`.
fn moved(len: usize, go: impl FnOnce(&Runtime, usize) -> Result<usize, HpeError>) -> isize {
    // More than there are addresses is refused.
    let len = if len >> 47 == 0 { len.min(MOST) } else { len };
    let result = uncancelled(|| runtime().and_then(|runtime| go(runtime, len)));
    result.map_or_else(|error| fail(&error, -1), |count| count as isize)
}

/// `read`.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn read(file: c_int, into: *mut c_void, len: usize) -> isize {
    if !is_device(into) || len == 0 {
        // SAFETY: the caller's contract.
        let result = unsafe { next::read(file, into, len) };
        if !met_gpu(result, into) {
            return result;
        }
    }
    // SAFETY: the same.
    moved(len, |runtime, len| unsafe { runtime.read_file(file, into.cast(), len, None) })
}

/// `write`.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn write(file: c_int, from: *const c_void, len: usize) -> isize {
    if !is_device(from) || len == 0 {
        // SAFETY: the caller's contract.
        let result = unsafe { next::write(file, from, len) };
        if !met_gpu(result, from) {
            return result;
        }
    }
    // SAFETY: the same.
    moved(len, |runtime, len| unsafe { runtime.write_file(file, from.cast(), len, None) })
}

/// `pread`.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pread(file: c_int, into: *mut c_void, len: usize, offset: i64) -> isize {
    if !is_device(into) || len == 0 {
        // SAFETY: the caller's contract.
        let result = unsafe { next::pread(file, into, len, offset) };
        if !met_gpu(result, into) {
            return result;
        }
    }
    // SAFETY: the same.
    moved(len, |runtime, len| unsafe { runtime.read_file(file, into.cast(), len, Some(offset)) })
}

/// `pread64`.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pread64(file: c_int, into: *mut c_void, len: usize, offset: i64) -> isize {
    // SAFETY: the caller's contract.
    unsafe { pread(file, into, len, offset) }
}

/// `pwrite`.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pwrite(file: c_int, from: *const c_void, len: usize, offset: i64) -> isize {
    if !is_device(from) || len == 0 {
        // SAFETY: the caller's contract.
        let result = unsafe { next::pwrite(file, from, len, offset) };
        if !met_gpu(result, from) {
            return result;
        }
    }
    // SAFETY: the same.
    moved(len, |runtime, len| unsafe { runtime.write_file(file, from.cast(), len, Some(offset)) })
}

/// `pwrite64`.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pwrite64(file: c_int, from: *const c_void, len: usize, offset: i64) -> isize {
    // SAFETY: the caller's contract.
    unsafe { pwrite(file, from, len, offset) }
}

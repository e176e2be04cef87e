//! The intercepted functions as system calls, for statically linked programs: these have no loader that could find the
//! C library's functions.

use std::ffi::{c_char, c_int, c_ulong, c_void};

use libc::syscall;

pub(crate) unsafe extern "C-unwind" fn munmap(start: *mut c_void, len: usize) -> c_int {
    // SAFETY: the caller's, as in all of these.
    unsafe { syscall(libc::SYS_munmap, start, len) as c_int }
}

pub(crate) unsafe extern "C-unwind" fn mmap(
    start: *mut c_void,
    len: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
) -> *mut c_void {
    // SAFETY: as above.
    unsafe { syscall(libc::SYS_mmap, start, len, protection, flags, file, offset) as *mut c_void }
}

pub(crate) unsafe extern "C-unwind" fn mremap(
    old: *mut c_void,
    old_len: usize,
    new_len: usize,
    flags: c_int,
    new: *mut c_void,
) -> *mut c_void {
    // SAFETY: as above.
    unsafe { syscall(libc::SYS_mremap, old, old_len, new_len, flags, new) as *mut c_void }
}

pub(crate) unsafe extern "C-unwind" fn madvise(start: *mut c_void, len: usize, advice: c_int) -> c_int {
    // SAFETY: as above.
    unsafe { syscall(libc::SYS_madvise, start, len, advice) as c_int }
}

pub(crate) unsafe extern "C-unwind" fn shmdt(segment: *const c_void) -> c_int {
    // SAFETY: as above.
    unsafe { syscall(libc::SYS_shmdt, segment) as c_int }
}

pub(crate) unsafe extern "C-unwind" fn open(path: *const c_char, flags: c_int, mode: c_int) -> c_int {
    // SAFETY: as above.
    unsafe { syscall(libc::SYS_openat, libc::AT_FDCWD, path, flags, mode) as c_int }
}

pub(crate) unsafe extern "C-unwind" fn open_2(path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: as above.
    unsafe { open(path, flags, 0) }
}

pub(crate) unsafe extern "C-unwind" fn close(file: c_int) -> c_int {
    // SAFETY: as above.
    unsafe { syscall(libc::SYS_close, file) as c_int }
}

pub(crate) unsafe extern "C-unwind" fn ioctl(file: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    // SAFETY: as above.
    unsafe { syscall(libc::SYS_ioctl, file, request, argument) as c_int }
}

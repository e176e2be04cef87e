//! Calls of the C library that take memory away, so that registered memory leaves the card first.
//!
//! The shared library offers them to the whole process (feature `interpose`); everything is handed on. The allocator's
//! own calls do not come this way, which is why `free` and `realloc` are here. What no function call shows (system
//! calls made by hand, a thread's stack) is not noticed.

use std::ffi::{c_char, c_int, c_long, c_ulong, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::pmap;
use crate::registry::{invalidate, may_overlap};

unsafe extern "C" {
    fn malloc_usable_size(pointer: *mut c_void) -> usize;
}

/// A function of the library behind this one.
struct Next {
    name: &'static std::ffi::CStr,
    address: AtomicUsize,
}

impl Next {
    const fn new(name: &'static std::ffi::CStr) -> Next {
        Next { name, address: AtomicUsize::new(0) }
    }

    fn get(&self) -> usize {
        match self.address.load(Ordering::Relaxed) {
            0 => self.find(),
            address => address,
        }
    }

    #[cold]
    fn find(&self) -> usize {
        // SAFETY: the name is a string.
        let address = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) } as usize;
        self.address.store(address, Ordering::Relaxed);
        address
    }
}

static FREE: Next = Next::new(c"free");
static REALLOC: Next = Next::new(c"realloc");
static BRK: Next = Next::new(c"brk");
static SBRK: Next = Next::new(c"sbrk");

/// A block of the allocator's goes away.
#[inline]
fn block_goes(pointer: *mut c_void) {
    let start = pointer as usize;
    // Most blocks lie outside of all registered memory, whatever their size.
    if pointer.is_null() || !may_overlap(start, usize::MAX) {
        return;
    }
    // SAFETY: the caller frees it, so it is a block of the allocator's.
    let len = unsafe { malloc_usable_size(pointer) };
    invalidate(start, start.saturating_add(len));
}

fn range_goes(start: *mut c_void, len: usize) {
    invalidate(start as usize, (start as usize).saturating_add(len));
}

#[cfg_attr(feature = "interpose", unsafe(no_mangle))]
#[allow(dead_code, reason = "exported by the shared library only")]
unsafe extern "C" fn free(pointer: *mut c_void) {
    block_goes(pointer);
    let next = FREE.get();
    if next != 0 {
        // SAFETY: the C library's function of this name and type.
        unsafe { std::mem::transmute::<usize, unsafe extern "C" fn(*mut c_void)>(next)(pointer) }
    }
}

#[cfg_attr(feature = "interpose", unsafe(no_mangle))]
#[allow(dead_code, reason = "exported by the shared library only")]
unsafe extern "C" fn realloc(pointer: *mut c_void, size: usize) -> *mut c_void {
    block_goes(pointer);
    type Realloc = unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void;
    // SAFETY: the C library's function of this name and type; every program has it.
    unsafe { std::mem::transmute::<usize, Realloc>(REALLOC.get())(pointer, size) }
}

#[cfg_attr(feature = "interpose", unsafe(no_mangle))]
#[allow(dead_code, reason = "exported by the shared library only")]
unsafe extern "C" fn munmap(start: *mut c_void, len: usize) -> c_int {
    range_goes(start, len);
    // SAFETY: what the caller asked for.
    unsafe { libc::syscall(libc::SYS_munmap, start, len) as c_int }
}

#[cfg_attr(feature = "interpose", unsafe(no_mangle))]
#[allow(dead_code, reason = "exported by the shared library only")]
unsafe extern "C" fn mmap(
    start: *mut c_void,
    len: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
) -> *mut c_void {
    if flags & libc::MAP_FIXED != 0 {
        range_goes(start, len);
    }
    // SAFETY: what the caller asked for.
    unsafe { libc::syscall(libc::SYS_mmap, start, len, protection, flags, file, offset) as *mut c_void }
}

#[cfg_attr(feature = "interpose", unsafe(no_mangle))]
#[allow(dead_code, reason = "exported by the shared library only")]
unsafe extern "C" fn mmap64(
    start: *mut c_void,
    len: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
) -> *mut c_void {
    // SAFETY: the same function on 64-bit systems.
    unsafe { mmap(start, len, protection, flags, file, offset) }
}

#[cfg_attr(feature = "interpose", unsafe(no_mangle))]
#[allow(dead_code, reason = "exported by the shared library only")]
unsafe extern "C" fn mremap(
    old: *mut c_void,
    old_len: usize,
    new_len: usize,
    flags: c_int,
    new: *mut c_void,
) -> *mut c_void {
    range_goes(old, old_len);
    if flags & libc::MREMAP_FIXED != 0 {
        range_goes(new, new_len);
    }
    // SAFETY: what the caller asked for.
    unsafe { libc::syscall(libc::SYS_mremap, old, old_len, new_len, flags, new) as *mut c_void }
}

#[cfg_attr(feature = "interpose", unsafe(no_mangle))]
#[allow(dead_code, reason = "exported by the shared library only")]
unsafe extern "C" fn madvise(start: *mut c_void, len: usize, advice: c_int) -> c_int {
    if matches!(advice, libc::MADV_DONTNEED | libc::MADV_FREE | libc::MADV_REMOVE) {
        range_goes(start, len);
    }
    // SAFETY: what the caller asked for.
    unsafe { libc::syscall(libc::SYS_madvise, start, len, advice) as c_int }
}

#[cfg_attr(feature = "interpose", unsafe(no_mangle))]
#[allow(dead_code, reason = "exported by the shared library only")]
unsafe extern "C" fn brk(end: *mut c_void) -> c_int {
    // SAFETY: the C library's function of this name and type.
    let (now, next) = unsafe {
        let sbrk = std::mem::transmute::<usize, unsafe extern "C" fn(c_long) -> *mut c_void>(SBRK.get());
        (sbrk(0), std::mem::transmute::<usize, unsafe extern "C" fn(*mut c_void) -> c_int>(BRK.get()))
    };
    if end < now {
        invalidate(end as usize, now as usize);
    }
    // SAFETY: what the caller asked for.
    unsafe { next(end) }
}

#[cfg_attr(feature = "interpose", unsafe(no_mangle))]
#[allow(dead_code, reason = "exported by the shared library only")]
unsafe extern "C" fn sbrk(more: c_long) -> *mut c_void {
    type Sbrk = unsafe extern "C" fn(c_long) -> *mut c_void;
    // SAFETY: the C library's function of this name and type.
    let next = unsafe { std::mem::transmute::<usize, Sbrk>(SBRK.get()) };
    if more < 0 {
        // SAFETY: asks for the current end.
        let now = unsafe { next(0) } as usize;
        invalidate(now.saturating_sub(more.unsigned_abs() as usize), now);
    }
    // SAFETY: what the caller asked for.
    unsafe { next(more) }
}

/// `open` with its optional argument, which the calling convention passes like any other.
#[cfg_attr(feature = "interpose", unsafe(no_mangle))]
#[allow(dead_code, reason = "exported by the shared library only")]
unsafe extern "C" fn open(path: *const c_char, flags: c_int, mode: c_int) -> c_int {
    if let Some(file) = pmap::open(path, flags) {
        return file;
    }
    // SAFETY: what the caller asked for; this is what open is.
    unsafe { libc::openat(libc::AT_FDCWD, path, flags, mode) }
}

#[cfg_attr(feature = "interpose", unsafe(no_mangle))]
#[allow(dead_code, reason = "exported by the shared library only")]
unsafe extern "C" fn open64(path: *const c_char, flags: c_int, mode: c_int) -> c_int {
    // SAFETY: the same function on 64-bit systems.
    unsafe { open(path, flags, mode) }
}

#[cfg_attr(feature = "interpose", unsafe(no_mangle))]
#[allow(dead_code, reason = "exported by the shared library only")]
unsafe extern "C" fn close(file: c_int) -> c_int {
    pmap::close(file);
    // SAFETY: what the caller asked for.
    unsafe { libc::syscall(libc::SYS_close, file) as c_int }
}

#[cfg_attr(feature = "interpose", unsafe(no_mangle))]
#[allow(dead_code, reason = "exported by the shared library only")]
unsafe extern "C" fn ioctl(file: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    if let Some(done) = pmap::ioctl(file, request, argument) {
        return done;
    }
    // SAFETY: what the caller asked for.
    unsafe { libc::syscall(libc::SYS_ioctl, file, request, argument) as c_int }
}

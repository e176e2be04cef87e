//! Calls of the C library that take memory away, so that registered memory leaves the card first.
//!
//! The shared library offers them to the whole process (feature `interpose`); everything is handed on. The allocator's
//! own calls do not come this way, which is why `free` and `realloc` are here. What no function call shows (system
//! calls made by hand, a thread's stack) is not noticed.
//!
//! None of them is inlined: the library's own calls of these names take part in the search as anybody's, and may end
//! at an allocator before ours, whose blocks the one behind us does not know.

use std::ffi::{c_char, c_int, c_long, c_ulong, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::registry::{self, may_overlap};
use crate::{pages, pmap};

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
static MUNMAP: Next = Next::new(c"munmap");
static MMAP: Next = Next::new(c"mmap");
static MREMAP: Next = Next::new(c"mremap");
static MADVISE: Next = Next::new(c"madvise");
static SHMDT: Next = Next::new(c"shmdt");
static BRK: Next = Next::new(c"brk");
static SBRK: Next = Next::new(c"sbrk");
static OPEN: Next = Next::new(c"open");
static CLOSE: Next = Next::new(c"close");
static IOCTL: Next = Next::new(c"ioctl");

/// Calls the library behind this one, which may watch for the same as we do. Arguments behind a semicolon are those
/// of `...`. A thread that is cancelled in there is unwound through us.
macro_rules! next {
    ($next:ident($($argument:expr => $type:ty),*; $last:expr) -> $result:ty) => {
        // SAFETY: a function of the C library's name and type, which every program has.
        unsafe {
            std::mem::transmute::<usize, unsafe extern "C-unwind" fn($($type),*, ...) -> $result>($next.get())(
                $($argument),*, $last
            )
        }
    };
    ($next:ident($($argument:expr => $type:ty),*) -> $result:ty) => {
        // SAFETY: as above.
        unsafe {
            std::mem::transmute::<usize, unsafe extern "C-unwind" fn($($type),*) -> $result>($next.get())(
                $($argument),*
            )
        }
    };
}

/// What the caller's `errno` was is what it stays: these calls are no system calls to him, and `free` is none at all.
#[cold]
#[inline(never)]
fn invalidate(start: usize, end: usize) {
    // SAFETY: the thread's own error number.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { errno.read() };
    registry::invalidate(start, end);
    // SAFETY: as above.
    unsafe { errno.write(before) };
}

/// A page that only [`see`] has, and whether its end was seen.
static PROBE: AtomicUsize = AtomicUsize::new(0);
static SEEN: AtomicBool = AtomicBool::new(false);

/// Whether the process's calls come this way: not when the library was loaded by `dlopen`, behind the C library.
pub(crate) fn see() -> bool {
    static SEE: OnceLock<bool> = OnceLock::new();
    *SEE.get_or_init(|| {
        let (rights, kind) = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping touches no existing memory; the name is a string.
        let (page, first) = unsafe {
            let page = libc::mmap(std::ptr::null_mut(), ggas::PAGE, rights, kind, -1, 0);
            (page, libc::dlsym(libc::RTLD_DEFAULT, c"munmap".as_ptr()) as usize)
        };
        if page == libc::MAP_FAILED || first == 0 {
            return false;
        }
        PROBE.store(page as usize, Ordering::Relaxed);
        type Munmap = unsafe extern "C" fn(*mut c_void, usize) -> c_int;
        // SAFETY: what the program's own calls lead to; the page is ours.
        unsafe { std::mem::transmute::<usize, Munmap>(first)(page, ggas::PAGE) };
        PROBE.store(0, Ordering::Relaxed);
        SEEN.load(Ordering::Relaxed)
    })
}

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
    let (start, end) = (start as usize, (start as usize).saturating_add(len));
    if may_overlap(start, end) {
        invalidate(start, end);
    }
}

#[cfg_attr(feature = "interpose", unsafe(no_mangle))]
#[allow(dead_code, reason = "exported by the shared library only")]
#[inline(never)]
unsafe extern "C-unwind" fn free(pointer: *mut c_void) {
    block_goes(pointer);
    next!(FREE(pointer => *mut c_void) -> ());
}

#[cfg_attr(feature = "interpose", unsafe(no_mangle))]
#[allow(dead_code, reason = "exported by the shared library only")]
#[inline(never)]
unsafe extern "C-unwind" fn realloc(pointer: *mut c_void, size: usize) -> *mut c_void {
    block_goes(pointer);
    next!(REALLOC(pointer => *mut c_void, size => usize) -> *mut c_void)
}

#[cfg_attr(feature = "interpose", unsafe(no_mangle))]
#[allow(dead_code, reason = "exported by the shared library only")]
#[inline(never)]
unsafe extern "C-unwind" fn munmap(start: *mut c_void, len: usize) -> c_int {
    if start as usize == PROBE.load(Ordering::Relaxed) && !start.is_null() {
        SEEN.store(true, Ordering::Relaxed);
    }
    range_goes(start, len);
    next!(MUNMAP(start => *mut c_void, len => usize) -> c_int)
}

#[cfg_attr(feature = "interpose", unsafe(no_mangle))]
#[allow(dead_code, reason = "exported by the shared library only")]
#[inline(never)]
unsafe extern "C-unwind" fn mmap(
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
    let map = |file: c_int, offset: i64| {
        next!(MMAP(
            start => *mut c_void, len => usize, protection => c_int, flags => c_int, file => c_int, offset => i64
        ) -> *mut c_void)
    };
    pmap::mmap(file, offset, map).unwrap_or_else(|| map(file, offset))
}

#[cfg_attr(feature = "interpose", unsafe(no_mangle))]
#[allow(dead_code, reason = "exported by the shared library only")]
#[inline(never)]
unsafe extern "C-unwind" fn mmap64(
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
#[inline(never)]
unsafe extern "C-unwind" fn mremap(
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
    next!(MREMAP(
        old => *mut c_void, old_len => usize, new_len => usize, flags => c_int; new
    ) -> *mut c_void)
}

#[cfg_attr(feature = "interpose", unsafe(no_mangle))]
#[allow(dead_code, reason = "exported by the shared library only")]
#[inline(never)]
unsafe extern "C-unwind" fn madvise(start: *mut c_void, len: usize, advice: c_int) -> c_int {
    if matches!(advice, libc::MADV_DONTNEED | libc::MADV_FREE | libc::MADV_REMOVE) {
        range_goes(start, len);
    }
    next!(MADVISE(start => *mut c_void, len => usize, advice => c_int) -> c_int)
}

#[cfg_attr(feature = "interpose", unsafe(no_mangle))]
#[allow(dead_code, reason = "exported by the shared library only")]
#[inline(never)]
unsafe extern "C-unwind" fn brk(end: *mut c_void) -> c_int {
    let now = next!(SBRK(0 => c_long) -> *mut c_void);
    if end < now {
        range_goes(end, now as usize - end as usize);
    }
    next!(BRK(end => *mut c_void) -> c_int)
}

#[cfg_attr(feature = "interpose", unsafe(no_mangle))]
#[allow(dead_code, reason = "exported by the shared library only")]
#[inline(never)]
unsafe extern "C-unwind" fn sbrk(more: c_long) -> *mut c_void {
    if more < 0 {
        let now = next!(SBRK(0 => c_long) -> *mut c_void) as usize;
        let less = more.unsigned_abs() as usize;
        range_goes(now.saturating_sub(less) as *mut c_void, less);
    }
    next!(SBRK(more => c_long) -> *mut c_void)
}

#[cfg_attr(feature = "interpose", unsafe(no_mangle))]
#[allow(dead_code, reason = "exported by the shared library only")]
#[inline(never)]
unsafe extern "C-unwind" fn shmdt(segment: *const c_void) -> c_int {
    // How long it is only the system knows; reading that is for those who have memory registered at all.
    if may_overlap(segment as usize, usize::MAX) {
        range_goes(segment.cast_mut(), pages::attached(segment as usize));
    }
    next!(SHMDT(segment => *const c_void) -> c_int)
}

/// `open` with its optional argument, which the calling convention passes like any other.
#[cfg_attr(feature = "interpose", unsafe(no_mangle))]
#[allow(dead_code, reason = "exported by the shared library only")]
#[inline(never)]
unsafe extern "C-unwind" fn open(path: *const c_char, flags: c_int, mode: c_int) -> c_int {
    if let Some(file) = pmap::open(path, flags) {
        return file;
    }
    next!(OPEN(path => *const c_char, flags => c_int; mode) -> c_int)
}

#[cfg_attr(feature = "interpose", unsafe(no_mangle))]
#[allow(dead_code, reason = "exported by the shared library only")]
#[inline(never)]
unsafe extern "C-unwind" fn open64(path: *const c_char, flags: c_int, mode: c_int) -> c_int {
    // SAFETY: the same function on 64-bit systems.
    unsafe { open(path, flags, mode) }
}

#[cfg_attr(feature = "interpose", unsafe(no_mangle))]
#[allow(dead_code, reason = "exported by the shared library only")]
#[inline(never)]
unsafe extern "C-unwind" fn close(file: c_int) -> c_int {
    pmap::close(file);
    next!(CLOSE(file => c_int) -> c_int)
}

#[cfg_attr(feature = "interpose", unsafe(no_mangle))]
#[allow(dead_code, reason = "exported by the shared library only")]
#[inline(never)]
unsafe extern "C-unwind" fn ioctl(file: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    if let Some(done) = pmap::ioctl(file, request, argument) {
        return done;
    }
    next!(IOCTL(file => c_int, request => c_ulong; argument) -> c_int)
}

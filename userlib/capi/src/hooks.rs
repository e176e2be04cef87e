//! Interceptors of C library functions that unmap or free memory, so that the card loses access to registered memory
//! first; and of the functions with which programs use physical buffers.
//!
//! Each interceptor passes the call on to the next definition of the function. The allocator calls `munmap` internally,
//! past these interceptors, which is why `free` and `realloc` are intercepted, too. System calls made without the C
//! library, and the freeing of a thread's stack, are not noticed.
//!
//! The shared library exports the interceptors under the names of the C library (`tools/xtask/src/capi.rs`), so a process
//! whose symbol search order has librma2 before the C library calls them. In other processes (librma2 is a dependency of
//! another library, or was loaded by `dlopen`) [`slots`] redirects the calls.
//!
//! No interceptor is inlined into librma2's own calls: these take part in the symbol search like calls of any other
//! library. They may have to reach an allocator in front of librma2, whose blocks the allocator behind it does not know.

use std::ffi::{CStr, c_char, c_int, c_long, c_ulong, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::registry::{self, may_overlap};
use crate::{bare, pages, pmap, slots};

unsafe extern "C" {
    fn malloc_usable_size(pointer: *mut c_void) -> usize;
}

/// An address of a function.
#[derive(Clone, Copy)]
struct Code(*const ());

// SAFETY: code does not change.
unsafe impl Sync for Code {}

/// A function of the C library that is watched.
pub(crate) struct Watched {
    pub(crate) name: &'static CStr,
    /// What is called instead of it.
    ours: Code,
    /// The same by a system call, for programs without a loader.
    bare: Option<Code>,
    /// The function of the library behind this one; 0: not looked for yet.
    next: AtomicUsize,
    /// The C library's, where calls are sent here; 0: there is none.
    behind: AtomicUsize,
}

impl Watched {
    const fn new(name: &'static CStr, ours: *const ()) -> Watched {
        Watched { name, ours: Code(ours), bare: None, next: AtomicUsize::new(0), behind: AtomicUsize::new(0) }
    }

    const fn or(mut self, bare: *const ()) -> Watched {
        self.bare = Some(Code(bare));
        self
    }

    pub(crate) fn ours(&self) -> usize {
        self.ours.0 as usize
    }

    /// What the process's search finds under the name; 0: nothing.
    pub(crate) fn first(&self) -> usize {
        // SAFETY: the name is a string.
        unsafe { libc::dlsym(libc::RTLD_DEFAULT, self.name.as_ptr()) as usize }
    }

    pub(crate) fn behind(&self) -> usize {
        self.behind.load(Ordering::Relaxed)
    }

    pub(crate) fn set_behind(&self, behind: usize) {
        self.behind.store(behind, Ordering::Relaxed);
    }

    /// Hands on to this function.
    pub(crate) fn hand_on(&self, address: usize) {
        self.next.store(address, Ordering::Relaxed);
    }

    fn get(&self) -> usize {
        match self.next.load(Ordering::Relaxed) {
            0 => self.find(),
            address => address,
        }
    }

    #[cold]
    fn find(&self) -> usize {
        // SAFETY: the name is a string.
        let next = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) } as usize;
        let address = match self.bare {
            Some(Code(bare)) if next == 0 => bare as usize,
            _ => next,
        };
        self.hand_on(address);
        address
    }
}

macro_rules! watched {
    ($($name:ident = $text:literal, $ours:ident $(, or $bare:path)?;)*) => {
        $(static $name: Watched = Watched::new($text, $ours as *const ())$(.or($bare as *const ()))?;)*

        /// All of them; those that take memory away come first.
        pub(crate) static ALL: [&Watched; [$($text),*].len()] = [$(&$name),*];
    };
}

watched! {
    FREE = c"free", ggas_watch_free;
    REALLOC = c"realloc", ggas_watch_realloc;
    MUNMAP = c"munmap", ggas_watch_munmap, or bare::munmap;
    MMAP = c"mmap", ggas_watch_mmap, or bare::mmap;
    MMAP64 = c"mmap64", ggas_watch_mmap;
    MREMAP = c"mremap", ggas_watch_mremap, or bare::mremap;
    MADVISE = c"madvise", ggas_watch_madvise, or bare::madvise;
    SHMDT = c"shmdt", ggas_watch_shmdt, or bare::shmdt;
    BRK = c"brk", ggas_watch_brk;
    SBRK = c"sbrk", ggas_watch_sbrk;
    OPEN = c"open", ggas_watch_open, or bare::open;
    OPEN64 = c"open64", ggas_watch_open;
    OPEN_2 = c"__open_2", ggas_watch_open_2, or bare::open_2;
    OPEN64_2 = c"__open64_2", ggas_watch_open_2;
    CLOSE = c"close", ggas_watch_close, or bare::close;
    IOCTL = c"ioctl", ggas_watch_ioctl, or bare::ioctl;
}

/// How many of [`ALL`] take memory away.
const MEMORY: usize = 10;

/// Whether memory goes away by this call.
pub(crate) fn takes_memory(watched: &Watched) -> bool {
    ALL[..MEMORY].iter().any(|other| std::ptr::eq(*other, watched))
}

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

/// A page that only [`leads_here`] has, and whether its end was seen.
static PROBE: AtomicUsize = AtomicUsize::new(0);
static SEEN: AtomicBool = AtomicBool::new(false);

/// Whether memory that goes away is seen: all calls of those libraries that the process has now come this way.
pub(crate) fn see() -> bool {
    in_order() || slots::complete()
}

/// When the library is loaded, before the program's own code runs.
#[unsafe(no_mangle)]
extern "C" fn ggas_watch_start() {
    slots::start();
}

/// Whether the process's search leads to these functions, behind others that hand on or not. It does not when the
/// library was loaded by `dlopen`, or came in through another one behind the C library.
pub(crate) fn in_order() -> bool {
    static IN_ORDER: OnceLock<bool> = OnceLock::new();
    *IN_ORDER.get_or_init(|| leads_here() && slots::of_c_library(&FREE) != FREE.first())
}

/// Whether ending a mapping as the program would do it is seen here.
fn leads_here() -> bool {
    let (rights, kind) = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping touches no existing memory.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), ggas::PAGE, rights, kind, -1, 0) };
    let first = MUNMAP.first();
    if page == libc::MAP_FAILED || first == 0 {
        return false;
    }
    PROBE.store(page as usize, Ordering::Relaxed);
    type Munmap = unsafe extern "C" fn(*mut c_void, usize) -> c_int;
    // SAFETY: what the program's own calls lead to; the page is ours.
    unsafe { std::mem::transmute::<usize, Munmap>(first)(page, ggas::PAGE) };
    PROBE.store(0, Ordering::Relaxed);
    SEEN.load(Ordering::Relaxed)
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

#[unsafe(no_mangle)]
#[inline(never)]
unsafe extern "C-unwind" fn ggas_watch_free(pointer: *mut c_void) {
    block_goes(pointer);
    next!(FREE(pointer => *mut c_void) -> ());
}

#[unsafe(no_mangle)]
#[inline(never)]
unsafe extern "C-unwind" fn ggas_watch_realloc(pointer: *mut c_void, size: usize) -> *mut c_void {
    block_goes(pointer);
    next!(REALLOC(pointer => *mut c_void, size => usize) -> *mut c_void)
}

#[unsafe(no_mangle)]
#[inline(never)]
unsafe extern "C-unwind" fn ggas_watch_munmap(start: *mut c_void, len: usize) -> c_int {
    if start as usize == PROBE.load(Ordering::Relaxed) && !start.is_null() {
        SEEN.store(true, Ordering::Relaxed);
    }
    range_goes(start, len);
    next!(MUNMAP(start => *mut c_void, len => usize) -> c_int)
}

#[unsafe(no_mangle)]
#[inline(never)]
unsafe extern "C-unwind" fn ggas_watch_mmap(
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

#[unsafe(no_mangle)]
#[inline(never)]
unsafe extern "C-unwind" fn ggas_watch_mremap(
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

#[unsafe(no_mangle)]
#[inline(never)]
unsafe extern "C-unwind" fn ggas_watch_madvise(start: *mut c_void, len: usize, advice: c_int) -> c_int {
    if matches!(advice, libc::MADV_DONTNEED | libc::MADV_FREE | libc::MADV_REMOVE) {
        range_goes(start, len);
    }
    next!(MADVISE(start => *mut c_void, len => usize, advice => c_int) -> c_int)
}

#[unsafe(no_mangle)]
#[inline(never)]
unsafe extern "C-unwind" fn ggas_watch_brk(end: *mut c_void) -> c_int {
    let now = next!(SBRK(0 => c_long) -> *mut c_void);
    if end < now {
        range_goes(end, now as usize - end as usize);
    }
    next!(BRK(end => *mut c_void) -> c_int)
}

#[unsafe(no_mangle)]
#[inline(never)]
unsafe extern "C-unwind" fn ggas_watch_sbrk(more: c_long) -> *mut c_void {
    if more < 0 {
        let now = next!(SBRK(0 => c_long) -> *mut c_void) as usize;
        let less = more.unsigned_abs() as usize;
        range_goes(now.saturating_sub(less) as *mut c_void, less);
    }
    next!(SBRK(more => c_long) -> *mut c_void)
}

#[unsafe(no_mangle)]
#[inline(never)]
unsafe extern "C-unwind" fn ggas_watch_shmdt(segment: *const c_void) -> c_int {
    // How long it is only the system knows; reading that is for those who have memory registered at all.
    if may_overlap(segment as usize, usize::MAX) {
        range_goes(segment.cast_mut(), pages::attached(segment as usize));
    }
    next!(SHMDT(segment => *const c_void) -> c_int)
}

/// `open` with its optional argument, which the calling convention passes like any other.
#[unsafe(no_mangle)]
#[inline(never)]
unsafe extern "C-unwind" fn ggas_watch_open(path: *const c_char, flags: c_int, mode: c_int) -> c_int {
    if let Some(file) = pmap::open(path, flags) {
        return file;
    }
    next!(OPEN(path => *const c_char, flags => c_int; mode) -> c_int)
}

/// `open` as programs call it that are checked by their compiler (`_FORTIFY_SOURCE`).
#[unsafe(no_mangle)]
#[inline(never)]
unsafe extern "C-unwind" fn ggas_watch_open_2(path: *const c_char, flags: c_int) -> c_int {
    if let Some(file) = pmap::open(path, flags) {
        return file;
    }
    next!(OPEN_2(path => *const c_char, flags => c_int) -> c_int)
}

#[unsafe(no_mangle)]
#[inline(never)]
unsafe extern "C-unwind" fn ggas_watch_close(file: c_int) -> c_int {
    pmap::close(file);
    next!(CLOSE(file => c_int) -> c_int)
}

#[unsafe(no_mangle)]
#[inline(never)]
unsafe extern "C-unwind" fn ggas_watch_ioctl(file: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    if let Some(done) = pmap::ioctl(file, request, argument) {
        return done;
    }
    next!(IOCTL(file => c_int, request => c_ulong; argument) -> c_int)
}

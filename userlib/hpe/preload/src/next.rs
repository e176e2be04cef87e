//! The C library's own calls, which these stand before.

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

/// Looks a function up once; the process ends where the C library has none, as it would have at its start.
fn find(name: &CStr, found: &AtomicPtr<c_void>) -> *mut c_void {
    let before = found.load(Ordering::Acquire);
    if !before.is_null() {
        return before;
    }
    // SAFETY: a name that ends with zero.
    let function = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if function.is_null() {
        std::process::abort();
    }
    found.store(function, Ordering::Release);
    function
}

macro_rules! next {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {$(
        /// The C library's.
        ///
        /// # Safety
        /// As the C library's.
        pub unsafe fn $name($($argument: $type),*) -> $result {
            static FOUND: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
            let name = concat!(stringify!($name), "\0");
            let name = CStr::from_bytes_with_nul(name.as_bytes()).unwrap_or_default();
            // SAFETY: the function of this name has this type; the caller's contract.
            unsafe {
                let call: unsafe extern "C-unwind" fn($($type),*) -> $result = std::mem::transmute(find(name, &FOUND));
                call($($argument),*)
            }
        }
    )*};
}

next! {
    read(file: c_int, into: *mut c_void, len: usize) -> isize;
    write(file: c_int, from: *const c_void, len: usize) -> isize;
    pread(file: c_int, into: *mut c_void, len: usize, offset: i64) -> isize;
    pwrite(file: c_int, from: *const c_void, len: usize, offset: i64) -> isize;
    readv(file: c_int, parts: *const libc::iovec, count: c_int) -> isize;
    writev(file: c_int, parts: *const libc::iovec, count: c_int) -> isize;
    preadv(file: c_int, parts: *const libc::iovec, count: c_int, offset: i64) -> isize;
    pwritev(file: c_int, parts: *const libc::iovec, count: c_int, offset: i64) -> isize;
    fread(into: *mut c_void, size: usize, count: usize, file: *mut libc::FILE) -> usize;
    fwrite(from: *const c_void, size: usize, count: usize, file: *mut libc::FILE) -> usize;
    fread_unlocked(into: *mut c_void, size: usize, count: usize, file: *mut libc::FILE) -> usize;
    fwrite_unlocked(from: *const c_void, size: usize, count: usize, file: *mut libc::FILE) -> usize;
}

/// Whether CUDA's library is in this process, by whomever it was loaded: only then there are pointers of GPUs. It is looked for again
/// only when libraries were loaded since.
pub fn uses_cuda() -> bool {
    static THERE: AtomicBool = AtomicBool::new(false);
    static LOADED: AtomicU64 = AtomicU64::new(0);
    if THERE.load(Ordering::Relaxed) {
        return true;
    }
    let mut loaded = 0u64;
    // SAFETY: the function writes to `loaded` only.
    unsafe { libc::dl_iterate_phdr(Some(count_loaded), (&raw mut loaded).cast()) };
    if LOADED.swap(loaded, Ordering::Relaxed) == loaded {
        return false;
    }
    // SAFETY: a name that ends with zero; nothing is loaded.
    let library = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    THERE.store(!library.is_null(), Ordering::Relaxed);
    !library.is_null()
}

/// How many libraries were loaded so far; the first one's entry says so.
unsafe extern "C" fn count_loaded(about: *mut libc::dl_phdr_info, _: usize, loaded: *mut c_void) -> c_int {
    // SAFETY: the C library passes an entry, and what `uses_cuda` gave it.
    unsafe { *loaded.cast::<u64>() = (*about).dlpi_adds };
    1
}

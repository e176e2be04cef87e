//! GPU memory that the host reaches across the bus, by gdrcopy (GMPI paper, III D): its library is opened at run time, and wants its kernel
//! module.

use std::ffi::{CString, c_int, c_ulong, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{Ordering, fence};

use ggas::Processor;
use ggas::kernels::KernelMem;

use crate::GmpiError;
use crate::library::{functions, said};

/// What the library maps at least, and where it begins (`GPU_PAGE_SIZE` of `gdrapi.h`).
const PAGE: usize = 64 << 10;
const LIBRARY: &str = "libgdrapi.so.2";

type Gdr = *mut c_void;

functions! {
    /// The calls of `gdrapi.h`, version 2. A handle of pinned memory is a structure of one number, which is passed as the number is.
    Calls:
    open: "gdr_open" () -> Gdr;
    close: "gdr_close" (Gdr) -> c_int;
    pin: "gdr_pin_buffer" (Gdr, c_ulong, usize, u64, u32, *mut c_ulong) -> c_int;
    unpin: "gdr_unpin_buffer" (Gdr, c_ulong) -> c_int;
    map: "gdr_map" (Gdr, c_ulong, *mut *mut c_void, usize) -> c_int;
    unmap: "gdr_unmap" (Gdr, c_ulong, *mut c_void, usize) -> c_int;
    read: "gdr_copy_from_mapping" (c_ulong, *mut c_void, *const c_void, usize) -> c_int;
    write: "gdr_copy_to_mapping" (c_ulong, *mut c_void, *const c_void, usize) -> c_int;
}

/// Memory of a GPU, mapped for the host.
pub(crate) struct Across {
    calls: Calls,
    gdr: Gdr,
    pinned: c_ulong,
    /// `PAGE` aligned, for `bytes`.
    at: *mut u8,
    address: u64,
    bytes: usize,
    /// Last, as it is unmapped before.
    _memory: KernelMem,
}

// SAFETY: the library takes calls of any thread, and words are accessed atomically.
unsafe impl Send for Across {}
// SAFETY: the same.
unsafe impl Sync for Across {}

impl std::fmt::Debug for Across {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Across({} bytes at {:#x})", self.bytes, self.address)
    }
}

/// The library: `GGAS_GDRAPI`, else where the system finds it.
pub(crate) fn library() -> PathBuf {
    std::env::var_os("GGAS_GDRAPI").map_or_else(|| LIBRARY.into(), PathBuf::from)
}

fn calls(library: &Path) -> Result<Calls, GmpiError> {
    let refuse = |why: String| {
        GmpiError::Gdrcopy(format!(
            "{why}; install gdrcopy 2 (libgdrapi) and load its module gdrdrv, or name the library by GGAS_GDRAPI"
        ))
    };
    let path = CString::new(library.as_os_str().as_bytes()).map_err(|error| refuse(error.to_string()))?;
    // SAFETY: loading runs the library's initialization, which is what was asked for. It stays loaded.
    let opened = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if opened.is_null() { None } else { Calls::of(opened) }.ok_or_else(|| refuse(said()))
}

impl Across {
    /// Memory of `processor`, all zero.
    pub fn new(processor: &Processor, bytes: usize, library: &Path) -> Result<Across, GmpiError> {
        let refuse = |what: &str, why: c_int| {
            let why = std::io::Error::from_raw_os_error(why);
            GmpiError::Gdrcopy(format!("gdrcopy {what}: {why}"))
        };
        let calls = calls(library)?;
        let bytes = bytes.next_multiple_of(PAGE);
        let memory = processor.alloc(bytes + PAGE)?;
        let address = memory.address().next_multiple_of(PAGE as u64);
        // SAFETY: takes nothing.
        let gdr = unsafe { (calls.open)() };
        if gdr.is_null() {
            let why = "gdrcopy's module cannot be used: load gdrdrv, and let /dev/gdrdrv be read and written";
            return Err(GmpiError::Gdrcopy(why.to_owned()));
        }
        let mut pinned = 0;
        // SAFETY: memory that outlives what is pinned of it.
        let failed = unsafe { (calls.pin)(gdr, address as c_ulong, bytes, 0, 0, &mut pinned) };
        if failed != 0 {
            // SAFETY: nothing is pinned.
            unsafe { (calls.close)(gdr) };
            return Err(refuse("does not pin memory of this processor", failed));
        }
        let mut at = std::ptr::null_mut();
        // SAFETY: it was pinned.
        let failed = unsafe { (calls.map)(gdr, pinned, &mut at, bytes) };
        if failed != 0 {
            // SAFETY: nothing is mapped.
            unsafe { ((calls.unpin)(gdr, pinned), (calls.close)(gdr)) };
            return Err(refuse("does not map memory of this processor", failed));
        }
        let across = Across { calls, gdr, pinned, at: at.cast(), address, bytes, _memory: memory };
        across.write(0, &vec![0; bytes / 8]);
        Ok(across)
    }

    /// Where kernels find it.
    pub fn address(&self) -> u64 {
        self.address
    }

    fn word(&self, at: usize) -> *mut u64 {
        assert!(at.is_multiple_of(8) && at + 8 <= self.bytes, "word {at} of {} bytes", self.bytes);
        self.at.wrapping_add(at).cast()
    }

    /// A word, with acquire: what the mapping gives is loaded in any order but for fences.
    pub fn load(&self, at: usize) -> u64 {
        // SAFETY: a word of the mapping.
        let value = unsafe { self.word(at).read_volatile() };
        fence(Ordering::SeqCst);
        value
    }

    /// A word, with release, and on its way at once: stores to the mapping are gathered and sent in any order but for fences.
    pub fn store(&self, at: usize, value: u64) {
        fence(Ordering::SeqCst);
        // SAFETY: a word of the mapping.
        unsafe { self.word(at).write_volatile(value) };
        fence(Ordering::SeqCst);
    }

    /// Words that nobody writes meanwhile, in as few crossings of the bus as the library can.
    pub fn read(&self, at: usize, words: &mut [u64]) {
        let Some(last) = words.len().checked_sub(1) else { return };
        let (from, _) = (self.word(at), self.word(at + 8 * last));
        // SAFETY: all of it is mapped.
        unsafe { (self.calls.read)(self.pinned, words.as_mut_ptr().cast(), from.cast(), 8 * words.len()) };
        fence(Ordering::SeqCst);
    }

    /// Words that nobody reads meanwhile.
    pub fn write(&self, at: usize, words: &[u64]) {
        let Some(last) = words.len().checked_sub(1) else { return };
        let (to, _) = (self.word(at), self.word(at + 8 * last));
        // SAFETY: all of it is mapped.
        unsafe { (self.calls.write)(self.pinned, to.cast(), words.as_ptr().cast(), 8 * words.len()) };
        fence(Ordering::SeqCst);
    }
}

impl Drop for Across {
    fn drop(&mut self) {
        // SAFETY: it was opened, pinned and mapped by the same calls.
        unsafe {
            (self.calls.unmap)(self.gdr, self.pinned, self.at.cast(), self.bytes);
            (self.calls.unpin)(self.gdr, self.pinned);
            (self.calls.close)(self.gdr);
        }
    }
}

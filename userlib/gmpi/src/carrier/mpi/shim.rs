//! The shim, loaded: `shim/mpi_carrier.h` in Rust.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::GmpiError;
use crate::library::{functions, said};

/// `GMPI_SHIM_VERSION`.
const VERSION: c_int = 8;

pub const SEND: i32 = 1;
pub const RECV: i32 = 2;
pub const BARRIER: i32 = 3;
pub const BCAST: i32 = 4;
pub const REDUCE: i32 = 5;
pub const ALLREDUCE: i32 = 6;
pub const ALLGATHER: i32 = 7;
pub const ALLTOALL: i32 = 8;
pub const PUT: i32 = 9;
pub const GET: i32 = 10;
pub const GATHER: i32 = 11;
pub const SCATTER: i32 = 12;

/// `struct gmpi_shim_call`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Call {
    pub from: *const c_void,
    pub to: *mut c_void,
    pub displacement: u64,
    pub kind: i32,
    pub comm: i32,
    pub count: i32,
    pub of: i32,
    pub rank: i32,
    pub tag: i32,
    pub op: i32,
    pub reserved: i32,
}

/// `struct gmpi_shim_status`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Told {
    pub source: i32,
    pub tag: i32,
    pub bytes: i64,
}

functions! {
    /// Its functions. They are never unloaded: MPI libraries do not bear it.
    #[derive(Clone, Copy)]
    pub(crate) Shim:
    version: "gmpi_shim_version" () -> c_int;
    open: "gmpi_shim_open" (*mut c_char, usize) -> c_int;
    name: "gmpi_shim_name" (*mut c_char, usize);
    takes_gpu: "gmpi_shim_takes_gpu" () -> c_int;
    place: "gmpi_shim_place" (c_int, *mut i32, *mut i32) -> c_int;
    start: "gmpi_shim_start" (*const Call, *mut u64) -> c_int;
    test: "gmpi_shim_test" (u64, *mut i32, *mut Told) -> c_int;
    forget: "gmpi_shim_forget" (u64, i32);
    send: "gmpi_shim_send" (*const c_void, c_int, c_int) -> c_int;
    receive: "gmpi_shim_receive" (*mut c_void, c_int, c_int) -> c_int;
    probe: "gmpi_shim_probe" (c_int, c_int, c_int, *mut i32, *mut Told) -> c_int;
    split: "gmpi_shim_split" (c_int, c_int, c_int, c_int, *mut i32) -> c_int;
    free: "gmpi_shim_free" (c_int);
    window: "gmpi_shim_window" (c_int, *mut c_void, u64, *mut i32) -> c_int;
    gather: "gmpi_shim_gather" (c_int, u64, *mut u64) -> c_int;
    flush: "gmpi_shim_flush" (c_int, c_int) -> c_int;
    close: "gmpi_shim_close" () -> c_int;
}

impl Shim {
    /// Opens a shim and the MPI library with it.
    pub fn load(file: &Path) -> Result<Shim, GmpiError> {
        let refuse = |why: String| GmpiError::Mpi(format!("GMPI's shim {}: {why}", file.display()));
        let path = CString::new(file.as_os_str().as_bytes()).map_err(|error| refuse(error.to_string()))?;
        // Open MPI's own modules look for its symbols among those of the program.
        // SAFETY: loading runs the libraries' initialization, which is what was asked for.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        if library.is_null() {
            return Err(refuse(said()));
        }
        let shim = Shim::of(library).ok_or_else(|| refuse(said()))?;
        // SAFETY: takes nothing.
        match unsafe { (shim.version)() } {
            VERSION => Ok(shim),
            other => Err(refuse(format!("it has version {other}, this program {VERSION}: remove the file"))),
        }
    }

    /// Text that one of its functions writes.
    pub fn text(fill: impl FnOnce(*mut c_char, usize)) -> String {
        let mut text = [0u8; 512];
        fill(text.as_mut_ptr().cast(), text.len());
        CStr::from_bytes_until_nul(&text).map(|text| text.to_string_lossy().into_owned()).unwrap_or_default()
    }
}

//! GPUDirect Storage: files to and from memory of GPUs past the host's, by NVIDIA's libcufile, which is opened at run time where it is there.
//!
//! Registered files need a file system, a kernel module and mostly `O_DIRECT`; whatever it refuses goes through pinned buffers, as all else.

use std::ffi::{CStr, CString, c_int, c_void};
use std::os::fd::RawFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Shorter transfers are not worth the registration of a file.
pub(crate) const LEAST: usize = 1 << 20;

/// `CUfileError_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Status {
    error: c_int,
    driver: c_int,
}

/// `CUfileDescr_t`, of a file descriptor.
#[repr(C)]
struct Description {
    /// `CU_FILE_HANDLE_TYPE_OPAQUE_FD`.
    kind: c_int,
    file: Descriptor,
    operations: *const c_void,
}

#[repr(C)]
union Descriptor {
    file: c_int,
    _handle: *mut c_void,
}

const _: () = assert!(size_of::<Description>() == 24 && size_of::<Status>() == 8);

type Handle = *mut c_void;
type Register = unsafe extern "C" fn(*mut Handle, *mut Description) -> Status;
type Deregister = unsafe extern "C" fn(Handle);
type Move = unsafe extern "C" fn(Handle, *mut c_void, usize, libc::off_t, libc::off_t) -> isize;

/// The library.
pub(crate) struct Direct {
    register: Register,
    deregister: Deregister,
    read: Move,
    write: Move,
    /// Whether it is asked for executor devices, too: for tests.
    pub for_all: bool,
    moved: AtomicU64,
}

impl Direct {
    /// Opens it, by NVIDIA's name or a given one. The error says what is missing.
    pub fn open(path: Option<&Path>) -> Result<Direct, String> {
        let name = path.map_or("libcufile.so.0".into(), |path| path.to_string_lossy().into_owned());
        let c_name = CString::new(name.clone()).map_err(|_| "a path with a zero byte".to_owned())?;
        // SAFETY: a name that ends with zero; initialisers are the library's own.
        let library = unsafe { libc::dlopen(c_name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            return Err(format!("{name} is not installed: files go through pinned buffers"));
        }
        let find = |symbol: &CStr| {
            // SAFETY: an open library, and a name that ends with zero.
            let found = unsafe { libc::dlsym(library, symbol.as_ptr()) };
            if found.is_null() { Err(format!("{name} has no {symbol:?}")) } else { Ok(found) }
        };
        let open = find(c"cuFileDriverOpen")?;
        // SAFETY: the functions have these types in every version of cufile.h.
        unsafe {
            let open: unsafe extern "C" fn() -> Status = std::mem::transmute(open);
            let direct = Direct {
                register: std::mem::transmute::<*mut c_void, Register>(find(c"cuFileHandleRegister")?),
                deregister: std::mem::transmute::<*mut c_void, Deregister>(find(c"cuFileHandleDeregister")?),
                read: std::mem::transmute::<*mut c_void, Move>(find(c"cuFileRead")?),
                write: std::mem::transmute::<*mut c_void, Move>(find(c"cuFileWrite")?),
                for_all: path.is_some(),
                moved: AtomicU64::new(0),
            };
            match open().error {
                0 => Ok(direct),
                error => Err(format!("cuFileDriverOpen of {name} failed with {error}: is nvidia-fs loaded?")),
            }
        }
    }

    /// Bytes that went this way.
    pub fn moved(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }

    /// Moves bytes between a regular file and memory of a GPU; `None` if it has to go another way. The file's
    /// position is not used.
    ///
    /// # Safety
    /// `len` bytes at `address` are the device's, and nobody uses them otherwise meanwhile.
    pub unsafe fn transfer(
        &self,
        file: RawFd,
        address: u64,
        len: usize,
        at: i64,
        writes: bool,
    ) -> Option<usize> {
        let mut description =
            Description { kind: 1, file: Descriptor { file }, operations: std::ptr::null() };
        let mut handle = std::ptr::null_mut();
        // SAFETY: both live until the call returns.
        if at < 0 || unsafe { (self.register)(&mut handle, &mut description) }.error != 0 {
            return None;
        }
        let call = if writes { self.write } else { self.read };
        // SAFETY: the caller's contract; the handle is given back behind the call.
        let moved = unsafe {
            let moved = call(handle, address as *mut c_void, len, at, 0);
            (self.deregister)(handle);
            moved
        };
        // What fails is tried through buffers, whose error is told.
        let moved = usize::try_from(moved).ok()?;
        self.moved.fetch_add(moved as u64, Ordering::Relaxed);
        Some(moved)
    }
}

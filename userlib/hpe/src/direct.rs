//! GPUDirect Storage: files to and from memory of GPUs past the host's, by NVIDIA's libcufile, which is opened at run time where it is there.
//!
//! Registered files need a file system, a kernel module and mostly `O_DIRECT`; whatever it refuses goes through pinned buffers, as all else.

use std::ffi::{CStr, CString, c_int, c_void};
use std::os::fd::RawFd;
use std::path::Path;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use ggas_gpu::Gpu;

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

/// `CUfileDrvProps_t`, as far as it is looked at; later versions of the library may write more.
#[repr(C)]
#[derive(Clone, Copy)]
struct Properties {
    major: u32,
    minor: u32,
    _bytes: [usize; 2],
    supported: u32,
    _more: [u32; 57],
}

/// Bit of `supported`: reads from NVMe by PCI itself, without nvidia-fs (`CU_FILE_NVME_P2P_SUPPORTED`).
const PEER_TO_PEER: u32 = 1 << 11;

const _: () = assert!(size_of::<Properties>() == 256 && std::mem::offset_of!(Properties, supported) == 24);

type Handle = *mut c_void;
type Register = unsafe extern "C" fn(*mut Handle, *mut Description) -> Status;
type Deregister = unsafe extern "C" fn(Handle);
type Move = unsafe extern "C" fn(Handle, *mut c_void, usize, libc::off_t, libc::off_t) -> isize;

/// What libcufile is, and how it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StorageLibrary {
    /// Its version, which those of CUDA before 12.3 do not tell.
    pub version: Option<[u32; 3]>,
    /// The version of NVIDIA's kernel module nvidia-fs, if it is loaded.
    pub module: Option<[u32; 2]>,
    /// Whether it reads from NVMe without that module.
    pub by_pci: bool,
    /// Its error for the last file that it did not take (`CUfileOpError`); 0: it took all.
    pub refused: i32,
}

impl StorageLibrary {
    /// Whether it can read past memory of the host. Else it is in compatibility mode: it calls `pread` and copies.
    pub fn is_direct(&self) -> bool {
        self.module.is_some() || self.by_pci
    }
}

impl std::fmt::Display for StorageLibrary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.version {
            Some([major, minor, patch]) => write!(f, "libcufile {major}.{minor}.{patch}")?,
            None => write!(f, "libcufile of a version that it does not tell")?,
        }
        match (self.module, self.by_pci) {
            (Some([major, minor]), _) => {
                write!(f, " with nvidia-fs {major}.{minor}, directly where the file system can")
            }
            (None, true) => write!(f, " without nvidia-fs, directly from NVMe by PCI"),
            (None, false) => write!(
                f,
                " in compatibility mode, as nvidia-fs is not loaded: it reads through the host's memory"
            ),
        }?;
        match self.refused {
            0 => Ok(()),
            error => write!(f, "; it refused a file with {error}"),
        }
    }
}

/// The library.
pub(crate) struct Direct {
    register: Register,
    deregister: Deregister,
    read: Move,
    write: Move,
    /// Whether it is asked for executor devices, too: for tests.
    pub for_all: bool,
    moved: AtomicU64,
    library: StorageLibrary,
    refused: AtomicI32,
}

impl Direct {
    /// Opens it for a GPU, by NVIDIA's name or a given one. The error says what is missing. Without a GPU it is not opened: NVIDIA's looks
    /// for libcuda for ever where there is none.
    pub fn open(path: Option<&Path>, gpu: Option<&Gpu>) -> Result<Direct, String> {
        if path.is_none() && gpu.is_none() {
            return Err("there is no GPU: files go through buffers".to_owned());
        }
        gpu.map_or(Ok(()), Gpu::enter).map_err(|error| error.to_string())?;
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
        let asks = (find(c"cuFileGetVersion").ok(), find(c"cuFileDriverGetProperties").ok());
        // SAFETY: the functions have these types in every version of cufile.h.
        unsafe {
            let open: unsafe extern "C" fn() -> Status = std::mem::transmute(open);
            match open().error {
                0 => {}
                error => {
                    return Err(format!(
                        "cuFileDriverOpen of {name} failed with {error}: is nvidia-fs loaded?"
                    ));
                }
            }
            Ok(Direct {
                register: std::mem::transmute::<*mut c_void, Register>(find(c"cuFileHandleRegister")?),
                deregister: std::mem::transmute::<*mut c_void, Deregister>(find(c"cuFileHandleDeregister")?),
                read: std::mem::transmute::<*mut c_void, Move>(find(c"cuFileRead")?),
                write: std::mem::transmute::<*mut c_void, Move>(find(c"cuFileWrite")?),
                for_all: path.is_some(),
                moved: AtomicU64::new(0),
                library: about(asks),
                refused: AtomicI32::new(0),
            })
        }
    }

    /// What it is.
    pub fn library(&self) -> StorageLibrary {
        StorageLibrary { refused: self.refused.load(Ordering::Relaxed), ..self.library }
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
        (gpu, address): (Option<&Gpu>, u64),
        len: usize,
        at: i64,
        writes: bool,
    ) -> Option<usize> {
        let mut description =
            Description { kind: 1, file: Descriptor { file }, operations: std::ptr::null() };
        let mut handle = std::ptr::null_mut();
        if at < 0 || gpu.is_some_and(|gpu| gpu.enter().is_err()) {
            return None;
        }
        // SAFETY: both live until the call returns.
        let registered = unsafe { (self.register)(&mut handle, &mut description) };
        if registered.error != 0 {
            self.refused.store(registered.error, Ordering::Relaxed);
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

/// Asks the open library for its version and its properties, by the functions that it has for that.
///
/// # Safety
/// They are `cuFileGetVersion` and `cuFileDriverGetProperties`.
unsafe fn about((version, properties): (Option<*mut c_void>, Option<*mut c_void>)) -> StorageLibrary {
    type Ask<T> = unsafe extern "C" fn(*mut T) -> Status;
    let mut number = 0;
    let mut told = Properties { major: 0, minor: 0, _bytes: [0; 2], supported: 0, _more: [0; 57] };
    // SAFETY: the functions have these types in every version of cufile.h, and fill in what they are given.
    let (has_version, has_properties) = unsafe {
        (
            version
                .is_some_and(|ask| std::mem::transmute::<*mut c_void, Ask<u32>>(ask)(&mut number).error == 0),
            properties.is_some_and(|ask| {
                std::mem::transmute::<*mut c_void, Ask<Properties>>(ask)(&mut told).error == 0
            }),
        )
    };
    StorageLibrary {
        // 1200 is 1.20.0.
        version: has_version.then_some([number / 1000, number % 1000 / 10, number % 10]),
        module: (has_properties && (told.major, told.minor) != (0, 0)).then_some([told.major, told.minor]),
        by_pci: has_properties && told.supported & PEER_TO_PEER != 0,
        refused: 0,
    }
}

//! The libraries that join hosts, each opened when it is first asked for.

use std::ffi::{CStr, CString, c_char, c_int};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;

use crate::error::WireError;
use crate::table::Table;

/// A library that carries messages between hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Library {
    /// libfabric, of the OpenFabrics Interfaces.
    Libfabric,
    /// UCX, of the Unified Communication Framework.
    Ucx,
}

impl fmt::Display for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Library::Libfabric => "libfabric",
            Library::Ucx => "UCX",
        })
    }
}

/// Version of a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// Before the point.
    pub major: u32,
    /// Behind it.
    pub minor: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl Library {
    /// All of them; the first that is installed is taken where nobody asks for one.
    pub const ALL: [Library; 2] = [Library::Libfabric, Library::Ucx];

    /// Its name in `GGAS_FABRIC`.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Library::Libfabric => "libfabric",
            Library::Ucx => "ucx",
        }
    }

    /// Its own variable that hides providers.
    pub(crate) fn filter(self) -> &'static str {
        match self {
            Library::Libfabric => "FI_PROVIDER",
            Library::Ucx => "UCX_TLS",
        }
    }

    /// Its own variables that say over which ports processes are reached.
    pub fn ports(self) -> &'static str {
        match self {
            Library::Libfabric => "FI_TCP_PORT_LOW_RANGE and FI_TCP_PORT_HIGH_RANGE",
            Library::Ucx => "UCX_TCP_PORT_RANGE",
        }
    }

    /// Names its file, where it is not where the system looks.
    fn path(self) -> &'static str {
        match self {
            Library::Libfabric => "GGAS_LIBFABRIC",
            Library::Ucx => "GGAS_UCX",
        }
    }

    /// What to do where it is missing.
    pub(crate) fn remedy(self) -> &'static str {
        match self {
            Library::Libfabric => {
                "To install it: `apt-get install libfabric1` (Debian, Ubuntu), `dnf install libfabric` (Fedora, Red Hat); \
                 GGAS_LIBFABRIC names the file of one elsewhere"
            }
            Library::Ucx => {
                "To install it: `apt-get install libucx0` (Debian, Ubuntu), `dnf install ucx` (Fedora, Red Hat); GGAS_UCX names \
                 the file of one elsewhere (libucp.so.0)"
            }
        }
    }

    /// The version that is installed.
    pub fn version(self) -> Result<Version, WireError> {
        let table = self.table()?;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: the library is loaded, and both are places for a number.
        unsafe { (table.version)(&mut major, &mut minor) };
        Ok(Version { major, minor })
    }

    /// Its calls; opens it first.
    pub(crate) fn table(self) -> Result<&'static Table, WireError> {
        type Loaded = OnceLock<Result<&'static Table, String>>;
        static LIBFABRIC: Loaded = OnceLock::new();
        static UCX: Loaded = OnceLock::new();
        let built = self.built().ok_or(WireError::NotBuilt { library: self })?;
        let once = match self {
            Library::Libfabric => &LIBFABRIC,
            Library::Ucx => &UCX,
        };
        let loaded = once.get_or_init(|| load(built, self.path()));
        loaded.clone().map_err(|why| WireError::Missing { library: self, why })
    }

    /// Its shim, if its headers were there when this was built.
    fn built(self) -> Option<&'static Table> {
        match self {
            // SAFETY: a constant of the shim.
            #[cfg(libfabric)]
            Library::Libfabric => Some(unsafe { &crate::table::ggas_libfabric }),
            // SAFETY: a constant of the shim.
            #[cfg(ucx)]
            Library::Ucx => Some(unsafe { &crate::table::ggas_ucx }),
            #[cfg(not(all(libfabric, ucx)))]
            _ => None,
        }
    }

    /// What an error number says.
    pub(crate) fn explain(self, error: c_int) -> String {
        match self.table() {
            // SAFETY: explain takes any number, and its texts are constants.
            Ok(table) => unsafe { text((table.explain)(error)) },
            Err(_) => format!("error {error}"),
        }
    }

    /// The error of a call.
    pub(crate) fn failed(self, call: impl Into<String>, error: c_int) -> WireError {
        let why = self.explain(error);
        WireError::Call { library: self, call: call.into(), why }
    }
}

fn load(table: &'static Table, variable: &str) -> Result<&'static Table, String> {
    let path = std::env::var_os(variable).filter(|path| !path.is_empty());
    let path = path.map(|path| CString::new(path.as_bytes())).transpose();
    let path = path.map_err(|_| format!("{variable} has a zero byte"))?;
    // SAFETY: a string that ends with 0, or NULL. Called once, by the caller's lock.
    let why = unsafe { (table.load)(path.as_ref().map_or(std::ptr::null(), |path| path.as_ptr())) };
    // SAFETY: NULL, or a text that stays until the next call of dlopen on this thread.
    if why.is_null() { Ok(table) } else { Err(unsafe { text(why) }) }
}

/// # Safety
/// It is NULL, or ends with 0.
pub(crate) unsafe fn text(chars: *const c_char) -> String {
    if chars.is_null() {
        return "unknown".to_owned();
    }
    // SAFETY: by this function's contract.
    unsafe { CStr::from_ptr(chars) }.to_string_lossy().into_owned()
}

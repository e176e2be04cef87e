//! The libraries that join hosts, each opened when it is first asked for.

use std::ffi::{CStr, CString, c_char, c_int};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;

use crate::error::WireError;
use crate::table::Table;

/// Names the file of libfabric, where it is not where the system looks.
const PATH: &str = "GGAS_LIBFABRIC";

/// A library that carries messages between hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Library {
    /// libfabric, of the OpenFabrics Interfaces.
    Libfabric,
}

impl fmt::Display for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Library::Libfabric => "libfabric",
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
    /// What to do where it is missing.
    pub(crate) fn remedy(self) -> &'static str {
        match self {
            Library::Libfabric => {
                "To install it: `apt-get install libfabric1` (Debian, Ubuntu), `dnf install libfabric` (Fedora, Red Hat); \
                 GGAS_LIBFABRIC names the file of one elsewhere"
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
        static LIBFABRIC: OnceLock<Result<&'static Table, String>> = OnceLock::new();
        let built = self.built()?;
        let loaded = LIBFABRIC.get_or_init(|| load(built));
        loaded.clone().map_err(|why| WireError::Missing { library: self, why })
    }

    #[cfg(libfabric)]
    fn built(self) -> Result<&'static Table, WireError> {
        // SAFETY: a constant of the shim.
        Ok(unsafe { &crate::table::ggas_libfabric })
    }

    #[cfg(not(libfabric))]
    fn built(self) -> Result<&'static Table, WireError> {
        Err(WireError::NotBuilt { library: self })
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

fn load(table: &'static Table) -> Result<&'static Table, String> {
    let path = std::env::var_os(PATH).filter(|path| !path.is_empty());
    let path = path.map(|path| CString::new(path.as_bytes())).transpose();
    let path = path.map_err(|_| format!("{PATH} has a zero byte"))?;
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

//! The shim's calls.

use std::env;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStringExt;

use crate::pmi::Told;
use crate::{PmixError, VALUE_MAX};

unsafe extern "C" {
    fn ggas_pmix_load(path: *const c_char) -> *const c_char;
    fn ggas_pmix_init(rank: *mut u32, size: *mut u32, name: *mut c_char, name_size: usize) -> c_int;
    fn ggas_pmix_put(key: *const c_char, bytes: *const c_void, len: usize) -> c_int;
    fn ggas_pmix_fence() -> c_int;
    fn ggas_pmix_get(
        rank: u32,
        key: *const c_char,
        bytes: *mut c_void,
        size: usize,
        len: *mut usize,
    ) -> c_int;
    fn ggas_pmix_finalize() -> c_int;
}

/// Longest name, with its end (PMIX_MAX_NSLEN).
const NAME: usize = 256;

fn done(what: &'static str, status: c_int) -> Result<(), PmixError> {
    if status == 0 { Ok(()) } else { Err(PmixError::Call { what, status }) }
}

/// Begins. The shim has one table of functions and one identity, so there is one session at a time.
pub fn begin() -> Result<Told, PmixError> {
    let path = env::var_os("GGAS_LIBPMIX").filter(|path| !path.is_empty());
    let path = path.map(|path| CString::new(path.into_vec())).transpose();
    let path = path.map_err(|error| PmixError::Library(error.to_string()))?;
    // SAFETY: a string that ends, or none; this is the only thread here (`crate::OPEN`).
    let why = unsafe { ggas_pmix_load(path.as_ref().map_or(std::ptr::null(), |path| path.as_ptr())) };
    if !why.is_null() {
        // SAFETY: a string that ends, which stays until the next call.
        let why = unsafe { CStr::from_ptr(why) };
        return Err(PmixError::Library(why.to_string_lossy().into_owned()));
    }
    let (mut rank, mut size, mut name) = (0, 0, [0; NAME]);
    // SAFETY: places for two numbers and for a string of that many bytes with its end.
    done("PMIx_Init", unsafe { ggas_pmix_init(&mut rank, &mut size, name.as_mut_ptr(), NAME) })?;
    let name: Vec<u8> = name.iter().map(|byte| *byte as u8).take_while(|byte| *byte != 0).collect();
    let name = String::from_utf8_lossy(&name).into_owned();
    Ok(Told { rank, size, name })
}

/// See [`crate::Session::of_rank_0`].
pub fn of_rank_0(told: &Told, key: &str, own: &[u8]) -> Result<Vec<u8>, PmixError> {
    let key = CString::new(key).map_err(|error| PmixError::Library(error.to_string()))?;
    if told.rank == 0 {
        // SAFETY: a string that ends, and bytes that are copied.
        done("PMIx_Put", unsafe { ggas_pmix_put(key.as_ptr(), own.as_ptr().cast(), own.len()) })?;
    }
    // SAFETY: begun, as there is a session.
    done("PMIx_Fence", unsafe { ggas_pmix_fence() })?;
    let (mut bytes, mut len) = (vec![0; VALUE_MAX], 0);
    let to = bytes.as_mut_ptr().cast();
    // SAFETY: a string that ends, and room for so many bytes.
    done("PMIx_Get", unsafe { ggas_pmix_get(0, key.as_ptr(), to, VALUE_MAX, &mut len) })?;
    bytes.truncate(len);
    Ok(bytes)
}

/// Tells the launcher of a good end.
pub fn end() {
    // SAFETY: begun, and ended once.
    let _ = unsafe { ggas_pmix_finalize() };
}

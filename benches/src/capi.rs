//! librma2 as a program in C calls it: linked into this program, by its exported names (`userlib/capi/include/rma2.h`).

use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;

// Linked for its exported functions, which are declared below.
use rma2 as _;

use crate::BenchError;

const CONNECTION_DEFAULT: u32 = 16;
const COMPLETER: u32 = 4;

#[repr(C)]
struct Opaque {
    _private: [u8; 0],
}

unsafe extern "C" {
    fn rma2_open(port: *mut *mut Opaque) -> c_int;
    fn rma2_close(port: *mut Opaque) -> c_int;
    fn rma2_connect(port: *mut Opaque, node: u16, vpid: u16, options: u32, handle: *mut *mut Opaque)
    -> c_int;
    fn rma2_get_nodeid(port: *mut Opaque) -> u16;
    fn rma2_get_vpid(port: *mut Opaque) -> u16;
    fn rma2_register(port: *mut Opaque, address: *mut c_void, size: usize, region: *mut *mut Opaque)
    -> c_int;
    fn rma2_unregister(port: *mut Opaque, region: *mut Opaque) -> c_int;
    fn rma2_get_nla(region: *mut Opaque, offset: usize, nla: *mut u64) -> c_int;
    fn rma2_post_put_bt(
        port: *mut Opaque,
        handle: *mut Opaque,
        region: *mut Opaque,
        offset: u32,
        size: u32,
        target: u64,
        spec: u32,
        modifier: u32,
    ) -> c_int;
    fn rma2_noti_get_block(port: *mut Opaque, notification: *mut *mut Opaque) -> c_int;
    fn rma2_noti_get_error(notification: *mut Opaque) -> u8;
    fn rma2_noti_free(port: *mut Opaque, notification: *mut Opaque) -> c_int;
    fn rma2_serror(error: c_int, text: *mut c_char, len: c_int);
}

/// An error of the library for a result other than 0.
#[inline]
fn ok(what: &'static str, result: c_int) -> Result<(), BenchError> {
    if result == 0 { Ok(()) } else { Err(failed(what, result)) }
}

#[cold]
fn failed(what: &'static str, result: c_int) -> BenchError {
    let mut text = [0u8; 400];
    // SAFETY: the buffer is that long; it is ended by a 0.
    unsafe { rma2_serror(result, text.as_mut_ptr().cast(), text.len() as c_int) };
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    BenchError::Refused(format!("{what} gave {result}: {}", String::from_utf8_lossy(&text[..end])))
}

/// A port with registered memory, connected to another.
pub(crate) struct CEnd {
    port: *mut Opaque,
    handle: *mut Opaque,
    region: *mut Opaque,
    memory: *mut u8,
    len: usize,
    /// Where data arrive at the other end.
    target: u64,
}

impl CEnd {
    /// A port and `len` bytes of zeroed memory.
    pub fn open(len: usize) -> Result<CEnd, BenchError> {
        let memory = Box::into_raw(vec![0u8; len].into_boxed_slice()).cast::<u8>();
        let (port, handle, region) = (null_mut(), null_mut(), null_mut());
        let mut end = CEnd { port, handle, region, memory, len, target: 0 };
        // SAFETY: places for the results; the memory stays until the end is dropped, which unregisters it.
        unsafe {
            ok("rma2_open", rma2_open(&mut end.port))?;
            ok("rma2_register", rma2_register(end.port, memory.cast(), len, &mut end.region))?;
        }
        Ok(end)
    }

    /// Connects it with `other`, where data arrive at offset `arrival`.
    pub fn connect(&mut self, other: &CEnd, arrival: usize) -> Result<(), BenchError> {
        // SAFETY: ports and region are open; places for the results.
        unsafe {
            ok("rma2_get_nla", rma2_get_nla(other.region, arrival, &mut self.target))?;
            let (node, vpid) = (rma2_get_nodeid(other.port), rma2_get_vpid(other.port));
            ok("rma2_connect", rma2_connect(self.port, node, vpid, CONNECTION_DEFAULT, &mut self.handle))
        }
    }

    /// Puts the `bytes` at offset `at` to where data arrive at the other end.
    #[inline]
    pub fn put(&self, at: usize, bytes: usize) -> Result<(), BenchError> {
        let Self { port, handle, region, target, .. } = *self;
        // SAFETY: all are open; the library checks the range.
        let posted =
            unsafe { rma2_post_put_bt(port, handle, region, at as u32, bytes as u32, target, COMPLETER, 0) };
        ok("rma2_post_put_bt", posted)
    }

    /// Consumes the next notification; one with an error bit is an error.
    #[inline]
    pub fn consume(&self) -> Result<(), BenchError> {
        let mut notification = null_mut();
        // SAFETY: the port is open, and the notification stays until it is freed.
        unsafe {
            ok("rma2_noti_get_block", rma2_noti_get_block(self.port, &mut notification))?;
            ok("the notification's error", rma2_noti_get_error(notification).into())?;
            ok("rma2_noti_free", rma2_noti_free(self.port, notification))
        }
    }

    /// Copies bytes in.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.len, "within the memory");
        // SAFETY: within the memory, which nothing else writes while no put is under way.
        unsafe { self.memory.add(offset).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    /// Copies bytes out.
    pub fn read(&self, offset: usize, len: usize) -> Vec<u8> {
        assert!(offset + len <= self.len, "within the memory");
        let mut bytes = vec![0; len];
        // SAFETY: as above; notifications were consumed, so what they announce is visible.
        unsafe { bytes.as_mut_ptr().copy_from_nonoverlapping(self.memory.add(offset), len) };
        bytes
    }
}

impl Drop for CEnd {
    fn drop(&mut self) {
        // SAFETY: null or open; afterwards the card does not reach the memory, which is as `open` made it.
        unsafe {
            rma2_unregister(self.port, self.region);
            rma2_close(self.port);
            drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(self.memory, self.len)));
        }
    }
}

//! The structures of `shim/wire.h`.

use std::ffi::{c_char, c_int, c_void};

pub const AGAIN: c_int = 1;
pub const MESSAGE_MAX: usize = 8192;
pub const MESSAGE_MOST: usize = 17408;
pub const ADDRESS_MAX: usize = 4096;
pub const KEY_MAX: usize = 256;
pub const NAME_MAX: usize = 64;
pub const EVENTS_MAX: usize = 32;
pub const HEAD_MAX: usize = 256;

pub const ACCESS_ALL: u32 = 0;
pub const ACCESS_LOCAL: u32 = 1;
pub const ACCESS_READ: u32 = 2;
pub const ACCESS_GPU: u32 = 16;

pub const CAN_MESSAGES: u32 = 1;
pub const CAN_MEMORY: u32 = 2;
pub const CAN_NOTIFY: u32 = 4;
pub const CAN_SLEEP: u32 = 8;
pub const CAN_GPU: u32 = 16;
pub const CAN_ORDER: u32 = 32;
pub const CAN_RDMA: u32 = 64;

pub const MESSAGE: u32 = 1;
pub const WRITTEN: u32 = 2;
pub const DONE: u32 = 3;
pub const FAILED: u32 = 4;
pub const UNSENT: u32 = 5;
pub const GONE: u32 = 6;
pub const LED: u32 = 7;

/// `struct ggas_offer`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct RawOffer {
    pub name: [u8; NAME_MAX],
    pub device: [u8; NAME_MAX],
    pub write_max: u64,
    pub can: u32,
    pub reserved: u32,
}

/// `struct ggas_event`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct RawEvent {
    pub kind: u32,
    pub immediate: u32,
    pub token: u64,
    pub bytes: *const u8,
    pub len: u64,
    pub error: i32,
    pub reserved: u32,
    pub more: *const u8,
    pub more_len: u64,
}

/// `struct ggas_span`.
#[repr(C)]
pub struct RawSpan {
    pub local: *mut c_void,
    pub region: u64,
    pub remote: u64,
    pub offset: u64,
    pub len: u64,
}

// The shim asserts the same.
const _: () =
    assert!(size_of::<RawOffer>() == 144 && size_of::<RawEvent>() == 56 && size_of::<RawSpan>() == 40);
const _: () = assert!(size_of::<Table>() == 22 * size_of::<usize>());

/// `struct ggas_endpoint`.
#[repr(C)]
pub struct RawEndpoint {
    _opaque: [u8; 0],
}

type Endpoint = *mut RawEndpoint;

/// `ggas_taker`.
pub type Taker = unsafe extern "C" fn(whose: *mut c_void, event: *const RawEvent) -> c_int;

/// `struct ggas_wire`.
#[repr(C)]
pub struct Table {
    pub message_max: usize,
    pub load: unsafe extern "C" fn(path: *const c_char) -> *const c_char,
    pub version: unsafe extern "C" fn(major: *mut u32, minor: *mut u32),
    pub explain: unsafe extern "C" fn(error: c_int) -> *const c_char,
    pub list: unsafe extern "C" fn(offers: *mut RawOffer, room: c_int) -> c_int,
    pub open: unsafe extern "C" fn(
        provider: *const c_char,
        host: *const c_char,
        gpu: u32,
        error: *mut c_int,
        call: *mut *const c_char,
    ) -> Endpoint,
    pub close: unsafe extern "C" fn(Endpoint),
    pub address: unsafe extern "C" fn(Endpoint, bytes: *mut c_void, len: *mut usize) -> c_int,
    pub insert: unsafe extern "C" fn(Endpoint, address: *const c_void, len: usize, peer: *mut u64) -> c_int,
    pub remove: unsafe extern "C" fn(Endpoint, peer: u64) -> c_int,
    pub reg: unsafe extern "C" fn(
        Endpoint,
        memory: *mut c_void,
        len: usize,
        access: u32,
        region: *mut u64,
        key: *mut c_void,
        key_len: *mut usize,
    ) -> c_int,
    pub unreg: unsafe extern "C" fn(Endpoint, region: u64) -> c_int,
    pub import:
        unsafe extern "C" fn(Endpoint, peer: u64, key: *const c_void, len: usize, remote: *mut u64) -> c_int,
    pub forget: unsafe extern "C" fn(Endpoint, remote: u64),
    pub send: unsafe extern "C" fn(Endpoint, peer: u64, bytes: *const c_void, len: usize) -> c_int,
    pub room: Option<unsafe extern "C" fn(Endpoint) -> *mut c_void>,
    pub write: unsafe extern "C" fn(
        Endpoint,
        peer: u64,
        span: *const RawSpan,
        immediate: *const u32,
        token: u64,
    ) -> c_int,
    pub write_behind: Option<
        unsafe extern "C" fn(
            Endpoint,
            peer: u64,
            head: *const c_void,
            head_len: usize,
            span: *const RawSpan,
            immediate: u32,
            token: u64,
        ) -> c_int,
    >,
    pub read: unsafe extern "C" fn(Endpoint, peer: u64, span: *const RawSpan, token: u64) -> c_int,
    pub poll: unsafe extern "C" fn(Endpoint, events: *mut RawEvent, take: Taker, whose: *mut c_void) -> c_int,
    pub descriptor: unsafe extern "C" fn(Endpoint) -> c_int,
    pub arm: unsafe extern "C" fn(Endpoint) -> c_int,
}

unsafe extern "C" {
    #[cfg(libfabric)]
    pub static ggas_libfabric: Table;
    #[cfg(ucx)]
    pub static ggas_ucx: Table;
}

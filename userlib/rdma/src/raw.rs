//! `shim/rdma.h` in Rust.

use std::ffi::{c_char, c_int};

use crate::endpoint::{Options, Queues};

pub const NAME: usize = 64;
pub const DEVICES: usize = 64;

/// `struct ggas_rdma_device`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct RawDevice {
    pub name: [u8; NAME],
    pub direct: u32,
    pub reserved: u32,
}

/// `struct ggas_rdma_peer`.
#[repr(C)]
pub struct RawPeer {
    pub gid: [u8; 16],
    pub qpn: u32,
    pub lid: u32,
    pub send_psn: u32,
    pub receive_psn: u32,
    pub reads: u32,
    pub mtu: u32,
}

/// `struct ggas_rdma`, which only the shim looks into.
#[repr(C)]
pub struct RawEnd {
    _private: [u8; 0],
}

/// `struct ggas_rdma_region`, likewise.
#[repr(C)]
pub struct RawRegion {
    _private: [u8; 0],
}

// The shim asserts the same.
const _: () = assert!(
    size_of::<RawDevice>() == 72
        && size_of::<Queues>() == 88
        && size_of::<Options>() == 20
        && size_of::<RawPeer>() == 40
);

#[cfg_attr(not(rdma_core), allow(dead_code))]
unsafe extern "C" {
    pub fn ggas_rdma_load(verbs: *const c_char, mlx5: *const c_char) -> *const c_char;
    pub fn ggas_rdma_list(all: *mut RawDevice) -> c_int;
    pub fn ggas_rdma_open(
        name: *const c_char,
        wish: *const Options,
        end: *mut *mut RawEnd,
        queues: *mut Queues,
        call: *mut *const c_char,
    ) -> c_int;
    pub fn ggas_rdma_address(
        end: *mut RawEnd,
        gid: *mut u8,
        lid: *mut u32,
        mtu: *mut u32,
        call: *mut *const c_char,
    ) -> c_int;
    pub fn ggas_rdma_connect(end: *mut RawEnd, peer: *const RawPeer, call: *mut *const c_char) -> c_int;
    pub fn ggas_rdma_register(
        end: *mut RawEnd,
        fd: c_int,
        offset: u64,
        address: u64,
        len: u64,
        region: *mut *mut RawRegion,
        lkey: *mut u32,
        rkey: *mut u32,
        call: *mut *const c_char,
    ) -> c_int;
    pub fn ggas_rdma_deregister(region: *mut RawRegion) -> c_int;
    pub fn ggas_rdma_close(end: *mut RawEnd);
}

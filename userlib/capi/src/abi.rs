//! Layouts and values that C programs see (spec 10.1).

use std::ffi::c_void;

/// `extoll_list_head_t`: a list's head, or an item's place in it.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ListHead {
    pub(crate) next: *mut ListHead,
    pub(crate) prev: *mut ListHead,
}

impl ListHead {
    pub(crate) const NONE: ListHead = ListHead { next: std::ptr::null_mut(), prev: std::ptr::null_mut() };
}

/// `RMA2_Region`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Region {
    pub(crate) list: ListHead,
    pub(crate) start: *mut c_void,
    pub(crate) nla: u64,
    pub(crate) count: u32,
    pub(crate) offset: u32,
    pub(crate) end: *mut c_void,
    pub(crate) size: usize,
    pub(crate) refcount: u64,
    pub(crate) endpoint: *mut c_void,
    pub(crate) parent: *mut Region,
}

/// `RMA2_Notification`: packed in C, so at any address.
#[repr(C, packed)]
#[derive(Clone, Copy)]
pub(crate) struct Notification {
    pub(crate) word0: u64,
    pub(crate) word1: u64,
}

/// `RMA2_Descriptor`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Descriptor {
    pub(crate) list: ListHead,
    pub(crate) handle: *mut Connection,
    pub(crate) reserved0: u64,
    pub(crate) value: [u64; 3],
    pub(crate) reserved1: u64,
}

/// `RMA2_Connection`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Connection {
    pub(crate) nodeid: u32,
    pub(crate) vpid: u32,
    pub(crate) req_page: *mut u64,
}

/// The queue in an `RMA2_Endpoint`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Queue {
    pub(crate) queue: *mut Notification,
    pub(crate) size: u32,
    pub(crate) rp: u32,
    pub(crate) rp_bak: u32,
    pub(crate) rp_wb: *mut u64,
}

/// `RMA2_Endpoint`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Endpoint {
    pub(crate) queue: Queue,
    pub(crate) descriptor_queue: *mut c_void,
    pub(crate) region_queue: *mut c_void,
    pub(crate) fd: i32,
    pub(crate) pad0: u32,
    pub(crate) desc_pool: *mut c_void,
    pub(crate) nodeid: u32,
    pub(crate) vpid: u32,
    pub(crate) max_nodeid: u32,
    pub(crate) max_vpid: u32,
    pub(crate) regions: *mut c_void,
    pub(crate) freed_regions: *mut c_void,
    pub(crate) registered_mem: u64,
    pub(crate) limit: u64,
    pub(crate) req_pages: [*mut u64; 32],
    pub(crate) state_map: *mut u64,
    pub(crate) packet_buffer: *mut c_void,
    pub(crate) committed_count: u32,
    pub(crate) packet_wp: u32,
    pub(crate) retried_packet_count: u64,
    pub(crate) replay_mode: u32,
}

const _: () = {
    assert!(size_of::<Region>() == 80 && size_of::<Notification>() == 16);
    assert!(size_of::<Descriptor>() == 64 && size_of::<Connection>() == 16);
    assert!(size_of::<Queue>() == 32 && size_of::<Endpoint>() == 408);
    assert!(std::mem::offset_of!(Endpoint, req_pages) == 112);
    assert!(std::mem::offset_of!(Endpoint, replay_mode) == 400);
};

/// Values that programs match with.
pub(crate) const CLASS_ANY: u8 = 0xff;
pub(crate) const NODEID_ANY: u16 = 0xffff;
pub(crate) const VPID_ANY: u16 = 0xffff;
pub(crate) const LOCK_ANY: u32 = u32::MAX;
pub(crate) const NLA_ANY: u64 = u64::MAX;
pub(crate) const FLAG_BLOCK: i32 = 1;
pub(crate) const FLAG_LAST_NLA: i32 = 2;

/// The same as objects, which programs refer to.
mod objects {
    #[unsafe(no_mangle)]
    static RMA2_CLASS_ANY: u8 = super::CLASS_ANY;
    #[unsafe(no_mangle)]
    static RMA2_NODEID_ANY: u16 = super::NODEID_ANY;
    #[unsafe(no_mangle)]
    static RMA2_VPID_ANY: u16 = super::VPID_ANY;
    #[unsafe(no_mangle)]
    static RMA2_LOCK_ANY: u32 = super::LOCK_ANY;
    #[unsafe(no_mangle)]
    static RMA2_ANY_NLA: u64 = super::NLA_ANY;
    #[unsafe(no_mangle)]
    static RMA2_DEFAULT_FLAG: i32 = 0;
    #[unsafe(no_mangle)]
    static RMA2_BLOCK_FLAG: i32 = super::FLAG_BLOCK;
    #[unsafe(no_mangle)]
    static RMA2_MATCH_LAST_NLA_FLAG: i32 = super::FLAG_LAST_NLA;
}

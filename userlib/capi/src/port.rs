//! Ports as handles (`RMA2_Port`).

use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use extoll_abi::regs;
use ggas::device::PortSetup;
use ggas::{Port, PortConfig};

use crate::abi::{Endpoint, Queue};
use crate::error::{Code, INV_PORT, IOCTL, NO_MEM, Result, bare, because, code, of_port};
use crate::ffi::{Null, Out};
use crate::node::{self, Home};
use crate::open::{self, NotClosed, Ports};
use crate::settings::Timeouts;
use crate::{cache, connection, descriptor, error, registry, report, slots};

/// Bytes of the range that ports' handles lie in.
const RANGE: usize = 1 << 30;
/// Ids are 16 bits, VPIDs 8 (spec 9.2).
const MAX_NODES: u32 = 65536;
const MAX_VPIDS: u16 = 256;
/// `RMA2_REPLAY_ALL`.
const REPLAY_ALL: u32 = 7;

static PORTS: Ports<Endpoint, Inner> = Ports::new(RANGE);
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// An open port.
pub(crate) struct Inner {
    pub(crate) port: Port,
    /// Unlike VPIDs, never used again.
    pub(crate) id: u64,
    pub(crate) home: &'static Home,
    shape: Mutex<PortSetup>,
    replay: AtomicU32,
    /// Handles of its connections and descriptors, which end with it.
    pub(crate) connections: Mutex<HashSet<usize>>,
    pub(crate) descriptors: Mutex<descriptor::Pool>,
}

/// A call on a port.
pub(crate) type Entered = open::Entered<Endpoint, Inner>;

/// The open port that `handle` is.
#[inline]
pub(crate) fn enter(handle: *const Endpoint) -> Result<Entered> {
    PORTS.enter(handle.cast()).ok_or_else(|| none(handle))
}

#[cold]
fn none(handle: *const Endpoint) -> Code {
    if handle.is_null() { because(INV_PORT, Null("port")) } else { bare(INV_PORT) }
}

/// Locks whose state is consistent between any two statements.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inner {
    pub(crate) fn timeouts(&self) -> &Timeouts {
        &self.home.timeouts
    }

    fn open() -> Result<Inner> {
        let home = node::home()?;
        let config = PortConfig { post_timeout: home.timeouts.post, ..PortConfig::default() };
        let port = home.node.open_port(config).map_err(|error| of_port(&error))?;
        let shape = PortSetup { queue_bytes: config.queue_bytes, segment_bytes: config.segment_bytes };
        Ok(Inner {
            port,
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            home,
            shape: Mutex::new(shape),
            replay: AtomicU32::new(REPLAY_ALL),
            connections: Mutex::default(),
            descriptors: Mutex::default(),
        })
    }

    /// What programs may look at (spec 10.1).
    fn endpoint(&self) -> Endpoint {
        let device = self.port.device();
        let (queue, registers) = (device.queue(), device.registers());
        let address = self.port.address();
        Endpoint {
            queue: Queue {
                queue: queue.base.as_ptr().cast(),
                size: queue.entries,
                rp: 0,
                rp_bak: 0,
                rp_wb: registers.read_pointer.as_ptr().cast(),
            },
            descriptor_queue: std::ptr::null_mut(),
            region_queue: std::ptr::null_mut(),
            fd: -1,
            pad0: 0,
            desc_pool: std::ptr::null_mut(),
            nodeid: address.node.into(),
            vpid: address.vpid.into(),
            max_nodeid: MAX_NODES,
            max_vpid: MAX_VPIDS.into(),
            regions: std::ptr::null_mut(),
            freed_regions: std::ptr::null_mut(),
            registered_mem: 0,
            limit: 0,
            req_pages: [std::ptr::null_mut(); 32],
            state_map: registers.wcb_state.as_ptr().cast(),
            packet_buffer: std::ptr::null_mut(),
            committed_count: 0,
            packet_wp: 0,
            retried_packet_count: 0,
            replay_mode: REPLAY_ALL,
        }
    }

    /// Sets the port's part of the VPID table (spec 8.3).
    fn set_protection(&self, id: u16) -> Result<()> {
        let register = regs::vpid_table(self.port.address().vpid);
        let node = &self.home.node;
        let entry = node.read_register(register).map_err(|error| because(IOCTL, error))?;
        let entry = entry & !(0xffff << 16) | u64::from(id) << 16;
        node.write_register(register, entry).map_err(|error| because(IOCTL, error))
    }
}

fn open() -> Result<*mut Endpoint> {
    let inner = Inner::open()?;
    let handle = PORTS.insert(inner.endpoint(), inner).map_err(|error| because(NO_MEM, error))?;
    Ok(handle.cast())
}

fn close(handle: *const Endpoint) -> Result<()> {
    let closed = PORTS.close(handle.cast(), |port| {
        // Regions first: a cached one may be in use by nobody, and all of them keep the port alive.
        cache::forget_port(port.id);
        registry::close_port(port.id);
        connection::close_port(port);
        descriptor::close_port(port);
        // Posts that wait for room give up after their own timeout.
        (port.port.shut().map_err(|error| of_port(&error)), port.timeouts().post)
    });
    closed.unwrap_or_else(|why| match why {
        NotClosed::Unknown => Err(none(handle)),
        NotClosed::InUse => {
            Err(because(INV_PORT, "calls on the port do not return: it is closed, its memory is kept"))
        }
    })
}

fn reshape(port: *const Endpoint, bytes: u32) -> Result<()> {
    let port = enter(port)?;
    let mut shape = lock(&port.shape);
    let wanted = PortSetup { queue_bytes: bytes as usize, segment_bytes: shape.segment_bytes };
    port.port.reshape_queue(&wanted).map_err(|error| of_port(&error))?;
    *shape = wanted;
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn rma2_open(port: Out<*mut Endpoint>) -> Code {
    slots::catch_up();
    code(port.check("place for the port").map_err(Code::from).and_then(|()| {
        let opened = open().inspect_err(|why| report::not_opened("librma2", why.0, &error::text(*why)));
        port.set(opened?)
    }))
}

#[unsafe(no_mangle)]
extern "C" fn rma2_close(port: *const Endpoint) -> Code {
    code(close(port))
}

#[unsafe(no_mangle)]
extern "C" fn rma2_get_nodeid(port: *const Endpoint) -> u16 {
    enter(port).map_or(0, |port| port.port.address().node)
}

#[unsafe(no_mangle)]
extern "C" fn rma2_get_vpid(port: *const Endpoint) -> u16 {
    enter(port).map_or(0, |port| port.port.address().vpid.into())
}

#[unsafe(no_mangle)]
extern "C" fn rma2_get_node_num(port: *const Endpoint) -> u16 {
    enter(port).map_or(0, |port| port.home.nodes.try_into().unwrap_or(u16::MAX))
}

#[unsafe(no_mangle)]
extern "C" fn rma2_get_proc_num(port: *const Endpoint) -> u16 {
    enter(port).map_or(0, |_| MAX_VPIDS)
}

#[unsafe(no_mangle)]
extern "C" fn rma2_set_protectionid(port: *const Endpoint, id: u16) -> Code {
    code(enter(port).and_then(|port| port.set_protection(id)))
}

#[unsafe(no_mangle)]
extern "C" fn rma2_get_queue_size(port: *const Endpoint) -> u32 {
    enter(port).map_or(0, |port| lock(&port.shape).queue_bytes as u32)
}

#[unsafe(no_mangle)]
extern "C" fn rma2_set_queue_size(port: *const Endpoint, bytes: u32) -> Code {
    code(reshape(port, bytes))
}

#[unsafe(no_mangle)]
extern "C" fn rma2_get_queue_segment_size(port: *const Endpoint) -> u32 {
    enter(port).map_or(0, |port| lock(&port.shape).segment_bytes as u32)
}

#[unsafe(no_mangle)]
extern "C" fn rma2_set_queue_segment_size(port: *const Endpoint, size: u32) -> Code {
    code(enter(port).and_then(|port| {
        if size == 0 || !size.is_multiple_of(ggas::PAGE as u32) {
            return Err(because(IOCTL, "a segment is a multiple of the page size"));
        }
        lock(&port.shape).segment_bytes = size as usize;
        Ok(())
    }))
}

#[unsafe(no_mangle)]
extern "C" fn rma2_replay_buffer_drain(port: *const Endpoint) {
    if let Ok(port) = enter(port) {
        // What cannot be drained is reported by the posts and the close that follow.
        let _ = port.port.drain(port.timeouts().post);
    }
}

#[unsafe(no_mangle)]
extern "C" fn rma2_set_replay_mode(port: *const Endpoint, mode: u32) {
    if let (Ok(port), 0..=REPLAY_ALL) = (enter(port), mode) {
        port.replay.store(mode, Ordering::Relaxed);
    }
}

#[unsafe(no_mangle)]
extern "C" fn rma2_get_replay_buffer_mode(port: *const Endpoint) -> u32 {
    enter(port).map_or(0, |port| port.replay.load(Ordering::Relaxed))
}

//! Connections as handles (`RMA2_Handle`).

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use ggas::{Address, PageOption};

use crate::abi::{self, Endpoint};
use crate::error::{Code, INV_HANDLE, INV_VALUE, NO_MEM, Result, SUCCESS, bare, because, code};
use crate::ffi::{Null, Out};
use crate::port::{Inner, enter, lock};
use crate::slab::Slab;

/// Bytes of the range that connections' handles lie in.
const RANGE: usize = 4 << 30;
/// A query's answer for a feature that is off.
const OFF: u32 = 1;

static CONNECTIONS: OnceLock<Slab<Body>> = OnceLock::new();

/// What stands at a connection's handle. The part that C sees is never read here: programs may write it.
#[repr(C)]
struct Body {
    abi: abi::Connection,
    /// Id of the port.
    owner: AtomicU64,
    /// Node << 8 | VPID.
    remote: AtomicU64,
    option: AtomicU32,
    response_tc: AtomicU32,
}

// SAFETY: the pointer is for programs to look at; nobody here follows it.
unsafe impl Send for Body {}
// SAFETY: as above; the rest is atomic.
unsafe impl Sync for Body {}

/// Where a connection leads, and how.
#[derive(Clone, Copy)]
pub(crate) struct Connection {
    pub(crate) remote: Address,
    pub(crate) option: PageOption,
}

#[inline]
fn body(handle: *const abi::Connection) -> Result<&'static crate::slab::Place<Body>> {
    let place = CONNECTIONS.get().and_then(|all| all.get(handle.cast()));
    place.ok_or_else(|| none(handle))
}

#[cold]
fn none(handle: *const abi::Connection) -> Code {
    if handle.is_null() { because(INV_HANDLE, Null("connection")) } else { bare(INV_HANDLE) }
}

/// The live connection of `port` that `handle` is.
#[inline]
pub(crate) fn of(port: &Inner, handle: *const abi::Connection) -> Result<Connection> {
    let place = body(handle)?;
    let Body { owner, remote, option, .. } = &place.body;
    let (owner, remote) = (owner.load(Ordering::Relaxed), remote.load(Ordering::Relaxed));
    let option = option.load(Ordering::Acquire);
    // A place that was given up meanwhile reads as zeroes.
    if owner != port.id || !place.is_live() {
        return Err(bare(INV_HANDLE));
    }
    let remote = Address::new((remote >> 8) as u16, remote as u8);
    Ok(Connection { remote, option: PageOption::new(option as u8).unwrap_or_default() })
}

/// Where a live connection of any port leads.
pub(crate) fn remote(handle: *const abi::Connection) -> Result<Address> {
    let place = body(handle)?;
    let remote = place.body.remote.load(Ordering::Relaxed);
    if place.is_live() { Ok(Address::new((remote >> 8) as u16, remote as u8)) } else { Err(bare(INV_HANDLE)) }
}

fn connect(port: &Inner, node: u16, vpid: u16, options: u32) -> Result<*mut abi::Connection> {
    let vpid = u8::try_from(vpid).map_err(|_| because(INV_VALUE, "VPIDs are 0 to 255"))?;
    let option = u8::try_from(options).ok().and_then(|bits| PageOption::new(bits).ok());
    let option = option.ok_or_else(|| because(INV_VALUE, "connection options are 0 to 31"))?;
    let all = match CONNECTIONS.get() {
        Some(all) => all,
        None => {
            let all = Slab::new(RANGE).map_err(|error| because(NO_MEM, error))?;
            CONNECTIONS.get_or_init(|| all)
        }
    };
    let body = Body {
        abi: abi::Connection { nodeid: node.into(), vpid: vpid.into(), req_page: std::ptr::null_mut() },
        owner: AtomicU64::new(port.id),
        remote: AtomicU64::new(u64::from(node) << 8 | u64::from(vpid)),
        option: AtomicU32::new(option.bits().into()),
        response_tc: AtomicU32::new(option.traffic_class().into()),
    };
    let handle = all.insert(body).ok_or(NO_MEM)?;
    lock(&port.connections).insert(handle as usize);
    Ok(handle.cast())
}

/// Ends all connections of a port that closes.
pub(crate) fn close_port(port: &Inner) {
    let mut connections = lock(&port.connections);
    for handle in connections.drain() {
        CONNECTIONS.get().map(|all| all.remove(handle as *const Body));
    }
}

/// Changes a connection's option.
fn change(port: *const Endpoint, handle: *const abi::Connection, change: impl Fn(u8) -> u8) -> Result<()> {
    of(&*enter(port)?, handle)?;
    let option = &body(handle)?.body.option;
    option.store(change(option.load(Ordering::Relaxed) as u8).into(), Ordering::Release);
    Ok(())
}

/// 0 where `is_on` holds for the connection's option.
fn query(port: *const Endpoint, handle: *const abi::Connection, is_on: impl Fn(PageOption) -> bool) -> u32 {
    match enter(port).and_then(|port| of(&port, handle)) {
        Ok(connection) if is_on(connection.option) => SUCCESS.0 as u32,
        Ok(_) => OFF,
        Err(code) => code.0 as u32,
    }
}

#[unsafe(no_mangle)]
extern "C" fn rma2_connect(
    port: *const Endpoint,
    node: u16,
    vpid: u16,
    options: u32,
    handle: Out<*mut abi::Connection>,
) -> Code {
    let connected = enter(port).and_then(|port| {
        handle.check("place for the connection")?;
        connect(&port, node, vpid, options)
    });
    code(connected.and_then(|connection| handle.set(connection)))
}

#[unsafe(no_mangle)]
extern "C" fn rma2_disconnect(port: *const Endpoint, handle: *const abi::Connection) -> Code {
    code(enter(port).and_then(|port| {
        of(&port, handle)?;
        lock(&port.connections).remove(&(handle as usize));
        let removed = CONNECTIONS.get().is_some_and(|all| all.remove(handle.cast()));
        if removed { Ok(()) } else { Err(bare(INV_HANDLE)) }
    }))
}

#[unsafe(no_mangle)]
extern "C" fn rma2_handle_get_node(handle: *const abi::Connection) -> u16 {
    body(handle).map_or(0, |place| (place.body.remote.load(Ordering::Relaxed) >> 8) as u16)
}

#[unsafe(no_mangle)]
extern "C" fn rma2_handle_get_vpid(handle: *const abi::Connection) -> u16 {
    body(handle).map_or(0, |place| place.body.remote.load(Ordering::Relaxed) as u8 as u16)
}

#[unsafe(no_mangle)]
extern "C" fn rma2_request_interrupt(port: *const Endpoint, handle: *const abi::Connection) -> Code {
    code(change(port, handle, |option| option | PageOption::IRQ.bits()))
}

#[unsafe(no_mangle)]
extern "C" fn rma2_get_interrupt(port: *const Endpoint, handle: *const abi::Connection) -> u32 {
    query(port, handle, |option| option.contains(PageOption::IRQ))
}

#[unsafe(no_mangle)]
extern "C" fn rma2_request_rra(port: *const Endpoint, handle: *const abi::Connection) -> Code {
    code(change(port, handle, |option| option | PageOption::RRA.bits()))
}

#[unsafe(no_mangle)]
extern "C" fn rma2_get_rra(port: *const Endpoint, handle: *const abi::Connection) -> u32 {
    query(port, handle, |option| option.contains(PageOption::RRA))
}

#[unsafe(no_mangle)]
extern "C" fn rma2_request_physical_access(port: *const Endpoint, handle: *const abi::Connection) -> Code {
    code(change(port, handle, |option| option & !PageOption::TE.bits()))
}

#[unsafe(no_mangle)]
extern "C" fn rma2_get_physical_access(port: *const Endpoint, handle: *const abi::Connection) -> u32 {
    query(port, handle, |option| !option.contains(PageOption::TE))
}

#[unsafe(no_mangle)]
extern "C" fn rma2_request_tcs(
    port: *const Endpoint,
    handle: *const abi::Connection,
    request: u32,
    response: u32,
) -> Code {
    if request > 3 || response > 3 {
        return because(INV_VALUE, "traffic classes are 0 to 3");
    }
    code(change(port, handle, |option| option & !3 | request as u8).and_then(|()| {
        body(handle)?.body.response_tc.store(response, Ordering::Relaxed);
        Ok(())
    }))
}

#[unsafe(no_mangle)]
extern "C" fn rma2_get_tcs(
    port: *const Endpoint,
    handle: *const abi::Connection,
    request: Out<u32>,
    response: Out<u32>,
) -> Code {
    code(enter(port).and_then(|port| {
        let connection = of(&port, handle)?;
        response.check("place for the response's class")?;
        request.set(connection.option.traffic_class().into())?;
        response.set(body(handle)?.body.response_tc.load(Ordering::Relaxed))
    }))
}

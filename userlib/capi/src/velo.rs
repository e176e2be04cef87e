//! libvelo2: the functions to which `link/velo2.c` forwards.

use std::ffi::{c_char, c_int, c_uint, c_void};

use ggas::Address;
use ggas::velo::Message;

use crate::ffi::Out;
use crate::report;
use crate::velo_error::{
    self, ERROR, INV_MSG, INV_MTT, INVALID_MBOX, INVALID_NODE, NO_MSG, Result, Ret, SUCCESS, because, ret,
};
use crate::velo_port::{self, Body, Entered, Link, enter};

/// Marks a multicast group in an address (`VELO2_MCADDR_PACK`).
const GROUP: u32 = 1 << 28;
const GROUPS: u32 = 64;
const MAX_BYTES: usize = ggas::velo::VELO_MAX_BYTES;

/// `velo2_port_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Port {
    map: *mut Body,
}

/// `velo2_connection_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Connection {
    dest: u32,
    state_map: *mut Link,
}

/// `VELO2_ADDR_PACK`.
fn pack(Address { node, vpid }: Address) -> u32 {
    u32::from(vpid) << 16 | u32::from(node)
}

fn port(port: &Out<Port>) -> Result<Entered> {
    enter(port.get("port").map_err(|null| because(INVALID_MBOX, null))?.map)
}

fn connect(port: &Entered, node: u32, vpid: u32) -> Result<Connection> {
    let vpid = u8::try_from(vpid).map_err(|_| because(INVALID_MBOX, "VPIDs are 0 to 255"))?;
    let (number, group) = (node & !GROUP, node & GROUP != 0);
    if number >= if group { GROUPS } else { port.home.nodes } {
        let text = if group {
            "groups are 0 to 63".to_owned()
        } else {
            format!("the job has {} nodes", port.home.nodes)
        };
        return Err(because(INVALID_NODE, text));
    }
    let remote = Address::new(number as u16, vpid);
    let state_map = velo_port::connect(port, remote, group)?;
    Ok(Connection { dest: pack(remote) | node & GROUP, state_map })
}

fn send(
    connection: &Out<Connection>,
    message: *const c_void,
    length: c_uint,
    tag: u8,
    mtt: u8,
) -> Result<()> {
    let link = connection.get("connection").map_err(|null| because(INVALID_MBOX, null))?.state_map;
    let (port, remote, group) = velo_port::of(link)?;
    if mtt > 3 {
        return Err(because(INV_MTT, "types are 0 to 3"));
    }
    let length = length as usize;
    if length > MAX_BYTES || message.is_null() && length > 0 {
        return Err(because(INV_MSG, "a message is up to 120 bytes at an address that is not null"));
    }
    let bytes = match length {
        0 => &[][..],
        // SAFETY: not null, and by the interface's contract valid for reading `length` bytes.
        _ => unsafe { std::slice::from_raw_parts(message.cast::<u8>(), length) },
    };
    let to = if group { port.velo.multicast(remote.node, remote.vpid) } else { port.velo.connect(remote) };
    to.send_typed(bytes, tag, mtt).map_err(|error| velo_error::of_send(&error))
}

/// Where a received message goes. All may be null.
struct Buffer {
    bytes: *mut c_void,
    size: c_uint,
    length: Out<u32>,
    source: Out<u32>,
    tag: Out<u8>,
    mtt: Out<u8>,
}

impl Buffer {
    /// Refused before a message is taken for it.
    fn check(&self) -> Result<()> {
        if self.bytes.is_null() && self.size > 0 {
            return Err(because(ERROR, "the buffer is null"));
        }
        Ok(())
    }

    fn put(&self, message: &Message) -> Result<()> {
        let bytes = message.bytes();
        let fits = bytes.len().min(self.size as usize);
        if fits > 0 {
            // SAFETY: not null, and by the interface's contract valid for writing `size` bytes.
            unsafe { self.bytes.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), fits) };
        }
        self.length.set_if_wanted(bytes.len() as u32);
        self.source.set_if_wanted(pack(message.source()));
        self.tag.set_if_wanted(message.tag());
        self.mtt.set_if_wanted(message.mtt());
        if message.is_damaged() {
            return Err(because(ERROR, "the message was damaged on its way"));
        }
        if fits < bytes.len() {
            return Err(because(
                INV_MSG,
                format!("{} bytes came, the buffer has {}", bytes.len(), self.size),
            ));
        }
        Ok(())
    }
}

#[unsafe(no_mangle)]
extern "C" fn rma2_velo2_open(port: Out<Port>) -> Ret {
    ret(port.check("place for the port").map_err(|null| because(ERROR, null)).and_then(|()| {
        let opened = velo_port::open();
        if let Err(why) = &opened {
            report::not_opened("libvelo2", why.0, &velo_error::text(*why));
        }
        // Closed where it does not open: whatever stood there is no port.
        port.set_if_wanted(Port { map: *opened.as_ref().unwrap_or(&std::ptr::null_mut()) });
        opened.map(|_| ())
    }))
}

#[unsafe(no_mangle)]
extern "C" fn rma2_velo2_close(port: Out<Port>) -> Ret {
    ret(port.get("port").map_err(|null| because(INVALID_MBOX, null)).and_then(|Port { map }| {
        let closed = velo_port::close(map);
        if closed != Err(INVALID_MBOX) {
            port.set_if_wanted(Port { map: std::ptr::null_mut() });
        }
        closed
    }))
}

#[unsafe(no_mangle)]
extern "C" fn rma2_velo2_get_nodeid(at: Out<Port>) -> u32 {
    port(&at).map_or(0, |port| port.velo.address().node.into())
}

#[unsafe(no_mangle)]
extern "C" fn rma2_velo2_get_vpid(at: Out<Port>) -> u32 {
    port(&at).map_or(0, |port| port.velo.address().vpid.into())
}

#[unsafe(no_mangle)]
extern "C" fn rma2_velo2_connect(at: Out<Port>, connection: Out<Connection>, node: u32, vpid: u32) -> Ret {
    ret(port(&at).and_then(|port| {
        connection.check("place for the connection").map_err(|null| because(ERROR, null))?;
        connection.set_if_wanted(connect(&port, node, vpid)?);
        Ok(())
    }))
}

#[unsafe(no_mangle)]
extern "C" fn rma2_velo2_disconnect(at: Out<Port>, connection: Out<Connection>) -> Ret {
    ret(port(&at).and_then(|port| {
        velo_port::disconnect(
            &port,
            connection.get("connection").map_err(|null| because(INVALID_MBOX, null))?.state_map,
        )?;
        connection.set_if_wanted(Connection { dest: 0, state_map: std::ptr::null_mut() });
        Ok(())
    }))
}

#[unsafe(no_mangle)]
extern "C" fn rma2_velo2_send(
    connection: Out<Connection>,
    message: *const c_void,
    length: c_uint,
    tag: u8,
    mtt: u8,
) -> Ret {
    ret(send(&connection, message, length, tag, mtt))
}

#[unsafe(no_mangle)]
extern "C" fn rma2_velo2_recv(
    at: Out<Port>,
    bytes: *mut c_void,
    size: c_uint,
    length: Out<u32>,
    source: Out<u32>,
    tag: Out<u8>,
    mtt: Out<u8>,
) -> Ret {
    let buffer = Buffer { bytes, size, length, source, tag, mtt };
    ret(port(&at).and_then(|port| {
        buffer.check()?;
        let message = port.velo.wait(port.home.timeouts.wait);
        buffer.put(&message.map_err(|error| velo_error::of_receive(&error))?)
    }))
}

#[unsafe(no_mangle)]
extern "C" fn rma2_velo2_probe_recv(
    at: Out<Port>,
    bytes: *mut c_void,
    size: c_uint,
    length: Out<u32>,
    source: Out<u32>,
    tag: Out<u8>,
    mtt: Out<u8>,
) -> Ret {
    let buffer = Buffer { bytes, size, length, source, tag, mtt };
    ret(port(&at).and_then(|port| {
        buffer.check()?;
        buffer.put(&port.velo.poll().ok_or(NO_MSG)?)
    }))
}

#[unsafe(no_mangle)]
extern "C" fn rma2_velo2_serror(result: Ret, buf: *mut c_char, buflen: c_int) {
    crate::error::print(&velo_error::text(result), buf, buflen);
}

const _: () = assert!(SUCCESS.0 == 0 && size_of::<Port>() == 8 && size_of::<Connection>() == 16);

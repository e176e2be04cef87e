//! VELO ports and connections as handles: the members `map` and `state_map` of libvelo2's structures.

use std::collections::HashSet;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use ggas::velo::VeloPort;
use ggas::{Address, VeloConfig};

use crate::node::{self, Home};
use crate::open::{self, NotClosed, Ports, made};
use crate::port::lock;
use crate::settings;
use crate::slab::Slab;
use crate::velo_error::{ERROR, INVALID_MBOX, Result, because, of_node, of_open};

/// Bytes of the ranges that handles lie in.
const PORT_RANGE: usize = 256 << 20;
const LINK_RANGE: usize = 1 << 30;
/// Longest wait for room: less than the card's timeout, after which a mailbox that nobody reads loses messages.
const SEND: Duration = Duration::from_secs(1);

static PORTS: Ports<(), Inner> = Ports::new(PORT_RANGE);
static LINKS: OnceLock<Slab<Link>> = OnceLock::new();
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// An open port.
pub(crate) struct Inner {
    pub(crate) velo: VeloPort,
    pub(crate) home: &'static Home,
    /// Unlike VPIDs, never used again.
    id: u64,
    /// Handles of its connections, which end with it.
    links: Mutex<HashSet<usize>>,
}

/// What stands at a connection's handle.
pub(crate) struct Link {
    /// Handle and id of the port.
    port: AtomicPtr<Body>,
    id: AtomicU64,
    /// Group << 24 | node << 8 | VPID.
    remote: AtomicU32,
}

/// What stands at a port's handle.
pub(crate) type Body = open::Body<(), Inner>;
/// A call on a port.
pub(crate) type Entered = open::Entered<(), Inner>;

/// The open port that `handle` is.
#[inline]
pub(crate) fn enter(handle: *const Body) -> Result<Entered> {
    PORTS.enter(handle).ok_or(INVALID_MBOX)
}

pub(crate) fn open() -> Result<*mut Body> {
    let home = node::home().map_err(of_node)?;
    let slots = settings::mailbox_slots().map_err(|text| because(ERROR, text))?;
    let config = VeloConfig { slots, send_timeout: home.timeouts.post.min(SEND), ..VeloConfig::default() };
    let velo = VeloPort::open(home.node.device(), config).map_err(|error| of_open(&error))?;
    let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
    PORTS.insert((), Inner { velo, home, id, links: Mutex::default() }).map_err(|error| because(ERROR, error))
}

pub(crate) fn close(handle: *const Body) -> Result<()> {
    let closed = PORTS.close(handle, |port| {
        for link in lock(&port.links).drain() {
            LINKS.get().map(|links| links.remove(link as *const Link));
        }
        (port.velo.shut().map_err(|error| of_open(&error)), Duration::ZERO)
    });
    closed.unwrap_or_else(|why| match why {
        NotClosed::Unknown => Err(INVALID_MBOX),
        NotClosed::InUse => {
            Err(because(ERROR, "calls on the port do not return: it is closed, its memory is kept"))
        }
    })
}

pub(crate) fn connect(port: &Entered, remote: Address, group: bool) -> Result<*mut Link> {
    let word = u32::from(group) << 24 | u32::from(remote.node) << 8 | u32::from(remote.vpid);
    let link = Link {
        port: AtomicPtr::new(port.handle()),
        id: AtomicU64::new(port.id),
        remote: AtomicU32::new(word),
    };
    let mut links = lock(&port.links);
    let handle =
        made(&LINKS, LINK_RANGE).map_err(|error| because(ERROR, error))?.insert(link).ok_or(ERROR)?;
    links.insert(handle as usize);
    Ok(handle)
}

pub(crate) fn disconnect(port: &Entered, handle: *const Link) -> Result<()> {
    // In the port's list, so live and its own; never followed.
    if !lock(&port.links).remove(&(handle as usize)) {
        return Err(INVALID_MBOX);
    }
    LINKS.get().map(|links| links.remove(handle));
    Ok(())
}

/// The port of a live connection, where it leads, and whether that is a group.
#[inline]
pub(crate) fn of(handle: *const Link) -> Result<(Entered, Address, bool)> {
    let place = LINKS.get().and_then(|links| links.get(handle)).ok_or(INVALID_MBOX)?;
    let Link { port, id, remote } = &place.body;
    let (port, id) = (port.load(Ordering::Relaxed), id.load(Ordering::Relaxed));
    let remote = remote.load(Ordering::Acquire);
    let port = enter(port)?;
    // A place that was given up meanwhile reads as zeroes.
    if port.id != id || !place.is_live() {
        return Err(INVALID_MBOX);
    }
    Ok((port, Address::new((remote >> 8) as u16, remote as u8), remote >> 24 != 0))
}

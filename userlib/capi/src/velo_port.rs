//! VELO ports and connections as handles: what `map` and `state_map` of libvelo2's structures are.

use std::collections::HashSet;
use std::ops::Deref;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use ggas::velo::VeloPort;
use ggas::{Address, VeloConfig};

use crate::node::{self, Home};
use crate::port::lock;
use crate::settings;
use crate::slab::{Place, Slab};
use crate::velo_error::{ERROR, INVALID_MBOX, Result, because, of_node, of_open};

/// Bytes of the ranges that handles lie in.
const PORT_RANGE: usize = 256 << 20;
const LINK_RANGE: usize = 1 << 30;
/// Longest wait for room: less than the card's timeout, after which a mailbox that nobody reads loses messages.
const SEND: Duration = Duration::from_secs(1);
/// How long a close waits for calls on the port to return; they are told that it is closed.
const LEAVE: Duration = Duration::from_secs(10);

static PORTS: OnceLock<Slab<Body>> = OnceLock::new();
static LINKS: OnceLock<Slab<Link>> = OnceLock::new();
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// What stands at a port's handle.
pub(crate) struct Body {
    inner: AtomicPtr<Inner>,
    /// Calls that are on the port now.
    users: AtomicU32,
}

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

/// A call on a port: it stays while the call lasts.
pub(crate) struct Entered {
    place: &'static Place<Body>,
    inner: *const Inner,
}

impl Deref for Entered {
    type Target = Inner;

    #[inline]
    fn deref(&self) -> &Inner {
        // SAFETY: counted as a user, so the port is not taken apart.
        unsafe { &*self.inner }
    }
}

impl Drop for Entered {
    #[inline]
    fn drop(&mut self) {
        self.place.body.users.fetch_sub(1, Ordering::Release);
    }
}

/// The open port that `handle` is.
#[inline]
pub(crate) fn enter(handle: *const Body) -> Result<Entered> {
    let place = PORTS.get().and_then(|ports| ports.get(handle)).ok_or(INVALID_MBOX)?;
    place.body.users.fetch_add(1, Ordering::SeqCst);
    let entered = Entered { place, inner: place.body.inner.load(Ordering::Acquire) };
    // Whoever closes makes the place leave first and then waits for users, so one of the two sees the other.
    if place.is_live() { Ok(entered) } else { Err(INVALID_MBOX) }
}

/// The slab, made when first used.
fn made<T>(slab: &'static OnceLock<Slab<T>>, range: usize) -> Result<&'static Slab<T>> {
    if let Some(slab) = slab.get() {
        return Ok(slab);
    }
    let new = Slab::new(range).map_err(|error| because(ERROR, error))?;
    Ok(slab.get_or_init(|| new))
}

pub(crate) fn open() -> Result<*mut Body> {
    let ports = made(&PORTS, PORT_RANGE)?;
    let home = node::home().map_err(of_node)?;
    let slots = settings::mailbox_slots().map_err(|text| because(ERROR, text))?;
    let config = VeloConfig { slots, send_timeout: home.timeouts.post.min(SEND), ..VeloConfig::default() };
    let velo = VeloPort::open(home.node.device(), config).map_err(|error| of_open(&error))?;
    let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
    let inner = Box::into_raw(Box::new(Inner { velo, home, id, links: Mutex::default() }));
    ports.insert(Body { inner: AtomicPtr::new(inner), users: AtomicU32::new(0) }).ok_or_else(|| {
        // SAFETY: made above, and nobody else knows it.
        drop(unsafe { Box::from_raw(inner) });
        because(ERROR, "too many open ports")
    })
}

pub(crate) fn close(handle: *const Body) -> Result<()> {
    let ports = PORTS.get().ok_or(INVALID_MBOX)?;
    let place = ports.leave(handle).ok_or(INVALID_MBOX)?;
    let inner = place.body.inner.load(Ordering::Acquire);
    // SAFETY: only who made the place leave takes the port apart.
    let port = unsafe { &*inner };
    for link in lock(&port.links).drain() {
        LINKS.get().map(|links| links.remove(link as *const Link));
    }
    let closed = port.velo.shut().map_err(|error| of_open(&error));
    let end = Instant::now() + LEAVE;
    while place.body.users.load(Ordering::SeqCst) > 0 {
        if Instant::now() > end {
            return Err(because(ERROR, "calls on the port do not return: it is closed, its memory is kept"));
        }
        std::thread::sleep(Duration::from_micros(50));
    }
    // SAFETY: made by `open`; no user is left, and none can come.
    drop(unsafe { Box::from_raw(inner) });
    ports.give_up(place);
    closed
}

pub(crate) fn connect(port: &Entered, remote: Address, group: bool) -> Result<*mut Link> {
    let word = u32::from(group) << 24 | u32::from(remote.node) << 8 | u32::from(remote.vpid);
    let link = Link {
        port: AtomicPtr::new(std::ptr::from_ref(port.place).cast_mut().cast()),
        id: AtomicU64::new(port.id),
        remote: AtomicU32::new(word),
    };
    let mut links = lock(&port.links);
    let handle = made(&LINKS, LINK_RANGE)?.insert(link).ok_or(ERROR)?;
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

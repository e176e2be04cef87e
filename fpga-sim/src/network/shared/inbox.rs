//! The inbox: shared memory of one process in which the others leave packets for it.
//!
//! It begins with the doorbell. Then comes a *lane* for each sender: what both sides tell each other, and for each
//! class a ring of 64-byte entries and one of payload bytes. Both rings have one producer (the sender) and one
//! consumer (the inbox's owner). An entry is valid when its first word carries the lap of its position, so that the
//! consumer looks at the entry alone, and a small put is one cache line.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use ggas_members::memory::{self, Mapping, PAGE, SegmentError};
use ggas_members::{NetworkShape, PROCESSES_MAX, Shape};

use crate::packet::Class;

const MAGIC: u64 = 0x4558_5449_4e42_3032;
const WHAT: &str = "an inbox";
const DOORBELL: usize = 64;
/// References that a sender may have with one receiver at a time.
pub(super) const HOLDS: usize = 64;
/// Most bytes that travel in a ring.
const BYTES_MAX: usize = crate::memory::WRITE_MAX;

/// [`Doorbell::mode`]: the owner looks for packets by itself.
pub(super) const AWAKE: u32 = 0;
/// The owner sleeps until it is told.
pub(super) const ASLEEP: u32 = 1;
/// The owner was told, and has not looked yet.
pub(super) const CALLED: u32 = 2;

#[repr(C)]
struct Header {
    magic: AtomicU64,
    members: AtomicU32,
}

/// What senders look at after each packet; hardly ever written, so every sender's cache keeps it.
#[repr(C, align(64))]
pub(super) struct Doorbell {
    /// Futex.
    pub mode: AtomicU32,
    /// A bit for each sender: the owner knows that its lane wants attention.
    pub news: [AtomicU64; PROCESSES_MAX as usize / 64],
}

/// A cache line of its own.
#[repr(C, align(64))]
#[derive(Default)]
pub(super) struct Line<T>(pub T);

/// How much of a class's rings the receiver has taken, in all: the sender's credits.
#[repr(C)]
#[derive(Default)]
pub(super) struct Taken {
    pub entries: AtomicU64,
    pub bytes: AtomicU64,
}

/// What both ends of a lane tell each other.
#[repr(C)]
pub(super) struct Control {
    /// Written by the receiver.
    pub taken: [Line<Taken>; 2],
    /// Set by a sender that found no room, cleared by the receiver that then rings back.
    pub starved: Line<AtomicU32>,
    /// Counted up by the sender: "look at `returned`, try again to send, see whether I am still there".
    pub looks: Line<AtomicU32>,
    /// References that the sender got from the inbox's owner and needs no more: their generations, by hold.
    pub returned: [AtomicU32; HOLDS],
}

/// One entry of a ring.
#[repr(C, align(64))]
pub(super) struct Slot(pub [AtomicU64; 8]);

/// Sizes of the rings, and where they lie: the same for every inbox of a network.
#[derive(Clone, Copy, Debug)]
pub(super) struct Geometry {
    /// Entries of a ring, a power of two.
    pub entries: usize,
    /// Payload bytes of a ring, a power of two.
    pub bytes: usize,
    members: usize,
}

const CONTROL: usize = size_of::<Control>().next_multiple_of(64);

impl Geometry {
    /// In a job all may talk to all; a network that stands by itself has room for many, few of whom talk to each other.
    pub fn new(shape: &NetworkShape) -> Geometry {
        let members = shape.members() as usize;
        let (entries, bytes) = match shape.ranks().map(Shape::processes) {
            None if members <= 256 => (256, 64 << 10),
            Some(0..=16) => (256, 64 << 10),
            Some(17..=64) => (128, 16 << 10),
            _ => (64, 8 << 10),
        };
        Geometry { entries, bytes, members }
    }

    /// Most payload bytes of an entry: a full ring has at least four.
    pub fn most(&self) -> usize {
        BYTES_MAX.min(self.bytes / 4)
    }

    fn lane_bytes(&self) -> usize {
        (CONTROL + 2 * (self.entries * size_of::<Slot>() + self.bytes)).next_multiple_of(PAGE)
    }

    fn lane(&self, sender: u32) -> usize {
        PAGE + sender as usize * self.lane_bytes()
    }

    fn inbox_bytes(&self) -> u64 {
        self.lane(self.members as u32) as u64
    }

    fn slots(&self, class: Class) -> usize {
        CONTROL + class as usize * self.entries * size_of::<Slot>()
    }

    fn data(&self, class: Class) -> usize {
        CONTROL + 2 * self.entries * size_of::<Slot>() + class as usize * self.bytes
    }
}

/// Shared memory of one process: its doorbell, and a lane for every sender.
pub struct Inbox {
    fd: OwnedFd,
    map: Mapping,
    geometry: Geometry,
}

impl Inbox {
    /// An empty inbox for a member of such a network.
    ///
    /// # Errors
    /// No memory, or no file descriptor.
    pub fn create(shape: &NetworkShape) -> io::Result<Inbox> {
        let geometry = Geometry::new(shape);
        let fd = memory::create(c"extoll-inbox", geometry.inbox_bytes())?;
        let map = Mapping::new(fd.as_fd(), 0, geometry.inbox_bytes() as usize, true)?;
        // SAFETY: atomics only.
        let header: &Header = unsafe { map.at(0) };
        header.members.store(shape.members(), Ordering::Relaxed);
        header.magic.store(MAGIC, Ordering::Release);
        Ok(Inbox { fd, map, geometry })
    }

    /// The memfd, to hand to peers.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(super) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    #[inline]
    pub(super) fn doorbell(&self) -> &Doorbell {
        // SAFETY: atomics only.
        unsafe { self.map.at(DOORBELL) }
    }

    /// Makes a lane as new, whose sender is gone and from which all was taken.
    pub(super) fn clear(&self, sender: u32) {
        let (at, bytes) = (self.geometry.lane(sender), self.geometry.lane_bytes());
        // SAFETY: whole pages of our own shared mapping; whoever still had them mapped is gone.
        let start = unsafe { self.map.base().add(at) };
        // SAFETY: as above.
        if unsafe { libc::madvise(start.cast(), bytes, libc::MADV_REMOVE) } != 0 {
            // SAFETY: as above.
            unsafe { std::ptr::write_bytes(start, 0, bytes) };
        }
    }

    /// The lane of a sender, by its slot.
    #[inline]
    pub(super) fn lane(&self, sender: u32) -> Lane<'_> {
        Lane { map: &self.map, at: self.geometry.lane(sender), geometry: &self.geometry }
    }
}

/// A peer's inbox, as far as this process may write there.
pub(super) struct Outbox {
    head: Mapping,
    lane: Mapping,
    geometry: Geometry,
}

/// Sizes of a sealed inbox of a member of such a network.
fn sized(fd: BorrowedFd<'_>, shape: &NetworkShape) -> Result<Geometry, SegmentError> {
    let geometry = Geometry::new(shape);
    if memory::sealed_len(fd, WHAT)? != geometry.inbox_bytes() {
        return Err(SegmentError::Mismatch { what: WHAT, detail: "its size" });
    }
    Ok(geometry)
}

impl Outbox {
    /// Maps what `sender` needs of a peer's inbox.
    pub fn map(fd: BorrowedFd<'_>, shape: &NetworkShape, sender: u32) -> Result<Outbox, SegmentError> {
        let geometry = sized(fd, shape)?;
        let map = |offset, len| {
            Mapping::new(fd, offset, len, true).map_err(|source| SegmentError::Map { what: WHAT, source })
        };
        let head = map(0, PAGE)?;
        // SAFETY: atomics only.
        let header: &Header = unsafe { head.at(0) };
        let fits = header.magic.load(Ordering::Acquire) == MAGIC
            && header.members.load(Ordering::Relaxed) == shape.members();
        if !fits {
            return Err(SegmentError::Mismatch { what: WHAT, detail: "its version" });
        }
        let lane = map(geometry.lane(sender) as u64, geometry.lane_bytes())?;
        Ok(Outbox { head, lane, geometry })
    }

    #[inline]
    pub fn doorbell(&self) -> &Doorbell {
        // SAFETY: atomics only.
        unsafe { self.head.at(DOORBELL) }
    }

    #[inline]
    pub fn lane(&self) -> Lane<'_> {
        Lane { map: &self.lane, at: 0, geometry: &self.geometry }
    }
}

/// The rings from one sender to one receiver.
#[derive(Clone, Copy)]
pub(super) struct Lane<'a> {
    map: &'a Mapping,
    at: usize,
    geometry: &'a Geometry,
}

impl<'a> Lane<'a> {
    #[inline]
    pub fn control(self) -> &'a Control {
        // SAFETY: atomics only.
        unsafe { self.map.at(self.at) }
    }

    /// The entry at a position of the ring.
    #[inline]
    pub fn slot(self, class: Class, position: u64) -> &'a Slot {
        let index = position as usize & (self.geometry.entries - 1);
        // SAFETY: atomics only.
        unsafe { self.map.at(self.at + self.geometry.slots(class) + index * size_of::<Slot>()) }
    }

    /// First of `len` payload bytes, at most [`Geometry::most`], at a position of the ring that leaves them in one
    /// piece (see [`fit`]).
    #[inline]
    pub fn data(self, class: Class, position: u64, len: usize) -> *mut u8 {
        let at = position as usize & (self.geometry.bytes - 1);
        assert!(at + len <= self.geometry.bytes);
        // SAFETY: inside the lane.
        unsafe { self.map.base().add(self.at + self.geometry.data(class) + at) }
    }
}

/// The lap that an entry at a position carries: never that of the one which was there before.
#[inline]
pub(super) fn lap(geometry: &Geometry, position: u64) -> u32 {
    ((position >> geometry.entries.trailing_zeros()) as u32).wrapping_add(1)
}

/// Where `len` payload bytes go that come after `position`: in one piece, on a cache line of their own. Returns the
/// first position and the one behind.
#[inline]
pub(super) fn fit(geometry: &Geometry, position: u64, len: usize) -> (u64, u64) {
    let size = geometry.bytes as u64;
    let within = position & (size - 1);
    let start = if within + len as u64 > size { position - within + size } else { position };
    (start, start + (len as u64).next_multiple_of(64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_lie_apart_and_inside() {
        let job = |processes| NetworkShape::of_job(Shape::new(processes, 1).unwrap());
        for shape in [job(2), job(64), job(1024), NetworkShape::default()] {
            let geometry = Geometry::new(&shape);
            let ends = [
                (geometry.slots(Class::Request), geometry.entries * 64),
                (geometry.slots(Class::Response), geometry.entries * 64),
                (geometry.data(Class::Request), geometry.bytes),
                (geometry.data(Class::Response), geometry.bytes),
            ];
            let mut at = size_of::<Control>();
            for (start, len) in ends {
                assert!(start >= at && start.is_multiple_of(64));
                at = start + len;
            }
            assert!(at <= geometry.lane_bytes());
            assert!(geometry.most() * 4 <= geometry.bytes);
        }
    }

    #[test]
    fn payloads_stay_in_one_piece() {
        let geometry = Geometry::new(&NetworkShape::default());
        let mut position = 0;
        for len in (1..=geometry.most()).cycle().step_by(97).take(5000) {
            let (start, end) = fit(&geometry, position, len);
            assert!(start >= position && start.is_multiple_of(64) && end - start >= len as u64);
            assert!(start as usize % geometry.bytes + len <= geometry.bytes);
            assert!(end - position < geometry.most() as u64 * 2 + 64);
            position = end;
        }
    }
}

//! The receiving end of a lane: what takes from a peer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

use ggas_members::memory::Mapping;

use super::codec::{self, Form, Malformed, Rules};
use super::holds;
use super::inbox::{HOLDS, Inbox, Lane, fit, lap};
use super::peer::{PeerArena, Remote};
use crate::memory::Foreign;
use crate::packet::{Class, Packet, Payload};

/// Why a packet was not taken.
pub(super) enum Untaken {
    /// It breaks the rules.
    Malformed,
    /// It lies in memory that its sender has not given yet.
    Early,
}

impl From<Malformed> for Untaken {
    fn from(_: Malformed) -> Untaken {
        Untaken::Malformed
    }
}

/// The receiving end of a lane: from whichever process has the slot. One thread at a time takes; others may look.
pub(super) struct Incoming {
    slot: u32,
    rings: [Position; 2],
    looks: AtomicU32,
    ignored: AtomicBool,
}

#[derive(Default)]
struct Position {
    entries: AtomicU64,
    bytes: AtomicU64,
}

impl Incoming {
    pub fn new(slot: u32) -> Incoming {
        Incoming {
            slot,
            rings: Default::default(),
            looks: AtomicU32::new(0),
            ignored: AtomicBool::new(false),
        }
    }

    /// Makes the lane as new, for another process. Only by the thread that takes.
    pub fn clear(&self, inbox: &Inbox) {
        inbox.clear(self.slot);
        for ring in &self.rings {
            ring.entries.store(0, Ordering::Relaxed);
            ring.bytes.store(0, Ordering::Relaxed);
        }
        self.looks.store(0, Ordering::Relaxed);
        self.ignored.store(false, Ordering::Release);
    }

    /// Takes nothing any more.
    pub fn ignore(&self) {
        self.ignored.store(true, Ordering::Release);
    }

    pub fn is_ignored(&self) -> bool {
        self.ignored.load(Ordering::Acquire)
    }

    /// Whether the lane wants attention.
    #[inline]
    pub fn has_news(&self, inbox: &Inbox) -> bool {
        let lane = inbox.lane(self.slot);
        let looks = lane.control().looks.0.load(Ordering::Relaxed);
        (self.has_packet(inbox, lane, Class::Request)
            || self.has_packet(inbox, lane, Class::Response)
            || looks != self.looks.load(Ordering::Relaxed))
            && !self.is_ignored()
    }

    /// Whether packets wait.
    pub fn has_packets(&self, inbox: &Inbox) -> bool {
        let lane = inbox.lane(self.slot);
        let waits = |class| self.has_packet(inbox, lane, class);
        !self.is_ignored() && (waits(Class::Request) || waits(Class::Response))
    }

    #[inline]
    fn has_packet(&self, inbox: &Inbox, lane: Lane<'_>, class: Class) -> bool {
        let next = self.rings[class as usize].entries.load(Ordering::Relaxed);
        lane.slot(class, next).0[0].load(Ordering::Acquire) as u32 == lap(inbox.geometry(), next)
    }

    /// Whether the sender asked to be looked at since the last time.
    #[inline]
    pub fn take_look(&self, inbox: &Inbox) -> bool {
        let looks = inbox.lane(self.slot).control().looks.0.load(Ordering::Acquire);
        let new = looks != self.looks.load(Ordering::Relaxed);
        if new {
            self.looks.store(looks, Ordering::Relaxed);
        }
        new
    }

    /// Takes the next packet of a class.
    #[inline]
    pub fn take(
        &self,
        inbox: &Inbox,
        rules: &Rules,
        peer: impl Fn() -> Option<(Arc<PeerArena>, Arc<Remote>)>,
    ) -> Result<Option<Packet>, Untaken> {
        let (geometry, class, lane) = (inbox.geometry(), rules.class, inbox.lane(self.slot));
        let at = &self.rings[class as usize];
        let entry = at.entries.load(Ordering::Relaxed);
        let slot = &lane.slot(class, entry).0;
        let first = slot[0].load(Ordering::Acquire);
        if first as u32 != lap(geometry, entry) || self.is_ignored() {
            return Ok(None);
        }
        let mut words = [first; 8];
        for (word, from) in words.iter_mut().zip(slot).skip(1) {
            *word = from.load(Ordering::Relaxed);
        }
        let (mut packet, form) = codec::decode(&words, rules)?;
        let before = at.bytes.load(Ordering::Relaxed);
        let mut bytes = before;
        match form {
            Form::None | Form::Word(..) => {}
            Form::Ring(len) => {
                let (start, end) = fit(geometry, before, len as usize);
                packet.payload = copy_out(lane, class, start, len as usize);
                bytes = end;
                at.bytes.store(bytes, Ordering::Relaxed);
            }
            Form::Arena { hold, offset } => {
                let (arena, remote) = peer().ok_or(Untaken::Early)?;
                packet.payload = borrow((&arena, &remote), hold, offset, packet.len as usize)?;
            }
        }
        at.entries.store(entry + 1, Ordering::Relaxed);
        let taken = &lane.control().taken[class as usize].0;
        taken.bytes.store(bytes, Ordering::Release);
        taken.entries.store(entry + 1, Ordering::Release);
        let passes = |size: usize, from: u64, to: u64| {
            let quarter = size.trailing_zeros() - 2;
            from >> quarter != to >> quarter
        };
        if passes(geometry.entries, entry, entry + 1) || passes(geometry.bytes, before, bytes) {
            // A sender that found the rings full sees at least one such mark passed after it asked.
            fence(Ordering::SeqCst);
            // One that has not answered yet is rung when it has.
            if lane.control().starved.0.load(Ordering::Relaxed) != 0
                && let Some((_, remote)) = peer()
            {
                ring_back(lane, &remote);
            }
        }
        Ok(Some(packet))
    }
}

/// Tells a sender that found no room that there is some.
pub(super) fn ring_back(lane: Lane<'_>, remote: &Remote) {
    if lane.control().starved.0.swap(0, Ordering::SeqCst) != 0 {
        remote.look();
    }
}

/// A payload out of the ring of bytes, copied once: the sender may change it at any time.
pub(super) fn copy_out(lane: Lane<'_>, class: Class, start: u64, len: usize) -> Payload {
    let from = lane.data(class, start, len);
    if len <= crate::packet::INLINE_MAX {
        let mut bytes = [0; crate::packet::INLINE_MAX];
        // SAFETY: `len` mapped bytes, and as many of ours.
        unsafe { std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), len) };
        return Payload::Inline { len: len as u8, bytes };
    }
    let mut bytes: Vec<u8> = Vec::with_capacity(len);
    // SAFETY: `len` mapped bytes, and as many of ours, which are initialised by this.
    unsafe {
        std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), len);
        bytes.set_len(len);
    }
    Payload::Bytes(bytes.into_boxed_slice())
}

/// A payload in the sender's arena, which returns itself when it is dropped.
fn borrow(
    (arena, remote): (&PeerArena, &Arc<Remote>),
    hold: u32,
    offset: u64,
    len: usize,
) -> Result<Payload, Malformed> {
    let (hold, generation) = holds::named(hold);
    if hold >= HOLDS {
        return Err(Malformed);
    }
    let loan = Loan { mapping: arena.reach(offset, len)?, remote: remote.clone(), hold, generation };
    let Some((map, within)) = &loan.mapping else {
        return Ok(Payload::None); // the completer reports what is missing
    };
    // SAFETY: `reach` checked that the bytes lie inside the mapping, which the loan keeps.
    let address = unsafe { map.base().add(*within) };
    // SAFETY: as above.
    Ok(Payload::Foreign(unsafe { Foreign::new(address, len, Arc::new(loan)) }))
}

/// Memory of a peer that this process reads.
struct Loan {
    mapping: Option<(Arc<Mapping>, usize)>,
    remote: Arc<Remote>,
    hold: usize,
    generation: u32,
}

impl Drop for Loan {
    fn drop(&mut self) {
        let control = self.remote.outbox.lane().control();
        control.returned[self.hold].store(self.generation, Ordering::Release);
        self.remote.look();
    }
}

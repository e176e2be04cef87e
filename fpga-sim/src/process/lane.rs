//! Both ends of a lane: what sends to a peer, and what takes from one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

use super::arena::Arena;
use super::codec::{self, Form, IN_ENTRY, Malformed, Rules};
use super::inbox::{Geometry, HOLDS, Inbox, Lane, fit, lap};
use super::peer::{PeerArena, Remote};
use super::spin::Spin;
use crate::memory::{Foreign, copy_streaming};
use crate::packet::{Class, Packet, Payload};

/// Why a packet did not go.
pub(super) enum Refused {
    /// No room now; the peer rings when there is.
    Full(Packet),
    /// It never will: the peer is gone, or the payload cannot travel to another process.
    Never(Packet),
}

/// The sending end of a lane.
pub(super) struct Outgoing {
    geometry: Geometry,
    remote: Arc<Remote>,
    state: Spin<Producer>,
}

#[derive(Default)]
struct Ring {
    /// Positions behind what was sent.
    entries: u64,
    bytes: u64,
    /// What the receiver was last seen to have taken.
    entries_taken: u64,
    bytes_taken: u64,
}

struct Producer {
    rings: [Ring; 2],
    /// Payloads that the peer may still read.
    held: [Option<Payload>; HOLDS],
    generations: [u32; HOLDS],
    /// Holds in use.
    used: u64,
    /// The peer takes no more.
    gone: bool,
}

/// Generations have 24 bits: an entry names hold and generation in one word of 32.
const HOLD_BITS: u32 = 8;
const GENERATION_MAX: u32 = (1 << 24) - 1;

impl Outgoing {
    pub fn new(geometry: Geometry, remote: Arc<Remote>) -> Outgoing {
        let producer = Producer {
            rings: Default::default(),
            held: [const { None }; HOLDS],
            generations: [0; HOLDS],
            used: 0,
            gone: false,
        };
        Outgoing { geometry, remote, state: Spin::new(producer) }
    }

    pub fn remote(&self) -> &Arc<Remote> {
        &self.remote
    }

    /// Puts a packet into its ring, and tells the peer. Returns how many bytes went as a reference.
    #[allow(clippy::result_large_err, reason = "as `Fabric::send`")]
    pub fn send(&self, arena: &Arena, mut packet: Packet) -> Result<usize, Refused> {
        let lane = self.remote.outbox.lane();
        let mut producer = self.state.lock();
        if producer.gone {
            return Err(Refused::Never(packet));
        }
        let class = packet.class();
        let ring = &mut producer.rings[class as usize];
        let mut referenced = 0;
        let form = match &packet.payload {
            Payload::None => Form::None,
            Payload::Staged(staged) => Form::Arena { hold: 0, offset: staged.offset() },
            Payload::Direct(direct) if direct.more.is_empty() && direct.first.len == packet.len => {
                match arena.offset_of(direct.first.address, packet.len as usize) {
                    Some(offset) => Form::Arena { hold: 0, offset },
                    None => return Err(Refused::Never(packet)),
                }
            }
            payload => match payload.bytes() {
                Some(bytes) if bytes.len() <= IN_ENTRY => Form::Word(bytes.len() as u32, word_of(bytes)),
                Some(bytes) if bytes.len() <= self.geometry.most() => Form::Ring(bytes.len() as u32),
                _ => return Err(Refused::Never(packet)),
            },
        };
        let bytes = if let Form::Ring(len) = form { len as usize } else { 0 };
        if !ring.make_room(&self.geometry, lane, class, bytes) {
            return Err(Refused::Full(packet));
        }
        let entry = ring.entries;
        let form = match form {
            Form::Ring(len) => {
                let (start, end) = fit(&self.geometry, ring.bytes, bytes);
                let to = lane.data(class, start, bytes);
                let from = packet.payload.bytes().unwrap_or(&[]);
                // SAFETY: `bytes` bytes of the ring that the receiver has done with; `from` is as long.
                unsafe { copy_streaming(to, from.as_ptr(), bytes) };
                ring.bytes = end;
                Form::Ring(len)
            }
            Form::Arena { offset, .. } => {
                referenced = packet.len as usize;
                let Some(hold) = producer.hold(&mut packet.payload) else {
                    return Err(Refused::Full(packet));
                };
                Form::Arena { hold, offset }
            }
            form => form,
        };
        let words = codec::encode(&packet, lap(&self.geometry, entry), form);
        let slot = &lane.slot(class, entry).0;
        for (word, to) in words.iter().zip(slot).skip(1) {
            to.store(*word, Ordering::Relaxed);
        }
        slot[0].store(words[0], Ordering::Release);
        producer.rings[class as usize].entries = entry + 1;
        drop(producer);
        self.remote.ring();
        Ok(referenced)
    }

    /// Lets go of payloads that the peer has returned.
    pub fn collect(&self, inbox: Lane<'_>) {
        let returned = &inbox.control().returned;
        let mut free: Vec<Payload> = Vec::new();
        let mut producer = self.state.lock();
        let mut used = producer.used;
        while used != 0 {
            let hold = used.trailing_zeros() as usize;
            used &= used - 1;
            if returned[hold].load(Ordering::Acquire) == producer.generations[hold] {
                producer.used &= !(1 << hold);
                free.extend(producer.held[hold].take());
            }
        }
        drop(producer);
        // Not under the lock: this wakes whoever waits for it.
        drop(free);
    }

    /// Whether the peer may read any payload.
    pub fn is_held(&self) -> bool {
        self.state.lock().used != 0
    }

    /// Sends no more, and lets go of everything that the peer might have read.
    pub fn give_up(&self) {
        let mut producer = self.state.lock();
        producer.gone = true;
        producer.used = 0;
        let free: Vec<Payload> = producer.held.iter_mut().filter_map(Option::take).collect();
        drop(producer);
        drop(free);
    }
}

impl Producer {
    /// Keeps a payload until it is returned; `None`, and it stays where it is, if too many are out.
    fn hold(&mut self, payload: &mut Payload) -> Option<u32> {
        let hold = (!self.used).trailing_zeros() as usize;
        let place = self.held.get_mut(hold)?;
        *place = Some(std::mem::take(payload));
        self.used |= 1 << hold;
        let generation = &mut self.generations[hold];
        *generation = if *generation == GENERATION_MAX { 1 } else { *generation + 1 };
        Some(hold as u32 | *generation << HOLD_BITS)
    }
}

impl Ring {
    fn has_room(&self, geometry: &Geometry, bytes: usize) -> bool {
        let (_, end) = fit(geometry, self.bytes, bytes);
        self.entries.wrapping_sub(self.entries_taken) < geometry.entries as u64
            && (bytes == 0 || end.wrapping_sub(self.bytes_taken) <= geometry.bytes as u64)
    }

    #[inline]
    fn make_room(&mut self, geometry: &Geometry, lane: Lane<'_>, class: Class, bytes: usize) -> bool {
        self.has_room(geometry, bytes) || self.find_room(geometry, lane, class, bytes)
    }

    #[cold]
    fn find_room(&mut self, geometry: &Geometry, lane: Lane<'_>, class: Class, bytes: usize) -> bool {
        let control = lane.control();
        let look = |ring: &mut Ring| {
            let taken = &control.taken[class as usize].0;
            ring.entries_taken = taken.entries.load(Ordering::Acquire);
            ring.bytes_taken = taken.bytes.load(Ordering::Acquire);
            ring.has_room(geometry, bytes)
        };
        if look(self) {
            return true;
        }
        // Ask to be rung first and look again: either we see room made since, or the receiver sees this.
        control.starved.0.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        look(self)
    }
}

fn word_of(bytes: &[u8]) -> u64 {
    let mut word = [0; IN_ENTRY];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// The receiving end of a lane. One thread at a time takes; others may look.
pub(super) struct Incoming {
    rank: u32,
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
    pub fn new(rank: u32) -> Incoming {
        Incoming {
            rank,
            rings: Default::default(),
            looks: AtomicU32::new(0),
            ignored: AtomicBool::new(false),
        }
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
        let lane = inbox.lane(self.rank);
        let looks = lane.control().looks.0.load(Ordering::Relaxed);
        (self.has_packet(inbox, lane, Class::Request)
            || self.has_packet(inbox, lane, Class::Response)
            || looks != self.looks.load(Ordering::Relaxed))
            && !self.is_ignored()
    }

    /// Whether packets wait.
    pub fn has_packets(&self, inbox: &Inbox) -> bool {
        let lane = inbox.lane(self.rank);
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
        let looks = inbox.lane(self.rank).control().looks.0.load(Ordering::Acquire);
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
        peer: (&PeerArena, &Arc<Remote>),
    ) -> Result<Option<Packet>, Malformed> {
        let (geometry, class, lane) = (inbox.geometry(), rules.class, inbox.lane(self.rank));
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
                packet.payload = borrow(peer, hold, offset, packet.len as usize)?;
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
            if lane.control().starved.0.load(Ordering::Relaxed) != 0 {
                lane.control().starved.0.swap(0, Ordering::SeqCst);
                peer.1.look();
            }
        }
        Ok(Some(packet))
    }
}

/// A payload out of the ring of bytes, copied once: the sender may change it at any time.
fn copy_out(lane: Lane<'_>, class: Class, start: u64, len: usize) -> Payload {
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
    let (hold, generation) = (hold & ((1 << HOLD_BITS) - 1), hold >> HOLD_BITS);
    if hold as usize >= HOLDS {
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
    mapping: Option<(Arc<super::segment::Mapping>, usize)>,
    remote: Arc<Remote>,
    hold: u32,
    generation: u32,
}

impl Drop for Loan {
    fn drop(&mut self) {
        let control = self.remote.outbox.lane().control();
        control.returned[self.hold as usize].store(self.generation, Ordering::Release);
        self.remote.look();
    }
}

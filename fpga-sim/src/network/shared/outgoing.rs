//! The sending end of a lane: what sends to a peer.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use ggas_members::memory::Arena;

use super::codec::{self, Form, IN_ENTRY, Rules};
use super::holds::Holds;
use super::inbox::{Geometry, Lane, fit, lap};
use super::incoming::copy_out;
use super::peer::Remote;
use super::spin::Spin;
use crate::memory::copy_streaming;
use crate::packet::{Class, Packet, Payload};

/// Why a packet did not go.
pub(super) enum Refused {
    /// No room now; the peer rings when there is.
    Full(Packet),
    /// The peer is not met yet, or another process has its place.
    Unmet(Packet),
    /// The peer is gone.
    Gone(Packet),
    /// It never will: the payload cannot travel to another process.
    Never(Packet),
}

/// The sending end of a lane: to whichever process has the peer's slot.
pub(super) struct Outgoing {
    geometry: Geometry,
    state: Spin<State>,
}

#[derive(Default)]
struct State {
    producer: Option<Box<Producer>>,
    /// Nothing is sent any more, whoever has the slot.
    shut: bool,
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

/// What sends to one process.
pub(super) struct Producer {
    /// Which of those that had the slot.
    generation: u32,
    remote: Arc<Remote>,
    rings: [Ring; 2],
    holds: Holds,
    /// The peer takes no more.
    gone: bool,
}

impl Outgoing {
    pub fn new(geometry: Geometry) -> Outgoing {
        Outgoing { geometry, state: Spin::new(State::default()) }
    }

    /// From now on sends to this process.
    pub fn open(&self, generation: u32, remote: Arc<Remote>) {
        let mut state = self.state.lock();
        let producer = Producer {
            generation,
            remote,
            rings: Default::default(),
            holds: Holds::new(generation),
            gone: state.shut,
        };
        let before = state.producer.replace(Box::new(producer));
        drop(state);
        // Not under the lock: payloads wake whoever waits for them.
        drop(before);
    }

    /// Sends nothing any more, to nobody. Payloads stay until they are returned.
    pub fn shut(&self) {
        let mut state = self.state.lock();
        state.shut = true;
        state.producer.iter_mut().for_each(|producer| producer.gone = true);
    }

    /// Whether it sends to this process, or did until that was gone.
    pub fn is_open(&self, generation: u32) -> bool {
        self.state.lock().producer.as_ref().is_some_and(|producer| producer.generation == generation)
    }

    pub fn remote(&self) -> Option<Arc<Remote>> {
        self.state.lock().producer.as_ref().map(|producer| producer.remote.clone())
    }

    /// Puts a packet into its ring, and tells the peer. Returns how many bytes went as a reference.
    #[allow(clippy::result_large_err, reason = "as `Fabric::send`")]
    pub fn send(&self, generation: u32, arena: &Arena, mut packet: Packet) -> Result<usize, Refused> {
        let mut state = self.state.lock();
        let shut = state.shut;
        let producer = match state.producer.as_mut() {
            Some(producer) if producer.generation == generation => producer,
            _ if shut => return Err(Refused::Gone(packet)),
            _ => return Err(Refused::Unmet(packet)),
        };
        if producer.gone {
            return Err(Refused::Gone(packet));
        }
        let Producer { remote, rings, holds, .. } = &mut **producer;
        let lane = remote.outbox.lane();
        let class = packet.class();
        let ring = &mut rings[class as usize];
        let mut referenced = 0;
        let form = match &packet.payload {
            Payload::None => Form::None,
            Payload::Lent(lent) => match arena.offset_of(lent.address(), packet.len as usize) {
                Some(offset) => Form::Arena { hold: 0, offset },
                None => return Err(Refused::Never(packet)),
            },
            Payload::ByReference(direct) if direct.more.is_empty() && direct.first.len == packet.len => {
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
                let Some(hold) = holds.hold(&mut packet.payload) else {
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
        ring.entries = entry + 1;
        remote.ring();
        Ok(referenced)
    }

    /// Lets go of payloads that the peer has returned.
    pub fn collect(&self, inbox: Lane<'_>) {
        let returned = &inbox.control().returned;
        let mut free: Vec<Payload> = Vec::new();
        let mut state = self.state.lock();
        let Some(Producer { holds, .. }) = state.producer.as_deref_mut() else { return };
        holds.collect(returned, &mut free);
        drop(state);
        // Not under the lock: this wakes whoever waits for it.
        drop(free);
    }

    /// Whether the peer may read any payload.
    pub fn is_held(&self) -> bool {
        self.state.lock().producer.as_ref().is_some_and(|producer| producer.holds.is_used())
    }

    /// Sends no more to a process that is gone, nor to those that had the slot before it, and lets go of everything
    /// that they might have read. Returns packets that it has not taken, of the class that `rules` are for.
    pub fn abandon(&self, generation: u32, rules: &Rules) -> Vec<Packet> {
        let mut state = self.state.lock();
        let Some(producer) = state.producer.as_mut().filter(|producer| producer.generation <= generation)
        else {
            return Vec::new();
        };
        let untaken = if producer.gone { Vec::new() } else { producer.untaken(&self.geometry, rules) };
        producer.gone = true;
        let free = producer.holds.abandon();
        drop(state);
        drop(free);
        untaken
    }

    /// Lets go of a process that is gone.
    pub fn forget(&self) {
        let before = self.state.lock().producer.take_if(|producer| producer.gone);
        drop(before);
    }
}

impl Producer {
    /// Packets that the receiver, which is gone, has not taken. It may have written anything there.
    fn untaken(&mut self, geometry: &Geometry, rules: &Rules) -> Vec<Packet> {
        let Producer { remote, rings, holds, .. } = self;
        let (lane, ring) = (remote.outbox.lane(), &rings[rules.class as usize]);
        let taken = &lane.control().taken[rules.class as usize].0;
        let (first, from) = (taken.entries.load(Ordering::Acquire), taken.bytes.load(Ordering::Acquire));
        let mut untaken: Vec<(Packet, bool)> = Vec::new();
        let are_sane = ring.entries.wrapping_sub(first) <= geometry.entries as u64
            && ring.bytes.wrapping_sub(from) <= geometry.bytes as u64;
        if !are_sane {
            return Vec::new();
        }
        let mut bytes = from;
        for entry in first..ring.entries {
            let slot = &lane.slot(rules.class, entry).0;
            let words: codec::Words = std::array::from_fn(|i| slot[i].load(Ordering::Acquire));
            let Ok((mut packet, form)) = codec::decode(&words, rules) else { break };
            if words[0] as u32 != lap(geometry, entry) {
                break;
            }
            match form {
                Form::None | Form::Word(..) => {}
                Form::Ring(len) => {
                    let (start, end) = fit(geometry, bytes, len as usize);
                    packet.payload = copy_out(lane, rules.class, start, len as usize);
                    bytes = end;
                }
                Form::Arena { hold, .. } => packet.payload = holds.take(hold),
            }
            untaken.push((packet, matches!(form, Form::Ring(_))));
        }
        // One that ended in the middle of a packet has taken its bytes, and not its entry: nobody knows which these are.
        let are_known = bytes == ring.bytes;
        let known = |(packet, in_ring)| {
            if in_ring && !are_known { Packet { payload: Payload::None, ..packet } } else { packet }
        };
        untaken.into_iter().map(known).collect()
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use ggas_members::NetworkShape;
    use proptest::prelude::*;

    use super::super::codec::tests::put;
    use super::super::inbox::{Inbox, Outbox};
    use super::*;

    const RULES: Rules =
        Rules { class: Class::Request, from: 3, to: 4, most: 4096, process: crate::packet::ANYONE };
    const SENDER: u32 = 1;

    fn packet(number: u64, payload: Payload) -> Packet {
        let len = payload.len() as u32;
        Packet { address: number, payload, ..put(len, len, 0) }
    }

    fn bytes(number: u64) -> Vec<u8> {
        vec![number as u8; [0, 8, 300, 4000][number as usize % 4]]
    }

    /// A lane in which packets lie, the first `taken` of which were taken.
    fn lane(sent: u64, taken: usize) -> (Inbox, Outgoing) {
        let shape = NetworkShape::torus(8, 1, 1).unwrap().with_members(2).unwrap();
        let inbox = Inbox::create(&shape).unwrap();
        let remote = Remote::new(Outbox::map(inbox.fd(), &shape, SENDER).unwrap(), SENDER, Arc::default());
        let out = Outgoing::new(*inbox.geometry());
        let (arena, incoming) =
            (Arena::create(1 << 20).unwrap(), super::super::incoming::Incoming::new(SENDER));
        out.open(5, Arc::new(remote));
        let mut left = taken;
        for number in 0..sent {
            let packet = |number| packet(number, Payload::copy_of(&bytes(number)));
            while out.send(5, &arena, packet(number)).is_err() {
                assert!(
                    left > 0 && incoming.take(&inbox, &RULES, || None).is_ok_and(|packet| packet.is_some())
                );
                left -= 1;
            }
        }
        (0..left).for_each(|_| drop(incoming.take(&inbox, &RULES, || None)));
        (inbox, out)
    }

    /// More than the rings hold, so that they wrap.
    #[test]
    fn what_was_not_taken_comes_back_whole() {
        for taken in [350, 353, 399, 400] {
            let (_inbox, out) = lane(400, taken);
            assert!(out.abandon(4, &RULES).is_empty(), "of one that had the slot before");
            let untaken = out.abandon(5, &RULES);
            let numbers = untaken.iter().map(|packet| packet.address);
            assert!(numbers.eq(taken as u64..400));
            assert!(untaken.iter().all(|packet| packet.payload.bytes() == Some(&bytes(packet.address)[..])));
            assert!(out.abandon(5, &RULES).is_empty(), "once");
        }
    }

    /// One that ended between taking a packet's bytes and its entry.
    #[test]
    fn bytes_that_cannot_be_known_do_not_come_back() {
        let (inbox, out) = lane(40, 2);
        inbox.lane(SENDER).control().taken[Class::Request as usize].0.bytes.fetch_add(320, Ordering::Relaxed);
        let untaken = out.abandon(5, &RULES);
        assert!(untaken.iter().map(|packet| packet.address).eq(2..40));
        let has_bytes = |packet: &Packet| packet.payload.len() > IN_ENTRY;
        assert!(!untaken.iter().any(has_bytes));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        /// Whatever the one that is gone has written there.
        #[test]
        fn a_hostile_receiver_gives_back_nothing_that_does_harm(
            seed: u64, entries in prop_oneof![Just(0), 0u64..100, any::<u64>()],
            taken in prop_oneof![Just(0), 0u64..100_000, any::<u64>()], changed in 0usize..200,
        ) {
            let (inbox, out) = lane(50, 3);
            let lane = inbox.lane(SENDER);
            let control = &lane.control().taken[Class::Request as usize].0;
            control.entries.store(entries, Ordering::Relaxed);
            control.bytes.store(taken, Ordering::Relaxed);
            let mut rng = fastrand::Rng::with_seed(seed);
            for _ in 0..changed {
                let word: &AtomicU64 = &lane.slot(Class::Request, rng.u64(0..50)).0[rng.usize(0..8)];
                word.fetch_xor(1 << rng.u32(0..64), Ordering::Relaxed);
            }
            let untaken = out.abandon(5, &RULES);
            prop_assert!(untaken.len() <= 50);
            for packet in &untaken {
                prop_assert_eq!((packet.source.node, packet.destination.node), (RULES.from, RULES.to));
                prop_assert!(packet.payload.len() <= 4096);
            }
        }
    }
}

//! Long payloads: what is let read, what is read, and that nobody reads what he may not.

use std::sync::{Arc, Weak};
use std::time::Duration;

use extoll_abi::Address;

use super::super::net::REUSED;
use super::{Event, World};
use crate::memory::runs::Run;
use crate::network::hosts::grants::UNWRITTEN;
use crate::network::hosts::landing::LANDS;
use crate::network::hosts::message::{LEAST, RUNS};
use crate::network::shared::codec::tests::put;
use crate::packet::{ByReference, Hold, HoldState, Kind, Packet, Payload};
use crate::wake::Wake;

pub struct Source {
    of: usize,
    bytes: Box<[u8]>,
    hold: Arc<HoldState>,
}

impl Source {
    /// It is overwritten: who reads now reads what he may not.
    fn reuse(&mut self) {
        self.bytes.fill(REUSED);
    }
}

struct Nobody;

impl Wake for Nobody {
    fn wake(&self) {}
}

/// What the payload of a packet is: no byte of it is [`REUSED`]. Words make it eight times as fast as bytes.
fn payload(tag: u32, len: usize) -> Box<[u8]> {
    let mut random = fastrand::Rng::with_seed(tag.into());
    let mut bytes = vec![0; len];
    for word in bytes.chunks_mut(8) {
        word.copy_from_slice(&(random.u64(..) & !LOWEST).to_le_bytes()[..word.len()]);
    }
    bytes.into()
}

/// The lowest bit of each byte.
const LOWEST: u64 = u64::MAX / 255;

impl World {
    /// A packet with a long payload, in one or several pieces of memory.
    pub fn post_long(&mut self, who: usize, to: u16, kind: Kind) {
        // Without a landing shorter ones go as bytes.
        let least = if self.processes[who].seen.lands(to) { self.most() + 1 } else { LEAST };
        let len = match self.random.u8(..8) {
            0 => LANDS + self.random.u32(1..5_000),
            _ => least + self.random.u32(..5_000),
        };
        let runs_most = if self.random.bool() || len < LEAST { 1 } else { RUNS as u32 };
        self.post_payload((who, to), kind, len, runs_most);
    }

    /// A packet whose payload lies in at most `runs_most` pieces of memory: its number.
    pub fn post_payload(&mut self, way: (usize, u16), kind: Kind, len: u32, runs_most: u32) -> u32 {
        let tag = self.send_payload(way, kind, len, runs_most);
        self.step(way.0);
        tag
    }

    /// The same, and the wire is not moved on.
    pub fn send_payload(&mut self, (who, to): (usize, u16), kind: Kind, len: u32, runs_most: u32) -> u32 {
        let (tag, process) = self.number_packet(who, to);
        let bytes = payload(tag, len as usize);
        let mut runs = Vec::new();
        let mut at = 0;
        for left in (0..self.random.u32(..runs_most)).rev() {
            let part = self.random.u32(1..(len - at) - left);
            runs.push(Run { address: bytes.as_ptr() as u64 + u64::from(at), len: part });
            at += part;
        }
        runs.push(Run { address: bytes.as_ptr() as u64 + u64::from(at), len: len - at });
        let (hold, state) = Hold::new(Weak::<Nobody>::new());
        self.sources.insert(tag, Source { of: who, bytes, hold: state });
        self.in_use.push(tag);
        let more = runs.split_off(1);
        let packet = Packet {
            source: Address::new(self.processes[who].node, 0),
            destination: Address::new(to, 0),
            kind,
            address: who as u64,
            tag,
            process,
            payload: Payload::ByReference(ByReference { first: runs[0], more, tail: None, hold }),
            ..put(len, len, 0)
        };
        self.send(who, packet);
        tag
    }

    /// Whether the memory of a packet's payload was given back.
    pub fn is_given_back(&self, tag: u32) -> bool {
        self.sources[&tag].hold.is_done()
    }

    /// Who has removed another waits so long for the ends of writes, as README.md says.
    pub(super) fn end_writes(&mut self) {
        let removed = std::mem::take(&mut self.messages.borrow_mut().removed);
        for (from, to) in removed {
            let at = self.now() + UNWRITTEN - Duration::from_millis(1);
            self.plan(at, Event::LastRead { from, to });
        }
    }

    /// Memory that nobody may read any more gets other bytes.
    pub(super) fn reuse_sources(&mut self) {
        self.in_use.retain(|tag| {
            let source = self.sources.get_mut(tag).filter(|source| source.hold.is_done());
            let done = source.is_some();
            source.into_iter().for_each(Source::reuse);
            !done
        });
    }

    /// A process is gone, and its memory.
    pub(super) fn forget_memory(&mut self, who: usize) {
        let messages = &mut *self.messages.borrow_mut();
        messages.come.remove(&who);
        messages.grants.retain(|_, (of, ..)| *of != who);
        messages.still_read.retain(|_, (of, ..)| *of != who);
        messages.open.retain(|_, (of, ..)| *of != who);
        messages.reads.retain(|_, read| read.by != who);
        messages.read_sources(|from, _| from == who);
        self.processes[who].reading.clear();
        self.processes[who].landed.clear();
        self.sources.values_mut().filter(|source| source.of == who).for_each(Source::reuse);
        self.in_use.retain(|tag| self.sources[tag].of != who);
    }

    /// Reads that begin are on their way.
    pub(super) fn begin_reads(&mut self) {
        let begun = std::mem::take(&mut self.messages.borrow_mut().begun);
        for number in begun {
            let at = self.delay();
            let read = self.messages.borrow().reads.get(&number).cloned();
            if let Some(read) = read {
                self.plan(at, Event::Read { number, bytes: None, from: read.by, to: read.of });
            }
        }
    }

    /// A read is where the bytes are, or they are where it began.
    pub(super) fn answer_read(&mut self, number: u64, bytes: Option<Vec<u8>>) {
        let Some(read) = self.messages.borrow().reads.get(&number).cloned() else { return };
        if let Some(bytes) = bytes {
            // SAFETY: a buffer of the reader's desk, which keeps it until the read is over: it is among those that are not.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), read.piece.to as *mut u8, bytes.len()) };
            let messages = &mut *self.messages.borrow_mut();
            messages.reads.remove(&number);
            messages.ended.push((read.by, read.token, true));
        } else if self.processes[read.of].alive {
            let granted = self.messages.borrow().grants.get(&read.grant).copied();
            let Some((of, address, len)) = granted.filter(|(of, ..)| *of == read.of) else {
                // It was taken back: who reads is taken for lost, or will be.
                self.messages.borrow_mut().fail(number);
                return self.wake(read.by);
            };
            assert!(
                read.piece.offset as usize + read.piece.len <= len,
                "{} reads beyond what {of} grants",
                read.by
            );
            let from = address + read.piece.offset;
            // SAFETY: a source, which lives as long as the world.
            let bytes = unsafe { std::slice::from_raw_parts(from as *const u8, read.piece.len) }.to_vec();
            let at = self.delay();
            return self.plan(at, Event::Read { number, bytes: Some(bytes), from: of, to: read.by });
        }
        self.wake(read.by);
    }

    /// A card takes a packet with a long payload.
    pub(super) fn begin_reading(&mut self, who: usize, packet: Packet) {
        if self.random.u8(..16) == 0 {
            return; // it has nowhere to put it
        }
        match &packet.payload {
            Payload::Far(far) => {
                let read = far.fetch();
                self.processes[who].reading.push((packet, read));
            }
            Payload::Foreign(_) => self.processes[who].landed.push(packet),
            _ => {}
        }
    }

    /// A card wrote a payload to its place while the wire had it.
    pub(super) fn placed(&mut self, packet: &Packet, bytes: &[u8]) {
        if packet.len > self.most() {
            assert!(*bytes == *payload(packet.tag, packet.len as usize), "other bytes than were written");
            self.placed += 1;
        }
    }

    /// Cards copy what landed, now or later.
    fn look_at_landed(&mut self, who: usize) {
        for packet in std::mem::take(&mut self.processes[who].landed) {
            let Payload::Foreign(source) = &packet.payload else { continue };
            if self.random.bool() {
                self.processes[who].landed.push(packet);
                continue;
            }
            let mut bytes = vec![0; source.len()];
            source.read(&mut bytes);
            assert!(*bytes == *payload(packet.tag, packet.len as usize), "what landed are other bytes");
            self.landed += 1;
        }
    }

    pub(super) fn look_at_reads(&mut self, who: usize) {
        self.look_at_landed(who);
        for (packet, read) in std::mem::take(&mut self.processes[who].reading) {
            let Payload::Far(far) = &packet.payload else { continue };
            match far.fetched(read) {
                None => self.processes[who].reading.push((packet, read)),
                Some(Ok(bytes)) => {
                    assert!(bytes == payload(packet.tag, packet.len as usize), "the bytes of another time");
                    self.read += 1;
                }
                Some(Err(())) => drop(self.unread.insert((who, packet.address as usize))),
            }
        }
    }

    /// When all is quiet: nothing is being read, nothing is let read, and between those who have not lost each other all was.
    pub(super) fn check_long(&self) {
        for (who, process) in self.processes.iter().enumerate().filter(|(_, process)| process.alive) {
            assert!(process.reading.is_empty(), "{who}: {} payloads are still read", process.reading.len());
            assert!(process.landed.is_empty(), "{who}: {} payloads are not copied", process.landed.len());
        }
        for (tag, source) in self.sources.iter().filter(|(_, source)| self.processes[source.of].alive) {
            assert!(source.hold.is_done(), "packet {tag} of {}: its memory may still be read", source.of);
        }
        let messages = self.messages.borrow();
        // Who wrote to a landing when it was closed may write there still.
        for (who, address) in messages.opened.iter().filter(|(who, _)| self.processes[*who].alive) {
            let kept = self.processes[*who].core().landings().contains(address);
            assert!(kept, "{who} does not keep what it let others write");
        }
        assert!(messages.grants.is_empty() && messages.reads.is_empty(), "{:?}", messages.reads);
        for (who, of) in self.unread.iter().filter(|(who, _)| self.processes[*who].alive) {
            let whole = self.processes[*of].alive || self.left.contains(&(*of, *of));
            let lost = self.lost.contains_key(&(*who, *of)) || self.lost.contains_key(&(*of, *who));
            assert!(!whole || lost, "{who} does not get what {of} sent");
        }
    }
}

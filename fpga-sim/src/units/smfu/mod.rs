//! The SMFU: loads and stores to its window become packets, and packets become accesses to memory at the target
//! (spec 6, thesis 6.3).
//!
//! *Egress*: [`Smfu::store`] and [`Smfu::load`] cut an access at 64-byte boundaries, as the hosts do that feed the
//! card (thesis table 6.1), and give one packet for each piece. Stores are posted. A load waits for its replies.
//! [`Smfu::atomic`] and [`Smfu::reduce`] are the model's own.
//! *Ingress*: [`Smfu::ingress`] carries packets out and gives the reply of a load.
//!
//! The first 32 MiB of the window lead to the target's register file instead of its memory, at the offset within
//! the interval, in aligned words of 8 bytes (spec 1.2, 6.4) \[inferred\]. While the unit is disabled it accepts
//! nothing, from either side. Device memory is read, written and changed by its copier; packets behind such an access wait for it.

mod atomic;
mod error;
mod label;
mod load;
mod registers;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use extoll_abi::regs::*;
use extoll_abi::{Address, ErrorUnits, Mode};

use crate::memory::{Completion, Memory, MemoryError, Ticket};
use crate::packet::{ANYONE, Kind, Packet, Payload};
pub use atomic::Refusal;
pub use error::SmfuError;
use ggas_members::memory::Part;
pub use label::{Label, SMFU_MASK_PLACE, SMFU_PLACES, SMFU_WINDOW_BITS};
use label::{Parts, Way};
pub use load::Load;
use load::Loads;
use registers::Route;
pub(crate) use registers::{Block, Registers};

/// Accesses are cut where an address is a multiple of this.
pub const PIECE: u64 = 64;

/// Register file of the card that the SMFU belongs to, for accesses from other nodes.
pub trait RegisterFile {
    /// Reads the register at a BAR 0 offset.
    fn read(&self, offset: u64) -> u64;
    /// Writes it.
    fn write(&self, offset: u64, value: u64);
}

/// What a packet led to.
#[derive(Debug)]
pub enum Ingress {
    /// It is carried out (or counted as an error).
    Done,
    /// A store, or an atomic operation without a reply, is on its way to a device: packets behind it must wait for the ticket.
    Pending(Ticket),
    /// A device reads what a load asks for, or carries out an atomic operation: packets behind it must wait, and [`Smfu::reply`] answers it.
    Fetch {
        /// Of the read.
        ticket: Ticket,
        /// The load.
        request: Packet,
    },
    /// A device has no room for an atomic operation now: packets behind it must wait, and [`Smfu::ingress_atomic`] tries again.
    Again(Packet),
    /// Send this.
    Reply(Packet),
}

/// Errors since the start. The card has no registers for them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SmfuErrors {
    /// Packets that came while the unit was disabled.
    pub disabled: u64,
    /// Accesses from other nodes to memory that is not there.
    pub bad_address: u64,
    /// Loads that got no answer in time.
    pub timeouts: u64,
    /// Replies that nobody waits for any more.
    pub stray_replies: u64,
    /// Atomic operations from other nodes that could not be carried out.
    pub refused: u64,
    /// Accesses from other nodes to windows that this process has no part of.
    pub unknown_window: u64,
}

#[derive(Default)]
struct Errors {
    /// Of all processes of a node.
    disabled: Part<AtomicU64>,
    bad_address: AtomicU64,
    timeouts: AtomicU64,
    stray_replies: AtomicU64,
    refused: AtomicU64,
    unknown_window: AtomicU64,
}

/// The unit of one card. All calls are safe from any thread.
pub struct Smfu {
    node: u16,
    registers: Registers,
    /// Of this process.
    parts: Parts,
    loads: Mutex<Loads>,
    tags: AtomicU32,
    errors: Errors,
    /// The card gave a load up since somebody asked.
    expired: AtomicBool,
}

impl Smfu {
    /// The unit of a node after reset: disabled, no intervals.
    pub fn new(node: u16) -> Smfu {
        Smfu {
            node,
            registers: Registers::default(),
            parts: Parts::default(),
            loads: Mutex::default(),
            tags: AtomicU32::new(0),
            errors: Errors::default(),
            expired: AtomicBool::new(false),
        }
    }

    /// The unit of a node whose processes share its registers, and the count of packets that found it disabled.
    pub(crate) fn shared(node: u16, registers: Part<Block>, disabled: Part<AtomicU64>) -> Smfu {
        let errors = Errors { disabled, ..Errors::default() };
        Smfu { registers: Registers(registers), errors, ..Smfu::new(node) }
    }

    fn loads(&self) -> MutexGuard<'_, Loads> {
        self.loads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads a register of the SMFU block (0xa000 to 0xaa80); `None` for offsets of other units.
    pub fn reg_read(&self, offset: u64) -> Option<u64> {
        let idle = offset == EXTOLL_RF_SMFU_STATUS_CONTROL && self.loads().is_empty();
        self.registers.read(offset, idle)
    }

    /// Writes a register; `false` for offsets of other units.
    pub fn reg_write(&self, offset: u64, value: u64) -> bool {
        self.registers.write(offset, value)
    }

    /// What is at a place, an interval or [`SMFU_MASK_PLACE`]; `None` where no window was named.
    pub fn label(&self, place: usize) -> Option<Label> {
        self.registers.label(place)
    }

    /// Says which window a place is of, and who has the part there: accesses that go by it carry the number.
    pub fn set_label(&self, place: usize, label: Option<Label>) {
        self.registers.set_label(place, label);
    }

    /// Makes this process one that has a part of a window, behind the base of an interval, or for [`SMFU_MASK_PLACE`] the default base;
    /// 0: it has none there any more. From the first one on, requests for other windows are refused.
    pub fn set_part(&self, place: usize, window: u64) {
        self.parts.set(place, window);
    }

    /// Errors so far.
    pub fn errors(&self) -> SmfuErrors {
        let Errors { disabled, bad_address, timeouts, stray_replies, refused, unknown_window } = &self.errors;
        SmfuErrors {
            disabled: disabled.load(Relaxed),
            bad_address: bad_address.load(Relaxed),
            timeouts: timeouts.load(Relaxed),
            stray_replies: stray_replies.load(Relaxed),
            refused: refused.load(Relaxed),
            unknown_window: unknown_window.load(Relaxed),
        }
    }

    /// Whether the card itself gave a load up, by its timeout register, since the last call.
    pub(crate) fn take_expired(&self) -> bool {
        self.expired.swap(false, Relaxed)
    }

    fn check(&self, offset: u64, len: usize) -> Result<(), SmfuError> {
        let end = offset.checked_add(len as u64);
        if end.is_none_or(|end| end > EXTOLL_SMFU_WINDOW_BYTES) {
            return Err(SmfuError::OutsideWindow { offset, len });
        }
        if !self.registers.enabled() {
            return Err(SmfuError::Disabled { node: self.node });
        }
        let aligned = offset.is_multiple_of(8) && len.is_multiple_of(8);
        (offset >= EXTOLL_SMFU_RRA_BYTES || aligned).then_some(()).ok_or(SmfuError::Unaligned { offset, len })
    }

    /// Posted stores of `bytes` at `offset` in the window: the packets to send, in this order, 64 bytes at most
    /// each. Each counts when it is [`sent`](Self::sent).
    pub fn store<'a>(
        &'a self,
        offset: u64,
        bytes: &'a [u8],
    ) -> Result<impl Iterator<Item = Packet> + 'a, SmfuError> {
        self.check(offset, bytes.len())?;
        Ok(pieces(offset, bytes.len()).map(move |(at, len)| {
            let packet = self.request(Kind::SmfuStore, offset + at as u64, len, EXTOLL_SMFU_TC_P_SHIFT);
            Packet { payload: Payload::copy_of(&bytes[at..at + len]), ..packet }
        }))
    }

    /// Starts a load of `len` bytes from `offset` in the window.
    pub fn load(&self, now: Instant, offset: u64, len: usize) -> Result<Load<'_>, SmfuError> {
        self.check(offset, len)?;
        Ok(Load::begin(self, now, (offset, len), None))
    }

    /// Counts a request with this `aux`: the network has taken it.
    pub fn sent(&self, kind: Kind, aux: u64) {
        let posted = matches!(kind, Kind::SmfuStore | Kind::SmfuReduce);
        self.registers.count(if posted { EXTOLL_RF_SMFU_SENT_P } else { EXTOLL_RF_SMFU_SENT_NP });
        if let Some(interval) = Way::of(aux).interval {
            self.registers.count_interval(interval, posted);
        }
    }

    /// The request for one piece.
    fn request(&self, kind: Kind, offset: u64, len: usize, tc_shift: u64) -> Packet {
        let window = self.registers.get(EXTOLL_RF_SMFU_O_START_ADDR);
        let Route { node, seat, window, offset: address, interval } =
            self.registers.route(window.wrapping_add(offset));
        let (from, to) = (Address::new(self.node, 0), Address::new(node, seat));
        let mode = if offset < EXTOLL_SMFU_RRA_BYTES { Mode::RRA } else { Mode::default() };
        let aux = Way { interval, window }.aux();
        let tag = self.tags.fetch_add(1, Relaxed);
        let header = Packet { mode, aux, tag, ..blank(kind, from, to, address, len) };
        Packet { tc: self.traffic_class(tc_shift), ..header }
    }

    fn traffic_class(&self, shift: u64) -> u8 {
        (self.registers.get(EXTOLL_RF_SMFU_TRAFFIC_CLASS) >> shift) as u8 & 3
    }

    /// Carries out an SMFU packet that arrived. Packets of other units do nothing.
    pub fn ingress(&self, packet: Packet, memory: &dyn Memory, file: &dyn RegisterFile) -> Ingress {
        let received = match packet.kind {
            Kind::SmfuStore | Kind::SmfuReduce => EXTOLL_RF_SMFU_RCVD_P,
            Kind::SmfuLoad | Kind::SmfuAtomic => EXTOLL_RF_SMFU_RCVD_NP,
            Kind::SmfuReply => EXTOLL_RF_SMFU_RCVD_RSP,
            _ => return Ingress::Done,
        };
        if !self.registers.enabled() {
            self.errors.disabled.fetch_add(1, Relaxed);
            return Ingress::Done;
        }
        self.registers.count(received);
        match packet.kind {
            Kind::SmfuStore => self.ingress_store(&packet, memory, file),
            Kind::SmfuLoad => self.ingress_load(packet, memory, file),
            Kind::SmfuAtomic | Kind::SmfuReduce => self.ingress_atomic(packet, memory),
            _ => {
                self.ingress_reply(&packet);
                Ingress::Done
            }
        }
    }

    /// So many stores came as one with `first`, which [`ingress`](Self::ingress) takes next.
    pub(crate) fn joined(&self, stores: u64, first: &Packet) {
        if !self.registers.enabled() {
            self.errors.disabled.fetch_add(stores, Relaxed);
            return;
        }
        (0..stores).for_each(|_| self.registers.count(EXTOLL_RF_SMFU_RCVD_P));
        if self.target(first).is_err() {
            // It counts one itself.
            self.errors.unknown_window.fetch_add(stores - 1, Relaxed);
        }
    }

    /// Memory address that a request means here; none where this process has no part of its window.
    fn target(&self, packet: &Packet) -> Result<u64, Refusal> {
        let way = Way::of(packet.aux);
        let base = match self.parts.place(way).filter(|_| way.window != 0) {
            Some(place) => {
                let base = self.registers.base((place != SMFU_MASK_PLACE).then_some(place as u32));
                // The place may have gone to another window meanwhile, and the base with it.
                self.parts.has_still(place, way.window).then_some(base)
            }
            None => self.parts.goes_by_registers(way).then(|| self.registers.base(way.interval)),
        };
        match base {
            Some(base) => Ok(base.wrapping_add(packet.address)),
            None => {
                self.errors.unknown_window.fetch_add(1, Relaxed);
                Err(Refusal::Window)
            }
        }
    }

    fn ingress_store(&self, packet: &Packet, memory: &dyn Memory, file: &dyn RegisterFile) -> Ingress {
        let bytes = packet.payload.bytes().unwrap_or(&[]);
        if packet.mode.contains(Mode::RRA) {
            for (index, word) in bytes.as_chunks::<8>().0.iter().enumerate() {
                file.write(packet.address.wrapping_add(8 * index as u64), u64::from_le_bytes(*word));
            }
            return Ingress::Done;
        }
        let Ok(target) = self.target(packet) else { return Ingress::Done };
        match memory.write(target, bytes) {
            Ok(Completion::Done) => Ingress::Done,
            Ok(Completion::Ticket(ticket)) => Ingress::Pending(ticket),
            Err(_) => {
                self.errors.bad_address.fetch_add(1, Relaxed);
                Ingress::Done
            }
        }
    }

    fn ingress_load(&self, packet: Packet, memory: &dyn Memory, file: &dyn RegisterFile) -> Ingress {
        let mut buffer = [0; PIECE as usize];
        let bytes = &mut buffer[..(packet.len as usize).min(PIECE as usize)];
        let loaded = if packet.mode.contains(Mode::RRA) {
            for (index, word) in bytes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                *word = file.read(packet.address.wrapping_add(8 * index as u64)).to_le_bytes();
            }
            Ok(())
        } else {
            let source = match self.target(&packet) {
                Ok(source) => source,
                Err(refusal) => return Ingress::Reply(self.answer(&packet, Err(refusal))),
            };
            match memory.read(source, bytes) {
                Err(MemoryError::Device { .. }) => match memory.fetch(source, bytes.len()) {
                    Ok(ticket) => return Ingress::Fetch { ticket, request: packet },
                    Err(error) => Err(error),
                },
                done => done,
            }
        };
        Ingress::Reply(self.reply(&packet, loaded.map(|()| &*bytes)))
    }

    /// The reply to a load with what was read, or to an atomic operation with what was there.
    pub fn reply(&self, packet: &Packet, loaded: Result<&[u8], MemoryError>) -> Packet {
        let atomic = packet.kind == Kind::SmfuAtomic;
        if loaded.is_err() {
            let counted = if atomic { &self.errors.refused } else { &self.errors.bad_address };
            counted.fetch_add(1, Relaxed);
        }
        self.answer(packet, loaded.map_err(|error| if atomic { Refusal::Failed } else { error.into() }))
    }

    fn answer(&self, packet: &Packet, bytes: Result<&[u8], Refusal>) -> Packet {
        let (error, aux, payload) = match bytes {
            Ok(bytes) => (ErrorUnits::default(), 0, Payload::copy_of(bytes)),
            Err(refusal) => (ErrorUnits::RESPONDER, refusal as u64, Payload::None),
        };
        self.registers.count(EXTOLL_RF_SMFU_SENT_RSP);
        let len = payload.len();
        let (from, to) = (packet.destination, packet.source);
        let reply = blank(Kind::SmfuReply, from, to, packet.address, len);
        let tc = self.traffic_class(EXTOLL_SMFU_TC_RSP_SHIFT);
        Packet { error, aux, payload, tag: packet.tag, mode: packet.mode, tc, ..reply }
    }

    fn ingress_reply(&self, packet: &Packet) {
        if !self.loads().take(packet) {
            self.errors.stray_replies.fetch_add(1, Relaxed);
        }
    }
}

/// Cuts an access at multiples of 64 bytes: offset within it and length of each piece.
fn pieces(offset: u64, len: usize) -> impl Iterator<Item = (usize, usize)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let piece = ((PIECE - (offset + at as u64) % PIECE) as usize).min(len - at);
        at += piece;
        (piece > 0).then(|| (at - piece, piece))
    })
}

fn blank(kind: Kind, from: Address, to: Address, address: u64, len: usize) -> Packet {
    Packet {
        source: from,
        destination: to,
        kind,
        command: Default::default(),
        spec: Default::default(),
        modifier: Default::default(),
        mode: Mode::default(),
        error: ErrorUnits::default(),
        tc: 0,
        protection: 0,
        fragment: 0,
        address,
        aux: 0,
        len: len as u32,
        total: len as u32,
        offset: 0,
        tag: 0,
        process: ANYONE,
        payload: Payload::None,
    }
}

//! What travels between cards: one struct for every packet of the network.
//!
//! A packet is a header and a payload. Payloads of up to [`INLINE_MAX`] bytes lie in the packet itself; larger
//! ones are bytes of their own or, where the [fabric](crate::network::fabric::Carriage) can, a
//! reference to the sender's memory that the receiver copies from. A reference keeps its source alive through a
//! [`Hold`]: wherever the packet is dropped, the sender learns that nobody reads the source any more.
//!
//! # Forms of a packet
//!
//! [`Packet`] is the description; two encodings derive from it. [`Packet::wire_bytes`] is what links that check bytes
//! make their checksums of: it has every field, and nobody reads it back. Entries of a ring between processes
//! (`network/shared/codec.rs`) are eight words, one cache line, because a packet of this struct holds pointers and does
//! not fit one; what comes in is checked, since the other process may be broken. Packets of engines
//! (`ENGINE_META_*` in `kernels/src/engine_ring.cuh`) are another protocol: descriptor words and 16 bits for what the
//! target cannot know of them, since each word more is a store over NVLink. Nothing there meets this struct.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub use extoll_abi::Address;
use extoll_abi::{CommandCode, ErrorUnits, Mode, Modifier, Spec};

use crate::memory::runs::Run;
use crate::memory::{Far, Foreign, Lent, TAIL};
use crate::network::links::link::{REQUESTS, RESPONSES};
use crate::wake::Wake;

/// Largest payload that a packet carries in itself.
pub const INLINE_MAX: usize = 64;

/// Virtual channel group: responses never wait behind requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Puts, gets, notifications, locks, SMFU stores, loads and atomic operations, VELO messages.
    Request,
    /// Get and lock responses, SMFU replies.
    Response,
}

impl Class {
    /// The virtual channel of links that it travels on.
    #[inline]
    pub(crate) fn channel(self) -> usize {
        match self {
            Class::Request => REQUESTS,
            Class::Response => RESPONSES,
        }
    }
}

/// Which unit of the receiving card takes the packet, and what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Completer: write `len` bytes of payload at `address` (put, immediate put). With `error` set: no payload,
    /// only the notification with its error bits.
    Put,
    /// Responder: read `total` bytes at `address`, send them to the origin's `aux`.
    Get,
    /// Completer: notification with class `len` and 64-bit payload `aux`.
    Notification,
    /// Responder: lock `address` (number), `aux` = compare `<< 32` | addend.
    Lock,
    /// Completer at the origin: write `len` bytes at `address`; with `error` set, only the notification.
    GetResponse,
    /// Completer at the origin: lock `address` (number), `aux` = value `<< 32` | result.
    LockResponse,
    /// SMFU: posted store of `len` bytes at target offset `address`. Of all requests of this unit `aux` is the window, which cards do not name,
    /// and the interval at the origin.
    SmfuStore,
    /// SMFU: load of `total` bytes at target offset `address`; `tag` names the waiting load.
    SmfuLoad,
    /// SMFU of the model: atomic operation on target offset `address`; `protection` is its code, `len` bytes of payload its
    /// operands ([`Atomic`](extoll_abi::Atomic)), `tag` names who waits for what was there.
    SmfuAtomic,
    /// SMFU of the model: the same, posted.
    SmfuReduce,
    /// SMFU: reply to the load or the atomic operation `tag`; `aux` = why there was none.
    SmfuReply,
    /// VELO: a message of `len` bytes, `address` = sender's name (VPID `<< 16` | node), `aux` = message type `<< 8` |
    /// tag.
    Velo,
}

impl Kind {
    /// The class this kind travels in.
    pub fn class(self) -> Class {
        match self {
            Kind::GetResponse | Kind::LockResponse | Kind::SmfuReply => Class::Response,
            _ => Class::Request,
        }
    }

    /// Whether the SMFU takes it.
    pub fn is_smfu(self) -> bool {
        matches!(
            self,
            Kind::SmfuStore | Kind::SmfuLoad | Kind::SmfuAtomic | Kind::SmfuReduce | Kind::SmfuReply
        )
    }
}

/// A payload by reference: the sender's memory, one run for each contiguous stretch, in order.
#[derive(Debug)]
pub struct ByReference {
    /// The first run (most payloads have one).
    pub first: Run,
    /// Further runs.
    pub more: Vec<Run>,
    /// The last bytes, where the runs are memory of a device, which cannot be read word by word.
    pub tail: Option<Box<[u8; TAIL]>>,
    /// Tells the sender when this payload is dropped.
    pub hold: Hold,
}

impl ByReference {
    /// All runs in order.
    pub fn runs(&self) -> impl Iterator<Item = Run> + '_ {
        std::iter::once(self.first).chain(self.more.iter().copied())
    }
}

/// What a packet carries.
#[derive(Debug, Default)]
pub enum Payload {
    /// Nothing.
    #[default]
    None,
    /// Up to [`INLINE_MAX`] bytes in the packet; the first `len` of `bytes` count.
    Inline {
        /// Bytes used.
        len: u8,
        /// The bytes.
        bytes: [u8; INLINE_MAX],
    },
    /// Bytes of their own: a fragment, or what the [fabric](crate::network::fabric::Carriage) takes.
    Bytes(Box<[u8]>),
    /// Bytes in a buffer that the fabric lent.
    Lent(Lent),
    /// So many bytes that are where they belong: the fabric had the card [write](crate::network::fabric::First::settle) them.
    Placed(u32),
    /// A reference to the sender's memory; only over a fabric with direct memory.
    ByReference(ByReference),
    /// A reference to memory of another process; its sender learns when it is dropped.
    Foreign(Foreign),
    /// Memory of a process on another host, to be read into place; its sender learns when it is dropped.
    Far(Box<Far>),
}

impl Payload {
    /// An inline payload, or bytes of their own where `data` is longer than [`INLINE_MAX`].
    pub fn copy_of(data: &[u8]) -> Payload {
        if data.len() > INLINE_MAX {
            return Payload::Bytes(data.into());
        }
        let mut bytes = [0; INLINE_MAX];
        bytes[..data.len()].copy_from_slice(data);
        Payload::Inline { len: data.len() as u8, bytes }
    }

    /// The payload's bytes; `None` where it is a reference.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Payload::None => Some(&[]),
            Payload::Inline { len, bytes } => Some(&bytes[..usize::from(*len).min(INLINE_MAX)]),
            Payload::Bytes(bytes) => Some(bytes),
            Payload::Lent(lent) => Some(lent.bytes()),
            Payload::Placed(_) | Payload::ByReference(_) | Payload::Foreign(_) | Payload::Far(_) => None,
        }
    }

    /// Bytes of payload, however carried.
    pub fn len(&self) -> usize {
        match self {
            Payload::None => 0,
            Payload::Inline { len, .. } => usize::from(*len).min(INLINE_MAX),
            Payload::Bytes(bytes) => bytes.len(),
            Payload::Lent(lent) => lent.bytes().len(),
            Payload::Foreign(foreign) => foreign.len(),
            Payload::Far(far) => far.len(),
            Payload::Placed(len) => *len as usize,
            Payload::ByReference(direct) => direct.runs().map(|run| run.len as usize).sum(),
        }
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// One packet. Fields that a [`Kind`] does not name are zero.
#[derive(Debug)]
pub struct Packet {
    /// Sender: the origin's port for requests, the target's for responses.
    pub source: Address,
    /// Receiver.
    pub destination: Address,
    /// What the receiver does with it.
    pub kind: Kind,
    /// Command as notifications report it (spec 2.2); may be an illegal one where `error` is set.
    pub command: CommandCode,
    /// Notifications asked for.
    pub spec: Spec,
    /// Modifiers; with MC `destination.node` is a multicast group.
    pub modifier: Modifier,
    /// How the command runs, as notifications report it (spec 3.1).
    pub mode: Mode,
    /// Units that met an error so far.
    pub error: ErrorUnits,
    /// Traffic class 0..3.
    pub tc: u8,
    /// Protection id of the sender's port; of the SMFU, which has none, the code of an atomic operation.
    pub protection: u16,
    /// Payload bytes of a full fragment at the sender (MTU - 16): how a direct packet would have been cut.
    pub fragment: u16,
    /// Address at the receiver of the first byte of this packet (NLA, bus address or register offset, by `mode`).
    pub address: u64,
    /// Second word, by kind.
    pub aux: u64,
    /// Bytes that this packet carries.
    pub len: u32,
    /// Bytes of the whole command.
    pub total: u32,
    /// Offset of this packet's first byte in the whole command.
    pub offset: u32,
    /// The sender's count of commands; ties fragments of one command together.
    pub tag: u32,
    /// Which process is at the other end, where an address may have one after the other; [`ANYONE`] and [`NOBODY`].
    /// Of what is sent: the one that had the target's address when the card took the command, or sent the request that
    /// this answers; no other gets it. Of what arrives: the one that sent it.
    pub process: u32,
    /// The bytes.
    pub payload: Payload,
}

/// [`Packet::process`]: whoever has the address.
pub const ANYONE: u32 = 0;
/// [`Packet::process`]: nobody takes it any more, whoever has the address now.
pub const NOBODY: u32 = u32::MAX;

impl Packet {
    /// Network packets that it stands for: bulk payloads are cut arithmetically.
    #[inline]
    pub(crate) fn fragments(&self) -> u64 {
        let fragment = u32::from(self.fragment);
        if self.len <= fragment || fragment == 0 { 1 } else { u64::from(self.len.div_ceil(fragment)) }
    }

    /// Class it travels in.
    pub fn class(&self) -> Class {
        self.kind.class()
    }

    /// Whether it is the last packet of its command.
    pub fn is_last(&self) -> bool {
        u64::from(self.offset) + u64::from(self.len) >= u64::from(self.total)
    }

    /// A place for a packet: a notification of nothing.
    pub(crate) fn empty() -> Packet {
        Packet {
            source: Address::new(0, 0),
            destination: Address::new(0, 0),
            kind: Kind::Notification,
            command: CommandCode::default(),
            spec: Spec::NONE,
            modifier: Modifier::NONE,
            mode: Mode::default(),
            error: ErrorUnits::NONE,
            tc: 0,
            protection: 0,
            fragment: 0,
            address: 0,
            aux: 0,
            len: 0,
            total: 0,
            offset: 0,
            tag: 0,
            process: NOBODY,
            payload: Payload::None,
        }
    }

    /// The packet with its payload, which this one has no more.
    pub(crate) fn take(&mut self) -> Packet {
        Packet { payload: std::mem::take(&mut self.payload), ..*self }
    }

    /// A packet with this header for `len` bytes at `offset` of the command.
    pub fn part(&self, offset: u32, len: u32, payload: Payload) -> Packet {
        Packet { address: self.address.wrapping_add(u64::from(offset)), offset, len, payload, ..*self }
    }

    /// Appends the packet as the link layer sees it: header, then payload (a direct one counts as empty, since
    /// links that check bytes never carry references). The same packet always gives the same bytes.
    pub fn wire_bytes(&self, out: &mut Vec<u8>) {
        for address in [self.source, self.destination] {
            out.extend_from_slice(&address.node.to_le_bytes());
            out.push(address.vpid);
        }
        let small = [
            self.kind as u8,
            self.command.get(),
            self.spec.bits(),
            self.modifier.bits(),
            self.mode.bits(),
            self.error.bits(),
            self.tc,
        ];
        out.extend_from_slice(&small);
        out.extend_from_slice(&self.protection.to_le_bytes());
        out.extend_from_slice(&self.fragment.to_le_bytes());
        out.extend_from_slice(&self.address.to_le_bytes());
        out.extend_from_slice(&self.aux.to_le_bytes());
        for word in [self.len, self.total, self.offset, self.tag] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(self.payload.bytes().unwrap_or(&[]));
    }
}

/// Kept by whoever still reads memory of the sender. Dropping it tells the sender, from any thread and for any
/// reason (payload copied, packet thrown away, receiver gone).
#[derive(Debug)]
pub struct Hold(Arc<HoldState>);

/// The sender's side of a [`Hold`].
pub struct HoldState {
    done: AtomicBool,
    owner: std::sync::Weak<dyn Wake>,
}

impl Hold {
    /// A hold and the state that shows when it is dropped; `owner` is woken then.
    pub fn new(owner: std::sync::Weak<dyn Wake>) -> (Hold, Arc<HoldState>) {
        let state = Arc::new(HoldState { done: AtomicBool::new(false), owner });
        (Hold(state.clone()), state)
    }

    /// A hold that nobody waits for.
    pub(crate) fn of_nobody() -> Hold {
        struct Nobody;
        impl Wake for Nobody {
            fn wake(&self) {}
        }
        Hold::new(std::sync::Weak::<Nobody>::new()).0
    }
}

impl HoldState {
    /// Whether the hold was dropped: nobody reads the source any more.
    pub fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }
}

impl std::fmt::Debug for HoldState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HoldState").field("done", &self.is_done()).finish()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.done.store(true, Ordering::Release);
        if let Some(owner) = self.0.owner.upgrade() {
            owner.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_two_cache_lines() {
        assert!(size_of::<Packet>() <= 128, "{}", size_of::<Packet>());
    }

    #[test]
    fn payloads_keep_their_bytes() {
        for len in [0usize, 1, 8, 63, 64, 65, 496] {
            let data: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let payload = Payload::copy_of(&data);
            assert_eq!(payload.bytes(), Some(&data[..]));
            assert_eq!(payload.len(), len);
        }
    }
}

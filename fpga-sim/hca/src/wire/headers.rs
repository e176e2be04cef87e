//! A packet without its way: base header, what its operation code adds, payload.

use super::{Aeth, Opcode};

/// The partition key of a port that is a full member of the default partition.
pub const DEFAULT_PKEY: u16 = 0xffff;

/// The base transport header (IBTA 9.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bth {
    /// What the packet is.
    pub opcode: Opcode,
    /// Asks for an event at the receiver's completion queue.
    pub solicited: bool,
    /// Migration state; senders that know no migration set it.
    pub migrated: bool,
    /// Partition key.
    pub pkey: u16,
    /// Queue pair that the packet is for, 24 bits.
    pub destination: u32,
    /// Asks for an acknowledge.
    pub ack_request: bool,
    /// Packet sequence number, 24 bits.
    pub psn: u32,
}

/// Remote memory (RETH, IBTA 9.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reth {
    /// Virtual address at the responder.
    pub address: u64,
    /// Its key.
    pub rkey: u32,
    /// Bytes of the whole message.
    pub len: u32,
}

/// What an atomic operation does (AtomicETH, IBTA 9.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicRequest {
    /// Virtual address of eight aligned bytes at the responder.
    pub address: u64,
    /// Its key.
    pub rkey: u32,
    /// What is stored, or added.
    pub swap_add: u64,
    /// What the value is compared with, by compare-and-swap.
    pub compare: u64,
}

/// A packet of a reliable connection. Its operation code says which of the optional parts are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Base header.
    pub bth: Bth,
    /// Of reads, and of a write's first packet.
    pub reth: Option<Reth>,
    /// Of atomic operations.
    pub atomic: Option<AtomicRequest>,
    /// Of answers.
    pub aeth: Option<Aeth>,
    /// Of atomic operations' answers: the value before.
    pub original: Option<u64>,
    /// An immediate value, or the key to invalidate.
    pub immediate: Option<u32>,
    /// Payload, without padding.
    pub payload: Vec<u8>,
}

impl Packet {
    /// A packet with nothing but its base header.
    pub fn new(opcode: Opcode, destination: u32, psn: u32) -> Packet {
        let bth = Bth {
            opcode,
            solicited: false,
            migrated: true,
            pkey: DEFAULT_PKEY,
            destination,
            ack_request: false,
            psn,
        };
        Packet {
            bth,
            reth: None,
            atomic: None,
            aeth: None,
            original: None,
            immediate: None,
            payload: Vec::new(),
        }
    }

    /// Whether exactly those headers are there that the operation code asks for.
    pub fn has_its_headers(&self) -> bool {
        let opcode = self.bth.opcode;
        self.reth.is_some() == opcode.has_reth()
            && self.atomic.is_some() == opcode.is_atomic()
            && self.aeth.is_some() == opcode.has_aeth()
            && self.original.is_some() == (opcode == Opcode::AtomicAcknowledge)
            && self.immediate.is_some() == (opcode.has_immediate() || opcode.has_invalidate())
    }
}

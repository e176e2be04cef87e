//! Packets of reliable connections, and how they lie in IP datagrams.

mod decode;
mod encode;
mod headers;
mod icrc;
mod ip;
mod opcode;
pub mod psn;
mod syndrome;

pub use decode::decode;
pub use encode::encode;
pub use headers::{AtomicRequest, Bth, Packet, Reth};
pub use icrc::icrc;
pub use ip::{Flow, UDP_PORT};
pub use opcode::{Opcode, Place};
pub use syndrome::{Aeth, NO_CREDITS, Nak, RNR_NANOS, Syndrome, credit_code, credits_of_code};

/// Why a datagram is no packet of a reliable connection. All of these are thrown away in silence (IBTA 9.6, A17.9).
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// It ends before its headers do, or its lengths disagree.
    #[error("the datagram's length does not fit its headers: {0}")]
    Length(&'static str),
    /// No IPv4 or IPv6, a fragment, options, a wrong header checksum.
    #[error("no plain IP datagram: {0}")]
    Ip(&'static str),
    /// Not UDP to port 4791.
    #[error("not for RoCEv2's UDP port 4791")]
    Port,
    /// The invariant CRC differs.
    #[error("the ICRC is {found:#010x}, computed {computed:#010x}")]
    Icrc {
        /// As received.
        found: u32,
        /// Of what was received.
        computed: u32,
    },
    /// An operation code that reliable connections do not have.
    #[error("operation code {0:#04x} is none of reliable connections")]
    Opcode(u8),
    /// The transport version is not 0.
    #[error("transport header version {0} is not 0")]
    Version(u8),
    /// An acknowledge whose syndrome is reserved.
    #[error("AETH syndrome {0:#04x} is reserved")]
    Syndrome(u8),
}

ggas_errors::debug_as_display!(WireError);

/// Why a packet cannot be put into a datagram: the caller's mistake.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// Source and destination are not of one family.
    #[error("source and destination address are of different families: give two IPv4 or two IPv6 addresses")]
    Family,
    /// A header that the operation code needs is missing, or one that it has not is there.
    #[error("packet {opcode:?} has the wrong extension headers: compare Opcode's functions")]
    Headers {
        /// The packet's operation code.
        opcode: Opcode,
    },
    /// More payload than fits, or payload where there is none.
    #[error("packet {opcode:?} cannot carry {len} bytes of payload")]
    Payload {
        /// The packet's operation code.
        opcode: Opcode,
        /// Bytes.
        len: usize,
    },
}

ggas_errors::debug_as_display!(EncodeError);

/// Most bytes of payload in a packet: the largest path MTU (IBTA 9.3).
pub const MTU_MAX: usize = 4096;

#[cfg(test)]
mod tests;

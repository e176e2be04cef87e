//! How requests and completions lie in memory, for two families of adapters: mlx4 (ConnectX-2 and 3, the thesis' cards) and mlx5
//! (those after them). Both are as the public headers of the Linux kernel's drivers tell; no HCA has seen ours.

pub mod mlx4;
pub mod mlx5;

use crate::work::{Completion, Kind, Operation, Sge, Sges, Status};

/// The family of an adapter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// ConnectX-2 and ConnectX-3.
    #[default]
    Mlx4,
    /// ConnectX-4 and later, Connect-IB.
    Mlx5,
}

/// A request as it was found in a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// What it does; `None`: it makes no sense, and fails at its turn.
    pub operation: Option<Operation>,
    /// Its local memory.
    pub local: Sges,
    /// Wants a completion.
    pub signaled: bool,
    /// Wants an event at the peer.
    pub solicited: bool,
    /// Waits for reads and atomic operations before it.
    pub fence: bool,
}

impl Found {
    /// A request that makes no sense.
    fn bad() -> Found {
        Found { operation: None, local: Sges::default(), signaled: true, solicited: false, fence: false }
    }
}

/// Operation codes of requests, the same in both families.
mod opcode {
    pub const WRITE: u8 = 0x08;
    pub const WRITE_IMMEDIATE: u8 = 0x09;
    pub const SEND: u8 = 0x0a;
    pub const SEND_IMMEDIATE: u8 = 0x0b;
    pub const READ: u8 = 0x10;
    pub const COMPARE_SWAP: u8 = 0x11;
    pub const FETCH_ADD: u8 = 0x12;
}

/// Syndromes of completions with errors, the same in both families.
const SYNDROMES: [(u8, Status); 10] = [
    (0x01, Status::LocalLength),
    (0x02, Status::LocalOperation),
    (0x04, Status::LocalProtection),
    (0x05, Status::Flushed),
    (0x10, Status::BadResponse),
    (0x12, Status::RemoteInvalidRequest),
    (0x13, Status::RemoteAccess),
    (0x14, Status::RemoteOperation),
    (0x15, Status::RetryExceeded),
    (0x16, Status::NotReadyExceeded),
];

fn syndrome(status: Status) -> u8 {
    SYNDROMES.iter().find(|(_, of)| *of == status).map_or(0, |(byte, _)| *byte)
}

/// The status of a syndrome; `None`: success or unknown.
pub fn status(syndrome: u8) -> Option<Status> {
    SYNDROMES.iter().find(|(byte, _)| *byte == syndrome).map(|(_, status)| *status)
}

/// The operation code of a request's completion.
fn sent(kind: Kind) -> u8 {
    match kind {
        Kind::Write => opcode::WRITE,
        Kind::Read => opcode::READ,
        Kind::CompareSwap => opcode::COMPARE_SWAP,
        Kind::FetchAdd => opcode::FETCH_ADD,
        _ => opcode::SEND,
    }
}

/// A completion in the format of a family: 32 bytes or 64. `owner` is the owner bit.
pub fn completion(format: Format, completion: &Completion, owner: bool) -> ([u8; 64], usize) {
    let mut bytes = [0; 64];
    match format {
        Format::Mlx4 => mlx4::write_completion(completion, owner, &mut bytes),
        Format::Mlx5 => mlx5::write_completion(completion, owner, &mut bytes),
    }
    (bytes, completion_len(format))
}

/// Bytes of a completion.
pub fn completion_len(format: Format) -> usize {
    match format {
        Format::Mlx4 => mlx4::CQE_LEN,
        Format::Mlx5 => mlx5::CQE_LEN,
    }
}

fn be16(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).and_then(|bytes| bytes.try_into().ok()).map_or(0, u16::from_be_bytes)
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_be_bytes)
}

fn be64(bytes: &[u8], at: usize) -> u64 {
    u64::from(be32(bytes, at)) << 32 | u64::from(be32(bytes, at + 4))
}

/// Segments are 16 bytes; behind the control segment come those that the operation needs, then local memory.
fn body(code: u8, immediate: u32, segments: &[u8]) -> Option<(Operation, Sges)> {
    let (address, rkey) = (be64(segments, 0), be32(segments, 8));
    let (operation, local) = match code {
        opcode::SEND => (Operation::Send { immediate: None }, 0),
        opcode::SEND_IMMEDIATE => (Operation::Send { immediate: Some(immediate) }, 0),
        opcode::WRITE => (Operation::Write { address, rkey, immediate: None }, 16),
        opcode::WRITE_IMMEDIATE => (Operation::Write { address, rkey, immediate: Some(immediate) }, 16),
        opcode::READ => (Operation::Read { address, rkey }, 16),
        opcode::COMPARE_SWAP => {
            let (swap, compare) = (be64(segments, 16), be64(segments, 24));
            (Operation::CompareSwap { address, rkey, compare, swap }, 32)
        }
        opcode::FETCH_ADD => (Operation::FetchAdd { address, rkey, add: be64(segments, 16) }, 32),
        _ => return None,
    };
    // Reserved bits of the remote segment must be zero; segments that are not there cannot be read.
    if segments.len() < local || (local >= 16 && be32(segments, 12) != 0) {
        return None;
    }
    let mut sges = Sges::default();
    for segment in segments[local..].chunks_exact(16) {
        let len = be32(segment, 0);
        // The top bit says that data are in the request itself, which is not supported.
        if len >> 31 != 0 {
            return None;
        }
        if len > 0 {
            sges.push(Sge { address: be64(segment, 8), len, lkey: be32(segment, 4) });
        }
    }
    Some((operation, sges))
}

/// Writes what stands behind the control segment; returns its bytes.
fn write_body(operation: &Operation, local: &Sges, out: &mut [u8]) -> Option<usize> {
    let mut at = 0;
    let mut put = |bytes: &[u8]| -> Option<()> {
        out.get_mut(at..at + bytes.len())?.copy_from_slice(bytes);
        at += bytes.len();
        Some(())
    };
    match *operation {
        Operation::Send { .. } => {}
        Operation::Write { address, rkey, .. }
        | Operation::Read { address, rkey }
        | Operation::CompareSwap { address, rkey, .. }
        | Operation::FetchAdd { address, rkey, .. } => {
            put(&address.to_be_bytes())?;
            put(&(u64::from(rkey) << 32).to_be_bytes())?;
        }
    }
    match *operation {
        Operation::CompareSwap { compare, swap, .. } => {
            put(&swap.to_be_bytes())?;
            put(&compare.to_be_bytes())?;
        }
        Operation::FetchAdd { add, .. } => {
            put(&add.to_be_bytes())?;
            put(&[0; 8])?;
        }
        _ => {}
    }
    for sge in local.iter() {
        put(&sge.len.to_be_bytes())?;
        put(&sge.lkey.to_be_bytes())?;
        put(&sge.address.to_be_bytes())?;
    }
    Some(at)
}

fn code(operation: &Operation) -> (u8, u32) {
    match *operation {
        Operation::Send { immediate: None } => (opcode::SEND, 0),
        Operation::Send { immediate: Some(value) } => (opcode::SEND_IMMEDIATE, value),
        Operation::Write { immediate: None, .. } => (opcode::WRITE, 0),
        Operation::Write { immediate: Some(value), .. } => (opcode::WRITE_IMMEDIATE, value),
        Operation::Read { .. } => (opcode::READ, 0),
        Operation::CompareSwap { .. } => (opcode::COMPARE_SWAP, 0),
        Operation::FetchAdd { .. } => (opcode::FETCH_ADD, 0),
    }
}

#[cfg(test)]
mod tests;

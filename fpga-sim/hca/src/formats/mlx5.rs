//! mlx5: a request is a control segment and further ones of 16 bytes, in blocks of 64; how many there are says a counter in memory. A
//! completion is 64 bytes with an owner bit in the last one.

use super::{Found, be16, be32, body, code, opcode, sent, status, syndrome, write_body};
use crate::work::{Completion, Kind, SendWork, Status};

/// Bytes of a completion.
pub const CQE_LEN: usize = 64;
/// Bytes of a block of the send queue.
pub const BLOCK: usize = 64;
/// Offset of the doorbell in the page of a context: the first 8 bytes of the request's control segment.
pub const SEND_DOORBELL: u64 = 0x800;

const COMPLETION: u8 = 2 << 2;
const SOLICITED: u8 = 1 << 1;
const FENCE: u8 = 4 << 5;
/// Fence modes, completion modes, solicited.
const KNOWN: u8 = 0xee;

/// Bytes of a request whose control segment begins with these 8 bytes.
pub fn len(control: &[u8]) -> usize {
    control.get(7).map_or(0, |byte| usize::from(byte & 0x3f) * 16)
}

/// Reads a request of queue pair `qp` with number `index`.
pub fn read(bytes: &[u8], qp: u32, index: u16) -> Found {
    if bytes.len() < 16 {
        return Found::bad();
    }
    let (first, second, flags) = (be32(bytes, 0), be32(bytes, 4), bytes[11]);
    let named = first >> 24 == 0 && (first >> 8) as u16 == index && second >> 8 == qp;
    if !named || second & 0xc0 != 0 || flags & !KNOWN != 0 || bytes[8] | bytes[9] | bytes[10] != 0 {
        return Found::bad();
    }
    match body(first as u8, be32(bytes, 12), &bytes[16..]) {
        Some((operation, local)) => Found {
            operation: Some(operation),
            local,
            signaled: flags & 0x0c == COMPLETION,
            solicited: flags & SOLICITED != 0,
            fence: flags & 0xe0 != 0,
        },
        None => Found::bad(),
    }
}

/// Writes a request of queue pair `qp` with number `index`; returns its bytes. `None`: `out` is too small.
pub fn write(work: &SendWork, qp: u32, index: u16, out: &mut [u8]) -> Option<usize> {
    let len = 16 + write_body(&work.operation, &work.local, out.get_mut(16..)?)?;
    let (code, immediate) = code(&work.operation);
    let flags = [(work.signaled, COMPLETION), (work.solicited, SOLICITED), (work.fence, FENCE)];
    let flags = flags.iter().filter(|(set, _)| *set).fold(0, |flags, (_, bit)| flags | bit);
    out[..4].copy_from_slice(&(u32::from(index) << 8 | u32::from(code)).to_be_bytes());
    out[4..8].copy_from_slice(&(qp << 8 | (len / 16) as u32).to_be_bytes());
    out[8..12].copy_from_slice(&[0, 0, 0, flags]);
    out[12..16].copy_from_slice(&immediate.to_be_bytes());
    Some(len)
}

/// Writes a completion.
pub(super) fn write_completion(completion: &Completion, owner: bool, out: &mut [u8; 64]) {
    let success = completion.status == Status::Success;
    let code = match (success, completion.kind, completion.immediate) {
        (true, Kind::ReceiveWrite, _) => 1,
        (true, Kind::Receive, None) => 2,
        (true, Kind::Receive, Some(_)) => 3,
        (true, ..) => 0,
        (false, kind, _) if kind.is_receive() => 14,
        (false, ..) => 13,
    };
    out[60..62].copy_from_slice(&(completion.id as u16).to_be_bytes());
    let operation = if completion.kind.is_receive() { 0 } else { sent(completion.kind) };
    let word = u32::from(operation) << 24 | completion.qp & 0xff_ffff;
    out[56..60].copy_from_slice(&word.to_be_bytes());
    if success {
        out[36..40].copy_from_slice(&completion.immediate.unwrap_or(0).to_be_bytes());
        out[44..48].copy_from_slice(&completion.len.to_be_bytes());
    } else {
        out[55] = syndrome(completion.status);
    }
    out[63] = code << 4 | u8::from(owner);
}

/// Reads a completion of 64 bytes, and its owner bit. `None`: no code that is known.
pub fn read_completion(bytes: &[u8]) -> Option<(Completion, bool)> {
    let last = *bytes.get(63)?;
    let word = be32(bytes, 56);
    let (kind, status) = match last >> 4 {
        0 | 13 => {
            let kind = match (word >> 24) as u8 {
                opcode::WRITE | opcode::WRITE_IMMEDIATE => Kind::Write,
                opcode::READ => Kind::Read,
                opcode::COMPARE_SWAP => Kind::CompareSwap,
                opcode::FETCH_ADD => Kind::FetchAdd,
                _ => Kind::Send,
            };
            (kind, if last >> 4 == 0 { Status::Success } else { status(bytes[55])? })
        }
        1 => (Kind::ReceiveWrite, Status::Success),
        2 | 3 => (Kind::Receive, Status::Success),
        14 => (Kind::Receive, status(bytes[55])?),
        _ => return None,
    };
    let success = status == Status::Success;
    let completion = Completion {
        id: u64::from(be16(bytes, 60)),
        qp: word & 0xff_ffff,
        status,
        kind,
        len: if success { be32(bytes, 44) } else { 0 },
        immediate: matches!(last >> 4, 1 | 3).then(|| be32(bytes, 36)),
        solicited: false,
    };
    Some((completion, last & 1 != 0))
}

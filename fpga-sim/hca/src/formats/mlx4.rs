//! mlx4: a request is a control segment (16 bytes), segments of 16 bytes; whose it is says the top bit of its first word, which
//! turns with each round of the ring. A completion is 32 bytes with an owner bit in the last one.

use super::{Found, be16, be32, body, code, sent, status, syndrome, write_body};
use crate::work::{Completion, Kind, SendWork, Status};

/// Bytes of a completion.
pub const CQE_LEN: usize = 32;
/// Offset of the doorbell for sends in the page of a context: 4 bytes, the number of the queue pair shifted by 8, big-endian.
pub const SEND_DOORBELL: u64 = 0x14;
/// The key of a receive's first unused piece.
pub const INVALID_LKEY: u32 = 0x100;
/// What old requests are overwritten with, every 64 bytes, so that an adapter that reads ahead finds none (stamping).
pub const STAMP: u32 = 0xffff_ffff;

const OWNER: u32 = 1 << 31;
/// Bits of the first word that are neither owner nor operation code nor those that kinds not built here use.
const RESERVED: u32 = 0x7fff_ff00;
const FENCE: u8 = 1 << 6;
const COMPLETION: u32 = 3 << 2;
const SOLICITED: u32 = 1 << 1;
const CQE_OWNER: u8 = 1 << 7;
const CQE_SENT: u8 = 1 << 6;
const CQE_ERROR: u8 = 0x1e;

/// Whether a request that begins with `first` (as read, big-endian) is new in round `round` of its ring.
pub fn is_new(first: u32, round: bool) -> bool {
    first != STAMP && (first & OWNER != 0) == round
}

/// Bytes of a request whose control segment begins with these 8 bytes.
pub fn len(control: &[u8]) -> usize {
    control.get(7).map_or(0, |byte| usize::from(byte & 0x3f) * 16)
}

/// Reads a request of `len()` bytes.
pub fn read(bytes: &[u8]) -> Found {
    let (first, flags, size) = (be32(bytes, 0), be32(bytes, 8), bytes.get(7).copied().unwrap_or(0));
    let found = |operation, local| Found {
        operation,
        local,
        signaled: flags & COMPLETION != 0,
        solicited: flags & SOLICITED != 0,
        fence: size & FENCE != 0,
    };
    let reserved = first & RESERVED != 0 || size & 0x80 != 0 || be32(bytes, 4) & 0xffff_ff00 != 0;
    if bytes.len() < 16 || reserved {
        return Found::bad();
    }
    match body((first & 0x1f) as u8, be32(bytes, 12), &bytes[16..]) {
        Some((operation, local)) => found(Some(operation), local),
        None => Found::bad(),
    }
}

/// Writes a request; returns its bytes. The first word is to be stored last. `None`: `out` is too small.
pub fn write(work: &SendWork, round: bool, out: &mut [u8]) -> Option<usize> {
    let len = 16 + write_body(&work.operation, &work.local, out.get_mut(16..)?)?;
    let (code, immediate) = code(&work.operation);
    let first = u32::from(code) | if round { OWNER } else { 0 };
    let size = (len / 16) as u8 | if work.fence { FENCE } else { 0 };
    let completion = if work.signaled { COMPLETION } else { 0 };
    let flags = completion | if work.solicited { SOLICITED } else { 0 };
    out[..4].copy_from_slice(&first.to_be_bytes());
    out[4..8].copy_from_slice(&u32::from(size).to_be_bytes());
    out[8..12].copy_from_slice(&flags.to_be_bytes());
    out[12..16].copy_from_slice(&immediate.to_be_bytes());
    Some(len)
}

/// Writes a completion.
pub(super) fn write_completion(completion: &Completion, owner: bool, out: &mut [u8; 64]) {
    out[..4].copy_from_slice(&(completion.qp & 0xff_ffff).to_be_bytes());
    let index = (completion.id as u16).to_be_bytes();
    out[24..26].copy_from_slice(&index);
    let sent_here = if completion.kind.is_receive() { 0 } else { CQE_SENT };
    let code = match (completion.status, completion.kind, completion.immediate) {
        (Status::Success, Kind::ReceiveWrite, _) => 0x00,
        (Status::Success, Kind::Receive, None) => 0x01,
        (Status::Success, Kind::Receive, Some(_)) => 0x02,
        (Status::Success, kind, _) => sent(kind),
        _ => CQE_ERROR,
    };
    if code == CQE_ERROR {
        out[27] = syndrome(completion.status);
    } else {
        out[4..8].copy_from_slice(&completion.immediate.unwrap_or(0).to_be_bytes());
        out[20..24].copy_from_slice(&completion.len.to_be_bytes());
    }
    out[31] = code | sent_here | if owner { CQE_OWNER } else { 0 };
}

/// Reads a completion of 32 bytes, and its owner bit. `None`: no code that is known.
pub fn read_completion(bytes: &[u8]) -> Option<(Completion, bool)> {
    let last = *bytes.get(31)?;
    let code = last & 0x1f;
    let sent_here = last & CQE_SENT != 0;
    let status = if code == CQE_ERROR { status(bytes[27])? } else { Status::Success };
    let kind = match (sent_here, code) {
        (true, 0x08 | 0x09) => Kind::Write,
        (true, 0x10) => Kind::Read,
        (true, 0x11) => Kind::CompareSwap,
        (true, 0x12) => Kind::FetchAdd,
        (true, 0x0a | 0x0b | CQE_ERROR) => Kind::Send,
        (false, 0x00) => Kind::ReceiveWrite,
        (false, 0x01 | 0x02 | CQE_ERROR) => Kind::Receive,
        _ => return None,
    };
    let immediate = matches!((sent_here, code), (false, 0x00 | 0x02)).then(|| be32(bytes, 4));
    let len = if code == CQE_ERROR { 0 } else { be32(bytes, 20) };
    let completion = Completion {
        id: u64::from(be16(bytes, 24)),
        qp: be32(bytes, 0) & 0xff_ffff,
        status,
        kind,
        len,
        immediate,
        solicited: false,
    };
    Some((completion, last & CQE_OWNER != 0))
}

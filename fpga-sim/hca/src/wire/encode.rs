//! Packets into datagrams.

use super::{EncodeError, Flow, MTU_MAX, Packet, icrc, psn};

/// Appends the datagram of `packet` to `out`: IP, UDP, headers, payload, padding and ICRC. Returns its length.
///
/// # Errors
/// [`EncodeError`]; nothing was appended then.
pub fn encode(flow: &Flow, packet: &Packet, out: &mut Vec<u8>) -> Result<usize, EncodeError> {
    let Packet { bth, payload, .. } = packet;
    let opcode = bth.opcode;
    if !packet.has_its_headers() {
        return Err(EncodeError::Headers { opcode });
    }
    let len = payload.len();
    if len > MTU_MAX || (len > 0 && !opcode.has_payload()) {
        return Err(EncodeError::Payload { opcode, len });
    }
    let pad = len.wrapping_neg() & 3;
    let start = out.len();
    let body = 12 + opcode.extended_len() + len + pad + 4;
    out.reserve(48 + body);
    flow.write(body, out)?;
    let ip_len = out.len() - start - 8;

    let flags = u8::from(bth.solicited) << 7 | u8::from(bth.migrated) << 6 | (pad as u8) << 4;
    out.extend_from_slice(&[opcode as u8, flags]);
    out.extend_from_slice(&bth.pkey.to_be_bytes());
    out.extend_from_slice(&(bth.destination & 0xff_ffff).to_be_bytes());
    out.extend_from_slice(&(u32::from(bth.ack_request) << 31 | bth.psn & psn::MASK).to_be_bytes());
    extended(packet, out);
    out.extend_from_slice(payload);
    out.extend_from_slice(&[0; 3][..pad]);
    // Never `None`: the headers were just written.
    let crc = icrc(&out[start..], ip_len).unwrap_or_default();
    out.extend_from_slice(&crc.to_le_bytes());
    Ok(out.len() - start)
}

/// The headers between BTH and payload, in the order of the standard.
fn extended(packet: &Packet, out: &mut Vec<u8>) {
    if let Some(reth) = &packet.reth {
        out.extend_from_slice(&reth.address.to_be_bytes());
        out.extend_from_slice(&reth.rkey.to_be_bytes());
        out.extend_from_slice(&reth.len.to_be_bytes());
    }
    if let Some(atomic) = &packet.atomic {
        out.extend_from_slice(&atomic.address.to_be_bytes());
        out.extend_from_slice(&atomic.rkey.to_be_bytes());
        out.extend_from_slice(&atomic.swap_add.to_be_bytes());
        out.extend_from_slice(&atomic.compare.to_be_bytes());
    }
    if let Some(aeth) = &packet.aeth {
        let word = u32::from(aeth.syndrome.byte()) << 24 | aeth.msn & psn::MASK;
        out.extend_from_slice(&word.to_be_bytes());
    }
    if let Some(original) = packet.original {
        out.extend_from_slice(&original.to_be_bytes());
    }
    if let Some(immediate) = packet.immediate {
        out.extend_from_slice(&immediate.to_be_bytes());
    }
}

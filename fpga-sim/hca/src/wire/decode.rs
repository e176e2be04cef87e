//! Datagrams into packets.

use super::{Aeth, AtomicRequest, Bth, Flow, Opcode, Packet, Reth, Syndrome, WireError, icrc, psn};

/// Takes bytes from the front; ends where there are none left.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(WireError::Length("transport headers"))?;
        self.0 = rest;
        Ok(*head)
    }

    fn u32(&mut self) -> Result<u32, WireError> {
        Ok(u32::from_be_bytes(self.take()?))
    }

    fn u64(&mut self) -> Result<u64, WireError> {
        Ok(u64::from_be_bytes(self.take()?))
    }
}

/// Reads a datagram that begins with its IP header; bytes behind its length are ignored.
///
/// Reserved bits are ignored, as the standard asks of receivers. Sizes are not compared with an MTU: that is the queue
/// pair's.
///
/// # Errors
/// [`WireError`]: whatever it says, a port throws the datagram away in silence.
pub fn decode(datagram: &[u8]) -> Result<(Flow, Packet), WireError> {
    let (flow, ip_len, datagram) = Flow::read(datagram)?;
    let (covered, found) = datagram.split_last_chunk::<4>().ok_or(WireError::Length("ICRC"))?;
    let computed = icrc(covered, ip_len).ok_or(WireError::Length("BTH"))?;
    let found = u32::from_le_bytes(*found);
    if found != computed {
        return Err(WireError::Icrc { found, computed });
    }
    let packet = packet(&covered[ip_len + 8..])?;
    Ok((flow, packet))
}

/// Reads what lies between UDP header and ICRC.
fn packet(bytes: &[u8]) -> Result<Packet, WireError> {
    let mut reader = Reader(bytes);
    let [code, flags, key @ ..] = reader.take::<4>()?;
    let destination = reader.u32()?;
    let last = reader.u32()?;
    let opcode = Opcode::of(code).ok_or(WireError::Opcode(code))?;
    if flags & 0xf != 0 {
        return Err(WireError::Version(flags & 0xf));
    }
    let bth = Bth {
        opcode,
        solicited: flags & 0x80 != 0,
        migrated: flags & 0x40 != 0,
        pkey: u16::from_be_bytes(key),
        destination: destination & 0xff_ffff,
        ack_request: last >> 31 != 0,
        psn: last & psn::MASK,
    };
    let mut packet = Packet { bth, ..Packet::new(opcode, 0, 0) };
    if opcode.has_reth() {
        packet.reth = Some(Reth { address: reader.u64()?, rkey: reader.u32()?, len: reader.u32()? });
    }
    if opcode.is_atomic() {
        let (address, rkey) = (reader.u64()?, reader.u32()?);
        packet.atomic =
            Some(AtomicRequest { address, rkey, swap_add: reader.u64()?, compare: reader.u64()? });
    }
    if opcode.has_aeth() {
        let word = reader.u32()?;
        packet.aeth = Some(Aeth { syndrome: Syndrome::of((word >> 24) as u8)?, msn: word & psn::MASK });
    }
    if opcode == Opcode::AtomicAcknowledge {
        packet.original = Some(reader.u64()?);
    }
    if opcode.has_immediate() || opcode.has_invalidate() {
        packet.immediate = Some(reader.u32()?);
    }
    let pad = usize::from(flags >> 4 & 3);
    let payload = reader.0;
    let len = payload.len().checked_sub(pad).ok_or(WireError::Length("pad count"))?;
    if !payload.len().is_multiple_of(4) {
        return Err(WireError::Length("no multiple of four bytes"));
    }
    if !payload.is_empty() && !opcode.has_payload() {
        return Err(WireError::Length("payload where there is none"));
    }
    packet.payload = payload[..len].to_vec();
    Ok(packet)
}

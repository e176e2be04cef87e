//! Remote register access: payloads from registers, and to them, word by word (spec 1.2).

use crate::memory::{Memory, MemoryError};
use crate::packet::{ByReference, Packet, Payload};
use crate::units::responder::REGISTER_ACCESS_MAX;

/// `len` bytes of registers from `offset` on.
pub(super) fn read_registers(offset: u64, len: u32, mut read: impl FnMut(u64) -> u64) -> Payload {
    let mut buffer = [0; REGISTER_ACCESS_MAX as usize];
    let bytes = &mut buffer[..(len.min(REGISTER_ACCESS_MAX)) as usize];
    for (i, word) in bytes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        *word = read(offset.wrapping_add(8 * i as u64)).to_le_bytes();
    }
    Payload::copy_of(bytes)
}

/// Takes a put's payload to the registers at its address.
pub(super) fn write_registers(
    memory: &dyn Memory,
    packet: &mut Packet,
    mut write: impl FnMut(u64, u64),
) -> Result<(), MemoryError> {
    let mut buffer = [0; REGISTER_ACCESS_MAX as usize];
    let payload = std::mem::take(&mut packet.payload);
    // The completer has checked that payload and header agree, and that both are short enough.
    let Some(bytes) = buffer.get_mut(..payload.len()) else { return Ok(()) };
    match &payload {
        Payload::ByReference(direct) => read_all(memory, direct, bytes)?,
        Payload::Foreign(foreign) => foreign.read(bytes),
        payload => bytes.copy_from_slice(payload.bytes().unwrap_or(&[])),
    }
    for (i, word) in bytes.as_chunks::<8>().0.iter().enumerate() {
        write(packet.address.wrapping_add(8 * i as u64), u64::from_le_bytes(*word));
    }
    Ok(())
}

fn read_all(memory: &dyn Memory, direct: &ByReference, out: &mut [u8]) -> Result<(), MemoryError> {
    let mut at = 0;
    for run in direct.runs() {
        memory.read(run.address, &mut out[at..at + run.len as usize])?;
        at += run.len as usize;
    }
    Ok(())
}

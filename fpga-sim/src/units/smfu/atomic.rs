//! Atomic operations on memory of other nodes: of the model, no card's SMFU has them. The target's card carries one out as a CPU does,
//! so it is atomic with what kernels and programs do to the same word of host memory. It goes the way that stores go, so it comes
//! behind those of before. Device memory has no operations that are atomic with its own kernels': there it is refused.

use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use extoll_abi::regs::{EXTOLL_SMFU_RRA_BYTES, EXTOLL_SMFU_TC_P_SHIFT};
use extoll_abi::{Atomic, Mode};

use super::load::Load;
use super::{Ingress, Smfu, SmfuError};
use crate::memory::{Memory, MemoryError};
use crate::packet::{Kind, Packet, Payload};

/// Why a target did not carry an access out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Refusal {
    /// There is no memory, or the word is not aligned there.
    Address = 0,
    /// The memory is a device's.
    Device = 1,
    /// It is no operation on memory.
    Operation = 2,
}

impl Refusal {
    /// As a reply says it.
    pub(super) fn of(aux: u64) -> Refusal {
        match aux {
            1 => Refusal::Device,
            2 => Refusal::Operation,
            _ => Refusal::Address,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::Address => "it has no aligned word there; check its target base registers",
            Refusal::Device => {
                "its memory there is a device's, which has no atomics for others; use loads and stores, or locks of RMA"
            }
            Refusal::Operation => "it knows no such operation; have all nodes run the same version",
        })
    }
}

impl From<MemoryError> for Refusal {
    fn from(error: MemoryError) -> Refusal {
        if let MemoryError::Device { .. } = error { Refusal::Device } else { Refusal::Address }
    }
}

impl Smfu {
    /// Starts an atomic operation on the word at `offset` in the window. Its reply is what was there, of as many bytes.
    pub fn atomic(&self, now: Instant, offset: u64, atomic: Atomic) -> Result<Load<'_>, SmfuError> {
        let bytes = atomic.width().bytes();
        self.check_atomic(offset, bytes)?;
        Ok(Load::begin(self, now, (offset, bytes), Some(atomic)))
    }

    /// The same, posted: the packet to send. It counts when it is [`sent`](Self::sent).
    pub fn reduce(&self, offset: u64, atomic: Atomic) -> Result<Packet, SmfuError> {
        self.check_atomic(offset, atomic.width().bytes())?;
        Ok(self.atomic_request(Kind::SmfuReduce, offset, atomic, EXTOLL_SMFU_TC_P_SHIFT))
    }

    fn check_atomic(&self, offset: u64, len: usize) -> Result<(), SmfuError> {
        self.check(offset, len)?;
        if offset < EXTOLL_SMFU_RRA_BYTES || !offset.is_multiple_of(len as u64) {
            return Err(SmfuError::NoWord { offset, len });
        }
        Ok(())
    }

    pub(super) fn atomic_request(&self, kind: Kind, offset: u64, atomic: Atomic, tc_shift: u64) -> Packet {
        let code = atomic.code();
        let operands = atomic.operands();
        let operands = &operands[..Atomic::operand_bytes(code).unwrap_or(0)];
        let packet = self.request(kind, offset, operands.len(), tc_shift);
        Packet { protection: code, payload: Payload::copy_of(operands), ..packet }
    }

    pub(super) fn ingress_atomic(&self, packet: &Packet, memory: &dyn Memory) -> Ingress {
        let done = self.carry_out(packet, memory);
        if done.is_err() {
            self.errors.refused.fetch_add(1, Relaxed);
        }
        if packet.kind == Kind::SmfuReduce {
            return Ingress::Done; // nobody waits for it
        }
        Ingress::Reply(match done {
            Ok((old, bytes)) => self.answer(packet, Ok(&old.to_le_bytes()[..bytes])),
            Err(refusal) => self.answer(packet, Err(refusal)),
        })
    }

    /// What was there, and of how many bytes that is.
    fn carry_out(&self, packet: &Packet, memory: &dyn Memory) -> Result<(u64, usize), Refusal> {
        let operands = packet.payload.bytes().unwrap_or(&[]);
        let atomic = Atomic::decode(packet.protection, operands).ok_or(Refusal::Operation)?;
        if packet.mode.contains(Mode::RRA) {
            return Err(Refusal::Operation); // registers have none
        }
        let old = memory.fetch_modify(self.target(packet), atomic.width(), &|old| atomic.apply(old))?;
        Ok((old, atomic.width().bytes()))
    }
}

//! Atomic operations on memory of other nodes: of the model, no card's SMFU has them. The target's card carries one out as a CPU does,
//! so it is atomic with what kernels and programs do to the same word of host memory. It goes the way that stores go, so it comes
//! behind those of before. In device memory the device's copier does it, atomically with what kernels there do; packets behind it wait.
//! Where the copier cannot, it is refused: reading and writing by copies would not be atomic.

use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use extoll_abi::regs::{EXTOLL_SMFU_RRA_BYTES, EXTOLL_SMFU_TC_P_SHIFT};
use extoll_abi::{Atomic, Mode};

use super::load::Load;
use super::{Ingress, Smfu, SmfuError};
use crate::memory::{Memory, MemoryError, Ticket};
use crate::packet::{Kind, Packet, Payload};

/// What to do where a target does not know a window.
pub(super) const NO_WINDOW: &str = "the window is not open there: it was dropped, is not made yet, or nodes made windows in different orders";

/// Why a target did not carry an access out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Refusal {
    /// There is no memory, or the word is not aligned there.
    Address = 0,
    /// The memory is a device's that cannot carry it out now.
    Device = 1,
    /// It is no operation on memory.
    Operation = 2,
    /// The device failed that was to carry it out, and may have.
    Failed = 3,
    /// It has no part of the window.
    Window = 4,
}

impl Refusal {
    /// As a reply says it.
    pub(super) fn of(aux: u64) -> Refusal {
        match aux {
            1 => Refusal::Device,
            2 => Refusal::Operation,
            3 => Refusal::Failed,
            4 => Refusal::Window,
            _ => Refusal::Address,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::Address => "it has no aligned word there; check its target base registers",
            Refusal::Device => {
                "its memory there is a device's, which has atomics for others only while its copier runs; use loads and stores, or \
                 locks of RMA"
            }
            Refusal::Operation => "it knows no such operation; have all nodes run the same version",
            Refusal::Failed => "its device failed and may have done it; look at the target's log",
            Refusal::Window => NO_WINDOW,
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

    /// Carries out what came, or came before and found the device busy.
    pub fn ingress_atomic(&self, packet: Packet, memory: &dyn Memory) -> Ingress {
        let replies = packet.kind != Kind::SmfuReduce; // else nobody waits for it
        match self.carry_out(&packet, memory) {
            Ok(Carried::Busy) => Ingress::Again(packet),
            Ok(Carried::Begun(ticket)) if replies => Ingress::Fetch { ticket, request: packet },
            Ok(Carried::Begun(ticket)) => Ingress::Pending(ticket),
            Ok(Carried::Out(old, bytes)) if replies => {
                Ingress::Reply(self.answer(&packet, Ok(&old.to_le_bytes()[..bytes])))
            }
            Ok(Carried::Out(..)) => Ingress::Done,
            Err(refusal) => {
                // Of windows that are not there is counted elsewhere.
                if refusal != Refusal::Window {
                    self.errors.refused.fetch_add(1, Relaxed);
                }
                if replies { Ingress::Reply(self.answer(&packet, Err(refusal))) } else { Ingress::Done }
            }
        }
    }

    fn carry_out(&self, packet: &Packet, memory: &dyn Memory) -> Result<Carried, Refusal> {
        let operands = packet.payload.bytes().unwrap_or(&[]);
        let atomic = Atomic::decode(packet.protection, operands).ok_or(Refusal::Operation)?;
        if packet.mode.contains(Mode::RRA) {
            return Err(Refusal::Operation); // registers have none
        }
        let (word, width) = (self.target(packet)?, atomic.width());
        match memory.fetch_modify(word, width, &|old| atomic.apply(old)) {
            Err(MemoryError::Device { .. }) => {
                Ok(memory.modify(word, atomic)?.map_or(Carried::Busy, Carried::Begun))
            }
            done => Ok(Carried::Out(done?, width.bytes())),
        }
    }
}

/// How far an operation is.
enum Carried {
    /// It is done: what was there, and of how many bytes that is.
    Out(u64, usize),
    /// A device does it.
    Begun(Ticket),
    /// A device will, later.
    Busy,
}

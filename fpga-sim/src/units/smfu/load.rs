//! Accesses that wait for replies: loads, and atomic operations that bring what was there.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use extoll_abi::Atomic;
use extoll_abi::regs::EXTOLL_SMFU_TC_NP_SHIFT;

use super::{Refusal, Smfu, SmfuError, pieces};
use crate::packet::{Kind, Packet};

/// A piece of a load: where its bytes go.
struct Piece {
    load: u64,
    at: usize,
    len: usize,
}

struct Waiting {
    bytes: Vec<u8>,
    missing: usize,
    failed: Option<Refusal>,
}

/// Those of a card.
#[derive(Default)]
pub(super) struct Loads {
    pieces: HashMap<u32, Piece>,
    waiting: HashMap<u64, Waiting>,
    next: u64,
}

impl Loads {
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    fn begin(&mut self, len: usize) -> u64 {
        let id = self.next;
        self.next += 1;
        self.waiting.insert(id, Waiting { bytes: vec![0; len], missing: len, failed: None });
        id
    }

    /// Takes a reply; `false` where nobody waits for it any more.
    pub fn take(&mut self, reply: &Packet) -> bool {
        let Some(piece) = self.pieces.remove(&reply.tag) else { return false };
        let Some(load) = self.waiting.get_mut(&piece.load) else { return false };
        load.missing -= piece.len;
        match reply.payload.bytes() {
            Some(bytes) if bytes.len() == piece.len => {
                load.bytes[piece.at..piece.at + piece.len].copy_from_slice(bytes);
            }
            _ => load.failed = Some(Refusal::of(reply.aux)),
        }
        true
    }
}

/// A load or an atomic operation under way. Dropping it gives it up; replies that still come are counted as strays.
pub struct Load<'a> {
    smfu: &'a Smfu,
    id: u64,
    offset: u64,
    len: usize,
    sent: usize,
    start: Instant,
    /// What is to be done with what is loaded.
    atomic: Option<Atomic>,
}

impl<'a> Load<'a> {
    pub(super) fn begin(
        smfu: &'a Smfu,
        start: Instant,
        (offset, len): (u64, usize),
        atomic: Option<Atomic>,
    ) -> Load<'a> {
        let id = smfu.loads().begin(len);
        Load { smfu, id, offset, len, sent: 0, start, atomic }
    }

    /// The next request to send, 64 bytes at most; `None` when all were asked for. Each counts when it is [`sent`](Smfu::sent).
    pub fn request(&mut self) -> Option<Packet> {
        let (at, len) = pieces(self.offset + self.sent as u64, self.len - self.sent).next()?;
        let at = at + self.sent;
        let (smfu, offset) = (self.smfu, self.offset + at as u64);
        let packet = match self.atomic {
            // An aligned word is one piece.
            Some(atomic) => smfu.atomic_request(Kind::SmfuAtomic, offset, atomic, EXTOLL_SMFU_TC_NP_SHIFT),
            None => smfu.request(Kind::SmfuLoad, offset, len, EXTOLL_SMFU_TC_NP_SHIFT),
        };
        smfu.loads().pieces.insert(packet.tag, Piece { load: self.id, at, len });
        self.sent += len;
        Some(packet)
    }

    /// `None` while replies are missing. Then the outcome; the loaded bytes are in `out`, as many as asked for.
    /// Fails when `limit`, or the card's own timeout if that is shorter, has passed since the start.
    pub fn poll(&mut self, now: Instant, limit: Duration, out: &mut [u8]) -> Option<Result<(), SmfuError>> {
        let loads = self.smfu.loads();
        let load = loads.waiting.get(&self.id)?;
        let offset = self.offset;
        if load.missing == 0 {
            let len = out.len().min(load.bytes.len());
            out[..len].copy_from_slice(&load.bytes[..len]);
            return Some(match (load.failed, self.atomic) {
                (None, _) => Ok(()),
                (Some(Refusal::Window), _) => Err(SmfuError::Window { offset }),
                (Some(_), None) => Err(SmfuError::Target { offset }),
                (Some(refusal), Some(_)) => Err(SmfuError::Atomic { offset, refusal }),
            });
        }
        let waited = now.saturating_duration_since(self.start);
        let card = self.smfu.registers.timeout();
        let card_timed_out = card.is_some_and(|card| waited >= card);
        if card_timed_out || waited >= limit {
            self.smfu.errors.timeouts.fetch_add(1, Relaxed);
            if card_timed_out {
                self.smfu.registers.set_timeout_error();
                self.smfu.expired.store(true, Relaxed);
            }
            return Some(Err(match self.atomic {
                None => SmfuError::Timeout { offset, waited },
                Some(_) => SmfuError::Unanswered { offset, waited },
            }));
        }
        None
    }
}

impl Drop for Load<'_> {
    fn drop(&mut self) {
        let mut loads = self.smfu.loads();
        loads.waiting.remove(&self.id);
        loads.pieces.retain(|_, piece| piece.load != self.id);
    }
}

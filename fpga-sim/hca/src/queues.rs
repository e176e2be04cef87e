//! Queues in memory, host memory or a device's: the adapter fetches requests and receives from there and writes completions to it.

use std::sync::Arc;

use extoll_sim::memory::{Memory, MemoryError};

use crate::adapter::{CqId, Hca, HcaError};
use crate::cq::{CompletionQueue, Overrun};
use crate::formats::{self, Format, mlx4, mlx5};
use crate::numbers::ByNumber;
use crate::regions;
use crate::transport::QpError;
use crate::work::{Completion, Operation, ReceiveWork, SendWork, Sge, Sges, Status};

/// A ring in memory: `entries` (a power of two) of `stride` bytes at `buffer`, and the word beside it that tells how far its
/// writer or reader is (the doorbell record).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    /// Bus address of the first entry, on a 64-byte boundary.
    pub buffer: u64,
    /// A power of two, at most 32,768.
    pub entries: u32,
    /// Bytes of an entry: 16, 32, 64, ... 1,024.
    pub stride: u32,
    /// Bus address of the doorbell record, 4 bytes, big-endian; 0 where there is none.
    pub record: u64,
}

/// Why a ring is refused.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    /// Numbers that no ring has.
    #[error(
        "a ring has 1 to 32,768 entries, a power of two, of {least} to 1,024 bytes, a power of two, on 64-byte boundaries"
    )]
    Shape {
        /// The smallest stride for this use.
        least: u32,
    },
    /// Not declared to the adapter's memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The adapter refuses.
    #[error(transparent)]
    Hca(#[from] HcaError),
}

ggas_errors::debug_as_display!(RingError);

impl Ring {
    fn check(&self, memory: &dyn Memory, least: u32, record: bool) -> Result<(), RingError> {
        let shaped = self.entries.is_power_of_two()
            && self.entries <= 1 << 15
            && self.stride.is_power_of_two()
            && (least..=1024).contains(&self.stride)
            && self.buffer.is_multiple_of(64)
            && self.record.is_multiple_of(4);
        if !shaped {
            return Err(RingError::Shape { least });
        }
        let len = self.entries as usize * self.stride as usize;
        let bad = |address, len| Err(MemoryError::BadAddress { address, len }.into());
        if !memory.contains(self.buffer, len) {
            return bad(self.buffer, len);
        }
        if record && !memory.contains(self.record, 4) {
            return bad(self.record, 4);
        }
        Ok(())
    }

    fn at(&self, index: u32) -> u64 {
        self.buffer + u64::from(index & (self.entries - 1)) * u64::from(self.stride)
    }
}

/// A big-endian word in memory. Where it cannot be read, nothing has changed: `before`.
fn word(memory: &dyn Memory, address: u64, before: u32) -> u32 {
    let pair = memory.load(address & !7).map(u64::to_ne_bytes);
    let bytes = match pair {
        Ok(bytes) => <[u8; 4]>::try_from(&bytes[(address & 4) as usize..][..4]).ok(),
        Err(_) => {
            let mut bytes = [0; 4];
            regions::read(memory, address, &mut bytes).ok().map(|()| bytes)
        }
    };
    bytes.map_or(before, u32::from_be_bytes)
}

/// A completion queue in memory.
struct MemoryCq {
    memory: Arc<dyn Memory>,
    format: Format,
    ring: Ring,
    produced: u32,
    /// How far the reader was when it was last looked at.
    consumed: u32,
}

impl CompletionQueue for MemoryCq {
    fn push(&mut self, completion: &Completion) -> Result<(), Overrun> {
        let full =
            |consumed: u32, produced: u32| produced.wrapping_sub(consumed) & 0xff_ffff >= self.ring.entries;
        if full(self.consumed, self.produced) {
            self.consumed = word(&*self.memory, self.ring.record, self.consumed) & 0xff_ffff;
            if full(self.consumed, self.produced) {
                return Err(Overrun);
            }
        }
        // Entries are the reader's where their bit is that of the round.
        let owner = self.produced & self.ring.entries != 0;
        let (bytes, len) = formats::completion(self.format, completion, owner);
        regions::write(&*self.memory, self.ring.at(self.produced), &bytes[..len]).map_err(|_| Overrun)?;
        self.produced = self.produced.wrapping_add(1) & 0xff_ffff;
        Ok(())
    }
}

struct Queues {
    send: Ring,
    receive: Ring,
    /// Requests and receives that were fetched.
    sent: u32,
    received: u32,
    /// Whether its doorbell has rung since it was last looked at.
    rung: bool,
}

/// An adapter whose queues lie in memory.
pub struct Front {
    /// The adapter: set-up and packets go there.
    pub hca: Hca,
    format: Format,
    queues: ByNumber<Queues>,
    rung: Vec<u32>,
}

impl Front {
    /// An adapter whose requests and completions have `format`.
    pub fn new(hca: Hca, format: Format) -> Front {
        Front { hca, format, queues: ByNumber::default(), rung: Vec::new() }
    }

    /// Its format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Makes a completion queue in memory. Its entries are marked as nobody's.
    ///
    /// # Errors
    /// [`RingError`].
    pub fn create_cq(&mut self, ring: Ring) -> Result<CqId, RingError> {
        let least = formats::completion_len(self.format) as u32;
        let memory = self.hca.memory().clone();
        ring.check(&*memory, least, true)?;
        // The owner bit of a round that has not been; for mlx5 an operation code that no completion has, too.
        let nobody = match self.format {
            Format::Mlx4 => 0xcc,
            Format::Mlx5 => 0xf1,
        };
        let entry = vec![nobody; ring.stride as usize];
        for index in 0..ring.entries {
            regions::write(&*memory, ring.at(index), &entry)?;
        }
        let queue = MemoryCq { memory, format: self.format, ring, produced: 0, consumed: 0 };
        Ok(self.hca.create_cq(Box::new(queue)))
    }

    /// Makes a queue pair's rings known. For mlx4 the send ring is stamped, so that its first round begins with nothing.
    ///
    /// # Errors
    /// [`RingError`].
    pub fn attach(&mut self, qp: u32, send: Ring, receive: Ring) -> Result<(), RingError> {
        self.hca.qp(qp)?;
        let memory = self.hca.memory().clone();
        send.check(&*memory, 64, self.format == Format::Mlx5)?;
        // Requests of mlx5 may have several blocks; here they have one.
        if self.format == Format::Mlx5 && send.stride as usize != mlx5::BLOCK {
            return Err(RingError::Shape { least: mlx5::BLOCK as u32 });
        }
        receive.check(&*memory, 16, true)?;
        if self.format == Format::Mlx4 {
            for index in 0..send.entries {
                regions::write(&*memory, send.at(index), &mlx4::STAMP.to_be_bytes())?;
            }
        }
        self.queues.insert(qp, Queues { send, receive, sent: 0, received: 0, rung: false });
        Ok(())
    }

    /// Takes a queue pair back.
    ///
    /// # Errors
    /// [`HcaError::QueuePair`].
    pub fn destroy_qp(&mut self, qp: u32) -> Result<(), HcaError> {
        self.queues.remove(&qp);
        self.hca.destroy_qp(qp)
    }

    /// The doorbell of a queue pair has rung. Whatever the number: who has none is not heard.
    pub fn ring(&mut self, qp: u32) {
        if let Some(queues) = self.queues.get_mut(&qp)
            && !queues.rung
        {
            queues.rung = true;
            self.rung.push(qp);
        }
    }

    /// Fetches the requests behind doorbells that have rung. Whether there were any.
    pub fn fetch(&mut self) -> bool {
        let mut any = false;
        let mut at = 0;
        // Nobody rings meanwhile.
        while let Some(&qp) = self.rung.get(at) {
            at += 1;
            let Some(queues) = self.queues.get_mut(&qp) else { continue };
            queues.rung = false;
            while let Some(work) = next_send(&**self.hca.memory(), self.format, qp, queues) {
                any = true;
                post(&mut self.hca, qp, work);
            }
        }
        self.rung.clear();
        any
    }

    /// Fetches receives of a queue pair that has none left, as a packet for it has come. Whether there were any.
    pub fn fetch_receives(&mut self, qp: u32) -> bool {
        if self.hca.receives(qp) > 0 {
            return false;
        }
        let Some(queues) = self.queues.get_mut(&qp) else { return false };
        let before = queues.received;
        while let Some(work) = next_receive(&**self.hca.memory(), queues) {
            if self.hca.post_receive(qp, work).is_err() {
                break;
            }
            queues.received = queues.received.wrapping_add(1);
        }
        queues.received != before
    }

    /// Whether there are queue pairs that have failed.
    pub fn has_failed(&self) -> bool {
        !self.hca.failed().is_empty()
    }

    /// Ends receives of queue pairs that have failed as flushed, those that are posted from then on, too: no packet will want
    /// them (IBTA 10.3.1). Whether there were any.
    pub fn flush_receives(&mut self) -> bool {
        let (mut any, mut at) = (false, 0);
        // A completion queue that is full has further ones fail.
        while let Some(&qp) = self.hca.failed().get(at) {
            at += 1;
            any |= self.fetch_receives(qp);
        }
        any
    }
}

/// Posts a request that was fetched: whatever it is, it completes.
fn post(hca: &mut Hca, qp: u32, work: SendWork) {
    let id = work.id;
    let posted = match hca.post_send(qp, work) {
        Err(HcaError::Qp(QpError::Length(..))) => hca.post_send(qp, bad(id, Status::LocalLength)),
        posted => posted,
    };
    // A writer that laps itself has overwritten what it had posted, one that is not connected has no peer: the queue pair cannot go
    // on.
    if posted.is_err() {
        let _ = hca.stop(qp);
        let _ = hca.post_send(qp, bad(id, Status::Flushed));
    }
}

/// A request that fails at its turn.
fn bad(id: u64, status: Status) -> SendWork {
    let none = Operation::Send { immediate: None };
    SendWork { bad: Some(status), ..SendWork::new(id, none, Sges::default()) }
}

/// Most bytes of entries that are usual: longer ones take longer to clear before they are read.
const USUAL: usize = 128;

/// The next request of a ring, if one is there.
fn next_send(memory: &dyn Memory, format: Format, qp: u32, queues: &mut Queues) -> Option<SendWork> {
    let Queues { send, sent, .. } = queues;
    let round = *sent & send.entries != 0;
    let at = send.at(*sent);
    if format == Format::Mlx5 && word(memory, send.record, *sent) as u16 == *sent as u16 {
        return None;
    }
    // The first word says whether the rest is there: it is loaded first, with acquire.
    let first = word(memory, at, mlx4::STAMP);
    if format == Format::Mlx4 && !mlx4::is_new(first, round) {
        return None;
    }
    let (mut usual, mut longest);
    let bytes = match send.stride as usize {
        stride @ ..=USUAL => {
            usual = [0; USUAL];
            &mut usual[..stride]
        }
        stride => {
            longest = [0; 1024];
            &mut longest[..stride]
        }
    };
    let id = u64::from(*sent as u16);
    *sent = sent.wrapping_add(1);
    if regions::read(memory, at, bytes).is_err() {
        return Some(bad(id, Status::LocalProtection));
    }
    let (len, index) = match format {
        Format::Mlx4 => (mlx4::len(bytes), 0),
        Format::Mlx5 => (mlx5::len(bytes), id as u16),
    };
    let Some(bytes) = bytes.get(..len) else { return Some(bad(id, Status::LocalOperation)) };
    let found = match format {
        Format::Mlx4 => mlx4::read(bytes),
        Format::Mlx5 => mlx5::read(bytes, qp, index),
    };
    Some(match found.operation {
        None => bad(id, Status::LocalOperation),
        Some(operation) => SendWork {
            signaled: found.signaled,
            solicited: found.solicited,
            fence: found.fence,
            ..SendWork::new(id, operation, found.local)
        },
    })
}

/// The next receive of a ring, if one is there.
fn next_receive(memory: &dyn Memory, queues: &Queues) -> Option<ReceiveWork> {
    let Queues { receive, received, .. } = queues;
    if word(memory, receive.record, *received) as u16 == *received as u16 {
        return None;
    }
    let mut bytes = [0; 1024];
    let bytes = &mut bytes[..receive.stride as usize];
    regions::read(memory, receive.at(*received), bytes).ok()?;
    let pieces = bytes.chunks_exact(16).map(|piece| {
        let [len, lkey] = [0, 4].map(|at| u32::from_be_bytes([0, 1, 2, 3].map(|byte| piece[at + byte])));
        let address = u64::from_be_bytes([8, 9, 10, 11, 12, 13, 14, 15].map(|byte| piece[byte]));
        Sge { address, len, lkey }
    });
    let local = pieces.take_while(|sge| sge.lkey != mlx4::INVALID_LKEY).filter(|sge| sge.len > 0).collect();
    Some(ReceiveWork { id: u64::from(*received as u16), local })
}

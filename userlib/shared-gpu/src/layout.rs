//! How the shared buffer is divided.

use crate::Algorithm;
use crate::station::Slots;

/// Multiple of chunks and slots.
const ALIGN: usize = 256;
/// Most bytes of a chunk: enough that starting copies costs nothing beside them.
const CHUNK_MAX: usize = 8 << 20;
/// The same through host memory: all ranks' chunks, and the result, stay in a processor's cache.
const HOST_CHUNK_MAX: usize = 256 << 10;

/// How the shared buffer is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub(crate) ranks: usize,
    /// Bytes of all of it.
    pub(crate) buffer: usize,
    gsb: usize,
    btb: usize,
    host: usize,
}

impl Layout {
    /// Of a buffer of so many bytes; `None` where it is too [small](Self::least).
    pub fn new(ranks: usize, buffer: usize) -> Option<Layout> {
        let share = |parts: usize| (buffer / parts.max(1) / ALIGN * ALIGN).min(CHUNK_MAX);
        // A slot for the result, and one for each rank but the leader; an inbox for every second rank.
        let (gsb, btb) = (share(ranks), share(ranks.div_ceil(2)));
        // In host memory a slot for each rank, and one for the result.
        let host = share(ranks + 1).min(HOST_CHUNK_MAX);
        (host > 0 && ranks > 0).then_some(Layout { ranks, buffer, gsb, btb, host })
    }

    /// Bytes of the smallest buffer.
    pub fn least(ranks: usize) -> usize {
        ALIGN * (ranks + 1)
    }

    /// Bytes of the smallest buffer for vectors from each rank to each: a word of each.
    pub(crate) fn least_for_all_to_all(ranks: usize) -> usize {
        (ranks + 1) * (8 * ranks).next_multiple_of(ALIGN)
    }

    /// Bytes of a chunk.
    pub fn chunk(&self, algorithm: Algorithm) -> usize {
        match algorithm {
            Algorithm::Btb => self.btb,
            Algorithm::Host => self.host,
            Algorithm::Gsb | Algorithm::Static { .. } | Algorithm::Dynamic | Algorithm::Direct => self.gsb,
        }
    }

    /// Bytes of a rank's private memory for sums of a subtree.
    pub fn partial(&self) -> usize {
        self.btb
    }

    pub(crate) fn result(&self) -> usize {
        0
    }

    /// Slot of a rank other than the leader.
    pub(crate) fn slot(&self, rank: usize) -> usize {
        rank * self.gsb
    }

    pub(crate) fn slots(&self) -> Slots {
        Slots { first: self.slot(1), stride: self.gsb, number: self.ranks - 1 }
    }

    /// Where a rank's vector is in host memory.
    pub(crate) fn host_slot(&self, rank: usize) -> usize {
        (rank + 1) * self.host
    }

    pub(crate) fn host_slots(&self) -> Slots {
        Slots { first: self.host_slot(0), stride: self.host, number: self.ranks }
    }

    pub(crate) fn host_result(&self) -> usize {
        0
    }

    /// Inbox of a place in the tree; even ones have one.
    pub(crate) fn inbox(&self, place: usize) -> usize {
        place / 2 * self.btb
    }
}

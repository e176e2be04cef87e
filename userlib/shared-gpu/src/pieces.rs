//! Where a chunk of each rank's vector goes in the buffer, and what each rank takes of the result.

use crate::plan::Step;
use crate::station::{Place, Station};
use crate::{Collective, Copier};

/// Pieces of memory at even distances, of which each is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pieces {
    number: usize,
    bytes: usize,
    /// The first in the vector, and from one to the next.
    vector: (usize, usize),
    /// The same in the buffer.
    buffer: (usize, usize),
}

impl Pieces {
    fn one(vector: usize, buffer: usize, bytes: usize) -> Pieces {
        Pieces { number: usize::from(bytes > 0), bytes, vector: (vector, 0), buffer: (buffer, 0) }
    }

    /// Offsets in the vector and in the buffer, and bytes.
    pub(crate) fn each(self) -> impl Iterator<Item = (usize, usize, usize)> {
        let at = |(first, stride): (usize, usize), piece: usize| first + piece * stride;
        (0..self.number).map(move |piece| (at(self.vector, piece), at(self.buffer, piece), self.bytes))
    }
}

impl Step<'_> {
    /// Where a rank's slot begins: where ranks' vectors are the result, they lie one behind the other from the result's place on.
    pub(crate) fn slot(&self, rank: usize) -> usize {
        self.gathered(rank).unwrap_or_else(|| self.plan.layout.slot(rank))
    }

    /// The same in host memory.
    pub(crate) fn host_slot(&self, rank: usize) -> usize {
        self.gathered(rank).unwrap_or_else(|| self.plan.layout.host_slot(rank))
    }

    fn gathered(&self, rank: usize) -> Option<usize> {
        match self.plan.kind {
            Collective::Allgather => Some(rank * self.len),
            Collective::Alltoall => Some(rank * self.plan.layout.ranks * self.len),
            _ => None,
        }
    }

    /// Bytes of the result, of all ranks.
    pub(crate) fn result_len(&self) -> usize {
        self.gathered(self.plan.layout.ranks).unwrap_or(self.len)
    }

    /// What of a rank's vector goes to its slot.
    pub(crate) fn sent(&self) -> Pieces {
        let (ranks, bytes) = (self.plan.layout.ranks, self.plan.bytes);
        match self.plan.kind {
            Collective::Alltoall if self.is_whole() => Pieces::one(0, 0, ranks * bytes),
            Collective::Alltoall => {
                Pieces { number: ranks, bytes: self.len, vector: (self.offset, bytes), buffer: (0, self.len) }
            }
            _ => Pieces::one(self.offset, 0, self.len),
        }
    }

    /// What of the result goes to a rank's vector.
    pub(crate) fn wanted(&self, rank: usize) -> Pieces {
        let (ranks, bytes) = (self.plan.layout.ranks, self.plan.bytes);
        let of_each = |first, stride| Pieces {
            number: ranks,
            bytes: self.len,
            vector: (self.offset, bytes),
            buffer: (first, stride),
        };
        match self.plan.kind {
            Collective::Allgather if self.is_whole() => Pieces::one(0, 0, ranks * bytes),
            Collective::Allgather => of_each(0, self.len),
            Collective::Alltoall => of_each(rank * self.len, ranks * self.len),
            Collective::ReduceScatter => {
                let part = bytes / ranks;
                let (begin, end) = (self.offset.max(rank * part), (rank + 1) * part);
                let len = end.min(self.offset + self.len).saturating_sub(begin);
                Pieces::one(begin - rank * part, begin.saturating_sub(self.offset), len)
            }
            _ => Pieces::one(self.offset, 0, self.len),
        }
    }

    fn is_whole(&self) -> bool {
        self.len == self.plan.bytes
    }

    /// Copies this rank's vector to a slot, which begins at `to` of it.
    pub(crate) async fn give<S: Station>(&self, station: &S, to: impl Fn(usize) -> Place) {
        for (vector, slot, bytes) in self.sent().each() {
            station.copy(to(slot), Place::Input(vector), bytes).await;
        }
    }

    /// Copies what this rank wants of the result, which begins at `from` of it.
    pub(crate) async fn take<S: Station>(&self, station: &S, from: impl Fn(usize) -> Place) {
        self.take_by(station, Copier::Engine, from).await;
    }

    /// The same by a copier.
    pub(crate) async fn take_by<S: Station>(&self, station: &S, by: Copier, from: impl Fn(usize) -> Place) {
        for (vector, result, bytes) in self.wanted(station.rank()).each() {
            station.copy_by(by, Place::Output(vector), from(result), bytes).await;
        }
    }
}

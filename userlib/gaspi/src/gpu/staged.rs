//! Writes from GPU memory through host memory, in pieces, of which two are under way: where the network device fetches slowly
//! from GPU memory (thesis 4.4.3).

use std::sync::{MutexGuard, PoisonError};

use ggas::{HostBuffer, PostError, Region, Spec};
use ggas_clock::Backoff;

use super::Begun;
use crate::error::because;
use crate::ledger::Way;
use crate::passive::turn;
use crate::request::{Checked, Notice, Part};
use crate::shared::Shared;
use crate::{Counter, GaspiError, Timeout};

/// Two pieces of host memory.
#[derive(Debug)]
pub(super) struct Staging {
    memory: Region,
    /// Which request of which rank used it last.
    used: [Option<(usize, u64)>; 2],
}

impl Begun {
    fn staging(&self) -> MutexGuard<'_, Option<Staging>> {
        self.staging.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    /// Pieces of a write from here go through host memory.
    fn is_staged(&self, checked: &Checked) -> bool {
        let config = self.gpu.begun().map(|begun| &begun.config);
        config.is_some_and(|config| checked.segment.is_gpu() && checked.bytes > config.staged_min)
    }

    /// A write from GPU memory, through host memory where it is long and the network device is in between.
    pub(crate) fn gpu_write(
        &self,
        part: &Part,
        rank: u16,
        queue: u8,
        timeout: Timeout,
    ) -> Result<(), GaspiError> {
        let checked = self.check(part, rank)?;
        if !self.is_staged(&checked) || self.direct(std::slice::from_ref(&checked), None, false).is_some() {
            return self.write(part, rank, queue, timeout);
        }
        self.write_pieces(&checked, rank, queue, timeout, 0)?;
        self.statistics.moved(part.bytes, Counter::BytesWritten, Counter::NumberOfWrites);
        Ok(())
    }

    /// In pieces, behind which so many more requests have room.
    fn write_pieces(
        &self,
        checked: &Checked,
        rank: u16,
        queue: u8,
        timeout: Timeout,
        more: u32,
    ) -> Result<(), GaspiError> {
        let begun = self.gpu.begun().ok_or(GaspiError::Failed)?;
        let piece = begun.config.staged_piece;
        self.ledger().check(queue, checked.bytes.div_ceil(piece) as u32 + more)?;
        let mut backoff = Backoff::new(self.clock(), timeout.duration());
        let mut staging = begun.staging();
        let staging = match &mut *staging {
            Some(staging) => staging,
            none => none.insert(Staging { memory: self.stage(2 * piece)?, used: [None; 2] }),
        };
        for (number, at) in (0..checked.bytes).step_by(piece as usize).enumerate() {
            let half = number % 2;
            while !self.is_free(staging.used[half]) {
                backoff.pause().map_err(|_| GaspiError::Timeout)?;
            }
            let bytes = piece.min(checked.bytes - at) as usize;
            let mut data = vec![0; bytes];
            checked.segment.read(checked.offset as u64 + at, &mut data)?;
            let place = half * piece as usize;
            staging.memory.write(place, &data).map_err(because(GaspiError::Failed))?;
            let put = (&staging.memory, place, bytes, checked.remote + at);
            staging.used[half] = self.put_piece(queue, usize::from(rank), put)?;
        }
        Ok(())
    }

    /// The same, and a notification behind it.
    pub(crate) fn gpu_write_notify(
        &self,
        part: &Part,
        notice: &Notice,
        rank: u16,
        queue: u8,
        timeout: Timeout,
    ) -> Result<(), GaspiError> {
        let checked = self.check(part, rank)?;
        let parts = std::slice::from_ref(part);
        if !self.is_staged(&checked) || self.direct(std::slice::from_ref(&checked), None, false).is_some() {
            return self.write_notify(parts, notice, rank, queue, timeout);
        }
        self.check_notice(notice, rank)?;
        self.write_pieces(&checked, rank, queue, timeout, 1)?;
        self.notify(notice, rank, queue, timeout)?;
        self.statistics.moved(part.bytes, Counter::BytesWritten, Counter::NumberOfWriteNotifys);
        Ok(())
    }

    fn stage(&self, bytes: u64) -> Result<Region, GaspiError> {
        let buffer = HostBuffer::zeroed(bytes as usize).map_err(because(GaspiError::Memory))?;
        self.data.register(buffer).map_err(because(GaspiError::Memory))
    }

    /// Whether a request has left the host memory that it came from.
    fn is_free(&self, used: Option<(usize, u64)>) -> bool {
        let Some((rank, number)) = used else { return true };
        let mut ledger = self.ledger();
        self.take_notifications(&mut ledger);
        ledger.puts_over(rank) >= number
    }

    fn put_piece(
        &self,
        queue: u8,
        rank: usize,
        (memory, place, bytes, remote): (&Region, usize, usize, u64),
    ) -> Result<Option<(usize, u64)>, GaspiError> {
        let _turn = turn(self, &self.turns[rank], Timeout::Block)?;
        let mut ledger = self.ledger();
        ledger.check(queue, 1)?;
        self.gpu.card_used(rank);
        ledger.order(rank).sends(false);
        let link = &self.links[rank].data;
        self.make_room(&mut ledger)?;
        match link.put(memory, place, bytes, remote, Spec::REQUESTER) {
            Ok(()) => {
                ledger.begin(queue, rank, 1, Way::Put, 1);
                ledger.posted();
                Ok(Some((rank, ledger.puts_posted(rank))))
            }
            Err(PostError::Timeout { .. }) => Err(GaspiError::Timeout),
            Err(error) => {
                tracing::warn!("a request to rank {rank} was not posted: {error}");
                self.mark(rank);
                ledger.refused(queue);
                Ok(None)
            }
        }
    }
}

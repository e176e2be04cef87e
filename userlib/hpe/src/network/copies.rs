//! The side of a copy that asks for it.

use ggas_rma::{PostError, Region, Spec, WaitError};

use super::lane::{Lane, answer_to};
use super::names::Said;
use super::words::{Ask, REQUEST, Request, answered};
use super::{Export, Network, Peer, Shared};
use crate::copy::{Copier, Way, blocks};
use crate::error::HpeError;
use crate::objects::Place;

/// Where blocks wait at this rank while another one gets or puts them.
enum Stage {
    /// In the buffers of the lane, by turns.
    Lane,
    /// In exported memory, from this byte of it on: nothing is copied here.
    Exported(std::sync::Arc<Export>, usize),
}

/// A block under way: from where in the copy, and how long.
type Block = (usize, usize);

/// A copy of a lane.
struct Copy<'a> {
    shared: &'a Shared,
    copier: &'a Copier<'a>,
    lane: &'a Lane,
    stage: Stage,
    dst: &'a Place,
    src: &'a Place,
    /// By buffer: the block that it has, and the rank that was asked for it.
    blocks: [Option<Block>; 2],
    asked: [Option<u32>; 2],
}

impl Network {
    /// Copies between memory of another rank and any: by a GPU of this one where it reaches that, else by the network.
    ///
    /// # Safety
    /// As [`Copier::copy`], and as `Runtime::export` says of memory of others.
    pub unsafe fn copy(
        &self,
        copier: &Copier<'_>,
        dst: &Place,
        src: &Place,
        len: usize,
    ) -> Result<(), HpeError> {
        if let Some(reached) = self.by_handles(copier, (dst, src), len)? {
            // SAFETY: the caller's contract; what was opened stays memory meanwhile.
            return unsafe { copier.copy(&reached.dst, &reached.src, len) };
        }
        let shared = &*self.shared;
        let lane = self.lanes.take(shared, copier.pool)?;
        let stage = match (dst, src) {
            (Place::Host(here), Place::Remote { .. }) | (Place::Remote { .. }, Place::Host(here)) => {
                shared.exported(*here, len).map(|(export, offset)| Stage::Exported(export, offset))
            }
            _ => None,
        };
        let (blocks, asked, stage) = ([None; 2], [None; 2], stage.unwrap_or(Stage::Lane));
        let mut copy = Copy { shared, copier, lane: &lane, stage, dst, src, blocks, asked };
        // SAFETY: the caller's contract.
        let done = unsafe { copy.run(len) };
        let missing = copy.settle(&done);
        self.lanes.give_back(lane, missing);
        done.inspect(|()| copier.counters.add(Way::Network, len))
    }

    /// What another rank says of the allocation that holds these bytes of its.
    pub(super) fn said(
        &self,
        copier: &Copier<'_>,
        (rank, address): (u32, u64),
        len: usize,
    ) -> Result<Said, HpeError> {
        let shared = &*self.shared;
        let lane = self.lanes.take(shared, copier.pool)?;
        let place = Place::Remote { rank, address };
        let (stage, dst, src) = (Stage::Lane, &place, &place);
        let mut copy =
            Copy { shared, copier, lane: &lane, stage, dst, src, blocks: [None; 2], asked: [None; 2] };
        let asked = copy.ask(0, rank, Ask::Name, address, (0, len));
        let done = asked.and_then(|()| copy.wait(0, address, len));
        let mut said = Said::default();
        if done.is_ok() {
            // SAFETY: the other rank has put so many words there, and nobody else uses the lane.
            unsafe {
                said.as_mut_ptr().copy_from_nonoverlapping(lane.staging.address(0) as *const u64, said.len())
            };
        }
        let missing = copy.settle(&done);
        self.lanes.give_back(lane, missing);
        done.map(|()| said)
    }
}

impl Copy<'_> {
    /// # Safety
    /// As [`Network::copy`].
    unsafe fn run(&mut self, len: usize) -> Result<(), HpeError> {
        for (number, block) in blocks(len, self.shared.block).enumerate() {
            let which = number % 2;
            // SAFETY: the caller's contract.
            unsafe { self.end(which)? };
            self.blocks[which] = Some(block);
            // SAFETY: the same.
            unsafe { self.begin(which, block)? };
        }
        // SAFETY: the same.
        unsafe { self.end(0).and_then(|()| self.end(1)) }
    }

    /// The first step of a block: it is asked for, or brought to the buffer and offered.
    ///
    /// # Safety
    /// As [`Network::copy`].
    unsafe fn begin(&mut self, which: usize, (offset, bytes): Block) -> Result<(), HpeError> {
        if let Place::Remote { rank, address } = *self.src {
            return self.ask(which, rank, Ask::Load, address + offset as u64, (offset, bytes));
        }
        if let Stage::Lane = self.stage {
            let buffer = Place::Host(self.lane.staging.address(which));
            // SAFETY: the caller's contract; the buffer is this copy's, and nobody has it.
            unsafe { self.copier.copy(&buffer, &self.src.behind(offset), bytes)? };
        }
        self.offer(which, (offset, bytes))
    }

    /// The other steps.
    ///
    /// # Safety
    /// As [`Network::copy`].
    unsafe fn end(&mut self, which: usize) -> Result<(), HpeError> {
        let Some((offset, bytes)) = self.blocks[which].take() else { return Ok(()) };
        self.wait(which, self.dst_or_src(offset), bytes)?;
        if !matches!(self.src, Place::Remote { .. }) {
            return Ok(());
        }
        if let Place::Remote { address, .. } = *self.dst {
            self.offer(which, (offset, bytes))?;
            return self.wait(which, address + offset as u64, bytes);
        }
        if let Stage::Lane = self.stage {
            let buffer = Place::Host(self.lane.staging.address(which));
            // SAFETY: the caller's contract; the block is in the buffer.
            unsafe { self.copier.copy(&self.dst.behind(offset), &buffer, bytes)? };
        }
        Ok(())
    }

    /// What the rank that is asked first calls a byte.
    fn dst_or_src(&self, offset: usize) -> u64 {
        match (self.src, self.dst) {
            (Place::Remote { address, .. }, _) | (_, Place::Remote { address, .. }) => {
                address + offset as u64
            }
            _ => 0,
        }
    }

    /// Has the destination's rank take a block.
    fn offer(&mut self, which: usize, (offset, bytes): Block) -> Result<(), HpeError> {
        match *self.dst {
            Place::Remote { rank, address } => {
                self.ask(which, rank, Ask::Store, address + offset as u64, (offset, bytes))
            }
            _ => Ok(()),
        }
    }

    fn ask(
        &mut self,
        which: usize,
        rank: u32,
        ask: Ask,
        address: u64,
        (offset, len): Block,
    ) -> Result<(), HpeError> {
        let peer = self.shared.peer(rank)?;
        let nla =
            |region: &Region, at: usize| region.nla(at).map_err(HpeError::network("addressing a block"));
        let nla = match &self.stage {
            Stage::Lane => nla(&self.lane.staging.regions[which], 0)?,
            Stage::Exported(export, at) => nla(&export.region, at + offset)?,
        };
        let slot = 2 * self.lane.number + which;
        send(self.shared, peer, slot, &Request { ask, address, len, nla }).map_err(|error| match error {
            PostError::PeerLost(_) => HpeError::PeerLost { rank },
            error => HpeError::network("asking another rank for a copy")(error),
        })?;
        self.asked[which] = Some(rank);
        Ok(())
    }

    /// The answer for a block, if its rank was asked.
    fn wait(&mut self, which: usize, address: u64, len: usize) -> Result<(), HpeError> {
        let Some(rank) = self.asked[which] else { return Ok(()) };
        let wanted = answer_to(2 * self.lane.number + which).from(self.shared.peer(rank)?.address);
        match self.shared.port.wait_match(&wanted, self.shared.timeout) {
            Ok(notification) => {
                self.asked[which] = None;
                answered(notification.word0).map_err(|why| HpeError::Refused { rank, address, len, why })
            }
            Err(WaitError::PeerLost { .. }) => {
                self.asked[which] = None;
                Err(HpeError::PeerLost { rank })
            }
            Err(WaitError::Timeout { waited, .. }) => Err(HpeError::PeerLate { rank, waited }),
            Err(error) => Err(HpeError::network("waiting for another rank")(error)),
        }
    }

    /// Behind an error, waits for what is under way; returns the slots whose answers did not come.
    fn settle(&mut self, done: &Result<(), HpeError>) -> Vec<usize> {
        // Of a rank that is late not a second time.
        if !matches!(done, Err(HpeError::PeerLate { .. })) {
            for which in 0..2 {
                let _ = self.wait(which, 0, 0);
            }
        }
        (0..2)
            .filter(|which| self.asked[*which].is_some())
            .map(|which| 2 * self.lane.number + which)
            .collect()
    }
}

/// Puts a request into its slot at the rank that serves it.
fn send(shared: &Shared, peer: &Peer, slot: usize, request: &Request) -> Result<(), PostError> {
    let at = slot * REQUEST;
    // The slot's last request was answered, so it has gone out.
    shared.outbox.write(at, &request.bytes())?;
    peer.connection.put(&shared.outbox, at, REQUEST, peer.inbox + at as u64, Spec::COMPLETER)
}

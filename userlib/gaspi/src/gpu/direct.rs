//! Writes and reads between segments by this process's GPU, without the network device: stores of a kernel, a copy engine,
//! or pieces by two streams (thesis 4.4.3). Each queue of the process has streams of its own.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use ggas::kernels::args::gaspi_store;
use ggas::{Launch, Processor, Spec};
use ggas_clock::{Backoff, Clock, Ladder};
use ggas_gpu::{GpuError, Stream};

use super::standby::{Order, Standby};
use super::{Begun, GpuConfig, GpuCopies, Memory, Near};
use crate::GaspiError;
use crate::config::QUEUES_MAX;
use crate::error::because;
use crate::ledger::{Ledger, Way};
use crate::request::{Checked, End};
use crate::shared::Shared;

/// How long what this process posted before may take to be over.
pub(super) const SETTLING: Duration = Duration::from_secs(60);
/// Threads of a block of the kernel that stores.
const THREADS: u32 = 512;
/// Bytes of a write that one block stores, with the notification behind it.
const BLOCK_BYTES: u64 = THREADS as u64 * 16;
/// Most blocks.
const BLOCKS: u64 = 64;

/// Bytes between addresses that this process's GPU reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Copy {
    to: u64,
    from: u64,
    bytes: u64,
}

/// A request that needs no network device: copies, and a word behind them, by its address and value.
#[derive(Debug)]
pub(crate) struct Direct {
    copies: Vec<Copy>,
    word: Option<(u64, u64)>,
    is_read: bool,
    /// Mapped until it is over.
    near: Vec<Arc<Near>>,
}

/// What the GPU has under way, by queue, and the kernel for the short ones.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    lanes: [Option<Lane>; QUEUES_MAX as usize],
    standby: Option<Standby>,
}

/// Of one queue.
struct Lane {
    first: Stream,
    second: Stream,
    /// A word by which `first` waits for `second`, and its last value.
    met: (Memory, u64),
    /// The last write that the kernel on standby was ordered, and whether the streams may have something under way: what comes
    /// by the one waits for the other.
    ordered: u64,
    streamed: bool,
    /// Life of the queue of each request.
    pending: Vec<u64>,
    /// To whom they go, and what they reach.
    ranks: BTreeSet<usize>,
    near: Vec<Arc<Near>>,
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lane {{ pending: {:?}, ranks: {:?} }}", self.pending, self.ranks)
    }
}

fn failed(error: GpuError) -> GaspiError {
    because(GaspiError::Failed)(error)
}

impl Lane {
    fn new(processor: &Processor, gpu: &ggas_gpu::Gpu) -> Result<Lane, GaspiError> {
        let met = Memory::on_host(processor, 8)?;
        let stream = || gpu.stream().map_err(failed);
        Ok(Lane {
            first: stream()?,
            second: stream()?,
            met: (met, 0),
            ordered: 0,
            streamed: false,
            pending: Vec::new(),
            ranks: BTreeSet::new(),
            near: Vec::new(),
        })
    }

    /// Posts the copies and the word behind them.
    fn post(
        &mut self,
        processor: &Processor,
        standby: &mut Standby,
        config: &GpuConfig,
        direct: &Direct,
    ) -> Result<(), GaspiError> {
        let bytes = direct.copies.first().map_or(0, |copy| copy.bytes);
        // One behind the other they would wait for each other there; a copy engine has the next one ready.
        let is_short =
            direct.copies.len() <= 1 && config.is_short(bytes) && standby.orders().are_done(self.ordered);
        if is_short && self.streams_are_done()? && self.order(processor, standby, direct)? {
            return Ok(());
        }
        self.follow(standby)?;
        let last = direct.copies.len().saturating_sub(1);
        let mut word = direct.word;
        for (at, copy) in direct.copies.iter().enumerate() {
            match config.how(copy.bytes) {
                GpuCopies::Stores => {
                    // One block can set the word itself.
                    let with = word.take_if(|_| at == last && copy.bytes <= BLOCK_BYTES);
                    self.store(processor, copy, with)?;
                }
                GpuCopies::Hybrid => self.in_pieces(copy, config.piece)?,
                _ => by_engine(&self.first, copy.to, copy.from, copy.bytes)?,
            }
        }
        match word {
            // SAFETY: a notification of a segment that stays mapped until this is done.
            Some((at, value)) => unsafe { self.first.store_u64(at, value) }.map_err(failed),
            None => Ok(()),
        }
    }

    fn streams_are_done(&mut self) -> Result<bool, GaspiError> {
        // Asked only where it may be otherwise: it takes a microsecond.
        if self.streamed && self.first.is_done().map_err(failed)? {
            self.streamed = false;
        }
        Ok(!self.streamed)
    }

    /// Has the kernel on standby do it; `false`: it has too much to do.
    fn order(
        &mut self,
        processor: &Processor,
        standby: &mut Standby,
        direct: &Direct,
    ) -> Result<bool, GaspiError> {
        let none = Copy { to: 0, from: 0, bytes: 0 };
        let Copy { to, from, bytes } = direct.copies.first().copied().unwrap_or(none);
        let word = direct.word.map(|(at, value)| (at, value as u32));
        let number = standby.post(processor, &Order { to, from, bytes: bytes as u32, word })?;
        self.ordered = number.unwrap_or(self.ordered);
        Ok(number.is_some())
    }

    /// What the streams do next comes behind what the kernel on standby was ordered.
    fn follow(&mut self, standby: &Standby) -> Result<(), GaspiError> {
        self.streamed = true;
        let orders = standby.orders();
        if orders.are_done(self.ordered) {
            return Ok(());
        }
        for stream in [&self.first, &self.second] {
            // SAFETY: a word of the orders, which outlive the streams' work.
            unsafe { stream.wait_u64(orders.done_at(), self.ordered) }.map_err(failed)?;
        }
        Ok(())
    }

    fn store(&self, processor: &Processor, copy: &Copy, word: Option<(u64, u64)>) -> Result<(), GaspiError> {
        let (at, value) = word.unwrap_or_default();
        let args = gaspi_store { to: copy.to, from: copy.from, bytes: copy.bytes, word: at, value };
        let grid = copy.bytes.div_ceil(BLOCK_BYTES).clamp(1, BLOCKS) as u32;
        // SAFETY: the structure of this kernel; the segments stay mapped until the stream is done.
        let launch = unsafe { Launch::new(processor, "ggas_gaspi_store", grid, THREADS, &args) };
        // SAFETY: a stream of this GPU, which lives as long as the process's queue; the kernel waits for nobody.
        unsafe { launch.enqueue(self.first.as_raw()) }.map_err(because(GaspiError::Failed))
    }

    /// Pieces in turns, behind which the streams meet.
    fn in_pieces(&mut self, copy: &Copy, piece: u64) -> Result<(), GaspiError> {
        for (number, at) in (0..copy.bytes).step_by(piece as usize).enumerate() {
            let stream = if number.is_multiple_of(2) { &self.first } else { &self.second };
            by_engine(stream, copy.to + at, copy.from + at, piece.min(copy.bytes - at))?;
        }
        let (memory, value) = &mut self.met;
        *value += 1;
        // SAFETY: a word of this lane, which is only dropped once its streams are done.
        let meet = unsafe {
            self.second
                .store_u64(memory.address(), *value)
                .and_then(|()| self.first.wait_u64(memory.address(), *value))
        };
        meet.map_err(failed)
    }

    fn is_over(&mut self, standby: &Standby) -> Result<bool, GaspiError> {
        Ok(standby.are_done(self.ordered).map_err(failed)? && self.streams_are_done()?)
    }

    /// Waits for that.
    fn settle(&self, standby: &Standby) -> Result<(), GaspiError> {
        standby.wait(self.ordered, SETTLING).map_err(failed)?;
        self.first.wait("writes between GPUs", SETTLING).map_err(failed)
    }
}

fn by_engine(stream: &Stream, to: u64, from: u64, bytes: u64) -> Result<(), GaspiError> {
    // SAFETY: parts of segments, which stay mapped until this is done; GASPI's programs leave sources alone meanwhile.
    unsafe { stream.copy(to, from, bytes as usize) }.map_err(failed)
}

/// In place of a GPU: at once.
fn by_host(direct: &Direct) {
    for copy in &direct.copies {
        // SAFETY: both ranges were checked, and are of segments that are mapped while they are known; other processes access
        // them meanwhile as GASPI's programs may.
        unsafe { std::ptr::copy(copy.from as *const u8, copy.to as *mut u8, copy.bytes as usize) };
    }
    if let Some((at, value)) = direct.word {
        // SAFETY: an aligned word beside a segment, which all access atomically.
        unsafe { AtomicU64::from_ptr(at as *mut u64) }.store(value, Ordering::Release);
    }
}

impl Begun {
    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Posts a request of a queue.
    fn post(
        &self,
        ledger: &mut Ledger,
        (queue, cost): (u8, u32),
        rank: usize,
        direct: Direct,
    ) -> Result<(), GaspiError> {
        let Processor::Gpu(gpu) = &self.processor else {
            by_host(&direct);
            let life = ledger.began(queue, cost);
            ledger.ended(queue, life);
            return Ok(());
        };
        let mut lanes = self.lanes();
        let Lanes { lanes, standby } = &mut *lanes;
        let standby = match standby {
            Some(standby) => standby,
            none => none.insert(Standby::new(&self.processor, gpu.device())?),
        };
        let lane = match &mut lanes[usize::from(queue)] {
            Some(lane) => lane,
            none => none.insert(Lane::new(&self.processor, gpu.device())?),
        };
        // Also where only a part is posted.
        lane.pending.push(ledger.began(queue, cost));
        lane.ranks.insert(rank);
        let posted = lane.post(&self.processor, standby, &self.config, &direct);
        lane.near.extend(direct.near);
        posted
    }

    /// Waits until nothing is under way to a rank.
    fn settle(&self, concerns: impl Fn(&Lane) -> bool) -> Result<(), GaspiError> {
        let lanes = self.lanes();
        let Some(standby) = &lanes.standby else { return Ok(()) };
        lanes.lanes.iter().flatten().filter(|lane| concerns(lane)).try_for_each(|lane| lane.settle(standby))
    }

    /// Waits until nothing is under way.
    pub(super) fn settle_all(&self) {
        if let Err(error) = self.settle(|_| true) {
            tracing::warn!("writes between GPUs do not end: {error}");
        }
    }
}

impl Shared {
    /// The request as this process's GPU carries it out; `None`: through the card.
    pub(crate) fn direct(&self, parts: &[Checked], end: Option<&End<'_>>, is_read: bool) -> Option<Direct> {
        self.gpu.begun().filter(|begun| begun.is_direct)?;
        let mut is_gpu = false;
        let (mut copies, mut kept) = (Vec::new(), Vec::new());
        for part in parts.iter().filter(|part| part.bytes > 0) {
            let (near, offset) = part.near.as_ref()?;
            // It may be a later segment than that whose size was asked.
            offset.checked_add(part.bytes).filter(|end| *end <= near.bytes)?;
            let here = part.segment.near_address()? + part.offset as u64;
            is_gpu |= near.is_gpu || part.segment.is_gpu();
            kept.push(near.clone());
            copies.push((near.data + offset, here, part.bytes));
        }
        let word = match end {
            None => None,
            Some(End::Tell { value, near, .. }) => {
                let (near, at) = near.as_ref()?;
                is_gpu |= copies.is_empty() && near.is_gpu;
                kept.push(near.clone());
                Some((near.flags + at, u64::from(*value)))
            }
            Some(End::Fetch { segment, id }) => {
                let (_, flags) = segment.addresses()?;
                Some((flags + u64::from(*id) * crate::segment::FLAG, 1))
            }
        };
        let copy = |(there, here, bytes)| match is_read {
            true => Copy { to: here, from: there, bytes },
            false => Copy { to: there, from: here, bytes },
        };
        let copies = || copies.into_iter().map(copy).collect();
        is_gpu.then(|| Direct { copies: copies(), word, is_read, near: kept })
    }

    /// Posts it.
    pub(crate) fn post_direct(
        &self,
        ledger: &mut Ledger,
        queue: u8,
        rank: usize,
        cost: u32,
        direct: Direct,
    ) -> Result<(), GaspiError> {
        let Some(begun) = self.gpu.begun() else { return Ok(()) };
        if direct.word.is_some() {
            self.settle_card(ledger, queue, rank)?;
        }
        let bytes: u64 = direct.copies.iter().map(|copy| copy.bytes).sum();
        let word = if direct.word.is_some() && !direct.is_read { 8 } else { 0 };
        self.moved(rank, bytes + word, direct.is_read);
        // As of a card: the post is taken, and the wait tells what became of it.
        if let Err(error) = begun.post(ledger, (queue, cost), rank, direct) {
            tracing::warn!("a request to rank {rank} was not posted: {error}");
            self.mark(rank);
            ledger.refused(queue);
        }
        Ok(())
    }

    /// A notification by a GPU comes behind what went through the card: waits until that has arrived, by a read behind it.
    fn settle_card(&self, ledger: &mut Ledger, queue: u8, rank: usize) -> Result<(), GaspiError> {
        let used = self.gpu.begun().is_some_and(|begun| begun.card_used[rank].swap(false, Ordering::Relaxed));
        if !used {
            return Ok(());
        }
        let link = &self.links[rank];
        self.make_room(ledger)?;
        let posted = link.data.get(&self.one, 0, 8, link.one, Spec::COMPLETER);
        posted.map_err(because(GaspiError::Failed))?;
        ledger.begin(queue, rank, 0, Way::Get, 1);
        ledger.posted();
        let mut backoff = Backoff::on(Ladder::DEVICE, Clock::REAL, SETTLING);
        let mut looks = 0u32;
        while ledger.fetches(rank) {
            self.take_notifications(ledger);
            looks = looks.wrapping_add(1);
            if looks.is_multiple_of(256) {
                self.look_for_losses(ledger);
            }
            backoff.pause().map_err(|_| GaspiError::Timeout)?;
        }
        Ok(())
    }

    /// A notification through the card comes behind what GPUs write.
    pub(crate) fn settle_direct(&self, rank: usize) -> Result<(), GaspiError> {
        match self.gpu.begun().filter(|begun| begun.is_direct) {
            Some(begun) => begun.settle(|lane| lane.ranks.contains(&rank) && !lane.pending.is_empty()),
            None => Ok(()),
        }
    }

    /// Enters what GPUs have done.
    pub(crate) fn take_copies(&self, ledger: &mut Ledger, queue: u8) {
        let Some(begun) = self.gpu.begun().filter(|begun| begun.is_direct) else { return };
        let mut lanes = begun.lanes();
        let Lanes { lanes, standby: Some(standby) } = &mut *lanes else { return };
        let Some(Some(lane)) = lanes.get_mut(usize::from(queue)) else { return };
        if lane.pending.is_empty() {
            return;
        }
        let over = lane.is_over(standby);
        if over == Ok(false) {
            return;
        }
        lane.near.clear();
        lane.pending.drain(..).for_each(|life| ledger.ended(queue, life));
        let ranks = std::mem::take(&mut lane.ranks);
        if over.is_err() {
            ranks.into_iter().for_each(|rank| self.mark(rank));
            ledger.refused(queue);
        }
    }
}

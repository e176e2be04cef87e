//! A GPU. Its plain memory has CUDA's unified addresses, whose owner the driver knows; its shared objects have an address in the
//! segment, where the host's side is.

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ggas_clock::Clock;
use ggas_gpu::{Gpu, GpuError, HostMapping, Stream};

use super::late::{Late, Work};
use super::{Device, Host, Look, Memory, Queue, Side};
use crate::error::HpeError;
use crate::pinned::pages::Pages;

/// How long a first store by a stream is waited for.
const TRIED: Duration = Duration::from_secs(5);
/// How long a copy of a shared object's block may take.
const AT_ONCE: Duration = Duration::from_secs(10);
/// Streams of a device, which take copies by turns.
const STREAMS: u64 = 16;
/// Longest copy whose end a word tells. Behind longer ones the store comes some microseconds late; their threads ask the driver, seldom
/// enough that nobody waits for it.
const TOLD: usize = 64 << 10;
/// Words that tell of copies' ends; a multiple of the streams, so that a word belongs to one stream, whose copies end in order.
const WORDS: u64 = 64 * STREAMS;

pub(crate) struct CudaDevice {
    gpu: Gpu,
    /// Where the driver can have a stream store a number.
    ended: Option<Ended>,
    /// Copies of blocks that were given up.
    late: Late<Arc<Stream>>,
}

impl Work for Arc<Stream> {
    fn is_done(&self) -> Result<bool, GpuError> {
        Stream::is_done(self)
    }

    fn give_up(&self) {
        Stream::give_up(self);
    }
}

/// In host memory: the number of the last copy that ended in each place.
struct Ended {
    /// Keeps the pages until the driver has forgotten them.
    mapping: ManuallyDrop<HostMapping>,
    pages: Arc<Pages>,
    /// The last copy that was queued, in each place.
    queued: Box<[AtomicU64]>,
}

impl Drop for Ended {
    fn drop(&mut self) {
        // A stream may still store to the word of a copy that was given up: then the memory is kept for good.
        let settled = |word: u64| self.last(word) >= self.queued[word as usize].load(Ordering::Acquire);
        if (0..WORDS).all(settled) {
            // SAFETY: dropped here only.
            unsafe { ManuallyDrop::drop(&mut self.mapping) };
        }
    }
}

// SAFETY: the pages are used by atomics and the GPU only.
unsafe impl Sync for Ended {}

impl Ended {
    fn new(gpu: &Gpu) -> Result<Option<Ended>, HpeError> {
        let pages = Arc::new(Pages::new(8 * WORDS as usize)?);
        // SAFETY: it keeps the pages.
        let mapping = unsafe { gpu.map_kept(pages.start(), 8 * WORDS as usize, pages.clone())? };
        let mapping = ManuallyDrop::new(mapping);
        let queued = (0..WORDS).map(|_| AtomicU64::new(0)).collect();
        let ended = Ended { mapping, pages, queued };
        let stream = gpu.stream()?;
        // SAFETY: a word of the mapping, which is waited for.
        let stored = unsafe { stream.store_u64(ended.address(0), 1) };
        // Whoever fails here has a driver without such stores: its streams are asked.
        let told = stored.is_ok() && stream.wait("a store by a stream", TRIED).is_ok() && ended.last(0) == 1;
        ended.word(0).store(0, Ordering::Relaxed);
        Ok(told.then_some(ended))
    }

    fn address(&self, number: u64) -> u64 {
        self.mapping.address() + 8 * (number % WORDS)
    }

    fn word(&self, number: u64) -> &AtomicU64 {
        // SAFETY: a word of the pages.
        unsafe { AtomicU64::from_ptr(self.pages.start().cast::<u64>().add((number % WORDS) as usize)) }
    }

    /// The last copy that ended of those that share its word.
    fn last(&self, number: u64) -> u64 {
        self.word(number).load(Ordering::Acquire)
    }
}

impl CudaDevice {
    pub fn new(gpu: Gpu) -> Result<CudaDevice, HpeError> {
        let ended = Ended::new(&gpu)?;
        Ok(CudaDevice { gpu, ended, late: Late::default() })
    }

    /// A word says so.
    fn has_ended(&self, number: u64) -> bool {
        self.ended.as_ref().is_some_and(|ended| ended.last(number) >= number)
    }
}

impl Device for CudaDevice {
    fn map(&self, _: u64, size: usize) -> Result<Memory, HpeError> {
        let buffer = self.gpu.alloc(size)?;
        Ok(Memory { address: buffer.address(), inside: buffer.address(), buffer: Some(buffer) })
    }

    fn unmap(&self, _: &Memory, _: usize) {
        // The buffer frees itself.
    }

    unsafe fn submit(&self, queue: &mut Queue, dst: u64, src: u64, len: usize) -> Result<u64, HpeError> {
        let number = queue.last + 1;
        let Some(ended) = self.ended.as_ref().filter(|_| len <= TOLD) else {
            let stream = self.gpu.stream()?;
            // SAFETY: the caller's contract.
            unsafe { stream.copy(dst, src, len)? };
            queue.last = number;
            queue.own.insert(number, stream);
            return Ok(number << 1);
        };
        let turn = (number % STREAMS) as usize;
        while queue.streams.len() <= turn {
            queue.streams.push(self.gpu.stream()?);
        }
        let stream = &queue.streams[turn];
        // SAFETY: the caller's contract.
        unsafe { stream.copy(dst, src, len)? };
        queue.last = number;
        // SAFETY: a word that lives until it was stored to.
        unsafe { stream.store_u64(ended.address(number), number)? };
        ended.queued[(number % WORDS) as usize].store(number, Ordering::Release);
        Ok(number << 1 | 1)
    }

    fn look(&self, ticket: u64) -> Look {
        match ticket & 1 == 0 {
            true => Look::Nothing,
            false if self.has_ended(ticket >> 1) => Look::Done,
            false => Look::UnderWay,
        }
    }

    fn is_done(&self, queue: &mut Queue, ticket: u64) -> Result<bool, HpeError> {
        let number = ticket >> 1;
        if ticket & 1 != 0 {
            // Asked for its error, if it has one: what ended well is told.
            let stream = queue.streams.get((number % STREAMS) as usize);
            return Ok(self.has_ended(number) || stream.map_or(Ok(true), |stream| stream.is_done())?);
        }
        let done = queue.own.get(&number).map_or(Ok(true), |stream| stream.is_done());
        match done {
            Ok(false) => {}
            Ok(true) => queue.own.remove(&number).into_iter().for_each(Stream::retire),
            Err(_) => drop(queue.own.remove(&number)),
        }
        Ok(done?)
    }

    unsafe fn copy_now(&self, dst: u64, src: u64, len: usize, to: Side, host: Host) -> Result<(), HpeError> {
        // What was given up would come behind this one's bytes, or among a later one's.
        self.late.settle(Clock::REAL, AT_ONCE)?;
        let copied: Result<(), GpuError> = match (host, to) {
            (Host::Pinned, _) => {
                let stream = Arc::new(self.gpu.stream()?);
                // SAFETY: the caller's contract; what is given up, the driver keeps its memory for.
                unsafe { stream.copy(dst, src, len)? };
                self.late.wait(stream, Clock::REAL, AT_ONCE)
            }
            // SAFETY: the caller's contract; the host's side is written by nobody meanwhile.
            (Host::Pageable, Side::Device) => unsafe {
                self.gpu.write_at(dst, std::slice::from_raw_parts(src as *const u8, len))
            },
            // SAFETY: the same; the host's side is used by nobody meanwhile.
            (Host::Pageable, Side::Host) => unsafe {
                self.gpu.read_at(src, std::slice::from_raw_parts_mut(dst as *mut u8, len))
            },
        };
        Ok(copied?)
    }

    fn is_signal_safe(&self) -> bool {
        false
    }

    fn wants_pinned(&self) -> bool {
        true
    }

    fn gpu(&self) -> Option<&Gpu> {
        Some(&self.gpu)
    }

    fn end(&self) {
        // GPUs stay open until the process ends.
    }
}

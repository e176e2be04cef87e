//! The copier: moves bytes to and from GPU memory for the model of the card (design section 3, "Memory"). This crate
//! knows nothing of the model; `ggas-device` connects the two.
//!
//! A small resident kernel (kernels/src/copier.cu) does short copies. Commands reach it through rings in host memory,
//! within about a bus round trip, without a driver call. The GPU's copy engines do long copies, copies of host memory
//! that is not mapped, and all copies while the kernel does not run.
//!
//! The kernel runs while a [`CopierGuard`] exists. It alone does atomic operations. Copies are independent of each other; a copy makes its last aligned
//! 64-bit word visible last.
//!
//! [`ring`] is public so that the same rings are tested against the kernel on the CPU executor.

mod control;
mod copy_engine;
pub mod ring;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use control::Control;
pub use control::CopierGuard;
pub(crate) use control::KERNEL;
use copy_engine::CopyEngine;
use ring::{Command, INLINE, RINGS, Ring, RingMemory, SMALL};

use crate::error::GpuError;
use crate::gpu::Gpu;
use crate::mapping;
use crate::memory::pinned;
use crate::ranges;
use crate::resident::{Pause, gate};
use extoll_abi::Atomic;
use ggas_clock::{Backoff, Clock, Ladder};

/// Most bytes that the kernel copies; longer copies go to a copy engine.
const BULK: usize = 256 * 1024;

/// Most bytes of a [`Copier::write`].
pub const WRITE_MAX: usize = 4096;

/// Buffers for writes that do not fit into a command; the size of each is a write's limit.
const SLOTS: usize = 256;
const SLOT_BYTES: usize = WRITE_MAX;

/// Bound of a wait for room in a ring or for a buffer.
const ROOM_TIMEOUT: Duration = Duration::from_secs(1);

/// How a copy stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyState {
    /// Not done yet.
    Pending,
    /// All bytes are visible.
    Done,
    /// The GPU failed; the bytes may not be there.
    Failed,
}

/// What became of an atomic operation that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtomicStart {
    /// It is under way: its id for [`Copier::poll`].
    Started(u64),
    /// Nothing was done: the ring is full, or the kernel is between two runs. Ask again.
    Busy,
    /// Nothing was done: no kernel runs, or the word is none of this GPU's memory.
    Refused,
}

/// Names a copy: who does it (top byte) and its number there.
const ENGINE_ID: u64 = 0x10 << 56;
const FAILED_ID: u64 = 0x20 << 56;
/// The last user of a buffer that was never used.
const NOBODY_ID: u64 = 0x30 << 56;
const NUMBER: u64 = (1 << 56) - 1;

/// The copier of one GPU.
pub struct Copier {
    gpu: Gpu,
    memory: &'static [RingMemory],
    rings: [Mutex<Ring>; RINGS],
    engine: Mutex<CopyEngine>,
    engine_done: &'static AtomicU32,
    slots: Mutex<Slots>,
    /// Addresses of the slots' memory.
    own: Range<u64>,
    control: Mutex<Control>,
    /// The bulk ring for the next copy.
    turn: AtomicUsize,
    /// Polls that found nothing, to look after the GPU now and then.
    idle_polls: AtomicU32,
    failed: AtomicBool,
}

/// Page-locked buffers, used in turn; `user` is the last copy from each.
struct Slots {
    memory: &'static mut [u8],
    user: [u64; SLOTS],
    next: usize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Copier {
    /// The copier of `gpu`; there is one a GPU.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`], driver errors.
    pub fn of(gpu: &Gpu) -> Result<Arc<Copier>, GpuError> {
        gpu.copier(|| {
            let copier = Arc::new(Copier::new(gpu)?);
            let pausable: Arc<dyn Pause> = copier.clone();
            gate().add_pausable(&pausable);
            Ok(copier)
        })
    }

    /// The copier of `gpu`, if this process has registered memory of that GPU.
    pub fn in_use(gpu: &Gpu) -> Option<Arc<Copier>> {
        gpu.copier_in_use()
    }

    fn new(gpu: &Gpu) -> Result<Copier, GpuError> {
        let memory = pinned(gpu, RINGS * size_of::<RingMemory>())?.as_ptr();
        // SAFETY: page-aligned zeroed memory of this size that lives for good and is only used as these rings;
        // they consist of atomics.
        let memory: &'static [RingMemory] = unsafe { std::slice::from_raw_parts(memory.cast(), RINGS) };
        let engine = CopyEngine::new(gpu)?;
        let buffers = pinned(gpu, SLOTS * SLOT_BYTES)?;
        let own = buffers.as_ptr() as u64;
        Ok(Copier {
            own: own..own + buffers.len() as u64,
            gpu: gpu.clone(),
            memory,
            rings: std::array::from_fn(|i| Mutex::new(Ring::new(&memory[i]))),
            engine_done: engine.done_word(),
            engine: Mutex::new(engine),
            slots: Mutex::new(Slots { memory: buffers, user: [NOBODY_ID; SLOTS], next: 0 }),
            control: Mutex::new(Control::new(gpu)?),
            turn: AtomicUsize::new(0),
            idle_polls: AtomicU32::new(0),
            failed: AtomicBool::new(false),
        })
    }

    /// The GPU whose memory it serves.
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// Starts a copy of `len` bytes and returns its id for [`Copier::poll`].
    ///
    /// # Safety
    /// Both ranges are memory of this process or of its GPUs that stays allocated until the copy is done.
    pub unsafe fn copy(&self, dst: u64, src: u64, len: usize) -> u64 {
        if self.is_failed() || len == 0 {
            return FAILED_ID;
        }
        let overlap = dst < src.saturating_add(len as u64) && src < dst.saturating_add(len as u64);
        if len <= BULK && self.reaches(dst, len) && self.reaches(src, len) {
            let length = len as u32;
            let id = if overlap {
                self.submit_bulk(&Command::Move { dst, src, len: length })
            } else if len <= SMALL {
                self.submit(0, &Command::Copy { dst, src, len: length })
            } else {
                self.submit_bulk(&Command::Copy { dst, src, len: length })
            };
            if let Some(id) = id {
                return id;
            }
        }
        // SAFETY: passed on.
        let issued = unsafe { lock(&self.engine).copy(dst, src, len) };
        match issued {
            Ok(number) => ENGINE_ID | u64::from(number),
            Err(error) => self.fail(&error),
        }
    }

    /// Starts a copy after which the copier stores a queue entry at `entry`, whole and visible behind the copy;
    /// `None`, and nothing done, where that is not possible.
    ///
    /// # Safety
    /// As for [`Copier::copy`]; the 16 bytes at `entry` too stay allocated until the copy is done.
    pub unsafe fn copy_then_entry(
        &self,
        dst: u64,
        src: u64,
        len: usize,
        entry: u64,
        word: [u64; 2],
    ) -> Option<u64> {
        let overlap = dst < src.saturating_add(len as u64) && src < dst.saturating_add(len as u64);
        let short = len > 0 && len <= SMALL && !overlap && entry.is_multiple_of(16);
        if self.is_failed() || !short || !mapping::is_mapped(entry, 16) {
            return None;
        }
        if !self.reaches(dst, len) || !self.reaches(src, len) {
            return None;
        }
        self.submit(0, &Command::CopyNotify { dst, src, len: len as u32, entry, word })
    }

    /// Starts a write of 1 to [`WRITE_MAX`] bytes, which are taken before the call returns.
    ///
    /// # Safety
    /// The destination is memory of this process or of its GPUs that stays allocated until the write is done.
    pub unsafe fn write(&self, dst: u64, bytes: &[u8]) -> u64 {
        if self.is_failed() || bytes.is_empty() || bytes.len() > SLOT_BYTES {
            return FAILED_ID;
        }
        if bytes.len() <= INLINE
            && self.reaches(dst, bytes.len())
            && let Some(id) = self.submit(0, &Command::Write { dst, bytes })
        {
            return id;
        }
        let mut slots = lock(&self.slots);
        let i = slots.next;
        slots.next = (i + 1) % SLOTS;
        let mut backoff = Backoff::on(Ladder::DEVICE, Clock::REAL, ROOM_TIMEOUT);
        while self.state(slots.user[i]) == CopyState::Pending {
            if backoff.pause().is_err() {
                return FAILED_ID;
            }
        }
        let buffer = &mut slots.memory[i * SLOT_BYTES..][..bytes.len()];
        buffer.copy_from_slice(bytes);
        let src = buffer.as_ptr() as u64;
        // SAFETY: the caller vouches for the destination; the buffer is not written before this copy is done.
        let id = unsafe { self.copy(dst, src, bytes.len()) };
        slots.user[i] = id;
        id
    }

    /// Starts an atomic operation on a word of this GPU's memory: atomic with what kernels there do by atomics of system
    /// scope, and with others of this copier's. Only the copier's kernel does it, so it takes a [`CopierGuard`]. Whoever asks
    /// has to take what was there ([`Copier::take_before`]).
    ///
    /// # Safety
    /// The word stays allocated until the operation is done.
    pub unsafe fn atomic(&self, at: u64, atomic: Atomic) -> AtomicStart {
        let len = atomic.width().bytes();
        let own = ranges::gpu_of(at, len) == Some(self.gpu.ordinal());
        if self.is_failed() || !own || !at.is_multiple_of(len as u64) {
            return AtomicStart::Refused;
        }
        if let Some(id) = self.submit(0, &Command::Atomic { at, atomic }) {
            return AtomicStart::Started(id);
        }
        self.look_now_and_then();
        if self.comes_back() { AtomicStart::Busy } else { AtomicStart::Refused }
    }

    /// What an atomic operation that is done found in its word, once.
    pub fn take_before(&self, id: u64) -> Option<u64> {
        lock(self.rings.get((id >> 56) as usize)?).take_before(id & NUMBER)
    }

    /// How a copy, or an atomic operation, stands. Cheap. May be asked again after the end.
    pub fn poll(&self, id: u64) -> CopyState {
        match self.state(id) {
            CopyState::Pending if self.look_now_and_then() => self.state(id),
            state => state,
        }
    }

    /// For who waits; whether that showed that the GPU failed.
    fn look_now_and_then(&self) -> bool {
        self.idle_polls.fetch_add(1, Ordering::Relaxed) % 4096 == 4095 && self.look_after().is_err()
    }

    fn state(&self, id: u64) -> CopyState {
        let number = id & NUMBER;
        let done = match id & !NUMBER {
            ENGINE_ID => copy_engine::is_done(self.engine_done, number as u32),
            NOBODY_ID => true,
            ring if (ring >> 56) < RINGS as u64 => self.memory[(ring >> 56) as usize].is_done(number),
            _ => return CopyState::Failed,
        };
        match done {
            true => CopyState::Done,
            false if self.is_failed() => CopyState::Failed,
            false => CopyState::Pending,
        }
    }

    /// Whether the kernel can access a range: memory of this GPU, of a peer, or mapped host memory.
    fn reaches(&self, address: u64, len: usize) -> bool {
        match ranges::gpu_of(address, len) {
            Some(gpu) => gpu == self.gpu.ordinal() || self.gpu.has_peer(gpu),
            None => self.own.contains(&address) || mapping::is_mapped(address, len),
        }
    }

    fn submit(&self, ring: usize, command: &Command<'_>) -> Option<u64> {
        let number = lock(&self.rings[ring]).submit(command)?;
        Some((ring as u64) << 56 | number)
    }

    /// On one of the bulk rings, in turn.
    fn submit_bulk(&self, command: &Command<'_>) -> Option<u64> {
        self.submit(1 + self.turn.fetch_add(1, Ordering::Relaxed) % (RINGS - 1), command)
    }

    fn is_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    fn fail(&self, error: &GpuError) -> u64 {
        if !self.failed.swap(true, Ordering::Relaxed) {
            tracing::error!("the copier of GPU {} failed: {error}", self.gpu.ordinal());
        }
        FAILED_ID
    }
}

//! A rank as a process: what it shares, and how its GPU, or its processor, reduces, and reads and writes the directory.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use ggas_clock::Ladder;
use ggas_gpu::{Module, Stream};
use ggas_kernels::{KernelMem, Launch, Processor, start};

use crate::circle::Ends;
use crate::kernel::{self, BULK, Reduce, STORE, WORDS, Words};
use crate::memory::Shared;
use crate::mps::Before;
use crate::peers::Peers;
use crate::plan::Fault;
use crate::station::Word;
use crate::{Copier, Directory, Lane, SharedGpuError};

/// Looks of the kernel that polls a directory on the GPU, before it gives the GPU back: some tens of microseconds.
const LOOKS: u64 = 64;
/// Bound of work that waits for nobody.
pub(crate) const WORK: Duration = Duration::from_secs(30);
/// Nobody has died.
pub(crate) const NOBODY: u32 = u32::MAX;

/// What copies and reduces.
pub(crate) enum Engine {
    /// The calling thread: what is queued is done at once.
    Cpu(Processor),
    /// Streams: by lane, and of looks at a directory on the GPU.
    Gpu { module: Module, lanes: [Stream; Lane::ALL.len()], looks: Stream },
}

/// Bytes that a block of a copy's kernel has at least, and most blocks: enough for the memory of an H200, with room for the kernels of
/// other ranks beside it.
const BLOCK_BYTES: u64 = 16 << 10;
const BLOCKS_MAX: u64 = 64;

/// A directory on the GPU as this process last saw it.
pub(crate) struct Seen {
    pub(crate) words: HostWords,
    pub(crate) number: usize,
}

/// Host memory that both the host and kernels use.
pub(crate) struct HostWords {
    // Unregistered before the memory goes.
    pub(crate) mapped: ggas_kernels::Mapped,
    pub(crate) words: Box<[AtomicU64]>,
}

/// A rank that shares a GPU.
pub(crate) struct Process {
    pub(crate) rank: usize,
    /// The same as the job numbers it, and all ranks.
    pub(crate) of_job: usize,
    pub(crate) members: Vec<u32>,
    pub(crate) ranks: usize,
    pub(crate) shared: Shared,
    pub(crate) engine: Engine,
    pub(crate) directory: Directory,
    pub(crate) seen: Option<Seen>,
    pub(crate) partial: KernelMem,
    pub(crate) peers: Peers,
    /// Whether all ranks reach each other's vectors.
    pub(crate) reaches: bool,
    pub(crate) timeout: Duration,
    /// How this rank waits.
    pub(crate) ladder: Ladder,
    /// As it was at the set-up; `None` on the executor.
    pub(crate) mps: Option<Before>,
    /// Of ranks of the job.
    pub(crate) ends: Ends,
    /// Calls so far, the same as of all ranks that have come as far.
    pub(crate) calls: AtomicU32,
}

/// What a rank tells all others of a call, in [`Word::Fault`].
pub(crate) fn fault_of(call: u32, fault: u64) -> u64 {
    u64::from(call) << 32 | fault
}

/// Whether it was told of a call behind this one, in which nobody who makes this one is missed: whoever told it has made this one.
pub(crate) fn is_later(word: u64, call: u32) -> bool {
    (((word >> 32) as u32).wrapping_sub(call) as i32) > 0
}

impl Process {
    /// Where MPS has ended, that is why.
    pub(crate) fn explain(&self, error: SharedGpuError) -> SharedGpuError {
        match &self.mps {
            Some(mps) => mps.explain(error, self.of_job),
            None => error,
        }
    }

    /// Tells all that this rank will not make the next call, by what failed elsewhere.
    pub(crate) fn fail(&self, error: &SharedGpuError) {
        let fault = Fault::passed_on(error, self.rank);
        self.tell(self.calls.load(Ordering::Relaxed).wrapping_add(1), fault);
    }

    /// Tells all of a fault, unless they know of one in this call or before it.
    pub(crate) fn tell(&self, call: u32, fault: u64) {
        let new = |now| (now == 0 || is_later(now, call)).then_some(fault_of(call, fault));
        let _ = self.shared.word(Word::Fault).fetch_update(Ordering::AcqRel, Ordering::Acquire, new);
    }

    /// Looks at a directory on the GPU.
    pub(crate) fn look(&self) -> Result<(), SharedGpuError> {
        let Some(seen) = &self.seen else { return Ok(()) };
        match self.directory {
            Directory::Host => Ok(()),
            Directory::GpuKernel => self.words_kernel(seen, seen.number, 0, LOOKS),
            Directory::GpuCopies => match &self.engine {
                Engine::Cpu(_) => {
                    (0..seen.number).for_each(|at| {
                        // SAFETY: a word of the directory in front of the buffer, mapped while `self` lives.
                        let word = unsafe { AtomicU64::from_ptr((self.shared.head() as *mut u64).add(at)) };
                        seen.words.words[at].store(word.load(Ordering::Acquire), Ordering::Release);
                    });
                    Ok(())
                }
                Engine::Gpu { looks, .. } => {
                    // SAFETY: the directory, and as many words of host memory that is registered as long.
                    unsafe { looks.copy(seen.words.mapped.address(), self.shared.head(), 8 * seen.number) }?;
                    // Without this wait the look would show what was there before.
                    Ok(looks.wait("a look at the directory", WORK)?)
                }
            },
        }
    }

    fn words_kernel(&self, seen: &Seen, at: usize, value: u64, looks: u64) -> Result<(), SharedGpuError> {
        let args = Words {
            directory: self.shared.head(),
            copy: seen.words.mapped.address(),
            number: seen.number as u64,
            at: at as u64,
            value,
            looks,
        };
        match &self.engine {
            Engine::Cpu(processor) => {
                // SAFETY: the structure is this kernel's; directory and copy live as long as `self`.
                let launch = unsafe { Launch::new(processor, WORDS, 1, 1, &args) };
                Ok(start(&[launch])?.wait(WORK)?)
            }
            Engine::Gpu { module, looks, .. } => {
                // SAFETY: as above.
                let launch = unsafe { ggas_gpu::Launch::new(module, WORDS, 1, 1, &args) };
                // SAFETY: a stream of this GPU, waited for right away.
                unsafe { launch.enqueue(looks.as_raw()) }?;
                Ok(looks.wait("a look at the directory", WORK)?)
            }
        }
    }

    pub(crate) fn write_word(&self, word: Word, value: u64) -> Result<(), SharedGpuError> {
        let Some(seen) = &self.seen else {
            self.shared.word(word).store(value, Ordering::Release);
            return Ok(());
        };
        match (&self.engine, self.directory) {
            (_, Directory::GpuKernel) => self.words_kernel(seen, word.index(), value, 0),
            (Engine::Cpu(_), _) => {
                // SAFETY: a word of the directory in front of the buffer, mapped while `self` lives.
                let place =
                    unsafe { AtomicU64::from_ptr((self.shared.head() as *mut u64).add(word.index())) };
                place.store(value, Ordering::Release);
                Ok(())
            }
            (Engine::Gpu { looks, .. }, _) => {
                // SAFETY: a word of the directory, mapped while `self` lives.
                unsafe { looks.store_u64(self.shared.head() + 8 * word.index() as u64, value) }?;
                Ok(looks.wait("a word of the directory", WORK)?)
            }
        }
    }

    /// Address of a word for a mark.
    pub(crate) fn mark_address(&self, word: Word) -> u64 {
        match self.seen {
            Some(_) => self.shared.head() + 8 * word.index() as u64,
            None => self.shared.word_address(word),
        }
    }

    pub(crate) fn reduce(&self, args: &Reduce) -> Result<(), SharedGpuError> {
        match &self.engine {
            Engine::Cpu(_) => {
                // SAFETY: what it names was checked by the call; the protocol gives it to this rank now.
                unsafe { kernel::reduce(args) };
                Ok(())
            }
            Engine::Gpu { module, lanes: [work, ..], .. } => {
                // SAFETY: a stream of this GPU; what it names as above; `block_on` returns when it is done.
                unsafe { kernel::enqueue_reduce(module, work, args) }
            }
        }
    }

    /// Queues a copy by a kernel; on the executor it is done when this returns.
    ///
    /// # Safety
    /// As of a copy by a stream: the bytes are there until the lane is idle, and the protocol gives them to this rank now.
    pub(crate) unsafe fn copy(
        &self,
        by: Copier,
        to: u64,
        from: u64,
        bytes: usize,
    ) -> Result<(), SharedGpuError> {
        let args = kernel::Copy { to, from, bytes: bytes as u64 };
        let (kernel, threads) = if by == Copier::Bulk { (BULK, 128) } else { (STORE, 512) };
        match &self.engine {
            Engine::Cpu(processor) => {
                // SAFETY: the structure is this kernel's; the caller's promise.
                let launch = unsafe { Launch::new(processor, kernel, 1, 4, &args) };
                Ok(start(&[launch])?.wait(WORK)?)
            }
            Engine::Gpu { module, lanes, .. } => {
                let blocks = args.bytes.div_ceil(BLOCK_BYTES).clamp(1, BLOCKS_MAX) as u32;
                // SAFETY: the structure is this kernel's. No block waits for another.
                let launch = unsafe { ggas_gpu::Launch::new(module, kernel, blocks, threads, &args) };
                // SAFETY: a stream of this GPU; the caller waits for it.
                Ok(unsafe { launch.enqueue(lanes[by.lane() as usize].as_raw()) }?)
            }
        }
    }
}

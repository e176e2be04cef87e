//! What a bounded wait of a kernel leaves behind when its time is over.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use extoll_abi::layout::{self, ggas_report};
use ggas_device::HostBuffer;
use ggas_kernels::{Mapped, MemoryError, Processor};

use crate::{DeviceError, KernelPortState};

mod queues;

/// A wait of a kernel that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelReport {
    /// One of `GGAS_ERR_*` (`extoll_abi::layout`).
    pub status: u32,
    /// What was waited for: one of `GGAS_WAIT_*`.
    pub wait: u32,
    /// Node of the waiting kernel; of queues the member.
    pub node: u32,
    /// Block of the thread.
    pub block: u32,
    /// Thread in its block.
    pub thread: u32,
    /// Node waited for, if one; of queues the member.
    pub peer: Option<u32>,
    /// Source line of the wait.
    pub line: u32,
    /// Value waited for.
    pub expected: u64,
    /// Value seen last.
    pub seen: u64,
    /// Where it was looked at; of queues what `GGAS_WAIT_QUEUE*` say.
    pub address: u64,
    /// How long; of a range that a queue refused its offset, as nanoseconds.
    pub waited: Duration,
    /// Blocks of the grid that had not started by then, as far as that is known (on the CPU executor).
    pub unstarted: u32,
    /// What of the port may explain it; `None` for a wait at something else.
    pub port: Option<KernelPortState>,
}

impl fmt::Display for KernelReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_of_queues() {
            return self.of_queues(f);
        }
        let what = ggas_kernels::wait_name(self.wait);
        write!(f, "node {} block {} thread {}: ", self.node, self.block, self.thread)?;
        match self.status {
            layout::GGAS_ERR_TIMEOUT => write!(f, "waited {:?} for {what}", self.waited)?,
            layout::GGAS_ERR_POISONED => write!(f, "the group is poisoned, at a wait for {what}")?,
            layout::GGAS_ERR_NOTIFICATION => write!(f, "error notification at a wait for {what}")?,
            layout::GGAS_ERR_LOST => write!(f, "the process at the other end is gone, at a wait for {what}")?,
            layout::GGAS_ERR_ARGUMENT if self.wait == layout::GGAS_WAIT_COMPLETION => {
                let Self { seen, line, expected, .. } = self;
                return write!(
                    f,
                    "there is no completion word {seen} (line {line}): words are below {expected}"
                );
            }
            // Of a window: nothing was waited for.
            layout::GGAS_ERR_ARGUMENT => {
                let node = self.peer.unwrap_or(u32::MAX);
                return write!(
                    f,
                    "refused {} bytes at offset {:#x} of node {node} (line {}): the window has no such node, or not so \
                     many bytes there of its {}, or a signal is not aligned to 8",
                    self.seen, self.address, self.line, self.expected
                );
            }
            layout::GGAS_ERR_TRIGGER => return self.not_counted(f),
            status => write!(f, "error {status} at a wait for {what}")?,
        }
        if let Some(peer) = self.peer {
            write!(f, " from node {peer}")?;
        }
        let Self { address, expected, seen, line, .. } = self;
        write!(f, " (line {line}): expected {expected:#x} at {address:#x}, saw {seen:#x}")?;
        self.not_started(f)?;
        match self.port.filter(|_| self.status == layout::GGAS_ERR_TIMEOUT) {
            Some(port) => port.advise(f, self.wait == layout::GGAS_WAIT_NOTIFICATION),
            None => Ok(()),
        }
    }
}

impl KernelReport {
    /// Why a wait for other blocks may have been in vain.
    fn not_started(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.unstarted == 0 {
            return Ok(());
        }
        let some = self.unstarted;
        write!(
            f,
            "; {some} blocks of the grid had not started: no block may wait for a later one of a grid "
        )?;
        f.write_str("that does not fit at once; launch fewer blocks, or end the kernel and go on in the next")
    }

    /// Of triggered operations.
    fn not_counted(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seen: tag, line, expected, .. } = self;
        match *expected as u32 {
            layout::GGAS_TN_FULL => {
                write!(f, "a trigger of tag {tag} found the table full (line {line}): open it with more tags")
            }
            layout::GGAS_TN_NO_TAG => {
                write!(
                    f,
                    "tag {tag} is beyond the table (line {line}): open it with more (WindowConfig::tags)"
                )
            }
            layout::GGAS_TN_NO_FIELDS => write!(
                f,
                "a trigger of tag {tag} brought fields (line {line}), which its operation was not registered to take \
                 (When::with_fields), or no operation waits for it"
            ),
            layout::GGAS_TN_TOO_LARGE => {
                write!(
                    f,
                    "a trigger of tag {tag} asked for more bytes than fields can say (line {line}): 16 MiB - 1"
                )
            }
            layout::GGAS_TN_TOO_MANY => {
                write!(f, "tag {tag} has counted all that it can (line {line}): re-arm, or cancel it")
            }
            layout::GGAS_TN_TOO_SOON => write!(
                f,
                "tag {tag} was re-armed before its operation was started (line {line}), or nothing is registered for it"
            ),
            _ => write!(
                f,
                "a trigger of tag {tag} was not counted (line {line}): it brought fields that its operation does not take, \
                 re-armed it before it was started, or the tag has counted all that it can"
            ),
        }
    }
}

/// A report in host memory that kernels of one processor write.
#[derive(Debug)]
pub struct ReportCell {
    mapped: Mapped,
    // Dropped after the mapping.
    memory: HostBuffer,
}

impl ReportCell {
    /// An empty report.
    ///
    /// # Errors
    /// No memory, or the processor cannot map it.
    pub fn new(processor: &Processor) -> Result<ReportCell, ReportError> {
        ReportCell::with_words(processor, &[])
    }

    /// An empty report with words behind it, for kernels.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn with_words(processor: &Processor, words: &[u64]) -> Result<ReportCell, ReportError> {
        let memory = HostBuffer::zeroed(size_of::<ggas_report>() + size_of_val(words))?;
        words
            .iter()
            .enumerate()
            .for_each(|(at, word)| memory.store_u64(size_of::<ggas_report>() + 8 * at, *word));
        // SAFETY: the mapping is dropped before the memory; both sides access it atomically.
        let mapped = unsafe { processor.map_host(memory.as_ptr(), memory.len())? };
        Ok(ReportCell { mapped, memory })
    }

    /// Address for `ggas_port::report` and `ggas_window::report`.
    pub fn address(&self) -> u64 {
        self.mapped.address()
    }

    /// The report, once a wait has failed.
    pub fn get(&self) -> Option<KernelReport> {
        // Stored last with release.
        if self.status().load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut bytes = [0; size_of::<ggas_report>()];
        self.memory.read(0, &mut bytes);
        // SAFETY: the structure is plain numbers without padding, of exactly this size.
        let raw = unsafe { std::mem::transmute::<[u8; size_of::<ggas_report>()], ggas_report>(bytes) };
        Some(KernelReport {
            status: raw.status,
            wait: raw.wait,
            node: raw.node,
            block: raw.block,
            thread: raw.thread,
            peer: (raw.peer != u32::MAX).then_some(raw.peer),
            line: raw.line,
            expected: raw.expected,
            seen: raw.seen,
            address: raw.address,
            waited: Duration::from_nanos(raw.waited_ns),
            unstarted: raw.unstarted,
            port: None,
        })
    }

    /// A word behind the report, which kernels may change; one that was given.
    pub fn word(&self, at: usize) -> u64 {
        self.memory.load_u64(size_of::<ggas_report>() + 8 * at)
    }

    /// Sets such a word. Not while kernels change it.
    pub fn set_word(&self, at: usize, word: u64) {
        self.memory.store_u64(size_of::<ggas_report>() + 8 * at, word);
    }

    /// Forgets the report, so that the next failure is recorded. Not while kernels run.
    pub fn clear(&self) {
        self.memory.write(0, &[0; size_of::<ggas_report>()]);
    }

    fn status(&self) -> &AtomicU32 {
        // SAFETY: an aligned word of the buffer, alive with it, accessed atomically.
        unsafe {
            AtomicU32::from_ptr(self.memory.as_ptr().add(std::mem::offset_of!(ggas_report, status)).cast())
        }
    }
}

/// Errors of making a [`ReportCell`].
#[derive(thiserror::Error)]
pub enum ReportError {
    /// No host memory.
    #[error(transparent)]
    Host(#[from] DeviceError),
    /// The processor cannot map it.
    #[error(transparent)]
    Processor(#[from] MemoryError),
}

ggas_errors::debug_as_display!(ReportError);

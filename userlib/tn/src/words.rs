//! Completion words and status: host memory that the unit writes, and that kernels and the host poll.

use std::collections::HashMap;
use std::mem::offset_of;
use std::sync::Arc;

use extoll_abi::layout::ggas_tn;
use extoll_abi::regs::*;
use extoll_abi::{ErrorUnits, regs};
use ggas_device::{DeviceError, HostBuffer};
use ggas_kernels::KernelMem;

use crate::TnError;

/// Bytes before the first word.
const WORDS: usize = 64;

/// Names the completion word of an operation: the tag's, as long as that is not cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Completion {
    pub(crate) tag: u64,
    pub(crate) word: u32,
}

impl Completion {
    /// The number that kernels wait for it by (`ggas_tn_wait_*`).
    pub fn word(&self) -> u32 {
        self.word
    }

    /// The tag that starts the operation.
    pub fn tag(&self) -> u64 {
        self.tag
    }
}

/// What a completion word says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Completed {
    /// How often the operation is complete, modulo 2^32.
    pub times: u32,
    /// Units that met an error the last time; empty if it went well. Of a window: the requester, if since the operation was
    /// registered a trigger brought fields that it cannot be carried out with.
    pub error: ErrorUnits,
}

impl Completed {
    pub(crate) fn of(word: u64) -> Completed {
        Completed {
            times: TRIGGER_WORD_TIMES.get(word) as u32,
            error: ErrorUnits::from_bits_truncate(TRIGGER_WORD_ERROR.get(word) as u8),
        }
    }

    /// Of a window: a kernel's error.
    pub(crate) fn by_kernels(word: u64) -> Completed {
        let failed = TRIGGER_WORD_ERROR.get(word) != 0;
        let error = if failed { ErrorUnits::REQUESTER } else { ErrorUnits::empty() };
        Completed { error, ..Completed::of(word) }
    }

    /// Whether that is at least `times`.
    pub(crate) fn reached(self, times: u32) -> bool {
        self.times.wrapping_sub(times) as i32 >= 0
    }
}

/// Triggers that did not count as they should, and re-arming that failed: how many, and the tag of the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Triggers that found the table full.
    pub refused: u64,
    /// Tag of the last one.
    pub refused_tag: u64,
    /// Triggers of operations that were started already; they count for the next time.
    pub late: u64,
    /// Tag of the last one.
    pub late_tag: u64,
    /// Re-arming too soon, fields that the operation does not take or no command can have, and triggers beyond what a tag of
    /// a window counts.
    pub failed: u64,
    /// Tag of the last one.
    pub failed_tag: u64,
}

impl Status {
    pub(crate) fn of(word: impl Fn(usize) -> u64) -> Status {
        let word = |which: u64| word(which as usize);
        Status {
            refused: word(EXTOLL_TRIGGER_STATUS_REFUSED),
            refused_tag: word(EXTOLL_TRIGGER_STATUS_REFUSED_TAG),
            late: word(EXTOLL_TRIGGER_STATUS_LATE),
            late_tag: word(EXTOLL_TRIGGER_STATUS_LATE_TAG),
            failed: word(EXTOLL_TRIGGER_STATUS_FAILED),
            failed_tag: word(EXTOLL_TRIGGER_STATUS_FAILED_TAG),
        }
    }

    /// Kernels with this `ggas_tn` do not fail for these any more.
    pub(crate) fn clear_in(&self, tn: &KernelMem) -> Result<(), TnError> {
        tn.store_u64(offset_of!(ggas_tn, refused_before), self.refused)?;
        Ok(tn.store_u64(offset_of!(ggas_tn, failed_before), self.failed)?)
    }
}

/// The memory.
pub(crate) struct Words {
    memory: Arc<HostBuffer>,
}

impl Words {
    pub(crate) fn new(words: u32) -> Result<Words, DeviceError> {
        Ok(Words { memory: Arc::new(HostBuffer::zeroed(WORDS + 8 * words as usize)?) })
    }

    pub(crate) fn memory(&self) -> &Arc<HostBuffer> {
        &self.memory
    }

    /// Where a word lies in the memory, in bytes.
    pub(crate) const fn at(word: u32) -> usize {
        WORDS + 8 * word as usize
    }

    pub(crate) fn read(&self, word: u32) -> Completed {
        Completed::of(self.memory.load_u64(Words::at(word)))
    }

    pub(crate) fn clear(&self, word: u32) {
        self.memory.store_u64(Words::at(word), 0);
    }

    pub(crate) fn status(&self) -> Status {
        Status::of(|i| self.memory.load_u64(8 * i))
    }
}

/// Which tag has which word.
#[derive(Default)]
pub(crate) struct Given {
    of: HashMap<u64, u32>,
    free: Vec<u32>,
    next: u32,
}

impl Given {
    /// The word of a tag, given now if it has none; `None` if all `most` are given. And whether it is new.
    pub(crate) fn give(&mut self, tag: u64, most: u32) -> Option<(u32, bool)> {
        if let Some(word) = self.of.get(&tag) {
            return Some((*word, false));
        }
        let word = match self.free.pop() {
            Some(word) => word,
            None if self.next < most => {
                self.next += 1;
                self.next - 1
            }
            None => return None,
        };
        self.of.insert(tag, word);
        Some((word, true))
    }

    pub(crate) fn take_back(&mut self, tag: u64) {
        self.free.extend(self.of.remove(&tag));
    }
}

const _: () = assert!(8 * regs::EXTOLL_TRIGGER_STATUS_WORDS as usize <= WORDS);

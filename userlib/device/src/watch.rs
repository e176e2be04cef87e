//! Waiting for a position of a queue that several threads consume from.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A position at which nothing stood.
#[derive(Debug)]
pub struct Watch {
    word: NonNull<AtomicU64>,
    position: u64,
    freed: Arc<AtomicU64>,
}

impl Watch {
    /// `word` is not 0 from when something arrives at `position` until it is consumed; whoever consumes it first counts
    /// it in `freed`, which is then above `position`, and then clears the word with release.
    pub fn new(word: NonNull<AtomicU64>, position: u64, freed: Arc<AtomicU64>) -> Watch {
        Watch { word, position, freed }
    }

    /// Whether something has arrived there since, also if somebody else has consumed it: what comes next comes elsewhere.
    ///
    /// # Safety
    /// The word is still mapped.
    pub unsafe fn has_news(&self) -> bool {
        // SAFETY: as the caller says. Acquire: whoever cleared the word had counted it before.
        let word = unsafe { self.word.as_ref() }.load(Ordering::Acquire);
        word != 0 || self.freed.load(Ordering::Relaxed) > self.position
    }
}

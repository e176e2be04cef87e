//! The reader's account of a ring that the card fills.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Watch;

/// How far the one consumer of a notification queue or mailbox has got (spec 3.3, 7). Places may be consumed in any
/// order; they are freed, and the card's read pointer moves, in the order of the ring. The entries themselves, and the
/// word that shows them free, are their user's.
#[derive(Debug)]
pub struct ReadSide {
    places: u32,
    /// Next place to free.
    head: u32,
    /// Places freed so far. A position in the ring is this running count plus what lies before it.
    freed: Arc<AtomicU64>,
    /// Places behind `head` that were consumed out of order, one bit each.
    consumed: Box<[u64]>,
    /// How many bits are set.
    held: u32,
}

impl ReadSide {
    /// A ring of this many places from which nothing was consumed.
    pub fn new(places: u32) -> ReadSide {
        let words = (places as usize).div_ceil(64);
        ReadSide { places, head: 0, freed: Arc::default(), consumed: vec![0; words].into(), held: 0 }
    }

    /// Index of the oldest place that is not free. It was never consumed: freeing skips what was.
    #[inline]
    pub fn head(&self) -> u32 {
        self.head
    }

    /// Number of places.
    #[inline]
    pub fn places(&self) -> u32 {
        self.places
    }

    /// Places freed so far.
    #[inline]
    pub fn freed(&self) -> u64 {
        self.freed.load(Ordering::Relaxed)
    }

    /// Places behind the head that were consumed and are not free.
    #[inline]
    pub fn held(&self) -> u32 {
        self.held
    }

    /// Index of a position: a running count.
    #[inline]
    pub fn index(&self, position: u64) -> u32 {
        let behind_head = position.saturating_sub(self.freed()) % u64::from(self.places);
        ((u64::from(self.head) + behind_head) % u64::from(self.places)) as u32
    }

    /// The index behind `index`.
    #[inline]
    pub fn following(&self, index: u32) -> u32 {
        if index + 1 == self.places { 0 } else { index + 1 }
    }

    /// Whether what stands at `index` was consumed out of order.
    #[inline]
    pub fn is_consumed(&self, index: u32) -> bool {
        self.held > 0 && self.consumed[index as usize / 64] >> (index % 64) & 1 == 1
    }

    /// For who waits until something stands at `position`, whose word `word` is not 0 then.
    pub fn watch(&self, word: NonNull<AtomicU64>, position: u64) -> Watch {
        Watch::new(word, position, self.freed.clone())
    }

    /// Consumes `count` places from `index` on, which hold one thing. Where that frees places, `clear` clears each, and
    /// the new [`head`](Self::head) is for the read-pointer register.
    pub fn consume(&mut self, index: u32, count: u32, clear: impl Fn(u32)) -> Option<u32> {
        if index == self.head {
            return Some(self.free_head(count, clear));
        }
        let mut index = index;
        for _ in 0..count {
            self.consumed[index as usize / 64] |= 1 << (index % 64);
            index = self.following(index);
        }
        self.held += count;
        None
    }

    /// Frees `count` places from the head on, and all consumed ones right behind them; `clear` clears each, with release.
    /// The new head, for the read-pointer register.
    #[inline]
    pub fn free_head(&mut self, count: u32, clear: impl Fn(u32)) -> u32 {
        for _ in 0..count {
            self.clear_head(&clear);
        }
        while self.held > 0 && self.is_consumed(self.head) {
            self.consumed[self.head as usize / 64] &= !(1 << (self.head % 64));
            self.held -= 1;
            self.clear_head(&clear);
        }
        self.head
    }

    #[inline]
    fn clear_head(&mut self, clear: &impl Fn(u32)) {
        // In this order, for who watches the place.
        self.freed.store(self.freed() + 1, Ordering::Relaxed);
        clear(self.head);
        self.head = self.following(self.head);
    }
}

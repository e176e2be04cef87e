//! Which lanes a receiver looks at.
//!
//! A few senders are *watched*: their lanes are looked at each time, and their news bits stay set meanwhile, so
//! that they need not set them again for each packet. All others are found by their bits.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use super::inbox::Doorbell;

/// Senders watched at a time.
pub(super) const WATCHED: usize = 4;
const NOBODY: u32 = u32::MAX;

/// One thread at a time changes it; others may look.
pub(super) struct Watch {
    ranks: [AtomicU32; WATCHED],
    /// Senders among them, as bits.
    mask: Box<[AtomicU64]>,
    /// Whose place the next one gets, once all are taken.
    victim: AtomicUsize,
    /// Where the search for bits goes on.
    from: AtomicUsize,
    members: u32,
}

impl Watch {
    pub fn new(members: u32) -> Watch {
        Watch {
            ranks: [const { AtomicU32::new(NOBODY) }; WATCHED],
            mask: (0..members.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            victim: AtomicUsize::new(0),
            from: AtomicUsize::new(0),
            members,
        }
    }

    /// The sender at a place.
    #[inline]
    pub fn at(&self, place: usize) -> Option<u32> {
        let rank = self.ranks[place].load(Ordering::Relaxed);
        (rank != NOBODY).then_some(rank)
    }

    /// Whether a sender that is not watched has news.
    #[inline]
    pub fn others(&self, bell: &Doorbell) -> bool {
        let mut words = self.mask.iter().zip(&bell.news);
        words.any(|(mask, news)| news.load(Ordering::Acquire) & !mask.load(Ordering::Relaxed) != 0)
    }

    /// Begins to watch a sender with news, in the place of another; `has_news` says whether that one's lane is
    /// empty. `None`: there is none.
    pub fn adopt(&self, bell: &Doorbell, has_news: impl Fn(u32) -> bool) -> Option<u32> {
        let rank = self.find(bell)?;
        let free = (0..WATCHED).find(|place| self.at(*place).is_none());
        let place = free.unwrap_or_else(|| {
            let next = self.victim.load(Ordering::Relaxed);
            self.victim.store((next + 1) % WATCHED, Ordering::Relaxed);
            next
        });
        if let Some(old) = self.at(place) {
            self.set_mask(old, false);
            let (word, bit) = (&bell.news[old as usize / 64], 1 << (old % 64));
            // The bit goes first, then the lane is looked at: the sender does it the other way round.
            word.fetch_and(!bit, Ordering::SeqCst);
            if has_news(old) {
                word.fetch_or(bit, Ordering::SeqCst);
            }
        }
        self.ranks[place].store(rank, Ordering::Relaxed);
        self.set_mask(rank, true);
        Some(rank)
    }

    fn find(&self, bell: &Doorbell) -> Option<u32> {
        let words = self.mask.len();
        let from = self.from.load(Ordering::Relaxed);
        for i in 0..=words {
            let word = (from / 64 + i) % words;
            let mut news = bell.news[word].load(Ordering::Acquire) & !self.mask[word].load(Ordering::Relaxed);
            if i == 0 {
                news &= u64::MAX << (from % 64);
            }
            while news != 0 {
                let rank = (word * 64) as u32 + news.trailing_zeros();
                if rank < self.members {
                    self.from.store((rank as usize + 1) % (words * 64), Ordering::Relaxed);
                    return Some(rank);
                }
                // Nobody has this bit: someone hostile set it.
                bell.news[word].fetch_and(!(1 << (rank % 64)), Ordering::SeqCst);
                news &= news - 1;
            }
        }
        None
    }

    fn set_mask(&self, rank: u32, on: bool) {
        let (word, bit) = (&self.mask[rank as usize / 64], 1u64 << (rank % 64));
        let mask = word.load(Ordering::Relaxed);
        word.store(if on { mask | bit } else { mask & !bit }, Ordering::Relaxed);
    }
}

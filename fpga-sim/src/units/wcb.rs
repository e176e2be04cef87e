//! Write-combining buffers: the front of the requesters' card paths (spec 2.4, 7).
//!
//! One buffer per VPID gathers the words of a descriptor or message, in any order, and hands it on as a whole. Words
//! lie in atomics without a lock: as on the card, one writer at a time is the rule, and whoever breaks it garbles
//! what its own VPID sends and nothing else.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use extoll_abi::{Descriptor, PageOption, WcbState};

use crate::packet::ANYONE;

/// Unit of the WCB timeout register \[inferred\]: the driver's value 0x20 is 1.6 s, longer than a writer may lose
/// its CPU between two words.
pub const WCB_TIMEOUT_TICK: Duration = Duration::from_millis(50);

/// Words present, in a line.
const PRESENT: u32 = 0xffff;

/// What a line of up to `WORDS` (at most 16) words becomes.
pub trait Line<const WORDS: usize>: Sized {
    /// Which of the VPID's pages the words were written to.
    type Page: Copy;
    /// A number below 256 for a page.
    fn page_bits(page: Self::Page) -> u8;
    /// Bits of the words that make a line complete, as far as `first` says, which is word 0 if `present` has bit 0.
    fn needed(present: u32, first: u64) -> u32;
    /// The complete line. Words that were not needed are anything.
    fn collect(page: Self::Page, word: [u64; WORDS]) -> Self;
}

/// A committed descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// Option of the page it was written to.
    pub option: PageOption,
    /// The words.
    pub descriptor: Descriptor,
    /// The process that it is for, see [`Packet::process`](crate::packet::Packet::process).
    pub process: u32,
}

impl Line<3> for Command {
    type Page = PageOption;

    #[inline]
    fn page_bits(page: PageOption) -> u8 {
        page.bits()
    }

    #[inline]
    fn needed(_present: u32, _first: u64) -> u32 {
        7
    }

    #[inline]
    fn collect(option: PageOption, word: [u64; 3]) -> Command {
        Command { option, descriptor: Descriptor { word }, process: ANYONE }
    }
}

/// What a store brought about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored<L> {
    /// The line is not complete yet.
    Partial,
    /// It is.
    Complete(L),
}

/// One VPID's buffer.
#[derive(Debug)]
pub struct Wcb<L, const WORDS: usize> {
    word: [AtomicU64; WORDS],
    /// \[15:0\] words present, \[23:16\] page.
    line: AtomicU32,
    /// When the line's first word came.
    since: AtomicU64,
    kind: PhantomData<fn() -> L>,
}

impl<L, const WORDS: usize> Default for Wcb<L, WORDS> {
    fn default() -> Self {
        Wcb {
            word: [const { AtomicU64::new(0) }; WORDS],
            line: AtomicU32::new(0),
            since: AtomicU64::new(0),
            kind: PhantomData,
        }
    }
}

impl<L: Line<WORDS>, const WORDS: usize> Wcb<L, WORDS> {
    /// Takes word `index` (below `WORDS`). `now` and `timeout` are in the same unit, `timeout` `None` while the
    /// timeout is off. `abandoned` is called where an older, partial line is given up for this one.
    #[inline]
    pub fn store(
        &self,
        page: L::Page,
        index: usize,
        value: u64,
        now: u64,
        timeout: Option<u64>,
        abandoned: impl FnOnce(),
    ) -> Stored<L> {
        let bits = u32::from(L::page_bits(page)) << 16;
        let mut line = self.line.load(Ordering::Relaxed);
        if line & PRESENT != 0 && (line & !PRESENT != bits || self.expired(now, timeout)) {
            line = 0;
            abandoned();
        }
        if line & PRESENT == 0 {
            line = bits;
            self.since.store(now, Ordering::Relaxed);
        }
        let Some(word) = self.word.get(index) else { return Stored::Partial };
        line |= 1 << index;
        word.store(value, Ordering::Relaxed);
        let needed = L::needed(line & PRESENT, self.word[0].load(Ordering::Relaxed));
        if line & needed != needed {
            self.line.store(line, Ordering::Relaxed);
            return Stored::Partial;
        }
        self.line.store(0, Ordering::Relaxed);
        let mut words = [0; WORDS];
        words.iter_mut().zip(&self.word).for_each(|(to, from)| *to = from.load(Ordering::Relaxed));
        Stored::Complete(L::collect(page, words))
    }

    /// Whether some but not all words are there.
    pub fn is_partial(&self) -> bool {
        self.line.load(Ordering::Relaxed) & PRESENT != 0
    }

    /// Gives up a partial line whose time is over; returns whether it did.
    pub fn expire(&self, now: u64, timeout: Option<u64>) -> bool {
        let over = self.is_partial() && self.expired(now, timeout);
        if over {
            self.line.store(0, Ordering::Relaxed);
        }
        over
    }

    /// Empties the buffer (its state register was written).
    pub fn reset(&self) {
        self.line.store(0, Ordering::Relaxed);
    }

    fn expired(&self, now: u64, timeout: Option<u64>) -> bool {
        timeout.is_some_and(|timeout| now.saturating_sub(self.since.load(Ordering::Relaxed)) >= timeout)
    }
}

/// The WCB state while words arrive: the assembly toggle differs from the stream-out toggle.
#[inline]
pub fn state_assembling(state: WcbState, partial: bool) -> WcbState {
    if state.idle() == partial { state.with_assembly(!state.assembly()) } else { state }
}

/// Whether a complete line is accepted in this state: not while software has yet to acknowledge a rejection.
#[inline]
pub fn state_accepts(state: WcbState) -> bool {
    !state.retry()
}

/// The state after a complete line was accepted, or rejected (spec 2.4).
#[inline]
pub fn state_after(state: WcbState, accepted: bool) -> WcbState {
    let idle = state.with_stream_out(state.assembly());
    if accepted {
        idle.with_committed(state.committed().wrapping_add(1))
    } else {
        idle.with_retry(true).with_rejected(state.rejected().wrapping_add(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type RmaWcb = Wcb<Command, 3>;
    const TE: PageOption = PageOption::TE;

    proptest! {
        #[test]
        fn any_order_of_words_makes_the_same_descriptor(
            words in any::<[u64; 3]>(),
            order in Just([0usize, 1, 2]).prop_shuffle(),
            repeats in proptest::collection::vec(0usize..2, 0..3),
        ) {
            let wcb = RmaWcb::default();
            let store = |i: usize, v| wcb.store(TE, i, v, 0, None, || panic!("nothing was abandoned"));
            for (place, i) in order[..2].iter().enumerate() {
                prop_assert_eq!(store(*i, !words[*i]), Stored::Partial);
                prop_assert_eq!(store(*i, words[*i]), Stored::Partial, "a later store combines");
                for r in repeats.iter().filter(|r| **r <= place) {
                    prop_assert_eq!(store(order[*r], words[order[*r]]), Stored::Partial);
                }
            }
            let command = Command { option: TE, descriptor: Descriptor { word: words }, process: ANYONE };
            prop_assert_eq!(store(order[2], words[order[2]]), Stored::Complete(command));
            prop_assert!(!wcb.is_partial());
        }
    }

    #[test]
    fn partial_lines_time_out_and_give_way_to_other_pages() {
        let wcb = RmaWcb::default();
        let mut lost = 0;
        let mut store = |option, i, now| {
            let stored = wcb.store(option, i, i as u64, now, Some(10), || lost += 1);
            (stored == Stored::Partial, lost)
        };
        assert_eq!(store(TE, 0, 0), (true, 0));
        assert_eq!(store(TE, 1, 9), (true, 0));
        assert_eq!(store(TE, 2, 10), (true, 1), "too late: this begins a new line");
        assert_eq!(store(PageOption::RRA, 0, 11), (true, 2), "another page");
        assert_eq!(store(PageOption::RRA, 1, 11), (true, 2));
        assert_eq!(store(PageOption::RRA, 2, 11), (false, 2));
        assert!(!wcb.expire(100, Some(1)));
        store(TE, 0, 20);
        assert!(!wcb.expire(29, Some(10)));
        assert!(!wcb.expire(1000, None));
        assert!(wcb.expire(30, Some(10)));
        assert!(!wcb.is_partial());
    }

    #[test]
    fn states_count_and_toggle() {
        let assembling = state_assembling(WcbState(0), true);
        assert!(!assembling.idle());
        assert_eq!(state_assembling(assembling, true), assembling);
        let committed = state_after(assembling, true);
        assert!(committed.idle() && committed.committed() == 1);
        let rejected = state_after(state_assembling(committed, true), false);
        assert!(rejected.idle() && rejected.retry());
        assert_eq!((rejected.committed(), rejected.rejected()), (1, 1));
        let full = (0..255).fold(committed, |s, _| state_after(s, true));
        assert_eq!(full.committed(), 0, "counts modulo 256");
    }
}

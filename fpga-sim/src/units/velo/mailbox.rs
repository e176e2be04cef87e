//! A VPID's mailbox: messages into the slots of a buffer queue (spec 3.2, 7).

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

use extoll_abi::{BqReadPointer, SlotSize, VELO_LINE_WORDS, VeloStatus, velo_slots};

use crate::memory::{Completion, Memory, MemoryError};
use crate::units::bq::Ring;

/// Words of payload.
const WORDS: usize = VELO_LINE_WORDS - 1;

/// A message on its way to a mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Letter {
    /// Status word of its last slot.
    pub status: VeloStatus,
    /// Payload in whole quadwords; what is behind its last byte is 0.
    pub word: [u64; WORDS],
}

/// What became of a letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It lies in the mailbox.
    Written,
    /// The mailbox is full: it waits.
    Waits,
    /// The timeout dropped it, or the mailbox can never hold it: memory that is not declared or is a device's, or
    /// fewer slots than the message takes.
    Dropped,
}

/// One VPID's mailbox.
#[derive(Default)]
pub struct Mailbox {
    ring: Ring,
    backlog: VecDeque<Letter>,
    /// The read pointer at which it has been full, and since when.
    full: Option<(u32, Instant)>,
    /// Timed out at this read pointer: drop until it moves.
    dropped_at: Option<u32>,
}

impl Deref for Mailbox {
    type Target = Ring;

    fn deref(&self) -> &Ring {
        &self.ring
    }
}

impl DerefMut for Mailbox {
    fn deref_mut(&mut self) -> &mut Ring {
        &mut self.ring
    }
}

impl Mailbox {
    /// Messages that wait for slots.
    #[inline]
    pub fn backlog(&self) -> usize {
        self.backlog.len()
    }

    /// Forgets what waits (the mailbox was closed).
    pub fn clear(&mut self) {
        self.backlog.clear();
        (self.full, self.dropped_at) = (None, None);
    }

    /// Writes a letter, or keeps it in order behind those that wait.
    #[inline]
    pub fn push(&mut self, memory: &dyn Memory, rp: BqReadPointer, letter: &Letter) -> Fate {
        if self.backlog.is_empty() {
            if self.dropped_at.is_some_and(|at| at == rp.index()) {
                return Fate::Dropped;
            }
            self.dropped_at = None;
            match self.write(memory, rp, letter) {
                Fate::Waits => {}
                fate => return fate,
            }
        }
        self.backlog.push_back(*letter);
        Fate::Waits
    }

    /// Writes what waits and now fits; after `timeout` without a freed slot, drops all that waits. Returns how
    /// many were written and dropped.
    pub fn drain(
        &mut self,
        memory: &dyn Memory,
        now: Instant,
        timeout: Option<Duration>,
        rp: impl Fn() -> BqReadPointer,
    ) -> (u32, u32) {
        let (mut written, mut dropped) = (0, 0);
        while let Some(letter) = self.backlog.front().copied() {
            let at = rp();
            match self.write(memory, at, &letter) {
                Fate::Written => written += 1,
                Fate::Dropped => dropped += 1,
                Fate::Waits => {
                    let since = match self.full {
                        Some((full_at, since)) if full_at == at.index() => since,
                        _ => self.full.insert((at.index(), now)).1,
                    };
                    if timeout.is_some_and(|timeout| now.saturating_duration_since(since) >= timeout) {
                        (self.full, self.dropped_at) = (None, Some(at.index()));
                        dropped += self.backlog.len() as u32;
                        self.backlog.clear();
                    }
                    break;
                }
            }
            self.full = None;
            self.backlog.pop_front();
        }
        (written, dropped)
    }

    #[inline]
    fn write(&mut self, memory: &dyn Memory, rp: BqReadPointer, letter: &Letter) -> Fate {
        let size = self.ring.current.slot_size();
        let length = letter.status.length();
        if !self.ring.current.is_valid() || !matches!(size, SlotSize::B64 | SlotSize::B128) {
            return Fate::Dropped;
        }
        let slots = velo_slots(size, length);
        if u64::from(slots) > self.ring.capacity() {
            return Fate::Dropped;
        }
        if u64::from(slots) > self.ring.free(rp) {
            return Fate::Waits;
        }
        let (mut rest, each) = (&letter.word[..length.div_ceil(8).min(WORDS)], size.bytes() as usize / 8 - 1);
        for left in (0..slots).rev() {
            let (here, behind) = rest.split_at(each.min(rest.len()));
            rest = behind;
            if self.write_slot(memory, here, letter.status.with_end(left == 0)).is_err() {
                return Fate::Dropped;
            }
            self.ring.advance(memory);
        }
        Fate::Written
    }

    /// Payload and status in one piece, up to the slot's end: the last word becomes visible last.
    #[inline]
    fn write_slot(
        &self,
        memory: &dyn Memory,
        payload: &[u64],
        status: VeloStatus,
    ) -> Result<(), MemoryError> {
        let end = self.ring.slot_address() + u64::from(self.ring.current.slot_size().bytes());
        let len = 8 * (payload.len() + 1);
        let start = end - len as u64;
        let mut bytes = [0; 8 * VELO_LINE_WORDS];
        let words = payload.iter().copied().chain([status.0]);
        bytes.as_chunks_mut::<8>().0.iter_mut().zip(words).for_each(|(to, word)| *to = word.to_le_bytes());
        if memory.is_device(start, len) {
            return Err(MemoryError::Device { address: start });
        }
        match memory.write(start, &bytes[..len])? {
            Completion::Done => Ok(()),
            Completion::Ticket(_) => Err(MemoryError::Device { address: start }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{HostMemory, RangeKind};
    use extoll_abi::{Address, BqSegment, BqTable};
    use proptest::prelude::*;
    use std::sync::Arc;

    /// A page for each segment, and one for the table; segments lie in falling order.
    struct Setup {
        pages: Vec<[u64; 512]>,
        base: usize,
        memory: Arc<HostMemory>,
        mailbox: Mailbox,
        size: SlotSize,
        segments: usize,
        rp: u32,
    }

    impl Setup {
        fn new(size: SlotSize, segments: usize) -> Setup {
            let pages = vec![[0u64; 512]; segments + 2];
            let raw = pages.as_ptr() as usize;
            let base = (raw.next_multiple_of(4096) - raw) / 8;
            let memory = HostMemory::new();
            // SAFETY: the pages live as long as the setup.
            unsafe { memory.add_range(RangeKind::Host, raw as u64, pages.len() * 4096).unwrap() };
            let mailbox = Mailbox::default();
            let mut setup = Setup { pages, base, memory, mailbox, size, segments, rp: 0 };
            let start = setup.pages.as_ptr() as u64 + 8 * base as u64;
            let slots = 4096 / size.bytes();
            let segment = |i: usize| {
                BqSegment::new(size, slots, start + 4096 * ((segments - 1 - i % segments) as u64)).unwrap()
            };
            for i in 0..segments {
                *setup.word(segments * 512 + i) = segment(i).0;
            }
            setup.mailbox.ub = u64::from(slots) * segments as u64 - 1;
            setup.mailbox.table = BqTable::new(start + 4096 * segments as u64, segments as u32).unwrap();
            setup.mailbox.current = segment(0).with_valid(true);
            setup.mailbox.next = segment(1).with_valid(true);
            setup.mailbox.set_write_pointer(if segments >= 3 { 2 } else { 0 });
            setup
        }

        fn word(&mut self, index: usize) -> &mut u64 {
            &mut self.pages.as_flattened_mut()[self.base + index]
        }

        fn push(&mut self, letter: &Letter) -> Fate {
            self.mailbox.push(&*self.memory, BqReadPointer::new(self.rp, false), letter)
        }

        /// Status and payload of the next slot, which it frees.
        fn slot(&mut self) -> Option<(VeloStatus, Vec<u64>)> {
            let (words, per) = (self.size.bytes() as usize / 8, 4096 / self.size.bytes());
            let segment = self.segments - 1 - (self.rp / per) as usize;
            let end = segment * 512 + words * ((self.rp % per) as usize + 1);
            let status = VeloStatus(std::mem::take(self.word(end - 1)));
            let start = end - words;
            status.is_new().then(|| {
                self.rp = (self.rp + 1) % (per * self.segments as u32);
                (status, (start..end - 1).map(|i| *self.word(i)).collect())
            })
        }

        /// The next message, by the rules of spec 7.
        fn pop(&mut self) -> Option<(u8, Vec<u64>)> {
            let (first, words) = self.slot()?;
            let quads = first.length().div_ceil(8);
            if first.is_end() {
                return Some((first.tag(), words[words.len() - quads..].to_vec()));
            }
            let mut message = words;
            loop {
                let (status, words) = self.slot().expect("the rest is there");
                assert_eq!(status.with_end(false), first);
                let rest = quads - message.len();
                message.extend_from_slice(&words[words.len() - rest.min(words.len())..]);
                if status.is_end() {
                    assert_eq!(message.len(), quads);
                    return Some((first.tag(), message));
                }
            }
        }
    }

    fn letter(number: u64, length: u8) -> Letter {
        let mut word = [0; WORDS];
        let used = usize::from(length).div_ceil(8);
        word[..used].iter_mut().enumerate().for_each(|(i, w)| *w = number << 8 | i as u64);
        Letter { status: VeloStatus::new(Address::new(0, 0), 0, number as u8, length), word }
    }

    proptest! {
        #[test]
        fn every_message_arrives_once_and_in_order(
            big in any::<bool>(),
            segments in 1usize..4,
            steps in proptest::collection::vec((proptest::collection::vec(0u8..=120, 0..90), 0u32..90), 1..12),
        ) {
            let mut setup = Setup::new(if big { SlotSize::B128 } else { SlotSize::B64 }, segments);
            let memory = setup.memory.clone();
            let (mut sent, mut seen, now) = (Vec::new(), 0, Instant::now());
            for (lengths, pops) in steps {
                for length in lengths {
                    let letter = letter(sent.len() as u64, length);
                    let fate = setup.push(&letter);
                    prop_assert_ne!(fate, Fate::Dropped);
                    sent.push(letter);
                }
                for _ in 0..pops {
                    let Some((tag, words)) = setup.pop() else { break };
                    let expected = &sent[seen];
                    prop_assert_eq!(tag, expected.status.tag());
                    prop_assert_eq!(&words[..], &expected.word[..expected.status.length().div_ceil(8)]);
                    seen += 1;
                    let rp = BqReadPointer::new(setup.rp, false);
                    let (_, dropped) = setup.mailbox.drain(&*memory, now, None, || rp);
                    prop_assert_eq!(dropped, 0);
                }
            }
            while let Some((tag, _)) = setup.pop() {
                prop_assert_eq!(tag, sent[seen].status.tag());
                seen += 1;
                let rp = BqReadPointer::new(setup.rp, false);
                setup.mailbox.drain(&*memory, now, None, || rp);
            }
            prop_assert_eq!(seen, sent.len());
        }

        #[test]
        fn hostile_registers_do_no_harm(words in proptest::collection::vec(any::<u64>(), 6), length in 0u8..=120) {
            let mut setup = Setup::new(SlotSize::B64, 1);
            let (memory, rp) = (setup.memory.clone(), BqReadPointer(words[5]));
            let mailbox = &mut setup.mailbox;
            mailbox.ub = words[0];
            mailbox.table = BqTable(words[1]);
            mailbox.current = BqSegment(words[2]);
            mailbox.next = BqSegment(words[3]);
            mailbox.set_write_pointer(words[4]);
            for i in 0..10 {
                mailbox.push(&*memory, rp, &letter(i, length));
                mailbox.drain(&*memory, Instant::now(), Some(Duration::ZERO), || rp);
            }
            prop_assert_eq!(mailbox.backlog(), 0);
        }
    }

    #[test]
    fn a_full_mailbox_waits_then_drops_until_the_reader_moves() {
        let mut setup = Setup::new(SlotSize::B64, 1);
        let memory = setup.memory.clone();
        for i in 0..63 {
            assert_eq!(setup.push(&letter(i, 56)), Fate::Written);
        }
        assert_eq!(setup.push(&letter(63, 1)), Fate::Waits);
        assert_eq!(setup.push(&letter(64, 1)), Fate::Waits);
        let (start, timeout, rp) =
            (Instant::now(), Some(Duration::from_secs(1)), BqReadPointer::new(0, false));
        let mut drain =
            |after| setup.mailbox.drain(&*memory, start + Duration::from_millis(after), timeout, || rp);
        assert_eq!(drain(0), (0, 0));
        assert_eq!(drain(999), (0, 0));
        assert_eq!(drain(1000), (0, 2));
        assert_eq!(setup.push(&letter(65, 1)), Fate::Dropped, "no further wait while nothing moves");
        assert_eq!(setup.pop().unwrap().0, 0);
        assert_eq!(setup.push(&letter(66, 1)), Fate::Written);
    }

    #[test]
    fn what_can_never_fit_is_dropped() {
        let mut setup = Setup::new(SlotSize::B64, 1);
        setup.mailbox.ub = 2;
        assert_eq!(setup.push(&letter(0, 113)), Fate::Dropped, "three slots, two usable");
        assert_eq!(setup.push(&letter(0, 112)), Fate::Written);
        setup.mailbox.current = BqSegment(0);
        assert_eq!(setup.push(&letter(0, 0)), Fate::Dropped, "no mailbox");
    }
}

//! The mailbox as its one consumer sees it (spec 3.3, 7).

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use extoll_abi::{VELO_MAX_BYTES, VeloStatus, velo_slots};
use ggas_device::{MailboxMap, VeloDevice, Watch};

use crate::{Message, MessageMatch};

/// Read side of a mailbox. Messages may be consumed in any order; their slots are freed, and the card's read pointer
/// moves, in the order of the mailbox.
#[derive(Debug)]
pub(crate) struct Mailbox {
    map: MailboxMap,
    /// Next slot to free.
    rp: u32,
    /// Slots freed so far. A position in the mailbox is this running count plus what lies before it.
    freed: Arc<AtomicU64>,
    /// Slots behind `rp` whose message was consumed out of order, one bit each.
    consumed: Box<[u64]>,
    /// How many bits are set.
    held: u32,
}

// SAFETY: the mailbox's memory is valid as long as the port, which owns this, and is accessed atomically.
unsafe impl Send for Mailbox {}

/// A message that lies in the mailbox as a whole.
struct Found {
    status: VeloStatus,
    slots: u32,
}

impl Mailbox {
    pub(crate) fn new(map: MailboxMap) -> Mailbox {
        let words = (map.slots as usize).div_ceil(64);
        Mailbox { map, rp: 0, freed: Arc::default(), consumed: vec![0; words].into(), held: 0 }
    }

    /// Consumes the oldest message.
    #[inline]
    pub(crate) fn take(&mut self, device: &dyn VeloDevice) -> Option<Message> {
        // The head itself is never marked: freeing skips marked slots.
        let found = self.look(self.rp)?;
        let message = self.read(self.rp, &found);
        self.free_head(found.slots, device);
        Some(message)
    }

    /// Consumes the oldest message at or behind position `from` that `wanted` accepts; leaves in `from` how far the
    /// search got, so that a wait looks at each message once.
    pub(crate) fn take_match(
        &mut self,
        device: &dyn VeloDevice,
        wanted: &MessageMatch,
        from: &mut u64,
    ) -> Option<Message> {
        let freed = self.freed();
        *from = freed.max(*from);
        while *from < freed + u64::from(self.map.slots) {
            let index = self.index(*from);
            if self.is_consumed(index) {
                *from += 1;
                continue;
            }
            let found = self.look(index)?;
            if wanted.accepts(found.status) {
                let message = self.read(index, &found);
                self.consume(index, found.slots, device);
                return Some(message);
            }
            *from += u64::from(found.slots);
        }
        None
    }

    /// For who waits until something stands at position `from`.
    pub(crate) fn watch(&self, from: u64) -> Watch {
        Watch::new(NonNull::from(self.status(self.index(from))), from, self.freed.clone())
    }

    /// Messages that arrived and were not consumed.
    pub(crate) fn unread(&self) -> u32 {
        let (mut at, mut messages) = (0, 0);
        while at < self.map.slots {
            let index = (self.rp + at) % self.map.slots;
            if self.is_consumed(index) {
                at += 1;
                continue;
            }
            let Some(found) = self.look(index) else { break };
            (at, messages) = (at + found.slots, messages + 1);
        }
        messages
    }

    fn freed(&self) -> u64 {
        self.freed.load(Ordering::Relaxed)
    }

    fn index(&self, position: u64) -> u32 {
        let behind_head = position.saturating_sub(self.freed()) % u64::from(self.map.slots);
        ((u64::from(self.rp) + behind_head) % u64::from(self.map.slots)) as u32
    }

    #[inline]
    fn following(&self, index: u32) -> u32 {
        if index + 1 == self.map.slots { 0 } else { index + 1 }
    }

    /// Word `word` of slot `index`.
    #[inline]
    fn word(&self, index: u32, word: usize) -> &AtomicU64 {
        let words = self.map.size.bytes() / 8;
        // SAFETY: `index` is below `slots` and `word` below a slot's words; mapped as long as the port lives.
        unsafe { self.map.base.add(index as usize * words + word).as_ref() }
    }

    #[inline]
    fn status(&self, index: u32) -> &AtomicU64 {
        self.word(index, self.map.size.bytes() / 8 - 1)
    }

    /// The message that begins in slot `index`, if all of it is there.
    #[inline]
    fn look(&self, index: u32) -> Option<Found> {
        // The status is written last: acquire makes the payload visible.
        let status = VeloStatus(self.status(index).load(Ordering::Acquire));
        if !status.is_new() {
            return None;
        }
        let slots = if status.is_end() {
            1
        } else {
            velo_slots(self.map.size.size(), status.length().min(VELO_MAX_BYTES)).min(self.map.slots)
        };
        let mut last = index;
        for _ in 1..slots {
            last = self.following(last);
            if self.status(last).load(Ordering::Acquire) == 0 {
                return None;
            }
        }
        Some(Found { status, slots })
    }

    #[inline]
    fn read(&self, index: u32, found: &Found) -> Message {
        let len = found.status.length().min(VELO_MAX_BYTES);
        let mut message =
            Message { status: found.status.with_end(true), bytes: [0; VELO_MAX_BYTES], len: len as u8 };
        let each = self.map.size.bytes() / 8 - 1;
        let (mut quads, mut slot) = (&mut message.bytes.as_chunks_mut::<8>().0[..len.div_ceil(8)], index);
        for _ in 0..found.slots {
            let here = quads.len().min(each);
            let (now, rest) = quads.split_at_mut(here);
            for (i, quad) in now.iter_mut().enumerate() {
                *quad = self.word(slot, each - here + i).load(Ordering::Relaxed).to_le_bytes();
            }
            (quads, slot) = (rest, self.following(slot));
        }
        message
    }

    /// Marks `slots` from the head free, and everything consumed right behind them, and tells the card.
    #[inline]
    fn free_head(&mut self, slots: u32, device: &dyn VeloDevice) {
        (0..slots).for_each(|_| self.clear_head());
        while self.held > 0 && self.is_consumed(self.rp) {
            self.consumed[self.rp as usize / 64] &= !(1 << (self.rp % 64));
            self.held -= 1;
            self.clear_head();
        }
        device.set_read_pointer(self.rp, false);
    }

    #[inline]
    fn clear_head(&mut self) {
        // In this order, for who watches the slot.
        self.freed.store(self.freed() + 1, Ordering::Relaxed);
        self.status(self.rp).store(0, Ordering::Release);
        self.rp = self.following(self.rp);
    }

    fn consume(&mut self, index: u32, slots: u32, device: &dyn VeloDevice) {
        if index == self.rp {
            return self.free_head(slots, device);
        }
        let mut index = index;
        for _ in 0..slots {
            self.consumed[index as usize / 64] |= 1 << (index % 64);
            index = self.following(index);
        }
        self.held += slots;
    }

    #[inline]
    fn is_consumed(&self, index: u32) -> bool {
        self.held > 0 && self.consumed[index as usize / 64] >> (index % 64) & 1 == 1
    }
}

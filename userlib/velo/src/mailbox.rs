//! The mailbox as its one consumer sees it (spec 3.3, 7).

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use extoll_abi::{VELO_MAX_BYTES, VeloStatus, velo_slots};
use ggas_device::{MailboxMap, ReadSide, VeloDevice, Watch};

use crate::{Message, MessageMatch};

/// Read side of a mailbox. Messages may be consumed in any order; their slots are freed, and the card's read pointer
/// moves, in the order of the mailbox.
#[derive(Debug)]
pub(crate) struct Mailbox {
    map: MailboxMap,
    side: ReadSide,
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
        Mailbox { map, side: ReadSide::new(map.slots) }
    }

    /// Consumes the oldest message.
    #[inline]
    pub(crate) fn take(&mut self, device: &dyn VeloDevice) -> Option<Message> {
        // The head itself is never marked: freeing skips marked slots.
        let head = self.side.head();
        let found = self.look(head)?;
        let message = self.read(head, &found);
        let map = self.map;
        let head =
            self.side.free_head(found.slots, |index| status_of(&map, index).store(0, Ordering::Release));
        device.set_read_pointer(head, false);
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
        let freed = self.side.freed();
        *from = freed.max(*from);
        while *from < freed + u64::from(self.map.slots) {
            let index = self.side.index(*from);
            if self.side.is_consumed(index) {
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
        self.side.watch(NonNull::from(status_of(&self.map, self.side.index(from))), from)
    }

    /// Messages that arrived and were not consumed.
    pub(crate) fn unread(&self) -> u32 {
        let (mut at, mut messages) = (0, 0);
        while at < self.map.slots {
            let index = (self.side.head() + at) % self.map.slots;
            if self.side.is_consumed(index) {
                at += 1;
                continue;
            }
            let Some(found) = self.look(index) else { break };
            (at, messages) = (at + found.slots, messages + 1);
        }
        messages
    }

    /// The message that begins in slot `index`, if all of it is there.
    #[inline]
    fn look(&self, index: u32) -> Option<Found> {
        // The status is written last: acquire makes the payload visible.
        let status = VeloStatus(status_of(&self.map, index).load(Ordering::Acquire));
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
            last = self.side.following(last);
            if status_of(&self.map, last).load(Ordering::Acquire) == 0 {
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
                *quad = word(&self.map, slot, each - here + i).load(Ordering::Relaxed).to_le_bytes();
            }
            (quads, slot) = (rest, self.side.following(slot));
        }
        message
    }

    fn consume(&mut self, index: u32, slots: u32, device: &dyn VeloDevice) {
        let map = self.map;
        let clear = |index| status_of(&map, index).store(0, Ordering::Release);
        if let Some(head) = self.side.consume(index, slots, clear) {
            device.set_read_pointer(head, false);
        }
    }
}

/// Word `word` of slot `index`; both lie inside, as whoever has the mailbox sees to.
#[inline]
fn word(map: &MailboxMap, index: u32, word: usize) -> &AtomicU64 {
    let words = map.size.bytes() / 8;
    // SAFETY: `index` is below `slots` and `word` below a slot's words; mapped as long as the port lives.
    unsafe { map.base.add(index as usize * words + word).as_ref() }
}

/// The status of slot `index`.
#[inline]
fn status_of(map: &MailboxMap, index: u32) -> &AtomicU64 {
    word(map, index, map.size.bytes() / 8 - 1)
}

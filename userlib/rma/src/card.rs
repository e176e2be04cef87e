//! Posting through the option pages: one write-combining buffer per VPID, a committed count, and a ring of what
//! was written for the case that the card rejects it (spec 2.4).

use std::sync::atomic::{Ordering, fence};

use extoll_abi::PageOption;
use ggas_device::{PortDevice, Wcb};

/// Entries of the replay ring; the committed count is modulo this.
const RING: usize = 256;

/// Why a descriptor could not be written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotNow {
    Full,
    Kernels,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Written {
    pub(crate) word: [u64; 3],
    pub(crate) option: PageOption,
}

/// The writer's side of a VPID's write-combining buffer. One writer at a time: the caller holds a lock.
#[derive(Debug)]
pub(crate) struct Card {
    /// The state register; mapped as long as the port, which owns this, lives.
    wcb: Wcb,
    ring: Box<[Written; RING]>,
    /// Descriptors written, modulo 256.
    wp: u8,
    kernels: bool,
}

impl Card {
    pub(crate) fn new(device: &dyn PortDevice) -> Card {
        let wcb = Wcb::new(&device.registers(), device.wcb_batch());
        Card { wcb, ring: Box::new([Written::default(); RING]), wp: 0, kernels: false }
    }

    /// Writes a descriptor unless the ring is full or a rejection is still being worked on.
    #[inline]
    pub(crate) fn try_post(
        &mut self,
        device: &dyn PortDevice,
        option: PageOption,
        words: &[u64; 3],
    ) -> Result<(), NotNow> {
        if self.kernels {
            return Err(NotNow::Kernels);
        }
        if self.wcb.is_due(self.wp) && !self.has_room(device) {
            return Err(NotNow::Full);
        }
        self.ring[self.wp as usize] = Written { word: *words, option };
        self.wp = self.wp.wrapping_add(1);
        self.store(device, self.wp.wrapping_sub(1));
        if self.wcb.is_memory() && self.take_back_rejected() { Err(NotNow::Full) } else { Ok(()) }
    }

    /// Whether there is room for one more; rejected descriptors are written again before.
    #[inline]
    fn has_room(&mut self, device: &dyn PortDevice) -> bool {
        let mut state = self.wcb.look();
        if state.rejected() != 0 {
            if !self.replay(device) {
                return false;
            }
            state = self.wcb.look();
        }
        self.wp.wrapping_add(1) != state.committed()
    }

    /// A consumer finds nothing: perhaps because the card rejected what would bring it. `now`: it is about to sleep.
    pub(crate) fn service(&mut self, device: &dyn PortDevice, now: bool) {
        let look = !self.kernels && (self.wcb.is_suspect(self.wp) || now);
        if look && self.wcb.look().rejected() != 0 {
            self.replay(device);
        }
    }

    /// Where the card shows at once that it rejected the only outstanding descriptor, the last one, it counts as
    /// not written. So nothing waits for a replay after its writer has turned to other things.
    #[inline]
    fn take_back_rejected(&mut self) -> bool {
        let state = self.wcb.look();
        let alone = self.wp.wrapping_sub(state.committed()) == 1;
        if state.rejected() != 1 || !alone || !state.idle() {
            return false;
        }
        self.wcb.set(state.acknowledged());
        if self.wcb.look().rejected() != 0 {
            return false; // seen again, and replayed, by the next caller
        }
        self.wp = self.wp.wrapping_sub(1);
        true
    }

    /// Writes rejected descriptors again, in their order. `false`: the card is still taking or rejecting what was
    /// written before, or rejects again; ask later.
    pub(crate) fn replay(&mut self, device: &dyn PortDevice) -> bool {
        let state = self.wcb.look();
        if state.rejected() == 0 {
            return true;
        }
        let missing = self.wp.wrapping_sub(state.committed());
        if !state.idle() || state.rejected() != missing {
            return false;
        }
        self.wcb.set(state.acknowledged());
        if self.wcb.look().rejected() != 0 {
            return false; // the write is to be repeated until the count reads 0 (spec 2.4)
        }
        let mut at = self.wp.wrapping_sub(missing);
        while at != self.wp {
            self.store(device, at);
            at = at.wrapping_add(1);
        }
        self.wcb.look().rejected() == 0
    }

    /// Descriptors of the host written and not committed yet.
    pub(crate) fn outstanding(&self) -> u8 {
        if self.kernels { 0 } else { self.wp.wrapping_sub(self.wcb.peek().committed()) }
    }

    /// Gives the buffer to kernels; returns the write index they go on from.
    pub(crate) fn give_to_kernels(&mut self) -> u8 {
        self.kernels = true;
        self.wp
    }

    /// Takes the buffer back after kernels wrote up to `wp`; `ring` is what they wrote.
    pub(crate) fn take_back(&mut self, wp: u8, ring: [Written; RING]) {
        *self.ring = ring;
        self.wp = wp;
        self.kernels = false;
        self.wcb.forget();
    }

    /// Stores entry `at` of the ring, the last one so far, and sees to it that the card has all of it.
    #[inline]
    fn store(&mut self, device: &dyn PortDevice, at: u8) {
        let Written { word, option } = self.ring[usize::from(at)];
        store(device, option, &word);
        while self.wcb.posted() && self.wcb.has_lost(at.wrapping_add(1), &|| device.progress()) {
            store(device, option, &word);
        }
    }
}

/// Stores the words in ascending order and flushes the CPU's write-combining buffer (spec 2.4).
#[inline]
fn store(device: &dyn PortDevice, option: PageOption, words: &[u64; 3]) {
    // Data that the descriptor refers to was written before.
    fence(Ordering::Release);
    for (i, word) in words.iter().enumerate() {
        device.requester_store(option, 8 * i as u64, *word);
    }
    device.requester_fence();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;
    use extoll_abi::WcbState;

    const TE: PageOption = PageOption::TE;

    fn post(card: &mut Card, fake: &Fake, id: u64) -> Result<(), NotNow> {
        card.try_post(fake, TE, &[id, 0, 0])
    }

    #[test]
    fn the_ring_holds_255_uncommitted_descriptors() {
        let fake = Fake::new();
        let mut card = Card::new(&fake);
        for id in 0..255 {
            post(&mut card, &fake, id).unwrap();
        }
        assert_eq!(post(&mut card, &fake, 255), Err(NotNow::Full));
        fake.set_state(fake.state().with_committed(1));
        post(&mut card, &fake, 255).unwrap();
        assert_eq!(post(&mut card, &fake, 256), Err(NotNow::Full));
        assert_eq!(card.outstanding(), 255);
    }

    #[test]
    fn rejected_descriptors_are_written_again_in_order_before_new_ones() {
        let fake = Fake::new();
        let mut card = Card::new(&fake);
        for id in 0..5 {
            post(&mut card, &fake, id).unwrap();
        }
        assert_eq!(fake.written(), [0, 1, 2, 3, 4]);
        // Two were taken, one was rejected, two are still on their way: nothing may be written yet.
        fake.set_state(WcbState(0).with_committed(2).with_retry(true).with_rejected(1));
        assert_eq!(post(&mut card, &fake, 5), Err(NotNow::Full));
        // All three are rejected, but the buffer is not idle.
        fake.set_state(fake.state().with_rejected(3).with_assembly(true));
        assert_eq!(post(&mut card, &fake, 5), Err(NotNow::Full));
        assert!(fake.written().is_empty());
        fake.set_state(fake.state().with_assembly(false));
        assert!(card.wcb.peek().rejected() != 0);
        post(&mut card, &fake, 5).unwrap();
        assert_eq!(fake.written(), [2, 3, 4, 5]);
        assert_eq!(fake.state(), WcbState(0).with_committed(2), "acknowledged, nothing else changed");
    }

    #[test]
    fn a_rejection_that_shows_at_once_is_no_post() {
        let fake = Fake::new();
        let mut card = Card::new(&fake);
        fake.reject.store(1, Ordering::Relaxed);
        assert_eq!(post(&mut card, &fake, 0), Err(NotNow::Full));
        assert_eq!((card.outstanding(), fake.state()), (0, WcbState(0)));
        post(&mut card, &fake, 1).unwrap();
        assert_eq!(fake.written(), [0, 1]);
        assert_eq!(card.outstanding(), 1);
    }

    #[test]
    fn a_descriptor_that_the_card_gave_up_is_written_again() {
        let fake = Fake::new();
        let mut card = Card::new(&fake);
        post(&mut card, &fake, 0).unwrap();
        fake.set_state(WcbState(0).with_committed(1));
        fake.lose.store(2, Ordering::Relaxed);
        post(&mut card, &fake, 1).unwrap();
        assert_eq!(fake.written(), [0, 1, 1, 1], "lost twice");
        // Whoever was away between two descriptors writes none twice.
        fake.set_state(WcbState(0).with_committed(2));
        fake.commits.store(true, Ordering::Relaxed);
        std::thread::sleep(std::time::Duration::from_millis(300));
        post(&mut card, &fake, 2).unwrap();
        assert_eq!(fake.written(), [2]);
    }

    #[test]
    fn a_register_behind_a_bus_is_read_once_in_64_posts() {
        let fake = Fake::behind_a_bus();
        let mut card = Card::new(&fake);
        for id in 0..64 {
            post(&mut card, &fake, id).unwrap();
        }
        // None was seen to be rejected; that shows now, and all are written again before the next.
        fake.set_state(WcbState(0).with_committed(60).with_retry(true).with_rejected(4));
        fake.written();
        post(&mut card, &fake, 64).unwrap();
        assert_eq!(fake.written(), [60, 61, 62, 63, 64]);
        // Consumers that find nothing look in the end.
        fake.set_state(WcbState(0).with_committed(64).with_retry(true).with_rejected(1));
        (0..255).for_each(|_| card.service(&fake, false));
        assert_eq!(fake.written(), []);
        card.service(&fake, false);
        assert_eq!(fake.written(), [64]);
        fake.set_state(WcbState(0).with_committed(64).with_retry(true).with_rejected(1));
        card.service(&fake, true);
        assert_eq!(fake.written(), [64], "before a sleep");
    }

    #[test]
    fn replay_wraps_with_the_ring() {
        let fake = Fake::new();
        let mut card = Card::new(&fake);
        for id in 0..600u64 {
            post(&mut card, &fake, id).unwrap();
            if id < 597 {
                fake.set_state(WcbState(0).with_committed((id + 1) as u8));
            }
        }
        fake.written();
        fake.set_state(fake.state().with_retry(true).with_rejected(3));
        assert!(card.replay(&fake));
        assert_eq!(fake.written(), [597, 598, 599]);
    }

    #[test]
    fn kernels_take_the_buffer_and_give_it_back() {
        let fake = Fake::new();
        let mut card = Card::new(&fake);
        post(&mut card, &fake, 1).unwrap();
        assert_eq!(card.give_to_kernels(), 1);
        assert_eq!(post(&mut card, &fake, 2), Err(NotNow::Kernels));
        let mut ring = [Written::default(); RING];
        ring[1].word[0] = 7;
        card.take_back(2, ring);
        fake.written();
        fake.set_state(WcbState(0).with_committed(1).with_retry(true).with_rejected(1));
        assert!(card.replay(&fake));
        assert_eq!(fake.written(), [7], "what kernels wrote is replayed by the host");
    }
}

//! Handing messages to the card: one write-combining buffer per VPID, a committed count, and a ring of what was
//! written for the case that the card rejects it (spec 2.4, 7).

use std::sync::atomic::{Ordering, fence};

use extoll_abi::VELO_LINE_WORDS;
use ggas_device::{VeloDevice, Wcb};

/// Entries of the replay ring; the committed count is modulo this.
pub(crate) const RING: usize = 256;

/// Why a message could not be written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotNow {
    Full,
    Kernels,
}

/// A message as it was written.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Line {
    pub(crate) word: [u64; VELO_LINE_WORDS],
    pub(crate) words: u8,
    pub(crate) class: u8,
}

impl Line {
    #[inline]
    fn store(&self, device: &dyn VeloDevice) {
        fence(Ordering::Release);
        device.store(self.class, 0, &self.word[..usize::from(self.words).min(VELO_LINE_WORDS)]);
        device.fence();
    }
}

/// The writer's side of a VPID's write-combining buffer. One writer at a time: the caller holds a lock.
#[derive(Debug)]
pub(crate) struct Sender {
    /// The state register; mapped as long as the port, which owns this, lives.
    wcb: Wcb,
    ring: Box<[Line]>,
    /// Messages written, modulo 256.
    wp: u8,
    kernels: bool,
}

impl Sender {
    pub(crate) fn new(device: &dyn VeloDevice) -> Sender {
        let wcb = Wcb::new(&device.registers(), device.wcb_batch());
        Sender { wcb, ring: vec![Line::default(); RING].into(), wp: 0, kernels: false }
    }

    /// Writes a message unless the ring is full or a rejection is still being worked on. `fill` makes it in place.
    #[inline]
    pub(crate) fn try_send(
        &mut self,
        device: &dyn VeloDevice,
        fill: impl FnOnce(&mut Line),
    ) -> Result<(), NotNow> {
        if self.kernels {
            return Err(NotNow::Kernels);
        }
        if self.wcb.is_due(self.wp) && !self.has_room(device) {
            return Err(NotNow::Full);
        }
        fill(&mut self.ring[usize::from(self.wp)]);
        self.store(device, self.wp);
        self.wp = self.wp.wrapping_add(1);
        if self.wcb.is_memory() && self.take_back_rejected() { Err(NotNow::Full) } else { Ok(()) }
    }

    /// Stores entry `at` of the ring, the last one so far, and sees to it that the card has all of it.
    #[inline]
    fn store(&mut self, device: &dyn VeloDevice, at: u8) {
        let line = &self.ring[usize::from(at)];
        line.store(device);
        while self.wcb.posted() && self.wcb.has_lost(at.wrapping_add(1), &|| device.progress()) {
            line.store(device);
        }
    }

    /// Whether there is room for one more; rejected messages are written again before.
    #[inline]
    fn has_room(&mut self, device: &dyn VeloDevice) -> bool {
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
    pub(crate) fn service(&mut self, device: &dyn VeloDevice, now: bool) {
        let look = !self.kernels && (self.wcb.is_suspect(self.wp) || now);
        if look && self.wcb.look().rejected() != 0 {
            self.replay(device);
        }
    }

    /// Where the card shows at once that it rejected the only outstanding message, the last one, it counts as not
    /// written. So nothing waits for a replay after its writer has turned to other things.
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

    /// Writes rejected messages again, in their order. `false`: the card is still taking or rejecting what was
    /// written before, or rejects again; ask later.
    pub(crate) fn replay(&mut self, device: &dyn VeloDevice) -> bool {
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

    /// Messages of the host written and not committed yet.
    pub(crate) fn outstanding(&self) -> u8 {
        if self.kernels { 0 } else { self.wp.wrapping_sub(self.wcb.peek().committed()) }
    }

    /// Gives the buffer to kernels; returns the write index they go on from.
    #[cfg(feature = "kernels")]
    pub(crate) fn give_to_kernels(&mut self) -> u8 {
        self.kernels = true;
        self.wp
    }

    /// Takes the buffer back after kernels wrote up to `wp`; `ring` is what they wrote.
    #[cfg(feature = "kernels")]
    pub(crate) fn take_back(&mut self, wp: u8, ring: impl Iterator<Item = Line>) {
        self.ring.iter_mut().zip(ring).for_each(|(to, line)| *to = line);
        self.wp = wp;
        self.kernels = false;
        self.wcb.forget();
    }
}

#[cfg(test)]
mod tests {
    use std::ptr::NonNull;
    use std::sync::Mutex;
    use std::sync::atomic::AtomicU64;
    use std::time::Duration;

    use extoll_abi::Address;
    use ggas_device::{DeviceError, MailboxMap, MailboxSlots, RegisterMap};

    use super::*;

    /// A card whose registers the test writes; it keeps what was stored.
    #[derive(Debug, Default)]
    struct Card {
        state: AtomicU64,
        read_pointer: AtomicU64,
        stored: Mutex<Vec<u64>>,
    }

    impl VeloDevice for Card {
        fn address(&self) -> Address {
            Address::new(0, 0)
        }

        fn mailbox(&self) -> MailboxMap {
            MailboxMap { base: NonNull::from(&self.state), slots: 0, size: MailboxSlots::B64 }
        }

        fn set_read_pointer(&self, _: u32, _: bool) {}

        fn registers(&self) -> RegisterMap {
            RegisterMap {
                read_pointer: NonNull::from(&self.read_pointer),
                wcb_state: NonNull::from(&self.state),
            }
        }

        fn store(&self, _: u8, _: u64, words: &[u64]) {
            self.stored.lock().unwrap().extend(words);
        }

        fn set_protection(&self, _: u16, _: u16) -> Result<(), DeviceError> {
            Ok(())
        }

        fn sleep_until(&self, _: &dyn Fn() -> bool, _: Duration) {}

        fn close(&self) -> Result<(), DeviceError> {
            Ok(())
        }
    }

    #[test]
    fn rejected_messages_are_written_again_in_their_order() {
        let card = Card::default();
        let mut sender = Sender::new(&card);
        for word in 1..=5 {
            let fill = |line: &mut Line| (line.word[0], line.words) = (word, 1);
            assert_eq!(sender.try_send(&card, fill), Ok(()));
        }
        let rejected = |count: u64, committed: u64| count << 56 | 1 << 32 | committed;
        // Two taken, and not yet seen what becomes of the others.
        card.state.store(rejected(1, 2), Ordering::Relaxed);
        assert!(!sender.replay(&card));
        assert_eq!(sender.try_send(&card, |_| {}), Err(NotNow::Full));
        card.state.store(rejected(3, 2), Ordering::Relaxed);
        card.stored.lock().unwrap().clear();
        assert!(sender.replay(&card));
        assert_eq!(*card.stored.lock().unwrap(), [3, 4, 5]);
        assert_eq!(card.state.load(Ordering::Relaxed), 2, "acknowledged");
        assert_eq!(sender.outstanding(), 3);
    }
}

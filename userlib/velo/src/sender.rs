//! Messages as they are written to the VELO unit's pages (spec 2.4, 7).

use std::sync::atomic::{Ordering, fence};

use extoll_abi::VELO_LINE_WORDS;
use ggas_clock::Clock;
use ggas_device::{VeloDevice, WcbLine, WcbWriter};

/// A message as it was written.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Line {
    pub(crate) word: [u64; VELO_LINE_WORDS],
    pub(crate) words: u8,
    pub(crate) class: u8,
}

impl<D: VeloDevice + ?Sized> WcbLine<D> for Line {
    fn clock(device: &D) -> &Clock {
        device.clock()
    }

    #[inline]
    fn store(&self, device: &D) {
        fence(Ordering::Release);
        device.store(self.class, 0, &self.word[..usize::from(self.words).min(VELO_LINE_WORDS)]);
        device.fence();
    }

    fn progress(device: &D) -> bool {
        device.progress()
    }
}

/// Sends a VPID's messages.
pub(crate) type Sender = WcbWriter<Line>;

/// The writer of a port that was just opened.
pub(crate) fn sender(device: &dyn VeloDevice) -> Sender {
    WcbWriter::new(&device.registers(), device.wcb_batch())
}

#[cfg(test)]
mod tests {
    use std::ptr::NonNull;
    use std::sync::Mutex;
    use std::sync::atomic::AtomicU64;
    use std::time::Duration;

    use extoll_abi::Address;
    use ggas_device::{DeviceError, MailboxMap, MailboxSlots, NotNow, RegisterMap, UnitDevice};

    use super::*;

    /// A card whose registers the test writes; it keeps what was stored.
    #[derive(Debug, Default)]
    struct Card {
        state: AtomicU64,
        read_pointer: AtomicU64,
        stored: Mutex<Vec<u64>>,
    }

    impl UnitDevice for Card {
        fn address(&self) -> Address {
            Address::new(0, 0)
        }

        fn set_read_pointer(&self, _: u32, _: bool) {}

        fn registers(&self) -> RegisterMap {
            RegisterMap {
                read_pointer: NonNull::from(&self.read_pointer),
                wcb_state: NonNull::from(&self.state),
            }
        }

        fn sleep_until(&self, _: &dyn Fn() -> bool, _: Duration) {}

        fn close(&self) -> Result<(), DeviceError> {
            Ok(())
        }
    }

    impl VeloDevice for Card {
        fn mailbox(&self) -> MailboxMap {
            MailboxMap { base: NonNull::from(&self.state), slots: 0, size: MailboxSlots::B64 }
        }

        fn store(&self, _: u8, _: u64, words: &[u64]) {
            self.stored.lock().unwrap().extend(words);
        }

        fn set_protection(&self, _: u16, _: u16) -> Result<(), DeviceError> {
            Ok(())
        }
    }

    #[test]
    fn rejected_messages_are_written_again_in_their_order() {
        let card = Card::default();
        let mut sender = super::sender(&card);
        for word in 1..=5 {
            let fill = |line: &mut Line| (line.word[0], line.words) = (word, 1);
            assert_eq!(sender.try_post(&card, fill), Ok(()));
        }
        let rejected = |count: u64, committed: u64| count << 56 | 1 << 32 | committed;
        // Two taken, and not yet seen what becomes of the others.
        card.state.store(rejected(1, 2), Ordering::Relaxed);
        assert!(!sender.replay(&card));
        assert_eq!(sender.try_post(&card, |_| {}), Err(NotNow));
        card.state.store(rejected(3, 2), Ordering::Relaxed);
        card.stored.lock().unwrap().clear();
        assert!(sender.replay(&card));
        assert_eq!(*card.stored.lock().unwrap(), [3, 4, 5]);
        assert_eq!(card.state.load(Ordering::Relaxed), 2, "acknowledged");
        assert_eq!(sender.outstanding(), 3);
    }
}

//! Descriptors as they are written to the requester's option pages (spec 2.4).

use std::sync::atomic::{Ordering, fence};

use extoll_abi::PageOption;
use ggas_clock::Clock;
use ggas_device::{PortDevice, WcbLine, WcbWriter};

/// A descriptor and the page that it was written to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Written {
    pub(crate) word: [u64; 3],
    pub(crate) option: PageOption,
}

impl<D: PortDevice + ?Sized> WcbLine<D> for Written {
    fn clock(device: &D) -> &Clock {
        device.clock()
    }

    #[inline]
    fn store(&self, device: &D) {
        // Data that the descriptor refers to was written before.
        fence(Ordering::Release);
        device.requester_line(self.option, self.word);
        device.fence();
    }

    fn progress(device: &D) -> bool {
        device.progress()
    }
}

/// Posts a VPID's descriptors.
pub(crate) type Card = WcbWriter<Written>;

/// The writer of a port that was just opened.
pub(crate) fn card(device: &dyn PortDevice) -> Card {
    WcbWriter::new(&device.registers(), device.wcb_batch())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;
    use extoll_abi::WcbState;
    use ggas_device::NotNow;

    const TE: PageOption = PageOption::TE;

    fn post(card: &mut Card, fake: &Fake, id: u64) -> Result<(), NotNow> {
        card.try_post(fake, |line| *line = Written { word: [id, 0, 0], option: TE })
    }

    #[test]
    fn the_ring_holds_255_uncommitted_descriptors() {
        let fake = Fake::new();
        let mut card = card(&fake);
        for id in 0..255 {
            post(&mut card, &fake, id).unwrap();
        }
        assert_eq!(post(&mut card, &fake, 255), Err(NotNow));
        fake.set_state(fake.state().with_committed(1));
        post(&mut card, &fake, 255).unwrap();
        assert_eq!(post(&mut card, &fake, 256), Err(NotNow));
        assert_eq!(card.outstanding(), 255);
    }

    #[test]
    fn rejected_descriptors_are_written_again_in_order_before_new_ones() {
        let fake = Fake::new();
        let mut card = card(&fake);
        for id in 0..5 {
            post(&mut card, &fake, id).unwrap();
        }
        assert_eq!(fake.written(), [0, 1, 2, 3, 4]);
        // Two were taken, one was rejected, two are still on their way: nothing may be written yet.
        fake.set_state(WcbState(0).with_committed(2).with_retry(true).with_rejected(1));
        assert_eq!(post(&mut card, &fake, 5), Err(NotNow));
        // All three are rejected, but the buffer is not idle.
        fake.set_state(fake.state().with_rejected(3).with_assembly(true));
        assert_eq!(post(&mut card, &fake, 5), Err(NotNow));
        assert!(fake.written().is_empty());
        fake.set_state(fake.state().with_assembly(false));
        assert!(fake.state().rejected() != 0);
        post(&mut card, &fake, 5).unwrap();
        assert_eq!(fake.written(), [2, 3, 4, 5]);
        assert_eq!(fake.state(), WcbState(0).with_committed(2), "acknowledged, nothing else changed");
    }

    #[test]
    fn a_rejection_that_shows_at_once_is_no_post() {
        let fake = Fake::new();
        let mut card = card(&fake);
        fake.reject.store(1, Ordering::Relaxed);
        assert_eq!(post(&mut card, &fake, 0), Err(NotNow));
        assert_eq!((card.outstanding(), fake.state()), (0, WcbState(0)));
        post(&mut card, &fake, 1).unwrap();
        assert_eq!(fake.written(), [0, 1]);
        assert_eq!(card.outstanding(), 1);
    }

    #[test]
    fn a_descriptor_that_timed_out_in_the_card_is_written_again() {
        let fake = Fake::new();
        let mut card = card(&fake);
        post(&mut card, &fake, 0).unwrap();
        fake.set_state(WcbState(0).with_committed(1));
        fake.lose.store(2, Ordering::Relaxed);
        post(&mut card, &fake, 1).unwrap();
        assert_eq!(fake.written(), [0, 1, 1, 1], "lost twice");
        // Whoever was away between two descriptors writes none twice.
        fake.set_state(WcbState(0).with_committed(2));
        fake.commits.store(true, Ordering::Relaxed);
        fake.time.advance(std::time::Duration::from_millis(300));
        post(&mut card, &fake, 2).unwrap();
        assert_eq!(fake.written(), [2]);
    }

    #[test]
    fn a_register_behind_a_bus_is_read_once_in_64_posts() {
        let fake = Fake::behind_a_bus();
        let mut card = card(&fake);
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
        let mut card = card(&fake);
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
}

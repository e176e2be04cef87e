//! Notifications that are read where the card wrote them, and freed later.
//!
//! For callers that hand out pointers to entries, as librma2 does. The other calls of [`Port`] copy and free at once,
//! and see what was not freed here as not consumed.

use std::ptr::NonNull;
use std::time::Duration;

use extoll_abi::Notification;
use ggas_device::PortSetup;

use crate::post::lock;
use crate::queue::Queue;
use crate::{Match, Port, PortError, WaitError};

impl Port {
    /// Where the oldest notification that `wanted` accepts stands; the same one again until it is freed. The place is
    /// valid as long as the port lives and its queue keeps its shape.
    #[inline]
    pub fn peek(&self, wanted: &Match) -> Option<NonNull<Notification>> {
        self.peek_from(wanted, &mut 0)
    }

    /// As [`peek`](Self::peek), waiting up to `timeout` as [`wait_match`](Self::wait_match) does.
    ///
    /// # Errors
    /// [`WaitError::Timeout`], [`WaitError::PeerLost`], [`WaitError::Closed`].
    pub fn wait_peek(&self, wanted: &Match, timeout: Duration) -> Result<NonNull<Notification>, WaitError> {
        self.wait_by(wanted, timeout, |from| self.peek_from(wanted, from))
    }

    /// Frees the notification that stands at `place`, in any order; the card gets the room back in the order of the
    /// queue. `false`, and nothing is changed: no unfreed notification of this port stands there.
    #[inline]
    pub fn free(&self, place: NonNull<Notification>) -> bool {
        lock(&self.core.queue).consume_at(place, &*self.core.device)
    }

    /// Notifications that arrived and were not freed.
    pub fn unread(&self) -> u32 {
        lock(&self.core.queue).unread()
    }

    /// Replaces the notification queue by an empty one of another shape (spec 9.2). What the old one held is lost;
    /// places in it stay readable as long as the port lives.
    ///
    /// # Errors
    /// [`PortError::Device`](crate::PortError::Device): the queue is as before.
    pub fn reshape_queue(&self, setup: &PortSetup) -> Result<(), PortError> {
        let mut queue = lock(&self.core.queue);
        self.core.device.reshape_queue(setup)?;
        *queue = Queue::new(self.core.device.queue());
        Ok(())
    }

    #[inline]
    fn peek_from(&self, wanted: &Match, from: &mut u64) -> Option<NonNull<Notification>> {
        let core = &*self.core;
        let look = |from: &mut u64| {
            let queue = lock(&core.queue);
            queue.find(wanted, from).map(|index| queue.place(index))
        };
        if let Some(place) = look(from) {
            return Some(place);
        }
        core.poster.service(&*core.device, false);
        if core.device.progress() { look(from) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use crate::Match;
    use crate::fake::Fake;
    use crate::queue::Queue;
    use extoll_abi::Notification;
    use ggas_device::PortDevice;
    use std::ptr::NonNull;

    #[test]
    fn only_places_of_unfreed_notifications_can_be_freed() {
        let fake = Fake::new();
        let mut queue = Queue::new(fake.queue());
        let put = 5 << 51 | 4 << 48;
        for i in 0..3 {
            fake.notify(i, i.into(), put | u64::from(i));
        }
        let at =
            |queue: &Queue, class| queue.find(&Match::any().class(class), &mut 0).map(|i| queue.place(i));
        let [first, second] = [0, 1].map(|class| at(&queue, class).unwrap());
        assert_eq!(at(&queue, 1), Some(second), "the same one until it is freed");
        let mut elsewhere = Notification { word0: 0, word1: put };
        assert!(!queue.consume_at(NonNull::from(&mut elsewhere), &fake));
        // SAFETY: both stay inside the queue.
        let (inside, empty) = unsafe { (first.byte_add(8), first.add(5)) };
        assert!(!queue.consume_at(inside, &fake) && !queue.consume_at(empty, &fake));
        assert!(queue.consume_at(second, &fake));
        assert!(!queue.consume_at(second, &fake), "freed once");
        assert_eq!(fake.read_pointer(), 0);
        assert!(queue.consume_at(first, &fake));
        assert_eq!(fake.read_pointer(), 2);
        assert!(!queue.consume_at(first, &fake));
        assert_eq!(queue.unread(), 1);
    }
}

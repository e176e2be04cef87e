//! The notification queue as its one consumer sees it (spec 3.3).

use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use extoll_abi::Notification;
use ggas_device::{PortDevice, QueueMap, ReadSide, Watch};

use crate::Match;

/// Read side of a queue. Entries may be consumed in any order; they are freed, and the card's read pointer
/// moves, in the order of the queue.
#[derive(Debug)]
pub(crate) struct Queue {
    map: QueueMap,
    side: ReadSide,
}

// SAFETY: the queue's memory is valid as long as the port, which owns this, and is accessed atomically.
unsafe impl Send for Queue {}

impl Queue {
    pub(crate) fn new(map: QueueMap) -> Queue {
        Queue { map, side: ReadSide::new(map.entries) }
    }

    /// Consumes the oldest notification.
    #[inline]
    pub(crate) fn take(&mut self, device: &dyn PortDevice) -> Option<Notification> {
        // The head itself is never marked: freeing skips marked entries.
        let notification = self.entry(self.side.head())?;
        let map = self.map;
        device.set_read_pointer(self.side.free_head(1, |index| clear(&map, index)), false);
        Some(notification)
    }

    /// Consumes the oldest notification at or behind position `from` that `wanted` accepts; leaves in `from` how
    /// far the search got, so that a wait looks at each entry once.
    pub(crate) fn take_match(
        &mut self,
        device: &dyn PortDevice,
        wanted: &Match,
        from: &mut u64,
    ) -> Option<Notification> {
        let index = self.find(wanted, from)?;
        let notification = self.entry(index)?;
        self.consume(index, device);
        Some(notification)
    }

    /// The index of the oldest unconsumed notification at or behind position `from` that `wanted` accepts; leaves in
    /// `from` where it stands, or how far the search got.
    #[inline]
    pub(crate) fn find(&self, wanted: &Match, from: &mut u64) -> Option<u32> {
        let freed = self.side.freed();
        *from = freed.max(*from);
        while *from < freed + u64::from(self.map.entries) {
            let index = self.side.index(*from);
            if !self.side.is_consumed(index) && wanted.accepts(&self.entry(index)?) {
                return Some(index);
            }
            *from += 1;
        }
        None
    }

    /// Where entry `index` stands in memory.
    pub(crate) fn place(&self, index: u32) -> NonNull<Notification> {
        // SAFETY: the index is below `entries`.
        unsafe { self.map.base.add(index as usize) }.cast()
    }

    /// Consumes the notification that stands at `place`. `false`: there is none that waits to be consumed.
    pub(crate) fn consume_at(&mut self, place: NonNull<Notification>, device: &dyn PortDevice) -> bool {
        let bytes = (place.as_ptr() as usize).wrapping_sub(self.map.base.as_ptr() as usize);
        let index = bytes / size_of::<Notification>();
        let inside = bytes.is_multiple_of(size_of::<Notification>()) && index < self.map.entries as usize;
        if !inside || self.side.is_consumed(index as u32) || self.entry(index as u32).is_none() {
            return false;
        }
        self.consume(index as u32, device);
        true
    }

    /// For who waits until something stands at position `from`.
    pub(crate) fn watch(&self, from: u64) -> Watch {
        // SAFETY: the index is below `entries`; the queue is mapped as long as the port lives.
        let entry = unsafe { self.map.base.add(self.side.index(from) as usize).as_ref() };
        self.side.watch(NonNull::from(&entry[1]), from)
    }

    /// Notifications that arrived and were not consumed.
    pub(crate) fn unread(&self) -> u32 {
        let entries = u64::from(self.map.entries);
        let freed = self.side.freed();
        let arrived =
            (freed..freed + entries).take_while(|at| self.entry(self.side.index(*at)).is_some()).count();
        arrived as u32 - self.side.held()
    }

    /// The notification in entry `index`, if there is one.
    #[inline]
    fn entry(&self, index: u32) -> Option<Notification> {
        // SAFETY: `index` is below `entries` by construction; the queue is mapped as long as the port lives.
        let entry = unsafe { self.map.base.add(index as usize).as_ref() };
        // Word 1 is written last (spec 3.1): acquire makes word 0, and the data it announces, visible.
        let word1 = entry[1].load(Ordering::Acquire);
        (word1 != 0).then(|| Notification { word0: entry[0].load(Ordering::Relaxed), word1 })
    }

    fn consume(&mut self, index: u32, device: &dyn PortDevice) {
        let map = self.map;
        if let Some(head) = self.side.consume(index, 1, |index| clear(&map, index)) {
            device.set_read_pointer(head, false);
        }
    }
}

/// Shows the card that entry `index`, which is below `entries`, is free.
#[inline]
fn clear(map: &QueueMap, index: u32) {
    // SAFETY: the index is below `entries`; the queue is mapped as long as the port lives.
    let entry = unsafe { map.base.add(index as usize).as_ref() };
    entry[1].store(0, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{ENTRIES, Fake};

    /// A notification put of `class`.
    fn put(class: u8) -> u64 {
        5 << 51 | 4 << 48 | u64::from(class)
    }

    fn class(wanted: u8) -> Match {
        Match::any().class(wanted)
    }

    #[test]
    fn entries_come_in_order_and_are_freed_at_once() {
        let fake = Fake::new();
        let mut queue = Queue::new(fake.queue());
        assert_eq!(queue.take(&fake), None);
        for lap in 0..3 * ENTRIES {
            fake.notify(lap, lap.into(), put(1));
            assert_eq!(queue.take(&fake).unwrap().word0, u64::from(lap));
            assert_eq!(fake.read_pointer(), u64::from((lap + 1) % ENTRIES));
        }
    }

    #[test]
    fn out_of_order_consumption_frees_in_order() {
        let fake = Fake::new();
        let mut queue = Queue::new(fake.queue());
        for i in 0..5u8 {
            fake.notify(i.into(), i.into(), put(i));
        }
        for wanted in [3, 1, 2] {
            assert_eq!(queue.take_match(&fake, &class(wanted), &mut 0).unwrap().word0, u64::from(wanted));
            assert_eq!(fake.read_pointer(), 0, "the oldest is still there");
        }
        assert_eq!(queue.take_match(&fake, &class(3), &mut 0), None, "consumed once");
        assert_eq!((queue.side.held(), queue.unread()), (3, 2));
        assert_eq!(queue.take(&fake).unwrap().word0, 0);
        assert_eq!(fake.read_pointer(), 4);
        assert_eq!(queue.take(&fake).unwrap().word0, 4);
        assert_eq!(queue.take(&fake), None);
        assert_eq!((queue.side.held(), queue.unread()), (0, 0));
    }

    #[test]
    fn a_search_goes_on_where_it_stopped_even_when_others_consume() {
        let fake = Fake::new();
        let mut queue = Queue::new(fake.queue());
        fake.notify(0, 0, put(0));
        fake.notify(1, 1, put(1));
        let mut from = 0;
        assert_eq!(queue.take_match(&fake, &class(9), &mut from), None);
        assert_eq!(from, 2);
        // Another thread consumes both; the next one arrives where the search waits.
        queue.take(&fake).unwrap();
        queue.take(&fake).unwrap();
        let watch = queue.watch(from);
        // SAFETY: the queue lives.
        assert!(!unsafe { watch.has_news() });
        fake.notify(2, 2, put(9));
        // SAFETY: the queue lives.
        assert!(unsafe { watch.has_news() });
        assert_eq!(queue.take_match(&fake, &class(9), &mut from).unwrap().word0, 2);
    }

    #[test]
    fn who_watches_a_place_hears_of_what_somebody_else_consumed_there() {
        let fake = Fake::new();
        let mut queue = Queue::new(fake.queue());
        let mut from = 0;
        assert_eq!(queue.take_match(&fake, &class(9), &mut from), None);
        let watch = queue.watch(from);
        fake.notify(0, 0, put(0));
        queue.take(&fake).unwrap();
        // SAFETY: the queue lives.
        assert!(unsafe { watch.has_news() }, "what is wanted comes at the next place");
        fake.notify(1, 1, put(9));
        assert_eq!(queue.take_match(&fake, &class(9), &mut from).unwrap().word0, 1);
    }
}

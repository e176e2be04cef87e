//! Room at the ends of links: each holds so many packets (`network.credits`) of each virtual channel. A sender takes a
//! credit for each packet before it crosses the link, and has it back when the packet has gone on.
//!
//! Credits on their way back are known by their times, so that they cost no events where there is room. Flights that
//! wait for room do so in the order in which they came, and are woken.

use std::collections::VecDeque;

/// Room that a flight has.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Held {
    buffer: u32,
    /// 0: none.
    packets: u32,
}

#[derive(Default)]
struct Buffer {
    used: u32,
    /// Credits on their way back, and when they are there, in order.
    back: VecDeque<(u64, u32)>,
    queue: Option<Box<Queue>>,
}

/// Flights that wait for room.
struct Queue {
    /// Each with its packets.
    flights: VecDeque<(u32, u32)>,
    /// When the first is looked at.
    alarm: u64,
}

/// All ends of all links.
pub(super) struct Buffers {
    buffers: Vec<Buffer>,
    credits: u32,
    /// When [`Buffers::admit`] is to be called, and for which: set by the last call.
    pub alarm: Option<(u64, u32)>,
}

impl Buffers {
    pub fn new(buffers: usize, credits: u64) -> Buffers {
        let credits = u32::try_from(credits).unwrap_or(u32::MAX / 2).min(u32::MAX / 2);
        let buffers = (0..buffers).map(|_| Buffer::default()).collect();
        Buffers { buffers, credits, alarm: None }
    }

    /// Takes room for a flight; more packets than there are credits take all. `None`: it waits.
    #[inline]
    pub fn take(&mut self, at: u32, packets: u64, now: u64, flight: u32) -> Option<Held> {
        let packets = packets.min(u64::from(self.credits)) as u32;
        let buffer = &mut self.buffers[at as usize];
        buffer.settle(now);
        if buffer.queue.is_none() && buffer.used + packets <= self.credits {
            buffer.used += packets;
            return Some(Held { buffer: at, packets });
        }
        let empty = || Box::new(Queue { flights: VecDeque::new(), alarm: u64::MAX });
        buffer.queue.get_or_insert_with(empty).flights.push_back((flight, packets));
        self.alarm = buffer.alarm().map(|when| (when, at));
        None
    }

    /// Gives room back; its credits are with the sender `when`.
    #[inline]
    pub fn give(&mut self, held: Held, when: u64) {
        if held.packets == 0 {
            return;
        }
        let buffer = &mut self.buffers[held.buffer as usize];
        let behind = buffer.back.iter().rev().take_while(|(other, _)| *other > when).count();
        buffer.back.insert(buffer.back.len() - behind, (when, held.packets));
        self.alarm = buffer.alarm().map(|when| (when, held.buffer));
    }

    /// An alarm that was set for `when` is due: gives the first flight that waits, if there is room for it now.
    pub fn admit(&mut self, at: u32, when: u64, now: u64) -> Option<(u32, Held)> {
        let buffer = &mut self.buffers[at as usize];
        buffer.settle(now);
        let queue = buffer.queue.as_mut().filter(|queue| queue.alarm == when)?;
        queue.alarm = u64::MAX;
        let (flight, packets) = *queue.flights.front()?;
        if buffer.used + packets > self.credits {
            self.alarm = buffer.alarm().map(|when| (when, at));
            return None;
        }
        buffer.used += packets;
        queue.flights.pop_front();
        if queue.flights.is_empty() {
            buffer.queue = None;
        } else {
            queue.alarm = now;
            self.alarm = Some((now, at));
        }
        Some((flight, Held { buffer: at, packets }))
    }
}

impl Buffer {
    /// Takes back credits that are there.
    #[inline]
    fn settle(&mut self, now: u64) {
        while let Some((_, packets)) = self.back.front().filter(|(when, _)| *when <= now) {
            self.used -= packets;
            self.back.pop_front();
        }
    }

    /// When the first that waits is to be looked at, if that is earlier than it is known.
    #[inline]
    fn alarm(&mut self) -> Option<u64> {
        let queue = self.queue.as_mut()?;
        let (when, _) = *self.back.front()?;
        (when < queue.alarm).then(|| {
            queue.alarm = when;
            when
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_is_first_and_room_is_never_given_twice() {
        let mut buffers = Buffers::new(1, 4);
        let first = buffers.take(0, 3, 0, 1).expect("room");
        assert!(buffers.take(0, 2, 1, 2).is_none() && buffers.take(0, 1, 1, 3).is_none());
        assert_eq!(buffers.alarm.take(), None, "nothing is on its way back");
        buffers.give(first, 10);
        assert_eq!(buffers.alarm.take(), Some((10, 0)));
        assert!(buffers.admit(0, 9, 9).is_none(), "no such alarm");
        let (flight, second) = buffers.admit(0, 10, 10).expect("room");
        assert_eq!((flight, buffers.alarm.take()), (2, Some((10, 0))));
        assert_eq!(buffers.admit(0, 10, 10).map(|(flight, _)| flight), Some(3));
        assert!(buffers.take(0, 9, 10, 4).is_none(), "all credits, and two are in use");
        buffers.give(second, 30);
        assert_eq!(buffers.alarm.take(), Some((30, 0)));
        assert!(buffers.admit(0, 30, 30).is_none(), "one is in use");
    }

    #[test]
    fn credits_come_back_in_the_order_of_their_times() {
        let mut buffers = Buffers::new(1, 2);
        let [one, two] = [1, 2].map(|flight| buffers.take(0, 1, 0, flight).expect("room"));
        buffers.give(one, 20);
        buffers.give(two, 10);
        assert!(buffers.take(0, 1, 10, 3).is_some());
        assert!(buffers.take(0, 1, 19, 4).is_none());
        assert_eq!(buffers.alarm.take(), Some((20, 0)));
    }
}

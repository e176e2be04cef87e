//! What is due, in order; and things by number.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use super::state::What;

#[derive(Clone, Copy)]
pub(super) struct Event {
    pub at: u64,
    /// Of two at the same time the first that was asked for is first.
    sequence: u64,
    pub what: What,
}

impl PartialEq for Event {
    fn eq(&self, other: &Event) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Event {}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Event) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    /// The earliest is the greatest: the heap gives that first.
    fn cmp(&self, other: &Event) -> Ordering {
        (other.at, other.sequence).cmp(&(self.at, self.sequence))
    }
}

/// Events in order.
///
/// Most are due soon, after one of a few delays (looks of a poll, steps of a packet), so that those of one delay are asked
/// for in the order of their times. Such lie in lanes, where asking and taking is one step. What is due later (where the
/// network is full, flights know long before when they go on) lies in the days of a calendar, in no order, until its day comes.
/// All others lie in a heap, which so has one day's.
pub(super) struct Agenda {
    lanes: [VecDeque<Event>; LANES],
    /// Times of the last one in each lane; 0 where there is none.
    backs: [u64; LANES],
    /// Of the first one in each lane; [`NEVER`] where there is none.
    fronts: [(u64, u64); LANES],
    heap: BinaryHeap<Event>,
    /// By their number; none is empty.
    days: BTreeMap<u64, Vec<Event>>,
    /// The first one's number; `u64::MAX` where there is none.
    next_day: u64,
    /// The number of the day of the last event that was taken.
    today: u64,
    sequence: u64,
    /// Where the first of all lies, once somebody has looked.
    first: Option<usize>,
}

const LANES: usize = 6;
/// Picoseconds of a day, as a power of two.
const DAY: u32 = 20;
const NEVER: (u64, u64) = (u64::MAX, u64::MAX);

impl Agenda {
    pub fn new() -> Agenda {
        Agenda {
            lanes: std::array::from_fn(|_| VecDeque::new()),
            backs: [0; LANES],
            fronts: [NEVER; LANES],
            heap: BinaryHeap::new(),
            days: BTreeMap::new(),
            next_day: u64::MAX,
            today: 0,
            sequence: 0,
            first: None,
        }
    }

    /// Adds one.
    #[inline]
    pub fn push(&mut self, at: u64, what: What) {
        self.sequence += 1;
        let event = Event { at, sequence: self.sequence, what };
        self.first = None;
        // Tomorrow is soon, too: else a lane would be left at each day's end.
        let day = at >> DAY;
        if day > self.today + 1 {
            self.days.entry(day).or_default().push(event);
            self.next_day = self.next_day.min(day);
            return;
        }
        // Behind the latest that is not later, so that others stay open for what is due before.
        let mut lane = LANES;
        let mut latest = 0;
        for (i, back) in self.backs.iter().enumerate() {
            if *back <= at && (lane == LANES || *back > latest) {
                (lane, latest) = (i, *back);
            }
        }
        let Some(events) = self.lanes.get_mut(lane) else { return self.heap.push(event) };
        if events.is_empty() {
            self.fronts[lane] = (at, event.sequence);
        }
        events.push_back(event);
        self.backs[lane] = at;
    }

    /// Where the first lies; that of the heap is behind all lanes.
    #[inline]
    fn find(&mut self) -> usize {
        if let Some(first) = self.first {
            return first;
        }
        let (mut first, mut time) =
            (LANES, self.heap.peek().map_or(NEVER, |event| (event.at, event.sequence)));
        for (i, front) in self.fronts.iter().enumerate() {
            if *front < time {
                (first, time) = (i, *front);
            }
        }
        if time.0 >> DAY >= self.next_day {
            self.begin_day();
            return self.find();
        }
        self.first = Some(first);
        first
    }

    /// Nothing is due before the first day that the calendar has.
    #[cold]
    fn begin_day(&mut self) {
        if let Some((_, events)) = self.days.pop_first() {
            self.heap.extend(events);
        }
        self.next_day = self.days.keys().next().copied().unwrap_or(u64::MAX);
    }

    /// The first.
    #[inline]
    pub fn peek(&mut self) -> Option<&Event> {
        let first = self.find();
        match self.lanes.get(first) {
            Some(lane) => lane.front(),
            None => self.heap.peek(),
        }
    }

    /// Takes the first.
    #[inline]
    pub fn pop(&mut self) -> Option<Event> {
        let first = self.find();
        self.first = None;
        let event = self.take(first);
        self.today = event.map_or(self.today, |event| self.today.max(event.at >> DAY));
        event
    }

    #[inline]
    fn take(&mut self, first: usize) -> Option<Event> {
        let Some(lane) = self.lanes.get_mut(first) else { return self.heap.pop() };
        let event = lane.pop_front();
        match lane.front() {
            Some(next) => self.fronts[first] = (next.at, next.sequence),
            None => (self.fronts[first], self.backs[first]) = (NEVER, 0),
        }
        event
    }
}

/// Things by number; numbers are used again, the last one given back first.
pub(super) struct Slab<T> {
    places: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub fn new() -> Slab<T> {
        Slab { places: Vec::new(), free: Vec::new() }
    }

    pub fn insert(&mut self, thing: T) -> u32 {
        match self.free.pop() {
            Some(at) => {
                self.places[at as usize] = Some(thing);
                at
            }
            None => {
                self.places.push(Some(thing));
                (self.places.len() - 1) as u32
            }
        }
    }

    pub fn take(&mut self, at: u32) -> Option<T> {
        let thing = self.places.get_mut(at as usize)?.take();
        if thing.is_some() {
            self.free.push(at);
        }
        thing
    }

    /// How many were there at once at most.
    pub fn places(&self) -> usize {
        self.places.len()
    }

    pub fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        self.places.get_mut(at as usize)?.as_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever comes in between, events are taken in the order of their times, and of those in that in which they came.
    #[test]
    fn events_are_taken_as_from_a_sorted_list() {
        let mut random = fastrand::Rng::with_seed(7);
        let (mut agenda, mut sorted, mut now) = (Agenda::new(), std::collections::BTreeMap::new(), 0);
        for number in 0..200_000 {
            let delay = match random.u32(..8) {
                0..3 => 50_000,
                3..5 => 600,
                5 => random.u64(..8 << DAY),
                6 => 0,
                _ => random.u64(..1 << 40),
            };
            agenda.push(now + delay, What::Later(number));
            sorted.insert((now + delay, number), ());
            // It grows and shrinks by turns.
            for _ in 0..random.u32(..if number / 1000 % 2 == 0 { 2 } else { 4 }) {
                let wanted = sorted.pop_first().map(|(key, ())| key);
                assert_eq!(agenda.peek().map(|event| event.at), wanted.map(|(at, _)| at));
                let found = agenda.pop().map(|event| match event.what {
                    What::Later(number) => (event.at, number),
                    other => panic!("{other:?}"),
                });
                assert_eq!(found, wanted);
                now = found.map_or(now, |(at, _)| at);
            }
        }
        assert!(agenda.lanes.iter().filter(|lane| lane.capacity() > 100).count() > 1, "lanes were of use");
    }
}

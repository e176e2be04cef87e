//! What is due, in order; and things by number.

use std::cmp::Ordering;

use super::state::What;

#[derive(Clone, Copy)]
pub(super) struct Event {
    pub at: u64,
    /// Of two at the same time the first that was asked for is first.
    pub sequence: u64,
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

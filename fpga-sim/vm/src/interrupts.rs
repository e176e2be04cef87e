//! Interrupt lines: an event for each vector, set by the virtual machine.

use std::fs::File;
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The events of a device's vectors.
pub struct Interrupts {
    events: Mutex<Vec<Option<File>>>,
}

impl Interrupts {
    /// Vectors that nobody listens to.
    pub fn new(vectors: u32) -> Interrupts {
        Interrupts { events: Mutex::new((0..vectors).map(|_| None).collect()) }
    }

    /// Gives vectors from `first` on their events; those of `count` without one are silent from now on.
    pub fn set(&self, first: u32, count: u32, events: Vec<File>) {
        let mut events = events.into_iter();
        let mut vectors = self.lock();
        for vector in vectors.iter_mut().skip(first as usize).take(count as usize) {
            *vector = events.next();
        }
    }

    /// Makes all vectors silent.
    pub fn clear(&self) {
        self.lock().iter_mut().for_each(|vector| *vector = None);
    }

    /// Raises a vector; false where nobody listens.
    pub fn raise(&self, vector: u32) -> bool {
        let mut vectors = self.lock();
        let Some(Some(event)) = vectors.get_mut(vector as usize) else { return false };
        // An event takes the word at once, or is full of interrupts that nobody took.
        event.write(&1u64.to_ne_bytes()).is_ok()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Option<File>>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Payloads that a peer may still read: kept until it has returned them.

use std::sync::atomic::{AtomicU32, Ordering};

use super::inbox::HOLDS;
use crate::packet::Payload;

/// Generations have 24 bits: an entry names hold and generation in one word of 32.
const HOLD_BITS: u32 = 8;
const GENERATION_MAX: u32 = (1 << 24) - 1;

/// What one peer may read.
pub(super) struct Holds {
    held: [Option<Payload>; HOLDS],
    generations: [u32; HOLDS],
    /// Holds in use.
    used: u64,
}

/// Hold and generation that an entry names.
pub(super) fn named(word: u32) -> (usize, u32) {
    ((word & ((1 << HOLD_BITS) - 1)) as usize, word >> HOLD_BITS)
}

impl Holds {
    /// Of a process that comes after others in its slot: what these return late shall not be taken for this one's.
    pub fn new(generation: u32) -> Holds {
        let first = generation.wrapping_mul(0x9e37_79b1) & GENERATION_MAX;
        Holds { held: [const { None }; HOLDS], generations: [first; HOLDS], used: 0 }
    }

    /// Whether any is in use.
    pub fn is_used(&self) -> bool {
        self.used != 0
    }

    /// Keeps a payload until it is returned; `None`, and it stays where it is, if too many are out.
    pub fn hold(&mut self, payload: &mut Payload) -> Option<u32> {
        let hold = (!self.used).trailing_zeros() as usize;
        let place = self.held.get_mut(hold)?;
        *place = Some(std::mem::take(payload));
        self.used |= 1 << hold;
        let generation = &mut self.generations[hold];
        *generation = if *generation == GENERATION_MAX { 1 } else { *generation + 1 };
        Some(hold as u32 | *generation << HOLD_BITS)
    }

    /// Gives out payloads that the peer has returned.
    pub fn collect(&mut self, returned: &[AtomicU32; HOLDS], free: &mut Vec<Payload>) {
        let mut used = self.used;
        while used != 0 {
            let hold = used.trailing_zeros() as usize;
            used &= used - 1;
            if returned[hold].load(Ordering::Acquire) == self.generations[hold] {
                self.used &= !(1 << hold);
                free.extend(self.held[hold].take());
            }
        }
    }

    /// The payload of a hold that an entry names; none where there is no such hold.
    pub fn take(&mut self, word: u32) -> Payload {
        let (hold, generation) = named(word);
        let is_it = self.generations.get(hold) == Some(&generation);
        let held = self.held.get_mut(hold).filter(|_| is_it);
        held.and_then(Option::take).unwrap_or(Payload::None)
    }

    /// Gives out all of them.
    pub fn abandon(&mut self) -> Vec<Payload> {
        self.used = 0;
        self.held.iter_mut().filter_map(Option::take).collect()
    }
}

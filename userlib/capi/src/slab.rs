//! Objects whose addresses are handles, in an address range of its own for each kind of object.
//!
//! A pointer from C is a valid handle if it lies in the range, at the start of a slot, and the slot is marked live. Slots
//! are allocated in ascending order through the whole range before one is reused, so a stale handle is recognised. Pages
//! whose objects are all freed give their memory back, so that opening and closing does not grow.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// State of a place: free, in use, being retired.
const DEAD: u64 = 0;
const LIVE: u64 = 1;
const LEAVING: u64 = 2;

const PAGE: usize = 4096;
/// Smallest range that is asked for.
const LEAST: usize = 1 << 20;

/// One object with its state. What C sees comes first in `T`. All zeroes is a dead place, whatever `T` is.
#[repr(C, align(64))]
pub(crate) struct Place<T> {
    pub(crate) body: T,
    state: AtomicU64,
}

/// Places for objects of one kind.
pub(crate) struct Slab<T> {
    base: *mut Place<T>,
    places: usize,
    turn: Mutex<Turn>,
}

struct Turn {
    next: usize,
    /// Live places of each page that has any.
    live: HashMap<usize, usize>,
}

// SAFETY: places are handed out once each; `T` is shared between threads.
unsafe impl<T: Send + Sync> Send for Slab<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Slab<T> {}

impl<T> Slab<T> {
    /// Bytes from place to place: a part of a page.
    const STRIDE: usize = size_of::<Place<T>>().next_power_of_two();

    /// A range of up to `bytes`, less where the system does not give that much.
    pub(crate) fn new(mut bytes: usize) -> io::Result<Slab<T>> {
        const { assert!(PAGE.is_multiple_of(Self::STRIDE)) };
        loop {
            // SAFETY: a new private mapping touches no existing memory.
            let base = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    bytes,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                    -1,
                    0,
                )
            };
            if base != libc::MAP_FAILED {
                // A child of fork has none of the parent's objects. SAFETY: advice on our own mapping.
                unsafe { libc::madvise(base, bytes, libc::MADV_WIPEONFORK) };
                let turn = Turn { next: 0, live: HashMap::new() };
                return Ok(Slab { base: base.cast(), places: bytes / Self::STRIDE, turn: Mutex::new(turn) });
            }
            if bytes <= LEAST {
                return Err(io::Error::last_os_error());
            }
            bytes /= 4;
        }
    }

    /// Takes the next place. `None`: all are live.
    pub(crate) fn insert(&self, body: T) -> Option<*mut T> {
        let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..self.places {
            let index = turn.next;
            turn.next = (index + 1) % self.places;
            // SAFETY: the index is below the number of places.
            let place = unsafe { self.base.byte_add(index * Self::STRIDE) };
            // SAFETY: the range is mapped as long as `self`; the state is only accessed atomically.
            let state = unsafe { &(*place).state };
            if state.load(Ordering::Acquire) == DEAD {
                *turn.live.entry(index * Self::STRIDE / PAGE).or_default() += 1;
                // SAFETY: dead, so nobody refers to the body; only this thread takes it.
                unsafe { (&raw mut (*place).body).write(body) };
                state.store(LIVE, Ordering::Release);
                return Some(place.cast());
            }
        }
        None
    }

    /// The live object that `handle` is.
    #[inline]
    pub(crate) fn get(&self, handle: *const T) -> Option<&Place<T>> {
        let offset = (handle as usize).wrapping_sub(self.base as usize);
        if offset >= self.places * Self::STRIDE || !offset.is_multiple_of(Self::STRIDE) {
            return None;
        }
        // SAFETY: a place of the range, which is mapped as long as `self`. Bodies consist of atomics, and of what is
        // written before the place becomes live; the places of a given-up page read as zeroes.
        let place = unsafe { &*handle.cast::<Place<T>>() };
        place.is_live().then_some(place)
    }

    /// Whether `handle` lies in the range, live or not.
    pub(crate) fn owns(&self, handle: *const T) -> bool {
        (handle as usize).wrapping_sub(self.base as usize) < self.places * Self::STRIDE
    }

    /// Ends the object's life for all who look it up from now on; one caller wins. Then [`retire`](Self::retire).
    pub(crate) fn leave(&self, handle: *const T) -> Option<&Place<T>> {
        let place = self.get(handle)?;
        let won = place.state.compare_exchange(LIVE, LEAVING, Ordering::SeqCst, Ordering::Relaxed);
        won.ok().map(|_| place)
    }

    /// Gives the place of an object up that has left.
    pub(crate) fn retire(&self, place: &Place<T>) {
        let page = (std::ptr::from_ref(place) as usize - self.base as usize) / PAGE;
        let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        place.state.store(DEAD, Ordering::Release);
        let Some(live) = turn.live.get_mut(&page) else { return };
        *live -= 1;
        if *live > 0 {
            return;
        }
        turn.live.remove(&page);
        if turn.next * Self::STRIDE / PAGE != page {
            // SAFETY: a page of our range without a live object; who still looks at it sees dead places.
            unsafe { libc::madvise(self.base.byte_add(page * PAGE).cast(), PAGE, libc::MADV_DONTNEED) };
        }
    }

    /// Ends an object's life at once.
    pub(crate) fn remove(&self, handle: *const T) -> bool {
        self.leave(handle).map(|place| self.retire(place)).is_some()
    }
}

impl<T> Place<T> {
    #[inline]
    pub(crate) fn is_live(&self) -> bool {
        self.state.load(Ordering::SeqCst) == LIVE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::null;

    fn slab() -> Slab<AtomicU64> {
        Slab::new(1 << 20).unwrap()
    }

    #[test]
    fn only_live_places_are_handles() {
        let slab = slab();
        let handle = slab.insert(AtomicU64::new(7)).unwrap();
        assert_eq!(slab.get(handle).unwrap().body.load(Ordering::Relaxed), 7);
        let elsewhere = AtomicU64::new(1);
        for wrong in [null(), &elsewhere, handle.wrapping_byte_add(8), handle.wrapping_byte_add(64), 1 as _] {
            assert!(slab.get(wrong).is_none());
        }
        assert!(slab.remove(handle));
        assert!(slab.get(handle).is_none() && !slab.remove(handle));
    }

    #[test]
    fn places_are_not_used_twice_until_the_range_is_through() {
        let slab = slab();
        let kept = slab.insert(AtomicU64::new(42)).unwrap();
        let mut seen = std::collections::HashSet::from([kept]);
        for _ in 0..slab.places - 1 {
            let handle = slab.insert(AtomicU64::new(0)).unwrap();
            assert!(seen.insert(handle));
            assert!(slab.remove(handle));
        }
        // Comes round: the live one is passed over.
        for _ in 0..10 {
            let handle = slab.insert(AtomicU64::new(0)).unwrap();
            assert_ne!(handle, kept);
            assert!(slab.remove(handle));
        }
        assert_eq!(slab.get(kept).unwrap().body.load(Ordering::Relaxed), 42);
        assert!(slab.turn.lock().unwrap().live.len() <= 1);
    }

    #[test]
    fn a_full_range_says_so() {
        let slab = slab();
        let all: Vec<_> = std::iter::from_fn(|| slab.insert(AtomicU64::new(0))).collect();
        assert_eq!(all.len(), slab.places);
        slab.remove(all[3]);
        assert_eq!(slab.insert(AtomicU64::new(0)), Some(all[3]));
    }
}

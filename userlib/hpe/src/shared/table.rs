//! All shared objects of the process, for signal handlers: found without a lock.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use super::object::Object;
use crate::error::HpeError;
use crate::fork;

/// Objects that there can be; a fault looks at each.
const MOST: usize = 1024;

struct Slot {
    start: AtomicU64,
    end: AtomicU64,
    object: AtomicPtr<Object>,
    /// Faults that are served with the object right now.
    users: AtomicU32,
}

impl Slot {
    const fn empty() -> Slot {
        Slot {
            start: AtomicU64::new(0),
            end: AtomicU64::new(0),
            object: AtomicPtr::new(std::ptr::null_mut()),
            users: AtomicU32::new(0),
        }
    }
}

static SLOTS: [Slot; MOST] = [const { Slot::empty() }; MOST];
/// Slots from here on were never used.
static USED: AtomicUsize = AtomicUsize::new(0);

/// Makes an object known to faults.
pub(crate) fn insert(object: &Arc<Object>) -> Result<(), HpeError> {
    let _changes = fork::changes();
    let is_free =
        |slot: &Slot| slot.object.load(Ordering::Relaxed).is_null() && slot.users.load(Ordering::SeqCst) == 0;
    let index = SLOTS.iter().position(is_free).ok_or(HpeError::Objects { most: MOST })?;
    let slot = &SLOTS[index];
    slot.start.store(object.start, Ordering::SeqCst);
    slot.end.store(object.start + object.size as u64, Ordering::SeqCst);
    slot.object.store(Arc::as_ptr(object).cast_mut(), Ordering::SeqCst);
    USED.fetch_max(index + 1, Ordering::SeqCst);
    Ok(())
}

/// Takes it out, and returns when no fault uses it.
pub(crate) fn remove(object: &Object) {
    let changes = fork::changes();
    let is_it = |slot: &&Slot| std::ptr::eq(slot.object.load(Ordering::Relaxed), object);
    let Some(slot) = SLOTS.iter().find(is_it) else { return };
    slot.object.store(std::ptr::null_mut(), Ordering::SeqCst);
    slot.start.store(0, Ordering::SeqCst);
    slot.end.store(0, Ordering::SeqCst);
    drop(changes);
    while slot.users.load(Ordering::SeqCst) != 0 {
        ggas_clock::Clock::REAL.yield_now();
    }
}

/// An object that stays until this is dropped.
pub(crate) struct Found {
    slot: &'static Slot,
    object: *const Object,
}

impl Deref for Found {
    type Target = Object;

    fn deref(&self) -> &Object {
        // SAFETY: `remove` waits until the slot has no users, and owners drop objects behind it.
        unsafe { &*self.object }
    }
}

impl Drop for Found {
    fn drop(&mut self) {
        self.slot.users.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The object that an address lies in.
pub(crate) fn find(address: u64) -> Option<Found> {
    let used = USED.load(Ordering::SeqCst).min(MOST);
    let covers = |slot: &Slot| {
        slot.start.load(Ordering::Relaxed) <= address && address < slot.end.load(Ordering::Relaxed)
    };
    for slot in SLOTS[..used].iter().filter(|slot| covers(slot)) {
        slot.users.fetch_add(1, Ordering::SeqCst);
        let found = Found { slot, object: slot.object.load(Ordering::SeqCst) };
        // Its bounds may have been another object's.
        if !found.object.is_null() && found.start <= address && address < found.start + found.size as u64 {
            return Some(found);
        }
    }
    None
}

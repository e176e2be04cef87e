//! A value that is read all the time and changes hardly ever.

use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};

/// Holds a value, or none. A read is one load: replaced values stay allocated until the cell itself goes, so that
/// nobody needs to count readers.
pub(crate) struct Keep<T> {
    now: AtomicPtr<T>,
    /// Every value that ever was, boxed: `now` points into one of them.
    ever: Mutex<Vec<Box<T>>>,
}

impl<T> Default for Keep<T> {
    fn default() -> Self {
        Keep { now: AtomicPtr::default(), ever: Mutex::default() }
    }
}

impl<T> Keep<T> {
    /// The value.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        // SAFETY: null, or a box of `ever`, which only grows while `self` is borrowed.
        unsafe { self.now.load(Ordering::Acquire).as_ref() }
    }

    /// Replaces the value.
    pub fn set(&self, value: Option<T>) {
        let mut ever = self.ever.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.keep(&mut ever, value);
        self.now.store(now, Ordering::Release);
    }

    /// Sets the value where there is none; false where there is one.
    pub fn set_if_none(&self, value: T) -> bool {
        let mut ever = self.ever.lock().unwrap_or_else(PoisonError::into_inner);
        if self.get().is_some() {
            return false;
        }
        let now = self.keep(&mut ever, Some(value));
        self.now.store(now, Ordering::Release);
        true
    }

    fn keep(&self, ever: &mut Vec<Box<T>>, value: Option<T>) -> *mut T {
        let Some(value) = value else { return std::ptr::null_mut() };
        ever.push(Box::new(value));
        ever.last_mut().map_or(std::ptr::null_mut(), |kept| &raw mut **kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn values_live_as_long_as_the_cell() {
        let alive = Arc::new(());
        let keep = Keep::default();
        keep.set(Some(alive.clone()));
        let first = keep.get().unwrap();
        assert!(!keep.set_if_none(alive.clone()));
        keep.set(None);
        assert!(keep.get().is_none());
        assert!(keep.set_if_none(alive.clone()));
        assert!(Arc::ptr_eq(first, &alive), "a reader of an older value");
        assert_eq!(Arc::strong_count(&alive), 3);
        drop(keep);
        assert_eq!(Arc::strong_count(&alive), 1);
    }
}

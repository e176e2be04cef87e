//! References into shared memory that keep it mapped.

use std::any::Any;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

/// A reference to something that it keeps alive.
pub struct Part<T> {
    at: NonNull<T>,
    owner: Arc<dyn Any + Send + Sync>,
}

// SAFETY: a `Part` is a shared reference to a `T` and its owner, which may go to any thread.
unsafe impl<T: Sync> Send for Part<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Part<T> {}

impl<T: Sync> Part<T> {
    /// What `find` finds in `owner`.
    pub fn of<O: Any + Send + Sync>(owner: &Arc<O>, find: impl FnOnce(&O) -> &T) -> Part<T> {
        Part { at: NonNull::from(find(owner)), owner: owner.clone() }
    }

    /// The same, where it may not be there.
    pub fn find<O: Any + Send + Sync>(
        owner: &Arc<O>,
        find: impl FnOnce(&O) -> Option<&T>,
    ) -> Option<Part<T>> {
        find(owner).map(|at| Part { at: NonNull::from(at), owner: owner.clone() })
    }

    /// A part of this part.
    pub fn part<U: Sync>(&self, find: impl FnOnce(&T) -> &U) -> Part<U> {
        Part { at: NonNull::from(find(self)), owner: self.owner.clone() }
    }
}

impl<T: Send + Sync + Default + 'static> Default for Part<T> {
    /// On the heap.
    fn default() -> Self {
        Part::of(&Arc::new(T::default()), |value| value)
    }
}

impl<T> Clone for Part<T> {
    fn clone(&self) -> Self {
        Part { at: self.at, owner: self.owner.clone() }
    }
}

impl<T> Deref for Part<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: borrowed from the owner, which lives as long as `self`. Owners give out references to what they
        // hold by value or map, at the same place for their whole life.
        unsafe { self.at.as_ref() }
    }
}

impl<T: std::fmt::Debug> std::fmt::Debug for Part<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (**self).fmt(f)
    }
}

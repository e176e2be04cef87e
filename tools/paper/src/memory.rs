use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Memory that the programs of one run share; they run one at a time.
#[derive(Debug, Default)]
pub(crate) struct Memory<T>(Arc<Mutex<T>>);

impl<T> Memory<T> {
    pub(crate) fn new(value: T) -> Memory<T> {
        Memory(Arc::new(Mutex::new(value)))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Clone for Memory<T> {
    fn clone(&self) -> Self {
        Memory(self.0.clone())
    }
}

//! Launches of kernels with shared objects.

use std::sync::Arc;

use crate::error::HpeError;
use crate::fork;
use crate::futex;
use crate::objects::Place;
use crate::runtime::Runtime;
use crate::shared::launch::wake_waiters;
use crate::shared::object::Object;

/// What a kernel does with a shared object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// It only reads it: what the host has stays valid.
    Read,
    /// It may write it: behind the launch the host has nothing of it.
    Write,
}

impl Runtime {
    /// Runs `kernel`, which starts kernels and waits for their end, with these shared objects: the devices have what the host wrote,
    /// and the host what the kernels wrote. Threads that touch an object meanwhile wait, unless they read what the host has.
    /// This thread must not touch the objects in `kernel`.
    ///
    /// # Errors
    /// [`HpeError::NotShared`], [`HpeError::InUse`] for an object that is named twice or is in a launch of this thread: `kernel` did
    /// not run. What a device refuses; what the host wrote is then still its own.
    pub fn launch<R>(&self, objects: &[(*const u8, Use)], kernel: impl FnOnce() -> R) -> Result<R, HpeError> {
        self.prepare(objects)?.launch(kernel)
    }

    /// Looks shared objects up for launches that use the same ones again and again, which then cost no more than to say that a kernel has
    /// them. Their memory stays until they were freed and this is dropped.
    ///
    /// # Errors
    /// [`HpeError::NotShared`], [`HpeError::Forked`].
    pub fn prepare(&self, objects: &[(*const u8, Use)]) -> Result<Prepared, HpeError> {
        fork::check(self.inner.generation)?;
        let mut found = Vec::with_capacity(objects.len());
        for &(address, usage) in objects {
            match self.place(address as u64, 1)? {
                Place::Shared(object, _) => found.push((object, usage)),
                _ => return Err(HpeError::NotShared { address: address as u64 }),
            }
        }
        // All launches take objects in one order, so that none waits for another in a circle.
        found.sort_by_key(|(object, _)| object.start);
        Ok(Prepared { objects: found, runtime: self.clone() })
    }
}

/// Shared objects of launches that were looked up.
pub struct Prepared {
    // Before the runtime: its threads serve them.
    objects: Vec<(Arc<Object>, Use)>,
    runtime: Runtime,
}

impl Prepared {
    /// [`Runtime::launch`] with these objects.
    ///
    /// # Errors
    /// As [`Runtime::launch`]; [`HpeError::NotShared`] for an object that was freed.
    pub fn launch<R>(&self, kernel: impl FnOnce() -> R) -> Result<R, HpeError> {
        fork::check(self.runtime.inner.generation)?;
        let mut launched = Launched { objects: &self.objects, begun: 0 };
        launched.begin()?;
        let result = kernel();
        launched.end()?;
        Ok(result)
    }
}

/// Objects of a launch, of which the first ones have begun. Those are taken back on drop: also when a kernel's caller panics.
struct Launched<'a> {
    objects: &'a [(Arc<Object>, Use)],
    begun: usize,
}

impl Launched<'_> {
    fn begin(&mut self) -> Result<(), HpeError> {
        let me = futex::thread();
        for (object, _) in self.objects {
            object.begin_launch(me)?;
            self.begun += 1;
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), HpeError> {
        let ended = &self.objects[..std::mem::take(&mut self.begun)];
        let mut failed = None;
        for (object, usage) in ended {
            if let Err(error) = object.end_launch(*usage == Use::Write) {
                failed.get_or_insert(error);
            }
        }
        wake_waiters(ended.iter().map(|(object, _)| &**object));
        failed.map_or(Ok(()), Err)
    }
}

impl Drop for Launched<'_> {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

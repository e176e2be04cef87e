//! What context is current to a thread, for who calls this crate from a program that uses CUDA itself: its next call is meant for the GPU that it
//! chose, and not for that of the last call here.

use crate::sys::*;

/// The context that was current to this thread, and is again once this is dropped.
pub struct CurrentContext(CUcontext);

impl CurrentContext {
    /// `None` without a driver.
    pub fn of_this_thread() -> Option<CurrentContext> {
        load().ok()?;
        let mut context = std::ptr::null_mut();
        // SAFETY: the driver is loaded, and the context is written on success.
        check("cuCtxGetCurrent", unsafe { cuCtxGetCurrent(&mut context) }).ok()?;
        Some(CurrentContext(context))
    }
}

impl Drop for CurrentContext {
    fn drop(&mut self) {
        // SAFETY: a context of the program's, which it had current, or none.
        let _ = unsafe { cuCtxSetCurrent(self.0) };
    }
}

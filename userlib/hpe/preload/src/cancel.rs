//! Threads that are not cancelled (`pthread_cancel`) while a call moves memory of a device: buffers that a device still uses, and locks, are
//! not left, and nothing unwinds through functions that cannot be unwound.

use std::ffi::c_int;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// `PTHREAD_CANCEL_DISABLE`.
const NO_CANCEL: c_int = 1;

/// Until this is dropped nobody cancels this thread; who asked meanwhile has it cancelled at its next point of cancellation.
pub struct Uncancelled(c_int);

impl Uncancelled {
    pub fn new() -> Uncancelled {
        let mut before = 0;
        // SAFETY: this thread's own state.
        unsafe { pthread_setcancelstate(NO_CANCEL, &mut before) };
        Uncancelled(before)
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        // SAFETY: the state that was there before.
        unsafe { pthread_setcancelstate(self.0, std::ptr::null_mut()) };
    }
}

/// What `work` gives, which nobody cancels.
pub fn uncancelled<T>(work: impl FnOnce() -> T) -> T {
    let _whole = Uncancelled::new();
    work()
}

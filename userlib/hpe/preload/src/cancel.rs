//! What a call that moves memory of a device leaves as it was in its thread. It is not cancelled (`pthread_cancel`) meanwhile: buffers that a
//! device still uses, and locks, are not left, and nothing unwinds through functions that cannot be unwound. And the GPU that the program
//! chose (`cudaSetDevice`) stays chosen, whichever the call uses.

use std::ffi::c_int;

use ggas_gpu::CurrentContext;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// `PTHREAD_CANCEL_DISABLE`.
const NO_CANCEL: c_int = 1;

/// Until this is dropped nobody cancels this thread; who asked meanwhile has it cancelled at its next point of cancellation.
pub struct Uncancelled {
    before: c_int,
    context: Option<CurrentContext>,
}

impl Uncancelled {
    pub fn new() -> Uncancelled {
        let mut before = 0;
        // SAFETY: this thread's own state.
        unsafe { pthread_setcancelstate(NO_CANCEL, &mut before) };
        let context = if crate::may_use_gpus() { CurrentContext::of_this_thread() } else { None };
        Uncancelled { before, context }
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        // A call that failed has said why, and what the driver does here may say something else.
        // SAFETY: this thread's own.
        let errno = unsafe { *libc::__errno_location() };
        drop(self.context.take());
        crate::set_errno(errno);
        // SAFETY: the state that was there before.
        unsafe { pthread_setcancelstate(self.before, std::ptr::null_mut()) };
    }
}

/// What `work` gives, which nobody cancels.
pub fn uncancelled<T>(work: impl FnOnce() -> T) -> T {
    let _whole = Uncancelled::new();
    work()
}

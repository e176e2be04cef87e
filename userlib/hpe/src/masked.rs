//! Signals that are put off: of a thread that may not be interrupted, and of threads of a runtime from their beginning, to which the
//! program's signals do not belong. What it waits for, or has blocked, comes to none of them, and no handler runs there that waits for it.

/// All signals are put off until this is dropped, but those of faults.
pub(crate) struct Masked(libc::sigset_t);

impl Masked {
    pub fn new() -> Masked {
        // SAFETY: both sets are plain data that the calls fill in.
        unsafe {
            let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigfillset(&mut all);
            for fault in [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP] {
                libc::sigdelset(&mut all, fault);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &all, &mut before);
            Masked(before)
        }
    }
}

impl Drop for Masked {
    fn drop(&mut self) {
        // SAFETY: the set that was there before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut()) };
    }
}

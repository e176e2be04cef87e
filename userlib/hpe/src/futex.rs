//! Waits for a word, which signal handlers may do.

use std::sync::atomic::AtomicU32;

/// Sleeps until `word` is woken or no longer `seen`, or for a millisecond.
pub(crate) fn wait_briefly(word: &AtomicU32, seen: u32) {
    let time = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
    // SAFETY: an aligned word that lives as long as this call; the kernel only reads it.
    unsafe {
        libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG, seen, &time, 0, 0)
    };
}

/// Wakes all who wait for `word`.
pub(crate) fn wake_all(word: &AtomicU32) {
    // SAFETY: the kernel looks only at the address.
    unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, i32::MAX) };
}

/// What this thread has alone, as long as it lives, and never 0: the address of its `errno`, which takes no system call.
pub(crate) fn thread() -> usize {
    // SAFETY: no arguments.
    unsafe { libc::__errno_location() as usize }
}

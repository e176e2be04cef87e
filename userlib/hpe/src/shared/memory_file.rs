//! The host's side of a shared object.

use std::os::fd::{FromRawFd, OwnedFd};

use crate::error::HpeError;

/// A file in memory of that size, with all its pages: faults of `userfaultfd` are minor ones then.
pub(crate) fn memory_file(size: usize) -> Result<OwnedFd, HpeError> {
    // SAFETY: a name that ends with zero.
    let raw = unsafe { libc::memfd_create(c"ggas-hpe".as_ptr(), libc::MFD_CLOEXEC) };
    if raw < 0 {
        return Err(HpeError::system("making memory for a shared object"));
    }
    // SAFETY: ours alone.
    let file = unsafe { OwnedFd::from_raw_fd(raw) };
    // SAFETY: a descriptor of ours.
    let grow =
        || unsafe { libc::ftruncate(raw, size as i64) == 0 && libc::fallocate(raw, 0, 0, size as i64) == 0 };
    if !without_sigxfsz(grow) {
        return Err(HpeError::system("making memory for a shared object"));
    }
    Ok(file)
}

/// A limit of file sizes (`RLIMIT_FSIZE`) holds for files in memory, too: who passes it gets SIGXFSZ, which ends the process, besides the
/// error. That is enough here: a signal that this call brings is taken back. `errno` stays.
fn without_sigxfsz(grow: impl FnOnce() -> bool) -> bool {
    // SAFETY: all are plain data that the calls fill in; the mask is put back.
    unsafe {
        let (mut limit, mut before, mut pending): (libc::sigset_t, libc::sigset_t, libc::sigset_t) =
            std::mem::zeroed();
        libc::sigemptyset(&mut limit);
        libc::sigaddset(&mut limit, libc::SIGXFSZ);
        libc::sigpending(&mut pending);
        libc::pthread_sigmask(libc::SIG_BLOCK, &limit, &mut before);
        let grown = grow();
        let errno = *libc::__errno_location();
        if !grown && errno == libc::EFBIG && libc::sigismember(&pending, libc::SIGXFSZ) == 0 {
            let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            libc::sigtimedwait(&limit, std::ptr::null_mut(), &at_once);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        *libc::__errno_location() = errno;
        grown
    }
}

//! How accesses of the host are seen: by `mprotect` and SIGSEGV, as the paper has it, or by `userfaultfd`.

use crate::error::HpeError;
use crate::shared::userfault::Userfault;

/// What the host may do with a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// The means.
pub(crate) enum Track {
    /// Pages are protected; whoever touches them gets SIGSEGV, whose handler serves the fault or has a thread do it.
    Protect,
    /// The kernel tells a thread of ours through a file descriptor, and keeps whoever touched the pages waiting; system calls too.
    Userfault(Userfault),
}

impl Track {
    /// The protection of a user's mapping at first, when the host may not touch it.
    pub fn first_protection(&self) -> i32 {
        match self {
            Track::Protect => libc::PROT_NONE,
            Track::Userfault(_) => libc::PROT_READ | libc::PROT_WRITE,
        }
    }

    /// Begins to look at a user's mapping.
    pub fn begin(&self, start: u64, size: usize) -> Result<(), HpeError> {
        match self {
            Track::Protect => Ok(()),
            Track::Userfault(userfault) => userfault.register(start, size),
        }
    }

    /// Ends it.
    pub fn end(&self, start: u64, size: usize) {
        if let Track::Userfault(userfault) = self {
            userfault.unregister(start, size);
        }
    }

    /// Lets the host access pages, which were shut until now or not; says what it may do now, which may be more than was asked for.
    pub fn allow(&self, start: u64, len: usize, shut: bool, access: Access) -> Result<Access, HpeError> {
        match self {
            Track::Protect => protect(
                start,
                len,
                match access {
                    Access::Read => libc::PROT_READ,
                    Access::Write => libc::PROT_READ | libc::PROT_WRITE,
                },
            )?,
            Track::Userfault(userfault) if shut => return userfault.open(start, len, access),
            Track::Userfault(userfault) => userfault.protect(start, len, access == Access::Read)?,
        }
        Ok(access)
    }

    /// Opens pages that were shut to a copy that arrives in them. Who waits for them is not told.
    pub fn admit_copy(&self, start: u64, len: usize) -> Result<(), HpeError> {
        match self {
            Track::Protect => protect(start, len, libc::PROT_READ | libc::PROT_WRITE),
            Track::Userfault(userfault) => userfault.open_quietly(start, len),
        }
    }

    /// Keeps the host out.
    pub fn shut(&self, start: u64, len: usize) -> Result<(), HpeError> {
        match self {
            Track::Protect => protect(start, len, libc::PROT_NONE),
            Track::Userfault(_) => {
                // SAFETY: the file keeps the bytes; only the mapping forgets its pages.
                let failed = unsafe { libc::madvise(start as *mut _, len, libc::MADV_DONTNEED) } != 0;
                if failed { Err(HpeError::system("taking pages of a shared object back")) } else { Ok(()) }
            }
        }
    }
}

fn protect(start: u64, len: usize, protection: i32) -> Result<(), HpeError> {
    // SAFETY: pages of a user's mapping of a shared object.
    match unsafe { libc::mprotect(start as *mut _, len, protection) } {
        0 => Ok(()),
        _ => Err(HpeError::system("protecting pages of a shared object")),
    }
}

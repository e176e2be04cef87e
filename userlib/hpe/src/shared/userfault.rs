//! `userfaultfd`: the kernel reports the faults of ranges to whoever reads a file descriptor (Linux 5.19 for memory that is shared).
//!
//! A block that the host may not touch has no pages in the user's mapping, so each access is a minor fault; a block that both have is
//! protected against writing. Linux before 6.4 does not map pages so that they are protected from the first moment on; there a block that
//! is read counts as written, since a write between mapping and protecting would not be noticed.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::error::HpeError;
use crate::shared::track::Access;

/// `_IOWR(0xAA, 0x3f, struct uffdio_api)` and its neighbours in `linux/userfaultfd.h`.
const API: u64 = 0xc018_aa3f;
const REGISTER: u64 = 0xc020_aa00;
const UNREGISTER: u64 = 0x8010_aa01;
const WAKE: u64 = 0x8010_aa02;
const WRITEPROTECT: u64 = 0xc018_aa06;
const CONTINUE: u64 = 0xc020_aa07;
/// `USERFAULTFD_IOC_NEW` of `/dev/userfaultfd`.
const NEW: u64 = 0xaa00;

const VERSION: u64 = 0xaa;
/// `UFFD_FEATURE_PAGEFAULT_FLAG_WP`, `_MINOR_SHMEM`, `_WP_HUGETLBFS_SHMEM`.
const FEATURES: u64 = 1 | 1 << 10 | 1 << 12;
/// `UFFDIO_REGISTER_MODE_WP`, `_MINOR`.
const MODES: u64 = 2 | 4;
const CONTINUE_QUIETLY: u64 = 1;
const CONTINUE_PROTECTED: u64 = 2;
const WRITEPROTECT_QUIETLY: u64 = 2;
const OPENING: &str = "opening pages of a shared object";
const EVENT_PAGEFAULT: u8 = 0x12;
const FAULT_WRITE: u64 = 1;
const FAULT_PROTECTED: u64 = 2;

#[repr(C)]
struct Range {
    start: u64,
    len: u64,
}

#[repr(C)]
struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
struct Register {
    range: Range,
    mode: u64,
    ioctls: u64,
}

#[repr(C)]
struct WriteProtect {
    range: Range,
    mode: u64,
}

#[repr(C)]
struct Continue {
    range: Range,
    mode: u64,
    mapped: i64,
}

/// A fault that the kernel reported.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Message {
    event: u8,
    reserved: [u8; 7],
    flags: u64,
    address: u64,
    thread: u64,
}

const _: () =
    assert!(size_of::<Message>() == 32 && size_of::<Continue>() == 32 && size_of::<Register>() == 32);

impl Message {
    /// Where, and whether it is a write; `None` for another event.
    pub fn fault(&self) -> Option<(u64, bool)> {
        (self.event == EVENT_PAGEFAULT)
            .then_some((self.address, self.flags & (FAULT_WRITE | FAULT_PROTECTED) != 0))
    }
}

const FORBIDDEN: &str = "userfaultfd (needs CAP_SYS_PTRACE, the right to open /dev/userfaultfd, or sysctl vm.unprivileged_userfaultfd=1, and \
     that no filter of system calls forbids it, as those of containers may; Tracking::Protect does without it)";

pub(crate) struct Userfault {
    descriptor: OwnedFd,
    /// The mode that maps pages protected; the kernel says EINVAL if it does not know it.
    protected: u64,
}

impl Userfault {
    /// A descriptor of this process.
    /// `protects`: whether pages are mapped protected where the kernel can, as Linux 6.4 and later; without, for tests, as before.
    pub fn new(protects: bool) -> Result<Userfault, HpeError> {
        let flags = libc::O_CLOEXEC | libc::O_NONBLOCK;
        // SAFETY: no pointers.
        let mut raw = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) } as i32;
        if raw < 0 {
            // What is told: a kernel without it, or one that refuses, and not that there is no device either.
            let error = std::io::Error::last_os_error();
            raw = by_device(flags);
            if raw < 0 {
                return Err(HpeError::System { what: FORBIDDEN, error });
            }
        }
        // SAFETY: ours alone.
        let descriptor = unsafe { OwnedFd::from_raw_fd(raw) };
        // Above all modes that there are.
        let unknown = 1 << 63;
        let userfault =
            Userfault { descriptor, protected: if protects { CONTINUE_PROTECTED } else { unknown } };
        let mut api = Api { api: VERSION, features: FEATURES, ioctls: 0 };
        userfault.ask(API, &mut api, "userfaultfd for shared memory (needs Linux 5.19)")?;
        Ok(userfault)
    }

    pub fn raw(&self) -> i32 {
        self.descriptor.as_raw_fd()
    }

    /// One ioctl with its structure.
    fn ask<T>(&self, request: u64, argument: &mut T, what: &'static str) -> Result<(), HpeError> {
        loop {
            // SAFETY: the structure is the request's; callers pair them.
            if unsafe { libc::ioctl(self.raw(), request as _, argument as *mut T) } == 0 {
                return Ok(());
            }
            // The mappings of this process change right now.
            if std::io::Error::last_os_error().raw_os_error() != Some(libc::EAGAIN) {
                return Err(HpeError::system(what));
            }
        }
    }

    pub fn register(&self, start: u64, size: usize) -> Result<(), HpeError> {
        let mut argument = Register { range: Range { start, len: size as u64 }, mode: MODES, ioctls: 0 };
        self.ask(REGISTER, &mut argument, "registering a shared object with userfaultfd")
    }

    pub fn unregister(&self, start: u64, size: usize) {
        let _ = self.ask(UNREGISTER, &mut Range { start, len: size as u64 }, "");
    }

    /// Maps the pages of a block whose bytes have arrived; says what the host may do with them from now on: what it asked for, or more.
    pub fn open(&self, start: u64, len: usize, access: Access) -> Result<Access, HpeError> {
        if access == Access::Read {
            match self.map(start, len, self.protected) {
                Ok(false) => return Ok(Access::Read),
                Ok(true) => return self.protect(start, len, true).map(|()| Access::Read),
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
                Err(error) => return Err(HpeError::System { what: OPENING, error }),
            }
        }
        self.map(start, len, 0).map_err(|error| HpeError::System { what: OPENING, error })?;
        // Pages may remember from before that they were protected.
        self.protect(start, len, false).map(|()| Access::Write)
    }

    /// Maps the pages of a block for bytes that arrive in them: who waits goes on waiting.
    pub fn open_quietly(&self, start: u64, len: usize) -> Result<(), HpeError> {
        let mapped = self.map(start, len, CONTINUE_QUIETLY);
        mapped.map_err(|error| HpeError::System { what: OPENING, error })?;
        self.write_protect(start, len, WRITEPROTECT_QUIETLY)
    }

    /// Maps pages; whether any of them was mapped before, and stays as it was.
    fn map(&self, start: u64, len: usize, mode: u64) -> std::io::Result<bool> {
        let (mut at, end, mut was_mapped) = (start, start + len as u64, false);
        while at < end {
            let mut argument = Continue { range: Range { start: at, len: end - at }, mode, mapped: 0 };
            // SAFETY: the request's structure.
            if unsafe { libc::ioctl(self.raw(), CONTINUE as _, &mut argument as *mut Continue) } == 0 {
                break;
            }
            let error = std::io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EAGAIN) => at += argument.mapped.max(0) as u64,
                Some(libc::EEXIST) => {
                    was_mapped = true;
                    at += crate::segment::PAGE as u64;
                }
                _ => return Err(error),
            }
        }
        Ok(was_mapped)
    }

    /// Protects pages against writing; or lets the host write, and wakes who waits for them.
    pub fn protect(&self, start: u64, len: usize, protected: bool) -> Result<(), HpeError> {
        self.write_protect(start, len, u64::from(protected))
    }

    fn write_protect(&self, start: u64, len: usize, mode: u64) -> Result<(), HpeError> {
        let mut argument = WriteProtect { range: Range { start, len: len as u64 }, mode };
        self.ask(WRITEPROTECT, &mut argument, "protecting pages of a shared object")
    }

    /// Has who waits for these pages try again.
    pub fn wake(&self, start: u64, len: usize) {
        let _ = self.ask(WAKE, &mut Range { start, len: len as u64 }, "");
    }

    /// Reads faults that were reported.
    pub fn read(&self, messages: &mut [Message; 16]) -> usize {
        let size = size_of::<Message>();
        // SAFETY: room for 16 messages, which are plain numbers.
        let got = unsafe { libc::read(self.raw(), messages.as_mut_ptr().cast(), size * messages.len()) };
        usize::try_from(got).unwrap_or(0) / size
    }
}

/// By the device, which who may not make the call may have been given. Negative: not so either.
fn by_device(flags: i32) -> i32 {
    // SAFETY: a path that ends with zero.
    let device = unsafe { libc::open(c"/dev/userfaultfd".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
    if device < 0 {
        return -1;
    }
    // SAFETY: a descriptor that was opened just now; the call takes flags.
    let raw = unsafe { libc::ioctl(device, NEW as _, flags) };
    // SAFETY: the same.
    unsafe { libc::close(device) };
    raw
}

impl Message {
    /// An empty one, to read into.
    pub const NONE: Message = Message { event: 0, reserved: [0; 7], flags: 0, address: 0, thread: 0 };
}

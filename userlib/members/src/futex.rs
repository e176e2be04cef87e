//! Sleeping on words of shared memory.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::{Duration, Instant};

use ggas_clock::Clock;

use nix::errno::Errno;

const FUTEX2_SIZE_U32: u32 = 2;
const FUTEX2_PRIVATE: u32 = 128;
/// Longest sleep where the kernel cannot wait for two words at once (before 5.16).
const SLICE: Duration = Duration::from_millis(5);

/// `struct futex_waitv` of linux/futex.h.
#[repr(C)]
struct Waiter {
    value: u64,
    address: u64,
    flags: u32,
    reserved: u32,
}

/// The half of a word in which small numbers differ.
fn low(word: &AtomicU64) -> *const u32 {
    let address: *const u32 = std::ptr::from_ref(word).cast();
    if cfg!(target_endian = "little") { address } else { address.wrapping_add(1) }
}

/// Sleeps until `shared` is woken or no longer `seen`, `private` likewise, or the deadline. May return early.
pub(crate) fn wait_for_either(shared: (&AtomicU64, u64), private: (&AtomicU32, u32), deadline: Instant) {
    static HAVE_WAITV: OnceLock<bool> = OnceLock::new();
    let left = deadline.saturating_duration_since(Clock::REAL.now());
    if !left.is_zero() && (HAVE_WAITV.get() == Some(&false) || !wait_v(shared, private, left)) {
        let _ = HAVE_WAITV.set(false);
        wait_one(shared, left.min(SLICE));
    }
}

/// `false` if the kernel does not have the call, or a filter forbids it.
fn wait_v(shared: (&AtomicU64, u64), private: (&AtomicU32, u32), left: Duration) -> bool {
    let waiters = [
        Waiter {
            value: shared.1 & u64::from(u32::MAX),
            address: low(shared.0) as u64,
            flags: FUTEX2_SIZE_U32,
            reserved: 0,
        },
        Waiter {
            value: private.1.into(),
            address: private.0.as_ptr() as u64,
            flags: FUTEX2_SIZE_U32 | FUTEX2_PRIVATE,
            reserved: 0,
        },
    ];
    let Ok(now) = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC) else { return false };
    let until = Duration::from(now).saturating_add(left);
    let until = libc::timespec {
        tv_sec: until.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: until.subsec_nanos().into(),
    };
    // SAFETY: two waiters, words that live during the call, an absolute time.
    let done = unsafe {
        libc::syscall(
            libc::SYS_futex_waitv,
            waiters.as_ptr(),
            waiters.len(),
            0,
            &raw const until,
            libc::CLOCK_MONOTONIC,
        )
    };
    done >= 0 || !matches!(Errno::last(), Errno::ENOSYS | Errno::EPERM)
}

fn wait_one(shared: (&AtomicU64, u64), left: Duration) {
    let left = libc::timespec { tv_sec: left.as_secs() as libc::time_t, tv_nsec: left.subsec_nanos().into() };
    // SAFETY: the word lives during the call; the time is relative.
    unsafe {
        libc::syscall(libc::SYS_futex, low(shared.0), libc::FUTEX_WAIT, shared.1 as u32, &raw const left);
    }
}

/// Wakes all who sleep on a shared word, in any process.
pub(crate) fn wake_shared(word: &AtomicU64) {
    // SAFETY: an address only.
    unsafe { libc::syscall(libc::SYS_futex, low(word), libc::FUTEX_WAKE, i32::MAX) };
}

/// Wakes all threads of this process that sleep on a word.
pub(crate) fn wake_private(word: &AtomicU32) {
    // SAFETY: an address only.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, i32::MAX)
    };
}

//! Guest memory whose file is cut short while cards use it.
//!
//! A client can truncate the file behind its memory at any time, and the next access would end the server by SIGBUS, with
//! all guests. Seals do not prevent that: a client may pass a file that takes none. So a handler of the signal puts
//! memory of nobody in the place of the range. The card goes on with that, and no other guest notices.

use std::ffi::{c_int, c_void};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use nix::libc;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, raise, sigaction};
use nix::unistd::{SysconfVar, sysconf};

/// Ranges that can be watched at a time; more than the mappings that Linux grants a process by default.
const SLOTS: usize = 1 << 17;

/// A range that is watched. The handler reads it while others change: an address that faults lies in a range that is
/// mapped, whose slot stays as it is.
struct Slot {
    start: AtomicUsize,
    /// 0: free.
    end: AtomicUsize,
    cut: AtomicBool,
}

static TABLE: [Slot; SLOTS] =
    [const { Slot { start: AtomicUsize::new(0), end: AtomicUsize::new(0), cut: AtomicBool::new(false) } };
        SLOTS];
/// Slots that were ever used: the first ones.
static USED: AtomicUsize = AtomicUsize::new(0);
/// Those of them that are free again.
static FREE: Mutex<Vec<usize>> = Mutex::new(Vec::new());
/// What SIGBUS did before.
static BEFORE: OnceLock<SigAction> = OnceLock::new();

/// A mapping that may be cut short, while the value lives.
pub(crate) struct Watched(usize);

impl Watched {
    /// Watches the pages of `bytes` at `start`, which are one mapping of a file. To be dropped before they are unmapped.
    ///
    /// # Errors
    /// Too many ranges are watched; the system's.
    pub fn new(start: usize, bytes: usize) -> io::Result<Watched> {
        let page = sysconf(SysconfVar::PAGE_SIZE)?.unwrap_or(4096) as usize;
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        if BEFORE.get().is_none() {
            install()?;
        }
        let used = USED.load(Ordering::Relaxed);
        let index = match free.pop() {
            Some(index) => index,
            None if used < SLOTS => used,
            None => {
                return Err(io::Error::new(io::ErrorKind::OutOfMemory, "too many ranges of guest memory"));
            }
        };
        let slot = &TABLE[index];
        slot.cut.store(false, Ordering::Relaxed);
        slot.start.store(start / page * page, Ordering::Relaxed);
        slot.end.store((start + bytes).next_multiple_of(page), Ordering::Release);
        USED.store(used.max(index + 1), Ordering::Release);
        Ok(Watched(index))
    }

    /// Whether the file has been cut short, and a card has noticed.
    pub fn is_cut(&self) -> bool {
        TABLE[self.0].cut.load(Ordering::Relaxed)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        TABLE[self.0].end.store(0, Ordering::Release);
        FREE.lock().unwrap_or_else(PoisonError::into_inner).push(self.0);
    }
}

fn install() -> io::Result<()> {
    let flags = SaFlags::SA_SIGINFO | SaFlags::SA_ONSTACK;
    let action = SigAction::new(SigHandler::SigAction(on_bus_error), flags, SigSet::empty());
    // SAFETY: the handler reads atomics and makes system calls, nothing else.
    let before = unsafe { sigaction(Signal::SIGBUS, &action) }?;
    let _ = BEFORE.set(before);
    Ok(())
}

extern "C" fn on_bus_error(_: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel's, for a signal that has an address or does not use it.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    if code == libc::BUS_ADRERR && replace(address) {
        return;
    }
    // No business of ours: the access is made again, under the handler that was there before.
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    // SAFETY: an action that was in force, or the default.
    let _ = unsafe { sigaction(Signal::SIGBUS, BEFORE.get().unwrap_or(&default)) };
    if code <= 0 {
        // A process sent it: no access comes.
        let _ = raise(Signal::SIGBUS);
    }
}

/// Puts zeroed memory in the place of the range that an address is in; false if it is in none, or that fails. The whole
/// range: page by page, a client could use up the mappings that the process may have.
fn replace(address: usize) -> bool {
    let holds = |slot: &&Slot| {
        let end = slot.end.load(Ordering::Acquire);
        (slot.start.load(Ordering::Relaxed)..end).contains(&address)
    };
    let Some(slot) = TABLE.iter().take(USED.load(Ordering::Acquire)).find(holds) else { return false };
    if slot.cut.swap(true, Ordering::AcqRel) {
        // Another thread is at it; or it has been, and this access is good now.
        return true;
    }
    let (start, end) = (slot.start.load(Ordering::Relaxed), slot.end.load(Ordering::Relaxed));
    let (rights, place) = (libc::PROT_READ | libc::PROT_WRITE, std::ptr::without_provenance_mut(start));
    let flags = libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: the range is one mapping of a guest's memory, which stays mapped while the access that faulted is under
    // way, and of which nobody has references.
    unsafe { libc::mmap(place, end - start, rights, flags, -1, 0) != libc::MAP_FAILED }
}

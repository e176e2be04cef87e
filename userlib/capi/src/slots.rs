//! Redirects calls of the intercepted functions to librma2 in processes whose symbol search order does not have librma2
//! first: librma2 is a dependency of another library, behind the C library, or was loaded by `dlopen`.
//!
//! Every object keeps the addresses of the functions that it calls in slots of its own (GOT entries). Slots that hold the
//! C library's address of such a function are overwritten with the address of librma2's: when librma2 is loaded, and at
//! a later call of librma2 if other libraries were loaded meanwhile. Slots that hold the address of another definition
//! (an allocator's, a sanitizer's) stay as they are, and are counted.
//!
//! The linker option `-z interpose`, which asks the loader to search a library first, is ignored by the GNU loader; a
//! library loaded by `dlopen` never comes first in the search order.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::elf::{self, Found, Kind, Object, Slot};
use crate::hooks::{self, Watched};

const LIBC: &CStr = c"libc.so.6";

/// The search does not lead here, and calls are sent.
static ENABLED: AtomicBool = AtomicBool::new(false);
/// Objects that had been loaded when they were last looked through; 0: they never were.
static LOOKED_AT: AtomicU64 = AtomicU64::new(0);
/// No number of objects: they are to be looked through again.
const AGAIN: u64 = u64::MAX;
/// Some calls that take memory away do not come here.
static MISSING: AtomicBool = AtomicBool::new(false);
/// Some have not until now.
static LATE: AtomicBool = AtomicBool::new(false);

/// What one look found.
#[derive(Default)]
struct Look {
    /// For each that is watched: whether others than the C library have such a function, and what stands for it.
    claimed: [bool; hooks::ALL.len()],
    stub: [Option<usize>; hooks::ALL.len()],
    sent: bool,
    unbound: bool,
    missing: bool,
}

/// When the library is loaded.
pub(crate) fn start() {
    if hooks::in_order() || c_library().is_none() {
        return;
    }
    for watched in hooks::ALL {
        let (behind, first) = (of_c_library(watched), watched.first());
        watched.set_behind(behind);
        if behind != 0 && first != watched.ours() {
            watched.hand_on(behind);
        }
    }
    ENABLED.store(true, Ordering::Release);
    catch_up();
}

/// The C library, if the loader has one.
fn c_library() -> Option<*mut c_void> {
    let mut found = false;
    elf::objects(|info| {
        // SAFETY: the loader's string.
        let name = unsafe { CStr::from_ptr(info.dlpi_name) };
        found |= name.to_bytes().ends_with(LIBC.to_bytes());
        !found
    });
    // SAFETY: a string; nothing is loaded.
    let libc = found.then(|| unsafe { libc::dlopen(LIBC.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) });
    libc.filter(|libc| !libc.is_null())
}

/// The C library's own function; 0: there is none, or no such library.
pub(crate) fn of_c_library(watched: &Watched) -> usize {
    // SAFETY: an open library, and a string.
    c_library().map_or(0, |libc| unsafe { libc::dlsym(libc, watched.name.as_ptr()) } as usize)
}

/// Sends the calls of objects that were loaded since the last time. For the beginning of calls, without locks: whoever
/// loads a library meanwhile may be in a function of ours.
pub(crate) fn catch_up() {
    if !ENABLED.load(Ordering::Acquire) {
        return;
    }
    let loaded = elf::loaded();
    let before = LOOKED_AT.load(Ordering::Acquire);
    if loaded == before {
        return;
    }
    // Takes turns with whoever loads: behind this, the addresses of all objects that were counted are made.
    hooks::ALL[0].first();
    let mut look = Look::default();
    each(|object| look.count(object));
    each(|object| object.slots().for_each(|slot| look.at(&slot)));
    MISSING.store(look.missing, Ordering::Release);
    if before != 0 && look.sent {
        LATE.store(true, Ordering::Release);
    }
    // A first call on its way at that moment may undo it, once.
    LOOKED_AT.store(if look.unbound { AGAIN } else { loaded }, Ordering::Release);
}

fn each(mut visit: impl FnMut(&Object<'_>)) {
    elf::objects(|info| {
        // SAFETY: used in here only.
        if let Some(object) = unsafe { Object::of(info) } {
            visit(&object);
        }
        true
    });
}

/// Whether all calls come here.
pub(crate) fn complete() -> bool {
    ENABLED.load(Ordering::Acquire)
        && !MISSING.load(Ordering::Acquire)
        && LOOKED_AT.load(Ordering::Acquire) == elf::loaded()
}

/// Whether memory may have gone away unseen since the last time that this was asked.
pub(crate) fn missed() -> bool {
    ENABLED.load(Ordering::Acquire)
        && (LATE.swap(false, Ordering::AcqRel) || LOOKED_AT.load(Ordering::Acquire) != elf::loaded())
}

impl Look {
    /// Which functions the object has itself. The loader's own are for its own use.
    fn count(&mut self, object: &Object<'_>) {
        if object.is_loader() {
            return;
        }
        for (i, watched) in hooks::ALL.iter().enumerate() {
            match object.find(watched.name) {
                Some(Found::Own(own)) => self.claimed[i] |= own != watched.ours() && own != watched.behind(),
                Some(Found::Stub(stub)) => self.stub[i] = Some(stub),
                None => {}
            }
        }
    }

    fn at(&mut self, slot: &Slot<'_>) {
        let Some(i) = hooks::ALL.iter().position(|watched| watched.name == slot.name) else { return };
        let (watched, claimed) = (hooks::ALL[i], self.claimed[i]);
        let (value, unbound) = (slot.value(), slot.is_unbound());
        if value == watched.ours() || Some(value) == self.stub[i] || slot.is_absent() {
            return;
        }
        // What is not looked up yet leads to the C library where nobody else has such a function.
        let sent = value != 0 && (value == watched.behind() || unbound && !claimed);
        if sent && slot.set(watched.ours()) {
            self.sent = true;
            self.unbound |= unbound;
        } else if slot.kind != Kind::Data && hooks::takes_memory(watched) {
            self.missing = true;
        }
    }
}

//! The thread that serves faults where the thread that faulted cannot: those that `userfaultfd` reports, and those of objects whose
//! device cannot be called in a signal handler.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use ggas_clock::Clock;

use super::object::{Keeping, Served};
use super::table;
use super::track::Track;
use super::userfault::{Message, Userfault};
use crate::error::HpeError;
use crate::fork;
use crate::worker::Worker;

/// A pipe's ends.
pub(crate) fn pipe() -> Result<(OwnedFd, OwnedFd), HpeError> {
    let mut ends = [0; 2];
    // SAFETY: room for two descriptors. Not blocking: bytes only wake.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) } != 0 {
        return Err(HpeError::system("making a pipe for faults"));
    }
    // SAFETY: both are ours alone.
    unsafe { Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))) }
}

/// Faults that wait to be taken up, at most; who finds no place asks again.
const PLACES: usize = 64;
/// How long the server looks for the next fault before it sleeps: a host that goes through an object faults at each block, and waking a
/// thread takes longer than the rest of serving it.
const LOOKS: Duration = Duration::from_micros(50);
/// How much of that it does not leave its core.
const SPINS: Duration = Duration::from_micros(10);

/// Where handlers leave faults that they may not serve themselves.
pub(crate) struct Desk {
    /// 0, or the address, whose lowest bit says whether it is written.
    places: [AtomicU64; PLACES],
    /// Whether the server sleeps, so that it has to be woken.
    sleeps: AtomicBool,
    bell: OwnedFd,
}

impl Desk {
    pub fn new(bell: OwnedFd) -> Desk {
        Desk { places: [const { AtomicU64::new(0) }; PLACES], sleeps: AtomicBool::new(false), bell }
    }

    /// Hands a fault over. Safe in a signal handler; who asks looks at the object for the answer, and asks again.
    pub fn ask(&self, address: u64, writes: bool) {
        let request = address & !1 | u64::from(writes);
        let put = |place: &AtomicU64| match place.compare_exchange(0, request, SeqCst, SeqCst) {
            Ok(_) => true,
            Err(other) => other == request,
        };
        self.places.iter().any(put);
        // The server says that it sleeps and then looks: one of both sees the other.
        if self.sleeps.swap(false, SeqCst) {
            // SAFETY: a byte of ours.
            unsafe { libc::syscall(libc::SYS_write, self.bell.as_raw_fd(), [0u8].as_ptr(), 1) };
        }
    }

    /// Takes a fault up.
    fn take(&self) -> Option<(u64, bool)> {
        let taken = |place: &AtomicU64| match place.load(SeqCst) {
            0 => None,
            _ => Some(place.swap(0, SeqCst)).filter(|request| *request != 0),
        };
        self.places.iter().find_map(taken).map(|request| (request & !1, request & 1 != 0))
    }

    /// Whether the server may sleep: nobody asks; whoever does from now on wakes it.
    fn closes(&self) -> bool {
        self.sleeps.store(true, SeqCst);
        let nobody = self.places.iter().all(|place| place.load(SeqCst) == 0);
        if !nobody {
            self.sleeps.store(false, SeqCst);
        }
        nobody
    }
}

/// The running thread.
pub(crate) struct Server {
    stop: OwnedFd,
    thread: Option<Worker>,
    generation: u32,
}

impl Server {
    pub fn start(rings: OwnedFd, keeping: Arc<Keeping>) -> Result<Server, HpeError> {
        let (stopped, stop) = pipe()?;
        // Without signals: a handler of the program that it ran, and that touched an object, would wait for this very thread.
        let thread = Worker::spawn("hpe-faults", move || run(&rings, &stopped, &keeping))
            .map_err(|error| HpeError::System { what: "starting a thread for faults", error })?;
        Ok(Server { stop, thread: Some(thread), generation: fork::watch() })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if fork::check(self.generation).is_err() {
            return;
        }
        // SAFETY: a byte of ours.
        unsafe { libc::syscall(libc::SYS_write, self.stop.as_raw_fd(), [0u8].as_ptr(), 1) };
        drop(self.thread.take());
    }
}

fn run(rings: &OwnedFd, stopped: &OwnedFd, keeping: &Keeping) {
    let userfault = match &keeping.track {
        Track::Userfault(userfault) => Some(userfault),
        Track::Protect => None,
    };
    // Faults that a kernel or another thread keeps waiting.
    let mut later: Vec<(u64, bool)> = Vec::new();
    let mut last = Clock::REAL.now();
    loop {
        let mut served = false;
        while let Some((address, writes)) = keeping.desk.take() {
            served = true;
            // Handlers look after what has to wait.
            if let Some(object) = table::find(address) {
                let _ = object.serve((address - object.start) as usize, writes, false);
            }
        }
        if let Some(userfault) = userfault {
            let mut messages = [Message::NONE; 16];
            let got = userfault.read(&mut messages);
            served |= got > 0;
            let waits = |&(address, writes): &(u64, bool)| !is_answered(address, writes, userfault);
            later.retain(waits);
            let before = later.len();
            later.extend(messages[..got].iter().filter_map(Message::fault).filter(waits));
            keeping.counters.waited.fetch_add((later.len() - before) as u64, Relaxed);
        }
        if served {
            last = Clock::REAL.now();
            continue;
        }
        match Clock::REAL.since(last) {
            idle if idle < SPINS => Clock::REAL.spin(),
            idle if idle < LOOKS => Clock::REAL.yield_now(),
            _ => {
                if keeping.desk.closes() && sleep(rings, stopped, userfault, later.is_empty()) {
                    return;
                }
                keeping.desk.sleeps.store(false, SeqCst);
            }
        }
    }
}

/// Sleeps until there may be something to do: for ever, or, where something waits, for a millisecond. True once the server is to end.
fn sleep(rings: &OwnedFd, stopped: &OwnedFd, userfault: Option<&Userfault>, for_ever: bool) -> bool {
    let look = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let reported = userfault.map_or(-1, Userfault::raw);
    let mut ends = [look(stopped.as_raw_fd()), look(rings.as_raw_fd()), look(reported)];
    // SAFETY: three structures.
    unsafe { libc::poll(ends.as_mut_ptr(), 3, if for_ever { -1 } else { 1 }) };
    if ends[1].revents != 0 {
        let mut bytes = [0u8; PLACES];
        // SAFETY: room for so many bytes.
        unsafe { libc::read(rings.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len()) };
    }
    ends[0].revents != 0
}

/// Serves a fault that the kernel reported; false if it has to be tried again.
fn is_answered(address: u64, writes: bool, userfault: &Userfault) -> bool {
    let Some(object) = table::find(address) else { return true };
    let offset = (address - object.start) as usize;
    match object.serve(offset, writes, false) {
        Ok(Served::Later) => false,
        // Opened pages woke their waiters already, except those who came behind.
        Ok(Served::Yes) => {
            userfault.wake(address & !(crate::segment::PAGE as u64 - 1), crate::segment::PAGE);
            true
        }
        // Nobody can give the bytes: the kernel ends who asked, once the range is no longer looked at.
        Err(_) => {
            object.keeping.track.end(object.start, object.size);
            let _ = object.keeping.track.shut(object.start, object.size);
            // SAFETY: pages of this object's user mapping.
            unsafe { libc::mprotect(object.start as *mut _, object.size, libc::PROT_NONE) };
            true
        }
    }
}

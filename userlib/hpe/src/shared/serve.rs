//! The thread that serves faults where the thread that faulted cannot: those that `userfaultfd` reports, and those of objects whose
//! device cannot be called in a signal handler.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::thread::JoinHandle;

use super::object::{Keeping, Served};
use super::table;
use super::track::Track;
use super::userfault::Message;
use crate::error::HpeError;
use crate::fork;

/// A fault, as a handler writes it into the pipe: short enough to be whole.
#[repr(C)]
#[derive(Clone, Copy)]
struct Request {
    address: u64,
    writes: u64,
}

/// A pipe's ends.
pub(crate) fn pipe() -> Result<(OwnedFd, OwnedFd), HpeError> {
    let mut ends = [0; 2];
    // SAFETY: room for two descriptors. Not blocking: a handler whose request finds no room tries again.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) } != 0 {
        return Err(HpeError::system("making a pipe for faults"));
    }
    // SAFETY: both are ours alone.
    unsafe { Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))) }
}

/// Hands a fault over. Safe in a signal handler; who asks looks at the object for the answer, and asks again.
pub(crate) fn ask(server: RawFd, address: u64, writes: bool) {
    let request = Request { address, writes: u64::from(writes) };
    let pointer = (&raw const request).cast::<libc::c_void>();
    // SAFETY: the structure's bytes.
    unsafe { libc::syscall(libc::SYS_write, server, pointer, size_of::<Request>()) };
}

/// The running thread.
pub(crate) struct Server {
    stop: OwnedFd,
    thread: Option<JoinHandle<()>>,
    generation: u32,
}

impl Server {
    pub fn start(requests: OwnedFd, keeping: Arc<Keeping>) -> Result<Server, HpeError> {
        let (stopped, stop) = pipe()?;
        let thread = std::thread::Builder::new()
            .name("hpe-faults".into())
            .spawn(move || run(&requests, &stopped, &keeping))
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
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(requests: &OwnedFd, stopped: &OwnedFd, keeping: &Keeping) {
    let userfault = match &keeping.track {
        Track::Userfault(userfault) => Some(userfault),
        Track::Protect => None,
    };
    let reported = userfault.map_or(-1, |userfault| userfault.raw());
    // Faults that a kernel or another thread keeps waiting.
    let mut later: Vec<(u64, bool)> = Vec::new();
    loop {
        let look = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut ends = [look(stopped.as_raw_fd()), look(requests.as_raw_fd()), look(reported)];
        let timeout = if later.is_empty() { -1 } else { 1 };
        // SAFETY: three structures.
        unsafe { libc::poll(ends.as_mut_ptr(), 3, timeout) };
        if ends[0].revents != 0 {
            return;
        }
        let mut messages = [Message::NONE; 16];
        if let Some(userfault) = userfault.filter(|_| ends[2].revents != 0) {
            let got = userfault.read(&mut messages);
            later.extend(messages[..got].iter().filter_map(Message::fault));
        }
        if ends[1].revents != 0 {
            read_requests(requests.as_raw_fd());
        }
        later.retain(|&(address, writes)| !is_answered(address, writes, userfault));
    }
}

/// Serves what handlers asked for; they look after what has to wait.
fn read_requests(fd: RawFd) {
    let mut requests = [Request { address: 0, writes: 0 }; 16];
    // SAFETY: room for 16 requests, which are plain numbers.
    let got = unsafe { libc::read(fd, requests.as_mut_ptr().cast(), size_of_val(&requests)) };
    for request in &requests[..usize::try_from(got).unwrap_or(0) / size_of::<Request>()] {
        if let Some(object) = table::find(request.address) {
            object.serve((request.address - object.start) as usize, request.writes != 0, false);
        }
    }
}

/// Serves a fault that the kernel reported; false if it has to be tried again.
fn is_answered(address: u64, writes: bool, userfault: Option<&super::userfault::Userfault>) -> bool {
    let Some(object) = table::find(address) else { return true };
    let offset = (address - object.start) as usize;
    match object.serve(offset, writes, false) {
        Served::Later => {
            object.keeping.counters.waited.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            false
        }
        // Opened pages woke their waiters already, except those who came behind.
        Served::Yes => {
            if let Some(userfault) = userfault {
                userfault.wake(address & !(crate::segment::PAGE as u64 - 1), crate::segment::PAGE);
            }
            true
        }
        // Nobody can give the bytes: the kernel ends who asked, once the range is no longer looked at.
        Served::No => {
            object.keeping.track.end(object.start, object.size);
            let _ = object.keeping.track.shut(object.start, object.size);
            // SAFETY: pages of this object's user mapping.
            unsafe { libc::mprotect(object.start as *mut _, object.size, libc::PROT_NONE) };
            true
        }
    }
}

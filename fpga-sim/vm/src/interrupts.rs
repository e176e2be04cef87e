//! Interrupt lines: an event for each vector, set by the virtual machine.

use std::fs::{File, read_link};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// The events of a device's vectors.
pub struct Interrupts {
    events: Mutex<Vec<Option<Arc<File>>>>,
}

impl Interrupts {
    /// Vectors that nobody listens to.
    pub fn new(vectors: u32) -> Interrupts {
        Interrupts { events: Mutex::new((0..vectors).map(|_| None).collect()) }
    }

    /// Gives vectors from `first` on their events; those of `count` without one are silent from now on. Events do not
    /// block from now on.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] where a file is no eventfd; all vectors stay as they are.
    pub fn set(&self, first: u32, count: u32, events: Vec<File>) -> io::Result<()> {
        events.iter().try_for_each(make_ready)?;
        let mut events = events.into_iter().map(Arc::new);
        let mut vectors = self.lock();
        for vector in vectors.iter_mut().skip(first as usize).take(count as usize) {
            *vector = events.next();
        }
        Ok(())
    }

    /// Makes all vectors silent.
    pub fn clear(&self) {
        self.lock().iter_mut().for_each(|vector| *vector = None);
    }

    /// Raises a vector; false where nobody listens, or the event is full of interrupts that nobody took.
    pub fn raise(&self, vector: u32) -> bool {
        let event = self.lock().get(vector as usize).cloned().flatten();
        event.is_some_and(|event| has_room(&event) && (&*event).write(&1u64.to_ne_bytes()).is_ok())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Option<Arc<File>>>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// That a file is an eventfd, and does not block: a card's thread writes to it, which other guests' cards need too.
fn make_ready(file: &File) -> io::Result<()> {
    let name = read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    if name.as_os_str() != "anon_inode:[eventfd]" {
        let why = format!("an interrupt's file is no eventfd ({})", name.display());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let flags = OFlag::from_bits_retain(fcntl(file, FcntlArg::F_GETFL)?);
    fcntl(file, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(())
}

/// Whether an interrupt can be written. Asked each time: the client can make its file block again.
fn has_room(event: &File) -> bool {
    let mut fds = [PollFd::new(event.as_fd(), PollFlags::POLLOUT)];
    poll(&mut fds, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
}

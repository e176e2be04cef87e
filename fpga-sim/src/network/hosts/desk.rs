//! Where cards ask for bytes of other hosts, and hear that they are there, without the core's lock.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ggas_wire::Place;

use super::landing::{Ground, LANDS};
use super::seen::Seen;
use crate::memory::{Far, FarSource, Foreign, TAIL, TicketState};
use crate::packet::Payload;

/// What a card wants to be read into memory of this process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    /// The number of what a peer let this process read.
    pub grant: u64,
    pub read: u64,
    pub offset: usize,
    pub to: u64,
    pub place: Place,
    pub len: usize,
}

impl Asked {
    /// So many bytes of it are under way.
    pub fn pass(&mut self, len: usize) {
        self.offset += len;
        self.to += len as u64;
        self.len -= len;
    }
}

pub(super) struct Desk {
    seen: Arc<Seen>,
    /// The wire reads to GPU memory.
    gpus: bool,
    /// The core has something to do here, or waits for the wire.
    busy: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    reads: u64,
    asked: Vec<Asked>,
    under_way: HashMap<u64, Read>,
    /// Grants that nobody needs any more.
    released: Vec<u64>,
    /// Nobody serves here any more.
    closed: bool,
}

struct Read {
    state: TicketState,
    /// Where a fetch goes; here until the wire is done with it.
    buffer: Option<Vec<u8>>,
}

impl Desk {
    pub fn new(seen: &Arc<Seen>, gpus: bool) -> Arc<Desk> {
        Arc::new(Desk { seen: seen.clone(), gpus, busy: AtomicBool::new(false), state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the wire has to be moved on, whatever else there is to do.
    #[inline]
    pub fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Acquire)
    }

    /// Whether a card asked for something that the core has not seen.
    #[cfg(test)]
    pub fn is_called(&self) -> bool {
        let state = self.state();
        !(state.asked.is_empty() && state.released.is_empty())
    }

    /// Reads that are under way, or whose end nobody has asked for.
    #[cfg(test)]
    pub fn kept(&self) -> usize {
        self.state().under_way.len()
    }

    /// All is done, as far as the core knows.
    pub fn rest(&self) {
        let state = self.state();
        let rests = state.asked.is_empty() && state.released.is_empty();
        self.busy.store(!rests, Ordering::Release);
    }

    /// What is asked for from now on fails.
    pub fn close(&self) {
        self.state().closed = true;
    }

    /// A peer has to hear that something of its was read. The news wait for the next packet, or a few asks: to ask the wire at once would
    /// delay the answer.
    pub fn owe(&self) {
        self.busy.store(true, Ordering::Release);
    }

    fn call(&self) {
        self.busy.store(true, Ordering::Release);
        self.seen.asks.need();
    }

    /// What was asked for, and which grants were released, since the last call.
    pub fn take(&self) -> (Vec<Asked>, Vec<u64>) {
        let state = &mut *self.state();
        (std::mem::take(&mut state.asked), std::mem::take(&mut state.released))
    }

    /// A read is over: the wire touches its memory no more.
    pub fn end(&self, read: u64, done: bool) {
        if let Some(read) = self.state().under_way.get_mut(&read) {
            read.state = if done { TicketState::Done } else { TicketState::Failed };
        }
    }

    fn ask(&self, grant: u64, offset: usize, len: usize, to: Result<(u64, Place), Vec<u8>>) -> u64 {
        let state = &mut *self.state();
        state.reads += 1;
        let read = state.reads;
        let ((to, place), buffer) = match to {
            Ok(to) => (to, None),
            Err(mut buffer) => ((buffer.as_mut_ptr() as u64, Place::Host), Some(buffer)),
        };
        let begins = if state.closed { TicketState::Failed } else { TicketState::Pending };
        state.under_way.insert(read, Read { state: begins, buffer });
        if !state.closed {
            state.asked.push(Asked { grant, read, offset, to, place, len });
            self.call();
        }
        read
    }

    /// A payload that a peer lets this process read.
    pub fn payload(self: &Arc<Desk>, grant: u64, len: u32, tail: [u8; TAIL]) -> Payload {
        let source = Arc::new(Granted { desk: self.clone(), grant });
        Payload::Far(Box::new(Far::new(source, len, tail)))
    }
}

impl Desk {
    /// A payload of `len` bytes, at most those of a slot, that lies in one.
    pub fn landed(self: &Arc<Desk>, grant: u64, ground: &Arc<Ground>, slot: u32, len: u32) -> Payload {
        let keep =
            Arc::new(Landed { _granted: Granted { desk: self.clone(), grant }, _ground: ground.clone() });
        let len = len.min(LANDS) as usize;
        // SAFETY: inside of the ground, which `keep` keeps.
        Payload::Foreign(unsafe { Foreign::new(ground.payload(slot), len, keep) })
    }
}

/// What lies in a slot.
struct Landed {
    _granted: Granted,
    _ground: Arc<Ground>,
}

/// Its peer hears when this is dropped.
struct Granted {
    desk: Arc<Desk>,
    grant: u64,
}

impl FarSource for Granted {
    unsafe fn read(&self, offset: usize, to: u64, len: usize, device: bool) -> u64 {
        let place = if device { Place::Gpu } else { Place::Host };
        self.desk.ask(self.grant, offset, len, Ok((to, place)))
    }

    fn reaches_devices(&self) -> bool {
        self.desk.gpus
    }

    fn state(&self, read: u64) -> TicketState {
        let state = &mut *self.desk.state();
        let found = state.under_way.get(&read).map_or(TicketState::Failed, |read| read.state);
        if found != TicketState::Pending {
            state.under_way.remove(&read);
        }
        found
    }

    fn fetch(&self, len: usize) -> u64 {
        let mut buffer = vec![0; len + TAIL];
        buffer.truncate(len);
        self.desk.ask(self.grant, 0, len, Err(buffer))
    }

    fn fetched(&self, read: u64) -> Option<Result<Vec<u8>, ()>> {
        let state = &mut *self.desk.state();
        if state.under_way.get(&read).is_some_and(|read| read.state == TicketState::Pending) {
            return None;
        }
        let read = state.under_way.remove(&read).filter(|read| read.state == TicketState::Done);
        Some(read.and_then(|read| read.buffer).ok_or(()))
    }
}

impl Drop for Granted {
    fn drop(&mut self) {
        self.desk.state().released.push(self.grant);
        self.desk.owe();
    }
}

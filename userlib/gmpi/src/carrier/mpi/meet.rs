//! Calls of the library that wait, and take no time limit: those that wait for all members are made only once all have come.

use std::time::Duration;

use ggas_clock::{Backoff, Clock};

use super::super::{Carrier, Comm, Operation, Place, Token, Win};
use super::{Mpi, class, say_why};
use crate::{Class, GmpiError};

impl Mpi {
    /// How long calls of the host wait for other processes, by which clock.
    pub fn bound(self, timeout: Duration, clock: Clock) -> Mpi {
        Mpi { timeout, clock, ..self }
    }

    /// Waits until all members of a communicator are here. In time not all were: the meeting goes on, and the next call of this kind joins it.
    pub(super) fn meet(&mut self, what: &'static str, comm: Comm) -> Result<(), GmpiError> {
        let token = match self.meetings.remove(&comm) {
            Some(token) => token,
            None => self.start(&Operation::Barrier { comm }).map_err(|class| self.failed(what, class))?,
        };
        let clock = self.clock.clone();
        let mut wait = Backoff::new(&clock, self.timeout);
        loop {
            if let Some(ended) = self.test(token) {
                return ended.map(drop).map_err(|class| self.failed(what, class));
            }
            if let Err(waited) = wait.pause() {
                self.meetings.insert(comm, token);
                return Err(GmpiError::Timeout { what, waited });
            }
        }
    }

    /// Waits for what was put and fetched: it needs nothing of the target's process, as the standard has it; a library that does hangs here.
    pub(super) fn flush(&mut self, rank: Option<u32>, win: Win) -> Result<Token, Class> {
        self.windows.get(win).and_then(Option::as_ref).ok_or(Class::WIN)?;
        // SAFETY: the window is one. The call waits for what was put, which needs nothing of this process.
        let mut ended = class(unsafe { (self.shim.flush)(win as i32, rank.map_or(-1, |rank| rank as i32)) });
        let waits = |of: &(Win, u32, Token)| of.0 == win && rank.is_none_or(|rank| of.1 == rank);
        let (over, others) = self.one_sided.drain(..).partition(waits);
        self.one_sided = others;
        let over: Vec<(Win, u32, Token)> = over;
        for (.., token) in over {
            // A flush has ended them; copies go where they belong as the library's requests are looked at.
            while self.started.contains_key(&token) {
                let one = self.test(token).map_or(Ok(()), |one| one.map(drop));
                ended = ended.and(one);
            }
        }
        if let Err(class) = ended {
            say_why(class);
        }
        self.next_flush += 1;
        self.flushed.insert(self.next_flush, ended);
        Ok(self.next_flush)
    }

    /// Forgets all that the library may be asked about: behind its end it may not, and messages that were given up, or calls of kernels that
    /// were ended in them, may still be under way.
    pub(super) fn let_go(&mut self) {
        for _ in 0..self.forgotten.len() {
            self.reap();
        }
        self.forgotten.clear();
        self.one_sided.clear();
        // The library may go on with their copies.
        std::mem::forget(std::mem::take(&mut self.started));
        self.comms.clear();
        self.windows.clear();
    }

    /// Learns rank and size of a communicator of the shim.
    pub(super) fn note_comm(&mut self, comm: usize) -> Result<(), Class> {
        let (mut rank, mut size) = (0, 0);
        // SAFETY: the shim checks the number, and the places are ours.
        class(unsafe { (self.shim.place)(comm as i32, &mut rank, &mut size) })?;
        self.comms.resize(self.comms.len().max(comm + 1), None);
        self.comms[comm] = Some(Place { rank: rank as u32, size: size as u32 });
        Ok(())
    }
}

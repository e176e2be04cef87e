//! What kernels left that have ended.

use super::{Daemon, ERROR, Outcome, Waiting};
use crate::{Class, GmpiError, layout};

impl Daemon {
    /// After kernels have ended: what they left open is given up, and told.
    ///
    /// # Errors
    /// [`GmpiError::OpenRequests`].
    pub fn settle(&mut self) -> Result<(), GmpiError> {
        let (mut calls, mut first_call) = (0, None);
        for port in 0..self.ports.len() {
            let ended = self.end_calls(port)?;
            first_call = first_call.or((ended > 0).then_some(("call", port as u32)));
            calls += ended;
        }
        let (requests, first) = self.requests.give_up(&mut *self.carrier);
        match first.or(first_call) {
            Some((what, port)) => Err(GmpiError::OpenRequests { count: requests + calls, what, port }),
            None => Ok(()),
        }
    }

    /// Makes the calls that a kernel wrote and did not wait for: what they begin is open, too. A call in which a kernel was ended is given up,
    /// or it would take what comes for the next one. How many of these there were.
    fn end_calls(&mut self, port: usize) -> Result<usize, GmpiError> {
        let mut ended = 0;
        // Rings have no more; kernels that run nevertheless do not hold this up.
        for _ in 0..=2 * self.config.entries {
            match self.ports[port].waiting.take() {
                None if !self.serve(port)? => break,
                None => {}
                // The next kernel may flush it.
                Some(put) if is_one_sided(&put.0) => {
                    self.ports[port].waiting = Some(put);
                    break;
                }
                Some((waiting, _)) => {
                    let now = self.clock.now();
                    match self.go_on(port, waiting, now) {
                        Outcome::Answer(words) => {
                            let error = Class((words[0] & ERROR) as u32);
                            ended += usize::from([Class::TIMEOUT, Class::NO_MEM].contains(&error));
                            self.ports[port].answer(words)?;
                        }
                        Outcome::Waits(waiting) => self.ports[port].waiting = Some((waiting, now)),
                    }
                }
            }
        }
        Ok(ended)
    }
}

/// A put or get that the carrier has no room for yet.
fn is_one_sided(waiting: &Waiting) -> bool {
    const FUNCTIONS: [u32; 2] = [layout::GMPI_CALL_PUT, layout::GMPI_CALL_GET];
    matches!(waiting, Waiting::Room(call) if FUNCTIONS.contains(&call.function()))
}

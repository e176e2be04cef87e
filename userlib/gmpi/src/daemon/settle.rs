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
    /// or it would take what comes for the next one. How many of these there were, but for waits for requests: those are open, and count themselves.
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
                    let counts = !self.waits_for_open(&waiting);
                    match self.go_on(port, waiting, now) {
                        Outcome::Answer(words) => {
                            let error = Class((words[0] & ERROR) as u32);
                            let is_given_up = [Class::TIMEOUT, Class::NO_MEM].contains(&error);
                            ended += usize::from(counts && is_given_up);
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ggas::device::sim::SimNetwork;
    use ggas::{Node, Processor};

    use super::*;
    use crate::Config;
    use crate::busy::Busy;
    use crate::carrier::own::Own;
    use crate::daemon::requests::handle;
    use crate::layout::{GMPI_CALL_IRECV, GMPI_CALL_RECV, GMPI_CALL_WAIT, GMPI_CALL_WAITALL, GMPI_INT};
    use crate::rings::Rings;

    const WORLD: u64 = 1;

    /// What is told of one process whose kernels were ended behind these calls, by port.
    fn told(ports: &[&[&[u64]]]) -> Result<(), GmpiError> {
        let processor = Processor::cpu();
        let network = SimNetwork::builder().nodes(1).build().expect("a network");
        let node = Node::new(network.device(0).expect("a node"));
        let own = Own::local(&[node]).expect("a carrier").remove(0);
        let config = Config::default();
        let rings = ports.iter().map(|_| Rings::new(&processor, config.placement, config.entries));
        let rings: Vec<Rings> = rings.collect::<Result<_, _>>().expect("memory");
        for (rings, calls) in rings.iter().zip(ports) {
            calls.iter().zip(0..).for_each(|(call, number)| rings.ask(number, call).expect("in the ring"));
        }
        let mut daemon = Daemon::new(Box::new(own), rings, config, Arc::new(Busy::default()));
        let memory = Arc::new(processor.alloc(64).expect("memory"));
        daemon.attached.add(memory.clone(), true).expect("attached");
        daemon.carrier.attach(0, memory).expect("attached");
        while daemon.round().expect("a round") {}
        let told = daemon.settle();
        daemon.settle().expect("told once");
        told
    }

    /// Of one that was not started, in calls of no bytes.
    fn receive(function: u32) -> [u64; 8] {
        [function.into(), 0, 0, GMPI_INT.into(), 0, 9, WORLD, 64]
    }

    fn is_open(told: &Result<(), GmpiError>, expected: (usize, &str, u32)) -> bool {
        matches!(told, Err(GmpiError::OpenRequests { count, what, port }) if (*count, *what, *port) == expected)
    }

    #[test]
    fn a_request_that_a_kernel_was_ended_in_the_wait_for_counts_once() {
        let (begin, wait) = (receive(GMPI_CALL_IRECV), u64::from(GMPI_CALL_WAIT));
        let one = told(&[&[&begin, &[wait, handle(0, 0)]]]);
        assert!(is_open(&one, (1, "receive", 0)), "{one:?}");
        let all = [GMPI_CALL_WAITALL.into(), 2, handle(0, 0), handle(0, 1)];
        let two = told(&[&[&begin, &begin, &all]]);
        assert!(is_open(&two, (2, "receive", 0)), "{two:?}");
        // By two blocks, each in a wait for it.
        let both = told(&[&[&begin, &[wait, handle(0, 0)]], &[&[wait, handle(0, 0)]]]);
        assert!(is_open(&both, (1, "receive", 0)), "{both:?}");
    }

    #[test]
    fn a_call_that_a_kernel_was_ended_in_counts() {
        let call = told(&[&[], &[&receive(GMPI_CALL_RECV)[..7]]]);
        assert!(is_open(&call, (1, "call", 1)), "{call:?}");
        // Its request was never begun.
        let wait = told(&[&[&[GMPI_CALL_WAIT.into(), handle(1, 0)]], &[]]);
        assert!(is_open(&wait, (1, "call", 0)), "{wait:?}");
        told(&[&[]]).expect("nothing is open");
    }
}

//! Reliable connections: state machines without threads, clocks or sockets. They are given packets, work and the time, and give
//! packets and completions (IBTA 9.7, 10.3).

mod acknowledge;
mod duplicates;
mod local;
mod queue_pair;
mod requester;
mod responder;
mod response;

pub use queue_pair::{Attributes, Connection, Mtu, QpError, QueuePair, Reliability, State};

use extoll_sim::memory::Memory;

use crate::regions::{Domain, Regions};
use crate::work::Completion;

/// Time: nanoseconds since any moment.
pub type Nanos = u64;

/// What a queue pair reaches while it works.
pub(crate) struct Reach<'a> {
    pub memory: &'a dyn Memory,
    pub regions: &'a Regions,
    pub domain: Domain,
    /// Where completions go.
    pub done: &'a mut Vec<Completion>,
    /// A payload that was sent, whose memory serves the next one.
    pub spare: &'a mut Vec<u8>,
}

impl Reach<'_> {
    /// Zeroes for a packet's payload.
    pub fn payload(&mut self, len: usize) -> Vec<u8> {
        let mut payload = std::mem::take(self.spare);
        payload.clear();
        payload.resize(len, 0);
        payload
    }
}

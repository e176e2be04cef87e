//! The neighbours of a process in a line of processes, each with devices of its own: what crosses between them goes by puts.

use ggas::{Connection, Port, Spec};

use crate::BenchError;
use crate::ends::Place;
use crate::error::Doing;
use crate::payload::{MAX_PUT, Payload};
use crate::setup::Setup;

/// The processes below and above, where there are some.
pub(super) struct Ranks {
    pub rank: usize,
    pub size: usize,
    /// Below, above.
    pub links: [Option<Link>; 2],
}

/// The way to one neighbour. Each step has one of two places at both ends in turn: a neighbour that has sent its step has taken
/// what came in the step before.
pub(super) struct Link {
    port: Port,
    payload: Payload,
    connection: Connection,
    /// Where the neighbour's buffer begins.
    nla: u64,
    bytes: usize,
    timeout: std::time::Duration,
}

impl Ranks {
    /// Connects the processes, for messages of `bytes`.
    pub fn new(setup: &Setup, bytes: usize) -> Result<Ranks, BenchError> {
        let local = setup.local();
        if setup.job().is_none() {
            return Ok(Ranks { rank: 0, size: 1, links: [None, None] });
        }
        let (rank, stride) = (local.start as usize, stride(bytes));
        let end = || {
            let port = setup.open_port(local.start)?;
            let payload = Payload::host(&port, 4 * stride)?;
            Ok::<_, BenchError>((port, payload))
        };
        let ends = [end()?, end()?];
        let place = |(port, payload): &(Port, Payload)| Ok(Place::new(port, payload.nla(0)?));
        let places = ends.iter().map(place).collect::<Result<Vec<_>, BenchError>>()?;
        let places = setup.share(vec![places])?;
        let size = places.len();
        let mut ends = ends.into_iter();
        let mut link = |side: usize| {
            let (port, payload) = ends.next()?;
            // Below, then above.
            let other = if side == 0 { rank.checked_sub(1)? } else { rank + 1 };
            let place = places.get(other)?.get(1 - side)?;
            let connection = port.connect(place.address());
            let timeout = setup.options.timeout;
            Some(Link { port, payload, connection, nla: place.nla, bytes, timeout })
        };
        let links = [link(0), link(1)];
        Ok(Ranks { rank, size, links })
    }
}

fn stride(bytes: usize) -> usize {
    bytes.next_multiple_of(256)
}

/// Puts of a message: offset and length.
fn parts(bytes: usize) -> impl Iterator<Item = (usize, usize)> {
    let most = MAX_PUT as usize;
    (0..bytes).step_by(most).map(move |at| (at, most.min(bytes - at)))
}

impl Link {
    /// Sends the message of a step.
    pub fn send(&self, step: u64, message: &[u8]) -> Result<(), BenchError> {
        debug_assert_eq!(message.len(), self.bytes);
        let turn = (step % 2) as usize;
        let (source, target) = (turn * stride(self.bytes), (2 + turn) * stride(self.bytes));
        self.payload.write(source, message)?;
        for (at, len) in parts(self.bytes) {
            let nla = self.nla + (target + at) as u64;
            let put = self.connection.put(&self.payload.region, source + at, len, nla, Spec::COMPLETER);
            put.doing("posting a put to a neighbour")?;
        }
        Ok(())
    }

    /// Waits for the neighbour's message of a step.
    pub fn receive(&self, step: u64, message: &mut [u8]) -> Result<(), BenchError> {
        for _ in parts(self.bytes) {
            let notification = self.port.wait(self.timeout).doing("waiting for a neighbour")?;
            if !notification.error().is_empty() {
                return Err(BenchError::Refused(format!("{notification:?}")));
            }
        }
        let at = (2 + (step % 2) as usize) * stride(self.bytes);
        self.payload.region.read(at, message).doing("reading what a neighbour sent")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_any_length_go_in_puts_that_are_not_too_long() {
        let most = MAX_PUT as usize;
        assert_eq!(parts(100).collect::<Vec<_>>(), [(0, 100)]);
        assert_eq!(parts(most + 1).collect::<Vec<_>>(), [(0, most), (most, 1)]);
    }
}

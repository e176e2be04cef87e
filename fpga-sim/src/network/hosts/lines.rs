//! Endpoints of a process: one for messages, and for what others read here; one for what it reads there.
//!
//! A library need not end what is under way to a peer that was removed (`tcp;ofi_rxm` of libfabric 1.17 does not): bytes of a process
//! that was taken for lost could come much later. An endpoint that is closed moves nothing any more. So reads have one of
//! their own: when a peer goes of which something is read, it is closed, and what was read of others is read again.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ggas_clock::Clock;
use ggas_wire::{Choice, Endpoint, Event, Key, Peer, Place, Region, Taken, WireError};

use super::complaints::Complaints;
use super::wire::{Piece, Wire, Write};

/// A peer to which no connection can be made for so long lets nothing be read: a firewall may close its port in this direction alone.
const CLOSED: Duration = Duration::from_secs(10);
/// So much of that counts at a time.
const TRY: Duration = Duration::from_millis(500);

/// See the module's description.
pub(super) struct Lines {
    messages: Endpoint,
    /// How the other one is opened, when something is read for the first time.
    opened_by: (Choice, Option<IpAddr>),
    reads: Option<Endpoint>,
    peers: HashMap<u32, Known>,
    last: u32,
    /// Peers for messages that are gone, or have not got one, which nobody knows yet.
    lacking: Vec<Peer>,
    /// Reads that are under way, by a number of ours.
    under_way: HashMap<u64, Read>,
    begun: u64,
    /// Reads to begin again, and those whose peer is gone.
    again: VecDeque<Read>,
    failed: Vec<u64>,
    /// A read waits for a connection.
    connects: bool,
    /// The last poll was of reads alone.
    reads_alone: bool,
    complaints: Arc<Complaints>,
}

/// A peer.
#[derive(Clone, Copy)]
pub(super) struct Line {
    peer: Peer,
    number: u32,
}

struct Known {
    address: Vec<u8>,
    /// Once something is read of it.
    peer: Option<Peer>,
    /// Something was; else how long that is tried, and since when the last time.
    reached: bool,
    tried: Duration,
    last: Option<Instant>,
}

impl Known {
    fn new(address: &[u8]) -> Known {
        Known { address: address.to_vec(), peer: None, reached: false, tried: Duration::ZERO, last: None }
    }

    /// No connection is there now. Whether that goes on for too long: only what passes while this process runs counts.
    fn is_closed(&mut self, now: Instant) -> bool {
        let passed =
            self.last.replace(now).map_or(Duration::ZERO, |last| now.saturating_duration_since(last));
        self.tried += passed.min(TRY);
        !self.reached && self.tried >= CLOSED
    }
}

struct Read {
    of: u32,
    key: Key,
    piece: Piece,
    token: u64,
}

impl Lines {
    /// Opens the one for messages.
    ///
    /// # Errors
    /// [`WireError`].
    pub fn open(
        choice: &Choice,
        host: Option<IpAddr>,
        complaints: &Arc<Complaints>,
    ) -> Result<Lines, WireError> {
        Ok(Lines {
            messages: Endpoint::open_at(choice, host)?,
            opened_by: (choice.clone(), host),
            reads: None,
            peers: HashMap::new(),
            last: 0,
            lacking: Vec::new(),
            under_way: HashMap::new(),
            begun: 0,
            again: VecDeque::new(),
            failed: Vec::new(),
            connects: false,
            reads_alone: false,
            complaints: complaints.clone(),
        })
    }

    /// Where others reach it.
    ///
    /// # Errors
    /// [`WireError`].
    pub fn address(&self) -> Result<Vec<u8>, WireError> {
        self.messages.address()
    }

    /// Begins a read. `Later`: it comes back.
    fn begin(&mut self, read: Read) -> Result<Option<Read>, WireError> {
        let Some(known) = self.peers.get_mut(&read.of) else {
            self.failed.push(read.token);
            return Ok(None);
        };
        let endpoint = match &mut self.reads {
            Some(endpoint) => endpoint,
            closed => closed.insert(Endpoint::open_at(&self.opened_by.0, self.opened_by.1)?),
        };
        let peer = match known.peer {
            Some(peer) => peer,
            None => *known.peer.insert(endpoint.insert(&known.address)?),
        };
        let Piece { offset, to, place, len } = read.piece;
        self.begun += 1;
        // SAFETY: `Wire::fetch` was promised so.
        let taken =
            unsafe { endpoint.fetch(peer, &read.key, offset, (to as *mut u8, len, place), self.begun) }?;
        self.connects = taken == Taken::Later;
        if self.connects && known.is_closed(Clock::REAL.now()) {
            self.connects = false;
            let (ports, s) = (self.opened_by.0.library.ports(), CLOSED.as_secs());
            self.complaints.say(format!(
                "what a peer sent is not read, for there has been no connection to it in {s} s: let firewalls leave its ports open ({ports} \
                 says which ones are used)"
            ));
            self.failed.push(read.token);
            return Ok(None);
        }
        if self.connects {
            return Ok(Some(read));
        }
        known.reached = true;
        self.under_way.insert(self.begun, read);
        Ok(None)
    }

    /// Begins again what was under way when the endpoint was closed.
    fn begin_again(&mut self) {
        while let Some(read) = self.again.pop_front() {
            let token = read.token;
            match self.begin(read) {
                Ok(None) => {}
                Ok(Some(read)) => return self.again.push_front(read),
                Err(error) => {
                    tracing::warn!("a read cannot be begun again: {error}");
                    self.failed.push(token);
                }
            }
        }
    }

    fn is_reading(&self) -> bool {
        self.connects || !(self.under_way.is_empty() && self.again.is_empty() && self.failed.is_empty())
    }

    #[cold]
    fn poll_reads(&mut self, each: &mut impl FnMut(Event<'_>)) -> Result<usize, WireError> {
        self.begin_again();
        let Lines { reads, under_way, failed, .. } = self;
        let mut ended = failed.len();
        if let Some(endpoint) = reads {
            ended += endpoint.poll(|event| match event {
                Event::Done { token } => {
                    let read = under_way.remove(&token);
                    read.into_iter().for_each(|read| each(Event::Done { token: read.token }));
                }
                Event::Failed { token, why } => {
                    let read = under_way.remove(&token);
                    read.into_iter()
                        .for_each(|read| each(Event::Failed { token: read.token, why: why.clone() }));
                }
                // Nobody knows its address.
                other => tracing::debug!("{other:?}"),
            })?;
        }
        let gone = || "its process is gone".to_owned();
        failed.drain(..).for_each(|token| each(Event::Failed { token, why: gone() }));
        Ok(ended)
    }

    /// Nothing is read of a peer any more.
    fn end_reads(&mut self, of: u32) {
        self.connects = false; // who waits for a connection tries again
        let (failed, again) = (&mut self.failed, &mut self.again);
        again.retain(|read| {
            if read.of == of {
                failed.push(read.token);
            }
            read.of != of
        });
        if !self.under_way.values().any(|read| read.of == of) {
            return;
        }
        // From here on nothing is written where its reads went, nor where the others did.
        self.reads = None;
        self.peers.values_mut().for_each(|known| known.peer = None);
        for (_, read) in self.under_way.drain() {
            if read.of == of { failed.push(read.token) } else { again.push_back(read) }
        }
    }
}

impl Wire for Lines {
    type Peer = Line;
    type Grant = Region;

    #[inline]
    fn message_max(&self) -> usize {
        self.messages.message_max()
    }

    fn insert(&mut self, address: &[u8]) -> Result<Line, WireError> {
        let peer = self.messages.insert(address)?;
        self.last += 1;
        self.peers.insert(self.last, Known::new(address));
        Ok(Line { peer, number: self.last })
    }

    fn remove(&mut self, line: Line) -> Result<(), WireError> {
        self.has_failed(line);
        self.end_reads(line.number);
        let known = self.peers.remove(&line.number);
        if let (Some(endpoint), Some(peer)) = (&mut self.reads, known.and_then(|known| known.peer)) {
            endpoint.remove(peer)?;
        }
        self.messages.remove(line.peer)
    }

    fn renew(&mut self, line: Line, address: &[u8]) -> Result<Line, WireError> {
        self.has_failed(line);
        self.messages.remove(line.peer)?;
        Ok(Line { peer: self.messages.insert(address)?, ..line })
    }

    #[inline]
    fn send(&mut self, line: Line, bytes: &[u8]) -> Result<Taken, WireError> {
        self.messages.send(line.peer, bytes)
    }

    #[inline]
    fn room(&mut self) -> Option<&mut [u8]> {
        self.messages.room()
    }

    #[inline]
    fn send_room(&mut self, line: Line, len: usize) -> Result<Taken, WireError> {
        self.messages.send_room(line.peer, len)
    }

    unsafe fn grant(&mut self, address: u64, len: usize, place: Place) -> Result<(Region, Key), WireError> {
        // SAFETY: by this function's contract.
        let region = unsafe { self.messages.grant(address as *const u8, len, place) }?;
        let key = self.messages.key(region)?.clone();
        Ok((region, key))
    }

    fn revoke(&mut self, grant: Region) -> bool {
        match self.messages.unregister(grant) {
            Ok(()) => true,
            Err(WireError::Busy { .. }) => false,
            Err(error) => {
                tracing::warn!("{error}");
                true
            }
        }
    }

    fn reaches_gpus(&self) -> bool {
        self.messages.reaches_gpus()
    }

    fn most(&self) -> usize {
        usize::try_from(self.messages.offer().write_max).unwrap_or(usize::MAX)
    }

    unsafe fn fetch(&mut self, line: Line, key: &Key, piece: Piece, token: u64) -> Result<Taken, WireError> {
        let read = Read { of: line.number, key: key.clone(), piece, token };
        Ok(if self.begin(read)?.is_none() { Taken::Yes } else { Taken::Later })
    }

    fn writes(&self) -> bool {
        self.messages.offer().keeps_order
    }

    unsafe fn open(&mut self, address: u64, len: usize) -> Result<(Region, Key), WireError> {
        // SAFETY: by this function's contract.
        let region = unsafe { self.messages.register(address as *mut u8, len) }?;
        let key = self.messages.key(region)?.clone();
        Ok((region, key))
    }

    unsafe fn write(&mut self, line: Line, write: &Write<'_>) -> Result<Taken, WireError> {
        let Write { key, at, head, from, len, immediate, token } = *write;
        // SAFETY: by this function's contract.
        unsafe {
            self.messages.write_behind(line.peer, key, at, (head, from as *const u8, len), immediate, token)
        }
    }

    fn has_failed(&mut self, line: Line) -> bool {
        let before = self.lacking.len();
        self.lacking.retain(|peer| *peer != line.peer);
        self.lacking.len() < before
    }

    #[inline]
    fn poll(&mut self, mut each: impl FnMut(Event<'_>)) -> Result<usize, WireError> {
        let reads = if self.is_reading() { self.poll_reads(&mut each)? } else { 0 };
        // Cards wait for what was read: they hear of it before the next messages are asked for, which takes a system call.
        self.reads_alone = reads > 0 && !self.reads_alone;
        if self.reads_alone {
            return Ok(reads);
        }
        let Lines { messages, lacking, .. } = self;
        let polled = messages.poll(|event| {
            if let Event::Unsent { peer: Some(peer), .. } | Event::Gone { peer, .. } = event {
                lacking.push(peer);
            }
            each(event);
        });
        Ok(reads + polled?)
    }

    fn arm(&mut self) -> Option<(RawFd, bool)> {
        // Of two descriptors to sleep on, the thread looks now and then while something is read.
        let descriptor = self.messages.descriptor().filter(|_| !self.is_reading())?;
        Some((descriptor, self.messages.arm().unwrap_or(false)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Not because this process stood still.
    #[test]
    fn who_is_not_reached_for_long_is_not_waited_for() {
        let (begin, mut known) = (Instant::now(), Known::new(&[]));
        let hour = Duration::from_secs(3600);
        assert!(!known.is_closed(begin) && !known.is_closed(begin + hour));
        let tries = (1..100).take_while(|number| !known.is_closed(begin + hour + *number * TRY)).count();
        assert_eq!(tries as u32 + 2, CLOSED.as_millis() as u32 / TRY.as_millis() as u32);
        known.reached = true;
        assert!(!known.is_closed(begin + 2 * hour));
    }
}

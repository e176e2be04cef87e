//! The side of a copy that serves it: a thread that gets blocks from others and stores them, and loads blocks and puts them there.
//!
//! While a block is stored, the next one is on its way to the other buffer. It serves one block behind the other, whosever they are: a rank
//! that is stopped in the midst of its copy holds the others up, until the time-out.

use std::sync::{Arc, Weak};
use std::time::Duration;

use ggas_rma::{Kind, Match, Region, Spec, WaitError};

use super::lane::Staging;
use super::names::Said;
use super::words::{Ask, REQUEST, Request, answer, refusal};
use super::{Export, SLOTS, Shared};
use crate::copy::Counters;
use crate::error::{HpeError, Refusal};
use crate::objects::Place;
use crate::runtime::{Inner, Runtime};
use crate::worker::Worker;

/// A wait for requests; whatever ends the runtime ends it.
const LONG: Duration = Duration::from_secs(3600);

/// What serves the other ranks.
pub(crate) struct Station {
    shared: Arc<Shared>,
    runtime: Weak<Inner>,
    staging: Staging,
    /// Buffers that the network uses, and the notification that says that it has done with one: the oldest first, as what says so of two
    /// puts to a rank comes in their order.
    busy: Vec<(usize, Match)>,
    /// Copies for others are not counted as this rank's.
    counters: Counters,
}

/// Where the bytes of a block are at this rank.
enum Spot {
    /// In exported memory.
    Exported(Arc<Export>, usize),
    /// In an object, by way of a buffer.
    Staged(Place, usize),
    /// What is said of an allocation, by way of a buffer.
    Said(Said, usize),
}

/// A block that was begun.
struct Begun {
    rank: u32,
    slot: usize,
    request: Request,
    spot: Spot,
    /// Says that its bytes came, if they do.
    came: Option<Match>,
    /// Its runtime stays until it is done.
    runtime: Arc<Inner>,
}

impl Begun {
    fn buffer(&self) -> Option<usize> {
        match self.spot {
            Spot::Staged(_, which) | Spot::Said(_, which) => Some(which),
            Spot::Exported(..) => None,
        }
    }
}

impl Station {
    pub fn start(shared: Arc<Shared>, runtime: &Arc<Inner>, staging: Staging) -> Result<Worker, HpeError> {
        let (runtime, busy, counters) = (Arc::downgrade(runtime), Vec::new(), Counters::default());
        let station = Station { shared, runtime, staging, busy, counters };
        Worker::spawn("hpe-station", move || station.serve())
            .map_err(|error| HpeError::System { what: "starting a station", error })
    }

    /// Until the port closes.
    fn serve(mut self) {
        let requests = Match::any().kind(Kind::Completer).puts();
        let mut begun: Option<Begun> = None;
        loop {
            let came = match &begun {
                // The next block comes while this one is stored.
                Some(_) => self.shared.port.poll_match(&requests),
                None => match self.shared.port.wait_match(&requests, LONG) {
                    Ok(came) => Some(came),
                    Err(WaitError::Timeout { .. }) => continue,
                    Err(_) => return,
                },
            };
            let mut next = None;
            if let Some(came) = came {
                // There may be no buffer beside its own.
                let holds = begun.as_ref().and_then(Begun::buffer);
                if holds.is_some_and(|which| !self.is_free(1 - which)) {
                    self.end(begun.take());
                }
                next = self.begin(came.word0, begun.as_ref().and_then(Begun::buffer));
            }
            self.end(begun.take());
            begun = next;
        }
    }

    /// Reads the request whose slot is at an address, and has its block come to a buffer that is not in use.
    fn begin(&mut self, nla: u64, in_use: Option<usize>) -> Option<Begun> {
        let first = self.shared.inbox.nla(0).ok()?;
        let place = nla.checked_sub(first)? as usize / REQUEST;
        let (rank, slot) = ((place / SLOTS) as u32, place % SLOTS);
        let mut bytes = [0; REQUEST];
        self.shared.inbox.read(place * REQUEST, &mut bytes).ok()?;
        let begun = match Request::of(&bytes) {
            Some(request) => self.get((rank, slot), request, in_use),
            None => Err(Refusal::Failed(libc::EPROTO)),
        };
        begun.inspect_err(|why| self.answer(rank, slot, Err(*why))).ok()
    }

    fn get(
        &mut self,
        (rank, slot): (u32, usize),
        request: Request,
        in_use: Option<usize>,
    ) -> Result<Begun, Refusal> {
        let runtime = self.runtime.upgrade().ok_or(Refusal::Failed(libc::ENODEV))?;
        let spot = match request.ask {
            Ask::Name => Spot::Said(self.said(&runtime, &request)?, self.buffer(in_use)?),
            _ => self.spot(&runtime, &request, in_use)?,
        };
        let mut begun = Begun { rank, slot, request, spot, came: None, runtime };
        if request.ask != Ask::Store {
            return Ok(begun);
        }
        let peer = self.shared.peer(rank).map_err(|error| refusal(&error))?;
        let (region, at) = self.region(&begun.spot);
        let last = region.nla(at + request.len - 1).map_err(|_| Refusal::AcrossObjects)?;
        let got = peer.connection.get(region, at, request.len, request.nla, Spec::COMPLETER);
        got.map_err(|_| Refusal::Failed(libc::ECONNRESET))?;
        let came = Match::any().kind(Kind::Completer).gets().from(peer.address).ending_at(last);
        begun.came = Some(came);
        if let Some(which) = begun.buffer() {
            self.busy.push((which, came));
        }
        Ok(begun)
    }

    /// Where the bytes of a request are.
    fn spot(
        &mut self,
        runtime: &Arc<Inner>,
        request: &Request,
        in_use: Option<usize>,
    ) -> Result<Spot, Refusal> {
        if request.len == 0 || request.len > self.shared.block {
            return Err(Refusal::Failed(libc::EPROTO));
        }
        if let Some((export, at)) = self.shared.exported(request.address, request.len) {
            return Ok(Spot::Exported(export, at));
        }
        let runtime = Runtime { inner: runtime.clone() };
        match runtime.place(request.address, request.len).map_err(|error| refusal(&error))? {
            // Memory that was not exported is nobody else's, nor is that of other ranks.
            Place::Host(_) | Place::Remote { .. } => Err(Refusal::Unknown),
            place => Ok(Spot::Staged(place, self.buffer(in_use)?)),
        }
    }

    /// What others are told of the allocation that holds the bytes of a request: how they open it, or only how far it goes.
    fn said(&self, runtime: &Arc<Inner>, request: &Request) -> Result<Said, Refusal> {
        let unnamed = |start: u64, len: usize| {
            let mut said = Said::default();
            (said[0], said[1]) = (start, len as u64);
            said
        };
        if let Some((export, _)) = self.shared.exported(request.address, request.len.max(1)) {
            return Ok(unnamed(export.start, export.len));
        }
        let runtime = Runtime { inner: runtime.clone() };
        match runtime.place(request.address, request.len).map_err(|error| refusal(&error))? {
            Place::Host(_) | Place::Remote { .. } => Err(Refusal::Unknown),
            Place::Device { _kept: Some(kept), index, .. } => {
                let (names, gpu) = (&self.shared.names, runtime.inner.contexts[index].device.gpu());
                let named = names.as_ref().zip(gpu).and_then(|(names, gpu)| kept.named(names, gpu));
                Ok(named.map_or_else(
                    || unnamed(kept.start(), kept.len),
                    |named| named.said(kept.start(), kept.len),
                ))
            }
            Place::Spread(spread, _) => Ok(unnamed(spread.start(), spread.stride * spread.parts.len())),
            _ => Ok(unnamed(request.address, request.len)),
        }
    }

    /// A buffer that is free, waiting for it where a rank holds on to each.
    fn buffer(&mut self, in_use: Option<usize>) -> Result<usize, Refusal> {
        let mut others = (0..2).filter(|which| Some(*which) != in_use);
        let first = others.clone().next().unwrap_or_default();
        if let Some(which) = others.find(|which| self.is_free(*which)) {
            return Ok(which);
        }
        while let Some(left) = self.use_of(first) {
            self.wait(&left)?;
            self.left(&left);
        }
        Ok(first)
    }

    /// What says that the network has done with a buffer, if it has not.
    fn use_of(&self, which: usize) -> Option<Match> {
        self.busy.iter().find(|(busy, _)| *busy == which).map(|(_, left)| *left)
    }

    fn left(&mut self, left: &Match) {
        if let Some(oldest) = self.busy.iter().position(|(_, other)| other == left) {
            self.busy.remove(oldest);
        }
    }

    /// Whether the network has done with a buffer.
    fn is_free(&mut self, which: usize) -> bool {
        while let Some(left) = self.use_of(which) {
            if self.shared.port.poll_match(&left).is_none() {
                return false;
            }
            self.left(&left);
        }
        true
    }

    /// Ok, too, where the other side is gone: nothing comes from there any more.
    fn wait(&self, wanted: &Match) -> Result<bool, Refusal> {
        match self.shared.port.wait_match(wanted, self.shared.timeout) {
            Ok(came) => Ok(came.error().is_empty()),
            Err(WaitError::PeerLost { .. }) => Ok(false),
            Err(WaitError::Timeout { .. }) => Err(Refusal::Failed(libc::ETIMEDOUT)),
            Err(_) => Err(Refusal::Failed(libc::ENODEV)),
        }
    }

    fn region<'a>(&'a self, spot: &'a Spot) -> (&'a Region, usize) {
        match spot {
            Spot::Exported(export, at) => (&export.region, *at),
            Spot::Staged(_, which) | Spot::Said(_, which) => (&self.staging.regions[*which], 0),
        }
    }

    fn end(&mut self, begun: Option<Begun>) {
        let Some(begun) = begun else { return };
        let done = match begun.request.ask {
            Ask::Store => self.store(&begun),
            Ask::Load | Ask::Name => self.load(&begun),
        };
        self.answer(begun.rank, begun.slot, done);
    }

    fn store(&mut self, begun: &Begun) -> Result<(), Refusal> {
        let Some(came) = begun.came else { return Err(Refusal::Failed(libc::EPROTO)) };
        let has_come = self.wait(&came)?;
        self.left(&came);
        match &begun.spot {
            _ if !has_come => Err(Refusal::Failed(libc::EIO)),
            Spot::Exported(..) | Spot::Said(..) => Ok(()),
            Spot::Staged(place, which) => {
                let buffer = Place::Host(self.staging.address(*which));
                self.copy(&begun.runtime, place, &buffer, begun.request.len)
            }
        }
    }

    fn load(&mut self, begun: &Begun) -> Result<(), Refusal> {
        let Request { mut len, nla, .. } = begun.request;
        let peer = self.shared.peer(begun.rank).map_err(|error| refusal(&error))?;
        match &begun.spot {
            Spot::Exported(..) => {}
            Spot::Staged(place, which) => {
                let buffer = Place::Host(self.staging.address(*which));
                self.copy(&begun.runtime, &buffer, place, len)?;
            }
            Spot::Said(said, which) => {
                len = size_of_val(said);
                let words = self.staging.address(*which) as *mut u64;
                // SAFETY: a buffer of this station, of a page at least, which nobody uses.
                unsafe { words.copy_from_nonoverlapping(said.as_ptr(), said.len()) };
            }
        }
        let (region, at) = self.region(&begun.spot);
        let buffer = begun.buffer();
        let spec = if buffer.is_some() { Spec::REQUESTER } else { Spec::empty() };
        let put = peer.connection.put(region, at, len, nla, spec);
        put.map_err(|_| Refusal::Failed(libc::ECONNRESET))?;
        if let Some(which) = buffer {
            let left = Match::any().kind(Kind::Requester).puts().from(peer.address);
            self.busy.push((which, left));
        }
        Ok(())
    }

    fn copy(&self, inner: &Inner, dst: &Place, src: &Place, len: usize) -> Result<(), Refusal> {
        let copier = inner.copier(&self.counters);
        // SAFETY: one is an object that was found, the other a buffer of this station; what others do with the object is theirs to order.
        unsafe { copier.copy(dst, src, len) }.map_err(|error| refusal(&error))
    }

    /// Behind what was put there before: who asked has that when it sees this.
    fn answer(&self, rank: u32, slot: usize, done: Result<(), Refusal>) {
        let Ok(peer) = self.shared.peer(rank) else { return };
        if let Err(error) = peer.connection.notification_put(slot as u8, answer(done), Spec::COMPLETER) {
            tracing::debug!(rank, %error, "an answer was not sent");
        }
    }
}

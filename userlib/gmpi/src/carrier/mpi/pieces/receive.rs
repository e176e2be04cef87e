//! A receive, which gets a message that is one of the library's, or the head of one that comes in pieces.

use std::collections::VecDeque;
use std::ptr::null;

use super::super::shim::{self, Call, Told};
use super::super::stage::{Copied, Copying, Way};
use super::super::{Mpi, Started, status_of};
use super::AHEAD;
use super::heads::{HEAD, Head};
use super::probe::KeptHead;
use crate::carrier::{Operation, Token};
use crate::memory::{Landed, Span};
use crate::{Class, Status, layout};

pub struct Incoming {
    to: Span,
    /// What stands for it; nothing: what comes goes where it belongs.
    place: Copied,
    /// What comes is kept, not stored.
    keeps: bool,
    /// The receive of a message or head; `None`: that is over.
    request: Option<Token>,
    /// A head that a probe has taken; `None`: it comes where messages do.
    taken: Option<KeptHead>,
    /// What is known once there is a head, and the call that receives a piece.
    parts: Option<(Head, Status)>,
    call: Call,
    /// Pieces that were asked for; those of them that have not come; those that have.
    posted: usize,
    requests: VecDeque<Token>,
    come: usize,
    /// Of a piece that has no room.
    scratch: Vec<u8>,
    /// Copies of pieces to where they belong.
    copies: Vec<Copying>,
    failed: Option<Class>,
    is_given_up: bool,
}

impl Mpi {
    /// `keeps`: what comes need not be stored, if it is short.
    pub(super) fn receive_perhaps_pieces(
        &mut self,
        operation: &Operation,
        keeps: bool,
    ) -> Result<Incoming, Class> {
        let Operation::Recv { at, from, tag, comm, .. } = operation else { return Err(Class::CALL) };
        let (mut call, ..) = self.call(operation)?;
        let keeps = keeps && at.len <= layout::GMPI_ANSWER_MESSAGE as usize;
        let mut place = match keeps || at.len < HEAD {
            true => Copied::Own(vec![0; at.len.max(HEAD)]),
            false if self.stages(at, operation) => self.stage.room(at.len),
            false => Copied::none(),
        };
        let start = if place.is_empty() { at.address() as *mut u8 } else { self.stage.address(&mut place) };
        call.to = start.cast();
        (call.count, call.of) = (at.len.min(self.pieces.size).max(HEAD) as i32, layout::GMPI_BYTE as i32);
        let (request, taken) = match self.take_kept(*comm, *from, *tag) {
            Some(kept) => match kept.head {
                Some(head) => (Ok(None), Some(head)),
                None => {
                    (call.kind, call.displacement) = (shim::RECV_TAKEN, kept.number);
                    (self.begin_part(&call).map(Some), None)
                }
            },
            None => (self.begin_part(&call).map(Some), None),
        };
        let request = match request {
            Ok(request) => request.or(taken.as_ref().and_then(|head| head.request)),
            Err(class) => {
                self.stage.give_back(place);
                return Err(class);
            }
        };
        let call = Call { kind: shim::RECV_PIECE, from: null(), displacement: 0, ..call };
        Ok(Incoming {
            to: at.clone(),
            place,
            keeps,
            request,
            taken,
            parts: None,
            call,
            posted: 0,
            requests: VecDeque::new(),
            come: 0,
            scratch: Vec::new(),
            copies: Vec::new(),
            failed: None,
            is_given_up: false,
        })
    }
}

impl Incoming {
    /// Whether no message has come, as far as was looked.
    pub fn waits_for_head(&self) -> bool {
        self.parts.is_none()
    }

    /// Whether anything moved, and how it ended.
    pub fn step(&mut self, mpi: &mut Mpi, token: Token) -> (bool, Option<Result<Status, Class>>) {
        if self.parts.is_none() {
            let (ended, told) = match (self.request, &self.taken) {
                (Some(request), _) => match self.test(mpi, request) {
                    Some(over) => over,
                    None => return (false, None),
                },
                (None, Some(head)) => (Ok(()), head.told),
                (None, None) => return (false, None),
            };
            self.request = None;
            if ended.is_err() || told.bytes != HEAD as i64 {
                return (true, Some(self.is_whole(mpi, token, ended, told)));
            }
            if let Err(class) = self.begin_parts(mpi, told) {
                return (true, Some(self.is_whole(mpi, token, Err(class), told)));
            }
        }
        let Some((head, status)) = self.parts else { return (false, None) };
        let before = (self.posted, self.come, self.copies.len());
        while let Some(request) = self.requests.front()
            && let Some((ended, told)) = self.test(mpi, *request)
        {
            self.requests.pop_front();
            self.piece(mpi, head, ended, told);
        }
        self.post(mpi, head);
        self.look_at_copies(mpi);
        let moved = before != (self.posted, self.come, self.copies.len());
        if self.come < mpi.pieces.count(head.total) || !self.copies.is_empty() {
            return (moved, None);
        }
        (true, Some(self.end(mpi, token, head, status)))
    }

    fn test(&self, mpi: &Mpi, request: Token) -> Option<(Result<(), Class>, Told)> {
        if self.is_given_up { mpi.test_cancelled_part(request) } else { mpi.test_part(request) }
    }

    /// No head, but a message of the library, or an error.
    fn is_whole(
        &mut self,
        mpi: &mut Mpi,
        token: Token,
        ended: Result<(), Class>,
        told: Told,
    ) -> Result<Status, Class> {
        let status = status_of(told);
        let room = self.to.len as u64;
        let ended = if status.bytes > room { ended.and(Err(Class::TRUNCATE)) } else { ended };
        let place = std::mem::replace(&mut self.place, Copied::none());
        if self.is_given_up {
            // Cancelled, or what came is nobody's.
            mpi.stage.give_back(place);
            return ended.map(|()| status);
        }
        let started = Started {
            receives: true,
            fills: true,
            room,
            to: (!place.is_empty()).then(|| self.to.clone()),
            from_copy: Copied::none(),
            to_copy: place,
            keeps: self.keeps,
            status,
        };
        let stored = mpi.arrive(token, started, ended, status.bytes as usize);
        ended.and(stored).map(|()| status)
    }

    /// A head has come.
    fn begin_parts(&mut self, mpi: &mut Mpi, told: Told) -> Result<(), Class> {
        let mut bytes = [0; HEAD];
        match &self.taken {
            Some(taken) => bytes = *taken.bytes,
            None if self.place.is_empty() => {
                self.to.read_part(0, &mut bytes).map_err(|_| Class::INTERN)?;
            }
            // SAFETY: the place has room for a head, and the library is done with it.
            None => unsafe {
                let start = mpi.stage.address(&mut self.place);
                std::ptr::copy_nonoverlapping(start, bytes.as_mut_ptr(), HEAD);
            },
        }
        let head = Head::of(&bytes).filter(|head| head.piece == mpi.pieces.size).ok_or(Class::INTERN)?;
        (self.call.rank, self.call.tag) = (told.source, head.tag);
        let bytes = head.total as u64;
        self.parts = Some((head, Status { source: told.source, tag: told.tag, bytes, error: None }));
        Ok(())
    }

    /// Whether pieces have no place of their own.
    fn is_drained(&self, head: Head) -> bool {
        head.total > self.to.len || self.is_given_up && self.place.is_empty()
    }

    /// Asks for pieces: one at a time where they have no place.
    fn post(&mut self, mpi: &mut Mpi, head: Head) {
        let drains = self.is_drained(head);
        let most = if drains { 1 } else { AHEAD };
        while self.posted < mpi.pieces.count(head.total) && self.requests.len() < most {
            let (at, len) = mpi.pieces.part(self.posted, head.total);
            let start = match (drains, self.place.is_empty()) {
                (true, _) => {
                    self.scratch.resize(mpi.pieces.size, 0);
                    self.scratch.as_mut_ptr()
                }
                (_, true) => (self.to.address() as *mut u8).wrapping_add(at),
                _ => mpi.stage.address(&mut self.place).wrapping_add(at),
            };
            match mpi.begin_part(&Call { to: start.cast(), count: len as i32, ..self.call }) {
                Ok(request) => self.requests.push_back(request),
                // Nothing of it is under way, and nothing more will come.
                Err(class) => {
                    self.failed = Some(class);
                    self.come += 1;
                }
            }
            self.posted += 1;
        }
    }

    /// A piece has come, or its receive was cancelled: those that were are the last ones, since pieces come in their order.
    fn piece(&mut self, mpi: &mut Mpi, head: Head, ended: Result<(), Class>, told: Told) {
        if told.bytes < 0 {
            self.posted -= 1;
            return;
        }
        let (at, len) = mpi.pieces.part(self.come, head.total);
        self.come += 1;
        // One that its sender could not read has no bytes.
        let ended = if told.bytes == len as i64 { ended } else { ended.and(Err(Class::INTERN)) };
        self.failed = self.failed.or(ended.err());
        if self.failed.is_some() || self.is_given_up {
            return;
        }
        let stored = if head.total > self.to.len {
            self.first_bytes(mpi, at, len)
        } else if self.place.is_empty() || self.keeps {
            Ok(())
        } else {
            mpi.stage.begin(Way::In, &mut self.place, &self.to, at, len).map(|copy| self.copies.push(copy))
        };
        if let Err(error) = stored {
            self.fail(&error);
        }
    }

    fn fail(&mut self, error: &dyn std::error::Error) {
        tracing::error!("a message could not be stored: {error}");
        self.failed = Some(Class::INTERN);
    }

    /// Of a message that is longer than its place that has what fits. What stands for memory is not stored then.
    fn first_bytes(
        &mut self,
        mpi: &mut Mpi,
        at: usize,
        len: usize,
    ) -> Result<(), ggas::kernels::MemoryError> {
        let fits = len.min(self.to.len.saturating_sub(at));
        if self.place.is_empty() {
            return self.to.write(at, &self.scratch[..fits]);
        }
        if self.keeps && fits > 0 {
            // SAFETY: the place has as many bytes as the span at least, and the library is done with it.
            unsafe {
                let start = mpi.stage.address(&mut self.place).add(at);
                std::ptr::copy_nonoverlapping(self.scratch.as_ptr(), start, fits);
            }
        }
        Ok(())
    }

    fn look_at_copies(&mut self, mpi: &mut Mpi) {
        let mut error = None;
        self.copies.retain_mut(|copy| match mpi.stage.is_done(copy) {
            Ok(is_done) => !is_done,
            Err(failed) => {
                error = Some(failed);
                false
            }
        });
        if let Some(error) = error {
            self.fail(&error);
        }
    }

    /// All pieces have come.
    fn end(&mut self, mpi: &mut Mpi, token: Token, head: Head, status: Status) -> Result<Status, Class> {
        let is_cut = head.total > self.to.len;
        let ended = match self.failed {
            Some(class) => Err(class),
            None if is_cut => Err(Class::TRUNCATE),
            None => Ok(status),
        };
        match std::mem::replace(&mut self.place, Copied::none()) {
            Copied::Own(mut bytes) if self.keeps => {
                bytes.truncate(head.total.min(self.to.len));
                if self.failed.is_none() && !self.is_given_up && !bytes.is_empty() {
                    mpi.landed.insert(token, Landed { at: self.to.clone(), bytes });
                }
            }
            // A copy that failed may still be under way: then the piece of the pool is nobody's any more.
            place if self.failed.is_some() => std::mem::forget(place),
            place => mpi.stage.give_back(place),
        }
        ended
    }

    /// Nothing is stored from now on. What the library was given to write to is not taken back before it is done with it.
    pub fn give_up(&mut self, mpi: &mut Mpi) {
        self.is_given_up = true;
        if let Err(error) = mpi.stage.settle() {
            self.fail(&error);
        }
        // A head that a probe has taken has come.
        if self.taken.is_none()
            && let Some(request) = self.request
        {
            // SAFETY: the request is one that was started and not told to be over.
            unsafe { (mpi.shim.cancel)(request) };
        }
        if self.place.is_empty() {
            for request in self.requests.iter().rev() {
                // SAFETY: as above.
                unsafe { (mpi.shim.cancel)(*request) };
            }
        }
    }
}

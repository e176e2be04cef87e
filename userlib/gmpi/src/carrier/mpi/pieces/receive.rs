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

/// Looks at the first receive of what is given up, which ends them at once if it was cancelled, or has got a head: libraries pass those whole.
/// One that has got a longer message may need its sender, which is not waited for.
const LOOKS: usize = 10_000;

pub struct Incoming {
    to: Span,
    /// What stands for it; nothing: what comes goes where it belongs.
    place: Copied,
    /// What comes is kept, not stored.
    keeps: bool,
    /// The receive of a message or head; `None`: that is over.
    request: Option<Asked>,
    /// A head that a probe has taken; `None`: it comes where messages do.
    taken: Option<KeptHead>,
    /// What is known once there is a head, and the call that receives a piece.
    parts: Option<(Head, Status)>,
    call: Call,
    /// Pieces that were asked for; those of them that have not come; those that have.
    posted: usize,
    requests: VecDeque<Asked>,
    come: usize,
    /// Of a piece that has no room.
    scratch: Vec<u8>,
    /// Copies of pieces to where they belong.
    copies: Vec<Copying>,
    failed: Option<Class>,
    /// A copy has failed, and may still be under way.
    may_be_copied: bool,
    /// The library has refused a call for a piece: the rest has no place.
    is_refused: bool,
    is_given_up: bool,
}

/// A receive of the library.
struct Asked {
    request: Token,
    /// The library is asked of those alone whether they were.
    is_cancelled: bool,
}

impl Asked {
    fn of(request: Token) -> Asked {
        Asked { request, is_cancelled: false }
    }

    fn cancel(&mut self, mpi: &Mpi) {
        // SAFETY: the request is one that was started and not told to be over.
        unsafe { (mpi.shim.cancel)(self.request) };
        self.is_cancelled = true;
    }

    fn test(&self, mpi: &Mpi) -> Option<(Result<(), Class>, Told)> {
        if self.is_cancelled { mpi.test_cancelled_part(self.request) } else { mpi.test_part(self.request) }
    }
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
            request: request.map(Asked::of),
            taken,
            parts: None,
            call,
            posted: 0,
            requests: VecDeque::new(),
            come: 0,
            scratch: Vec::new(),
            copies: Vec::new(),
            failed: None,
            may_be_copied: false,
            is_refused: false,
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
            let (ended, told) = match (&self.request, &self.taken) {
                (Some(asked), _) => match asked.test(mpi) {
                    Some(over) => over,
                    None => return (false, None),
                },
                (None, Some(head)) => (Ok(()), head.told),
                (None, None) => return (false, None),
            };
            if let Some(whole) = self.has_come(mpi, token, ended, told) {
                return (true, Some(whole));
            }
        }
        let Some((head, status)) = self.parts else { return (false, None) };
        let before = (self.posted, self.come, self.copies.len());
        while let Some(asked) = self.requests.front()
            && let Some((ended, told)) = asked.test(mpi)
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

    /// The first receive is over; how all of it is, if pieces do not follow.
    fn has_come(
        &mut self,
        mpi: &mut Mpi,
        token: Token,
        ended: Result<(), Class>,
        told: Told,
    ) -> Option<Result<Status, Class>> {
        self.request = None;
        let is_head = ended.is_ok() && told.bytes == HEAD as i64;
        let begun = if is_head { self.begin_parts(mpi, told) } else { ended };
        (!is_head || begun.is_err()).then(|| self.is_whole(mpi, token, begun, told))
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
        head.total > self.to.len || self.is_refused || self.is_given_up && self.place.is_empty()
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
                Ok(request) => self.requests.push_back(Asked::of(request)),
                // The piece comes nevertheless, and the next ones behind it: it is asked for again as this goes on.
                Err(class) => {
                    self.failed = self.failed.or(Some(class));
                    self.is_refused = true;
                    break;
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
        self.may_be_copied = true;
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
            // The piece of the pool is nobody's any more.
            place if self.may_be_copied => std::mem::forget(place),
            place => mpi.stage.give_back(place),
        }
        ended
    }

    /// Nothing is stored from now on. What the library was given to write to is not taken back before it is done with it.
    pub fn give_up(&mut self, mpi: &mut Mpi) -> Option<Result<Status, Class>> {
        self.is_given_up = true;
        if let Err(error) = mpi.stage.settle() {
            self.fail(&error);
        }
        if self.place.is_empty() {
            self.requests.iter_mut().rev().for_each(|asked| asked.cancel(mpi));
        }
        // A head that a probe has taken has come.
        if self.taken.is_some() {
            return None;
        }
        self.request.as_mut()?.cancel(mpi);
        // The memory is the kernel's again behind this, and a head may be there.
        let (ended, told) = (0..LOOKS).find_map(|_| self.request.as_ref()?.test(mpi))?;
        self.has_come(mpi, 0, ended, told)
    }
}

//! A message that is sent in pieces: each as soon as it is copied.

use std::collections::VecDeque;
use std::ptr::null_mut;

use super::super::Mpi;
use super::super::shim::{self, Call};
use super::super::stage::{Copied, Copying, Way};
use super::AHEAD;
use super::heads::{HEAD, Head};
use crate::carrier::{Operation, Token};
use crate::memory::Span;
use crate::{Class, Status, layout};

pub struct Outgoing {
    at: Span,
    /// What stands for it; nothing: it is sent from where it lies.
    copied: Copied,
    /// The library reads it.
    _head: Box<[u8; HEAD]>,
    /// Of its pieces.
    call: Call,
    count: usize,
    /// Pieces of which a copy was begun; those of them that may not be done; pieces that were sent.
    begun: usize,
    copies: VecDeque<Copying>,
    sent: usize,
    requests: Vec<Token>,
    failed: Option<Class>,
    /// It could not be copied, or the library refused a piece: pieces of no bytes tell it.
    is_void: bool,
    /// A copy has failed, and may still be under way.
    may_be_copied: bool,
    status: Status,
}

impl Mpi {
    pub(super) fn send_in_pieces(
        &mut self,
        operation: &Operation,
        short: Option<&[u8]>,
    ) -> Result<Outgoing, Class> {
        let Operation::Send { at, .. } = operation else { return Err(Class::CALL) };
        let (mut call, ..) = self.call(operation)?;
        let status = Status { source: call.rank, tag: call.tag, ..Status::EMPTY };
        let (count, piece) = (self.pieces.count(at.len), self.pieces.size);
        let tag = self.pieces.next_tag();
        let head = Head { total: at.len, piece, tag }.bytes();
        (call.from, call.count, call.of) = (head.as_ptr().cast(), HEAD as i32, layout::GMPI_BYTE as i32);
        let request = self.begin_part(&call)?;
        let short = short.filter(|bytes| bytes.len() == at.len);
        let copied = match short {
            Some(bytes) => Copied::Own(bytes.to_vec()),
            None if self.stages(at, operation) => self.stage.room(at.len),
            None => Copied::none(),
        };
        let begun = if short.is_some() || copied.is_empty() { count } else { 0 };
        let mut message = Outgoing {
            at: at.clone(),
            copied,
            _head: head,
            call: Call { kind: kind_of(count), tag, to: null_mut(), ..call },
            count,
            begun,
            copies: VecDeque::new(),
            sent: 0,
            requests: vec![request],
            failed: None,
            is_void: false,
            may_be_copied: false,
            status,
        };
        message.copy(self);
        message.send(self);
        Ok(message)
    }
}

/// How pieces are sent. A library takes short ones from their sender though no receive is there, and keeps them: of a long message it would
/// keep all. The one piece of a message as long as a head is like any short message.
fn kind_of(count: usize) -> i32 {
    if count > 1 { shim::SEND_PIECE_ASKED } else { shim::SEND_PIECE }
}

impl Outgoing {
    /// Whether anything moved, and how it ended.
    pub fn step(&mut self, mpi: &mut Mpi) -> (bool, Option<Result<Status, Class>>) {
        let before = self.is_at();
        let mut failed = self.failed;
        self.requests.retain(|request| match mpi.test_part(*request) {
            Some((ended, _)) => {
                failed = failed.or(ended.err());
                false
            }
            None => true,
        });
        self.failed = failed;
        self.copy(mpi);
        self.send(mpi);
        let moved = before != self.is_at();
        if self.sent < self.count || !self.requests.is_empty() || !self.copies.is_empty() {
            return (moved, None);
        }
        let copied = std::mem::replace(&mut self.copied, Copied::none());
        // The piece of the pool is nobody's any more.
        if self.may_be_copied {
            std::mem::forget(copied)
        } else {
            mpi.stage.give_back(copied)
        }
        (true, Some(self.failed.map_or(Ok(self.status), Err)))
    }

    /// What changes as it moves.
    fn is_at(&self) -> (usize, usize, usize, usize) {
        (self.begun, self.sent, self.requests.len(), self.copies.len())
    }

    /// Begins copies of pieces that are sent next. One that is done at once is sent before another one is begun.
    fn copy(&mut self, mpi: &mut Mpi) {
        while self.begun < self.count && self.begun < self.sent + AHEAD {
            if !self.begin_copy(mpi) {
                break;
            }
        }
    }

    /// Begins one; whether that takes its time.
    fn begin_copy(&mut self, mpi: &mut Mpi) -> bool {
        let (at, len) = mpi.pieces.part(self.begun, self.at.len);
        match mpi.stage.begin(Way::Out, &mut self.copied, &self.at, at, len) {
            Ok(copying) => {
                let is_late = copying.is_late();
                self.copies.push_back(copying);
                self.begun += 1;
                is_late
            }
            Err(error) => {
                self.fail(&error);
                false
            }
        }
    }

    fn fail(&mut self, error: &dyn std::error::Error) {
        tracing::error!("a message could not be copied from its memory: {error}");
        self.may_be_copied = true;
        self.void(Class::INTERN);
    }

    /// The rest of it has no bytes.
    fn void(&mut self, class: Class) {
        self.failed = self.failed.or(Some(class));
        (self.is_void, self.begun) = (true, self.count);
    }

    fn send(&mut self, mpi: &mut Mpi) {
        self.look_at_copies(mpi);
        while self.sent < self.copied_pieces() && self.requests.len() <= AHEAD {
            let (at, len) = mpi.pieces.part(self.sent, self.at.len);
            let start = match &self.copied {
                copied if copied.is_empty() => self.at.address() as *mut u8,
                _ => mpi.stage.address(&mut self.copied),
            };
            let count = if self.is_void { 0 } else { len as i32 };
            match mpi.begin_part(&Call { from: start.wrapping_add(at).cast(), count, ..self.call }) {
                Ok(request) => {
                    self.requests.push(request);
                    self.sent += 1;
                }
                // The other end gets as many pieces as its head says: this one again, at once without bytes, then as it goes on.
                Err(class) => {
                    let was_void = self.is_void;
                    self.void(class);
                    if was_void {
                        break;
                    }
                }
            }
        }
    }

    /// Pieces that may be sent.
    fn copied_pieces(&self) -> usize {
        if self.is_void { self.count } else { self.begun - self.copies.len() }
    }

    /// Ends copies in their order. Those of a message that has failed are waited for, too: the place of them is given back.
    fn look_at_copies(&mut self, mpi: &mut Mpi) {
        while let Some(copying) = self.copies.front_mut() {
            match mpi.stage.is_done(copying) {
                Ok(true) => drop(self.copies.pop_front()),
                Ok(false) => break,
                Err(error) => {
                    self.fail(&error);
                    self.copies.clear();
                }
            }
        }
    }

    /// Nobody keeps its memory as it is any more: all of it is copied now.
    pub fn give_up(&mut self, mpi: &mut Mpi) -> Option<Result<Status, Class>> {
        while self.begun < self.count {
            self.begin_copy(mpi);
        }
        if let Err(error) = mpi.stage.settle() {
            self.fail(&error);
        }
        None
    }
}

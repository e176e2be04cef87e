//! Passive communication: messages whose receiver does not say from whom, and sleeps meanwhile.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use ggas_clock::Event;

use crate::calls::Matter;
use crate::error::because;
use crate::segment::check_range;
use crate::shared::Shared;
use crate::wire::{Answer, Message, PIECE};
use crate::{GaspiError, Timeout};

#[derive(Default)]
struct Inbox {
    /// Messages that are not whole, by sender.
    parts: HashMap<usize, Vec<u8>>,
    /// Whole ones: sender, its call, bytes.
    whole: VecDeque<(usize, u64, Vec<u8>)>,
}

/// What has come, and whose turn it is to send and to receive.
#[derive(Default)]
pub(crate) struct Passive {
    inbox: Mutex<Inbox>,
    news: Event,
    sending: Mutex<()>,
    receiving: Mutex<()>,
}

impl Passive {
    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A piece of a message.
    pub(crate) fn came(&self, rank: usize, call: u64, is_last: bool, bytes: Vec<u8>) {
        let mut inbox = self.inbox();
        let part = inbox.parts.entry(rank).or_default();
        part.extend_from_slice(&bytes);
        if is_last {
            let whole = std::mem::take(part);
            inbox.whole.push_back((rank, call, whole));
            drop(inbox);
            self.news.signal();
        }
    }
}

/// A turn, once it is this caller's.
pub(crate) fn turn<'a, T>(
    shared: &Shared,
    lock: &'a Mutex<T>,
    timeout: Timeout,
) -> Result<MutexGuard<'a, T>, GaspiError> {
    timeout.wait(shared.clock(), || match lock.try_lock() {
        Ok(guard) => Ok(Some(guard)),
        Err(TryLockError::Poisoned(guard)) => Ok(Some(guard.into_inner())),
        Err(TryLockError::WouldBlock) => Ok(None),
    })
}

impl Shared {
    pub(crate) fn passive_send(
        &self,
        segment: u8,
        offset: u64,
        rank: u16,
        bytes: u64,
        timeout: Timeout,
    ) -> Result<(), GaspiError> {
        let local = self.segments.get(segment)?;
        check_range(offset, bytes, local.data.len() as u64, GaspiError::LocalOffset)?;
        if bytes > self.config.passive_transfer_size_max {
            return Err(GaspiError::CommSize);
        }
        let rank = self.check_rank(rank)?;
        let turn = turn(self, &self.passive.sending, timeout)?;
        let (call, is_new) = self.calls.begin(rank, Matter::Passive);
        if is_new {
            let mut text = vec![0; bytes as usize];
            local.data.read(offset as usize, &mut text).map_err(because(GaspiError::Failed))?;
            let pieces = text.chunks(PIECE);
            let last = pieces.len().max(1) - 1;
            // A message of no bytes is one piece, too.
            let pieces = pieces.chain(text.is_empty().then_some(&[][..]));
            for (number, piece) in pieces.enumerate() {
                let is_last = number == last;
                let message = Message::Passive { call, is_last, bytes: piece.to_vec() };
                // The pieces of a message are sent or its receiver is gone.
                if let Err(error) = self.send(rank, message, Timeout::Block) {
                    self.calls.forget(call);
                    return Err(error);
                }
            }
        }
        // Others may send to other ranks meanwhile; to this one they would take the call over.
        let answer = self.answer(rank, call, timeout).map(drop);
        drop(turn);
        answer
    }

    /// The sender.
    pub(crate) fn passive_receive(
        &self,
        segment: u8,
        offset: u64,
        bytes: u64,
        timeout: Timeout,
    ) -> Result<u16, GaspiError> {
        let local = self.segments.get(segment)?;
        check_range(offset, bytes, local.data.len() as u64, GaspiError::LocalOffset)?;
        if bytes > self.config.passive_transfer_size_max {
            return Err(GaspiError::CommSize);
        }
        let passive = &self.passive;
        let _turn = turn(self, &passive.receiving, timeout)?;
        let mut is_there = || !passive.inbox().whole.is_empty();
        if !passive.news.wait(self.clock(), timeout.duration(), &mut is_there, || ()) {
            return Err(GaspiError::Timeout);
        }
        let (rank, call) = {
            let mut inbox = passive.inbox();
            let (rank, call, text) = inbox.whole.front().ok_or(GaspiError::Failed)?;
            // It stays for a receiver with more room.
            if text.len() as u64 > bytes {
                return Err(GaspiError::CommSize);
            }
            local.data.write(offset as usize, text).map_err(because(GaspiError::Failed))?;
            let from = (*rank, *call);
            inbox.whole.pop_front();
            from
        };
        // The sender may be gone: its message is here.
        let _ = self.send(rank, Message::Answer { call, answer: Answer::Done }, Timeout::Test);
        Ok(rank as u16)
    }
}

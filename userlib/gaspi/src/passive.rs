//! Passive communication: messages whose receiver does not say from whom, and sleeps meanwhile.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use ggas_clock::Event;

use crate::calls::Matter;
use crate::segment::check_range;
use crate::shared::Shared;
use crate::wire::{Answer, Message, PIECE};
use crate::{GaspiError, Timeout};

#[derive(Default)]
struct Inbox {
    /// Messages that are not whole, by sender.
    parts: HashMap<usize, Vec<u8>>,
    /// Whole ones, one of each sender at most: sender, its call, bytes.
    whole: VecDeque<(usize, u64, Vec<u8>)>,
}

/// A message that its receiver does not have yet.
struct Sending {
    text: Vec<u8>,
    sent: usize,
}

/// What has come, and whose turn it is to send and to receive.
pub(crate) struct Passive {
    /// Bytes of a message.
    most: u64,
    inbox: Mutex<Inbox>,
    news: Event,
    /// By receiver.
    sending: Vec<Mutex<Option<Sending>>>,
    receiving: Mutex<()>,
}

impl Passive {
    pub(crate) fn new(ranks: usize, most: u64) -> Passive {
        Passive {
            most,
            inbox: Mutex::default(),
            news: Event::default(),
            sending: (0..ranks).map(|_| Mutex::default()).collect(),
            receiving: Mutex::default(),
        }
    }

    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whoever waits looks again.
    pub(crate) fn wake(&self) {
        self.news.signal();
    }

    /// A piece of a message; `false`: it is refused. A sender has one message at a time, of limited length.
    pub(crate) fn came(&self, rank: usize, call: u64, is_last: bool, bytes: &[u8]) -> bool {
        let mut inbox = self.inbox();
        let Inbox { parts, whole } = &mut *inbox;
        let part = parts.entry(rank).or_default();
        if (part.len() + bytes.len()) as u64 > self.most || whole.iter().any(|(from, ..)| *from == rank) {
            tracing::warn!(
                "rank {rank} sends more passive messages than one, or a longer one than configured"
            );
            parts.remove(&rank);
            return false;
        }
        part.extend_from_slice(bytes);
        if is_last {
            let text = std::mem::take(part);
            whole.push_back((rank, call, text));
            drop(inbox);
            self.news.signal();
        }
        true
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
        let began = self.clock().now();
        let left = || timeout.left(self.clock(), began);
        // To this rank others would take the call over.
        let mut sending = turn(self, &self.passive.sending[rank], timeout)?;
        let (call, is_new) = self.calls.begin(rank, Matter::Passive, false);
        if is_new {
            let mut text = vec![0; bytes as usize];
            local.read(offset, &mut text)?;
            *sending = Some(Sending { text, sent: 0 });
        }
        if let Some(message) = &mut *sending
            && let Err(error) = self.send_pieces(rank, call, message, left)
        {
            if error == GaspiError::Timeout {
                self.calls.leave(call);
            } else {
                self.calls.forget(call);
                *sending = None;
            }
            return Err(error);
        }
        *sending = None;
        self.answer(rank, call, left()).map(drop)
    }

    /// What is left of a message.
    fn send_pieces(
        &self,
        rank: usize,
        call: u64,
        message: &mut Sending,
        left: impl Fn() -> Timeout,
    ) -> Result<(), GaspiError> {
        loop {
            let rest = &message.text[message.sent..];
            let (piece, is_last) = (&rest[..rest.len().min(PIECE)], rest.len() <= PIECE);
            let bytes = piece.to_vec();
            let count = bytes.len();
            self.send_within(rank, Message::Passive { call, is_last, bytes }, left())?;
            message.sent += count;
            self.moved(rank, count as u64, false);
            if is_last {
                return Ok(());
            }
        }
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
        let (began, heard) = (self.clock().now(), self.deaths.heard());
        let _turn = turn(self, &passive.receiving, timeout)?;
        // Nobody knows who is to send: see `notify_waitsome`.
        let is_lost = || timeout == Timeout::Block && self.deaths.are_news(heard);
        let mut is_there = || !passive.inbox().whole.is_empty() || is_lost();
        let left = timeout.left(self.clock(), began).duration();
        if !passive.news.wait(self.clock(), left, &mut is_there, || ()) {
            return Err(GaspiError::Timeout);
        }
        let (rank, call) = {
            let mut inbox = passive.inbox();
            let (rank, call, text) = inbox.whole.front().ok_or(GaspiError::Failed)?;
            // It stays for a receiver with more room.
            if text.len() as u64 > bytes {
                return Err(GaspiError::CommSize);
            }
            local.write(offset, text)?;
            let from = (*rank, *call);
            inbox.whole.pop_front();
            from
        };
        // The sender may be gone: its message is here.
        self.post_message(rank, Message::Answer { call, answer: Answer::Done });
        Ok(rank as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_has_one_message_of_limited_length() {
        let passive = Passive::new(2, 10);
        assert!(passive.came(0, 1, false, &[1; 6]));
        assert!(!passive.came(0, 1, true, &[1; 5]), "11 bytes");
        assert!(passive.came(0, 2, true, &[2; 10]), "that was forgotten");
        assert!(!passive.came(0, 3, true, &[3]), "a second one");
        assert!(passive.came(1, 4, true, &[4]));
        let whole = |(rank, call, text): &(usize, u64, Vec<u8>)| (*rank, *call, text.len());
        assert_eq!(passive.inbox().whole.iter().map(whole).collect::<Vec<_>>(), [(0, 2, 10), (1, 4, 1)]);
    }
}

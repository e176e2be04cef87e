//! The thread that serves other processes: registrations, atomics, groups and passive messages need no call here.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use crate::GaspiError;
use crate::segment::check_range;
use crate::shared::Shared;
use crate::wire::{Answer, Ask, AtomicOperation, Message};

/// Name of the thread. It alone touches words of atomics, those of this process's own calls as well.
pub(crate) const NAME: &str = "gaspi-service";

/// What the thread gets.
pub(crate) enum News {
    From(usize, Message),
    /// The same, with descriptors of memory.
    Passed(usize, Message, Vec<OwnedFd>),
    /// The rank has ended; nothing of it comes behind this.
    Gone(usize),
    /// Messages that found no room may find some now.
    Room,
    Stop,
}

/// Serves until it is told to stop; sleeps while there is nothing to do.
pub(crate) fn serve(shared: &Arc<Shared>, news: &Receiver<News>) {
    loop {
        match news.recv() {
            Ok(News::From(rank, message)) => take(shared, rank, message),
            Ok(News::Passed(rank, message, fds)) => {
                shared.map_passed(rank, &message, fds);
                take(shared, rank, message);
            }
            Ok(News::Gone(rank)) => shared.fell_silent(rank),
            Ok(News::Room) => shared.flush_outbox(),
            Ok(News::Stop) | Err(_) => return,
        }
    }
}

fn take(shared: &Shared, rank: usize, message: Message) {
    match message {
        Message::Ask { call, ask } => {
            let answer = answer(shared, rank, ask);
            shared.post_message(rank, Message::Answer { call, answer });
        }
        Message::Answer { call, answer } => shared.calls.answered(rank, call, answer),
        Message::Passive { call, is_last, bytes } => {
            if !shared.passive.came(rank, call, is_last, &bytes) {
                shared.post_message(rank, Message::Answer { call, answer: Answer::Refused });
            }
        }
        Message::Propose { group, proposal } => {
            shared.groups.proposed(group, rank, proposal, |rank, message| shared.post_message(rank, message));
        }
        Message::Agree { group, mine, yours } => shared.groups.agreed(group, rank, mine, yours),
        Message::Withdraw { group, number } => shared.groups.withdrawn(group, rank, number),
        // Looked at where its descriptor is.
        Message::Arena { .. } => {}
        Message::Kill => kill(),
    }
}

fn answer(shared: &Shared, rank: usize, ask: Ask) -> Answer {
    match ask {
        Ask::Ping => Answer::Done,
        Ask::Register { place, .. } if !place.is_sound(shared.config.notification_num) => Answer::Refused,
        Ask::Register { segment, place } => {
            if place.told.is_none() {
                shared.gpu.told(rank, segment, place, Vec::new());
            }
            shared.learn(rank, segment, place);
            Answer::Done
        }
        Ask::Atomic { segment, offset, operation } => match atomic(shared, segment, offset, operation) {
            Ok(old) => Answer::Value(old),
            Err(_) => Answer::Refused,
        },
    }
}

/// Carries out an atomic on a word of a segment of this process; only this thread does.
fn atomic(shared: &Shared, segment: u8, offset: u64, operation: AtomicOperation) -> Result<u64, GaspiError> {
    let segment = shared.segments.get(segment)?;
    check_range(offset, 8, segment.data.len() as u64, GaspiError::RemoteOffset)?;
    let mut word = [0; 8];
    segment.read(offset, &mut word)?;
    let old = u64::from_ne_bytes(word);
    segment.write(offset, &operation.applied(old).to_ne_bytes())?;
    Ok(old)
}

/// Ends the process at once, as another one wants it.
fn kill() {
    // SAFETY: ends the process, without handlers that could need what other threads hold.
    unsafe { libc::_exit(255) }
}

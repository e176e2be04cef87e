//! Handing descriptors to the card, over whichever path the port has.

use std::sync::{Mutex, MutexGuard, PoisonError};

use extoll_abi::PageOption;
use ggas_device::{Path, PortDevice};

use crate::PostError;
use crate::card::{Card, Written};
use crate::slots::Slots;

/// A port's requester side.
#[derive(Debug)]
pub(crate) enum Poster {
    /// One write-combining buffer: one writer at a time.
    Card(Mutex<Card>),
    Slots(Slots),
}

impl Poster {
    pub(crate) fn path(&self) -> Path {
        match self {
            Poster::Card(_) => Path::Card,
            Poster::Slots(_) => Path::Slots,
        }
    }

    /// Posts, or says [`PostError::WouldBlock`]. Never waits for the card.
    #[inline]
    pub(crate) fn try_post(
        &self,
        device: &dyn PortDevice,
        option: PageOption,
        words: &[u64; 3],
    ) -> Result<(), PostError> {
        match self {
            Poster::Slots(slots) => {
                if slots.option != option {
                    return Err(PostError::SlotOption { ring: slots.option, asked: option });
                }
                slots.try_post(words).map_err(|_| PostError::WouldBlock)?;
                device.kick();
                Ok(())
            }
            Poster::Card(card) => {
                let fill = |line: &mut Written| *line = Written { word: *words, option };
                lock(card).try_post(device, fill).map_err(|_| PostError::WouldBlock)
            }
        }
    }

    /// Replays what the card rejected; a consumer that finds its queue empty calls this (spec 2.4). `now`: before a
    /// sleep, or an end.
    #[inline]
    pub(crate) fn service(&self, device: &dyn PortDevice, now: bool) {
        if let Poster::Card(card) = self {
            // Whoever holds the lock is posting, and services the buffer himself.
            if let Ok(mut card) = card.try_lock() {
                card.service(device, now);
            }
        }
    }

    /// Descriptors that the card has not taken yet.
    pub(crate) fn outstanding(&self) -> u64 {
        match self {
            Poster::Card(card) => lock(card).outstanding().into(),
            Poster::Slots(slots) => slots.outstanding(),
        }
    }
}

/// The state under these locks is consistent between any two statements that can panic, so poisoning says nothing.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

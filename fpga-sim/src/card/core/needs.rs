//! What a card has to do, and how soon it must run again. A part of [`Core`].

use super::{Core, More};
use crate::network::fabric::Pending;

/// How soon a card must run again without being told to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(in super::super) enum Mood {
    /// Not at all.
    Idle,
    /// Not soon: the fabric wakes whom it refused.
    Told,
    /// Now and then: something waits for memory that others change, or for time to pass.
    Waiting,
    /// At once: a device copies, or more is to be done.
    Busy,
}

impl From<u8> for Mood {
    fn from(value: u8) -> Mood {
        match value {
            0 => Mood::Idle,
            1 => Mood::Told,
            2 => Mood::Waiting,
            _ => Mood::Busy,
        }
    }
}

impl Core {
    /// How soon the card must run again.
    pub(super) fn mood(&self) -> Mood {
        if self.is_calm() {
            return Mood::Idle;
        }
        let chip = &self.chip;
        let device =
            !chip.receiver.inbound().is_empty() || chip.smfu.is_waiting() || chip.sender.waits_for_device();
        let more = self.arrivals && self.held.is_none();
        let told = !(chip.notifier.has_backlog() || chip.velo.is_waiting() || self.looks());
        match device || more || self.links_worked {
            true => Mood::Busy,
            false if told => Mood::Told,
            false => Mood::Waiting,
        }
    }

    /// What a round can bring; `asks` the fabric, too.
    #[inline]
    pub(super) fn more(&mut self, asks: bool) -> More {
        if !self.still {
            if self.goes_on() {
                return More::Anything;
            }
            self.still = true;
        }
        if self.chip.is_called() || self.board.counters.has_failed() {
            return More::Anything;
        }
        if self.board.news.is_there() {
            return More::Packets;
        }
        match if asks { self.pending() } else { (Pending::Nothing, false) } {
            (Pending::Nothing, false) => More::Nothing,
            (Pending::First, false) if self.held.is_some() => More::First,
            (pending, true) => self.more_behind(pending),
            _ if !self.is_calm() => More::Anything,
            _ => More::Packets,
        }
    }

    /// The same behind requests that were settled: they may wait for something, or have failed.
    #[inline]
    fn more_behind(&mut self, pending: Pending) -> More {
        self.note_work();
        match self.still && !self.board.counters.has_failed() && self.held.is_none() {
            false => More::Anything,
            true if pending == Pending::Packets => More::Packets,
            true => More::Settled,
        }
    }

    /// Whether a round may do something without news from outside. As long as it does not, only rounds and [others](Core::stir) change that.
    #[inline]
    fn goes_on(&self) -> bool {
        let chip = &self.chip;
        self.has_links
            || chip.has_commands()
            || chip.notifier.has_awaiting()
            || chip.translation.has_flushes()
            || chip.system.has_program()
            || !self.is_calm()
    }

    /// Nothing waits for anything but news. Asked often, so without a branch for each part.
    #[inline]
    fn is_calm(&self) -> bool {
        let chip = &self.chip;
        let waits = !chip.receiver.inbound().is_empty()
            | chip.notifier.has_backlog()
            | chip.sender.has_stalled()
            | (chip.sender.responses() != 0)
            | chip.smfu.is_waiting()
            | chip.velo.is_waiting();
        !(waits | self.looks())
    }

    /// Whether it has to look by itself.
    #[inline]
    fn looks(&self) -> bool {
        self.arrivals | self.links_worked | self.held.is_some() | self.watches() | self.links_again.is_some()
    }
}

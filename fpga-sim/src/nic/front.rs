//! Write-combining buffers and command queues of all VPIDs, for RMA and for VELO: what posting threads touch.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crossbeam_queue::ArrayQueue;
use extoll_abi::{WcbState, regs};

use super::Nic;
use super::post::Posted;
use crate::bits::{AtomicVpidSet, VpidSet};
use crate::counters::WcbError;
use crate::wcb::{self, Stored, WCB_TIMEOUT_TICK, Wcb};

/// Descriptors of one VPID that wait for the requester; the next one is rejected (spec 2.4).
pub(super) const COMMAND_FIFO: usize = 64;

/// One VPID's.
pub(super) struct Front<L, const WORDS: usize> {
    wcb: Wcb<L, WORDS>,
    commands: ArrayQueue<L>,
}

pub(super) struct Fronts<L, const WORDS: usize> {
    ports: [OnceLock<Box<Front<L, WORDS>>>; 256],
    /// VPIDs with commands in their queues.
    ready: AtomicVpidSet,
    /// Some line may be partial; when that was last looked into.
    partial: AtomicBool,
    looked: AtomicU64,
}

impl<L, const WORDS: usize> Front<L, WORDS> {
    /// No command is queued.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }
}

impl<L, const WORDS: usize> Default for Fronts<L, WORDS> {
    fn default() -> Self {
        Fronts {
            ports: [const { OnceLock::new() }; 256],
            ready: AtomicVpidSet::default(),
            partial: AtomicBool::new(false),
            looked: AtomicU64::new(0),
        }
    }
}

impl<L: Posted<WORDS>, const WORDS: usize> Fronts<L, WORDS> {
    #[inline]
    fn front(&self, vpid: u8) -> &Front<L, WORDS> {
        self.ports[usize::from(vpid)]
            .get_or_init(|| Box::new(Front { wcb: Wcb::default(), commands: ArrayQueue::new(COMMAND_FIFO) }))
    }

    /// One word for a page; returns the line that it completes.
    #[inline]
    pub(super) fn store(
        &self,
        nic: &Nic,
        page: L::Page,
        vpid: u8,
        at: u16,
        value: u64,
    ) -> Option<(&Front<L, WORDS>, L)> {
        let index = usize::from(at / 8);
        if !at.is_multiple_of(8) {
            L::count_error(nic, WcbError::Unaligned, vpid);
            return None;
        }
        if index >= WORDS {
            L::count_error(nic, WcbError::TooLong, vpid);
            return None;
        }
        let front = self.front(vpid);
        let timeout = timeout_millis(L::timeout(nic));
        let now = if timeout.is_some() { nic.clock.coarse_millis() } else { 0 };
        let abandoned = || L::count_error(nic, WcbError::Length, vpid);
        let stored = front.wcb.store(page, index, value, now, timeout, abandoned);
        match stored {
            Stored::Partial => {
                // One writer at a time: load and store need not be one step (see `Wcb`).
                let register = L::state(nic, vpid);
                let state = WcbState(register.load(Ordering::Acquire));
                let assembling = wcb::state_assembling(state, true);
                if assembling != state {
                    register.store(assembling.0, Ordering::Relaxed);
                }
                if timeout.is_some() && !self.any_partial() {
                    self.partial.store(true, Ordering::Relaxed);
                    nic.line_begun();
                }
                None
            }
            Stored::Complete(line) => Some((front, line)),
        }
    }

    /// Queues a command for the requester; gives it back where there is no room.
    pub(super) fn push(&self, front: &Front<L, WORDS>, vpid: u8, command: L) -> Result<(), L> {
        front.commands.push(command)?;
        self.ready.add(vpid);
        Ok(())
    }

    /// Adds VPIDs with commands, to be asked for by [`Fronts::pop`] until it says `None`.
    #[inline]
    pub(super) fn take_ready(&self, ready: &mut VpidSet) {
        self.ready.take_into(ready);
    }

    /// Whether [`Fronts::take_ready`] would add any.
    #[inline]
    pub(super) fn any_ready(&self) -> bool {
        self.ready.any()
    }

    pub(super) fn pop(&self, vpid: u8) -> Option<L> {
        self.ports[usize::from(vpid)].get()?.commands.pop()
    }

    /// Whether no command of a VPID waits for the requester.
    pub(super) fn is_empty(&self, vpid: u8) -> bool {
        self.ports[usize::from(vpid)].get().is_none_or(|front| front.commands.is_empty())
    }

    #[inline]
    pub(super) fn any_partial(&self) -> bool {
        self.partial.load(Ordering::Relaxed)
    }

    /// Gives up partial lines whose time is over; looks at most once a tick unless `always`. In process a timeout that
    /// nobody looks at needs no timer: this runs before whatever could show a difference.
    pub(super) fn expire(&self, nic: &Nic, always: bool) {
        let (now, timeout) = (nic.clock.coarse_millis(), timeout_millis(L::timeout(nic)));
        let since = now.saturating_sub(self.looked.load(Ordering::Relaxed));
        if !always && since < WCB_TIMEOUT_TICK.as_millis() as u64 {
            return;
        }
        self.looked.store(now, Ordering::Relaxed);
        self.partial.store(false, Ordering::Relaxed);
        for vpid in 0..=255 {
            let Some(front) = self.ports[usize::from(vpid)].get() else { continue };
            if front.wcb.expire(now, timeout) {
                L::count_error(nic, WcbError::Length, vpid);
                let register = L::state(nic, vpid);
                let state = wcb::state_assembling(WcbState(register.load(Ordering::Acquire)), false);
                register.store(state.0, Ordering::Release);
            } else if front.wcb.is_partial() {
                self.partial.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Empties a VPID's buffer, and forgets commands that the requester has not taken.
    pub(super) fn reset(&self, vpid: u8, commands: bool) {
        let Some(front) = self.ports[usize::from(vpid)].get() else { return };
        front.wcb.reset();
        while commands && front.commands.pop().is_some() {}
    }
}

/// What a WCB timeout register says; `None`: the timeout is off.
fn timeout_millis(register: u64) -> Option<u64> {
    (register >> regs::EXTOLL_WCB_TIMEOUT_ACTIVE_SHIFT & 1 != 0)
        .then(|| (register >> regs::EXTOLL_WCB_TIMEOUT_VALUE_SHIFT) * WCB_TIMEOUT_TICK.as_millis() as u64)
}

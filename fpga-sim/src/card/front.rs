//! The front end: write-combining buffers and command queues of all VPIDs, for RMA and for VELO. What posting threads
//! touch, without a lock.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crossbeam_queue::ArrayQueue;
use extoll_abi::{VELO_LINE_WORDS, VeloHeader, WcbState, regs};

use super::board::Board;
use super::offsets::page;
use super::trigger_stores::TriggerStores;
use crate::packet::ANYONE;
use crate::units::bits::{AtomicVpidSet, VpidSet};
use crate::units::counters::WcbError;
use crate::units::snq::Trigger;
use crate::units::velo::Message;
use crate::units::wcb::{self, Command, Line, Stored, WCB_TIMEOUT_TICK, Wcb};

/// Descriptors of one VPID that wait for the requester; the next one is rejected (spec 2.4).
pub(super) const COMMAND_FIFO: usize = 64;

/// What a requester is given through its pages.
pub(super) trait Posted<const WORDS: usize>: Line<WORDS> + 'static {
    /// WCB state of a VPID.
    fn state(board: &Board, vpid: u8) -> &AtomicU64;
    /// Notes which process it is for: that may end before the command is carried out.
    fn aim(&mut self, board: &Board);
    /// Timeout register of its WCBs.
    fn timeout(board: &Board) -> u64;
    /// Counts an error of its WCBs.
    fn count_error(board: &Board, error: WcbError, vpid: u8);
}

impl Posted<3> for Command {
    #[inline]
    fn state(board: &Board, vpid: u8) -> &AtomicU64 {
        board.pages.wcb_state(vpid)
    }

    #[inline]
    fn aim(&mut self, board: &Board) {
        self.process = board.fabric.process_at(self.descriptor.header().dst);
    }

    #[inline]
    fn timeout(board: &Board) -> u64 {
        board.state.wcb_timeout()
    }

    #[cold]
    fn count_error(board: &Board, error: WcbError, vpid: u8) {
        board.state.count_wcb_error(error, vpid);
        board.raise_from_outside(Trigger::WcbError);
    }
}

impl Posted<VELO_LINE_WORDS> for Message {
    #[inline]
    fn state(board: &Board, vpid: u8) -> &AtomicU64 {
        board.pages.velo_wcb_state(vpid)
    }

    #[inline]
    fn aim(&mut self, board: &Board) {
        // A group's members are asked for later.
        let header = VeloHeader::decode(self.word[0]).ok().filter(|header| !header.multicast);
        self.process = header.map_or(ANYONE, |header| board.fabric.process_at(header.destination));
    }

    #[inline]
    fn timeout(board: &Board) -> u64 {
        board.state.velo_wcb_timeout()
    }

    #[cold]
    fn count_error(board: &Board, error: WcbError, vpid: u8) {
        board.state.count_velo_wcb_error(error, vpid);
        board.raise_from_outside(Trigger::WcbError);
    }
}

/// The fronts of both requesters.
pub(super) struct FrontEnd {
    board: Arc<Board>,
    pub(super) rma: Fronts<Command, 3>,
    pub(super) velo: Fronts<Message, VELO_LINE_WORDS>,
    pub(super) triggers: TriggerStores,
}

impl FrontEnd {
    pub(super) fn new(board: Arc<Board>) -> FrontEnd {
        FrontEnd {
            board,
            rma: Fronts::default(),
            velo: Fronts::default(),
            triggers: TriggerStores::default(),
        }
    }

    /// Whether some line may be partial.
    #[inline]
    pub(super) fn any_partial(&self) -> bool {
        self.rma.any_partial() | self.velo.any_partial()
    }

    /// Gives up partial lines whose time is over, see [`Fronts::expire`].
    #[inline]
    pub(super) fn expire(&self, always: bool) {
        if self.rma.any_partial() {
            self.rma.expire(&self.board, always);
        }
        if self.velo.any_partial() {
            self.velo.expire(&self.board, always);
        }
    }

    /// Reads the WCB state of a VPID; `None` for other registers.
    pub(super) fn reg_read(&self, offset: u64) -> Option<u64> {
        let pages = &self.board.pages;
        let rma = page(offset, regs::EXTOLL_RF_RMA_WCB_STATE).map(|v| pages.wcb_state(v));
        let velo = || page(offset, regs::EXTOLL_RF_VELO_WCB_STATE).map(|v| pages.velo_wcb_state(v));
        rma.or_else(velo).map(|state| state.load(Ordering::Acquire))
    }

    /// Writes the WCB state of a VPID, which empties its buffer; false for other registers. What belongs to a VPID
    /// that another process of the node serves stays as it is.
    pub(super) fn reg_write(&self, offset: u64, value: u64) -> bool {
        let board = &*self.board;
        if let Some(v) = page(offset, regs::EXTOLL_RF_RMA_WCB_STATE) {
            if board.state.serves(v) {
                self.rma.reset(v, false);
                board.pages.wcb_state(v).store(value, Ordering::Release);
            }
        } else if let Some(v) = page(offset, regs::EXTOLL_RF_VELO_WCB_STATE) {
            if board.state.serves(v) {
                self.velo.reset(v, false);
                board.pages.velo_wcb_state(v).store(value, Ordering::Release);
            }
        } else {
            return false;
        }
        true
    }
}

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

    /// One word for a page; returns the line that it completes. `begun` is called where a line begins after none was
    /// partial for a while, and its time is limited.
    #[inline]
    pub(super) fn store(
        &self,
        board: &Board,
        page: L::Page,
        vpid: u8,
        at: u16,
        value: u64,
        begun: impl FnOnce(),
    ) -> Option<(&Front<L, WORDS>, L)> {
        let index = usize::from(at / 8);
        if !at.is_multiple_of(8) {
            L::count_error(board, WcbError::Unaligned, vpid);
            return None;
        }
        if index >= WORDS {
            L::count_error(board, WcbError::TooLong, vpid);
            return None;
        }
        let front = self.front(vpid);
        let timeout = timeout_millis(L::timeout(board));
        let now = if timeout.is_some() { board.clock.coarse_millis() } else { 0 };
        let abandoned = || L::count_error(board, WcbError::Length, vpid);
        let stored = front.wcb.store(page, index, value, now, timeout, abandoned);
        match stored {
            Stored::Partial => {
                // One writer at a time: load and store need not be one step (see `Wcb`).
                let register = L::state(board, vpid);
                let state = WcbState(register.load(Ordering::Acquire));
                let assembling = wcb::state_assembling(state, true);
                if assembling != state {
                    register.store(assembling.0, Ordering::Relaxed);
                }
                if timeout.is_some() && !self.any_partial() {
                    self.partial.store(true, Ordering::Relaxed);
                    begun();
                }
                None
            }
            Stored::Complete(line) => Some((front, line)),
        }
    }

    /// All words of a line at once, in ascending order; `None`, and nothing is done, where words of another one are there.
    #[inline]
    pub(super) fn store_line(
        &self,
        board: &Board,
        page: L::Page,
        vpid: u8,
        words: [u64; WORDS],
    ) -> Option<(&Front<L, WORDS>, L)> {
        let front = self.front(vpid);
        if front.wcb.is_partial() {
            return None;
        }
        let register = L::state(board, vpid);
        let state = WcbState(register.load(Ordering::Acquire));
        register.store(wcb::state_assembling(state, true).0, Ordering::Relaxed);
        Some((front, L::collect(page, words)))
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
    fn any_partial(&self) -> bool {
        self.partial.load(Ordering::Relaxed)
    }

    /// Gives up partial lines whose time is over; looks at most once a tick unless `always`. In process a timeout that
    /// nobody looks at needs no timer: this runs before whatever could show a difference.
    fn expire(&self, board: &Board, always: bool) {
        let (now, timeout) = (board.clock.coarse_millis(), timeout_millis(L::timeout(board)));
        let since = now.saturating_sub(self.looked.load(Ordering::Relaxed));
        if !always && since < WCB_TIMEOUT_TICK.as_millis() as u64 {
            return;
        }
        self.looked.store(now, Ordering::Relaxed);
        self.partial.store(false, Ordering::Relaxed);
        for vpid in 0..=255 {
            let Some(front) = self.ports[usize::from(vpid)].get() else { continue };
            if front.wcb.expire(now, timeout) {
                L::count_error(board, WcbError::Length, vpid);
                let register = L::state(board, vpid);
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

//! Address translation, and what is under way over translated memory: a flush is done when that is (spec 4).

use std::collections::BTreeMap;
use std::sync::Arc;

use extoll_abi::{Access, GatRegister, regs::*};

use super::board::Board;
use super::offsets::element;
use crate::node::NodeState;
use crate::packet::{Hold, HoldState};
use crate::units::atu::Atu;
use crate::units::completer::Reports;
use crate::units::fragment;
use crate::units::requester::Context;
use crate::units::vpid::VpidEntry;

/// A notify command of the ATU, and what it waits for.
struct Flush {
    address: u64,
    holds: Vec<Arc<HoldState>>,
}

pub(super) struct Translation {
    board: Arc<Board>,
    atu: Atu,
    /// First words of preloads, by index.
    preloads: BTreeMap<u64, u64>,
    /// Sources and targets in use by transfers that began and have not ended.
    holds: Vec<Arc<HoldState>>,
    flushes: Vec<Flush>,
}

impl Translation {
    pub(super) fn new(board: Arc<Board>) -> Translation {
        Translation {
            atu: Atu::new(board.counters.clone()),
            board,
            preloads: BTreeMap::new(),
            holds: Vec::new(),
            flushes: Vec::new(),
        }
    }

    /// What of that completers look at when they report.
    #[inline]
    pub(super) fn reports(&self, vpid: u8) -> Reports {
        let state = &self.board.state;
        (state.entry(vpid), CONFIG_FORCE_ERRORS.is_set(state.config()))
    }

    /// As [`Atu::translate_short`].
    #[inline]
    pub(super) fn translate_short(&mut self, vpid: u8, nla: u64, len: u32, access: Access) -> Option<u64> {
        self.atu.translate_short(&*self.board.memory, vpid, nla, len, access)
    }

    /// What a unit works with for one of this card's VPIDs.
    #[inline]
    pub(super) fn context(&mut self, vpid: u8) -> Context<'_> {
        let board = &*self.board;
        Context {
            node: board.node,
            memory: &*board.memory,
            atu: &mut self.atu,
            counters: &board.counters,
            entry: board.state.entry(vpid),
            fragment: fragment::payload_of_mtu(board.state.config() as u16),
            force_errors: CONFIG_FORCE_ERRORS.is_set(board.state.config()),
        }
    }

    /// What a unit of `target` works with whose VPID is closed. It counts in `counters`.
    pub(super) fn context_of_closed<'a>(
        &'a mut self,
        target: &NodeState,
        counters: &'a crate::units::counters::Counters,
    ) -> Context<'a> {
        Context {
            node: target.node(),
            memory: &*self.board.memory,
            atu: &mut self.atu,
            counters,
            entry: VpidEntry::default(),
            fragment: fragment::payload_of_mtu(target.config() as u16),
            force_errors: CONFIG_FORCE_ERRORS.is_set(target.config()),
        }
    }

    /// A hold on memory in use by a transfer of this card; flushes wait for it.
    pub(super) fn hold(&mut self) -> (Hold, Arc<HoldState>) {
        if self.holds.len() >= 32 && self.holds.len() == self.holds.capacity() {
            self.holds.retain(|hold| !hold.is_done());
        }
        let (hold, state) = Hold::new(self.board.waker());
        self.holds.push(state.clone());
        (hold, state)
    }

    /// Whether a notify command waits.
    #[inline]
    pub(super) fn has_flushes(&self) -> bool {
        !self.flushes.is_empty()
    }

    /// A notify command: its word is written once everything that has begun is over (spec 4.2).
    fn notify_after_holds(&mut self, address: u64) {
        self.holds.retain(|hold| !hold.is_done());
        self.flushes.push(Flush { address, holds: self.holds.clone() });
        self.finish_flushes();
    }

    /// Answers notify commands whose transfers are over.
    pub(super) fn finish_flushes(&mut self) -> bool {
        let before = self.flushes.len();
        self.flushes.retain(|flush| {
            let over = flush.holds.iter().all(|hold| hold.is_done());
            if over {
                // An address outside declared memory is the driver's error; nobody waits there.
                let _ = self.board.memory.store(flush.address, 1);
            }
            !over
        });
        self.flushes.len() != before
    }

    /// Reads a register of the ATU; `None` for offsets of others.
    pub(super) fn reg_read(&self, offset: u64) -> Option<u64> {
        if offset == EXTOLL_RF_ATU_ENABLE {
            return Some(u64::from(self.atu.is_enabled()));
        }
        match element(offset, EXTOLL_RF_ATU_GAT, 8, 1024) {
            Some((i, 0)) => Some(self.atu.table(i).0),
            _ => None,
        }
    }

    /// Writes a register of the ATU; false for offsets of others.
    pub(super) fn reg_write(&mut self, offset: u64, value: u64) -> bool {
        if let Some((i, 0)) = element(offset, EXTOLL_RF_ATU_GAT, 8, 1024) {
            self.atu.set_table(i, GatRegister(value));
        } else if let Some((i, word)) = element(offset, EXTOLL_RF_ATU_PRELOAD, 16, 256) {
            self.preload(i as u64, word, value);
        } else if offset == EXTOLL_RF_ATU_ENABLE {
            self.atu.enable(value & 1 != 0);
        } else if offset == EXTOLL_RF_ATU_COMMAND {
            if let Some(address) = self.atu.command(value) {
                self.notify_after_holds(address);
            }
        } else {
            return false;
        }
        true
    }

    /// The second word of a preload carries it out.
    fn preload(&mut self, index: u64, word: u64, value: u64) {
        if word == 0 {
            self.preloads.insert(index, value);
        } else {
            let word0 = self.preloads.get(&index).copied().unwrap_or(0);
            self.atu.preload(word0, value);
        }
    }
}

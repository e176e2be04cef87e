//! From complete lines to requesters: what is accepted, what is rejected, who carries it out.

use std::sync::atomic::Ordering;

use extoll_abi::{VELO_LINE_WORDS, WcbState};

use super::Nic;
use super::bell::{self, RunList};
use super::chip::Chip;
use super::front::{Front, FrontEnd, Fronts, Posted};
use crate::units::velo::Message;
use crate::units::wcb::{self, Command};

/// What a requester carries out.
pub(super) trait Carried<const WORDS: usize>: Posted<WORDS> {
    fn fronts(front: &FrontEnd) -> &Fronts<Self, WORDS>;
    /// Whether the requester can take one of this VPID now.
    fn can_execute(chip: &Chip, vpid: u8) -> bool;
    fn execute(&self, chip: &mut Chip, vpid: u8);
}

impl Carried<3> for Command {
    #[inline]
    fn fronts(front: &FrontEnd) -> &Fronts<Command, 3> {
        &front.rma
    }

    #[inline]
    fn can_execute(chip: &Chip, vpid: u8) -> bool {
        chip.can_execute(vpid)
    }

    #[inline]
    fn execute(&self, chip: &mut Chip, vpid: u8) {
        chip.execute(vpid, self);
    }
}

impl Carried<VELO_LINE_WORDS> for Message {
    #[inline]
    fn fronts(front: &FrontEnd) -> &Fronts<Message, VELO_LINE_WORDS> {
        &front.velo
    }

    #[inline]
    fn can_execute(chip: &Chip, vpid: u8) -> bool {
        chip.velo.can_send(vpid)
    }

    #[inline]
    fn execute(&self, chip: &mut Chip, vpid: u8) {
        chip.velo.send(vpid, self);
    }
}

impl Nic {
    /// Accepts or rejects a complete line (spec 2.4) and sees to it that it is carried out.
    #[inline]
    pub(super) fn post<L: Carried<WORDS>, const WORDS: usize>(
        &self,
        front: &Front<L, WORDS>,
        vpid: u8,
        mut line: L,
    ) {
        let (fronts, register) = (L::fronts(&self.front), L::state(&self.board, vpid));
        let state = || WcbState(register.load(Ordering::Acquire));
        let commit = |accepted| {
            register.store(wcb::state_after(state(), accepted).0, Ordering::Release);
        };
        if !wcb::state_accepts(state()) {
            return commit(false);
        }
        line.aim(&self.board);
        let mut line = Some(line);
        let drive = |list: &RunList| {
            self.board.memory.session(&mut || {
                let Some(line) = line.take() else { return };
                match self.core.try_lock() {
                    // Nothing is before it: no need to queue.
                    Some(mut core) if front.is_empty() && L::can_execute(&core.chip, vpid) => {
                        commit(true);
                        line.execute(&mut core.chip, vpid);
                        core.note_work();
                        self.run_held(core);
                    }
                    Some(core) => {
                        let refused = fronts.push(front, vpid, line).err();
                        self.run_held(core);
                        // If there was no room, the run may have made some.
                        commit(refused.is_none_or(|line| fronts.push(front, vpid, line).is_ok()));
                        self.run();
                    }
                    None => {
                        commit(fronts.push(front, vpid, line).is_ok());
                        self.run();
                    }
                }
                list.run();
            });
        };
        if !(self.inline && bell::driving(drive))
            && let Some(line) = line
        {
            commit(fronts.push(front, vpid, line).is_ok());
            self.bell.summon_for_command();
        }
    }
}

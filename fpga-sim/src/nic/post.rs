//! From complete lines to requesters: what is accepted, what is rejected, who carries it out.

use std::sync::atomic::{AtomicU64, Ordering};

use extoll_abi::WcbState;

use super::Nic;
use super::bell::{self, RunList};
use super::core::Core;
use super::front::{Front, Fronts};
use crate::counters::WcbError;
use crate::wcb::{self, Command, Line};

/// What a requester is given: where it comes from, and how it is carried out.
pub(super) trait Posted<const WORDS: usize>: Line<WORDS> + 'static {
    fn fronts(nic: &Nic) -> &Fronts<Self, WORDS>;
    /// WCB state of a VPID.
    fn state(nic: &Nic, vpid: u8) -> &AtomicU64;
    /// Notes which process it is for: that may end before the command is carried out.
    fn aim(&mut self, _nic: &Nic) {}
    /// Whether the requester can take one of this VPID now.
    fn can_execute(core: &Core, vpid: u8) -> bool;
    fn execute(&self, core: &mut Core, nic: &Nic, vpid: u8);
    /// Timeout register of its WCBs.
    fn timeout(nic: &Nic) -> u64;
    /// Counts an error of its WCBs.
    fn count_error(nic: &Nic, error: WcbError, vpid: u8);
}

impl Posted<3> for Command {
    #[inline]
    fn fronts(nic: &Nic) -> &Fronts<Command, 3> {
        &nic.fronts
    }

    #[inline]
    fn state(nic: &Nic, vpid: u8) -> &AtomicU64 {
        nic.pages.wcb_state(vpid)
    }

    #[inline]
    fn aim(&mut self, nic: &Nic) {
        self.process = nic.fabric.process_at(self.descriptor.header().dst);
    }

    #[inline]
    fn can_execute(core: &Core, vpid: u8) -> bool {
        core.can_execute(vpid)
    }

    #[inline]
    fn execute(&self, core: &mut Core, nic: &Nic, vpid: u8) {
        core.execute(nic, vpid, self);
    }

    #[inline]
    fn timeout(nic: &Nic) -> u64 {
        nic.state.wcb_timeout()
    }

    #[cold]
    fn count_error(nic: &Nic, error: WcbError, vpid: u8) {
        nic.state.count_wcb_error(error, vpid);
        nic.wcb_failed();
    }
}

impl Nic {
    /// Accepts or rejects a complete line (spec 2.4) and sees to it that it is carried out.
    #[inline]
    pub(super) fn post<L: Posted<WORDS>, const WORDS: usize>(
        &self,
        front: &Front<L, WORDS>,
        vpid: u8,
        mut line: L,
    ) {
        let (fronts, register) = (L::fronts(self), L::state(self, vpid));
        let state = || WcbState(register.load(Ordering::Acquire));
        let commit = |accepted| {
            register.store(wcb::state_after(state(), accepted).0, Ordering::Release);
        };
        if !wcb::state_accepts(state()) {
            return commit(false);
        }
        line.aim(self);
        let mut line = Some(line);
        let drive = |list: &RunList| {
            self.memory.session(&mut || {
                let Some(line) = line.take() else { return };
                match self.core.try_lock() {
                    // Nothing is before it: no need to queue.
                    Some(mut core) if front.is_empty() && L::can_execute(&core, vpid) => {
                        commit(true);
                        line.execute(&mut core, self, vpid);
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
            self.bell.summon();
        }
    }
}

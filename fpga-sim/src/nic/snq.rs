//! The system notification queue's place in the card: its registers, what triggers it, where its entries and
//! interrupts go. Only in a card that has its node to itself: the kernel that drives a card runs no others.

use std::sync::atomic::{AtomicU64, Ordering};

use extoll_abi::{BqReadPointer, regs::*};

use super::Nic;
use super::core::Core;
use crate::snq::{Entry, Trigger};

/// Trigger of global interrupt 0 (spec 8.1, 8.2).
const GLOBAL_INTERRUPT: u64 = 0x45_0000;

impl Nic {
    /// Sets what an interrupt of the card does: it is called once for each, under the card's lock, and must neither
    /// wait nor call the card. The first call counts.
    pub fn on_interrupt(&self, raise: impl Fn() + Send + Sync + 'static) {
        // A second one has no effect, as documented.
        let _ = self.interrupt.set(Box::new(raise));
    }

    /// A WCB counted an error: the trigger is raised when the card runs next. From any thread.
    #[cold]
    pub(super) fn wcb_failed(&self) {
        if !self.state.is_shared() {
            self.wcb_errors.store(true, Ordering::Release);
            self.ask_driver(true);
        }
    }
}

impl Core {
    /// Reads a register of the queue; `None` for others, and where other processes share the node.
    pub(super) fn snq_read(&self, nic: &Nic, offset: u64) -> Option<u64> {
        if offset == EXTOLL_RF_INFO_TIMER && !nic.state.is_shared() {
            return Some(self.timer.read());
        }
        let ours = (EXTOLL_RF_SNQ_TRIGGER_ENABLE..EXTOLL_RF_SNQ_PROGRAM + 0x800).contains(&offset);
        (ours && !nic.state.is_shared()).then(|| self.snq.reg_read(offset).unwrap_or(0))
    }

    /// Writes a register of the queue, and notices writes to others that trigger it; false unless it was the queue's.
    pub(super) fn snq_write(&mut self, nic: &Nic, offset: u64, value: u64) -> bool {
        if nic.state.is_shared() {
            return false;
        }
        match offset {
            EXTOLL_RF_INFO_NETWORK_STATE if nic.state.read(offset) != Some(value) => {
                self.snq.raise(Trigger::NetworkState);
            }
            EXTOLL_RF_INFO_TIMER => {
                self.timer.write(value, nic.clock.now());
                return true;
            }
            GLOBAL_INTERRUPT if value & 1 != 0 => self.snq.raise(Trigger::Global),
            _ => {}
        }
        let ours = self.snq.reg_write(offset, value);
        // A new watermark may be one that was passed already.
        self.snq_interrupt(nic);
        ours
    }

    /// Whether the card has to look at the time, or at read pointers that drivers write without telling it.
    #[inline]
    pub(super) fn snq_watches(&self) -> bool {
        self.timer.runs() || self.snq_remembers()
    }

    /// Whether there are interrupts that follow once software arms them.
    #[inline]
    fn snq_remembers(&self) -> bool {
        self.snq.executes() && !(self.retrigger.is_empty() && self.velo_retrigger.is_empty())
    }

    /// Whether a WCB counted an error that no trigger was raised for.
    #[inline]
    pub(super) fn snq_alarmed(&self, nic: &Nic) -> bool {
        self.snq.executes() && nic.wcb_errors.load(Ordering::Relaxed)
    }

    /// Raises interrupts that were remembered until software arms them, and runs the next trigger's program.
    pub(super) fn snq_step(&mut self, nic: &Nic) -> bool {
        let mut moved = false;
        if self.timer.runs() && self.timer.take(nic.clock.now()) {
            self.snq.raise(Trigger::Timer);
            moved = true;
        }
        if self.snq_alarmed(nic) {
            nic.wcb_errors.store(false, Ordering::Relaxed);
            self.snq.raise(Trigger::WcbError);
            moved = true;
        }
        if self.snq_remembers() {
            moved |= self.retrigger_armed(nic);
        }
        if self.snq.is_ready() {
            self.snq_run(nic);
            moved = true;
        }
        moved
    }

    /// An interrupt that was remembered follows once software arms it, unless it has read everything by then: it
    /// would take the arming from what comes next \[inferred\].
    fn retrigger_armed(&mut self, nic: &Nic) -> bool {
        let mut moved = false;
        for vpid in self.retrigger.iter_from(0) {
            let register = nic.pages.rp(vpid);
            let Some(rp) = armed(register) else { continue };
            self.retrigger.set(vpid, false);
            moved = true;
            if !self.port(vpid).queue.is_empty(rp) && take_armed(register) {
                self.interrupts.set(vpid, true);
                self.snq.raise(Trigger::RmaNotification);
            }
        }
        for vpid in self.velo_retrigger.iter_from(0) {
            let register = nic.pages.velo_rp(vpid);
            let Some(rp) = armed(register) else { continue };
            self.velo_retrigger.set(vpid, false);
            moved = true;
            if !self.velo.is_read(vpid, rp) && take_armed(register) {
                self.snq.raise(Trigger::VeloNotification);
            }
        }
        moved
    }

    /// A VELO message with the interrupt bit was written, or may have been: as for notifications (spec 3.2, 3.3)
    /// \[inferred\].
    pub(super) fn velo_interrupt(&mut self, nic: &Nic, vpid: u8) {
        if take_armed(nic.pages.velo_rp(vpid)) {
            self.snq.raise(Trigger::VeloNotification);
        } else {
            self.velo_retrigger.set(vpid, true);
        }
    }

    fn snq_run(&mut self, nic: &Nic) {
        // Its program reads registers, which needs the core; its own it cannot read.
        let mut snq = std::mem::take(&mut self.snq);
        let write = |entry: Entry| {
            // Memory that is not there is the driver's error; nobody can be told.
            let mut bytes = [0; 64];
            let words = bytes.as_chunks_mut::<8>().0.iter_mut().zip(entry.word);
            words.for_each(|(to, word)| *to = word.to_le_bytes());
            let _ = nic.memory.write(entry.address, &bytes);
        };
        let time = nic.state.read(EXTOLL_RF_INFO_TSC).unwrap_or(0);
        snq.run(time, |offset| self.reg_read(nic, offset), write);
        self.snq = snq;
        self.snq_interrupt(nic);
    }

    fn snq_interrupt(&mut self, nic: &Nic) {
        if self.snq.take_interrupt()
            && let Some(raise) = nic.interrupt.get()
        {
            raise();
        }
    }
}

/// The read pointer, where software allows the next interrupt.
fn armed(register: &AtomicU64) -> Option<BqReadPointer> {
    let rp = BqReadPointer(register.load(Ordering::Acquire));
    (rp.0 & BqReadPointer::new(0, true).0 != 0).then_some(rp)
}

/// Takes the bit by which software allows the next interrupt (spec 3.2); false where it is not set.
pub(super) fn take_armed(rp: &AtomicU64) -> bool {
    let armed = BqReadPointer::new(0, true).0;
    rp.fetch_and(!armed, Ordering::AcqRel) & armed != 0
}

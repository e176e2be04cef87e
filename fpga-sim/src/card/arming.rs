//! Interrupts of queues: each follows once software allows it by its read pointer's arming bit (spec 3.2, 3.3).

use std::sync::atomic::{AtomicU64, Ordering};

use extoll_abi::BqReadPointer;

use crate::units::bits::VpidSet;

/// VPIDs with an interrupt that software has not armed yet, of the notification queues or of the mailboxes
/// \[inferred: mailboxes as queues\].
#[derive(Default)]
pub(super) struct Unarmed(VpidSet);

impl Unarmed {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// 64 VPIDs, as the card's register shows them.
    pub(super) fn word(&self, i: usize) -> u64 {
        self.0.word(i)
    }

    pub(super) fn forget(&mut self, vpid: u8) {
        self.0.set(vpid, false);
    }

    /// Whether a VPID's interrupt is to be raised now, which takes the arming; else it is remembered.
    pub(super) fn take_or_remember(&mut self, vpid: u8, register: &AtomicU64) -> bool {
        let armed = take_armed(register);
        if !armed {
            self.0.set(vpid, true);
        }
        armed
    }

    /// Raises what was remembered and is armed now, unless software has read everything by then: that would take the
    /// arming from what comes next \[inferred\]. Says whether any VPID was armed.
    pub(super) fn retrigger<'a>(
        &mut self,
        register: impl Fn(u8) -> &'a AtomicU64,
        mut is_read: impl FnMut(u8, BqReadPointer) -> bool,
        mut raise: impl FnMut(u8),
    ) -> bool {
        let mut moved = false;
        for vpid in self.0.iter_from(0) {
            let register = register(vpid);
            let Some(rp) = armed(register) else { continue };
            self.0.set(vpid, false);
            moved = true;
            if !is_read(vpid, rp) && take_armed(register) {
                raise(vpid);
            }
        }
        moved
    }
}

/// The read pointer, where software allows the next interrupt.
fn armed(register: &AtomicU64) -> Option<BqReadPointer> {
    let rp = BqReadPointer(register.load(Ordering::Acquire));
    (rp.0 & BqReadPointer::new(0, true).0 != 0).then_some(rp)
}

/// Takes the bit by which software allows the next interrupt (spec 3.2); false where it is not set.
fn take_armed(rp: &AtomicU64) -> bool {
    let armed = BqReadPointer::new(0, true).0;
    rp.fetch_and(!armed, Ordering::AcqRel) & armed != 0
}

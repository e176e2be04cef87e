//! Registers of the VELO unit: those of a VPID (spec 7, 8).

use std::sync::atomic::Ordering;

use extoll_abi::{BqSegment, BqTable, regs};

use super::Nic;
use super::core::Core;
use super::registers::{array, page};
use crate::velo::RxDesc;

impl Core {
    /// Reads a register of a VPID; `None` for offsets of others.
    pub(super) fn velo_read(&mut self, nic: &Nic, offset: u64) -> Option<u64> {
        use regs::*;
        if let Some(v) = page(offset, EXTOLL_RF_VELO_WCB_STATE) {
            return Some(nic.pages.velo_wcb_state(v).load(Ordering::Acquire));
        }
        if let Some(v) = page(offset, EXTOLL_RF_BQ_VELO_RP) {
            return Some(nic.pages.velo_rp(v).load(Ordering::Acquire));
        }
        let (base, v) = queue_register(offset)?;
        let Some(port) = self.velo.known(v) else { return Some(0) };
        Some(match base {
            EXTOLL_RF_BQ_VELO_UB => port.mailbox.ub,
            EXTOLL_RF_BQ_VELO_DCQ => port.mailbox.table.0,
            EXTOLL_RF_BQ_VELO_CURRENT => port.mailbox.current.0,
            EXTOLL_RF_BQ_VELO_NEXT => port.mailbox.next.0,
            _ => port.mailbox.write_pointer(),
        })
    }

    /// Writes a register of a VPID; false for offsets of others. What belongs to a VPID that another process of the
    /// node serves stays as it is.
    pub(super) fn velo_write(&mut self, nic: &Nic, offset: u64, value: u64) -> bool {
        use regs::*;
        if let Some(v) = page(offset, EXTOLL_RF_VELO_WCB_STATE) {
            if nic.state.serves(v) {
                nic.velo_fronts.reset(v, false);
                nic.pages.velo_wcb_state(v).store(value, Ordering::Release);
            }
        } else if let Some(v) = page(offset, EXTOLL_RF_BQ_VELO_RP) {
            if nic.state.serves(v) {
                nic.pages.velo_rp(v).store(value, Ordering::Release);
            }
        } else if let Some(v) = array(offset, EXTOLL_RF_VELO_RX) {
            let was_open = nic.state.set_velo_rx(v, RxDesc(value)).has_mailbox();
            if was_open && !RxDesc(value).has_mailbox() {
                self.velo_close(nic, v);
            }
        } else if let Some((base, v)) = queue_register(offset) {
            if nic.state.serves(v) {
                self.velo_queue_write(base, v, value);
            }
        } else {
            return false;
        }
        true
    }

    fn velo_queue_write(&mut self, base: u64, vpid: u8, value: u64) {
        use regs::*;
        let mailbox = &mut self.velo.port(vpid).mailbox;
        match base {
            EXTOLL_RF_BQ_VELO_UB => mailbox.ub = value,
            EXTOLL_RF_BQ_VELO_DCQ => mailbox.table = BqTable(value),
            EXTOLL_RF_BQ_VELO_CURRENT => mailbox.current = BqSegment(value),
            EXTOLL_RF_BQ_VELO_NEXT => mailbox.next = BqSegment(value),
            _ => mailbox.set_write_pointer(value),
        }
    }
}

/// A register of a mailbox's queue: its array, and which VPID.
fn queue_register(offset: u64) -> Option<(u64, u8)> {
    use regs::*;
    let in_queues = (EXTOLL_RF_BQ_VELO_UB..EXTOLL_RF_BQ_VELO_WP + 0x800).contains(&offset);
    in_queues.then_some((offset & !0x7ff, (offset >> 3) as u8))
}

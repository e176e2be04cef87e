//! The register file: which unit answers at which offset (spec 8).

use std::sync::atomic::Ordering;

use extoll_abi::regs::*;
use extoll_abi::{BqSegment, BqTable, GatRegister};

use super::Nic;
use super::core::Core;
use crate::vpid::VpidEntry;

fn element(offset: u64, base: u64, stride: u64, count: u64) -> Option<(usize, u64)> {
    let from = offset.checked_sub(base)?;
    (from < stride * count).then_some(((from / stride) as usize, from % stride))
}

/// VPID of a register array of eight bytes each.
pub(super) fn array(offset: u64, base: u64) -> Option<u8> {
    element(offset, base, 8, 256).filter(|(_, rest)| *rest == 0).map(|(i, _)| i as u8)
}

/// VPID of a page of its own.
pub(super) fn page(offset: u64, base: u64) -> Option<u8> {
    element(offset, base, 4096, 256).filter(|(_, rest)| *rest == 0).map(|(i, _)| i as u8)
}

impl Core {
    pub(super) fn reg_read(&mut self, nic: &Nic, offset: u64) -> u64 {
        if !offset.is_multiple_of(8) {
            return 0; // 64-bit accesses only (spec 1.2)
        }
        if let Some(value) = self.snq_read(nic, offset) {
            return value;
        }
        if let Some(value) = nic.smfu.reg_read(offset).or_else(|| nic.state.read(offset)) {
            return value;
        }
        if let Some(v) = page(offset, EXTOLL_RF_RMA_WCB_STATE) {
            return nic.pages.wcb_state(v).load(Ordering::Acquire);
        }
        if let Some(v) = page(offset, EXTOLL_RF_BQ_RMA_RP) {
            return nic.pages.rp(v).load(Ordering::Acquire);
        }
        if let Some((i, 0)) = element(offset, EXTOLL_RF_ATU_GAT, 8, 1024) {
            return self.atu.table(i).0;
        }
        if (EXTOLL_RF_BQ_RMA_UB..EXTOLL_RF_BQ_RMA_WP + 0x800).contains(&offset) {
            return self.queue_read(offset);
        }
        self.read_single(nic, offset)
    }

    fn read_single(&mut self, nic: &Nic, offset: u64) -> u64 {
        match offset {
            EXTOLL_RF_ATU_ENABLE => return u64::from(self.atu.is_enabled()),
            EXTOLL_RF_RMA_LOCK_BASE => return self.lock_base,
            _ => {}
        }
        if let Some((i, 0)) = element(offset, EXTOLL_RF_RMA_INT_VEC, 8, 4) {
            return self.interrupts.take_word(i); // read by the interrupt's microcode: taken [inferred]
        }
        if let Some((i, 0)) = element(offset, EXTOLL_RF_RMA_INT_RETRIG_VEC, 8, 4) {
            return self.retrigger.word(i);
        }
        self.velo_read(nic, offset).or_else(|| nic.fabric.reg_read(self.node, offset)).unwrap_or(0)
    }

    pub(super) fn reg_write(&mut self, nic: &Nic, offset: u64, value: u64) {
        if !offset.is_multiple_of(8) {
            return;
        }
        if let Some(v) = page(offset, EXTOLL_RF_RMA_WCB_STATE) {
            if nic.state.serves(v) {
                nic.fronts.reset(v, false);
                nic.pages.wcb_state(v).store(value, Ordering::Release);
            }
            return;
        }
        if let Some(v) = page(offset, EXTOLL_RF_BQ_RMA_RP) {
            if nic.state.serves(v) {
                nic.pages.rp(v).store(value, Ordering::Release);
            }
            return;
        }
        if let Some(v) = array(offset, EXTOLL_RF_RMA_VPID_TABLE) {
            let was_open = nic.state.set_entry(v, VpidEntry(value)).is_open();
            if was_open && !VpidEntry(value).is_open() {
                self.close(nic, v);
            }
            return;
        }
        if self.velo_write(nic, offset, value) {
            return;
        }
        if let Some((i, 0)) = element(offset, EXTOLL_RF_ATU_GAT, 8, 1024) {
            return self.atu.set_table(i, GatRegister(value));
        }
        if let Some((i, word)) = element(offset, EXTOLL_RF_ATU_PRELOAD, 16, 256) {
            return self.preload(i as u64, word, value);
        }
        if (EXTOLL_RF_BQ_RMA_UB..EXTOLL_RF_BQ_RMA_WP + 0x800).contains(&offset) {
            return self.queue_write(nic, offset, value);
        }
        self.write_single(nic, offset, value);
    }

    fn write_single(&mut self, nic: &Nic, offset: u64, value: u64) {
        match offset {
            EXTOLL_RF_ATU_ENABLE => self.atu.enable(value & 1 != 0),
            EXTOLL_RF_ATU_COMMAND => {
                if let Some(address) = self.atu.command(value) {
                    self.notify_after_holds(nic, address);
                }
            }
            EXTOLL_RF_RMA_LOCK_BASE => self.lock_base = value & !0xfff,
            _ => {
                // Unknown and read-only registers ignore it.
                let _ = self.snq_write(nic, offset, value)
                    || nic.smfu.reg_write(offset, value)
                    || nic.state.write(offset, value)
                    || nic.fabric.reg_write(self.node, offset, value);
            }
        }
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

    fn queue_read(&mut self, offset: u64) -> u64 {
        let (array, v) = queue_register(offset);
        let Some(port) = &self.ports[usize::from(v)] else { return 0 };
        match array {
            EXTOLL_RF_BQ_RMA_UB => port.queue.ub,
            EXTOLL_RF_BQ_RMA_DCQ => port.queue.table.0,
            EXTOLL_RF_BQ_RMA_CURRENT => port.queue.current.0,
            EXTOLL_RF_BQ_RMA_NEXT => port.queue.next.0,
            _ => port.queue.write_pointer(),
        }
    }

    fn queue_write(&mut self, nic: &Nic, offset: u64, value: u64) {
        let (array, v) = queue_register(offset);
        if !nic.state.serves(v) {
            return;
        }
        let queue = &mut self.port(v).queue;
        match array {
            EXTOLL_RF_BQ_RMA_UB => queue.ub = value,
            EXTOLL_RF_BQ_RMA_DCQ => queue.table = BqTable(value),
            EXTOLL_RF_BQ_RMA_CURRENT => queue.current = BqSegment(value),
            EXTOLL_RF_BQ_RMA_NEXT => queue.next = BqSegment(value),
            _ => queue.set_write_pointer(value),
        }
    }
}

/// Which array of queue registers, and which VPID.
fn queue_register(offset: u64) -> (u64, u8) {
    (offset & !0x7ff, (offset >> 3) as u8)
}

//! The register file: which unit answers at which offset (spec 8).

use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use extoll_abi::regs::*;
use extoll_abi::{BqSegment, BqTable, GatRegister};

use super::Nic;
use super::core::Core;
use crate::lock::Locks;
use crate::vpid::VpidEntry;

/// info.driver: version of the model's register file.
const VERSION: u64 = 2;

/// Registers without a function in the model: they keep what is written (spec 8.1).
const PLAIN: [std::ops::Range<u64>; 9] = [
    0x4000..0x6400,         // PCIe core
    0x8010..0x8090,         // info: addresses, time, scratchpads, timer
    0x8800..0x9400,         // I2C, GPIO, HTAX bridge
    0x9400..0x9600,         // network ports
    0x1_0000..0x1_1000,     // SNQ and its program
    0x44_0000..0x45_4100,   // barrier, global interrupts
    0xc0_0000..0xc0_3000,   // buffer queues of VELO
    0x120_0000..0x120_1900, // VELO
    0x150_0018..0x150_0020, // WCB
];

fn element(offset: u64, base: u64, stride: u64, count: u64) -> Option<(usize, u64)> {
    let from = offset.checked_sub(base)?;
    (from < stride * count).then_some(((from / stride) as usize, from % stride))
}

/// VPID of a register array of eight bytes each.
fn vpid(offset: u64, base: u64) -> Option<u8> {
    element(offset, base, 8, 256).filter(|(_, rest)| *rest == 0).map(|(i, _)| i as u8)
}

/// VPID of a page of its own.
fn page(offset: u64, base: u64) -> Option<u8> {
    element(offset, base, 4096, 256).filter(|(_, rest)| *rest == 0).map(|(i, _)| i as u8)
}

impl Core {
    pub(super) fn reg_read(&mut self, nic: &Nic, offset: u64) -> u64 {
        if !offset.is_multiple_of(8) {
            return 0; // 64-bit accesses only (spec 1.2)
        }
        if let Some(value) = self.counters.read(offset) {
            return value;
        }
        if let Some(v) = page(offset, EXTOLL_RF_RMA_WCB_STATE) {
            return nic.pages.wcb_state(v).load(Ordering::Acquire);
        }
        if let Some(v) = page(offset, EXTOLL_RF_BQ_RMA_RP) {
            return nic.pages.rp(v).load(Ordering::Acquire);
        }
        if let Some(v) = vpid(offset, EXTOLL_RF_RMA_VPID_TABLE) {
            return self.vpids[usize::from(v)].0;
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
        let errors = &nic.fronts.errors;
        let atu = self.atu.counts();
        let two = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
        match offset {
            EXTOLL_RF_INFO_DRIVER => VERSION,
            EXTOLL_RF_INFO_NODE => INFO_NODE.put(u64::from(self.node)) | INFO_VPIDS.put(EXTOLL_VPIDS),
            EXTOLL_RF_INFO_TSC => tsc(),
            EXTOLL_RF_ATU_ENABLE => u64::from(self.atu.is_enabled()),
            0xc010 => two(atu.translations, atu.memory_reads),
            0xc018 => two(atu.preloads, 0),
            0xc020 => two(atu.flushes, atu.flushes_all),
            0xc028 => two(atu.notifications, atu.fences),
            EXTOLL_RF_BQ_RMA_GENERAL => self.bq_general,
            EXTOLL_RF_RMA_WCB_TIMEOUT => nic.fronts.timeout(),
            EXTOLL_RF_RMA_WCB_ERRORS => {
                let count =
                    |c: &std::sync::atomic::AtomicU32| u64::from(c.load(Ordering::Relaxed).min(0xffff));
                count(&errors.length) | count(&errors.too_long) << 16 | count(&errors.unaligned) << 32
            }
            EXTOLL_RF_RMA_WCB_ERRORS_2 => u64::from(errors.vpid.load(Ordering::Relaxed)),
            EXTOLL_RF_RMA_CONFIG => self.config,
            EXTOLL_RF_RMA_LOCK_BASE => self.locks.base,
            EXTOLL_RF_RMA_LOCK_CONFIG => self.locks.config,
            EXTOLL_RF_RMA_BQ_TIMEOUT => self.bq_timeout_register,
            _ => self.read_rest(nic, offset),
        }
    }

    fn read_rest(&mut self, nic: &Nic, offset: u64) -> u64 {
        if let Some((i, 0)) = element(offset, EXTOLL_RF_RMA_INT_VEC, 8, 4) {
            return self.interrupts.take_word(i); // read by the interrupt's microcode: taken [inferred]
        }
        if let Some((i, 0)) = element(offset, EXTOLL_RF_RMA_INT_RETRIG_VEC, 8, 4) {
            return self.retrigger.word(i);
        }
        if let Some(value) = nic.smfu.reg_read(offset).or_else(|| nic.fabric.reg_read(self.node, offset)) {
            return value;
        }
        self.plain.get(&offset).copied().unwrap_or(0)
    }

    pub(super) fn reg_write(&mut self, nic: &Nic, offset: u64, value: u64) {
        if !offset.is_multiple_of(8) || self.counters.write(offset, value) {
            return;
        }
        if let Some(v) = page(offset, EXTOLL_RF_RMA_WCB_STATE) {
            nic.fronts.reset(v, false);
            return nic.pages.wcb_state(v).store(value, Ordering::Release);
        }
        if let Some(v) = page(offset, EXTOLL_RF_BQ_RMA_RP) {
            return nic.pages.rp(v).store(value, Ordering::Release);
        }
        if let Some(v) = vpid(offset, EXTOLL_RF_RMA_VPID_TABLE) {
            let was_open = std::mem::replace(&mut self.vpids[usize::from(v)], VpidEntry(value)).is_open();
            if was_open && !VpidEntry(value).is_open() {
                self.close(nic, v);
            }
            return;
        }
        if let Some((i, 0)) = element(offset, EXTOLL_RF_ATU_GAT, 8, 1024) {
            return self.atu.set_table(i, GatRegister(value));
        }
        if let Some((i, word)) = element(offset, EXTOLL_RF_ATU_PRELOAD, 16, 256) {
            return self.preload(i as u64, word, value);
        }
        if (EXTOLL_RF_BQ_RMA_UB..EXTOLL_RF_BQ_RMA_WP + 0x800).contains(&offset) {
            return self.queue_write(offset, value);
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
            EXTOLL_RF_BQ_RMA_GENERAL => self.bq_general = value,
            EXTOLL_RF_RMA_WCB_TIMEOUT => nic.fronts.set_timeout(value),
            EXTOLL_RF_RMA_CONFIG => self.config = value,
            EXTOLL_RF_RMA_LOCK_BASE => self.locks = Locks { base: value & !0xfff, ..self.locks },
            EXTOLL_RF_RMA_LOCK_CONFIG => self.locks.config = value,
            EXTOLL_RF_RMA_BQ_TIMEOUT => self.bq_timeout_register = value,
            _ if nic.smfu.reg_write(offset, value) || nic.fabric.reg_write(self.node, offset, value) => {}
            _ if PLAIN.iter().any(|range| range.contains(&offset)) => {
                self.plain.insert(offset, value);
            }
            _ => {}
        }
    }

    /// The second word of a preload carries it out.
    fn preload(&mut self, index: u64, word: u64, value: u64) {
        let first = EXTOLL_RF_ATU_PRELOAD + EXTOLL_RF_ATU_PRELOAD_STRIDE * index;
        if word == 0 {
            self.plain.insert(first, value);
        } else {
            let word0 = self.plain.get(&first).copied().unwrap_or(0);
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

    fn queue_write(&mut self, offset: u64, value: u64) {
        let (array, v) = queue_register(offset);
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

/// Time stamp counter: microseconds, 48 bits.
fn tsc() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_micros() as u64 & 0xffff_ffff_ffff
}

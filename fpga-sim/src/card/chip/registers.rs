//! The register file: which unit a register is of. A part of [`Chip`].

use std::cell::RefCell;

use extoll_abi::regs;

use super::super::access::write_registers;
use super::super::offsets::array;
use super::Chip;
use crate::packet::Packet;
use crate::units::smfu::RegisterFile;
use crate::units::vpid::VpidEntry;

impl Chip {
    /// A put to registers.
    pub(super) fn write_registers(&mut self, packet: &mut Packet) {
        let board = self.board.clone();
        let write = |at, word| self.reg_write(at, word);
        if write_registers(&*board.memory, packet, write).is_err() {
            self.receiver.fail(packet);
        }
        self.receiver.report(&mut self.translation, &mut self.notifier, packet);
    }

    /// Reads a register by its offset in BAR 0 (spec 8); 64-bit accesses only (spec 1.2). Unknown ones read 0.
    pub(in super::super) fn reg_read(&mut self, offset: u64) -> u64 {
        if !offset.is_multiple_of(8) {
            return 0;
        }
        let board = &self.board;
        self.system
            .reg_read(offset)
            .or_else(|| board.smfu.reg_read(offset))
            .or_else(|| board.state.read(offset))
            .or_else(|| self.front.reg_read(offset))
            .or_else(|| self.translation.reg_read(offset))
            .or_else(|| self.notifier.reg_read(offset))
            .or_else(|| (offset == regs::EXTOLL_RF_RMA_LOCK_BASE).then_some(self.lock_base))
            .or_else(|| self.velo.reg_read(offset))
            .or_else(|| self.triggers.reg_read(offset))
            .or_else(|| board.fabric.reg_read(board.node, offset))
            .unwrap_or(0)
    }

    /// Writes a register. Unknown and read-only ones ignore it.
    pub(in super::super) fn reg_write(&mut self, offset: u64, value: u64) {
        if !offset.is_multiple_of(8) {
            return;
        }
        if let Some(v) = array(offset, regs::EXTOLL_RF_RMA_VPID_TABLE) {
            return self.set_entry(v, VpidEntry(value));
        }
        if offset == regs::EXTOLL_RF_RMA_LOCK_BASE {
            self.lock_base = value & !0xfff;
            return;
        }
        let board = &self.board;
        let _ = self.front.reg_write(offset, value)
            || self.notifier.reg_write(offset, value)
            || self.velo.reg_write(offset, value)
            || self.triggers.reg_write(offset, value)
            || self.translation.reg_write(offset, value)
            || self.system.reg_write(offset, value)
            || board.smfu.reg_write(offset, value)
            || board.state.write(offset, value)
            || board.fabric.reg_write(board.node, offset, value);
    }

    fn set_entry(&mut self, vpid: u8, entry: VpidEntry) {
        let was_open = self.board.state.set_entry(vpid, entry).is_open();
        if was_open && !entry.is_open() {
            self.front.rma.reset(vpid, true);
            self.triggers.close(vpid);
            self.sender.close(vpid);
            self.receiver.close(vpid);
            self.notifier.close(vpid);
        }
    }
}

/// The card's registers, for accesses through the SMFU by other nodes.
pub(super) struct File<'a>(pub(super) RefCell<&'a mut Chip>);

impl RegisterFile for File<'_> {
    fn read(&self, offset: u64) -> u64 {
        self.0.borrow_mut().reg_read(offset)
    }

    fn write(&self, offset: u64, value: u64) {
        self.0.borrow_mut().reg_write(offset, value);
    }
}

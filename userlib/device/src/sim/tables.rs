//! Translation tables of one node (spec 4.1, 4.2): 2 MiB of entries each, made when first needed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use extoll_abi::{GatRegister, Gate, Nla, regs};
use extoll_sim::{HostMemory, Nic, RangeKind};

use crate::ranges::Ranges;
use crate::{DeviceError, HostBuffer};

/// Entries of a table.
const ENTRIES: u64 = Nla::ENTRIES as u64;
/// Bytes, and alignment, of a table.
const TABLE_BYTES: usize = 2 << 20;
/// Tables of each class and the pages below which a region belongs to it (spec 4.2).
const CLASSES: [(u64, u64, u64); 4] = [(0, 4, 32), (4, 16, 1024), (16, 80, ENTRIES), (80, 192, u64::MAX)];

/// Contiguous translation entries: `pages` of them from global entry `first` on (table * 2^18 + entry).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entries {
    pub(super) first: u64,
    pub(super) pages: u64,
}

/// The tables of one node and which entries are free.
pub(super) struct Tables {
    nic: Arc<Nic>,
    memory: Arc<HostMemory>,
    classes: [Ranges; CLASSES.len()],
    tables: BTreeMap<u64, HostBuffer>,
}

impl Tables {
    pub(super) fn new(nic: Arc<Nic>, memory: Arc<HostMemory>) -> Tables {
        let classes = CLASSES.map(|(from, to, _)| Ranges::new(from * ENTRIES, to * ENTRIES));
        Tables { nic, memory, classes, tables: BTreeMap::new() }
    }

    /// Reserves entries for `pages` pages and makes the tables that hold them.
    pub(super) fn reserve(&mut self, pages: u64) -> Result<Entries, DeviceError> {
        let none = DeviceError::NoTable { node: self.nic.node(), pages };
        let class = class_of(pages);
        let Some(first) = self.classes[class].take(pages) else { return Err(none) };
        let entries = Entries { first, pages };
        for table in first / ENTRIES..=(first + pages - 1) / ENTRIES {
            if let Err(error) = self.make_table(table) {
                self.classes[class].give(first, pages);
                return Err(error);
            }
        }
        Ok(entries)
    }

    /// Gives reserved entries back; they are invalid.
    pub(super) fn free(&mut self, entries: Entries) {
        self.classes[class_of(entries.pages)].give(entries.first, entries.pages);
    }

    /// Writes the translation of page `page` of the reserved range.
    pub(super) fn set(&self, entries: Entries, page: u64, gate: Gate) {
        let at = entries.first + page;
        if let Some(table) = self.tables.get(&(at / ENTRIES)) {
            // The card reads entries whenever it likes; release: the memory behind was prepared before.
            table.word((at % ENTRIES) as usize * 8).store(gate.0, Ordering::Release);
        }
    }

    fn make_table(&mut self, table: u64) -> Result<(), DeviceError> {
        if self.tables.contains_key(&table) {
            return Ok(());
        }
        let what = "a translation table";
        let buffer = HostBuffer::private(TABLE_BYTES, TABLE_BYTES, what)?;
        // One entry in use must not cost a whole huge page.
        buffer.small_pages_only();
        let refused =
            |_| DeviceError::Memory { what, bytes: TABLE_BYTES, source: std::io::ErrorKind::Other.into() };
        // SAFETY: the table lives as long as `self`, whose drop takes the range back first.
        unsafe { self.memory.add_range(RangeKind::Host, buffer.address(), TABLE_BYTES) }.map_err(refused)?;
        if let Ok(register) = GatRegister::new(buffer.address()) {
            self.nic.reg_write(regs::gat(table as u32), register.0);
        }
        self.tables.insert(table, buffer);
        Ok(())
    }
}

impl Drop for Tables {
    fn drop(&mut self) {
        for (number, table) in std::mem::take(&mut self.tables) {
            self.nic.reg_write(regs::gat(number as u32), GatRegister::INVALID.0);
            if self.memory.remove_range(table.address(), TABLE_BYTES).is_err() {
                std::mem::forget(table);
            }
        }
    }
}

/// The class of tables that serves a region of `pages` pages.
fn class_of(pages: u64) -> usize {
    CLASSES.iter().position(|(_, _, below)| pages < *below).unwrap_or(CLASSES.len() - 1)
}

//! Registered memory of a node: translation tables in memory of its processor (spec 4.1).

use std::collections::HashMap;
use std::mem::offset_of;

use extoll_abi::{Access, Gate, Nla, PageSize};
use ggas_kernels::args::{ENGINE_TABLE_ROWS, engine_node};
use ggas_kernels::{KernelMem, Mapped, Processor};

use super::memory::State;
use super::{refused, store_words};
use crate::ranges::Ranges;
use crate::{DeviceError, PAGE, Place, Span};

/// Entries of a table.
const ENTRIES: u64 = Nla::ENTRIES as u64;

/// A registered region.
struct Region {
    vpid: u8,
    /// First page of the NLA range.
    first: u64,
    pages: u64,
    /// Host memory that a GPU uses.
    _mapped: Option<Mapped>,
}

/// All registered memory of one node.
pub(super) struct Regions {
    node: u16,
    processor: Processor,
    free: Ranges,
    tables: HashMap<u64, KernelMem>,
    /// By the NLA of the first byte.
    regions: HashMap<u64, Region>,
}

impl Regions {
    pub(super) fn new(node: u16, processor: &Processor) -> Regions {
        let free = Ranges::new(0, u64::from(ENGINE_TABLE_ROWS).pow(2) * ENTRIES);
        let processor = processor.clone();
        Regions { node, processor, free, tables: HashMap::new(), regions: HashMap::new() }
    }

    /// Registers `span` for `vpid`; returns the NLA of its first byte.
    pub(super) fn register(
        &mut self,
        state: &State,
        vpid: u8,
        span: &Span,
        access: Access,
    ) -> Result<u64, DeviceError> {
        let Pages { first, count } = Pages::of(span)?;
        let bad = || DeviceError::BadSpan { address: span.address, len: span.len };
        let mapped = match (&self.processor, &span.place) {
            (Processor::Cpu(_), _) => None,
            (_, Place::Gpu(_)) => None,
            (_, Place::DmaBuf(_)) => return Err(DeviceError::DmaBuf { kind: crate::Kind::Nvlink }),
            (processor, Place::Host) => {
                let start = first as *mut u8;
                // SAFETY: who registers promises that the memory stays until it is unregistered.
                let mapped = unsafe { processor.map_host(start, count as usize * PAGE) };
                Some(mapped.map_err(refused("registered host memory"))?)
            }
        };
        let at = mapped.as_ref().map_or(first, Mapped::address);
        let gate =
            |page: u64| Gate::new(vpid, access, at + page * PAGE as u64, PageSize::K4).map_err(|_| bad());
        gate(count - 1)?;
        let none = DeviceError::NoTable { node: self.node, pages: count };
        let page = self.free.take(count).ok_or(none)?;
        let written = (page / ENTRIES..=(page + count - 1) / ENTRIES)
            .try_for_each(|table| self.make_table(state, table))
            .and_then(|()| self.set(page, count, gate));
        if let Err(error) = written {
            self.free.give(page, count);
            return Err(error);
        }
        let nla = page * PAGE as u64 + (span.address - first);
        self.regions.insert(nla, Region { vpid, first: page, pages: count, _mapped: mapped });
        Ok(nla)
    }

    /// Makes the region of `vpid` at `nla` unreachable for commands that begin from now on.
    pub(super) fn invalidate(&mut self, vpid: u8, nla: u64) -> Result<(), DeviceError> {
        match self.regions.get(&nla) {
            Some(&Region { vpid: owner, first, pages, .. }) if owner == vpid => {
                self.set(first, pages, |_| Ok(Gate::INVALID))
            }
            _ => Err(DeviceError::NotRegistered { nla }),
        }
    }

    /// Forgets a region that the engine uses no more.
    pub(super) fn forget(&mut self, nla: u64) {
        if let Some(region) = self.regions.remove(&nla) {
            self.free.give(region.first, region.pages);
        }
    }

    /// The regions of `vpid`.
    pub(super) fn of(&self, vpid: u8) -> Vec<u64> {
        self.regions.iter().filter(|(_, region)| region.vpid == vpid).map(|(nla, _)| *nla).collect()
    }

    /// Writes the translations of pages from `first` on, of which gate(i) is the i-th.
    fn set(
        &self,
        first: u64,
        count: u64,
        gate: impl Fn(u64) -> Result<Gate, DeviceError>,
    ) -> Result<(), DeviceError> {
        let mut done = 0;
        while done < count {
            let (table, entry) = ((first + done) / ENTRIES, (first + done) % ENTRIES);
            let part = (count - done).min(ENTRIES - entry);
            let gates = (done..done + part).map(|page| gate(page).map(|gate| gate.0));
            let gates = gates.collect::<Result<Vec<_>, _>>()?;
            if let Some(memory) = self.tables.get(&table) {
                store_words(memory, 8 * entry as usize, &gates).map_err(refused("translations"))?;
            }
            done += part;
        }
        Ok(())
    }

    /// Tables stay until the node goes: engines keep their addresses.
    fn make_table(&mut self, state: &State, table: u64) -> Result<(), DeviceError> {
        if self.tables.contains_key(&table) {
            return Ok(());
        }
        let what = "a translation table";
        let memory = self.processor.alloc(8 * ENTRIES as usize).map_err(refused(what))?;
        let register = offset_of!(engine_node, tables) + 8 * table as usize;
        state.store(register, &[memory.address()])?;
        self.tables.insert(table, memory);
        Ok(())
    }
}

/// The pages that hold a span.
struct Pages {
    /// Address of the first.
    first: u64,
    count: u64,
}

impl Pages {
    fn of(span: &Span) -> Result<Pages, DeviceError> {
        if span.len == 0 {
            return Err(DeviceError::EmptyRegion);
        }
        let page = PAGE as u64;
        let end =
            span.address.checked_add(span.len as u64).and_then(|end| end.checked_next_multiple_of(page));
        let end = end.ok_or(DeviceError::BadSpan { address: span.address, len: span.len })?;
        let first = span.address & !(page - 1);
        Ok(Pages { first, count: (end - first) / page })
    }
}

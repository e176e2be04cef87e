//! Registering memory: what the driver's ATU part does (spec 4.2).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use extoll_abi::{Access, AtuCommand, Gate, PageSize, regs};
use extoll_sim::{HostMemory, Nic, RangeKind};
use ggas_gpu::Copier;

use super::tables::{Entries, Tables};
use super::wait::wait_until;
use crate::limit::LockedPages;
use crate::{DeviceError, HostBuffer, LockedMemory, PAGE, Place, Span};

/// How long a flush may take (spec 4.2).
const FLUSH_TIMEOUT: Duration = Duration::from_secs(10);
/// Pages of one flush command.
const FLUSH_PAGES: u64 = 1024;

/// A registered region.
#[derive(Clone, Copy, Debug)]
struct Registered {
    vpid: u8,
    entries: Entries,
    address: u64,
    len: usize,
}

/// All registered memory of one node.
pub(super) struct Regions {
    nic: Arc<Nic>,
    memory: Arc<HostMemory>,
    tables: Tables,
    /// By the NLA of the first byte.
    regions: HashMap<u64, Registered>,
    locked: LockedPages,
    /// The word that the card's notify command writes; shared memory of the node.
    notify: Arc<HostBuffer>,
    notify_at: usize,
}

impl Regions {
    /// `notify_at` is the offset of an 8-byte word in `notify`, which is declared to the card.
    pub(super) fn new(
        nic: Arc<Nic>,
        memory: Arc<HostMemory>,
        limit: LockedMemory,
        notify: Arc<HostBuffer>,
        notify_at: usize,
    ) -> Regions {
        let tables = Tables::new(nic.clone(), memory.clone());
        let locked = LockedPages::new(limit);
        Regions { nic, memory, tables, regions: HashMap::new(), locked, notify, notify_at }
    }

    /// Registers `span` for `vpid`; returns the NLA of its first byte.
    pub(super) fn register(&mut self, vpid: u8, span: Span, access: Access) -> Result<u64, DeviceError> {
        let pages = Pages::of(&span)?;
        let bytes = pages.count * PAGE as u64;
        self.locked.lock(bytes)?;
        let mapped = self.map(vpid, &span, access, pages);
        match mapped {
            Ok(entries) => {
                let nla = entries.first * PAGE as u64 + (span.address - pages.first);
                let Span { address, len, .. } = span;
                self.regions.insert(nla, Registered { vpid, entries, address, len });
                Ok(nla)
            }
            Err(error) => {
                self.locked.unlock(bytes);
                Err(error)
            }
        }
    }

    /// Declares the memory to the card and writes its translations.
    fn map(&mut self, vpid: u8, span: &Span, access: Access, pages: Pages) -> Result<Entries, DeviceError> {
        let gate = |page| {
            let address = pages.first + page * PAGE as u64;
            Gate::new(vpid, access, address, PageSize::K4)
                .map_err(|_| DeviceError::BadSpan { address: span.address, len: span.len })
        };
        gate(pages.count - 1)?;
        let entries = self.tables.reserve(pages.count)?;
        if let Err(error) = declare(&self.memory, span) {
            self.tables.free(entries);
            return Err(error);
        }
        for page in 0..pages.count {
            self.tables.set(entries, page, gate(page)?);
        }
        Ok(entries)
    }

    /// Removes the region of `vpid` at `nla`, and waits until the card has let go of its pages.
    pub(super) fn unregister(&mut self, vpid: u8, nla: u64) -> Result<(), DeviceError> {
        match self.regions.get(&nla) {
            Some(region) if region.vpid == vpid => {
                let region = *region;
                self.remove(region)?;
                self.regions.remove(&nla);
                Ok(())
            }
            _ => Err(DeviceError::NotRegistered { nla }),
        }
    }

    /// Removes every region of `vpid`.
    pub(super) fn unregister_all(&mut self, vpid: u8) -> Result<(), DeviceError> {
        let of_vpid = |(nla, region): (&u64, &Registered)| (region.vpid == vpid).then_some(*nla);
        let all: Vec<u64> = self.regions.iter().filter_map(of_vpid).collect();
        all.into_iter().try_for_each(|nla| self.unregister(vpid, nla))
    }

    /// Zeroes the translations, flushes them, waits for the card's confirmation, and only then frees anything.
    fn remove(&mut self, region: Registered) -> Result<(), DeviceError> {
        let Registered { entries, address, len, .. } = region;
        for start in (0..entries.pages).step_by(FLUSH_PAGES as usize) {
            let count = FLUSH_PAGES.min(entries.pages - start);
            for page in start..start + count {
                self.tables.set(entries, page, Gate::INVALID);
            }
            self.command(AtuCommand::FlushPages {
                page: (entries.first + start) as u32,
                count: count as u32,
            });
        }
        self.confirm()?;
        if self.memory.remove_range(address, len).is_err() {
            let what = "copies to or from an unregistered region";
            return Err(DeviceError::Timeout { what, node: self.nic.node(), waited: FLUSH_TIMEOUT });
        }
        self.tables.free(entries);
        self.locked.unlock(entries.pages * PAGE as u64);
        Ok(())
    }

    /// Lets the card write a word once all flushes before are complete, and waits for it (spec 4.2).
    fn confirm(&self) -> Result<(), DeviceError> {
        let word = self.notify.word(self.notify_at);
        word.store(0, Ordering::Release);
        self.command(AtuCommand::Notify(self.notify.address() + self.notify_at as u64));
        wait_until(&self.nic, FLUSH_TIMEOUT, "a flush of address translations", || {
            word.load(Ordering::Acquire) != 0
        })
    }

    fn command(&self, command: AtuCommand) {
        match command.encode() {
            Ok(value) => self.nic.reg_write(regs::EXTOLL_RF_ATU_COMMAND, value),
            // Counts and pages above are within their fields.
            Err(error) => tracing::error!("ATU command: {error}"),
        }
    }
}

/// The pages that hold a span.
#[derive(Clone, Copy)]
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
        let bad = DeviceError::BadSpan { address: span.address, len: span.len };
        let page = PAGE as u64;
        let end =
            span.address.checked_add(span.len as u64).and_then(|end| end.checked_next_multiple_of(page));
        let first = span.address & !(page - 1);
        Ok(Pages { first, count: (end.ok_or(bad)? - first) / page })
    }
}

/// Makes memory reachable for the card.
pub(super) fn declare(memory: &HostMemory, span: &Span) -> Result<(), DeviceError> {
    let kind = match &span.place {
        Place::Host => RangeKind::Host,
        Place::Gpu(gpu) => RangeKind::Device(Copier::of(gpu)?),
    };
    // SAFETY: who registers promises that the memory stays until it is unregistered.
    unsafe { memory.add_range(kind, span.address, span.len) }
        .map_err(|_| DeviceError::BadSpan { address: span.address, len: span.len })
}

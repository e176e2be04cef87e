//! Registering memory: what the driver's ATU part does (spec 4.2).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use extoll_abi::{Access, AtuCommand, Gate, PageSize};
use extoll_sim::{HostMemory, Nic, RangeKind};

use super::copier::device_range;
use super::flush::{Flushes, Owed};
use super::tables::{Entries, Tables};
use crate::limit::LockedPages;
use crate::{DeviceError, LockedMemory, PAGE, Place, Span};

/// How long the model waits for copies by devices.
const COPY_TIMEOUT: Duration = Duration::from_secs(10);
/// Pages of one flush command.
const FLUSH_PAGES: u64 = 1024;

/// A registered region.
#[derive(Clone, Copy, Debug)]
struct Registered {
    vpid: u8,
    entries: Entries,
    address: u64,
    len: usize,
    /// Its translations are gone; the card has not confirmed that it has let go of its pages.
    removed: Option<Owed>,
}

/// All registered memory of one node.
pub(super) struct Regions {
    nic: Arc<Nic>,
    memory: Arc<HostMemory>,
    tables: Tables,
    /// By the NLA of the first byte.
    regions: HashMap<u64, Registered>,
    locked: LockedPages,
    flushes: Flushes,
}

impl Regions {
    pub(super) fn new(
        nic: Arc<Nic>,
        memory: Arc<HostMemory>,
        limit: LockedMemory,
        flushes: Flushes,
    ) -> Regions {
        let tables = Tables::new(nic.clone(), memory.clone());
        let locked = LockedPages::new(limit);
        Regions { nic, memory, tables, regions: HashMap::new(), locked, flushes }
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
                self.regions.insert(nla, Registered { vpid, entries, address, len, removed: None });
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
            Some(region) if region.vpid == vpid => self.remove(nla, *region),
            _ => Err(DeviceError::NotRegistered { nla }),
        }
    }

    /// Removes every region of `vpid`.
    pub(super) fn unregister_all(&mut self, vpid: u8) -> Result<(), DeviceError> {
        let of_vpid = |(nla, region): (&u64, &Registered)| (region.vpid == vpid).then_some(*nla);
        let all: Vec<u64> = self.regions.iter().filter_map(of_vpid).collect();
        all.into_iter().try_for_each(|nla| self.unregister(vpid, nla))
    }

    /// Zeroes the translations, flushes them, waits for the card's confirmation, and only then frees anything. A
    /// region that the card did not let go of in time stays, without translations; a later call only looks whether
    /// it has let go since.
    fn remove(&mut self, nla: u64, region: Registered) -> Result<(), DeviceError> {
        let Registered { entries, address, len, removed, .. } = region;
        match removed {
            Some(owed) => self.flushes.settled(owed)?,
            None => {
                self.invalidate(entries);
                if let Err(late) = self.flushes.confirm() {
                    self.regions.insert(nla, Registered { removed: late.owed, ..region });
                    return Err(self.flushes.explain(late.waited));
                }
            }
        }
        self.regions.remove(&nla);
        if let Err(error) = self.memory.remove_range(address, len) {
            tracing::error!(node = self.nic.node(), "an unregistered region: {error}");
            let what = "copies to or from an unregistered region";
            return Err(DeviceError::Timeout { what, node: self.nic.node(), waited: COPY_TIMEOUT });
        }
        self.tables.free(entries);
        self.locked.unlock(entries.pages * PAGE as u64);
        Ok(())
    }

    fn invalidate(&self, entries: Entries) {
        for start in (0..entries.pages).step_by(FLUSH_PAGES as usize) {
            let count = FLUSH_PAGES.min(entries.pages - start);
            for page in start..start + count {
                self.tables.set(entries, page, Gate::INVALID);
            }
            let (page, count) = ((entries.first + start) as u32, count as u32);
            self.flushes.command(AtuCommand::FlushPages { page, count });
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
        Place::Gpu(gpu) => device_range(gpu)?,
        Place::DmaBuf(_) => return Err(DeviceError::DmaBuf { kind: crate::Kind::Sim }),
    };
    // SAFETY: who registers promises that the memory stays until it is unregistered.
    unsafe { memory.add_range(kind, span.address, span.len) }
        .map_err(|_| DeviceError::BadSpan { address: span.address, len: span.len })
}

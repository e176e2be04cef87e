//! Address translation unit: network logical addresses to bus addresses, for one VPID and one kind of access at a
//! time (spec 4).
//!
//! The TLB keeps what it read from a translation table until a flush names it, so a driver that changes a table
//! without flushing sees old translations, as on the card. Invalid entries are not kept: installing needs no flush.

use extoll_abi::{Access, AtuCommand, GatRegister, Gate, Nla, PageSize};

use crate::memory::Memory;
use crate::memory::runs::Runs;
use crate::units::counters::{self, Counters};

const PAGE: u64 = 4096;
const PAGE_SHIFT: u32 = 12;
/// TLB entries; a page has one place \[inferred: the card's size and associativity are not known\].
const TLB_ENTRIES: usize = 4096;

/// The place of a page. Pages 16 MiB apart, as source and target in the halves of a buffer, would have the same by their low bits, and push each
/// other out at each put: each 16 MiB begin elsewhere, as far from those before as can be.
#[inline]
fn place(page: u32) -> usize {
    const GOLDEN: u32 = 2531; // of 4,096
    page.wrapping_add((page / TLB_ENTRIES as u32).wrapping_mul(GOLDEN)) as usize % TLB_ENTRIES
}

/// No translation: invalid or foreign entry, access not allowed, table absent, unit disabled.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no translation of NLA {nla:#x} for VPID {vpid}; register the region for this access")]
pub struct Fault {
    /// Address that failed.
    pub nla: u64,
    /// On whose behalf.
    pub vpid: u8,
}

ggas_errors::debug_as_display!(Fault);

#[derive(Clone, Copy, Default)]
struct Cached {
    /// NLA page + 1; 0: free.
    tag: u32,
    gate: Gate,
}

/// Bus address of `nla` by its entry, where that allows the access.
#[inline]
fn bus_address(gate: Gate, vpid: u8, nla: u64, access: Access) -> Option<u64> {
    if gate.vpid() != u16::from(vpid) || !gate.access().contains(access) {
        return None;
    }
    // Entries of larger pages repeat the page's address in each 4 KiB entry \[inferred\].
    let size = gate.page_size().ok()?.bytes();
    Some((gate.address() & !(size - 1)) + (nla & (size - 1)))
}

/// The unit.
pub struct Atu {
    enabled: bool,
    /// GAT registers.
    tables: Box<[GatRegister]>,
    tlb: Box<[Cached]>,
    counters: Counters,
}

impl Default for Atu {
    fn default() -> Self {
        Atu {
            enabled: false,
            tables: vec![GatRegister::INVALID; Nla::TABLES as usize].into(),
            tlb: vec![Cached::default(); TLB_ENTRIES].into(),
            counters: Counters::default(),
        }
    }
}

impl Atu {
    /// A disabled unit that counts there.
    pub fn new(counters: Counters) -> Atu {
        Atu { counters, ..Atu::default() }
    }

    /// Enables or disables translation (register 0xc000).
    pub fn enable(&mut self, on: bool) {
        self.enabled = on;
    }

    /// Whether translation is enabled.
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// GAT register `index` (below 1,024).
    pub fn table(&self, index: usize) -> GatRegister {
        self.tables.get(index).copied().unwrap_or(GatRegister::INVALID)
    }

    /// Writes GAT register `index`.
    pub fn set_table(&mut self, index: usize, value: GatRegister) {
        if let Some(table) = self.tables.get_mut(index) {
            *table = value;
        }
    }

    /// Translates `len` bytes (at least one) at `nla`, for `access` on behalf of `vpid`. All pages or nothing: on a
    /// fault the caller moves no byte.
    #[inline]
    pub fn translate(
        &mut self,
        memory: &dyn Memory,
        vpid: u8,
        nla: u64,
        len: u32,
        access: Access,
    ) -> Result<Runs, Fault> {
        let (address, left) = self.page(memory, vpid, nla, access)?;
        if u64::from(len) <= left {
            return Ok(Runs::one(address, len));
        }
        self.translate_on(memory, vpid, (nla, len), access, Runs::one(address, left as u32))
    }

    /// Translates what is behind the first page.
    fn translate_on(
        &mut self,
        memory: &dyn Memory,
        vpid: u8,
        (nla, len): (u64, u32),
        access: Access,
        mut runs: Runs,
    ) -> Result<Runs, Fault> {
        let mut done = runs.first.len;
        while done < len {
            let at = nla.checked_add(u64::from(done)).ok_or(Fault { nla, vpid })?;
            let follow = self.following_pages(at, (len - done) >> PAGE_SHIFT);
            if follow > 0 {
                runs.extend(follow << PAGE_SHIFT);
                done += follow << PAGE_SHIFT;
                continue;
            }
            let (address, left) = self.page(memory, vpid, at, access)?;
            let piece = left.min(u64::from(len - done)) as u32;
            runs.push(address, piece);
            done += piece;
        }
        Ok(runs)
    }

    /// How many whole pages from `nla` on, a page boundary, follow the page before in bus memory too, by what the
    /// TLB knows: entries that differ from the one before by one page and in nothing else.
    fn following_pages(&mut self, nla: u64, max: u32) -> u32 {
        let first = (nla >> PAGE_SHIFT) as u32;
        let entry = |page: u32| self.tlb[place(page)];
        let mut before = entry(first - 1);
        if before.tag != first || before.gate.page_size() != Ok(PageSize::K4) {
            return 0;
        }
        let mut pages = 0;
        while pages < max {
            let page = first + pages;
            let next = entry(page);
            if next.tag != page + 1 || next.gate.0 != before.gate.0 + PAGE {
                break;
            }
            before = next;
            pages += 1;
        }
        self.counters.add(counters::ATU_TRANSLATIONS, pages);
        pages
    }

    /// As [`Atu::translate`], of bytes in one page, which is not counted. `None`, and nothing was done: that one says.
    #[inline]
    pub fn translate_short(
        &mut self,
        memory: &dyn Memory,
        vpid: u8,
        nla: u64,
        len: u32,
        access: Access,
    ) -> Option<u64> {
        let page = Nla::from_raw(nla)?.page();
        if u64::from(len) > PAGE - (nla & (PAGE - 1)) {
            return None;
        }
        let gate = match self.tlb[place(page)] {
            Cached { tag, gate } if tag == page + 1 && self.enabled => gate,
            _ => self.walk_to_valid(memory, page)?,
        };
        bus_address(gate, vpid, nla, access)
    }

    /// Bus address of `nla`, and the bytes up to the end of its 4 KiB entry.
    #[inline]
    fn page(&mut self, memory: &dyn Memory, vpid: u8, nla: u64, access: Access) -> Result<(u64, u64), Fault> {
        let fault = Fault { nla, vpid };
        let page = Nla::from_raw(nla).ok_or(fault)?.page();
        let slot = place(page);
        let gate = match self.tlb[slot] {
            Cached { tag, gate } if tag == page + 1 && self.enabled => gate,
            _ => self.walk(memory, page).ok_or(fault)?,
        };
        self.counters.add(counters::ATU_TRANSLATIONS, 1);
        let address = bus_address(gate, vpid, nla, access).ok_or(fault)?;
        Ok((address, PAGE - (nla & (PAGE - 1))))
    }

    #[cold]
    fn walk(&mut self, memory: &dyn Memory, page: u32) -> Option<Gate> {
        if let Some(gate) = self.walk_to_valid(memory, page) {
            return Some(gate);
        }
        if self.entry_of(page).is_some() {
            self.counters.add(counters::ATU_MEMORY_READS, 1);
        }
        None
    }

    /// The same, where that finds a valid entry; else nothing is counted.
    #[cold]
    fn walk_to_valid(&mut self, memory: &dyn Memory, page: u32) -> Option<Gate> {
        let gate = Gate(memory.load(self.entry_of(page)?).ok()?);
        if !gate.is_valid() {
            return None;
        }
        self.counters.add(counters::ATU_MEMORY_READS, 1);
        self.tlb[place(page)] = Cached { tag: page + 1, gate };
        Some(gate)
    }

    /// Where a page's entry is in memory.
    fn entry_of(&self, page: u32) -> Option<u64> {
        let nla = Nla::from_raw(u64::from(page) << PAGE_SHIFT).filter(|_| self.enabled)?;
        let table = self.table(nla.table() as usize).table()?;
        Some(table + 8 * u64::from(nla.entry()))
    }

    /// Puts a translation into the TLB (registers 0xd000 + 16·vpid, spec 4.1).
    pub fn preload(&mut self, word0: u64, word1: u64) {
        const PRELOAD: u64 = 0xd;
        if word0 & 0xf != PRELOAD {
            return;
        }
        let page = (word1 & 1) << 27 | (word0 >> 4 & 0x7ff_ffff);
        let access = word1 >> 63 & 1 | word1 >> 61 & 2;
        let vpid = word1 >> 1 & 0x3ff;
        let frame = word1 >> 21 & 0xff_ffff_ffff;
        let size = word1 >> 11 & 0x1f;
        let gate = Gate(access | vpid << 2 | frame << PAGE_SHIFT | size << 59);
        self.counters.add(counters::ATU_PRELOADS, 1);
        if gate.is_valid() {
            self.tlb[place(page as u32)] = Cached { tag: page as u32 + 1, gate };
        }
    }

    /// Carries out a command word (register 0xc008) as far as it concerns translations. Returns the address of a
    /// notify command: the caller writes it once everything that began earlier is over.
    pub fn command(&mut self, value: u64) -> Option<u64> {
        match AtuCommand::decode(value).ok()? {
            AtuCommand::FlushPages { page, count: pages } => {
                self.counters.add(counters::ATU_FLUSHES, 1);
                for page in (page..=Nla::from_raw(u64::MAX >> 24)?.page()).take(pages as usize) {
                    let cached = &mut self.tlb[place(page)];
                    if cached.tag == page + 1 {
                        *cached = Cached::default();
                    }
                }
                None
            }
            AtuCommand::FlushVpid(vpid) => {
                self.counters.add(counters::ATU_FLUSHES_ALL, 1);
                self.tlb.iter_mut().filter(|c| c.tag != 0 && c.gate.vpid() == vpid).for_each(|c| c.tag = 0);
                None
            }
            // Commands are carried out in order, so a fence has nothing to wait for.
            AtuCommand::Fence => {
                self.counters.add(counters::ATU_FENCES, 1);
                None
            }
            AtuCommand::Notify(address) => {
                self.counters.add(counters::ATU_NOTIFICATIONS, 1);
                Some(address)
            }
        }
    }
}

#[cfg(test)]
mod tests;

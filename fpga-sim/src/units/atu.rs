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
/// TLB entries; direct mapped \[inferred: the card's size and associativity are not known\].
const TLB_ENTRIES: usize = 4096;

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
        let entry = |page: u32| self.tlb[page as usize % TLB_ENTRIES];
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

    /// Bus address of `nla`, and the bytes up to the end of its 4 KiB entry.
    #[inline]
    fn page(&mut self, memory: &dyn Memory, vpid: u8, nla: u64, access: Access) -> Result<(u64, u64), Fault> {
        let fault = Fault { nla, vpid };
        let page = Nla::from_raw(nla).ok_or(fault)?.page();
        let slot = page as usize % TLB_ENTRIES;
        let gate = match self.tlb[slot] {
            Cached { tag, gate } if tag == page + 1 && self.enabled => gate,
            _ => self.walk(memory, page).ok_or(fault)?,
        };
        self.counters.add(counters::ATU_TRANSLATIONS, 1);
        if gate.vpid() != u16::from(vpid) || !gate.access().contains(access) {
            return Err(fault);
        }
        // Entries of larger pages repeat the page's address in each 4 KiB entry \[inferred\].
        let Ok(size) = gate.page_size() else { return Err(fault) };
        let size = size.bytes();
        let address = (gate.address() & !(size - 1)) + (nla & (size - 1));
        Ok((address, PAGE - (nla & (PAGE - 1))))
    }

    #[cold]
    fn walk(&mut self, memory: &dyn Memory, page: u32) -> Option<Gate> {
        if !self.enabled {
            return None;
        }
        let nla = Nla::from_raw(u64::from(page) << PAGE_SHIFT)?;
        let table = self.table(nla.table() as usize).table()?;
        self.counters.add(counters::ATU_MEMORY_READS, 1);
        let gate = Gate(memory.load(table + 8 * u64::from(nla.entry())).ok()?);
        if !gate.is_valid() {
            return None;
        }
        self.tlb[page as usize % TLB_ENTRIES] = Cached { tag: page + 1, gate };
        Some(gate)
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
            self.tlb[page as usize % TLB_ENTRIES] = Cached { tag: page as u32 + 1, gate };
        }
    }

    /// Carries out a command word (register 0xc008) as far as it concerns translations. Returns the address of a
    /// notify command: the caller writes it once everything that began earlier is over.
    pub fn command(&mut self, value: u64) -> Option<u64> {
        match AtuCommand::decode(value).ok()? {
            AtuCommand::FlushPages { page, count: pages } => {
                self.counters.add(counters::ATU_FLUSHES, 1);
                for page in (page..=Nla::from_raw(u64::MAX >> 24)?.page()).take(pages as usize) {
                    let cached = &mut self.tlb[page as usize % TLB_ENTRIES];
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
mod tests {
    use super::*;
    use crate::memory::runs::Run;
    use crate::memory::{HostMemory, RangeKind};
    use proptest::prelude::*;
    use std::sync::Arc;

    /// One translation table of 2 MiB, aligned, in declared memory.
    struct Table {
        words: Vec<u64>,
        at: usize,
        memory: Arc<HostMemory>,
    }

    const ENTRIES: usize = 1 << 18;

    impl Table {
        fn new() -> Table {
            let words = vec![0u64; 2 * ENTRIES];
            let base = words.as_ptr() as usize;
            let at = (base.next_multiple_of(2 << 20) - base) / 8;
            let memory = HostMemory::new();
            // SAFETY: the words live as long as the table, and the memory with it.
            unsafe { memory.add_range(RangeKind::Host, (base + 8 * at) as u64, 8 * ENTRIES).unwrap() };
            Table { words, at, memory }
        }

        fn set(&mut self, page: u32, gate: Gate) {
            self.words[self.at + page as usize] = gate.0;
        }

        fn atu(&self) -> Atu {
            let mut atu = Atu::default();
            let base = self.words.as_ptr() as u64 + 8 * self.at as u64;
            atu.set_table(0, GatRegister::new(base).unwrap());
            atu.enable(true);
            atu
        }
    }

    fn gate(vpid: u8, access: Access, frame: u64) -> Gate {
        Gate::new(vpid, access, frame << 12, PageSize::K4).unwrap()
    }

    const RW: Access = Access::ALL;

    #[test]
    fn vpid_and_access_must_match() {
        let mut table = Table::new();
        table.set(5, gate(3, Access::READ, 0x100));
        let mut atu = table.atu();
        let memory = table.memory.clone();
        let mut ask = |vpid, access| atu.translate(&*memory, vpid, 5 << 12 | 8, 8, access);
        assert_eq!(ask(3, Access::READ).unwrap().first, Run { address: 0x100008, len: 8 });
        assert!(ask(3, Access::WRITE).is_err());
        assert!(ask(4, Access::READ).is_err());
        assert!(atu.translate(&*memory, 3, 6 << 12, 1, Access::READ).is_err(), "invalid entry");
        assert!(atu.translate(&*memory, 3, 1 << 30, 1, Access::READ).is_err(), "absent table");
        assert!(atu.translate(&*memory, 3, u64::MAX, 8 << 20, Access::READ).is_err(), "no NLA at all");
        atu.enable(false);
        assert!(atu.translate(&*memory, 3, 5 << 12, 1, Access::READ).is_err(), "disabled");
    }

    #[test]
    fn a_translation_stays_until_it_is_flushed() {
        let mut table = Table::new();
        table.set(7, gate(1, RW, 0x10));
        let mut atu = table.atu();
        let memory = table.memory.clone();
        let at =
            |atu: &mut Atu| atu.translate(&*memory, 1, 7 << 12, 8, Access::READ).map(|r| r.first.address);
        assert_eq!(at(&mut atu), Ok(0x10000));
        table.set(7, gate(1, RW, 0x20));
        assert_eq!(at(&mut atu), Ok(0x10000), "stale until flushed");
        assert_eq!(atu.command(AtuCommand::FlushPages { page: 8, count: 1 }.encode().unwrap()), None);
        assert_eq!(at(&mut atu), Ok(0x10000), "another page was flushed");
        atu.command(AtuCommand::FlushPages { page: 0, count: 8 }.encode().unwrap());
        assert_eq!(at(&mut atu), Ok(0x20000));
        table.set(7, Gate::INVALID);
        atu.command(AtuCommand::FlushVpid(2).encode().unwrap());
        assert_eq!(at(&mut atu), Ok(0x20000));
        atu.command(AtuCommand::FlushVpid(1).encode().unwrap());
        assert!(at(&mut atu).is_err());
        table.set(7, gate(1, RW, 0x30));
        assert_eq!(at(&mut atu), Ok(0x30000), "installing needs no flush");
        assert_eq!(atu.counters.get(counters::ATU_FLUSHES), 2);
        assert_eq!(atu.counters.get(counters::ATU_FLUSHES_ALL), 2);
    }

    #[test]
    fn large_pages_and_preload() {
        let mut table = Table::new();
        let large = Gate::new(2, RW, 0x7_0000, PageSize::K64).unwrap();
        (16..32).for_each(|page| table.set(page, large));
        let mut atu = table.atu();
        let runs = atu.translate(&*table.memory, 2, (16 << 12) + 0x123, 0x8000, Access::WRITE).unwrap();
        assert_eq!((runs.first, runs.more.len()), (Run { address: 0x7_0123, len: 0x8000 }, 0));
        atu.preload(9 << 4 | 0xd, 1 << 63 | 0x55 << 21 | 4 << 1);
        let run = atu.translate(&*table.memory, 4, 9 << 12, 1, Access::READ).unwrap().first;
        assert_eq!(run.address, 0x55000);
        assert!(atu.translate(&*table.memory, 4, 9 << 12, 1, Access::WRITE).is_err());
    }

    proptest! {
        #[test]
        fn runs_are_the_pages_one_by_one(
            frames in proptest::collection::vec(0u64..4, 1..12),
            from in 0u64..5000,
            len in 1u32..40_000,
        ) {
            let mut table = Table::new();
            for (page, frame) in frames.iter().enumerate() {
                table.set(page as u32, gate(1, RW, 0x40 + frame + page as u64 % 2));
            }
            let mut atu = table.atu();
            let fits = from + u64::from(len) <= 4096 * frames.len() as u64;
            let runs = atu.translate(&*table.memory, 1, from, len, Access::READ);
            prop_assert_eq!(runs.is_ok(), fits);
            if let Ok(runs) = runs {
                let bytes: Vec<u64> =
                    runs.iter().flat_map(|r| (0..u64::from(r.len)).map(move |i| r.address + i)).collect();
                prop_assert_eq!(bytes.len(), len as usize);
                for (i, byte) in bytes.into_iter().enumerate() {
                    let nla = from + i as u64;
                    let frame = 0x40 + frames[(nla >> 12) as usize] + (nla >> 12) % 2;
                    prop_assert_eq!(byte, frame << 12 | (nla & 4095));
                }
            }
        }

        #[test]
        fn hostile_command_words_do_no_harm(words in proptest::collection::vec(any::<u64>(), 0..64)) {
            let table = Table::new();
            let mut atu = table.atu();
            for word in words {
                atu.command(word);
                atu.preload(word, word.rotate_left(17));
                let _ = atu.translate(&*table.memory, word as u8, word, word as u32 | 1, Access::READ);
            }
        }
    }
}

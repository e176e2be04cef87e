//! Translations, and what the TLB keeps of them.

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
    let at = |atu: &mut Atu| atu.translate(&*memory, 1, 7 << 12, 8, Access::READ).map(|r| r.first.address);
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

/// As source and target of many puts.
#[test]
fn halves_of_a_buffer_do_not_push_each_other_out() {
    let mut table = Table::new();
    let pages = [5, 6, 5 + TLB_ENTRIES as u32, 6 + 2 * TLB_ENTRIES as u32];
    pages.into_iter().for_each(|page| table.set(page, gate(1, RW, 0x10 + u64::from(page))));
    let mut atu = table.atu();
    for page in [pages; 3].into_iter().flatten() {
        let nla = u64::from(page) << 12;
        let run = atu.translate(&*table.memory, 1, nla, 8, Access::READ).unwrap().first;
        assert_eq!(run.address, (0x10 + u64::from(page)) << 12);
    }
    assert_eq!(atu.counters.get(counters::ATU_MEMORY_READS), pages.len() as u64);
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

    /// Also which entries were read, where it says nothing.
    #[test]
    fn what_is_short_is_translated_as_all(
        frames in proptest::collection::vec(proptest::option::of(0u64..4), 1..4),
        asks in proptest::collection::vec((0u64..4 * 4096, 1u32..40, 0u8..3, any::<bool>(), any::<bool>()), 1..8),
    ) {
        let mut table = Table::new();
        for (page, frame) in frames.iter().enumerate() {
            table.set(page as u32, frame.map_or(Gate::INVALID, |frame| gate(1, Access::READ, 0x40 + frame)));
        }
        let (mut one, mut other) = (table.atu(), table.atu());
        for (nla, len, vpid, writes, enabled) in asks {
            let access = if writes { Access::WRITE } else { Access::READ };
            one.enable(enabled);
            other.enable(enabled);
            let short = one.translate_short(&*table.memory, vpid, nla, len, access);
            let [found, all] = [&mut one, &mut other].map(|atu| {
                atu.translate(&*table.memory, vpid, nla, len, access).map(|runs| (runs.first, runs.more))
            });
            prop_assert_eq!(&found, &all);
            let page = nla >> 12 == (nla + u64::from(len) - 1) >> 12;
            let address = all.ok().filter(|_| page).map(|(first, _)| first.address);
            prop_assert_eq!(short, address);
            for counter in [counters::ATU_MEMORY_READS, counters::ATU_TRANSLATIONS] {
                prop_assert_eq!(one.counters.get(counter), other.counters.get(counter));
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

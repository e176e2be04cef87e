//! What groups take of the process's memory. A process of its own: its mappings are looked at.

mod common;

use std::fs;

use common::{Setup, USER};
use extoll_abi::layout::GGAS_OK;
use ggas_coll::{Group, GroupConfig};
use ggas_selftest::args::{SELFTEST_BARRIER, SELFTEST_BARRIER_MASTER};

/// Bytes of memory behind the mapping that holds an address (`Rss` of smaps: pages that were only read have none).
fn resident(address: u64) -> usize {
    let maps = fs::read_to_string("/proc/self/smaps").expect("this process's mappings");
    let mut inside = false;
    for line in maps.lines() {
        let first = line.split(' ').next().unwrap_or_default();
        if let Some((start, end)) = first.split_once('-') {
            let number = |text| u64::from_str_radix(text, 16).expect("an address");
            inside = (number(start)..number(end)).contains(&address);
        } else if inside && first == "Rss:" {
            let kib = line.split_whitespace().nth(1).and_then(|kib| kib.parse::<usize>().ok());
            return kib.expect("a number") << 10;
        }
    }
    panic!("no mapping holds {address:#x}");
}

/// Buffers of all nodes for all others are large; who only meets does not touch them, nor does setting them up.
#[test]
fn a_group_takes_memory_as_it_is_used() {
    const NODES: usize = 16;
    let setup = Setup::new(NODES, GroupConfig::default());
    let window = setup.group.window().clone();
    let base = window.member(0).and_then(|member| member.global_pointer(0)).expect("mapped");
    assert!(NODES * window.info().stride > 256 << 20, "less than what must not be taken");
    assert_eq!(setup.barrier(SELFTEST_BARRIER, 4, 32, 10), [u64::from(GGAS_OK); NODES]);
    setup.group.reset().expect("as new");
    let taken = resident(base);
    assert!(taken < 32 << 20, "{} MiB", taken >> 20);
}

/// A window may have held anything before.
#[test]
fn what_was_there_before_is_cleared() {
    let config = common::small();
    let setup = Setup::new(3, config.clone());
    let config = GroupConfig { offset: USER, ..config };
    let window = setup.group.window();
    let garbage = vec![0xff; window.bytes() - USER];
    for rank in 0..3 {
        window.write(rank, USER, &garbage).expect("written");
    }
    assert_ne!(setup.barrier(SELFTEST_BARRIER, 2, 32, 1), [u64::from(GGAS_OK); 3], "it is poisoned now");
    setup.group.reset().expect("as new");
    for method in [SELFTEST_BARRIER, SELFTEST_BARRIER_MASTER] {
        assert_eq!(setup.barrier(method, 2, 32, 5), [u64::from(GGAS_OK); 3]);
    }
    let again = Group::new(window.clone(), &config).expect("in the same place");
    again.check().expect("as new");
}

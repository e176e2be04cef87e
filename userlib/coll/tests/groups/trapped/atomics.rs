//! Atomic operations of kernels in windows of nodes: each one is done once, in order with stores, and atomic with what the target's own
//! kernels and host do; signals that are added; puts with signals by grids.

use std::time::Duration;

use extoll_sim::faults::{Event, Faults};
use ggas_kernels::LaunchError;
use ggas_selftest::args::*;
use ggas_window::{Atomic, Operation, Width, WindowError};

use super::counts::access;
use super::failures::{assert_reaches, assert_says, until_failure};
use super::sides::{Links, SOON, Sides};

/// Bound of accesses where one is to end by it.
const LIMIT: Duration = Duration::from_secs(3);

/// What `rounds` accesses of node 0 to a node counted as not expected; they end.
fn wrong(sides: &Sides, peer: usize, what: u32, rounds: u64) -> u64 {
    let results = sides.cpu.alloc(16).unwrap();
    let args = selftest_access { rounds, ..access(sides, peer, what, results.address()) };
    sides.run("ggas_selftest_access", 1, &[args]).unwrap();
    assert_eq!(results.load_u64(0).unwrap(), rounds);
    results.load_u64(8).unwrap()
}

#[test]
fn each_operation_does_what_it_does_in_memory() {
    for links in Links::all() {
        for peer in [0, 1] {
            let sides = Sides::new(2, 4096, &links, SOON);
            assert_eq!(wrong(&sides, peer, SELFTEST_ACCESS_ATOMICS, 3), 0, "to {peer}, {links:?}");
            // Operations without a result, and the others with the check's loads.
            let [p, np, rsp, stores, loads, answers] = sides.counts(0);
            assert_eq!((rsp + sides.counts(1)[2], answers), (np, np), "{links:?}");
            assert_eq!((stores + sides.counts(1)[3], loads + sides.counts(1)[4]), (p, np), "{links:?}");
            let behind_stores = u64::from(peer != 0);
            assert_eq!([p, np], [3 * 20, 3 * 56 + behind_stores], "{links:?}");
        }
    }
}

#[test]
fn atomics_keep_the_order_of_stores_and_loads() {
    for links in Links::all() {
        for peer in [0, 1] {
            let sides = Sides::new(2, 4096, &links, SOON);
            assert_eq!(wrong(&sides, peer, SELFTEST_ACCESS_ORDER, 40), 0, "to {peer}, {links:?}");
        }
    }
}

/// All nodes, the word's own by CPU atomics in its memory, and the host add to a word at the same time.
#[test]
fn adds_of_all_nodes_sum_exactly() {
    const NODES: usize = 4;
    const TARGET: usize = 2;
    for links in Links::all() {
        let sides = Sides::new(NODES, 4096, &links, SOON);
        let rounds = if matches!(links, Links::Clean) { 2_000 } else { 100 };
        let (mut all, mut done) = (Vec::new(), Vec::new());
        for what in [SELFTEST_ACCESS_ADD, SELFTEST_ACCESS_FETCH, SELFTEST_ACCESS_CAS] {
            for rank in 0..NODES {
                let results = sides.cpu.alloc(16).unwrap();
                let args = access(&sides, TARGET, what, results.address());
                all.push(selftest_access { window: sides.window(rank), rounds, ..args });
                done.push(results);
            }
        }
        sides.run("ggas_selftest_access", 1, &all).unwrap();
        done.iter().for_each(|done| assert_eq!(done.load_u64(0).unwrap(), rounds));
        // What a node posted last is behind its next load.
        for rank in 0..NODES {
            let own = sides.windows[rank].member(rank).unwrap();
            assert!(own.load(TARGET, 64, &mut [0; 8], SOON).is_ok());
        }
        let sum = sides.windows[TARGET].load_u64(TARGET, 64).unwrap();
        assert_eq!(sum, rounds * all.len() as u64, "{links:?}");
    }
}

#[test]
fn the_host_has_them_too() {
    let sides = Sides::new(2, 4096, &Links::Clean, SOON);
    let here = sides.windows[0].member(0).unwrap();
    for part in [0, 1] {
        here.store(part, 8, &5u64.to_le_bytes()).unwrap();
        assert_eq!(here.atomic(part, 8, Atomic::add(7), SOON).unwrap(), 5);
        here.reduce(part, 8, Atomic::new(Operation::Max, Width::Eight, 100)).unwrap();
        let swap = Atomic::compare_exchange(Width::Eight, 100, 1 << 40 | 3);
        assert_eq!(here.atomic(part, 8, swap, SOON).unwrap(), 100);
        assert_eq!(here.atomic(part, 8, swap, SOON).unwrap(), 1 << 40 | 3);
        let low = Atomic::new(Operation::Add, Width::Four, u64::MAX);
        assert_eq!(here.atomic(part, 8, low, SOON).unwrap(), 3);
        assert_eq!(sides.windows[part].load_u64(part, 8).unwrap(), 1 << 40 | 2);
        for (offset, atomic) in [(12, Atomic::add(1)), (10, low), (1, low)] {
            let errors = [
                here.atomic(part, offset, atomic, SOON).map(|_| ()).unwrap_err(),
                here.reduce(part, offset, atomic).unwrap_err(),
            ];
            for error in errors {
                assert!(error.to_string().contains("has to be a multiple of that"), "{error}");
            }
        }
        let error = here.atomic(part, 4092, Atomic::add(1), SOON).unwrap_err();
        assert!(matches!(error, WindowError::Range { .. }), "{error}");
    }
}

/// Puts with signals that are set in odd rounds and added in even ones; by grids, whose signals each block adds to.
#[test]
fn signals_are_added() {
    for links in Links::all() {
        for (form, blocks, threads) in [
            (SELFTEST_PUT_THREAD, 2, 3),
            (SELFTEST_PUT_WARP, 2, 64),
            (SELFTEST_PUT_BLOCK, 3, 32),
            (SELFTEST_PUT_GRID, 1, 64),
            (SELFTEST_PUT_GRID, 3, 32),
        ] {
            for (bytes, skew) in [(16, 0), (203, 5), (800, 0)] {
                if form == SELFTEST_PUT_GRID && skew != 0 {
                    continue; // blocks of the kernel fill what they send in whole units
                }
                let sides = Sides::new(2, 64 << 10, &links, SOON);
                let results = sides.cpu.alloc(32).unwrap();
                let put = selftest_put { bytes, each: 1024, skew, form, rounds: 6, ..Default::default() };
                let args = [0, 1].map(|rank| sides.put(rank, &results, put));
                sides.run_grids("ggas_selftest_put", (blocks, threads), &args).unwrap();
                let reports = [0, 1].map(|rank| sides.windows[rank].member(rank).unwrap().report());
                let what = format!("form {form}, {blocks} blocks, {bytes} bytes, {links:?}");
                assert_eq!(results.read_u64s(0, 4).unwrap(), [0; 4], "{what}: {reports:?}");
            }
        }
    }
}

/// A node dies under a kernel that has atomics on its memory: it ends as with loads, and others go on.
#[test]
fn atomics_on_a_node_that_dies_end() {
    for seed in 0..4 {
        let lost = if seed % 2 == 0 { 0.0 } else { 0.02 };
        let faults = Faults::none().seed(seed).drop(lost).after(500, Event::Kill(2));
        let sides = Sides::new(3, 4096, &Links::Simulated(seed, faults), LIMIT);
        let simulation = sides.simulation.as_ref().unwrap();
        let (went_well, error) = until_failure(&sides, 2, SELFTEST_ACCESS_FETCH);
        let said = ["byte 64 of member 2's part (node 2)", "no answer", "may have been done"];
        assert_says(&error, "an atomic operation of 8 bytes", &said);
        assert!(went_well > 10, "{went_well} before the death");
        let elapsed = simulation.elapsed();
        assert!((LIMIT..LIMIT + Duration::from_secs(1)).contains(&elapsed), "{elapsed:?}");
        let sum = sides.windows[2].load_u64(2, 64).unwrap();
        assert!(sum == went_well || sum == went_well + 1, "{sum} after {went_well}: each once");
        assert_reaches(&sides, 1);
        assert_eq!(wrong(&sides, 1, SELFTEST_ACCESS_FETCH, 5), 0);
    }
}

/// What cannot be an operation ends the launch before anything is sent.
#[test]
fn words_that_are_not_aligned_are_refused() {
    let sides = Sides::new(2, 4096, &Links::Clean, SOON);
    for what in [SELFTEST_ACCESS_ADD, SELFTEST_ACCESS_FETCH] {
        let results = sides.cpu.alloc(16).unwrap();
        let args = selftest_access { offset: 68, ..access(&sides, 1, what, results.address()) };
        let error = sides.run("ggas_selftest_access", 1, &[args]).unwrap_err();
        let LaunchError::Access { access, place, .. } = &error else { panic!("{error}") };
        assert_eq!(
            (&access[..], &place[..]),
            ("an atomic operation of 8 bytes", "byte 68 of member 1's part (node 1)")
        );
        assert!(error.to_string().contains("has to be a multiple of that"), "{error}");
    }
    assert_eq!(sides.counts(0), [0; 6]);
}

//! Loads, stores and puts, and what the units counted of them.

use std::sync::Arc;

use extoll_abi::regs::smfu_count;
use ggas_kernels::Processor;
use ggas_selftest::args::*;
use ggas_window::{Mapping, Window};

use super::sides::{Links, SOON, Sides};

/// The self-test of windows on all nodes: all write to all, and read from all. Gives nothing but what its units counted.
fn exchange(sides: &Sides, bytes: u64, rounds: u32) {
    let nodes = sides.nodes.len();
    let results = sides.cpu.alloc(16 * nodes).expect("memory");
    let args = |rank: usize| selftest_window {
        window: sides.window(rank),
        status: results.address() + 16 * rank as u64,
        wrong: results.address() + 16 * rank as u64 + 8,
        bytes,
        rounds,
        atomics: 1,
    };
    let args: Vec<_> = (0..nodes).map(args).collect();
    sides.run("ggas_selftest_window", 32, &args).expect("kernels end");
    let reports: Vec<_> = (0..nodes).map(|i| sides.windows[i].member(i).unwrap().report()).collect();
    assert_eq!(results.read_u64s(0, 2 * nodes).unwrap(), vec![0; 2 * nodes], "{reports:?}");
}

/// Packets of one node to one other, posted and not, of that exchange.
fn packets(bytes: u64, rounds: u32) -> [u64; 2] {
    // 16 bytes a store, and two flags; 8 bytes a load, and an atomic operation of each thread. As the kernel ends, a load behind its stores.
    [u64::from(rounds) * (bytes / 16 + 2), u64::from(rounds) * (bytes / 8 + 32) + 1]
}

#[test]
fn the_unit_counts_each_access_of_kernels() {
    const BYTES: u64 = 256;
    const ROUNDS: u32 = 3;
    for (nodes, links) in (2..=4).flat_map(|nodes| Links::all().map(|links| (nodes, links))) {
        let sides = Sides::new(nodes, 8192, &links, SOON);
        let window = &sides.windows[0];
        assert_eq!((window.info().mapped.clone(), window.info().atomics), (Ok(Mapping::Trapped), true));
        exchange(&sides, BYTES, ROUNDS);
        let [stores, loads] = packets(BYTES, ROUNDS);
        let others = nodes as u64 - 1;
        for rank in 0..nodes {
            let [p, np] = [stores * others, loads * others];
            assert_eq!(sides.counts(rank), [p, np, np, p, np, np], "node {rank} of {nodes}, {links:?}");
            // Interval 1 + i leads to member i.
            for to in 0..nodes {
                let count = sides.register(rank, smfu_count(1 + to as u32));
                let [posted, non_posted] =
                    [stores, loads].map(|packets| if to == rank { 0 } else { packets });
                assert_eq!([count >> 32, count & 0xffff_ffff], [posted, non_posted], "{rank} to {to}");
            }
        }
    }
}

#[test]
fn address_bits_name_more_nodes_than_intervals() {
    const NODES: usize = SELFTEST_WINDOW_NODES as usize;
    for links in [Links::Clean, Links::lossy(3)] {
        let sides = Sides::new(NODES, 8192, &links, SOON);
        exchange(&sides, 16, 1);
        let [p, np] = packets(16, 1).map(|packets| packets * (NODES as u64 - 1));
        for rank in 0..NODES {
            assert_eq!(sides.counts(rank), [p, np, np, p, np, np], "node {rank}, {links:?}");
            let intervals = (0..64).map(|interval| sides.register(rank, smfu_count(interval)));
            assert_eq!(intervals.sum::<u64>(), 0, "no interval is hit");
        }
    }
}

/// The own part by its global pointer is a way through the network as well (thesis 6.5.2).
#[test]
fn accesses_of_all_sizes_are_one_packet_each() {
    for (peer, links) in [(0, Links::Clean), (1, Links::Clean), (1, Links::lossy(4))] {
        let sides = Sides::new(2, 4096, &links, SOON);
        let results = sides.cpu.alloc(16).unwrap();
        let args = access(&sides, peer, SELFTEST_ACCESS_SIZES, results.address());
        sides.run("ggas_selftest_access", 1, &[args]).unwrap();
        assert_eq!(results.read_u64s(0, 2).unwrap(), [1, 0], "one round, nothing else was loaded");
        let [p, np, ..] = sides.counts(0);
        let behind_stores = u64::from(peer != 0);
        assert_eq!([p, np], [13, 13 + behind_stores], "to {peer}");
        let mut part = [0; 32];
        sides.windows[peer].read(peer, 64, &mut part).unwrap();
        assert_eq!((part[0], &part[2..4], &part[8..16]), (0x11, &[0x22; 2][..], &[0x44; 8][..]));
    }
}

/// One round of accesses of node 0 to the part of a node.
pub fn access(sides: &Sides, peer: usize, what: u32, results: u64) -> selftest_access {
    let window = sides.window(0);
    selftest_access {
        window,
        done: results,
        sum: results + 8,
        rounds: 1,
        offset: 64,
        peer: peer as u32,
        what,
    }
}

#[test]
fn puts_gets_and_signals_pass_the_unit() {
    for links in Links::all() {
        let sides = Sides::new(2, 128 << 10, &links, SOON);
        let results = sides.cpu.alloc(32).unwrap();
        for form in [SELFTEST_PUT_THREAD, SELFTEST_PUT_WARP, SELFTEST_PUT_BLOCK] {
            for (bytes, skew) in [(16, 0), (203, 5), (800, 0)] {
                let put = selftest_put { bytes, each: 1024, skew, form, rounds: 2, ..Default::default() };
                let args = [0, 1].map(|rank| sides.put(rank, &results, put));
                (0..2).for_each(|rank| sides.windows[rank].zero(rank, 0, 128 << 10).unwrap());
                let before = sides.counts(0);
                sides.run("ggas_selftest_put", 32, &args).unwrap();
                assert_eq!(results.read_u64s(0, 4).unwrap(), [0; 4], "form {form}, {bytes} bytes, {links:?}");
                let after = sides.counts(0);
                assert!(after[0] > before[0] && after[1] > before[1], "{before:?} {after:?}");
            }
        }
    }
}

/// Kernels of the CPU executor reach a part in GPU memory, through the copier of the node that has it.
#[test]
fn a_part_in_gpu_memory_is_stored_to_and_loaded_from() {
    if std::env::var_os("GGAS_TEST_GPUS").is_none() {
        return eprintln!("SKIPPED: needs a GPU (GGAS_TEST_GPUS=1)");
    }
    ggas_selftest::add();
    let gpu = Processor::gpu(0).expect("a GPU");
    let mut sides = Sides::new(2, 4096, &Links::Clean, SOON);
    let ids = [0, 1];
    // The unit serves one window: the first one goes before the other one comes.
    sides.windows.pop();
    let there = Window::on_nodes(&sides.nodes[1], &ids, &gpu, 4096, SOON).expect("a window");
    assert!(there.info().mapped.is_err(), "its kernels do not reach others: {}", there.info());
    sides.windows.push(Arc::new(there));
    let results = sides.cpu.alloc(16).unwrap();
    let args = access(&sides, 1, SELFTEST_ACCESS_SIZES, results.address());
    let args = selftest_access { rounds: 100, ..args };
    sides.run("ggas_selftest_access", 1, &[args]).unwrap();
    assert_eq!(results.read_u64s(0, 2).unwrap(), [100, 0]);
    let mut part = [0; 32];
    sides.windows[1].read(1, 64, &mut part).unwrap();
    assert_eq!((part[0], &part[2..4], &part[8..16]), (0x11, &[0x22; 2][..], &[0x44; 8][..]));
    assert_eq!(sides.counts(1)[3..5], [1300, 1300]);
}

//! Collectives of whole numbers in groups that lie in such windows: every way of coll.cuh.

use std::ops::Range;

use ggas_coll::{Group, GroupConfig};
use ggas_selftest::args::*;

use super::sides::{Links, SOON, Sides};

/// Bytes of each part before the group's, for vectors in the window: what goes in, then results.
pub const USER: usize = 16 << 10;
const RESULTS: usize = USER / 2;
/// Elements of each node's part of a collective.
const COUNT: usize = 40;
/// Of collectives with a root.
pub const ROOT: usize = 1;

#[test]
fn all_collectives_pass_the_unit() {
    for (nodes, links) in (2..=4).flat_map(|nodes| Links::all().map(|links| (nodes, links))) {
        // Little of everything, so that vectors take several exchanges.
        let config = GroupConfig {
            offset: USER,
            slot_bytes: 256,
            packed_bytes: 512,
            packed_channels: 2,
            timeout: SOON,
            ..GroupConfig::default()
        };
        let sides = Sides::new(nodes, config.end(nodes).unwrap(), &links, SOON);
        let group = |window: &_| Group::on_nodes(std::sync::Arc::clone(window), &config).expect("a group");
        let groups: Vec<Group> = sides.windows.iter().map(group).collect();
        for (_, method) in ggas_selftest::COLLECTIVES {
            let before: Vec<_> = (0..nodes).map(|rank| sides.counts(rank)).collect();
            collective(&sides, &groups, (method, COUNT), &links);
            for (rank, before) in before.iter().enumerate() {
                assert!(sides.counts(rank)[0] > before[0], "method {method}: no store of node {rank}");
            }
        }
        let all: Vec<_> = (0..nodes).map(|rank| sides.counts(rank)).collect();
        let sum = |which: usize| all.iter().map(|counts| counts[which]).sum::<u64>();
        // Stores that nobody waited for are still on their way.
        assert!(sum(3) <= sum(0) && sum(1) == sum(4) && sum(2) == sum(1) && sum(5) == sum(1), "{all:?}");
    }
}

/// One collective of all nodes, of `count` elements of each node's part, and what it gave them.
pub fn collective(sides: &Sides, groups: &[Group], (method, count): (u32, usize), links: &Links) {
    let nodes = groups.len();
    let what = || format!("method {method} of {nodes} nodes, {links:?}");
    let inputs: Vec<Vec<u64>> = (0..nodes).map(|node| input(node, nodes * count)).collect();
    let counters = method <= SELFTEST_BARRIER_MASTER;
    let by_window = method == SELFTEST_ALLREDUCE_WINDOW;
    let results = sides.cpu.alloc(16 * nodes).unwrap();
    // Counters of barriers are memory of this process: what nodes store to themselves comes in no order with flags.
    let shared = sides.cpu.alloc(64 * nodes).unwrap();
    let memory: Vec<_> = (0..nodes).map(|_| sides.cpu.alloc(nodes * count * 8).unwrap()).collect();
    let outs: Vec<_> = (0..nodes).map(|_| sides.cpu.alloc(nodes * count * 8).unwrap()).collect();
    for rank in 0..nodes {
        memory[rank].write_u64s(0, &inputs[rank]).unwrap();
        if method == SELFTEST_BROADCAST && rank == ROOT {
            outs[rank].write_u64s(0, &inputs[rank][..count]).unwrap();
        }
        if by_window {
            let bytes: Vec<u8> = inputs[rank][..count].iter().flat_map(|word| word.to_ne_bytes()).collect();
            sides.windows[rank].write(rank, 0, &bytes).unwrap();
        }
    }
    let args = |rank: usize| {
        let (input, input_stride, out) = match (counters, by_window) {
            (true, _) => (shared.address(), 64, 0),
            (_, true) => (0, 0, RESULTS as u64),
            _ => (memory[rank].address(), 0, outs[rank].address()),
        };
        selftest_coll {
            group: groups[rank].member(rank).unwrap().address(),
            window: sides.window(rank),
            input,
            input_stride,
            out,
            status: results.address() + 16 * rank as u64,
            wrong: results.address() + 16 * rank as u64 + 8,
            count: count as u64,
            element: SELFTEST_INT64,
            op: SELFTEST_SUM,
            form: SELFTEST_BLOCK,
            method,
            rounds: if counters { 10 } else { 1 },
            root: ROOT as u32,
            ..Default::default()
        }
    };
    let args: Vec<_> = (0..nodes).map(args).collect();
    let kernel = if counters { "ggas_selftest_coll" } else { "ggas_selftest_coll_types" };
    sides.run(kernel, 32, &args).unwrap_or_else(|error| panic!("{}: {error}", what()));
    assert_eq!(results.read_u64s(0, 2 * nodes).unwrap(), vec![0; 2 * nodes], "{}", what());
    groups.iter().for_each(|group| group.check().expect("no failure"));
    for (rank, out) in outs.iter().enumerate() {
        let Some(wanted) = wanted(method, &inputs, rank, count) else { continue };
        let mut found = out.read_u64s(0, wanted.len()).unwrap();
        if by_window {
            let word = |i| sides.windows[rank].load_u64(rank, RESULTS + 8 * i).unwrap();
            found = (0..wanted.len()).map(word).collect();
        }
        assert_eq!(found, wanted, "node {rank}, {}", what());
    }
}

/// What node `node` brings.
fn input(node: usize, count: usize) -> Vec<u64> {
    (0..count as u64).map(|i| (node as u64 + 1) * 1_000_003 + i * 7).collect()
}

/// What node `rank` has in the end; None: whatever.
fn wanted(method: u32, inputs: &[Vec<u64>], rank: usize, count: usize) -> Option<Vec<u64>> {
    let sums = |places: Range<usize>| -> Vec<u64> {
        places.map(|at| inputs.iter().map(|node| node[at]).fold(0, u64::wrapping_add)).collect()
    };
    let of_all = |places: Range<usize>| -> Vec<u64> {
        inputs.iter().flat_map(|node| node[places.clone()].to_vec()).collect()
    };
    let own = rank * count..(rank + 1) * count;
    match method {
        SELFTEST_SYNC | SELFTEST_BARRIER | SELFTEST_BARRIER_MASTER => None,
        SELFTEST_REDUCE_SCATTER => Some(sums(own)),
        SELFTEST_BROADCAST => Some(inputs[ROOT][..count].to_vec()),
        SELFTEST_ALL_GATHER => Some(of_all(0..count)),
        SELFTEST_ALL_TO_ALL => Some(of_all(own)),
        SELFTEST_REDUCE..=SELFTEST_REDUCE_ALL_TO_ALL if rank != ROOT => None,
        _ => Some(sums(0..count)),
    }
}

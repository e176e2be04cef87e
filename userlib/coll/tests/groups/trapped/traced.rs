//! What a trace says of collectives is what the units counted: each store of kernels to another node is a packet of 16 bytes, or a flag.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use extoll_abi::regs::smfu_count;
use ggas_coll::{Group, GroupConfig};
use ggas_mapping::Pattern;
use ggas_members::Job;
use ggas_selftest::args::*;

use super::collectives::{ROOT, USER, collective};
use super::sides::{Links, SOON, Sides};
use crate::jobs::in_job_with;

/// Elements of a vector, or of each node's part: whole packets and lines for 2, 3 and 4 nodes.
const COUNT: usize = 192;
/// Elements that staging holds for a node, and packets that a slot holds: as many.
const SLOT: u64 = 32;
/// Meetings of `SELFTEST_BARRIER`.
const MEETINGS: u64 = 20;

/// By the ranks of sender and receiver.
type Pairs = BTreeMap<(usize, usize), u64>;

/// The flags that `from` sets at `to`, as coll.cuh says of each way, and loads by which stores are known to have been performed.
fn flags_and_looks(method: u32, nodes: u64, from: usize, to: usize) -> [u64; 2] {
    let exchanges = COUNT as u64 / SLOT;
    match method {
        SELFTEST_SYNC => [MEETINGS, 0],
        SELFTEST_BARRIER => [MEETINGS, MEETINGS],
        // The master has rank 0. All look at all before they check in.
        SELFTEST_BARRIER_MASTER => [if from == 0 || to == 0 { MEETINGS } else { 0 }, MEETINGS],
        SELFTEST_ALLREDUCE_WINDOW => [2, 2],
        SELFTEST_REDUCE | SELFTEST_BROADCAST => [exchanges, 0],
        SELFTEST_ALLREDUCE_READ | SELFTEST_ALLREDUCE_ALL_GATHER => [exchanges, 0],
        SELFTEST_REDUCE_READ | SELFTEST_REDUCE_GATHER | SELFTEST_REDUCE_TREE => [exchanges, 0],
        SELFTEST_ALLREDUCE_GATHER if from != 0 => [exchanges, 0],
        SELFTEST_ALLREDUCE_GATHER | SELFTEST_ALLREDUCE_TREE => [2 * exchanges, 0],
        SELFTEST_ALLREDUCE_ALL_TO_ALL | SELFTEST_REDUCE_ALL_TO_ALL => [2 * exchanges.div_ceil(nodes), 0],
        _ => [0, 0],
    }
}

/// Bytes that went from each node to each other one, by what the units counted of one call of `method`.
fn counted(sides: &Sides, method: u32) -> Pairs {
    let nodes = sides.nodes.len();
    let mut pairs = Pairs::new();
    for (from, to) in (0..nodes).flat_map(|from| (0..nodes).map(move |to| (from, to))) {
        // Interval 1 + i leads to member i.
        let count = sides.register(from, smfu_count(1 + to as u32));
        if from == to {
            assert_eq!(count, 0, "method {method}: node {from} to itself");
            continue;
        }
        let [stores, loads] = [count >> 32, count & 0xffff_ffff];
        let [flags, looks] = flags_and_looks(method, nodes as u64, from, to);
        *pairs.entry((from, to)).or_default() += 16 * (stores - flags) + 8 * flags;
        let each = if method == SELFTEST_ALLREDUCE_WINDOW { 16 } else { 8 };
        // As kernels end, a load behind their stores.
        *pairs.entry((to, from)).or_default() += each * (loads - looks - u64::from(stores > 0));
    }
    pairs
}

fn traced(prefix: &Path) -> Pairs {
    let pattern = Pattern::traced(prefix).expect("a file for each rank");
    pattern.messages().map(|(from, to, bytes)| ((from, to), bytes)).collect()
}

#[test]
fn a_trace_has_what_the_units_counted() {
    for (nodes, name) in [(2, "two"), (3, "three"), (4, "four")] {
        let folder =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("coll-traced-{}-{name}", std::process::id()));
        // Not in the process that is started.
        if std::env::var_os("GGAS_TRACE").is_none() {
            std::fs::create_dir_all(&folder).expect("a folder");
        }
        let prefix = folder.join(name);
        let test = "trapped::traced::a_trace_has_what_the_units_counted";
        in_job_with(test, 1, ("GGAS_TRACE", prefix.to_str().expect("UTF-8")), compare);
        assert_eq!(traced(&prefix).len(), nodes * (nodes - 1), "of all pairs of {name} nodes");
        std::fs::remove_dir_all(&folder).expect("gone");
    }
}

/// In a process of its own, which the variable tells to trace.
fn compare(_job: &Job) {
    let prefix = PathBuf::from(std::env::var_os("GGAS_TRACE").expect("set"));
    let nodes = ["two", "three", "four"].iter().position(|name| prefix.ends_with(name)).expect("a name") + 2;
    let mut before = Pairs::new();
    for (_, method) in ggas_selftest::COLLECTIVES {
        // Little of everything, so that vectors take several exchanges.
        let config = GroupConfig {
            offset: USER,
            slot_bytes: 8 * SLOT as usize,
            packed_bytes: 16 * SLOT as usize,
            packed_channels: 2,
            timeout: SOON,
            ..GroupConfig::default()
        };
        let sides = Sides::new(nodes, config.end(nodes).expect("it fits"), &Links::Clean, SOON);
        let group = |window: &_| Group::on_nodes(Arc::clone(window), &config).expect("a group");
        let groups: Vec<Group> = sides.windows.iter().map(group).collect();
        collective(&sides, &groups, (method, COUNT), &Links::Clean);
        let counted = counted(&sides, method);
        assert!(counted.values().any(|bytes| *bytes > 0), "method {method} of root {ROOT}");
        drop((groups, sides));
        let after = traced(&prefix);
        for (pair, bytes) in &counted {
            let [then, now] = [&before, &after].map(|all| all.get(pair).copied().unwrap_or(0));
            assert_eq!(now - then, *bytes, "method {method} of {nodes} nodes, from and to {pair:?}");
        }
        before = after;
    }
}

//! What hosts post is in the trace that a mapping reads, where somebody asks: as much as the units count, between the processes that it
//! went between.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::processes::{in_job_with, on_hosts_with};
use extoll_abi::bindings::{EXTOLL_RF_RMA_PERF_REQ_OUTPUT, EXTOLL_RF_RMA_PERF_RESP};
use ggas::device::sim::SimNetwork;
use ggas::velo::VeloPort;
use ggas::{
    Address, HostBuffer, Lock, Modifier, Node, Port, PortConfig, RemoteRegion, Request, Spec, VeloConfig,
};
use ggas_mapping::Pattern;
use ggas_members::Job;
use ggas_wire::{WireError, choose};

const SOON: Duration = Duration::from_secs(60);
const MEMBERS: u32 = 3;
const BYTES: usize = 1 << 16;
/// A notification's bytes, an immediate put's and those of a lock's operands.
const WORD: u64 = 8;

type Messages = Vec<(usize, usize, u64)>;

/// The pattern of a run of `member` in these processes.
fn traced(test: &str, run: impl FnOnce((&str, &str))) -> Messages {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!(
        "{}-{}",
        test.replace("::", "-"),
        std::process::id()
    ));
    if std::env::var_os("GGAS_TRACE").is_none() {
        std::fs::create_dir_all(&folder).unwrap();
    }
    let prefix = folder.join("run");
    run(("GGAS_TRACE", prefix.to_str().unwrap()));
    let pattern = Pattern::traced(&prefix).unwrap();
    for from in 0..pattern.ranks() {
        for to in (0..pattern.ranks()).filter(|to| *to != from) {
            let counted = std::fs::read_to_string(counted_at(&folder, from, to));
            if let Ok(counted) = counted {
                let bytes: u64 = counted.parse().unwrap();
                assert_eq!(pattern.bytes(from, to), bytes, "as the units count, from {from} to {to}");
            }
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
    pattern.messages().collect()
}

/// Where it is said what units counted of a pair.
fn counted_at(folder: &Path, from: usize, to: usize) -> PathBuf {
    folder.join(format!("counted.{from}.{to}"))
}

/// What a node's requester and its responder have sent, in bytes of payload.
fn sent(node: &Node) -> [u64; 2] {
    let quadwords = |register| node.read_register(register).unwrap() & 0xffff_ffff;
    [EXTOLL_RF_RMA_PERF_REQ_OUTPUT, EXTOLL_RF_RMA_PERF_RESP + 16].map(|register| 8 * quadwords(register))
}

fn node_of(job: &Job) -> (SimNetwork, Node) {
    let network = SimNetwork::builder().join_as(job.member().clone()).unwrap();
    let node = Node::new(network.device(0).unwrap());
    (network, node)
}

/// Everyone's value.
fn exchange<T: serde::Serialize + serde::de::DeserializeOwned>(job: &Job, own: &T) -> Vec<T> {
    let all = job.exchange(&postcard::to_stdvec(own).unwrap(), SOON).unwrap();
    all.iter().map(|bytes| postcard::from_bytes(bytes).unwrap()).collect()
}

/// Bytes that a rank puts to each other one, and that it gets from each.
fn moved_by(rank: usize) -> [u64; 2] {
    [8 + 24 + 4096 + 50_000 + WORD + 64, 16 + 3200 * (rank as u64 + 1)]
}

/// Each kind of command to `to`.
fn post_each(port: &Port, to: &RemoteRegion, own: &ggas::Region, rank: usize) {
    let (link, all) = (port.connect(to.port()), Spec::REQUESTER);
    let wait = || port.wait(SOON).unwrap();
    for bytes in [8, 24, 4096, 50_000] {
        link.put(own, 0, bytes, to.nla(0, bytes as u64).unwrap(), all).unwrap();
        wait();
    }
    link.immediate_put(7, 8, to.nla(0, 8).unwrap(), all).unwrap();
    wait();
    for bytes in [16, 3200 * (rank + 1)] {
        link.get(own, 0, bytes, to.nla(0, bytes as u64).unwrap(), Spec::COMPLETER).unwrap();
        wait();
    }
    // By the words of a descriptor, as the C interface posts.
    let (read, write) = (own.nla(0).unwrap(), to.nla(0, 64).unwrap());
    let put = Request::Put { qw: true, read, write, size: 64 };
    link.post(&put, all, Modifier::NONE).unwrap();
    wait();
}

fn move_by_ports(job: &Job) {
    let (_network, node) = node_of(job);
    let port = node.open_port(PortConfig::default()).unwrap();
    let region = port.register(HostBuffer::zeroed(BYTES).unwrap()).unwrap();
    let regions = exchange(job, &RemoteRegion::of(&region));
    let folder = PathBuf::from(std::env::var_os("GGAS_TRACE").unwrap()).parent().unwrap().to_owned();
    let me = job.rank() as usize;
    let mut counted = vec![0; regions.len()];
    for from in 0..regions.len() {
        for to in (0..regions.len()).filter(|to| *to != from) {
            let before = sent(&node);
            job.barrier(SOON).unwrap();
            if me == from {
                post_each(&port, &regions[to], &region, me);
            }
            job.barrier(SOON).unwrap();
            let after = sent(&node);
            let [put, answered] = [after[0] - before[0], after[1] - before[1]];
            if me == from {
                counted[to] += put;
                assert_eq!(answered, 0);
            } else if me == to {
                counted[from] += answered;
                assert_eq!(put, 0);
            }
        }
    }
    for (to, counted) in counted.into_iter().enumerate().filter(|(to, _)| *to != me) {
        std::fs::write(counted_at(&folder, me, to), counted.to_string()).unwrap();
    }
}

#[test]
fn puts_and_gets_of_hosts_are_traced_as_the_units_count() {
    let test = "traced::puts_and_gets_of_hosts_are_traced_as_the_units_count";
    let found = traced(test, |variable| in_job_with(test, MEMBERS, variable, move_by_ports));
    let pairs = || (0..3).flat_map(|from| (0..3).filter(move |to| *to != from).map(move |to| (from, to)));
    let bytes = |from, to| moved_by(from)[0] + moved_by(to)[1];
    assert_eq!(found, pairs().map(|(from, to)| (from, to, bytes(from, to))).collect::<Messages>());
}

/// Bytes that a rank sends to another one.
fn of_pair(from: usize, to: usize) -> u64 {
    1000 * from as u64 + 10 * to as u64 + 40
}

/// Puts, notifications, and messages, to ports of others, and what nobody receives.
fn send_to_each(job: &Job) {
    let (_network, node) = node_of(job);
    // Another one goes first, so that ranks have ports of different numbers.
    let first = node.open_port(PortConfig::default()).unwrap();
    let port = node.open_port(PortConfig::default()).unwrap();
    let region = port.register(HostBuffer::zeroed(BYTES).unwrap()).unwrap();
    let velo = VeloPort::open(node.device(), VeloConfig::default()).unwrap();
    // What the caller counts itself.
    let own = node.open_port(PortConfig { traced: false, ..PortConfig::default() }).unwrap();
    let said = (RemoteRegion::of(&region), velo.address(), first.address());
    let all: Vec<(RemoteRegion, Address, Address)> = exchange(job, &said);
    let me = job.rank() as usize;
    for (to, (there, mailbox, first_there)) in all.iter().enumerate().filter(|(to, _)| *to != me) {
        let bytes = of_pair(me, to) as usize - 40;
        if bytes > 0 {
            port.connect(there.port())
                .put(&region, 0, bytes, there.nla(0, bytes as u64).unwrap(), Spec::NONE)
                .unwrap();
        }
        first.connect(*first_there).notification_put(1, 2, Spec::NONE).unwrap();
        let lock = Lock { number: 0, compare: 0, add: 0 };
        first.connect(*first_there).lock(lock, Spec::NONE).unwrap();
        velo.connect(*mailbox).send(&[1; 20], 3).unwrap();
        velo.connect(*mailbox).send(&[1; 4], 3).unwrap();
        own.connect(there.port()).immediate_put(1, 8, there.nla(0, 8).unwrap(), Spec::NONE).unwrap();
    }
    // None of a rank's to itself, and of a group of nodes not known to whom.
    port.connect(port.address()).immediate_put(1, 8, region.nla(0).unwrap(), Spec::NONE).unwrap();
    for port in [&first, &port, &own] {
        port.drain(SOON).unwrap();
    }
    job.barrier(SOON).unwrap();
}

fn of_pairs(ranks: usize) -> Messages {
    let to = |from| (0..ranks).filter(move |to| *to != from).map(move |to| (from, to, of_pair(from, to)));
    (0..ranks).flat_map(to).collect()
}

#[test]
fn ranks_that_share_nodes_are_told_apart() {
    let test = "traced::ranks_that_share_nodes_are_told_apart";
    let found = traced(test, |variable| on_hosts_with(test, &[0; 5], 2, variable, send_to_each));
    assert_eq!(found, of_pairs(5));
}

#[test]
fn ranks_of_other_hosts_are_told_apart() {
    if let Err(error @ (WireError::Nothing { .. } | WireError::Missing { .. } | WireError::NotBuilt { .. })) =
        choose()
    {
        return eprintln!("skipped: {error}");
    }
    let test = "traced::ranks_of_other_hosts_are_told_apart";
    let found = traced(test, |variable| on_hosts_with(test, &[0, 0, 1, 1], 2, variable, send_to_each));
    assert_eq!(found, of_pairs(4));
}

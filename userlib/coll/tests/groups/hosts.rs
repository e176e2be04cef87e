//! Groups over hosts whose nodes have several ranks. Where no library carries packets between hosts the tests are skipped.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::jobs::{all_of_first, die, on_hosts, victim};
use ggas_coll::{Group, GroupConfig, GroupError};
use ggas_device::sim::SimNetwork;
use ggas_kernels::{KernelMem, Processor, Running, start};
use ggas_members::Job;
use ggas_rma::Node;
use ggas_selftest::args::{
    SELFTEST_ALLREDUCE_ALL_GATHER, SELFTEST_ALLREDUCE_ALL_TO_ALL, SELFTEST_BARRIER, SELFTEST_GRID,
    SELFTEST_INT64, selftest_coll,
};
use ggas_window::Window;

/// Bound of every wait that is expected to succeed, on a machine that may stall for seconds.
const SOON: Duration = Duration::from_secs(60);
/// Bytes of each part before the group's area.
const USER: usize = 4096;
/// Numbers that are summed.
const COUNT: usize = 100;

fn job(test: &str, hosts: &[usize], per_node: u32, dies: Option<u32>, member: fn(&Job)) {
    if crate::wire::is_there() {
        on_hosts(test, hosts, per_node, dies, member);
    }
}

struct Process {
    rank: usize,
    cpu: Processor,
    group: Group,
    /// What collectives returned, and how often something was wrong.
    results: KernelMem,
    _network: SimNetwork,
}

impl Process {
    fn new(job: &Job) -> Process {
        let network = SimNetwork::builder().join_as(job.member().clone()).expect("a node");
        let (node, cpu) = (Node::new(network.device(0).expect("one")), Processor::cpu());
        let config =
            GroupConfig { offset: USER, slot_bytes: 256, timeout: SOON, ..GroupConfig::for_nodes(4) };
        let bytes = config.end(job.size() as usize).expect("it fits");
        let window = Window::across(job, &node, &cpu, bytes, SOON).expect("a window");
        assert!(window.info().passes_the_cards(), "{}", window.info());
        let group = Group::across(job, Arc::new(window), &config).expect("a group");
        let results = cpu.alloc(16).expect("memory");
        Process { rank: job.rank() as usize, cpu, group, results, _network: network }
    }

    fn start(&self, kernel: &str, args: selftest_coll) -> Running {
        let args = selftest_coll {
            group: self.group.member(self.rank).expect("mine").address(),
            status: self.results.address(),
            wrong: self.results.address() + 8,
            ..args
        };
        // SAFETY: the structure is this kernel's, and its memory outlives the wait.
        let launch = unsafe { ggas_selftest::launch(&self.cpu, kernel, 2, 32, &args) };
        start(&[launch]).expect("it starts")
    }

    fn barriers(&self, rounds: u32) -> Running {
        let window = self.group.window();
        let args = selftest_coll {
            input: window.member(self.rank).and_then(|own| own.global_pointer(0)).expect("trapped"),
            input_stride: window.info().stride as u64,
            method: SELFTEST_BARRIER,
            rounds,
            ..selftest_coll::default()
        };
        self.start("ggas_selftest_coll", args)
    }

    fn sums(&self, method: u32) {
        let value = |rank: usize, i: usize| (rank as i64 + 1) * (i as i64 - 7) * 1_000_003;
        let memory = self.cpu.alloc(2 * 8 * COUNT).expect("memory");
        let bytes = (0..COUNT).flat_map(|i| value(self.rank, i).to_ne_bytes());
        memory.write(0, &bytes.collect::<Vec<u8>>()).expect("in range");
        let args = selftest_coll {
            input: memory.address(),
            out: memory.address() + 8 * COUNT as u64,
            count: COUNT as u64,
            element: SELFTEST_INT64,
            form: SELFTEST_GRID,
            method,
            rounds: 2,
            ..selftest_coll::default()
        };
        self.ends_well(self.start("ggas_selftest_coll_types", args));
        let mut sums = vec![0; 8 * COUNT];
        memory.read(8 * COUNT, &mut sums).expect("in range");
        for (i, sum) in sums.chunks_exact(8).enumerate() {
            let expected: i64 = (0..self.group.len()).map(|rank| value(rank, i)).sum();
            assert_eq!(i64::from_ne_bytes(sum.try_into().expect("8 bytes")), expected, "element {i}");
        }
    }

    fn ends_well(&self, running: Running) {
        running.wait(SOON).expect("it ends");
        let results = [0, 8].map(|at| self.results.load_u64(at).expect("in range"));
        assert_eq!(results, [0, 0], "{:?}", self.group.check());
    }
}

#[test]
fn barriers_and_sums_of_two_ranks_on_each_host() {
    job("hosts::barriers_and_sums_of_two_ranks_on_each_host", &[0, 0, 1, 1], 2, None, barriers_and_sums);
}

#[test]
fn barriers_and_sums_of_three_ranks_and_one() {
    job("hosts::barriers_and_sums_of_three_ranks_and_one", &[0, 0, 0, 1], 3, None, barriers_and_sums);
}

fn barriers_and_sums(job: &Job) {
    let process = Process::new(job);
    for _ in 0..2 {
        for word in [0, 8] {
            process.group.window().store_u64(process.rank, word, 0).expect("mine");
        }
        job.barrier(SOON).expect("all");
        process.ends_well(process.barriers(100));
        for method in [SELFTEST_ALLREDUCE_ALL_GATHER, SELFTEST_ALLREDUCE_ALL_TO_ALL] {
            process.sums(method);
        }
        process.group.check().expect("no failure");
        process.group.reset_across(job).expect("reset");
    }
    job.barrier(SOON).expect("all");
}

#[test]
fn the_death_of_one_of_two_ranks_of_a_node_ends_collectives() {
    const TEST: &str = "hosts::the_death_of_one_of_two_ranks_of_a_node_ends_collectives";
    job(TEST, &[0, 0, 1, 1], 2, Some(2), barriers_until_death);
    job(TEST, &[0, 0, 1, 1], 2, Some(1), barriers_until_death);
}

fn barriers_until_death(job: &Job) {
    let (process, dies) = (Process::new(job), victim().expect("who dies"));
    let endless = process.barriers(u32::MAX);
    while process.group.window().load_u64(process.rank, 0).expect("mine") < 3 {
        std::thread::yield_now();
    }
    job.barrier(SOON).expect("all are in the midst of it");
    if job.rank() == dies {
        die();
    }
    // An access to the part that is gone, or the poison: whichever comes first. The job may hear of the death later.
    let begun = Instant::now();
    let _ = endless.wait(SOON);
    assert!(begun.elapsed() < SOON / 2, "took {:?}", begun.elapsed());
    let check = process.group.check();
    assert!(matches!(check, Err(GroupError::PeerLost { rank }) if rank == dies), "{check:?}");
}

/// One of a node with another rank, on this host or another.
#[test]
fn who_leaves_ends_waits_for_it_on_all_hosts() {
    job(
        "hosts::who_leaves_ends_waits_for_it_on_all_hosts",
        &[0, 0, 1, 1],
        2,
        None,
        barriers_until_one_leaves,
    );
}

fn barriers_until_one_leaves(job: &Job) {
    let process = Process::new(job);
    process.ends_well(process.barriers(3));
    job.barrier(SOON).expect("all");
    if job.rank() == 3 {
        return;
    }
    let begun = Instant::now();
    let ended = process.barriers(1).wait(SOON);
    assert!(begun.elapsed() < SOON / 2, "took {:?}", begun.elapsed());
    // Whichever comes first: an access to the part that is gone, or that it is waited for.
    let by_access = ended.as_ref().is_err_and(|error| error.to_string().contains("member 3 has left"));
    let check = process.group.check();
    assert!(by_access || matches!(check, Err(GroupError::PeerLeft { rank: 3 })), "{ended:?}, {check:?}");
    all_of_first(3, job);
}

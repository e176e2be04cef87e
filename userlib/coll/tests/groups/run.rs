//! Collectives that hosts start and wait for, by kernels and by processes that share a GPU: the executor stands for one. With
//! `GGAS_TEST_GPUS=N` processes take turns on the first N GPUs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::jobs::{
    all_of_first, die, in_job, in_job_over, in_job_over_with_death, in_job_with_death, victim,
};
use ggas_coll::{Collective, Element, Group, GroupConfig, GroupError, Op, RunBy, TunedBy, Tuning, Vectors};
use ggas_device::sim::{ProcessFabric, SimNetwork};
use ggas_kernels::Processor;
use ggas_members::Job;
use ggas_rma::Node;
use ggas_window::Window;

/// Bound of waits that end well, on a machine that may stall.
const SOON: Duration = Duration::from_secs(60);
/// Bound of what a death ends before.
const LONG: Duration = Duration::from_secs(100);
/// Bytes of each part in front of the group's.
const USER: usize = 512 << 10;
const OUT: usize = USER / 2;

fn processor(job: &Job) -> Processor {
    match std::env::var("GGAS_TEST_GPUS") {
        Ok(gpus) => {
            let gpus: u32 = gpus.parse().expect("a number of GPUs");
            Processor::gpu((job.rank() % gpus) as usize).expect("a GPU")
        }
        Err(_) => Processor::cpu(),
    }
}

struct Process {
    rank: usize,
    group: Group,
    _network: SimNetwork,
}

impl Process {
    fn new(job: &Job, run_by: RunBy, timeout: Duration) -> Process {
        let fabric = ProcessFabric::join(job.member().clone()).expect("a card");
        Process::on(job, &fabric, GroupConfig { run_by, timeout, ..GroupConfig::default() })
    }

    fn on(job: &Job, fabric: &Arc<ProcessFabric>, config: GroupConfig) -> Process {
        Process::of(job, SimNetwork::join(fabric.clone()).expect("a node"), config)
    }

    /// On whichever host, by processes.
    fn over_hosts(job: &Job, timeout: Duration) -> Process {
        let network = SimNetwork::builder().join_as(job.member().clone()).expect("a node");
        let run_by = RunBy::Processes;
        Process::of(job, network, GroupConfig { run_by, timeout, ..GroupConfig::default() })
    }

    fn of(job: &Job, network: SimNetwork, config: GroupConfig) -> Process {
        let node = Node::new(network.device(0).expect("one"));
        let config = GroupConfig { offset: USER, ..config };
        let bytes = config.end(job.size() as usize).expect("it fits");
        let window = Window::across(job, &node, &processor(job), bytes, SOON).expect("a window");
        let group = Group::across(job, Arc::new(window), &config).expect("a group");
        Process { rank: job.rank() as usize, group, _network: network }
    }

    fn write(&self, at: usize, bytes: &[u8]) {
        self.group.window().write(self.rank, at, bytes).expect("in range");
    }

    fn read(&self, at: usize, bytes: usize) -> Vec<u8> {
        let mut got = vec![0; bytes];
        self.group.window().read(self.rank, at, &mut got).expect("in range");
        got
    }

    fn run(&self, what: Collective, vectors: &Vectors) {
        self.group.run(what, vectors).unwrap_or_else(|error| panic!("{what:?}: {error}"));
    }
}

/// A number that a rank has for another.
fn number(from: usize, to: usize, at: usize) -> i64 {
    (from as i64 + 1) * 1_000_003 - (to as i64 + 7) * 1009 + at as i64 % 97
}

fn bytes(numbers: impl Iterator<Item = i64>) -> Vec<u8> {
    numbers.flat_map(i64::to_ne_bytes).collect()
}

/// All collectives, of one number to more than a chunk of kernels.
fn all_collectives(job: &Job, process: &Process) {
    let (me, n) = (process.rank, process.group.len());
    for count in [1, 1000, OUT / 8 / n] {
        let vectors = Vectors { input: 0, output: OUT, count, element: Element::Int64, shape: None };
        let parts = |of: &dyn Fn(usize, usize) -> i64, n: usize| {
            bytes((0..n).flat_map(|part| (0..count).map(move |at| (part, at))).map(|(part, at)| of(part, at)))
        };
        let sum = |to: usize, at: usize| (0..n).map(|from| number(from, to, at)).sum::<i64>();
        let least = |to: usize, at: usize| (0..n).map(|from| number(from, to, at)).min().expect("one");
        process.write(0, &parts(&|to, at| number(me, to, at), n));
        let gives = |what: Collective, of: &dyn Fn(usize, usize) -> i64, parts_of: usize| {
            process.run(what, &vectors);
            assert!(process.read(OUT, 8 * count * parts_of) == parts(of, parts_of), "{what:?} of {count}");
        };
        gives(Collective::Allreduce { op: Op::Sum }, &|_, at| sum(0, at), 1);
        gives(Collective::ReduceScatter { op: Op::Min }, &|_, at| least(me, at), 1);
        gives(Collective::AllToAll, &|from, at| number(from, me, at), n);
        gives(Collective::AllGather, &|from, at| number(from, 0, at), n);
        let root = n - 1;
        process.write(OUT, &parts(&|_, at| number(me, 3, at), 1));
        gives(Collective::Broadcast { root }, &|_, at| number(root, 3, at), 1);
        gives(Collective::Barrier, &|_, at| number(root, 3, at), 1);
        let of_root = |_, at| if me == root { sum(0, at) } else { number(root, 3, at) };
        gives(Collective::Reduce { root, op: Op::Sum }, &of_root, 1);
        let own = Vectors { input: OUT, ..vectors };
        process.write(OUT, &parts(&|_, at| number(me, 5, at), 1));
        process.run(Collective::Allreduce { op: Op::Max }, &own);
        let most = |_, at| (0..n).map(|from| number(from, 5, at)).max().expect("one");
        assert!(process.read(OUT, 8 * count) == parts(&most, 1), "in place");
    }
    // Ones of every type.
    let half = |n: u32| ((n.ilog2() + 15) << 10 | (n << (10 - n.ilog2())) & 0x3ff) as u16;
    let words = |n: u32| -> [(Element, Vec<u8>); 5] {
        [
            (Element::Float, (n as f32).to_ne_bytes().into()),
            (Element::Double, f64::from(n).to_ne_bytes().into()),
            (Element::Int32, n.to_ne_bytes().into()),
            (Element::Half, half(n).to_ne_bytes().into()),
            (Element::Bfloat16, ((n as f32).to_bits() as u64 >> 16).to_ne_bytes()[..2].into()),
        ]
    };
    for ((element, one), (_, sum)) in words(1).into_iter().zip(words(n as u32)) {
        let vectors = Vectors { input: 0, output: OUT, count: 5, element, shape: None };
        process.write(0, &one.repeat(5));
        process.run(Collective::Allreduce { op: Op::Sum }, &vectors);
        assert_eq!(process.read(OUT, 5 * element.size()), sum.repeat(5), "{element:?}");
    }
    process.group.check().expect("no failure");
    job.barrier(SOON).expect("all are done");
}

/// What cannot be is told before anything is done, and the group goes on.
fn refused(process: &Process) {
    let vectors = Vectors { input: 0, output: OUT, count: 8, element: Element::Float, shape: None };
    let sum = Collective::Allreduce { op: Op::Sum };
    for (what, vectors) in [
        (sum, Vectors { output: 8, ..vectors }),
        (sum, Vectors { count: usize::MAX, ..vectors }),
        (sum, Vectors { output: USER, ..vectors }),
        (Collective::Broadcast { root: process.group.len() }, vectors),
        (Collective::Allreduce { op: Op::Xor }, vectors),
    ] {
        let error = process.group.run(what, &vectors).expect_err("it cannot be");
        assert!(matches!(error, GroupError::Vectors(_)), "{error}");
    }
    process.run(sum, &vectors);
}

#[test]
fn four_processes_by_themselves() {
    in_job("run::four_processes_by_themselves", (4, 1), |job| {
        let process = Process::new(job, RunBy::Processes, SOON);
        all_collectives(job, &process);
        refused(&process);
        job.barrier(SOON).expect("all are done");
    });
}

#[test]
fn seven_processes_by_themselves() {
    in_job("run::seven_processes_by_themselves", (7, 1), |job| {
        all_collectives(job, &Process::new(job, RunBy::Processes, SOON));
    });
}

/// On the executor by kernels; on GPUs by whatever these reach: one process on each by kernels, several by themselves.
#[test]
fn four_processes_as_the_group_chooses() {
    in_job("run::four_processes_as_the_group_chooses", (4, 1), |job| {
        let process = Process::new(job, RunBy::Reach, SOON);
        let gpus = std::env::var("GGAS_TEST_GPUS").map_or(4, |gpus| gpus.parse::<usize>().expect("a number"));
        let by_kernels = process.group.member(process.rank);
        match by_kernels {
            Ok(_) => assert!(gpus >= 4, "kernels of these would wait for each other's turns"),
            Err(GroupError::NotMapped { reason }) => {
                assert!(gpus < 4 && reason.contains("both on"), "{reason}")
            }
            Err(error) => panic!("{error}"),
        }
        all_collectives(job, &process);
        refused(&process);
        job.barrier(SOON).expect("all are done");
    });
}

#[test]
fn one_process_by_itself() {
    in_job("run::one_process_by_itself", (1, 1), |job| {
        let fabric = ProcessFabric::join(job.member().clone()).expect("a card");
        for run_by in [RunBy::Processes, RunBy::Reach] {
            all_collectives(
                job,
                &Process::on(job, &fabric, GroupConfig { run_by, ..GroupConfig::default() }),
            );
        }
    });
}

#[test]
fn four_processes_over_hosts() {
    if crate::wire::is_there() {
        in_job_over("run::four_processes_over_hosts", &[0, 1, 0, 0], |job| {
            let process = Process::over_hosts(job, SOON);
            all_collectives(job, &process);
            refused(&process);
            process.group.reset_across(job).expect("all do");
            all_collectives(job, &process);
        });
    }
}

/// In front of the group's area and behind it, in new groups and those that were reset; what is short has one round, the call's last.
#[test]
fn vectors_in_the_window_go_to_other_hosts_without_a_copy() {
    if crate::wire::is_there() {
        in_job_over("run::vectors_in_the_window_go_to_other_hosts_without_a_copy", &[0, 1, 1], |job| {
            let network = SimNetwork::builder().join_as(job.member().clone()).expect("a node");
            let node = Node::new(network.device(0).expect("one"));
            let tuned_by = TunedBy::Table(Tuning::default());
            let config =
                GroupConfig { offset: USER, run_by: RunBy::Processes, tuned_by, ..GroupConfig::default() };
            let end = config.end(job.size() as usize).expect("it fits");
            let window = Window::across(job, &node, &processor(job), end + USER, SOON).expect("a window");
            let group = Group::across(job, Arc::new(window), &config).expect("a group");
            let sum = Collective::Allreduce { op: Op::Sum };
            let straight = |input, output, count| {
                let before = group.between_hosts();
                let vectors = Vectors { input, output, count, element: Element::Int64, shape: None };
                let own: Vec<u8> = bytes((0..count).map(|at| number(job.rank() as usize, 0, at)));
                group.window().write(job.rank() as usize, input, &own).expect("in range");
                group.run(sum, &vectors).expect("a sum");
                let mut got = vec![0; 8 * count];
                group.window().read(job.rank() as usize, output, &mut got).expect("in range");
                let all = |at| (0..3).map(|from| number(from, 0, at)).sum();
                assert!(got == bytes((0..count).map(all)), "{count} of {input:#x}");
                group.between_hosts().straight - before.straight
            };
            // Two hosts: each puts the half that the other one adds, of its own sum.
            let half = |count| if job.rank() == 2 { 0 } else { 4 * count as u64 };
            for _ in 0..2 {
                for at in [0, end] {
                    assert_eq!(
                        straight(at, at + OUT, 20_000),
                        half(20_000),
                        "at {at:#x} of rank {}",
                        job.rank()
                    );
                    assert_eq!(straight(at, at, 20_000), half(20_000), "in place at {at:#x}");
                    assert_eq!(straight(at, at + OUT, 512), 0, "a short one");
                }
                assert_eq!(straight(0, end, 1000), half(1000), "from one to the other");
                group.reset_across(job).expect("all do");
            }
            let put = group.between_hosts();
            assert_eq!(put, ggas_coll::BetweenHosts::default(), "it is new");
        });
    }
}

#[test]
fn a_death_ends_a_collective_on_all_hosts() {
    if crate::wire::is_there() {
        in_job_over_with_death("run::a_death_ends_a_collective_on_all_hosts", &[0, 1, 1], 2, death);
    }
}

#[test]
fn calls_that_differ_end_the_group_until_it_is_reset() {
    in_job("run::calls_that_differ_end_the_group_until_it_is_reset", (3, 1), |job| {
        let process = Process::new(job, RunBy::Processes, LONG);
        let count = if process.rank == 1 { 9 } else { 8 };
        let vectors = Vectors { input: 0, output: OUT, count, element: Element::Float, shape: None };
        let sum = Collective::Allreduce { op: Op::Sum };
        let error = process.group.run(sum, &vectors).expect_err("another number");
        assert!(matches!(error, GroupError::Shared(_)), "{error}");
        assert!(matches!(process.group.check(), Err(GroupError::Poisoned { .. })), "it is told");
        let again = process.group.run(sum, &vectors).expect_err("it is broken");
        assert!(matches!(again, GroupError::Shared(_)), "{again}");
        process.group.reset_across(job).expect("all do");
        process.group.check().expect("as new");
        all_collectives(job, &process);
    });
}

#[test]
fn a_death_ends_a_collective_of_processes() {
    in_job_with_death("run::a_death_ends_a_collective_of_processes", 3, 1, death);
}

/// One dies in front of a collective.
fn death(job: &Job) {
    let process = match job.spans_hosts() {
        true => Process::over_hosts(job, LONG),
        false => Process::new(job, RunBy::Processes, LONG),
    };
    let vectors = Vectors { input: 0, output: OUT, count: 1000, element: Element::Float, shape: None };
    let sum = Collective::Allreduce { op: Op::Sum };
    process.run(sum, &vectors);
    job.barrier(SOON).expect("all have their sums");
    if Some(job.rank()) == victim() {
        die();
    }
    let is_victim = |rank| Some(rank) == victim();
    let error = process.group.run(sum, &vectors).expect_err("one is dead");
    let is_told = match &error {
        GroupError::PeerLost { rank } => is_victim(*rank),
        error => matches!(error, GroupError::Shared(_)),
    };
    assert!(is_told, "{error}");
    // The death may be told a moment later than the failure that it is the cause of.
    let error = process.group.reset_across(job).expect_err("one is dead");
    let is_told = match &error {
        GroupError::PeerLost { rank } => is_victim(*rank),
        error => matches!(error, GroupError::Window(_)),
    };
    assert!(is_told, "{error}");
}

#[test]
fn who_leaves_ends_a_collective_of_processes() {
    in_job("run::who_leaves_ends_a_collective_of_processes", (3, 1), leave);
}

#[test]
fn who_leaves_ends_a_collective_on_all_hosts() {
    if crate::wire::is_there() {
        in_job_over("run::who_leaves_ends_a_collective_on_all_hosts", &[0, 1, 1], leave);
    }
}

/// The last one leaves in front of a collective.
fn leave(job: &Job) {
    let process = match job.spans_hosts() {
        true => Process::over_hosts(job, LONG),
        false => Process::new(job, RunBy::Processes, LONG),
    };
    let vectors = Vectors { input: 0, output: OUT, count: 1000, element: Element::Float, shape: None };
    let sum = Collective::Allreduce { op: Op::Sum };
    process.run(sum, &vectors);
    job.barrier(SOON).expect("all have their sums");
    if job.rank() == 2 {
        return;
    }
    let begun = Instant::now();
    let error = process.group.run(sum, &vectors).expect_err("one has left");
    assert!(begun.elapsed() < LONG / 2, "took {:?}", begun.elapsed());
    assert!(matches!(error, GroupError::PeerLeft { rank: 2 }), "{error}");
    let check = process.group.check();
    assert!(matches!(check, Err(GroupError::PeerLeft { rank: 2 })), "{check:?}");
    all_of_first(2, job);
}

#[test]
fn processes_that_choose_differently_are_told() {
    in_job("run::processes_that_choose_differently_are_told", (2, 1), |job| {
        let fabric = ProcessFabric::join(job.member().clone()).expect("a card");
        let network = SimNetwork::join(fabric).expect("a node");
        let node = Node::new(network.device(0).expect("one"));
        let run_by = if job.rank() == 1 { RunBy::Processes } else { RunBy::Reach };
        let tuned_by = TunedBy::Table(Tuning::default());
        let config = GroupConfig { offset: USER, run_by, tuned_by, ..GroupConfig::default() };
        let bytes = config.end(2).expect("it fits");
        let window = Window::across(job, &node, &Processor::cpu(), bytes, SOON).expect("a window");
        let error = Group::across(job, Arc::new(window), &config).expect_err("they differ");
        assert!(matches!(error, GroupError::Unequal { rank: 1 }), "{error}");
    });
}

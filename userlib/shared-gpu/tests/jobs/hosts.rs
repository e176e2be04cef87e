//! Collectives of processes on several hosts, which are directories of networks here: inside each GPU, between the GPUs of a host, and
//! between hosts by the network, on the CPU executor.

use crate::wire;
use std::time::Duration;

use crate::common::{die, in_job_over, in_job_over_with_death, victim};
use crate::ranks::{self, LONG, SOON};
use ggas_device::sim::SimNetwork;
use ggas_kernels::{KernelMem, Processor};
use ggas_members::Job;
use ggas_rma::Node;
use ggas_shared_gpu::{Algorithm, Config, Element, Hierarchy, HierarchyConfig, Op, SharedGpuError, Vector};

/// More than two rounds between hosts, and than a step of what is gathered.
const COUNT: usize = 210_007;
const POISON: u8 = 0xee;

struct Rank {
    all: Hierarchy,
    input: KernelMem,
    output: KernelMem,
    me: usize,
    n: usize,
    // Goes behind the port.
    network: SimNetwork,
}

fn config(job: &Job, gpus: u32, timeout: Duration) -> HierarchyConfig {
    let of = || Config { buffer: 1 << 20, algorithm: Some(Algorithm::Gsb), timeout, ..Config::default() };
    HierarchyConfig {
        inside: of(),
        between: of(),
        gpu: Some(job.rank() / 2 % gpus),
        ..HierarchyConfig::default()
    }
}

fn network(job: &Job) -> SimNetwork {
    SimNetwork::builder().join_as(job.member().clone()).expect("a node")
}

fn node(network: &SimNetwork) -> Node {
    Node::new(network.device(0).expect("one"))
}

impl Rank {
    /// On a host with so many GPUs, which ranks take in pairs.
    fn new(job: &Job, gpus: u32, timeout: Duration) -> Rank {
        Rank::on(job, network(job), &config(job, gpus, timeout))
    }

    fn on(job: &Job, network: SimNetwork, config: &HierarchyConfig) -> Rank {
        let all =
            Hierarchy::new(job, Some(&node(&network)), &Processor::cpu(), config).expect("set up over hosts");
        let n = job.size() as usize;
        let memory = || Processor::cpu().alloc(8 * (COUNT + n) / n * n).expect("memory");
        Rank { all, input: memory(), output: memory(), me: job.rank() as usize, n, network }
    }

    /// Elements that a rank has for each rank: of a call of `count` for each of `parts`.
    fn fill(&self, memory: &KernelMem, count: usize, parts: usize) {
        self.clear();
        let at = |part: usize| (0..count).map(move |i| (part, i));
        write(memory, (0..parts).flat_map(at).map(|(part, i)| number(self.me, part, i)));
    }

    fn clear(&self) {
        self.output.write(0, &vec![POISON; self.output.len()]).expect("in range");
    }

    /// The result is this, and nothing behind it was touched.
    fn gives(&self, what: &str, expected: impl ExactSizeIterator<Item = i64>) {
        let len = 8 * expected.len();
        let mut got = vec![0; self.output.len()];
        self.output.read(0, &mut got).expect("in range");
        let bytes: Vec<u8> = expected.flat_map(i64::to_ne_bytes).collect();
        assert!(got[..len] == bytes, "{what} at rank {}", self.me);
        assert!(got[len..].iter().all(|byte| *byte == POISON), "{what} at rank {}: beyond", self.me);
    }

    fn allreduce(&mut self, count: usize) -> Result<(), SharedGpuError> {
        let (input, output) = (Vector::at(&self.input, 0), Vector::at(&self.output, 0));
        self.all.allreduce(input, output, count, Element::Int64, Op::Sum)
    }
}

fn write(memory: &KernelMem, numbers: impl Iterator<Item = i64>) {
    memory.write(0, &numbers.flat_map(i64::to_ne_bytes).collect::<Vec<u8>>()).expect("in range");
}

fn number(from: usize, part: usize, i: usize) -> i64 {
    (from as i64 + 1) * 1_000_003 + (part as i64 + 7) * 1009 + i as i64 % 997
}

fn sum(n: usize, part: usize, i: usize) -> i64 {
    (0..n).map(|from| number(from, part, i)).sum()
}

/// What has a vector of each rank.
fn whole(rank: &mut Rank, count: usize) {
    let (n, me) = (rank.n, rank.me);
    rank.fill(&rank.input, count, 1);
    rank.allreduce(count).expect("a sum");
    rank.gives("allreduce", (0..count).map(|i| sum(n, 0, i)));
    for root in 0..n {
        rank.clear();
        let (input, output) = (Vector::at(&rank.input, 0), Vector::at(&rank.output, 0));
        rank.all.reduce(root, input, output, count, Element::Int64, Op::Sum).expect("a sum");
        let results = if me == root { count } else { 0 };
        rank.gives("reduce", (0..results).map(|i| sum(n, 0, i)));
        rank.clear();
        if me == root {
            write(&rank.output, (0..count).map(|i| number(root, 3, i)));
        }
        rank.all.broadcast(root, Vector::at(&rank.output, 0), count, Element::Int64).expect("sent");
        rank.gives("broadcast", (0..count).map(|i| number(root, 3, i)));
    }
    // In place, and of bits.
    rank.fill(&rank.output, count, 1);
    let output = Vector::at(&rank.output, 0);
    rank.all.allreduce(output, output, count, Element::Int64, Op::Xor).expect("bits");
    let bits = |i| (0..n).map(|from| number(from, 0, i)).fold(0, |all, one| all ^ one);
    rank.gives("in place", (0..count).map(bits));
}

/// What has parts for and of each rank.
fn parts(rank: &mut Rank, count: usize) {
    let (n, me) = (rank.n, rank.me);
    rank.fill(&rank.input, count, n);
    let (input, output) = (Vector::at(&rank.input, 0), Vector::at(&rank.output, 0));
    rank.all.allgather(input, output, count, Element::Int64).expect("all together");
    rank.gives("allgather", (0..n * count).map(|at| number(at / count, 0, at % count)));
    rank.clear();
    let (input, output) = (Vector::at(&rank.input, 0), Vector::at(&rank.output, 0));
    rank.all.alltoall(input, output, count, Element::Int64).expect("all to all");
    rank.gives("alltoall", (0..n * count).map(|at| number(at / count, me, at % count)));
    rank.clear();
    let (input, output) = (Vector::at(&rank.input, 0), Vector::at(&rank.output, 0));
    rank.all.reduce_scatter(input, output, count, Element::Int64, Op::Sum).expect("parts of a sum");
    rank.gives("reduce-scatter", (0..count).map(|i| sum(n, me, i)));
    // This rank's part is where it will be.
    rank.clear();
    let own: Vec<u8> = (0..count).flat_map(|i| number(me, 0, i).to_ne_bytes()).collect();
    rank.output.write(8 * me * count, &own).expect("in range");
    let (input, output) = (Vector::at(&rank.output, 8 * me * count), Vector::at(&rank.output, 0));
    rank.all.allgather(input, output, count, Element::Int64).expect("all together");
    rank.gives("allgather in place", (0..n * count).map(|at| number(at / count, 0, at % count)));
}

fn byte(from: usize, part: usize, i: usize) -> u8 {
    number(from, part, i) as u8
}

/// The same of bytes: parts begin anywhere, and sums wrap.
fn of_bytes(rank: &mut Rank, count: usize) {
    let (n, me, element) = (rank.n, rank.me, Element::Uint8);
    let own = |rank: usize| (0..n).flat_map(move |part| (0..count).map(move |i| byte(rank, part, i)));
    rank.input.write(0, &own(me).collect::<Vec<u8>>()).expect("in range");
    let gives = |rank: &Rank, what: &str, expected: Vec<u8>| {
        let mut got = vec![0; expected.len() + 8];
        rank.output.read(0, &mut got).expect("in range");
        assert!(got[..expected.len()] == expected, "{what}, {count} bytes at rank {me}");
        assert!(got[expected.len()..] == [POISON; 8], "{what}, {count} bytes at rank {me}: beyond");
        rank.clear();
    };
    let sum = |part: usize, i: usize| (0..n).map(|from| byte(from, part, i)).fold(0, u8::wrapping_add);
    rank.clear();
    let (input, output) = (Vector::at(&rank.input, 0), Vector::at(&rank.output, 0));
    rank.all.allreduce(input, output, count, element, Op::Sum).expect("a sum");
    gives(rank, "allreduce", (0..count).map(|i| sum(0, i)).collect());
    let (input, output) = (Vector::at(&rank.input, 0), Vector::at(&rank.output, 0));
    rank.all.reduce_scatter(input, output, count, element, Op::Sum).expect("parts of a sum");
    gives(rank, "reduce-scatter", (0..count).map(|i| sum(me, i)).collect());
    let (input, output) = (Vector::at(&rank.input, 0), Vector::at(&rank.output, 0));
    rank.all.allgather(input, output, count, element).expect("all together");
    gives(rank, "allgather", (0..n).flat_map(|from| own(from).take(count)).collect());
    let (input, output) = (Vector::at(&rank.input, 0), Vector::at(&rank.output, 0));
    rank.all.alltoall(input, output, count, element).expect("all to all");
    gives(rank, "alltoall", (0..n).flat_map(|from| own(from).skip(me * count).take(count)).collect());
    if me == n - 1 {
        rank.output.write(0, &own(me).take(count).collect::<Vec<u8>>()).expect("in range");
    }
    rank.all.broadcast(n - 1, Vector::at(&rank.output, 0), count, element).expect("sent");
    gives(rank, "broadcast", own(n - 1).take(count).collect());
}

fn all_calls(job: &Job, gpus: u32) {
    let mut rank = Rank::new(job, gpus, SOON);
    let hosts = rank.all.hosts().concat().len();
    assert!(hosts == rank.n && rank.all.hosts().len() > 1, "{:?}", rank.all);
    let n = rank.n;
    // One word, whole vectors to all hosts, parts of them, several rounds.
    for count in [1, 500, 1000, COUNT] {
        whole(&mut rank, count);
        parts(&mut rank, count.div_ceil(n));
        rank.all.barrier().expect("all meet");
    }
    [1, 77, 4001].into_iter().for_each(|count| of_bytes(&mut rank, count));
    // Nothing is something that hosts meet for.
    let (input, output) = (Vector::at(&rank.input, 0), Vector::at(&rank.output, 0));
    rank.all.allreduce(input, output, 0, Element::Float, Op::Sum).expect("no sum");
    rank.all.alltoall(input, output, 0, Element::Float).expect("none to none");
    refused(&mut rank);
    rank.fill(&rank.input, 10, 1);
    rank.allreduce(10).expect("those were no failures");
    rank.gives("behind refusals", (0..10).map(|i| sum(rank.n, 0, i)));
    job.barrier(SOON).expect("all are done");
}

/// What cannot be is told before anything is done.
fn refused(rank: &mut Rank) {
    let (input, output) = (Vector::at(&rank.input, 0), Vector::at(&rank.output, 0));
    let all = &mut rank.all;
    let n = rank.n;
    for error in [
        all.broadcast(n, output, 1, Element::Int64),
        all.reduce(n, input, output, 1, Element::Int64, Op::Sum),
        all.allreduce(input, output, usize::MAX, Element::Int64, Op::Sum),
        all.allgather(input, output, usize::MAX / 4, Element::Int64),
        all.allreduce(input, output, 1, Element::Float, Op::Xor),
        all.reduce_scatter(input, output, 1, Element::Float, Op::And),
        all.alltoall(input, input, 1, Element::Int64),
        all.reduce_scatter(input, input, 1, Element::Int64, Op::Sum),
    ] {
        let is_told = |error: &SharedGpuError| {
            matches!(
                error,
                SharedGpuError::Root { .. }
                    | SharedGpuError::Range { .. }
                    | SharedGpuError::Overlap { .. }
                    | SharedGpuError::Bits
            )
        };
        let error = error.expect_err("it cannot be");
        assert!(is_told(&error), "{error}");
    }
    assert!(!rank.all.is_broken());
}

#[test]
fn three_and_one() {
    if wire::is_there() {
        in_job_over("hosts::three_and_one", &[0, 0, 0, 1], |job| all_calls(job, 1));
    }
}

/// Ranks of a host are not next to each other, and one host has a GPU less than the other.
#[test]
fn five_by_turns_on_several_gpus() {
    if wire::is_there() {
        in_job_over("hosts::five_by_turns_on_several_gpus", &[0, 1, 0, 1, 0], |job| all_calls(job, 3));
    }
}

#[test]
fn three_hosts() {
    if wire::is_there() {
        in_job_over("hosts::three_hosts", &[1, 0, 2, 1], |job| all_calls(job, 1));
    }
}

/// Sums of numbers that round: the ranks of each host, then hosts, whatever the length; alike at all and in each run.
#[test]
fn bits_are_those_of_the_order_of_hosts() {
    if wire::is_there() {
        in_job_over("hosts::bits_are_those_of_the_order_of_hosts", &[0, 1, 2, 0, 1], |job| {
            let mut rank = Rank::new(job, 1, SOON);
            let own = |count: usize| {
                let numbers = (0..count).map(|i| ranks::number(job.rank() as usize, i));
                numbers.flat_map(f32::to_ne_bytes).collect::<Vec<u8>>()
            };
            for count in [1, 1000, 300_000] {
                rank.input.write(0, &own(count)).expect("in range");
                let (input, output) = (Vector::at(&rank.input, 0), Vector::at(&rank.output, 0));
                rank.all.allreduce(input, output, count, Element::Float, Op::Sum).expect("a sum");
                let of = |ranks: [usize; 2], i| ranks.map(|rank| ranks::number(rank, i)).iter().sum::<f32>();
                let expected = (0..count)
                    .map(|i| of([0, 3], i) + of([1, 4], i) + ranks::number(2, i))
                    .collect::<Vec<_>>();
                assert!(ranks::floats(&rank.output, count) == expected, "{count} elements: other bits");
            }
        });
    }
}

/// Calls that differ between hosts, though not on one, are told on all.
#[test]
fn calls_that_differ_are_told_on_all_hosts() {
    if wire::is_there() {
        in_job_over("hosts::calls_that_differ_are_told_on_all_hosts", &[0, 0, 1, 1], |job| {
            let mut rank = Rank::new(job, 1, LONG);
            rank.clear();
            let error = rank.allreduce(if rank.me < 2 { 7 } else { 8 }).expect_err("other sizes");
            let is_leader = rank.me.is_multiple_of(2);
            match error {
                SharedGpuError::Mismatch { rank: other } if is_leader => assert_eq!(other, 2 - rank.me),
                SharedGpuError::Elsewhere { .. } if !is_leader => {}
                error => panic!("rank {}: {error}", rank.me),
            }
            assert!(matches!(rank.allreduce(1), Err(SharedGpuError::Broken)));
            // A new one, of the same nodes.
            let Rank { all, network, .. } = rank;
            drop(all);
            let mut rank = Rank::on(job, network, &config(job, 1, SOON));
            rank.fill(&rank.input, 10, 1);
            rank.allreduce(10).expect("a sum");
            rank.gives("a new one", (0..10).map(|i| sum(rank.n, 0, i)));
        });
    }
}

/// Who waits in vain says so to all; who comes later ends at once.
#[test]
fn a_host_that_does_not_come_is_named() {
    if wire::is_there() {
        in_job_over("hosts::a_host_that_does_not_come_is_named", &[0, 0, 1, 1], |job| {
            let mut rank = Rank::new(job, 1, SOON);
            rank.allreduce(10).expect("all are there");
            if rank.me < 2 {
                let timeout = if rank.me == 0 { Duration::from_millis(200) } else { LONG };
                rank.all.set_timeout(timeout);
                match rank.allreduce(10).expect_err("the other host does not come") {
                    SharedGpuError::Timeout { rank: 2, .. } if rank.me == 0 => {}
                    SharedGpuError::Elsewhere { rank: 0, .. } if rank.me == 1 => {}
                    error => panic!("rank {}: {error}", rank.me),
                }
            }
            job.barrier(SOON).expect("it has given up");
            if rank.me >= 2 {
                let error = rank.allreduce(10).expect_err("the other host has given up");
                assert!(matches!(error, SharedGpuError::Elsewhere { .. }), "{error}");
            }
            assert!(rank.all.is_broken());
            job.barrier(SOON).expect("all have seen it");
        });
    }
}

fn death(job: &Job) {
    let mut rank = Rank::new(job, 1, LONG);
    rank.fill(&rank.input, COUNT, 1);
    rank.allreduce(COUNT).expect("all are there");
    // Rank 0 tells the others that all have come, and may die before they have heard of it.
    let met = job.barrier(SOON);
    if victim() != Some(0) {
        met.expect("all have their sums");
    }
    if Some(job.rank()) == victim() {
        die();
    }
    let error = rank.allreduce(COUNT).expect_err("one is dead");
    let is_told = match error {
        SharedGpuError::PeerLost { rank } => Some(rank) == victim(),
        SharedGpuError::Elsewhere { .. } => true,
        _ => false,
    };
    assert!(is_told, "rank {}: {error}", rank.me);
    assert!(matches!(rank.all.barrier(), Err(SharedGpuError::Broken)));
}

#[test]
fn the_death_of_a_leader_ends_the_call() {
    if wire::is_there() {
        in_job_over_with_death("hosts::the_death_of_a_leader_ends_the_call", &[0, 0, 1, 1], 2, death);
    }
}

#[test]
fn the_death_of_a_rank_that_leads_nobody_ends_the_call() {
    if wire::is_there() {
        let name = "hosts::the_death_of_a_rank_that_leads_nobody_ends_the_call";
        in_job_over_with_death(name, &[0, 0, 1, 1], 3, death);
    }
}

/// By which the others hear of each other.
#[test]
fn the_death_of_rank_0_ends_the_call() {
    if wire::is_there() {
        in_job_over_with_death("hosts::the_death_of_rank_0_ends_the_call", &[0, 0, 1, 1], 0, death);
    }
}

/// Groups of some ranks, which overlap, by letters between hosts.
#[test]
fn some_ranks_of_several_hosts() {
    if wire::is_there() {
        in_job_over("hosts::some_ranks_of_several_hosts", &[0, 1, 0, 1, 2], |job| {
            let network = network(job);
            let me = job.rank();
            for (tag, ranks) in [(1, &[0, 1, 2, 3, 4][..]), (2, &[1, 2, 4]), (3, &[0, 2]), (4, &[3, 4])] {
                if !ranks.contains(&me) {
                    continue;
                }
                let (cpu, config) = (Processor::cpu(), config(job, 1, SOON));
                let node = node(&network);
                let mut some = Hierarchy::among(job, ranks, tag, Some(&node), &cpu, &config).expect("set up");
                let memory = || cpu.alloc(8 * ranks.len()).expect("memory");
                let (own, all) = (memory(), memory());
                own.store_u64(0, 100 + u64::from(me)).expect("in range");
                let (input, output) = (Vector::at(&own, 0), Vector::at(&all, 0));
                some.allgather(input, output, 1, Element::Uint64).expect("all together");
                let expected: Vec<u64> = ranks.iter().map(|rank| 100 + u64::from(*rank)).collect();
                assert_eq!(all.read_u64s(0, ranks.len()).expect("in range"), expected, "{ranks:?}");
                let last = *ranks.last().expect("one") as usize;
                some.broadcast(last, input, 1, Element::Uint64).expect("sent");
                assert_eq!(own.load_u64(0).expect("in range"), 100 + last as u64, "{ranks:?}");
            }
            job.barrier(SOON).expect("all are done");
        });
    }
}

#[test]
fn a_leader_without_a_node_is_told_on_all() {
    if wire::is_there() {
        in_job_over("hosts::a_leader_without_a_node_is_told_on_all", &[0, 1, 1], |job| {
            let network = network(job);
            let (cpu, config) = (Processor::cpu(), config(job, 1, SOON));
            let with = Some(node(&network)).filter(|_| job.rank() != 1);
            let error = Hierarchy::new(job, with.as_ref(), &cpu, &config).expect_err("rank 1 has none");
            assert!(matches!(error, SharedGpuError::OtherHost), "{error}");
            // Who leads nobody needs none.
            let with = Some(node(&network)).filter(|_| job.rank() != 2);
            Hierarchy::new(job, with.as_ref(), &cpu, &config).expect("they can try again");
            let error =
                ggas_shared_gpu::SharedGpu::new(job, &cpu, &Config::default()).expect_err("two hosts");
            let is_told = matches!(error, SharedGpuError::OtherHost | SharedGpuError::Peer { .. });
            assert!(is_told, "{error}");
            job.barrier(SOON).expect("all are done");
        });
    }
}

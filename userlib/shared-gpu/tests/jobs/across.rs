//! Collectives of processes on several hosts, by each way that there is between hosts, on the CPU executor: whose memory stands for a
//! GPU's.

use crate::wire;
use std::sync::Arc;

use crate::common::in_job_over;
use crate::ranks::SOON;
use ggas_device::sim::SimNetwork;
use ggas_kernels::{KernelMem, Processor};
use ggas_members::Job;
use ggas_rma::Node;
use ggas_shared_gpu::{
    Across, ChosenBy, Collective, Config, Element, Hierarchy, HierarchyConfig, HostChoice, HostChoices,
    HostTable, Op, Through, Vector,
};

/// Two slots of two hosts are shorter.
const LONG: usize = 75_001;

const GPU: Across = Across { through: Through::Gpu, whole: false };
const HOST_WHOLE: Across = Across { through: Through::Host, whole: true };
const GPU_WHOLE: Across = Across { through: Through::Gpu, whole: true };

fn network(job: &Job) -> SimNetwork {
    SimNetwork::builder().join_as(job.member().clone()).expect("a node")
}

struct Rank {
    all: Hierarchy,
    input: Arc<KernelMem>,
    output: Arc<KernelMem>,
    me: usize,
    n: usize,
}

impl Rank {
    fn new(job: &Job, network: &SimNetwork, config: HierarchyConfig) -> Rank {
        let of = || Config { buffer: 1 << 20, timeout: SOON, ..Config::default() };
        let config = HierarchyConfig { inside: of(), between: of(), ..config };
        let (cpu, node) = (Processor::cpu(), Node::new(network.device(0).expect("one")));
        let all = Hierarchy::new(job, Some(&node), &cpu, &config).expect("set up over hosts");
        let (me, n) = (job.rank() as usize, job.size() as usize);
        let memory = || Arc::new(cpu.alloc(8 * LONG.next_multiple_of(n)).expect("memory"));
        Rank { all, input: memory(), output: memory(), me, n }
    }

    /// Bytes that were put since then.
    fn put(&self, since: [u64; 2]) -> [u64; 2] {
        let all = [Through::Host, Through::Gpu].map(|through| self.all.put_bytes(through));
        [all[0] - since[0], all[1] - since[1]]
    }

    fn fill(&self, count: usize) {
        let own: Vec<u8> = (0..count).flat_map(|at| number(self.me, at).to_ne_bytes()).collect();
        self.input.write(0, &own).expect("in range");
        self.output.write(0, &vec![0xee; self.output.len()]).expect("in range");
    }

    fn gives(&self, what: &str, expected: impl Iterator<Item = i64>) {
        let mut got = vec![0; self.output.len()];
        self.output.read(0, &mut got).expect("in range");
        let expected: Vec<u8> = expected.flat_map(i64::to_ne_bytes).collect();
        assert!(got[..expected.len()] == expected, "{what} at rank {}", self.me);
        assert!(got[expected.len()..].iter().all(|byte| *byte == 0xee), "{what} at rank {}: beyond", self.me);
    }

    /// Each collective, of so many elements, or of as many for each rank as that has.
    fn calls(&mut self, count: usize) {
        let (n, me, int) = (self.n, self.me, Element::Int64);
        let vectors = |rank: &Rank| -> (KernelMem, KernelMem) {
            let borrow = |memory: &KernelMem| {
                // SAFETY: the rank keeps its memory until the call is over.
                unsafe { Processor::cpu().borrow(memory.address() as *mut u8, memory.len()) }
                    .expect("borrowed")
            };
            (borrow(&rank.input), borrow(&rank.output))
        };
        let sum = |at: usize| (0..n).map(|from| number(from, at)).sum::<i64>();
        let (input, output) = vectors(self);
        let (input, output) = (Vector::at(&input, 0), Vector::at(&output, 0));
        self.fill(count);
        self.all.allreduce(input, output, count, int, Op::Sum).expect("a sum");
        self.gives("allreduce", (0..count).map(sum));
        for root in 0..n {
            self.fill(count);
            self.all.reduce(root, input, output, count, int, Op::Sum).expect("a sum");
            self.gives("reduce", (0..if me == root { count } else { 0 }).map(sum));
            self.fill(count);
            let vector = if me == root { input } else { output };
            self.all.broadcast(root, vector, count, int).expect("sent");
            self.gives("broadcast", (0..if me == root { 0 } else { count }).map(|at| number(root, at)));
        }
        let each = count / n;
        self.fill(each);
        self.all.allgather(input, output, each, int).expect("all together");
        self.gives("allgather", (0..n * each).map(|at| number(at / each, at % each)));
        self.fill(n * each);
        self.all.alltoall(input, output, each, int).expect("all to all");
        self.gives("alltoall", (0..n * each).map(|at| number(at / each, me * each + at % each)));
        self.fill(n * each);
        self.all.reduce_scatter(input, output, each, int, Op::Sum).expect("parts of a sum");
        self.gives("reduce-scatter", (0..each).map(|at| sum(me * each + at)));
        self.all.barrier().expect("all meet");
    }
}

fn number(from: usize, at: usize) -> i64 {
    (from as i64 + 1) * 1_000_003 + at as i64 % 997
}

/// All have the same results, whatever is forced, and puts are from the memory that is named, as many bytes as that way has.
#[test]
fn each_way_between_hosts_is_right_and_puts_from_where_it_says() {
    if wire::is_there() {
        in_job_over(
            "across::each_way_between_hosts_is_right_and_puts_from_where_it_says",
            &[0, 1, 0, 2],
            |job| {
                let network = network(job);
                for across in [Across::default(), HOST_WHOLE, GPU, GPU_WHOLE] {
                    let config = HierarchyConfig { across: Some(across), ..HierarchyConfig::default() };
                    let mut rank = Rank::new(job, &network, config);
                    let leads = rank.me != 2;
                    let chosen = rank.all.across(Collective::Reduce, 7);
                    assert_eq!(chosen, Some((across, ChosenBy::Forced)));
                    [4, 600, LONG].into_iter().for_each(|count| rank.calls(count));
                    let [host, gpu] = rank.put([0; 2]);
                    let (used, other) =
                        if across.through == Through::Gpu { (gpu, host) } else { (host, gpu) };
                    assert!(
                        other == 0 && (used > 0) == leads,
                        "{across:?}: {host} and {gpu} at rank {}",
                        rank.me
                    );
                    // Whole vectors to two hosts, or a share of it each way.
                    rank.fill(LONG);
                    let before = rank.put([0; 2]);
                    let (input, output) = (Vector::at(&rank.input, 0), Vector::at(&rank.output, 0));
                    rank.all.allreduce(input, output, LONG, Element::Int64, Op::Sum).expect("a sum");
                    let [host, gpu] = rank.put(before);
                    let bytes = 8 * LONG as u64 * if leads { 2 } else { 0 };
                    let least = if across.whole { bytes } else { bytes * 66 / 100 };
                    let most = if across.whole { bytes } else { bytes * 67 / 100 };
                    let put = host + gpu;
                    assert!(
                        (least..=most).contains(&put),
                        "{across:?}: {put} of {bytes} at rank {}",
                        rank.me
                    );
                }
                job.barrier(SOON).expect("all are done");
            },
        );
    }
}

/// Of reductions the shares of others, of broadcasts all, but for what goes in the last round of a call: right behind that the vectors are
/// written again.
#[test]
fn attached_vectors_go_from_where_they_are_without_a_slot() {
    if wire::is_there() {
        in_job_over("across::attached_vectors_go_from_where_they_are_without_a_slot", &[0, 1, 0, 2], |job| {
            let network = network(job);
            for across in [Across::default(), HOST_WHOLE, GPU, GPU_WHOLE] {
                let config = HierarchyConfig { across: Some(across), ..HierarchyConfig::default() };
                let mut rank = Rank::new(job, &network, config);
                let (leads, bytes) = (rank.me != 2, 8 * LONG as u64);
                let shares = |bytes: u64| 2 * bytes / 3 - 32..=2 * bytes / 3 + 32;
                let (input, output) = (rank.input.clone(), rank.output.clone());
                let (from, to) = (Vector::at(&input, 0), Vector::at(&output, 0));
                rank.fill(LONG);
                rank.all.allreduce(from, to, LONG, Element::Int64, Op::Sum).expect("a sum");
                assert_eq!(rank.all.straight_bytes(), 0, "nothing is attached");
                // But for sums that leaders hold for another rank.
                rank.all.reduce(1, from, to, LONG, Element::Int64, Op::Sum).expect("a sum");
                let wanted = if leads && rank.me != 1 && !across.whole { shares(bytes) } else { 0..=0 };
                let straight = rank.all.straight_bytes();
                assert!(wanted.contains(&straight), "{across:?}: {straight} of {bytes} at {}", rank.me);
                for memory in [&input, &output, &input] {
                    assert_eq!(rank.all.attach(memory), rank.me != 2, "who leads its host");
                }
                [4, 600, LONG].into_iter().for_each(|count| rank.calls(count));
                // The last part that goes whole is one of a slot, and begins behind whole ones.
                let slots = (256 << 10) - 8;
                let of_whole = 2 * (bytes / slots * slots);
                for root in [0, 2] {
                    let before = (rank.all.straight_bytes(), rank.put([0; 2]));
                    rank.fill(LONG);
                    rank.all.broadcast(root, Vector::at(&input, 0), LONG, Element::Int64).expect("sent");
                    let straight = rank.all.straight_bytes() - before.0;
                    let wanted = match across.whole {
                        _ if rank.me != 0 => 0..=0,
                        true => of_whole..=of_whole,
                        false => shares(bytes),
                    };
                    assert!(wanted.contains(&straight), "{across:?}, {root}: {straight} at {}", rank.me);
                }
                let before = rank.all.straight_bytes();
                rank.all
                    .allreduce(Vector::at(&input, 0), Vector::at(&output, 0), LONG, Element::Int64, Op::Sum)
                    .expect("a sum");
                let straight = rank.all.straight_bytes() - before;
                let wanted = if leads && !across.whole { shares(bytes) } else { 0..=0 };
                assert!(wanted.contains(&straight), "{across:?}: {straight} of {bytes} at {}", rank.me);
                rank.all.detach(&output);
                rank.calls(600);
                rank.fill(LONG);
                let before = rank.all.straight_bytes();
                rank.all
                    .allreduce(Vector::at(&input, 0), Vector::at(&output, 0), LONG, Element::Int64, Op::Sum)
                    .expect("a sum");
                assert_eq!(rank.all.straight_bytes(), before, "it is not attached any more");
            }
            job.barrier(SOON).expect("all are done");
        });
    }
}

fn table(hosts: usize) -> HostTable {
    let mut table = HostTable::default();
    let choice = |from_bytes, across| HostChoice { from_bytes, across };
    let choices = HostChoices {
        device: "cpu".to_owned(),
        collective: Collective::Allreduce,
        hosts,
        by_size: vec![choice(0, HOST_WHOLE), choice(4800, GPU)],
        measured_by: String::new(),
    };
    table.insert(choices).expect("good");
    table
}

/// Hosts' tables may differ: that of the first rank's host counts on all. Calls of both memories follow each other.
#[test]
fn the_table_of_the_first_host_counts_if_it_has_as_many_hosts() {
    if wire::is_there() {
        in_job_over(
            "across::the_table_of_the_first_host_counts_if_it_has_as_many_hosts",
            &[0, 0, 1, 1],
            |job| {
                let network = network(job);
                let with = |hosts| HierarchyConfig { hosts, ..HierarchyConfig::default() };
                let own = if job.rank() == 0 { table(2) } else { HostTable::default() };
                let mut rank = Rank::new(job, &network, with(own));
                let of =
                    |rank: &Rank, collective, bytes| rank.all.across(collective, bytes).expect("two hosts");
                let found = [8, 4799, 4800].map(|bytes| of(&rank, Collective::Allreduce, bytes));
                assert_eq!(found, [HOST_WHOLE, HOST_WHOLE, GPU].map(|across| (across, ChosenBy::Table)));
                let built_in = (Across::default(), ChosenBy::BuiltIn);
                assert_eq!(of(&rank, Collective::Reduce, 8), built_in, "it has no reduction");
                for count in [10, 600, 599, LONG, 1, LONG, LONG, 8] {
                    let before = rank.put([0; 2]);
                    rank.fill(count);
                    let (input, output) = (Vector::at(&rank.input, 0), Vector::at(&rank.output, 0));
                    rank.all.allreduce(input, output, count, Element::Int64, Op::Sum).expect("a sum");
                    rank.gives("allreduce", (0..count).map(|at| (0..4).map(|from| number(from, at)).sum()));
                    let put = rank.put(before).map(|bytes| bytes > 0);
                    let leads = rank.me.is_multiple_of(2);
                    assert_eq!(
                        put,
                        [leads && count < 600, leads && count >= 600],
                        "{count} at rank {}",
                        rank.me
                    );
                }
                let own = if job.rank() == 0 { table(3) } else { table(2) };
                let mut rank = Rank::new(job, &network, with(own));
                assert_eq!(of(&rank, Collective::Allreduce, 8), built_in, "it is of three hosts");
                rank.calls(600);
                job.barrier(SOON).expect("all are done");
            },
        );
    }
}

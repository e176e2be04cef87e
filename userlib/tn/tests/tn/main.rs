//! Triggered operations of kernels and of the host, with real bytes between two nodes. Kernels run on the CPU executor, or
//! on the first two GPUs with `GGAS_TEST_GPUS=2`.

mod bounds;
mod granularity;
mod host;
#[path = "../../../window/tests/common/mod.rs"]
mod jobs;
mod simulated;
mod traced;
mod ways;
mod windows;

use std::sync::Arc;
use std::time::{Duration, Instant};

use extoll_abi::Spec;
use ggas_device::LockedMemory;
use ggas_device::sim::{FabricKind, Progress, SimBuilder, SimNetwork};
use ggas_kernels::{KernelMem, LaunchError, Processor, Running, start};
use ggas_rma::{HostBuffer, Node, Port, PortConfig, Region};
use ggas_selftest::args::*;
use ggas_tn::{Completion, Config, TnError, Triggers, Way, When};

/// Bound of every wait that is expected to succeed, on a machine that may stall for seconds.
const SOON: Duration = Duration::from_secs(60);

const BLOCKS: u32 = 3;
const THREADS: u32 = 64;
const ALL: usize = (BLOCKS * THREADS) as usize;
const BYTES: usize = 8 * ALL;

fn builder() -> SimBuilder {
    SimNetwork::builder().nodes(2).locked_memory(LockedMemory::Unlimited)
}

fn network(progress: Progress) -> SimNetwork {
    // Nobody else would do what the model needs while a GPU runs.
    let progress = if on_gpus() { Progress::Threads(1) } else { progress };
    builder().progress(progress).build().unwrap()
}

fn on_gpus() -> bool {
    std::env::var_os("GGAS_TEST_GPUS").is_some()
}

/// Whose kernels run on node 0, and on node 1.
fn processors() -> [Processor; 2] {
    ggas_selftest::add(); // before a GPU is opened
    if on_gpus() {
        return [0, 1].map(|gpu| Processor::gpu(gpu).unwrap());
    }
    let cpu = Processor::cpu();
    [cpu.clone(), cpu]
}

/// With the cards of two processes, both here.
fn between_processes() -> SimNetwork {
    builder().fabric(FabricKind::Process).progress(Progress::Threads(1)).build().unwrap()
}

/// Who counts, and how kernels' tags come there.
fn configs() -> [Config; 3] {
    let unit = Config::default();
    [unit, Config { kernel_slots: true, ..unit }, Config { way: Some(Way::Host), ..unit }]
}

/// What thread `thread` writes, as in `selftest_tn.cu`.
fn value(thread: u64, round: u64) -> u64 {
    (thread + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ round.wrapping_mul(0x2545_f491_4f6c_dd1d)
}

/// Ways in which kernels send.
const FORMS: [u32; 7] = [
    SELFTEST_TN_ITEMS,
    SELFTEST_TN_WARPS,
    SELFTEST_TN_GROUPS,
    SELFTEST_TN_PAIRS,
    SELFTEST_TN_BY_GROUPS,
    SELFTEST_TN_BY_ITEMS,
    SELFTEST_TN_FIELDS,
];

/// Waits until `done`, and says what did not come otherwise.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < SOON, "{what}");
        std::thread::yield_now();
    }
}

/// One operation of a form: words from `first` on, so many, after so many triggers.
#[derive(Clone, Copy, Debug)]
struct Piece {
    first: usize,
    words: usize,
    threshold: u32,
}

/// The operations that a form's kernels trigger, in the order of their tags.
fn pieces(form: u32) -> Vec<Piece> {
    let each = |words: usize, threshold: u32| {
        (0..ALL).step_by(words).map(|first| Piece { first, words, threshold }).collect()
    };
    match form {
        SELFTEST_TN_ITEMS => each(1, 1),
        SELFTEST_TN_FIELDS => vec![Piece { first: 0, words: 1, threshold: 1 }; ALL],
        SELFTEST_TN_WARPS => each(32, 1),
        SELFTEST_TN_GROUPS => each(THREADS as usize, 1),
        SELFTEST_TN_PAIRS => each(2, 2),
        SELFTEST_TN_BY_ITEMS => each(ALL, ALL as u32),
        _ => each(ALL, BLOCKS),
    }
}

/// Kernels of node 0 that trigger, memory of theirs, and memory of node 1.
struct Pair {
    cpu: Processor,
    triggers: Triggers,
    data: Arc<KernelMem>,
    source: Region,
    target: Port,
    destination: Region,
    status: KernelMem,
}

const TAG: u64 = 1 << 40;

impl Pair {
    fn new(network: &SimNetwork, config: Config) -> Pair {
        Pair::on(network, config, &processors()[0])
    }

    fn on(network: &SimNetwork, config: Config, cpu: &Processor) -> Pair {
        let node = |i| Node::new(network.device(i).unwrap());
        let triggers = Triggers::open(&node(0), cpu, config).unwrap();
        let data = Arc::new(cpu.alloc(BYTES).unwrap());
        let source = triggers.port().register_kernel_memory(data.clone()).unwrap();
        let target = node(1).open_port(PortConfig::default()).unwrap();
        let destination = target.register(HostBuffer::zeroed(BYTES).unwrap()).unwrap();
        let status = cpu.alloc(16).unwrap();
        Pair { cpu: cpu.clone(), triggers, data, source, target, destination, status }
    }

    fn put(&self, tag: u64, piece: Piece, fields: bool) -> Result<Completion, TnError> {
        let Piece { first, words, threshold } = piece;
        let when = When::tag(tag).after(threshold);
        let when = if fields { when.with_fields() } else { when };
        let (local, remote) = (8 * first..8 * (first + words), self.destination.nla(8 * first).unwrap());
        self.triggers.put(when, &self.source, local, self.target.address(), remote, Spec::COMPLETER)
    }

    fn register(&self, form: u32) -> Vec<Completion> {
        let fields = form == SELFTEST_TN_FIELDS;
        (TAG..).zip(pieces(form)).map(|(tag, piece)| self.put(tag, piece, fields).unwrap()).collect()
    }

    fn args(&self, form: u32, round: u32, word: u32) -> selftest_tn {
        selftest_tn {
            tn: self.triggers.address(),
            status: self.status.address(),
            wrong: self.status.address() + 8,
            data: self.data.address(),
            tag: TAG,
            word,
            times: round,
            form,
            round,
            rearm: 0,
            ahead: 0,
        }
    }

    fn start(&self, args: &selftest_tn) -> Running {
        // SAFETY: the arguments are this kernel's, their memory lives beyond the wait.
        let launch = unsafe { ggas_selftest::launch(&self.cpu, "ggas_selftest_tn", BLOCKS, THREADS, args) };
        start(&[launch]).unwrap()
    }

    fn run(&self, args: &selftest_tn) -> Result<(), LaunchError> {
        let _armed = self.triggers.arm();
        self.start(args).wait(SOON)
    }

    fn failed(&self) -> u64 {
        self.status.load_u64(0).unwrap()
    }

    /// As many notifications as operations, and no more; then the words of a round.
    fn check(&self, form: u32, round: u32) {
        assert_eq!(self.failed(), 0, "{:?} {:?}", self.triggers.report(), self.triggers.status());
        for _ in pieces(form) {
            self.target.wait(SOON).unwrap();
        }
        assert!(self.target.poll().is_none(), "more were started than registered");
        for thread in 0..ALL {
            let seen = self.destination.load_u64(8 * thread).unwrap();
            assert_eq!(
                seen,
                value(thread as u64, round.into()),
                "word {thread} of form {form}, round {round}"
            );
        }
    }
}

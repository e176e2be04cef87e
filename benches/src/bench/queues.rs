//! `queues`: what queues that blocks share cost over the bare puts below them, and what many blocks post by 1 to 32 of them.

use std::sync::Arc;

use crate::args::{self, bench_queues};
use ggas::{Memory, QueuesConfig, Shared, Way};
use ggas_kernels::KernelMem;
use ggas_window::Window;

use crate::error::Doing;
use crate::kernel::{self, Probe};
use crate::payload::RoundData;
use crate::setup::{Setup, Worker};
use crate::space::{window, window_of};
use crate::team::Task;
use crate::{Bench, BenchError, Check, Device, Options, Progress, Report, Row, Samples, Team};

/// Numbers of queues that rates are measured with.
const QUEUES: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// Blocks that post at the same time.
const BLOCKS: u32 = 32;
/// From the data of a bare put to its signal, where that is apart: more than a page of a GPU.
const APART: usize = 4 << 20;
/// Writes of a block in a round.
const BATCH: u32 = 16;

pub(crate) struct Queues;

impl Bench for Queues {
    fn name(&self) -> &'static str {
        "queues"
    }

    fn about(&self) -> &'static str {
        "posts to queues that blocks share: one beside the bare put below it, and those of many blocks by 1 to 32 queues"
    }

    fn is_of_two_nodes(&self) -> bool {
        true
    }

    fn methods(&self) -> &'static [&'static str] {
        &[
            "bare-signal",
            "bare-signal-apart",
            "queue-signal",
            "rate-stores",
            "bare-put",
            "queue-put",
            "rate-device",
        ]
    }

    fn by_windows(&self) -> bool {
        true
    }

    fn on_one_host(&self) -> &'static [&'static str] {
        &["bare-signal", "bare-signal-apart", "queue-signal", "rate-stores"]
    }

    fn by_engines(&self) -> &'static [&'static str] {
        &["bare-put", "queue-put", "rate-device"]
    }

    fn by_cards(&self) -> &'static [&'static str] {
        self.by_engines()
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        let sizes = options.sizes_or(&[8], 1..=4096, 1)?;
        let mut report = task.report();
        let mut methods = task.methods();
        if options.via == crate::Via::Nvlink && !options.engines(self) {
            // Without engines beside the windows nothing takes descriptors.
            methods.retain(|method| way(method) == Way::Stores);
        }
        progress.begin(self.name(), (methods.len() * sizes.len()) as u64);
        for method in methods {
            for &bytes in &sizes {
                for shape in shapes(method, bytes, options)? {
                    progress.now(format!("{method}, {bytes} bytes, {} queues", shape.queues));
                    let (samples, check) = writes(task, shape)?;
                    let mut row = Row::new(&samples).method(method).bytes(bytes);
                    (row.blocks, row.threads) = (Some(shape.blocks), Some(shape.threads));
                    row.extra.insert("queues", shape.queues.into());
                    if shape.form() == args::BENCH_QUEUES_RATE {
                        row.rate_per_s = samples.rate_per_s();
                    }
                    report.push(row, check);
                }
                progress.step();
            }
        }
        Ok(report)
    }
}

/// How a method's data travel.
fn way(method: &str) -> Way {
    match method {
        "bare-signal" | "bare-signal-apart" | "queue-signal" | "rate-stores" => Way::Stores,
        _ => Way::Device,
    }
}

#[derive(Clone, Copy)]
struct Shape {
    method: &'static str,
    bytes: u64,
    queues: u32,
    blocks: u32,
    threads: u32,
}

/// One thread posts by one queue; rates are of many blocks and all numbers of queues.
fn shapes(method: &'static str, bytes: u64, options: &Options) -> Result<Vec<Shape>, BenchError> {
    let one = Shape { method, bytes, queues: 1, blocks: 1, threads: 1 };
    if one.form() != args::BENCH_QUEUES_RATE {
        return Ok(vec![one]);
    }
    let threads = options.threads_or(&[32]);
    if let Some(bad) = threads.iter().find(|threads| **threads > 512) {
        return Err(BenchError::option("threads", bad, "use at most 512"));
    }
    let mut shapes = Vec::new();
    for blocks in options.blocks_or(&[BLOCKS]) {
        for &threads in &threads {
            shapes.extend(QUEUES.map(|queues| Shape { queues, blocks, threads, ..one }));
        }
    }
    Ok(shapes)
}

impl Shape {
    fn form(self) -> u32 {
        match self.method {
            "bare-put" => args::BENCH_QUEUES_BARE_PUT,
            "queue-put" => args::BENCH_QUEUES_PUT,
            "bare-signal" | "bare-signal-apart" => args::BENCH_QUEUES_BARE_SIGNAL,
            "queue-signal" => args::BENCH_QUEUES_SIGNAL,
            _ => args::BENCH_QUEUES_RATE,
        }
    }

    /// Where the signal of the bare put lies: behind the data, or where no page of theirs is, as queues have their flags.
    fn signal(self) -> usize {
        3 * self.length() + if self.method == "bare-signal-apart" { APART } else { 0 }
    }

    fn kernel(self) -> &'static str {
        if self.form() == args::BENCH_QUEUES_RATE { "bench_queues_rate" } else { "bench_queues_post" }
    }

    /// Writes of a round.
    fn writes(self) -> u64 {
        if self.form() == args::BENCH_QUEUES_RATE { u64::from(self.blocks * BATCH) } else { 1 }
    }

    /// Bytes of a round, and of each of the three places: for even and odd rounds, and of arrival.
    fn length(self) -> usize {
        (self.writes() * self.bytes).next_multiple_of(256) as usize
    }
}

/// What the queues of both nodes need; those of this process.
struct Ends {
    queues: ggas::Queues,
    shared: Shared,
    window: Arc<Window>,
}

impl Ends {
    fn new(setup: &Setup, shape: Shape) -> Result<Ends, BenchError> {
        let options = setup.options;
        let port = setup.port_config();
        let (queues, timeout) = (shape.queues, options.timeout);
        let config =
            QueuesConfig { queues, way: way(shape.method), port, timeout, ..QueuesConfig::default() };
        let doing = "opening queues";
        let here = setup.local().map(|node| setup.node(node)).collect::<Result<Vec<_>, _>>()?;
        let refused = match (setup.job(), &here[..]) {
            (None, [first, second, ..]) if first.id() == second.id() => Some(
                "queues join nodes with a card each: name two cards in EXTOLL_CARD, such as /dev/extoll0,/dev/extoll1",
            ),
            (None, [_]) => Some("queues join the nodes of one machine: leave --machine out"),
            _ => None,
        };
        if let Some(why) = refused {
            return Err(BenchError::Unsupported(why.to_owned()));
        }
        let window = window(setup, shape.signal() + 8)?;
        let memory = Memory::from(window.clone());
        let (queues, shared) = match setup.job() {
            None => {
                let member = |node| Ok((setup.node(node)?, setup.processor(node)));
                let members = setup.local().map(member).collect::<Result<Vec<_>, BenchError>>()?;
                let queues = ggas::Queues::new(&members, &config).doing(doing)?;
                let shared = queues.share(memory).doing(doing)?;
                (queues, shared)
            }
            Some(job) => {
                let own = setup.local().start;
                let (node, processor) = (setup.node(own)?, setup.processor(own));
                let queues = ggas::Queues::across(job, node, processor, &config).doing(doing)?;
                let shared = queues.share_across(job, memory).doing(doing)?;
                (queues, shared)
            }
        };
        Ok(Ends { queues, shared, window })
    }
}

/// What the writing node has.
struct Writer {
    probe: Probe,
    met: KernelMem,
}

fn writes(task: Task, shape: Shape) -> Result<(Samples, Check), BenchError> {
    let options = task.options;
    let setup = Setup::new(task, Worker::Kernels)?;
    let ends = Ends::new(&setup, shape)?;
    let data = RoundData::new(options.seed, 0, shape.length());
    let usual = match (options.device, shape.form() == args::BENCH_QUEUES_RATE) {
        (Device::Gpu, false) => 5000,
        (Device::Gpu, true) => 200,
        (Device::Cpu, false) => 500,
        (Device::Cpu, true) => 10,
    };
    let rounds = options.iterations.unwrap_or(usual);
    for node in setup.ends() {
        let write =
            |at: usize, bytes: &[u8]| ends.window.write(node as usize, at, bytes).doing("writing the window");
        write(0, &data.of(0))?;
        write(shape.length(), &data.of(1))?;
        write(2 * shape.length(), data.poison())?;
    }
    setup.share::<()>(Vec::new())?;
    let writer =
        setup.ends().any(|node| node == 0).then(|| Writer::run(&setup, &ends, shape, rounds)).transpose()?;
    // Node 1 looks once node 0 is done.
    setup.share::<()>(Vec::new())?;
    let mut check = Check::default();
    if setup.ends().any(|node| node == 1) {
        let len = (shape.writes() * shape.bytes) as usize;
        let mut seen = vec![0; len];
        ends.window.read(1, 2 * shape.length(), &mut seen).doing("reading the window")?;
        let last = Probe::rounds_of(rounds) - 1;
        check.bytes("what arrived at node 1", &data.of(last)[..len], &seen);
    }
    let samples = match &writer {
        Some(writer) => Some(writer.probe.samples()?.divided(shape.writes())),
        None => None,
    };
    setup.collect(samples, check)
}

impl Writer {
    fn run(setup: &Setup, ends: &Ends, shape: Shape, rounds: u64) -> Result<Writer, BenchError> {
        let processor = setup.processor(0);
        let met = processor.alloc(8).doing("allocating kernel memory")?;
        met.write(0, &[0; 8]).doing("writing kernel memory")?;
        let writer = Writer { probe: Probe::with_warm_up(processor, rounds)?, met };
        let args = bench_queues {
            timing: writer.probe.args(),
            queues: ends.queues.address(0).doing("choosing a member")?,
            memory: ends.shared.address(0).doing("choosing a member")?,
            window: window_of(&ends.window, 0)?,
            signal: shape.signal() as u64,
            met: writer.met.address(),
            bytes: shape.bytes,
            length: shape.length() as u64,
            batch: BATCH,
            form: shape.form(),
        };
        let launch = kernel::launch(processor, shape.kernel(), shape.blocks, shape.threads, &args);
        let armed = ends.queues.arm();
        kernel::run(&[launch], setup.options)?;
        drop(armed);
        let report = ends.queues.report(0).doing("choosing a member")?;
        writer.probe.finished(shape.kernel(), report)?;
        Ok(writer)
    }
}

//! `put-signal` and `put-packed`: ping-pongs of one-sided puts by kernels. `get`: the way back.

use std::sync::Arc;

use crate::args::{self, bench_put};
use ggas_kernels::KernelMem;
use ggas_window::{Rings, Window};

use super::iterations_for;
use crate::error::Doing;
use crate::kernel::{self, Probe};
use crate::payload::RoundData;
use crate::setup::{Setup, Worker};
use crate::space::{window, window_of};
use crate::team::Task;
use crate::{Bench, BenchError, Check, Device, Options, Progress, Report, Row, Samples, Team};

/// Most threads of a block (`GGAS_KERNEL_BOUND` of the kernels).
const MOST_THREADS: u32 = 512;
const SIZES: [u64; 9] = [8, 64, 256, 1024, 4096, 16_384, 65_536, 262_144, 1 << 20];

/// Gets timed together.
const GETS: u64 = 10;

/// How the data travel.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Signal,
    Packed,
    Get,
}

impl Way {
    fn kernel(self) -> &'static str {
        match self {
            Way::Signal => "bench_put_signal",
            Way::Packed => "bench_put_packed",
            Way::Get => "bench_get",
        }
    }
}

pub(crate) struct PutSignal;
pub(crate) struct PutPacked;
pub(crate) struct Get;

impl Bench for Get {
    fn name(&self) -> &'static str {
        "get"
    }

    fn about(&self) -> &'static str {
        "gets from another node, one after another"
    }

    fn is_of_two_nodes(&self) -> bool {
        true
    }

    fn methods(&self) -> &'static [&'static str] {
        &["thread", "warp", "block"]
    }

    fn by_windows(&self) -> bool {
        true
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        run(Way::Get, Task::new(self, team, options)?, progress)
    }
}

impl Bench for PutSignal {
    fn name(&self) -> &'static str {
        "put-signal"
    }

    fn about(&self) -> &'static str {
        "ping-pong of puts to a place that the sender names, each followed by a signal"
    }

    fn is_of_two_nodes(&self) -> bool {
        true
    }

    fn methods(&self) -> &'static [&'static str] {
        &["thread", "warp", "block", "grid"]
    }

    fn by_windows(&self) -> bool {
        true
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        run(Way::Signal, Task::new(self, team, options)?, progress)
    }
}

impl Bench for PutPacked {
    fn name(&self) -> &'static str {
        "put-packed"
    }

    fn about(&self) -> &'static str {
        "ping-pong of puts through the receiver's rings, a flag with every 12 bytes"
    }

    fn is_of_two_nodes(&self) -> bool {
        true
    }

    fn methods(&self) -> &'static [&'static str] {
        &["thread", "warp", "block", "grid"]
    }

    fn by_windows(&self) -> bool {
        true
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        run(Way::Packed, Task::new(self, team, options)?, progress)
    }
}

/// Who puts, and how much.
#[derive(Clone, Copy)]
struct Shape {
    way: Way,
    method: &'static str,
    bytes: u64,
    blocks: u32,
    threads: u32,
}

impl Shape {
    fn form(&self) -> u32 {
        match self.method {
            "thread" => args::BENCH_PUT_THREAD,
            "warp" => args::BENCH_PUT_WARP,
            "block" => args::BENCH_PUT_BLOCK,
            _ => args::BENCH_PUT_GRID,
        }
    }
}

fn run(way: Way, task: Task, progress: &mut Progress) -> Result<Report, BenchError> {
    let shapes = shapes(way, task)?;
    let mut report = task.report();
    progress.begin(report.bench, shapes.len() as u64);
    for shape in shapes {
        let Shape { method, bytes, blocks, threads, .. } = shape;
        progress.now(format!("{method}, {bytes} bytes, {blocks} x {threads} threads"));
        let (samples, check) = pingpong(task, shape)?;
        let mut row = Row::new(&samples).method(method).bytes(bytes);
        (row.blocks, row.threads) = (Some(blocks), Some(threads));
        report.push(row.bandwidth_of(bytes), check);
        progress.step();
    }
    Ok(report)
}

/// Every method at the sizes that suit it, unless the user says.
fn shapes(way: Way, task: Task) -> Result<Vec<Shape>, BenchError> {
    let options = task.options;
    let sizes = options.sizes_or(&SIZES, 1..=64 << 20, 1)?;
    let mut shapes = Vec::new();
    for method in task.methods() {
        for &bytes in &sizes {
            let (least, most) = match method {
                "thread" => (0, 64),
                "warp" => (0, 1024),
                "block" => (0, 1 << 20),
                _ => (16_384, u64::MAX),
            };
            if options.sizes.is_empty() && !(least..=most).contains(&bytes) {
                continue;
            }
            for blocks in blocks_of(way, method, bytes, options) {
                for threads in threads_of(way, method, bytes.div_ceil(blocks.into()), options) {
                    shapes.push(Shape { way, method, bytes, blocks, threads });
                }
            }
        }
    }
    Ok(shapes)
}

fn blocks_of(way: Way, method: &str, bytes: u64, options: &Options) -> Vec<u32> {
    match (method, options.device) {
        ("grid", Device::Gpu) if way == Way::Packed => {
            options.blocks_or(&[(bytes / 6144).clamp(2, 64) as u32])
        }
        ("grid", Device::Gpu) => options.blocks_or(&[(bytes / 8192).clamp(2, 64) as u32]),
        ("grid", Device::Cpu) => options.blocks_or(&[2]),
        _ => vec![1],
    }
}

fn threads_of(way: Way, method: &str, bytes: u64, options: &Options) -> Vec<u32> {
    let wanted = match method {
        "thread" => return vec![1],
        "warp" => return vec![32],
        _ if options.device == Device::Cpu => 64,
        _ => bytes.div_ceil(if way == Way::Packed { 12 } else { 16 }),
    };
    let threads = wanted.clamp(32, MOST_THREADS.into()).next_multiple_of(32) as u32;
    options.threads_or(&[threads]).into_iter().map(|threads| threads.min(MOST_THREADS)).collect()
}

/// What the window holds: a signal and both places of arrival, or rings.
#[derive(Clone, Copy)]
struct Layout {
    arrival: [u64; 2],
    rings: Rings,
    end: usize,
}

impl Layout {
    fn new(shape: Shape, nodes: u32) -> Result<Self, BenchError> {
        let bytes = shape.bytes as usize;
        // A block's share is rounded up to whole units.
        let share = bytes.div_ceil(shape.blocks as usize) + 48;
        let rings = Rings::for_messages(0, shape.blocks, share);
        let first = 4096;
        let second = first + bytes.next_multiple_of(256);
        let end = match shape.way {
            Way::Signal | Way::Get => Some(second + bytes),
            Way::Packed => rings.end(nodes as usize),
        };
        let end = end.ok_or_else(|| BenchError::option("sizes", bytes, "use smaller ones"))?;
        Ok(Self { arrival: [first as u64, second as u64], rings, end })
    }
}

/// One node's part of a ping-pong.
struct End {
    node: u32,
    probe: Probe,
    source: [KernelMem; 2],
    /// Packed puts: where what was taken goes.
    output: Option<[KernelMem; 2]>,
}

impl End {
    fn new(setup: &Setup, node: u32, shape: Shape, rounds: u64) -> Result<Self, BenchError> {
        let processor = setup.processor(node);
        let filled = |bytes: &[u8]| {
            let memory = processor.alloc(bytes.len()).doing("allocating kernel memory")?;
            memory.write(0, bytes).doing("writing kernel memory")?;
            Ok::<_, BenchError>(memory)
        };
        let own = data(setup, node, shape);
        let poison = data(setup, 1 - node, shape);
        let output = match shape.way {
            Way::Signal => None,
            Way::Packed | Way::Get => Some([filled(poison.poison())?, filled(poison.poison())?]),
        };
        let source = [filled(&own.of(0))?, filled(&own.of(1))?];
        Ok(Self { node, probe: Probe::with_warm_up(processor, rounds)?, source, output })
    }

    fn args(&self, shape: Shape, layout: &Layout, window: &Window) -> Result<bench_put, BenchError> {
        let arrival = match &self.output {
            None => layout.arrival,
            Some(output) => [output[0].address(), output[1].address()],
        };
        let source = match shape.way {
            Way::Get => layout.arrival,
            _ => [self.source[0].address(), self.source[1].address()],
        };
        Ok(bench_put {
            timing: self.probe.args(),
            window: window_of(window, self.node)?,
            source,
            arrival,
            bytes: shape.bytes,
            signal: 0,
            rings: layout.rings.offset as u64,
            lanes: layout.rings.lanes,
            lines_log2: layout.rings.lines_log2(),
            form: shape.form(),
            peer: 1 - self.node,
            first: u32::from(self.node == 0),
            batch: GETS as u32,
        })
    }

    /// Compares what came in the last even and the last odd round.
    fn check(
        &self,
        setup: &Setup,
        shape: Shape,
        layout: &Layout,
        window: &Window,
    ) -> Result<Check, BenchError> {
        let sent = data(setup, 1 - self.node, shape);
        let mut check = Check::default();
        for parity in 0..2 {
            let mut seen = vec![0; shape.bytes as usize];
            match &self.output {
                None => window
                    .read(self.node as usize, layout.arrival[parity] as usize, &mut seen)
                    .doing("reading the window")?,
                Some(output) => output[parity].read(0, &mut seen).doing("reading kernel memory")?,
            }
            check.bytes(&format!("what arrived at node {}", self.node), &sent.of(parity as u64), &seen);
        }
        Ok(check)
    }
}

fn data(setup: &Setup, sender: u32, shape: Shape) -> RoundData {
    RoundData::new(setup.options.seed, sender.into(), shape.bytes as usize)
}

fn pingpong(task: Task, shape: Shape) -> Result<(Samples, Check), BenchError> {
    let options = task.options;
    let kernel = shape.way.kernel();
    let setup = Setup::new(task, Worker::Kernels)?;
    let layout = Layout::new(shape, options.nodes)?;
    let window: Arc<Window> = window(&setup, layout.end)?;
    if shape.way == Way::Packed {
        layout.rings.check(&window).doing("laying out rings")?;
    }
    let small = if options.device == Device::Gpu { 5000 } else { 200 };
    let small = if shape.way == Way::Get { small / GETS } else { small };
    let rounds = options.iterations.unwrap_or(iterations_for(small, shape.bytes)).max(2);
    let mut ends = Vec::new();
    for node in setup.ends() {
        let (own, poison) = (data(&setup, node, shape), data(&setup, 1 - node, shape));
        for (round, at) in (0..).zip(layout.arrival) {
            let there = match shape.way {
                Way::Signal => poison.poison().to_vec(),
                Way::Packed => break,
                Way::Get => own.of(round),
            };
            window.write(node as usize, at as usize, &there).doing("writing the window")?;
        }
        // Who is only read from has no kernel.
        if shape.way != Way::Get || node == 0 {
            ends.push(End::new(&setup, node, shape, rounds)?);
        }
    }
    let mut launches = Vec::new();
    for end in &ends {
        let args = end.args(shape, &layout, &window)?;
        launches.push(kernel::launch(setup.processor(end.node), kernel, shape.blocks, shape.threads, &args));
    }
    setup.share::<()>(Vec::new())?;
    kernel::run(&launches, options)?;
    let mut check = Check::default();
    for end in &ends {
        let report = window.member(end.node as usize).doing("choosing a member")?.report();
        end.probe.finished(kernel, report)?;
        check.merge(end.check(&setup, shape, &layout, &window)?);
    }
    let samples = match ends.first() {
        Some(first) if first.node == 0 => Some(first.probe.samples()?),
        _ => None,
    };
    let one_way = |samples: Samples| match shape.way {
        Way::Get => samples.divided(GETS),
        _ => samples.halved(),
    };
    setup.collect(samples.map(one_way), check)
}

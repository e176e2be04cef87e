//! `put-bandwidth`: long puts to another node, by stores and by the copy units of the multiprocessors.

use crate::args::bench_put_bandwidth;
use ggas_kernels::{KernelMem, Launch};
use ggas_window::Window;

use super::iterations_for;
use crate::error::Doing;
use crate::kernel::{self, Probe};
use crate::payload::RoundData;
use crate::setup::{Setup, Worker};
use crate::space::{window, window_of};
use crate::team::Task;
use crate::{Bench, BenchError, Check, Device, Options, Progress, Report, Row, Samples, Team};

const KERNEL: &str = "bench_put_stream";

pub(crate) struct PutBandwidth;

impl Bench for PutBandwidth {
    fn name(&self) -> &'static str {
        "put-bandwidth"
    }

    fn about(&self) -> &'static str {
        "long puts by a whole grid, each until it is performed at the other node"
    }

    fn is_of_two_nodes(&self) -> bool {
        true
    }

    fn methods(&self) -> &'static [&'static str] {
        &["store", "bulk", "store-both", "bulk-both"]
    }

    fn by_windows(&self) -> bool {
        true
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        let gpu = options.device == Device::Gpu;
        let sizes: &[u64] = if gpu { &[1 << 20, 16 << 20, 256 << 20] } else { &[65_536, 1 << 20] };
        let sizes = options.sizes_or(sizes, 1..=1 << 30, 1)?;
        let mut report = task.report();
        let methods = task.methods();
        progress.begin(self.name(), (methods.len() * sizes.len()) as u64);
        for method in methods {
            let (blocks, threads): (&[u32], u32) = match (gpu, method.starts_with("bulk")) {
                (false, _) => (&[2], 64),
                (true, false) => (&[132], 512),
                (true, true) => (&[132], 32),
            };
            for &bytes in &sizes {
                for blocks in options.blocks_or(blocks) {
                    for threads in options.threads_or(&[threads]) {
                        progress.now(format!("{method}, {bytes} bytes, {blocks} x {threads} threads"));
                        let (samples, check) = stream(task, method, bytes, blocks, threads)?;
                        let mut row = Row::new(&samples).method(method).bytes(bytes);
                        (row.blocks, row.threads) = (Some(blocks), Some(threads));
                        report.push(row.bandwidth_of(bytes), check);
                    }
                }
                progress.step();
            }
        }
        report.notes.push("MB/s are those of one direction, as node 0 sees them".to_owned());
        Ok(report)
    }
}

/// What a sending node needs.
pub(super) struct Sender {
    pub node: u32,
    pub probe: Probe,
    /// What it sends in even and in odd rounds.
    pub source: [KernelMem; 2],
    /// Where its blocks meet.
    pub met: KernelMem,
}

impl Sender {
    pub fn new(setup: &Setup, node: u32, data: &RoundData, rounds: u64) -> Result<Self, BenchError> {
        let processor = setup.processor(node);
        let filled = |bytes: &[u8]| {
            let memory = processor.alloc(bytes.len()).doing("allocating kernel memory")?;
            memory.write(0, bytes).doing("writing kernel memory")?;
            Ok::<_, BenchError>(memory)
        };
        let source = [filled(&data.of(0))?, filled(&data.of(1))?];
        let met = processor.alloc(8).doing("allocating kernel memory")?;
        met.store_u64(0, 0).doing("writing kernel memory")?;
        Ok(Self { node, probe: Probe::with_warm_up(processor, rounds)?, source, met })
    }

    /// Runs what this process launches, behind what all prepared, and returns when all are done.
    pub fn run(
        senders: &[Self],
        setup: &Setup,
        window: &Window,
        kernel: &str,
        launches: &[Launch<'_>],
    ) -> Result<(), BenchError> {
        setup.share::<()>(Vec::new())?;
        kernel::run(launches, setup.options)?;
        for sender in senders {
            let report = window.member(sender.node as usize).doing("choosing a member")?.report();
            sender.probe.finished(kernel, report)?;
        }
        setup.share::<()>(Vec::new())?;
        Ok(())
    }
}

fn stream(
    task: Task,
    method: &str,
    bytes: u64,
    blocks: u32,
    threads: u32,
) -> Result<(Samples, Check), BenchError> {
    let options = task.options;
    let setup = Setup::new(task, Worker::Kernels)?;
    let len = bytes as usize;
    let window = window(&setup, len)?;
    let both = method.ends_with("both");
    let small = if options.device == Device::Gpu { 20_000 } else { 400 };
    let rounds = options.iterations.unwrap_or(iterations_for(small, bytes / 4));
    // The two sources of each sender; also what was there before, turned over.
    let data = [0, 1].map(|node| RoundData::new(options.seed, node, len));
    for node in setup.ends() {
        let poison = data[1 - node as usize].poison();
        window.write(node as usize, 0, poison).doing("writing the window")?;
    }
    let sends = |node: &u32| both || *node == 0;
    let senders =
        setup.ends().filter(sends).map(|node| Sender::new(&setup, node, &data[node as usize], rounds));
    let senders = senders.collect::<Result<Vec<_>, _>>()?;
    let mut launches = Vec::new();
    for sender in &senders {
        let args = bench_put_bandwidth {
            timing: sender.probe.args(),
            window: window_of(&window, sender.node)?,
            source: [sender.source[0].address(), sender.source[1].address()],
            met: sender.met.address(),
            offset: 0,
            bytes,
            peer: 1 - sender.node,
            bulk: u32::from(method.starts_with("bulk")),
        };
        launches.push(kernel::launch(setup.processor(sender.node), KERNEL, blocks, threads, &args));
    }
    Sender::run(&senders, &setup, &window, KERNEL, &launches)?;
    let mut check = Check::default();
    for node in setup.ends().filter(|node| sends(&(1 - node))) {
        let mut seen = vec![0; len];
        window.read(node as usize, 0, &mut seen).doing("reading the window")?;
        let last = Probe::rounds_of(rounds) - 1;
        check.bytes(&format!("what arrived at node {node}"), &data[1 - node as usize].of(last), &seen);
    }
    let samples = match senders.first() {
        Some(first) if first.node == 0 => Some(first.probe.samples()?),
        _ => None,
    };
    setup.collect(samples, check)
}

//! `put-rate`: short puts by all threads of a grid at once.

use crate::args::{self, bench_put_rate};
use ggas_window::Window;

use super::put_bandwidth::Sender;
use crate::error::Doing;
use crate::kernel::{self, Probe};
use crate::payload::RoundData;
use crate::setup::{Setup, Worker};
use crate::space::{window, window_of};
use crate::team::Task;
use crate::{Bench, BenchError, Check, Device, Options, Progress, Report, Row, Samples, Team};

const KERNEL: &str = "bench_put_messages";

/// Messages of a thread in a round.
const BATCH: u64 = 16;

pub(crate) struct PutRate;

impl Bench for PutRate {
    fn name(&self) -> &'static str {
        "put-rate"
    }

    fn about(&self) -> &'static str {
        "short puts to the other node by all threads of a grid, each to a place of its own"
    }

    fn is_of_two_nodes(&self) -> bool {
        true
    }

    fn methods(&self) -> &'static [&'static str] {
        &["put", "put-apart", "put-signal"]
    }

    fn by_windows(&self) -> bool {
        true
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        let gpu = options.device == Device::Gpu;
        let sizes = options.sizes_or(&[8, 64], 1..=4096, 1)?;
        let mut report = task.report();
        let methods = task.methods();
        progress.begin(self.name(), (methods.len() * sizes.len()) as u64);
        for method in methods {
            for &bytes in &sizes {
                for &blocks in &options.blocks_or(&[if gpu { 132 } else { 2 }]) {
                    for &threads in &options.threads_or(&[if gpu { 512 } else { 64 }]) {
                        progress.now(format!("{method}, {bytes} bytes, {blocks} x {threads} threads"));
                        let shape = Shape { method, bytes, blocks, threads };
                        let (samples, check) = puts(task, shape)?;
                        let mut row = Row::new(&samples).method(method).bytes(bytes).bandwidth_of(bytes);
                        (row.blocks, row.threads) = (Some(blocks), Some(threads));
                        row.rate_per_s = samples.rate_per_s();
                        report.push(row, check);
                    }
                }
                progress.step();
            }
        }
        Ok(report)
    }
}

#[derive(Clone, Copy)]
struct Shape {
    method: &'static str,
    bytes: u64,
    blocks: u32,
    threads: u32,
}

impl Shape {
    fn form(self) -> u32 {
        match self.method {
            "put" => args::BENCH_RATE_NEIGHBOURS,
            "put-apart" => args::BENCH_RATE_APART,
            _ => args::BENCH_RATE_SIGNAL,
        }
    }

    fn senders(self) -> u64 {
        u64::from(self.blocks) * u64::from(self.threads)
    }

    /// Of a round.
    fn messages(self) -> u64 {
        self.senders() * BATCH
    }

    /// Where the signals lie in the window, behind the messages.
    fn signals(self) -> u64 {
        (self.messages() * self.bytes).next_multiple_of(256)
    }
}

fn puts(task: Task, shape: Shape) -> Result<(Samples, Check), BenchError> {
    let options = task.options;
    let setup = Setup::new(task, Worker::Kernels)?;
    let (len, signals) = ((shape.messages() * shape.bytes) as usize, shape.signals() as usize);
    let signal_bytes = shape.senders() as usize * 8;
    let window = window(&setup, signals + signal_bytes)?;
    let rounds = options.iterations.unwrap_or(if options.device == Device::Gpu { 200 } else { 20 });
    let data = RoundData::new(options.seed, 0, len);
    if setup.ends().any(|node| node == 1) {
        window.write(1, 0, data.poison()).doing("writing the window")?;
        window.write(1, signals, &vec![0; signal_bytes]).doing("writing the window")?;
    }
    let senders = setup.ends().filter(|node| *node == 0);
    let senders = senders.map(|node| Sender::new(&setup, node, &data, rounds));
    let senders = senders.collect::<Result<Vec<_>, _>>()?;
    let mut launches = Vec::new();
    for sender in &senders {
        let args = bench_put_rate {
            timing: sender.probe.args(),
            window: window_of(&window, sender.node)?,
            source: [sender.source[0].address(), sender.source[1].address()],
            met: sender.met.address(),
            offset: 0,
            signals: shape.signals(),
            bytes: shape.bytes,
            batch: BATCH as u32,
            peer: 1 - sender.node,
            form: shape.form(),
            reserved: 0,
        };
        let processor = setup.processor(sender.node);
        launches.push(kernel::launch(processor, KERNEL, shape.blocks, shape.threads, &args));
    }
    Sender::run(&senders, &setup, &window, KERNEL, &launches)?;
    let mut check = Check::default();
    if setup.ends().any(|node| node == 1) {
        check = arrived(&window, &data, shape, Probe::rounds_of(rounds))?;
    }
    let samples = match senders.first() {
        Some(sender) => Some(sender.probe.samples()?.divided(shape.messages())),
        None => None,
    };
    setup.collect(samples, check)
}

/// Compares every byte with the last round's, and every signal with the number of its thread's messages.
fn arrived(window: &Window, data: &RoundData, shape: Shape, rounds: u64) -> Result<Check, BenchError> {
    let mut check = Check::default();
    let mut seen = vec![0; (shape.messages() * shape.bytes) as usize];
    window.read(1, 0, &mut seen).doing("reading the window")?;
    check.bytes("what arrived at node 1", &data.of(rounds - 1), &seen);
    let mut words = vec![0; shape.senders() as usize * 8];
    window.read(1, shape.signals() as usize, &mut words).doing("reading the window")?;
    let sent = if shape.form() == args::BENCH_RATE_SIGNAL { rounds * BATCH } else { 0 };
    check.bytes("signals of all threads", &sent.to_le_bytes().repeat(words.len() / 8), &words);
    Ok(check)
}

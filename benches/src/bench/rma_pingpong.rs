//! `rma-pingpong` (thesis 5.6.3): half a round trip of a put, by four ways to control and synchronise it.

use crate::args::bench_pingpong;
use ggas::Spec;

use super::{assisted, default_iterations, iterations_for, methods_by_sizes};
use crate::ends::{self, HostEnd, Program, host_ends, kernel_ends};
use crate::payload::{Layout, MAX_PUT, RoundData};
use crate::setup::{Setup, Worker};
use crate::stats::{calls, time_calls};
use crate::team::Task;
use crate::{Bench, BenchError, Check, Options, Progress, Report, Row, Samples, Team};

const SIZES: &[u64] = &[8, 64, 512, 4096, 65_536, 1_048_576];

/// Threads of the block; one of them works (thesis 5.6.3).
const THREADS: u32 = 32;

pub(crate) struct RmaPingpong;

impl Bench for RmaPingpong {
    fn name(&self) -> &'static str {
        "rma-pingpong"
    }

    fn about(&self) -> &'static str {
        "half a round trip of a put, controlled by kernels or by the host (thesis 5.6.3)"
    }

    fn is_of_two_nodes(&self) -> bool {
        true
    }

    fn methods(&self) -> &'static [&'static str] {
        &["notification", "poll", "host-assisted", "host-driven"]
    }

    fn by_engines(&self) -> &'static [&'static str] {
        &["notification", "poll"]
    }

    fn by_cards(&self) -> &'static [&'static str] {
        self.methods()
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        let sizes = options.sizes_or(SIZES, 1..=MAX_PUT, 1)?;
        methods_by_sizes(task, &task.methods(), &sizes, progress, |report, method, bytes| {
            let (samples, check) = match method {
                "notification" => by_kernels(task, bytes, "bench_pingpong_notification")?,
                "poll" => by_kernels(task, words(bytes)?, "bench_pingpong_poll")?,
                "host-assisted" => assisted::pingpong(task, bytes)?,
                _ => host_driven(task, bytes)?,
            };
            let row = Row::new(&samples.halved()).method(method);
            report.push(row.bytes(bytes).bandwidth_of(bytes), check);
            Ok(())
        })
    }
}

/// Polling on data looks at the last word.
fn words(bytes: u64) -> Result<u64, BenchError> {
    if bytes.is_multiple_of(8) {
        return Ok(bytes);
    }
    Err(BenchError::option("sizes", bytes, "method `poll` looks at the last word: use multiples of 8"))
}

/// Kernels post and synchronise.
fn by_kernels(task: Task, bytes: u64, kernel: &str) -> Result<(Samples, Check), BenchError> {
    let setup = Setup::new(task, Worker::Kernels)?;
    let layout = Layout::new(bytes);
    let data = RoundData::new(task.options.seed, 0, layout.bytes);
    let ends = kernel_ends(&setup, layout, &data, default_iterations(task.options, bytes))?;
    let last = layout.bytes - layout.bytes.min(8);
    ends::run(&setup, &ends, |end| {
        let first = end.node == 0;
        let args = bench_pingpong {
            timing: end.probe.args(),
            peer: end.peer,
            port: end.port.address(),
            // The other end sends back what came.
            source: if first { end.sources()? } else { [end.arrival()?; 2] },
            last_seen: end.arrival_address() + last as u64,
            last_word: [0, 1].map(|round| word_at(&data.of(round), last)),
            bytes: bytes as u32,
            first: first.into(),
        };
        Ok(Program { kernel, blocks: 1, threads: THREADS, args })
    })?;
    let mut check = Check::default();
    let mut samples = None;
    for end in &ends {
        check.merge(data.check(end.node, &end.payload, layout, end.probe.rounds())?);
        if end.node == 0 {
            samples = Some(end.probe.samples()?);
        }
    }
    setup.collect(samples, check)
}

fn word_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|word| word.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// Host threads post and consume the completer notifications: one for both ends in turn, or one in each process.
fn host_driven(task: Task, bytes: u64) -> Result<(Samples, Check), BenchError> {
    let options = task.options;
    let setup = Setup::new(task, Worker::Host)?;
    let layout = Layout::new(bytes);
    let data = RoundData::new(options.seed, 0, layout.bytes);
    let ends = host_ends(&setup, layout, &data)?;
    let iterations = options.iterations.unwrap_or(iterations_for(50_000, bytes));
    let samples = pingpong(&ends, layout, iterations, options)?;
    let mut check = Check::default();
    for end in &ends {
        check.merge(data.check(end.node, &end.payload, layout, calls(iterations))?);
    }
    setup.collect(samples, check)
}

/// Round trips between the ends here and the others; samples if node 0 is here.
pub(crate) fn pingpong(
    ends: &[HostEnd],
    layout: Layout,
    iterations: u64,
    options: &Options,
) -> Result<Option<Samples>, BenchError> {
    let send = |end: &HostEnd, at| end.put(at, layout.bytes, 0, Spec::COMPLETER);
    match ends {
        [ping, pong] => time_calls(iterations, |round| {
            send(ping, layout.source(round))?;
            pong.consume(options)?;
            send(pong, layout.arrival())?;
            ping.consume(options)
        })
        .map(Some),
        [ping] if ping.node == 0 => time_calls(iterations, |round| {
            send(ping, layout.source(round))?;
            ping.consume(options)
        })
        .map(Some),
        [pong] => {
            for _ in 0..calls(iterations) {
                pong.consume(options)?;
                send(pong, layout.arrival())?;
            }
            Ok(None)
        }
        _ => Ok(None),
    }
}

//! `rma-pingpong` (thesis 5.6.3): half a round trip of a put, by four ways to control and synchronise it.

use ggas::Spec;
use ggas_kernels::args::bench_pingpong;

use super::{assisted, iterations_for};
use crate::error::Doing;
use crate::kernel::{self, KernelEnd, kernel_pair};
use crate::setup::{HostEnd, Layout, MAX_PUT, RoundData, Setup, Worker, consume, host_pair, report};
use crate::stats::time_calls;
use crate::{Bench, BenchError, Check, Device, Options, Progress, Report, Row};

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

    fn methods(&self) -> &'static [&'static str] {
        &["notification", "poll", "host-assisted", "host-driven"]
    }

    fn run(&self, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        options.validate(self)?;
        let mut report = report(self, options);
        let sizes = options.sizes_or(SIZES, 1..=MAX_PUT, 1)?;
        let methods: Vec<_> = self.methods().iter().filter(|method| options.wants(method)).collect();
        progress.begin(self.name(), (methods.len() * sizes.len()) as u64);
        for method in methods {
            for &bytes in &sizes {
                progress.now(format!("{method}, {bytes} bytes"));
                let (row, check) = match *method {
                    "notification" => by_kernels(self, options, bytes, "bench_pingpong_notification")?,
                    "poll" => by_kernels(self, options, words(bytes)?, "bench_pingpong_poll")?,
                    "host-assisted" => assisted::pingpong(self, options, bytes)?,
                    _ => host_driven(self, options, bytes)?,
                };
                report.push(row.method(method).bytes(bytes).bandwidth_of(bytes), check);
                progress.step();
            }
        }
        Ok(report)
    }
}

/// Polling on data looks at the last word.
fn words(bytes: u64) -> Result<u64, BenchError> {
    if bytes.is_multiple_of(8) {
        return Ok(bytes);
    }
    Err(BenchError::option("sizes", bytes, "method `poll` looks at the last word: use multiples of 8"))
}

/// One way, timed by iterations that a kernel or the host makes.
pub(crate) fn default_iterations(options: &Options, bytes: u64) -> u64 {
    let small = if options.device == Device::Gpu { 5000 } else { 2000 };
    options.iterations.unwrap_or(iterations_for(small, bytes))
}

/// Kernels post and synchronise.
fn by_kernels(
    bench: &dyn Bench,
    options: &Options,
    bytes: u64,
    name: &str,
) -> Result<(Row, Check), BenchError> {
    let setup = Setup::new(bench, options, Worker::Kernels)?;
    let layout = Layout::new(bytes);
    let data = RoundData::new(options.seed, 0, layout.bytes);
    let [ping, pong] = kernel_pair(&setup, layout, &data, default_iterations(options, bytes))?;
    let back = pong.arrival()?;
    let last = layout.bytes - layout.bytes.min(8);
    let args = |end: &KernelEnd, source, first| bench_pingpong {
        timing: end.probe.args(),
        peer: end.peer,
        port: end.port.address(),
        source,
        last_seen: end.arrival_address() + last as u64,
        last_word: [0, 1].map(|round| word_at(&data.of(round), last)),
        bytes: bytes as u32,
        first,
    };
    {
        let _armed = (ping.port.arm(), pong.port.arm());
        let launches = [
            kernel::launch(setup.processor(0), name, 1, THREADS, &args(&ping, ping.sources()?, 1)),
            kernel::launch(setup.processor(1), name, 1, THREADS, &args(&pong, [back; 2], 0)),
        ];
        kernel::run(&launches, options)?;
    }
    ping.probe.finished(name, ping.port.report())?;
    pong.probe.finished(name, pong.port.report())?;
    let rounds = ping.probe.rounds();
    let mut check = data.check("at the pong side", &pong.payload, layout, rounds)?;
    check.merge(data.check("back at the ping side", &ping.payload, layout, rounds)?);
    Ok((Row::new(&ping.probe.samples()?.halved()), check))
}

fn word_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|word| word.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// One host thread posts at both ends in turn and consumes the completer notifications.
fn host_driven(bench: &dyn Bench, options: &Options, bytes: u64) -> Result<(Row, Check), BenchError> {
    let setup = Setup::new(bench, options, Worker::Host)?;
    let layout = Layout::new(bytes);
    let data = RoundData::new(options.seed, 0, layout.bytes);
    let [ping, pong] = host_pair(&setup, layout, &data)?;
    let mut rounds = 0;
    let iterations = options.iterations.unwrap_or(iterations_for(50_000, bytes));
    let samples = time_calls(iterations, |round| {
        rounds = round + 1;
        one_way(&ping, &pong, layout.source(round), layout.bytes, options)?;
        one_way(&pong, &ping, layout.arrival(), layout.bytes, options)
    })?;
    let mut check = data.check("at the pong side", &pong.payload, layout, rounds)?;
    check.merge(data.check("back at the ping side", &ping.payload, layout, rounds)?);
    Ok((Row::new(&samples.halved()), check))
}

#[inline]
pub(crate) fn one_way(
    from: &HostEnd,
    to: &HostEnd,
    at: usize,
    bytes: usize,
    options: &Options,
) -> Result<(), BenchError> {
    from.connection
        .put(&from.payload.region, at, bytes, from.target, Spec::COMPLETER)
        .doing("posting a put")?;
    consume(&to.port, options).map(drop)
}

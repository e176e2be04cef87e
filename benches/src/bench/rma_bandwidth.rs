//! `rma-bandwidth` (thesis 5.6.3): puts in flight.

use std::time::Instant;

use ggas::Spec;
use ggas_kernels::args::bench_bandwidth;

use super::{assisted, iterations_for};
use crate::error::Doing;
use crate::kernel::{self, KernelEnd, kernel_pair};
use crate::setup::{Layout, MAX_PUT, RoundData, Setup, Worker, consume, host_pair, report};
use crate::{Bench, BenchError, Check, Options, Progress, Report, Row, Samples};

const SIZES: &[u64] = &[4096, 65_536, 1_048_576];

/// Puts in flight of the methods that kernels begin.
const WINDOW: u32 = 16;

/// Threads of the block; one of them works.
const THREADS: u32 = 32;

pub(crate) struct RmaBandwidth;

impl Bench for RmaBandwidth {
    fn name(&self) -> &'static str {
        "rma-bandwidth"
    }

    fn about(&self) -> &'static str {
        "bandwidth of puts, several in flight, and of memcpy beside it (thesis 5.6.3)"
    }

    fn methods(&self) -> &'static [&'static str] {
        &["notification", "host-assisted", "host-driven"]
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
                match *method {
                    "notification" => windows(&mut report, method, bytes, notified(self, options, bytes)?),
                    "host-assisted" => {
                        let windows_of = windows_for(options, bytes);
                        let result = assisted::bandwidth(self, options, bytes, WINDOW, windows_of)?;
                        windows(&mut report, method, bytes, result);
                    }
                    _ => host_driven(self, options, bytes, &mut report)?,
                }
                progress.step();
            }
        }
        Ok(report)
    }
}

/// Adds a row of samples that are windows.
fn windows(report: &mut Report, method: &str, bytes: u64, (samples, check): (Samples, Check)) {
    let row = Row::new(&samples.divided(WINDOW.into())).method(method).bytes(bytes).bandwidth_of(bytes);
    report.push(row, check);
}

/// Windows to send.
fn windows_for(options: &Options, bytes: u64) -> u64 {
    options.iterations.map_or(iterations_for(500, bytes), |puts| puts.div_ceil(WINDOW.into()))
}

/// A kernel posts windows and consumes a requester notification for each put; another one answers each window.
fn notified(bench: &dyn Bench, options: &Options, bytes: u64) -> Result<(Samples, Check), BenchError> {
    const KERNEL: &str = "bench_bandwidth_notification";
    let setup = Setup::new(bench, options, Worker::Kernels)?;
    let layout = Layout::new(bytes);
    let data = RoundData::new(options.seed, 0, layout.bytes);
    let [from, to] = kernel_pair(&setup, layout, &data, windows_for(options, bytes))?;
    let args = |end: &KernelEnd, sender| -> Result<_, BenchError> {
        Ok(bench_bandwidth {
            timing: end.probe.args(),
            peer: end.peer,
            port: end.port.address(),
            source: end.sources()?,
            bytes: bytes as u32,
            window: WINDOW,
            sender,
            reserved: 0,
        })
    };
    {
        let _armed = (from.port.arm(), to.port.arm());
        let launches = [
            kernel::launch(setup.processor(0), KERNEL, 1, THREADS, &args(&from, 1)?),
            kernel::launch(setup.processor(1), KERNEL, 1, THREADS, &args(&to, 0)?),
        ];
        kernel::run(&launches, options)?;
    }
    from.probe.finished(KERNEL, from.port.report())?;
    to.probe.finished(KERNEL, to.port.report())?;
    let check = data.check("at the target", &to.payload, layout, from.probe.rounds())?;
    Ok((from.probe.samples()?, check))
}

/// One host thread: a put with its completer notification, then a memcpy of the same data to a buffer beside the
/// target, in turn, so that both see the same machine. Two rows.
fn host_driven(
    bench: &dyn Bench,
    options: &Options,
    bytes: u64,
    report: &mut Report,
) -> Result<(), BenchError> {
    let setup = Setup::new(bench, options, Worker::Host)?;
    let layout = Layout::new(bytes);
    let data = RoundData::new(options.seed, 0, layout.bytes);
    let [from, to] = host_pair(&setup, layout, &data)?;
    let sources = [data.of(0), data.of(1)];
    let mut copied = data.poison().to_vec();
    let iterations = options.iterations.unwrap_or(iterations_for(20_000, bytes));
    let warm_up = iterations / 10 + 1;
    let rounds = warm_up + iterations;
    let (mut puts, mut copies) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let begun = Instant::now();
        from.connection
            .put(&from.payload.region, layout.source(round), layout.bytes, from.target, Spec::COMPLETER)
            .doing("posting a put")?;
        consume(&to.port, options)?;
        let put = begun.elapsed();
        let begun = Instant::now();
        copied.copy_from_slice(std::hint::black_box(&sources[(round % 2) as usize]));
        std::hint::black_box(&mut copied);
        let copy = begun.elapsed();
        if round >= warm_up {
            puts.push(put.as_nanos() as f64);
            copies.push(copy.as_nanos() as f64);
        }
    }
    let check = data.check("at the target", &to.payload, layout, rounds)?;
    let (puts, copies) = (Samples::new(puts, 1), Samples::new(copies, 1));
    let ratio = puts.latency().median / copies.latency().median.max(1e-6);
    let row = Row::new(&puts).method("host-driven").bytes(bytes).bandwidth_of(bytes);
    report.push(row.with("of_memcpy", ratio), check);
    let mut check = Check::default();
    check.bytes("memcpy", &data.of(rounds - 1), &copied);
    report.push(Row::new(&copies).method("memcpy").bytes(bytes).bandwidth_of(bytes), check);
    Ok(())
}

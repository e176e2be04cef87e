//! `rma-bandwidth` (thesis 5.6.3): puts in flight.

use std::time::Instant;

use crate::args::bench_bandwidth;
use ggas::{PortBase, Spec};

use super::{assisted, iterations_for, methods_by_sizes};
use crate::ends::{self, HostEnd, Program, host_ends_with, kernel_ends};
use crate::payload::{Layout, MAX_PUT, Payload, RoundData};
use crate::setup::{Setup, Worker};
use crate::team::Task;
use crate::{Bench, BenchError, Check, Memory, Options, Progress, Report, Row, Samples, Team};

const SIZES: &[u64] = &[4096, 65_536, 1_048_576];

/// Puts in flight of the methods that kernels begin.
const WINDOW: u32 = 16;

/// Bytes staged at a time in the two copies that memory of a process needs on its way to another.
const STAGING: usize = 64 << 10;

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

    fn is_of_two_nodes(&self) -> bool {
        true
    }

    fn methods(&self) -> &'static [&'static str] {
        &["notification", "host-assisted", "host-driven", "host-driven-private"]
    }

    fn by_engines(&self) -> &'static [&'static str] {
        &["notification"]
    }

    fn by_cards(&self) -> &'static [&'static str] {
        &["notification", "host-assisted", "host-driven"]
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        let sizes = options.sizes_or(SIZES, 1..=MAX_PUT, 1)?;
        let mut methods = task.methods();
        // Between the nodes of one process all host memory is alike.
        if options.memory == Memory::Gpu || (team.size() == 1 && options.method.is_none()) {
            methods.retain(|method| *method != "host-driven-private");
        }
        methods_by_sizes(task, &methods, &sizes, progress, |report, method, bytes| {
            match method {
                "notification" => windows(report, method, bytes, notified(task, bytes)?),
                "host-assisted" => {
                    let result = assisted::bandwidth(task, bytes, WINDOW, windows_for(options, bytes))?;
                    windows(report, method, bytes, result);
                }
                _ => host_driven(task, method, bytes, report)?,
            }
            Ok(())
        })
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
fn notified(task: Task, bytes: u64) -> Result<(Samples, Check), BenchError> {
    let setup = Setup::new(task, Worker::Kernels)?;
    let layout = Layout::new(bytes);
    let data = RoundData::new(task.options.seed, 0, layout.bytes);
    let ends = kernel_ends(&setup, layout, &data, windows_for(task.options, bytes))?;
    ends::run(&setup, &ends, |end| {
        let args = bench_bandwidth {
            timing: end.probe.args(),
            peer: end.peer,
            port: end.port.address(),
            source: end.sources()?,
            bytes: bytes as u32,
            window: WINDOW,
            sender: u32::from(end.node == 0),
            reserved: 0,
        };
        Ok(Program { kernel: "bench_bandwidth_notification", blocks: 1, threads: THREADS, args })
    })?;
    let mut check = Check::default();
    let mut samples = None;
    for end in &ends {
        match end.node {
            0 => samples = Some(end.probe.samples()?),
            _ => check = data.check(end.node, &end.payload, layout, end.probe.rounds())?,
        }
    }
    setup.collect(samples, check)
}

/// A put with its completer notification, then a memcpy of the same data beside it, in turn, so that both see the
/// same machine. Two rows.
fn host_driven(task: Task, method: &str, bytes: u64, report: &mut Report) -> Result<(), BenchError> {
    let options = task.options;
    let private = method.ends_with("private");
    let setup = Setup::new(task, Worker::Host)?;
    let layout = Layout::new(bytes);
    let data = RoundData::new(options.seed, 0, layout.bytes);
    let buffer = |node, port: &PortBase| match private {
        true => Payload::private(port, layout.len()),
        false => Payload::new(&setup, node, port, layout.len()),
    };
    let ends = host_ends_with(&setup, layout, &data, buffer)?;
    let iterations = options.iterations.unwrap_or(iterations_for(20_000, bytes));
    let warm_up = iterations / 10 + 1;
    let rounds = warm_up + iterations;
    // Memory that the library does not own passes through the sender's arena on its way to another process.
    let staging = (private && task.team.size() > 1).then_some(STAGING);
    let mut beside = Beside::new(&data, staging)?;
    let (mut puts, mut copies) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let begun = Instant::now();
        one_put(&ends, layout, round, options)?;
        let put = begun.elapsed();
        if ends.iter().all(|end| end.node != 0) {
            continue;
        }
        let begun = Instant::now();
        beside.copy(round);
        let copy = begun.elapsed();
        if round >= warm_up {
            puts.push(put.as_nanos() as f64);
            copies.push(copy.as_nanos() as f64);
        }
    }
    let mut check = Check::default();
    for end in ends.iter().filter(|end| end.node == 1) {
        check = data.check(end.node, &end.payload, layout, rounds)?;
    }
    let (puts, check) = setup.collect((!puts.is_empty()).then(|| Samples::new(puts, 1)), check)?;
    let copies = Samples::new(copies, 1);
    let ratio = puts.latency().median / copies.latency().median.max(1e-6);
    let row = Row::new(&puts).method(method).bytes(bytes).bandwidth_of(bytes);
    let (field, floor) = match staging {
        None => ("of_memcpy", "memcpy"),
        Some(_) => ("of_two_copies", "two copies"),
    };
    report.push(row.with(field, ratio), check);
    let check = beside.check(&data, rounds);
    report.push(Row::new(&copies).method(floor).bytes(bytes).bandwidth_of(bytes), check);
    Ok(())
}

/// A put from node 0 that is over when node 1 consumed its notification. Another process says so by a notification,
/// which the time includes.
fn one_put(ends: &[HostEnd], layout: Layout, round: u64, options: &Options) -> Result<(), BenchError> {
    let put = |end: &HostEnd| end.put(layout.source(round), layout.bytes, 0, Spec::COMPLETER);
    match ends {
        [from, to] => {
            put(from)?;
            to.consume(options)
        }
        [from] if from.node == 0 => {
            put(from)?;
            from.consume(options)
        }
        [to] => {
            to.consume(options)?;
            to.tell()
        }
        _ => Ok(()),
    }
}

/// The same work by the processor: one copy, or two through a small staging area that stays in its cache.
struct Beside {
    sources: [Vec<u8>; 2],
    staging: Option<Vec<u8>>,
    copied: Vec<u8>,
}

impl Beside {
    fn new(data: &RoundData, staging: Option<usize>) -> Result<Self, BenchError> {
        let staging = staging.map(|bytes| vec![0; bytes]);
        Ok(Self { sources: [data.of(0), data.of(1)], staging, copied: data.poison().to_vec() })
    }

    fn copy(&mut self, round: u64) {
        let source = std::hint::black_box(&self.sources[(round % 2) as usize]);
        match &mut self.staging {
            None => self.copied.copy_from_slice(source),
            Some(staging) => {
                for (from, to) in source.chunks(staging.len()).zip(self.copied.chunks_mut(staging.len())) {
                    let staged = &mut staging[..from.len()];
                    staged.copy_from_slice(from);
                    to.copy_from_slice(std::hint::black_box(staged));
                }
            }
        }
        std::hint::black_box(&mut self.copied);
    }

    fn check(&self, data: &RoundData, rounds: u64) -> Check {
        let mut check = Check::default();
        check.bytes("memcpy", &data.of(rounds - 1), &self.copied);
        check
    }
}

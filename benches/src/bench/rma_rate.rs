//! `rma-rate`: how many 8-byte puts a node posts per second.

use ggas::Spec;
use ggas_kernels::args::bench_rate;

use crate::error::Doing;
use crate::kernel::{self, KernelEnd, Probe, kernel_pair, peer};
use crate::setup::{HostEnd, Layout, Payload, RoundData, Setup, Worker, consume, host_pair, report};
use crate::stats::time_calls;
use crate::{Bench, BenchError, Check, Device, Memory, Options, Progress, Report, Row, Samples};

/// Bytes of one put.
const BYTES: u64 = 8;

/// Puts on their way at most, when each has a notification: the queue holds 16,384 (spec 3.3).
const IN_FLIGHT: u64 = 8192;

/// Threads that may post at the same time: each has a put on its way while the receiver grants credit.
const MAX_THREADS: u32 = 4096;

/// Least puts per sample of the kernels.
const LEAST_SAMPLE: u64 = 1024;

pub(crate) struct RmaRate;

impl Bench for RmaRate {
    fn name(&self) -> &'static str {
        "rma-rate"
    }

    fn about(&self) -> &'static str {
        "8-byte puts per second, with and without a notification each"
    }

    fn methods(&self) -> &'static [&'static str] {
        &["put", "put-notify", "host-driven", "host-driven-notify"]
    }

    fn run(&self, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        options.validate(self)?;
        options.sizes_or(&[BYTES], BYTES..=BYTES, 1)?;
        let shapes = shapes(options)?;
        let mut report = report(self, options);
        let methods: Vec<_> = self.methods().iter().filter(|method| options.wants(method)).collect();
        progress.begin(self.name(), methods.len() as u64);
        for method in methods {
            let notify = method.ends_with("notify");
            if method.starts_with("host-driven") {
                progress.now(*method);
                push(&mut report, method, None, host_driven(self, options, notify)?);
            } else {
                for &shape in &shapes {
                    progress.now(format!("{method}, {} x {} threads", shape.blocks, shape.threads));
                    push(&mut report, method, Some(shape), by_kernels(self, options, shape, notify)?);
                }
            }
            progress.step();
        }
        Ok(report)
    }
}

/// Blocks and threads of the posting kernel.
#[derive(Clone, Copy)]
struct Shape {
    blocks: u32,
    threads: u32,
}

fn most(threads: &[u32]) -> u32 {
    threads.iter().copied().max().unwrap_or(32)
}

fn shapes(options: &Options) -> Result<Vec<Shape>, BenchError> {
    if let Some(bad) =
        options.blocks_or(&[1]).iter().find(|blocks| *blocks * most(&options.threads) > MAX_THREADS)
    {
        let advice =
            format!("use at most {MAX_THREADS} threads altogether: the notification queue holds no more");
        return Err(BenchError::option("blocks", bad, advice));
    }
    if let Some(bad) = options.threads.iter().find(|threads| *threads % 32 != 0) {
        return Err(BenchError::option("threads", bad, "whole warps post: use multiples of 32"));
    }
    let default: &[(u32, u32)] = match options.device {
        Device::Gpu => &[(1, 32), (1, 256), (4, 256)],
        Device::Cpu => &[(1, 32), (2, 64)],
    };
    if options.threads.is_empty() && options.blocks.is_empty() {
        return Ok(default.iter().map(|&(blocks, threads)| Shape { blocks, threads }).collect());
    }
    let (blocks, threads) = (options.blocks_or(&[1]), options.threads_or(&[32]));
    Ok(blocks
        .iter()
        .flat_map(|&blocks| threads.iter().map(move |&threads| Shape { blocks, threads }))
        .collect())
}

fn push(report: &mut Report, method: &str, shape: Option<Shape>, (samples, check): (Samples, Check)) {
    let mut row = Row::new(&samples).method(method).bytes(BYTES);
    row.rate_per_s = samples.rate_per_s();
    row.blocks = shape.map(|shape| shape.blocks);
    row.threads = shape.map(|shape| shape.threads);
    report.push(row, check);
}

/// All threads of a grid on node 0 post, a warp at a time; a warp on node 1 consumes the notifications and takes
/// the samples.
fn by_kernels(
    bench: &dyn Bench,
    options: &Options,
    shape: Shape,
    notify: bool,
) -> Result<(Samples, Check), BenchError> {
    let (send, receive) = ("bench_rate_send", "bench_rate_receive");
    let setup = Setup::new(bench, options, Worker::Kernels)?;
    let plan = Plan::new(options, shape, notify);
    let layout = Layout::new(plan.threads * BYTES);
    let data = RoundData::new(options.seed, 0, layout.bytes);
    let [from, mut to] = kernel_pair(&setup, layout, &data, 1)?;
    to.probe = Probe::new(setup.processor(1), plan.samples(), 1)?;
    // The receiver puts the credit into a word of its own on node 0.
    let credit = Payload::host(&from.port, 8)?.for_kernels(setup.processor(0))?;
    to.peer = peer(&from.port, credit.nla(0)?);
    let args = |end: &KernelEnd, sender| -> Result<bench_rate, BenchError> {
        Ok(bench_rate {
            timing: end.probe.args(),
            peer: end.peer,
            port: end.port.address(),
            source: end.sources()?,
            credit: credit.address(),
            limit: plan.limit,
            total: plan.total(),
            groups: plan.groups,
            per_group: plan.per_group,
            per_notification: plan.per_notification,
            per_credit: plan.per_credit,
            sample: plan.sample,
            sender,
        })
    };
    {
        let _armed = (from.port.arm(), to.port.arm());
        let launches = [
            kernel::launch(setup.processor(0), send, shape.blocks, shape.threads, &args(&from, 1)?),
            kernel::launch(setup.processor(1), receive, 1, 32, &args(&to, 0)?),
        ];
        kernel::run(&launches, options)?;
    }
    from.probe.finished(send, from.port.report())?;
    to.probe.finished(receive, to.port.report())?;
    let rounds = u64::from(plan.groups) * u64::from(plan.per_group);
    let check = data.check("at the target", &to.payload, layout, rounds)?;
    Ok((to.probe.samples()?.divided(plan.sample.into()), check))
}

/// How the puts are divided (`struct bench_rate`).
struct Plan {
    threads: u64,
    groups: u32,
    per_group: u32,
    per_notification: u32,
    per_credit: u32,
    /// Puts per sample: many more than arrive in one go.
    sample: u32,
    limit: u64,
}

impl Plan {
    fn new(options: &Options, shape: Shape, notify: bool) -> Self {
        let Shape { blocks, threads } = shape;
        let all = u64::from(blocks) * u64::from(threads);
        // Without notifications a group should be large beside the one that ends it.
        let per_group = if notify { 1 } else { (1024 / threads).max(1) };
        let puts = options.iterations.unwrap_or(match (options.device, options.memory) {
            (Device::Cpu, _) => 200_000,
            (Device::Gpu, Memory::Host) => 2_000_000,
            // Copies to GPU memory go one by one for each port: about 5 us each.
            (Device::Gpu, Memory::Gpu) => 50_000,
        });
        let sample = (puts / 20).clamp(LEAST_SAMPLE, u32::MAX.into());
        let groups = puts.max(4 * sample).div_ceil(all * u64::from(per_group));
        Self {
            threads: all,
            groups: u32::try_from(groups).unwrap_or(u32::MAX),
            per_group,
            per_notification: if notify { 1 } else { threads * per_group },
            per_credit: if notify { 512 } else { 1 },
            sample: sample as u32,
            limit: if notify { IN_FLIGHT } else { IN_FLIGHT.max(4 * all * u64::from(per_group)) },
        }
    }

    fn total(&self) -> u64 {
        self.threads * u64::from(self.groups) * u64::from(self.per_group)
    }

    /// Samples at most; one more is not timed.
    fn samples(&self) -> u64 {
        self.total() / u64::from(self.sample)
    }
}

/// One host thread posts groups of puts and consumes a notification for each, or for the last one of a group. A
/// sample is a group's mean, all of it arrived.
fn host_driven(bench: &dyn Bench, options: &Options, notify: bool) -> Result<(Samples, Check), BenchError> {
    let group: u64 = if notify { 64 } else { 1024 };
    let setup = Setup::new(bench, options, Worker::Host)?;
    let layout = Layout::new(group * BYTES);
    let data = RoundData::new(options.seed, 0, layout.bytes);
    let [from, to] = host_pair(&setup, layout, &data)?;
    let groups = (options.iterations.unwrap_or(1_000_000) / group).max(1);
    let mut rounds = 0;
    let samples = time_calls(groups, |round| {
        rounds = round + 1;
        post_group(&from, layout.source(round), group, notify)?;
        for _ in 0..if notify { group } else { 1 } {
            consume(&to.port, options)?;
        }
        Ok(())
    })?;
    let check = data.check("at the target", &to.payload, layout, rounds)?;
    Ok((samples.divided(group), check))
}

fn post_group(from: &HostEnd, at: usize, group: u64, notify: bool) -> Result<(), BenchError> {
    for word in 0..group {
        let spec = if notify || word + 1 == group { Spec::COMPLETER } else { Spec::NONE };
        let offset = word * BYTES;
        from.connection
            .put(&from.payload.region, at + offset as usize, BYTES as usize, from.target + offset, spec)
            .doing("posting a put")?;
    }
    Ok(())
}

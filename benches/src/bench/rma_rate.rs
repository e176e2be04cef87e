//! `rma-rate`: how many 8-byte puts a node posts per second.

use crate::args::bench_rate;
use ggas::Spec;

use crate::ends::{self, HostEnd, KernelEnd, Place, Program, host_ends, kernel_ends};
use crate::kernel::Probe;
use crate::payload::{Layout, Payload, RoundData};
use crate::setup::{Setup, Worker};
use crate::stats::{calls, time_calls};
use crate::team::Task;
use crate::{Bench, BenchError, Check, Device, Memory, Options, Progress, Report, Row, Samples, Team};

/// Bytes of one put.
const BYTES: u64 = 8;

/// Puts on their way at most, when each has a notification: the queue holds 16,384 (spec 3.3).
const IN_FLIGHT: u64 = 8192;

/// Groups of puts that a process may be ahead of the one that receives them.
const GROUPS_AHEAD: u64 = 16;

/// Threads that may post at the same time: each has a put on its way while the receiver grants credit.
const MAX_THREADS: u32 = 4096;

/// Least groups of puts without notifications.
const LEAST_GROUPS: u64 = 8;

/// Least puts per sample of the kernels, unless so few are asked for that there were not four of them.
const LEAST_SAMPLE: u64 = 1024;

/// Least puts per sample even then.
const FEWEST: u64 = 128;

/// Ports of each node where several post at the same time.
const PORTS: usize = 4;

pub(crate) struct RmaRate;

impl Bench for RmaRate {
    fn name(&self) -> &'static str {
        "rma-rate"
    }

    fn about(&self) -> &'static str {
        "8-byte puts per second, with and without a notification each"
    }

    fn is_of_two_nodes(&self) -> bool {
        true
    }

    fn methods(&self) -> &'static [&'static str] {
        &["put", "put-notify", "put-ports", "put-notify-ports", "host-driven", "host-driven-notify"]
    }

    fn by_engines(&self) -> &'static [&'static str] {
        &["put", "put-notify", "put-ports", "put-notify-ports"]
    }

    fn by_cards(&self) -> &'static [&'static str] {
        &["put", "put-notify", "host-driven", "host-driven-notify"]
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        options.sizes_or(&[BYTES], BYTES..=BYTES, 1)?;
        let shapes = shapes(options)?;
        let mut report = task.report();
        let mut methods = task.methods();
        if options.method.is_none() && !options.engines(self) {
            // Without engines one thread, or one card, serves all ports of a node anyway.
            methods.retain(|method| !method.ends_with("ports"));
        }
        progress.begin(self.name(), methods.len() as u64);
        for method in methods {
            let notify = method.contains("notify");
            let ports = if method.ends_with("ports") { PORTS } else { 1 };
            if method.starts_with("host-driven") {
                progress.now(method);
                push(&mut report, method, None, host_driven(task, notify)?);
            } else {
                for &shape in &shapes {
                    progress.now(format!("{method}, {} x {} threads", shape.blocks, shape.threads));
                    push(&mut report, method, Some(shape), by_kernels(task, shape, notify, ports)?);
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

/// Ports of both nodes that belong together.
struct Pair {
    /// Those that this process has.
    ends: Vec<KernelEnd>,
    /// Where node 0's receives credit.
    credit: Option<Payload>,
}

impl Pair {
    fn open(setup: &Setup, layout: Layout, data: &RoundData, plan: &Plan) -> Result<Self, BenchError> {
        let mut ends = kernel_ends(setup, layout, data, 1)?;
        // The receiver puts the credit into a word of its own on node 0.
        let mut credit = None;
        let mut places = Vec::new();
        for end in ends.iter().filter(|end| end.node == 0) {
            let word = Payload::host(&end.port, 8)?.for_kernels(setup.processor(0))?;
            places.push(Place::new(&end.port, word.nla(0)?));
            credit = Some(word);
        }
        let places = setup.share(places)?;
        for end in ends.iter_mut().filter(|end| end.node == 1) {
            end.probe = Probe::new(setup.processor(1), plan.samples(), 1)?;
            end.peer = places.first().map_or(end.peer, Place::peer);
        }
        Ok(Self { ends, credit })
    }
}

/// All threads of a grid on node 0 post, a warp at a time; a warp on node 1 consumes the notifications and takes
/// the samples. With several ports each has such a grid and such a warp.
fn by_kernels(task: Task, shape: Shape, notify: bool, ports: usize) -> Result<(Samples, Check), BenchError> {
    let setup = Setup::new(task, Worker::Kernels)?;
    let plan = Plan::new(task, shape, notify);
    let layout = Layout::new(plan.threads * BYTES);
    let data = RoundData::new(task.options.seed, 0, layout.bytes);
    let (mut ends, mut credits) = (Vec::new(), Vec::new());
    for _ in 0..ports {
        let pair = Pair::open(&setup, layout, &data, &plan)?;
        ends.extend(pair.ends);
        credits.extend(pair.credit);
    }
    let senders = ends.iter().filter(|end| end.node == 0).map(|end| end.port.address());
    let credits: Vec<_> = senders.zip(&credits).collect();
    ends::run(&setup, &ends, |end| {
        let sender = end.node == 0;
        let args = bench_rate {
            timing: end.probe.args(),
            peer: end.peer,
            port: end.port.address(),
            source: end.sources()?,
            credit: credits.iter().find(|own| own.0 == end.port.address()).map_or(0, |own| own.1.address()),
            limit: plan.limit,
            total: plan.total(),
            groups: plan.groups,
            per_group: plan.per_group,
            per_notification: plan.per_notification,
            per_credit: plan.per_credit,
            sample: plan.sample,
            sender: sender.into(),
        };
        Ok(match sender {
            true => Program { kernel: "bench_rate_send", blocks: shape.blocks, threads: shape.threads, args },
            false => Program { kernel: "bench_rate_receive", blocks: 1, threads: 32, args },
        })
    })?;
    let rounds = u64::from(plan.groups) * u64::from(plan.per_group);
    let mut check = Check::default();
    let mut samples = Vec::new();
    for end in ends.iter().filter(|end| end.node == 1) {
        check.merge(data.check(end.node, &end.payload, layout, rounds)?);
        // Meanwhile the other ports' puts arrive, too.
        samples.push(end.probe.samples()?.divided(u64::from(plan.sample) * ports as u64));
    }
    setup.collect((!samples.is_empty()).then(|| Samples::merged(&samples)), check)
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
    fn new(task: Task, shape: Shape, notify: bool) -> Self {
        let options = task.options;
        let Shape { blocks, threads } = shape;
        let all = u64::from(blocks) * u64::from(threads);
        let least = options.iterations.map_or(LEAST_SAMPLE, |puts| (puts / 4).clamp(FEWEST, LEAST_SAMPLE));
        // Without notifications a group should be large beside the one that ends it.
        let per_group = if notify { 1 } else { (least as u32 / threads).max(1) };
        let puts = options.iterations.unwrap_or(match (options.device, options.memory) {
            (Device::Cpu, _) => 200_000,
            (Device::Gpu, Memory::Host) => 2_000_000,
            // Copies to GPU memory go one by one for each port: about 5 us each, and between processes through host
            // memory, 15 us and more.
            (Device::Gpu, Memory::Gpu) if task.team.size() > 1 => 10_000,
            (Device::Gpu, Memory::Gpu) => 50_000,
        });
        // Without notifications a group arrives as a whole: a sample is at least one, and a rate takes several.
        let (least_sample, least_groups) =
            if notify { (least, 1) } else { (least.max(all * u64::from(per_group)), LEAST_GROUPS) };
        let sample = (puts / 20).max(least_sample).min(u32::MAX.into());
        let groups = puts.max(4 * sample).div_ceil(all * u64::from(per_group)).max(least_groups);
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

/// A host thread posts groups of puts and consumes a notification for each, or for the last one of a group: both in
/// turn, or each in its own process. A sample is a group's mean, all of it arrived.
fn host_driven(task: Task, notify: bool) -> Result<(Samples, Check), BenchError> {
    let options = task.options;
    let group: u64 = if notify { 64 } else { 1024 };
    let setup = Setup::new(task, Worker::Host)?;
    let layout = Layout::new(group * BYTES);
    let data = RoundData::new(options.seed, 0, layout.bytes);
    let ends = host_ends(&setup, layout, &data)?;
    // See [`Plan::new`] for what payload in GPU memory costs.
    let puts = if options.memory == Memory::Gpu { 50_000 } else { 1_000_000 };
    let groups = (options.iterations.unwrap_or(puts) / group).max(1);
    let arrived = |end: &HostEnd| (0..if notify { group } else { 1 }).try_for_each(|_| end.consume(options));
    let samples = match &ends[..] {
        [from, to] => Some(time_calls(groups, |round| {
            post_group(from, layout.source(round), group, notify)?;
            arrived(to)
        })?),
        [from] if from.node == 0 => {
            for round in 0..calls(groups) {
                if round >= GROUPS_AHEAD {
                    from.consume(options)?;
                }
                post_group(from, layout.source(round), group, notify)?;
            }
            (0..GROUPS_AHEAD.min(calls(groups))).try_for_each(|_| from.consume(options))?;
            None
        }
        [to] => Some(time_calls(groups, |_| {
            arrived(to)?;
            to.tell()
        })?),
        _ => None,
    };
    let mut check = Check::default();
    for end in ends.iter().filter(|end| end.node == 1) {
        check = data.check(end.node, &end.payload, layout, calls(groups))?;
    }
    setup.collect(samples.map(|samples| samples.divided(group)), check)
}

fn post_group(from: &HostEnd, at: usize, group: u64, notify: bool) -> Result<(), BenchError> {
    for word in 0..group {
        let spec = if notify || word + 1 == group { Spec::COMPLETER } else { Spec::NONE };
        let offset = word * BYTES;
        from.put(at + offset as usize, BYTES as usize, offset, spec)?;
    }
    Ok(())
}

//! The host-assisted methods (thesis 5.6.3): kernels raise a flag in host memory and the host puts for them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::args::bench_assisted;
use ggas::{HostBuffer, Spec};
use ggas_kernels::{Mapped, Processor, Running};

use super::default_iterations;
use crate::ends::{HostEnd, host_ends};
use crate::error::Doing;
use crate::kernel::{self, Probe};
use crate::payload::{Layout, RoundData};
use crate::setup::{Setup, Worker};
use crate::team::Task;
use crate::{BenchError, Check, Options, Samples};

const KERNEL: &str = "bench_host_assisted";

/// Threads of the block; one of them works.
const THREADS: u32 = 32;

/// Flags of one kernel, each in a cache line of its own.
struct Flags {
    mapped: Mapped,
    memory: HostBuffer,
    probe: Probe,
}

const TRIGGER: usize = 0;
const ANSWER: usize = 256;

impl Flags {
    fn new(processor: &Processor, samples: u64) -> Result<Self, BenchError> {
        let memory = HostBuffer::zeroed(512).doing("allocating flags")?;
        // SAFETY: the flags are only accessed atomically, and the mapping is dropped before the memory.
        let mapped = unsafe { processor.map_host(memory.as_ptr(), memory.len()) }.doing("mapping flags")?;
        Ok(Self { mapped, memory, probe: Probe::with_warm_up(processor, samples)? })
    }

    /// For the kernel of each of these ends.
    fn of_ends<'a>(
        setup: &Setup,
        ends: impl IntoIterator<Item = &'a HostEnd>,
        samples: u64,
    ) -> Result<Vec<Self>, BenchError> {
        ends.into_iter().map(|end| Self::new(setup.processor(end.node), samples)).collect()
    }

    fn args(&self, options: &Options, node: u32) -> bench_assisted {
        bench_assisted {
            timing: self.probe.args(),
            trigger: self.mapped.address() + TRIGGER as u64,
            answer: self.mapped.address() + ANSWER as u64,
            report: 0,
            timeout_ns: options.timeout.as_nanos().try_into().unwrap_or(u64::MAX),
            node,
            first: u32::from(node == 0),
        }
    }

    /// Waits until the kernel asks for round `value`.
    fn asked(&self, value: u64, timeout: Duration) -> Result<(), BenchError> {
        spin_until(self.memory.word(TRIGGER), value, timeout)
    }

    /// Tells the kernel that round `value` came.
    fn answer(&self, value: u64) {
        self.memory.store_u64(ANSWER, value);
    }
}

/// Spins, then gives the core away between looks: the kernels may need it.
fn spin_until(flag: &AtomicU64, value: u64, timeout: Duration) -> Result<(), BenchError> {
    for _ in 0..200 {
        if flag.load(Ordering::Acquire) >= value {
            return Ok(());
        }
        std::hint::spin_loop();
    }
    let started = Instant::now();
    while flag.load(Ordering::Acquire) < value {
        if started.elapsed() > timeout {
            let reason = format!("it did not ask for round {value} within {timeout:?}");
            return Err(BenchError::Kernel { kernel: KERNEL.to_owned(), reason });
        }
        std::thread::yield_now();
    }
    Ok(())
}

/// Two kernels; each has the host put for it, and hears from the host when data came.
pub(crate) fn pingpong(task: Task, bytes: u64) -> Result<(Samples, Check), BenchError> {
    let options = task.options;
    let setup = Setup::new(task, Worker::KernelsByHost)?;
    let layout = Layout::new(bytes);
    let data = RoundData::new(options.seed, 0, layout.bytes);
    let ends = host_ends(&setup, layout, &data)?;
    let samples = default_iterations(options, bytes);
    let flags = Flags::of_ends(&setup, &ends, samples)?;
    let rounds = Probe::rounds_of(samples);
    let running = start(&setup, &ends, &flags)?;
    let send = |end: &HostEnd, at| end.put(at, layout.bytes, 0, Spec::COMPLETER);
    for round in 0..rounds {
        let asked = |flags: &Flags| flags.asked(round + 1, options.timeout);
        match (&ends[..], &flags[..]) {
            ([ping, pong], [first, second]) => {
                asked(first)?;
                send(ping, layout.source(round))?;
                pong.consume(options)?;
                second.answer(round + 1);
                asked(second)?;
                send(pong, layout.arrival())?;
                ping.consume(options)?;
                first.answer(round + 1);
            }
            ([ping], [flags]) if ping.node == 0 => {
                asked(flags)?;
                send(ping, layout.source(round))?;
                ping.consume(options)?;
                flags.answer(round + 1);
            }
            ([pong], [flags]) => {
                pong.consume(options)?;
                flags.answer(round + 1);
                asked(flags)?;
                send(pong, layout.arrival())?;
            }
            _ => {}
        }
    }
    finish(running, &flags, options)?;
    let mut check = Check::default();
    for end in &ends {
        check.merge(data.check(end.node, &end.payload, layout, rounds)?);
    }
    setup.collect(samples_of_first(&ends, &flags)?, check)
}

/// One kernel has the host send windows of puts. Samples are whole windows.
pub(crate) fn bandwidth(
    task: Task,
    bytes: u64,
    window: u32,
    samples: u64,
) -> Result<(Samples, Check), BenchError> {
    let options = task.options;
    let setup = Setup::new(task, Worker::KernelsByHost)?;
    let layout = Layout::new(bytes);
    let data = RoundData::new(options.seed, 0, layout.bytes);
    let ends = host_ends(&setup, layout, &data)?;
    let senders: Vec<_> = ends.iter().take_while(|end| end.node == 0).collect();
    let flags = Flags::of_ends(&setup, senders.iter().copied(), samples)?;
    let rounds = Probe::rounds_of(samples);
    let running = start(&setup, senders.iter().copied(), &flags)?;
    for round in 0..rounds {
        match (&ends[..], &flags[..]) {
            ([from, rest @ ..], [flags]) => {
                flags.asked(round + 1, options.timeout)?;
                post_window(from, layout, round, window)?;
                rest.first().unwrap_or(from).consume(options)?;
                flags.answer(round + 1);
            }
            ([to], _) => {
                to.consume(options)?;
                to.tell()?;
            }
            _ => {}
        }
    }
    finish(running, &flags, options)?;
    let mut check = Check::default();
    for end in ends.iter().filter(|end| end.node == 1) {
        check = data.check(end.node, &end.payload, layout, rounds)?;
    }
    setup.collect(samples_of_first(&ends, &flags)?, check)
}

/// Starts the kernels of these ends.
fn start<'a>(
    setup: &Setup,
    ends: impl IntoIterator<Item = &'a HostEnd>,
    flags: &[Flags],
) -> Result<Option<Running>, BenchError> {
    let launch = |(end, flags): (&HostEnd, &Flags)| {
        let args = flags.args(setup.options, end.node);
        kernel::launch(setup.processor(end.node), KERNEL, 1, THREADS, &args)
    };
    let launches: Vec<_> = ends.into_iter().zip(flags).map(launch).collect();
    if launches.is_empty() { Ok(None) } else { kernel::begin(&launches).map(Some) }
}

/// Waits for them.
fn finish(running: Option<Running>, flags: &[Flags], options: &Options) -> Result<(), BenchError> {
    running.map_or(Ok(()), |running| kernel::finish(running, options))?;
    flags.iter().try_for_each(|flags| flags.probe.finished(KERNEL, None))
}

/// Samples of the kernel of node 0, if it ran here.
fn samples_of_first(ends: &[HostEnd], flags: &[Flags]) -> Result<Option<Samples>, BenchError> {
    match (ends, flags) {
        ([end, ..], [flags, ..]) if end.node == 0 => flags.probe.samples().map(Some),
        _ => Ok(None),
    }
}

/// Posts a window; the last put notifies the other end.
fn post_window(from: &HostEnd, layout: Layout, round: u64, window: u32) -> Result<(), BenchError> {
    for put in 1..=window {
        let spec = if put == window { Spec::COMPLETER } else { Spec::NONE };
        from.put(layout.source(round), layout.bytes, 0, spec)?;
    }
    Ok(())
}

//! The host-assisted methods (thesis 5.6.3): kernels raise a flag in host memory and the host puts for them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ggas::{HostBuffer, Spec};
use ggas_kernels::args::bench_assisted;
use ggas_kernels::{Mapped, Processor};

use super::rma_pingpong::{default_iterations, one_way};
use crate::error::Doing;
use crate::kernel::{self, Probe};
use crate::setup::{HostEnd, Layout, RoundData, Setup, Worker, consume, host_pair};
use crate::{Bench, BenchError, Check, Options, Row};

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
pub(crate) fn pingpong(bench: &dyn Bench, options: &Options, bytes: u64) -> Result<(Row, Check), BenchError> {
    let setup = Setup::new(bench, options, Worker::KernelsByHost)?;
    let layout = Layout::new(bytes);
    let data = RoundData::new(options.seed, 0, layout.bytes);
    let [ping, pong] = host_pair(&setup, layout, &data)?;
    let samples = default_iterations(options, bytes);
    let flags = [Flags::new(setup.processor(0), samples)?, Flags::new(setup.processor(1), samples)?];
    let rounds = flags[0].probe.rounds();
    let launches = [0, 1].map(|node: u32| {
        let args = flags[node as usize].args(options, node);
        kernel::launch(setup.processor(node), KERNEL, 1, THREADS, &args)
    });
    let running = kernel::begin(&launches)?;
    for round in 0..rounds {
        flags[0].asked(round + 1, options.timeout)?;
        one_way(&ping, &pong, layout.source(round), layout.bytes, options)?;
        flags[1].answer(round + 1);
        flags[1].asked(round + 1, options.timeout)?;
        one_way(&pong, &ping, layout.arrival(), layout.bytes, options)?;
        flags[0].answer(round + 1);
    }
    kernel::finish(running, options)?;
    for end in &flags {
        end.probe.finished(KERNEL, None)?;
    }
    let mut check = data.check("at the pong side", &pong.payload, layout, rounds)?;
    check.merge(data.check("back at the ping side", &ping.payload, layout, rounds)?);
    Ok((Row::new(&flags[0].probe.samples()?.halved()), check))
}

/// One kernel has the host send windows of puts. Samples are whole windows.
pub(crate) fn bandwidth(
    bench: &dyn Bench,
    options: &Options,
    bytes: u64,
    window: u32,
    samples: u64,
) -> Result<(crate::Samples, Check), BenchError> {
    let setup = Setup::new(bench, options, Worker::KernelsByHost)?;
    let layout = Layout::new(bytes);
    let data = RoundData::new(options.seed, 0, layout.bytes);
    let [from, to] = host_pair(&setup, layout, &data)?;
    let flags = Flags::new(setup.processor(0), samples)?;
    let rounds = flags.probe.rounds();
    let launch = kernel::launch(setup.processor(0), KERNEL, 1, THREADS, &flags.args(options, 0));
    let running = kernel::begin(&[launch])?;
    for round in 0..rounds {
        flags.asked(round + 1, options.timeout)?;
        post_window(&from, layout, round, window)?;
        consume(&to.port, options)?;
        flags.answer(round + 1);
    }
    kernel::finish(running, options)?;
    flags.probe.finished(KERNEL, None)?;
    let check = data.check("at the target", &to.payload, layout, rounds)?;
    Ok((flags.probe.samples()?, check))
}

/// Posts a window; the last put notifies the other end.
fn post_window(from: &HostEnd, layout: Layout, round: u64, window: u32) -> Result<(), BenchError> {
    for put in 1..=window {
        let spec = if put == window { Spec::COMPLETER } else { Spec::NONE };
        from.connection
            .put(&from.payload.region, layout.source(round), layout.bytes, from.target, spec)
            .doing("posting a put")?;
    }
    Ok(())
}

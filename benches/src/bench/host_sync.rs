//! `host-sync` (thesis Table 4.1) and `host-wait` (Listings 5.8, 5.9): what a host pays to know that a kernel has ended.

use std::time::{Duration, Instant};

use ggas::HostBuffer;
use ggas_gpu::Event;
use ggas_kernels::{KernelMem, Mapped, Stream};
use nix::time::ClockId;

use super::litmus::in_one_process;
use crate::args::bench_host_sync;
use crate::energy::{Span, used};
use crate::error::Doing;
use crate::hosts::until;
use crate::kernel;
use crate::setup::{Setup, Worker};
use crate::stats::time_calls;
use crate::team::Task;
use crate::{Bench, BenchError, Check, Device, Options, Progress, Report, Row, Samples, Team};

const KERNEL: &str = "bench_host_sync_round";
const WAITING: &str = "waiting for a kernel";

/// The thesis's kernel.
const BLOCKS: u32 = 64;
const THREADS: u32 = 128;

/// How a host learns of a kernel's end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// `cuCtxSynchronize`.
    Device,
    /// `cuStreamSynchronize`.
    Stream,
    /// `cuEventSynchronize`, which spins.
    Event,
    /// The same, which sleeps until an interrupt.
    SleepingEvent,
    /// `cuStreamQuery` again and again, as the library does it.
    Query,
    /// The last block stores to a word in host memory, which the host looks at all the time.
    Word,
    /// The same, and the host sleeps so long between two looks.
    SleepingWord(Duration),
}

/// Methods of `host-sync`, of `host-wait`, and what they are.
const WAYS: [(&str, Way); 8] = [
    ("device", Way::Device),
    ("stream", Way::Stream),
    ("event", Way::Event),
    ("event-sleeping", Way::SleepingEvent),
    ("query", Way::Query),
    ("word", Way::Word),
    // Listing 5.9: a host that waits for notifications; Listing 5.8: one that waits for kernels.
    ("word-sleeping-1ms", Way::SleepingWord(Duration::from_millis(1))),
    ("word-sleeping-5ms", Way::SleepingWord(Duration::from_millis(5))),
];

impl Way {
    fn of(method: &str) -> Way {
        WAYS.iter().find(|(name, _)| *name == method).map_or(Way::Word, |(_, way)| *way)
    }

    /// Whether a kernel has to tell its end.
    fn has_word(self) -> bool {
        matches!(self, Way::Word | Way::SleepingWord(_))
    }
}

pub(crate) struct HostSync;

impl Bench for HostSync {
    fn name(&self) -> &'static str {
        "host-sync"
    }

    fn about(&self) -> &'static str {
        "a kernel that does nothing, from its launch until the host knows of its end (thesis Table 4.1)"
    }

    fn is_of_two_nodes(&self) -> bool {
        true
    }

    fn methods(&self) -> &'static [&'static str] {
        &["device", "stream", "event", "event-sleeping", "query", "word"]
    }

    fn by_windows(&self) -> bool {
        true
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let default = if options.device == Device::Gpu { 2000 } else { 20 };
        report(Task::new(self, team, options)?, (BLOCKS, THREADS), Duration::ZERO, default, progress)
    }
}

pub(crate) struct HostWait;

impl Bench for HostWait {
    fn name(&self) -> &'static str {
        "host-wait"
    }

    fn about(&self) -> &'static str {
        "a kernel of 2 ms: how late a host knows that spins or sleeps, and what processor time it takes (thesis 5.8.3)"
    }

    fn is_of_two_nodes(&self) -> bool {
        true
    }

    fn methods(&self) -> &'static [&'static str] {
        &["query", "event", "event-sleeping", "word", "word-sleeping-1ms", "word-sleeping-5ms"]
    }

    fn by_windows(&self) -> bool {
        true
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        const LASTS: Duration = Duration::from_millis(2);
        let default = if options.device == Device::Gpu { 200 } else { 10 };
        report(Task::new(self, team, options)?, (1, 32), LASTS, default, progress)
    }
}

/// Methods that the device has: the CPU executor has no driver that waits.
fn methods(task: &Task) -> Result<Vec<&'static str>, BenchError> {
    let has = |method: &&str| task.options.device == Device::Gpu || Way::of(method).has_word();
    let methods: Vec<_> = task.methods().into_iter().filter(has).collect();
    match (&task.options.method, methods.is_empty()) {
        (Some(method), true) => {
            let advice = "only CUDA's driver waits so; use --device gpu, or word";
            Err(BenchError::option("method", method, advice))
        }
        _ => Ok(methods),
    }
}

fn report(
    task: Task,
    shape: (u32, u32),
    lasts: Duration,
    default: u64,
    progress: &mut Progress,
) -> Result<Report, BenchError> {
    in_one_process(task.team)?;
    let options = task.options;
    if !options.sizes.is_empty() {
        let advice = format!("{} has no size; leave it out", task.bench.name());
        return Err(BenchError::option("sizes", options.sizes[0], advice));
    }
    let methods = methods(&task)?;
    let mut report = task.report();
    progress.begin(task.bench.name(), methods.len() as u64);
    for method in methods {
        for &blocks in &options.blocks_or(&[shape.0]) {
            for &threads in &options.threads_or(&[shape.1]) {
                progress.now(format!("{method}, {blocks} x {threads} threads"));
                let setup = Setup::new(task, Worker::Kernels)?;
                let waits = Waits { setup: &setup, way: Way::of(method), blocks, threads, lasts };
                let (row, check) = waits.measure(options.iterations.unwrap_or(default))?;
                report.push(row.method(method), check);
            }
        }
        progress.step();
    }
    report.notes.push("processor time is that of the thread that launches and waits".to_owned());
    Ok(report)
}

struct Waits<'a> {
    setup: &'a Setup<'a>,
    way: Way,
    blocks: u32,
    threads: u32,
    lasts: Duration,
}

/// What a kernel counts, and the word by which it tells.
struct Counts {
    rounds: KernelMem,
    finished: KernelMem,
    _mapped: Mapped,
    word: HostBuffer,
    at: u64,
}

impl Counts {
    fn new(waits: &Waits) -> Result<Counts, BenchError> {
        let processor = waits.setup.processor(0);
        let zeroed = |bytes: usize| -> Result<KernelMem, BenchError> {
            let memory = processor.alloc(bytes).doing("allocating kernel memory")?;
            memory.write(0, &vec![0; bytes]).doing("writing kernel memory")?;
            Ok(memory)
        };
        let word = HostBuffer::zeroed(4096).doing("allocating host memory")?;
        // SAFETY: the mapping is dropped before the buffer, which is accessed by atomics only.
        let mapped = unsafe { processor.map_host(word.as_ptr(), 4096) };
        let mapped = mapped.doing("mapping host memory for kernels")?;
        let (rounds, finished) = (zeroed(8 * waits.blocks as usize)?, zeroed(8)?);
        Ok(Counts { rounds, finished, at: mapped.address(), _mapped: mapped, word })
    }

    /// Every block made every round, and told it.
    fn check(&self, waits: &Waits, rounds: u64) -> Result<Check, BenchError> {
        let mut check = Check::default();
        let seen = self.rounds.read_u64s(0, waits.blocks as usize).doing("reading kernel memory")?;
        check.equal("rounds of all blocks", vec![rounds; waits.blocks as usize], seen);
        let told = if waits.way.has_word() { rounds } else { 0 };
        check.equal("rounds that the host was told of", told, self.word.load_u64(0));
        Ok(check)
    }
}

impl Waits<'_> {
    fn measure(&self, iterations: u64) -> Result<(Row, Check), BenchError> {
        let counts = Counts::new(self)?;
        let args = bench_host_sync {
            rounds: counts.rounds.address(),
            finished: counts.finished.address(),
            word: if self.way.has_word() { counts.at } else { 0 },
            ns: self.lasts.as_nanos() as u64,
        };
        let launch = kernel::launch(self.setup.processor(0), KERNEL, self.blocks, self.threads, &args);
        let launches = [launch];
        let timeout = kernel::limit(self.setup.options.timeout);
        let stream = Stream::new(&launches, timeout).doing("making a stream")?;
        let event = match (stream.on_gpu(), self.way) {
            (Some(on_gpu), Way::SleepingEvent) => Some(Event::sleeping(on_gpu.gpu())),
            (Some(on_gpu), Way::Event) => Some(Event::new(on_gpu.gpu())),
            _ => None,
        };
        let event = event.transpose().doing("making an event")?;
        let mut rounds = 0;
        let (counted, began, thread) =
            (Span::begin(), Instant::now(), used(ClockId::CLOCK_THREAD_CPUTIME_ID));
        let samples = time_calls(iterations, |_| {
            rounds += 1;
            let running = match stream.on_gpu() {
                Some(_) => {
                    stream.launch(0).doing("starting a kernel")?;
                    None
                }
                // The executor's stream would do the work in this thread.
                None => Some(kernel::begin(&launches)?),
            };
            self.wait(&stream, event.as_ref(), &counts, rounds)?;
            running.map_or(Ok(()), |running| kernel::finish(running, self.setup.options))
        })?;
        let (took, thread) = (began.elapsed(), used(ClockId::CLOCK_THREAD_CPUTIME_ID) - thread);
        drop(counted);
        stream.wait().doing(WAITING)?;
        let check = counts.check(self, rounds)?;
        Ok((self.row(&samples, thread.as_secs_f64() / took.as_secs_f64()), check))
    }

    /// `busy`: the part of the time that the thread had a processor.
    fn row(&self, samples: &Samples, busy: f64) -> Row {
        let mut row = Row::new(samples).with("host_cpu_percent", 100.0 * busy);
        (row.blocks, row.threads) = (Some(self.blocks), Some(self.threads));
        if self.lasts.is_zero() {
            return row;
        }
        let late = row.latency_us.median - self.lasts.as_secs_f64() * 1e6;
        row.with("late_us", late)
    }

    fn wait(
        &self,
        stream: &Stream<'_>,
        event: Option<&Event>,
        counts: &Counts,
        round: u64,
    ) -> Result<(), BenchError> {
        let timeout = kernel::limit(self.setup.options.timeout);
        let told = || counts.word.load_u64(0) >= round;
        match (self.way, stream.on_gpu(), event) {
            (Way::Device, Some(on_gpu), _) => on_gpu.gpu().synchronize().doing(WAITING),
            (Way::Stream, Some(on_gpu), _) => on_gpu.synchronize().doing(WAITING),
            (Way::Event | Way::SleepingEvent, Some(on_gpu), Some(event)) => {
                event.record(on_gpu).doing("recording an event")?;
                event.synchronize().doing(WAITING)
            }
            (Way::Word, ..) => spin(timeout, told),
            (Way::SleepingWord(pause), ..) => until("a kernel", timeout, || {
                let done = told();
                if !done {
                    std::thread::sleep(pause);
                }
                done
            }),
            _ => stream.wait().doing(WAITING),
        }
    }
}

/// Looks all the time.
fn spin(timeout: Duration, mut done: impl FnMut() -> bool) -> Result<(), BenchError> {
    const LOOKS: u32 = 1024;
    let began = Instant::now();
    loop {
        for _ in 0..LOOKS {
            if done() {
                return Ok(());
            }
            std::hint::spin_loop();
        }
        if began.elapsed() > timeout {
            return Err(std::io::Error::other(format!("it did not come in {timeout:?}"))).doing(WAITING);
        }
    }
}

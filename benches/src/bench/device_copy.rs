//! `device-copy` (thesis 6.6.2, Fig. 6.8): a kernel copies by its own stores and loads, or has the copy engine do it.

use ggas_kernels::{KernelMem, Stream};
use ggas_window::Window;

use super::litmus::in_one_process;
use super::{ggas_bandwidth, iterations_for};
use crate::args::bench_device_copy;
use crate::error::Doing;
use crate::kernel::{self, Probe};
use crate::payload::RoundData;
use crate::setup::{Setup, Worker};
use crate::space::{window, window_of};
use crate::staging::Bystander;
use crate::team::Task;
use crate::{Bench, BenchError, Check, Device, Options, Progress, Report, Row, Samples, Team};

const KERNEL: &str = "bench_device_copy_rounds";

pub(crate) struct DeviceCopy;

impl Bench for DeviceCopy {
    fn name(&self) -> &'static str {
        "device-copy"
    }

    fn about(&self) -> &'static str {
        "copies that a kernel makes by stores and loads, or has the copy engine make (thesis 6.6.2)"
    }

    fn is_of_two_nodes(&self) -> bool {
        true
    }

    fn methods(&self) -> &'static [&'static str] {
        &["store", "engine-write", "load", "engine-read"]
    }

    fn by_windows(&self) -> bool {
        true
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        in_one_process(team)?;
        let (sizes, blocks, threads): (&[u64], u32, &[u32]) = match options.device {
            // The thesis's 8,192 threads in blocks of 64; and as many as today's GPUs like.
            Device::Gpu => (&[1024, 4096, 16_384, 65_536, 262_144, 1 << 20, 16 << 20], 128, &[64, 512]),
            Device::Cpu => (&[1024, 65_536], 1, &[32]),
        };
        let sizes = options.sizes_or(sizes, 16..=64 << 20, 16)?;
        let mut report =
            super::methods_by_sizes(task, &task.methods(), &sizes, progress, |report, method, bytes| {
                if method.starts_with("engine") {
                    let (samples, check) = by_engine(task, method == "engine-write", bytes)?;
                    report.push(Row::new(&samples).method(method).bytes(bytes).bandwidth_of(bytes), check);
                    return Ok(());
                }
                for &blocks in &options.blocks_or(&[blocks]) {
                    for &threads in &options.threads_or(threads) {
                        let (samples, check) = ggas_bandwidth::copy(task, method, bytes, blocks, threads)?;
                        let mut row = Row::new(&samples).method(method).bytes(bytes).bandwidth_of(bytes);
                        (row.blocks, row.threads) = (Some(blocks), Some(threads));
                        report.push(row, check);
                    }
                }
                Ok(())
            })?;
        for (what, own, engine) in [("written", "store", "engine-write"), ("read", "load", "engine-read")] {
            if options.method.is_none() {
                report.notes.push(crossing(&report.rows, what, own, engine));
            }
        }
        Ok(report)
    }
}

/// From which size on the copy engine is quicker, whatever the kernel's shape.
fn crossing(rows: &[Row], what: &str, own: &str, engine: &str) -> String {
    let quickest = |method: &str, bytes: Option<u64>| {
        let of = |row: &&Row| row.method.as_deref() == Some(method) && row.bytes == bytes;
        rows.iter().filter(of).map(|row| row.latency_us.median).fold(f64::INFINITY, f64::min)
    };
    let mut sizes: Vec<_> = rows.iter().filter_map(|row| row.bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let wins = |bytes: &&u64| quickest(engine, Some(**bytes)) < quickest(own, Some(**bytes));
    match sizes.iter().rev().take_while(wins).last() {
        Some(bytes) => format!("{what}: the copy engine is quicker from {bytes} bytes on"),
        None => format!("{what}: the copy engine is not quicker at the largest size"),
    }
}

/// What the stream of node 0 copies in each round.
struct Copies {
    to: [u64; 2],
    from: [u64; 2],
    bytes: usize,
    trigger: KernelMem,
    done: KernelMem,
}

impl Copies {
    /// Posts all rounds: each waits for the kernel's word and tells the kernel.
    fn post(&self, stream: &Stream<'_>, rounds: u64) -> Result<(), BenchError> {
        const POSTING: &str = "posting a copy";
        for round in 0..rounds {
            let parity = (round % 2) as usize;
            // SAFETY: words that are accessed by atomics only and live until the stream was waited for.
            unsafe { stream.wait_for(self.trigger.address(), round + 1) }.doing(POSTING)?;
            // SAFETY: memory of both nodes that nobody uses until the kernel was told.
            unsafe { stream.copy(self.to[parity], self.from[parity], self.bytes) }.doing(POSTING)?;
            // SAFETY: as above.
            unsafe { stream.store(self.done.address(), round + 1) }.doing(POSTING)?;
        }
        Ok(())
    }
}

fn by_engine(task: Task, write: bool, bytes: u64) -> Result<(Samples, Check), BenchError> {
    let options = task.options;
    let setup = Setup::new(task, Worker::Kernels)?;
    let processor = setup.processor(0);
    let len = bytes as usize;
    let window = window(&setup, 2 * len)?;
    let data = RoundData::new(options.seed, 0, len);
    let filled = |bytes: &[u8]| -> Result<KernelMem, BenchError> {
        let memory = processor.alloc(bytes.len()).doing("allocating kernel memory")?;
        memory.write(0, bytes).doing("writing kernel memory")?;
        Ok(memory)
    };
    // In even and odd rounds: what is sent and arrives, each in places of its own.
    let both = [data.of(0), data.of(1)].concat();
    let poison = [data.poison(), data.poison()].concat();
    let (here, there) = if write { (&both, &poison) } else { (&poison, &both) };
    let memory = filled(here)?;
    window.write(1, 0, there).doing("writing the window")?;
    let remote = window.member(0).doing("choosing a member")?.pointer_of(1).doing("mapping a window")?;
    let [here, there] = [memory.address(), remote].map(|start| [start, start + bytes]);
    let (to, from) = if write { (there, here) } else { (here, there) };
    let copies = Copies { to, from, bytes: len, trigger: filled(&[0; 8])?, done: filled(&[0; 8])? };
    let small = if options.device == Device::Gpu { 500 } else { 100 };
    let probe = Probe::with_warm_up(
        processor,
        options.iterations.unwrap_or(iterations_for(small, bytes / 16)).max(2),
    )?;
    run(&setup, &copies, &probe, &window)?;
    let mut check = Check::default();
    let mut seen = vec![0; 2 * len];
    match write {
        true => window.read(1, 0, &mut seen).doing("reading the window")?,
        false => memory.read(0, &mut seen).doing("reading kernel memory")?,
    }
    check.bytes("what was copied", &both, &seen);
    setup.collect(Some(probe.samples()?), check)
}

/// The kernel runs, and its host posts the copies.
fn run(setup: &Setup, copies: &Copies, probe: &Probe, window: &Window) -> Result<(), BenchError> {
    let (processor, options) = (setup.processor(0), setup.options);
    let args = bench_device_copy {
        timing: probe.args(),
        window: window_of(window, 0)?,
        trigger: copies.trigger.address(),
        done: copies.done.address(),
    };
    let bystander = Bystander::new(processor)?;
    let launches = bystander.launch(processor);
    let stream = Stream::new(&launches, kernel::limit(options.timeout)).doing("making a stream")?;
    let running = kernel::begin(&[kernel::launch(processor, KERNEL, 1, 32, &args)])?;
    let posted = copies.post(&stream, probe.rounds());
    let finished = kernel::finish(running, options);
    // Where the kernel ended early the stream still waits for it.
    copies.trigger.store_u64(0, u64::MAX).doing("writing kernel memory")?;
    let waited = stream.wait().doing("waiting for copies");
    probe.finished(KERNEL, window.member(0).doing("choosing a member")?.report())?;
    posted.and(finished).and(waited)
}

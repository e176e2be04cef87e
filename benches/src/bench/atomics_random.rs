//! `atomics-random`: every thread xors random words of all nodes, without any rules (compare `randomaccess`).

use crate::args::{bench_atomics, bench_atomics_result};
use ggas_kernels::KernelMem;
use ggas_window::Window;

use crate::error::Doing;
use crate::kernel;
use crate::setup::{Setup, Worker};
use crate::space::{window, window_of};
use crate::team::Task;
use crate::{Bench, BenchError, Check, Device, Options, Progress, Report, Row, Samples, Team};

const KERNEL: &str = "bench_atomics_random";

/// Bytes of the table that are read back at a time.
const PART: usize = 32 << 20;

pub(crate) struct AtomicsRandom;

impl Bench for AtomicsRandom {
    fn name(&self) -> &'static str {
        "atomics-random"
    }

    fn about(&self) -> &'static str {
        "8-byte atomic xor to random words of the tables of all nodes, by as many threads as fit"
    }

    fn methods(&self) -> &'static [&'static str] {
        &["no-result", "result"]
    }

    fn by_windows(&self) -> bool {
        true
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        let gpu = options.device == Device::Gpu;
        let sizes = options.sizes_or(&[if gpu { 256 << 20 } else { 1 << 20 }], 8..=1 << 32, 8)?;
        if let Some(bad) = sizes.iter().find(|size| !size.is_power_of_two()) {
            return Err(BenchError::option(
                "sizes",
                bad,
                "use powers of two: bytes of the table of each node",
            ));
        }
        let mut report = task.report();
        let methods = task.methods();
        progress.begin(self.name(), (methods.len() * sizes.len()) as u64);
        for method in methods {
            for &bytes in &sizes {
                for &blocks in &options.blocks_or(&[if gpu { 264 } else { 2 }]) {
                    for &threads in &options.threads_or(&[if gpu { 1024 } else { 64 }]) {
                        progress.now(format!("{method}, {blocks} x {threads} threads"));
                        let (row, check) = update(task, method, bytes, blocks, threads)?;
                        report.push(row, check);
                    }
                }
                progress.step();
            }
        }
        Ok(report)
    }
}

/// What a node's kernel was told and told.
struct Worked {
    seed: u64,
    result: KernelMem,
}

fn update(
    task: Task,
    method: &str,
    bytes: u64,
    blocks: u32,
    threads: u32,
) -> Result<(Row, Check), BenchError> {
    let options = task.options;
    let setup = Setup::new(task, Worker::Kernels)?;
    let window = window(&setup, bytes as usize)?;
    if !window.info().atomics {
        let why = "kernels have no atomics on the memory of all other nodes";
        return Err(BenchError::Unsupported(why.to_owned()));
    }
    let updates = options.iterations.unwrap_or(if options.device == Device::Gpu { 2000 } else { 200 });
    let launch = |fetch: bool| -> Result<(f64, u64), BenchError> {
        let mut worked = Vec::new();
        let mut launches = Vec::new();
        for node in setup.local() {
            let result = setup.processor(node).alloc(size_of::<bench_atomics_result>());
            let result = result.doing("allocating kernel memory")?;
            result.write_u64s(0, &[u64::MAX, 0, 0, 0]).doing("writing kernel memory")?;
            let seed = crate::RandomStream::new(options.seed, node.into()).word(0);
            let args = bench_atomics {
                window: window_of(&window, node)?,
                result: result.address(),
                offset: 0,
                entries: bytes / 8,
                updates,
                seed,
                fetch: u32::from(fetch),
                reserved: 0,
            };
            launches.push(kernel::launch(setup.processor(node), KERNEL, blocks, threads, &args));
            worked.push(Worked { seed, result });
        }
        setup.share::<()>(Vec::new())?;
        kernel::run(&launches, options)?;
        outcome(&setup, &worked, blocks)
    };
    // Twice the same updates: the first time the table must hold what all operands together make, the second
    // time all that is undone.
    let mut check = Check::default();
    let mut samples = Vec::new();
    for undo in [false, true] {
        let (ns, sum) = launch(method == "result")?;
        samples.push(ns);
        let expected = if undo { 0 } else { sum };
        let (seen, other) = xor_of_tables(&setup, &window, bytes as usize)?;
        check.equal("all words of all tables, xored", expected, seen);
        if undo {
            check.wrong(other, || "words that twice the same updates do not leave as they were".to_owned());
        } else if other == 0 {
            check.wrong(1, || "no word of any table changed".to_owned());
        }
    }
    let all = updates as f64 * f64::from(blocks) * f64::from(threads) * f64::from(options.nodes);
    let ns = samples.iter().copied().fold(f64::INFINITY, f64::min);
    let mut row = Row::new(&Samples::new(samples, updates)).method(method).bytes(bytes);
    (row.blocks, row.threads, row.rate_per_s) = (Some(blocks), Some(threads), Some(all / ns * 1e9));
    Ok((row.with("gups", all / ns), check))
}

/// Nanoseconds that the slowest node took, and the operands of all nodes, xored.
fn outcome(setup: &Setup, worked: &[Worked], blocks: u32) -> Result<(f64, u64), BenchError> {
    let mut own = Vec::new();
    for Worked { seed, result } in worked {
        let words = result.read_u64s(0, 4).doing("reading kernel memory")?;
        let [begin, end, sum, ended] = std::array::from_fn(|i| words.get(i).copied().unwrap_or(0));
        if ended != u64::from(blocks) {
            let reason = format!("{ended} of {blocks} blocks ended (seed {seed:#x})");
            return Err(BenchError::Kernel { kernel: KERNEL.to_owned(), reason });
        }
        own.push((end.saturating_sub(begin), sum));
    }
    let all = setup.share(own)?;
    let slowest = all.iter().map(|(ns, _)| *ns).max().unwrap_or(0).max(1);
    Ok((slowest as f64, all.iter().fold(0, |sum, (_, own)| sum ^ own)))
}

/// All words of the tables of all nodes xored, and how many are not 0.
fn xor_of_tables(setup: &Setup, window: &Window, bytes: usize) -> Result<(u64, u64), BenchError> {
    let mut part = vec![0; PART.min(bytes)];
    let (mut sum, mut other) = (0, 0);
    for node in setup.local() {
        for at in (0..bytes).step_by(part.len()) {
            window.read(node as usize, at, &mut part).doing("reading the window")?;
            for word in part.chunks_exact(8) {
                let word = u64::from_le_bytes(word.try_into().unwrap_or_default());
                sum ^= word;
                other += u64::from(word != 0);
            }
        }
    }
    let all = setup.share(vec![(sum, other)])?;
    Ok(all.iter().fold((0, 0), |(sum, other), (s, o)| (sum ^ s, other + o)))
}

//! `hpe-remote`: kernels that use memory of other devices where it is. How many accesses leave the device, and that what a kernel keeps of
//! other devices' memory does not outlive a fence.

use ggas_hpe::{Map, RemoteCounts, Runtime};
use ggas_kernels::{KernelMem, Processor};

use super::{devices, reach, shape};
use crate::args::{
    BENCH_LITMUS_RIGHT, BENCH_LITMUS_WEAK, bench_hpe_fences, bench_hpe_loads, bench_litmus_counts,
};
use crate::bench::litmus::in_one_process;
use crate::error::Doing;
use crate::kernel;
use crate::setup::{Setup, Worker};
use crate::stats::time_calls;
use crate::team::Task;
use crate::{Bench, BenchError, Check, Device, Options, Progress, Report, Row, Samples, Team};

pub(crate) struct Remote;

/// Bytes of a line, and its words.
const LINE: usize = ggas_hpe::layout::GGAS_HPE_LINE as usize;
const WORDS: usize = LINE / 8;

impl Bench for Remote {
    fn name(&self) -> &'static str {
        "hpe-remote"
    }

    fn about(&self) -> &'static str {
        "kernels on two devices that load one distributed object: what leaves the device; no stale copy behind a fence (HPE IV-B)"
    }

    fn is_of_two_nodes(&self) -> bool {
        true
    }

    fn methods(&self) -> &'static [&'static str] {
        &["loads", "loads-kept", "fence", "fence-kept"]
    }

    fn by_windows(&self) -> bool {
        true
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        in_one_process(team)?;
        let size = if options.device == Device::Gpu { 64 << 20 } else { 1 << 20 };
        let sizes = options.sizes_or(&[size], 64..=1 << 32, 64)?;
        let mut report = task.report();
        let setup = Setup::new(task, Worker::Kernels)?;
        if !reach(&setup, 2)? {
            report.notes.push("not run: the devices do not reach each other".to_owned());
            return Ok(report);
        }
        let methods = task.methods();
        progress.begin(self.name(), methods.len() as u64);
        for method in methods {
            progress.now(method.to_owned());
            let kept = method.ends_with("-kept");
            if method.starts_with("loads") {
                for &bytes in &sizes {
                    let (row, check) = loads(&setup, bytes as usize, kept)?;
                    report.push(row.method(method).bytes(bytes), check);
                }
            } else {
                for (build, number) in [("right", BENCH_LITMUS_RIGHT), ("weak", BENCH_LITMUS_WEAK)] {
                    let (row, check) = fences(&setup, kept, number)?;
                    report.push(row.method(method).with("build", build), check);
                }
            }
            progress.step();
        }
        report
            .notes
            .push("local, remote, kept: accesses of both devices' kernels by where they went".to_owned());
        Ok(report)
    }
}

/// A distributed object of two devices, and what kernels of each need.
struct Two<'a> {
    setup: &'a Setup<'a>,
    runtime: Runtime,
    start: *mut u8,
    maps: [Map; 2],
}

impl<'a> Two<'a> {
    fn new(setup: &'a Setup<'a>, bytes: usize) -> Result<Two<'a>, BenchError> {
        let runtime = devices(setup, 2)?.timeout(setup.options.timeout).build().doing("making a runtime")?;
        let devices = runtime.devices();
        let start = runtime.alloc_spread(&devices, bytes).doing("allocating a distributed object")?;
        let map = |i: usize| runtime.map(devices[i], Some(start)).doing("mapping a distributed object");
        let maps = [map(0)?, map(1)?];
        Ok(Two { setup, runtime, start, maps })
    }

    fn processor(&self, device: usize) -> &Processor {
        self.setup.processor(device as u32)
    }

    fn counts(&self) -> Result<[RemoteCounts; 2], BenchError> {
        let of = |map: &Map| map.counts().doing("reading counters");
        Ok([of(&self.maps[0])?, of(&self.maps[1])?])
    }
}

fn with_counts(row: Row, counts: [RemoteCounts; 2]) -> Row {
    let sum = |of: fn(&RemoteCounts) -> u64| counts.iter().map(of).sum::<u64>();
    row.with("local", sum(|c| c.local)).with("remote", sum(|c| c.remote)).with("kept", sum(|c| c.kept))
}

/// Both devices add up the whole object, of which each has a half.
fn loads(setup: &Setup, bytes: usize, kept: bool) -> Result<(Row, Check), BenchError> {
    let two = Two::new(setup, bytes)?;
    let words: Vec<u64> = (0..bytes as u64 / 8).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    // SAFETY: the object has so many bytes; no kernel runs.
    unsafe { two.runtime.copy(two.start, words.as_ptr().cast(), bytes) }.doing("copying to devices")?;
    let expected = words.iter().fold(0u64, |sum, word| sum.wrapping_add(*word));
    let options = setup.options;
    let count = words.len() as u64;
    let (blocks, threads) = shape(options.device, count / WORDS as u64);
    let sums = [0, 1].map(|i| two.processor(i).alloc(8));
    let [one, other] = sums;
    let sums = [one.doing("allocating kernel memory")?, other.doing("allocating kernel memory")?];
    let launches = [0, 1].map(|i: usize| {
        let args = bench_hpe_loads {
            map: two.maps[i].address(),
            data: two.start as u64,
            count,
            sum: sums[i].address(),
            kept: kept.into(),
            reserved: 0,
        };
        kernel::launch(two.processor(i), "bench_hpe_loads_sum", blocks, threads, &args).resident(1)
    });
    let mut check = Check::default();
    let mut runs = 0;
    let samples = time_calls(options.iterations.unwrap_or(20), |_| {
        for sum in &sums {
            sum.write_u64s(0, &[0]).doing("writing kernel memory")?;
        }
        kernel::run(&launches, options)?;
        runs += 1;
        for sum in &sums {
            let seen = sum.read_u64s(0, 1).doing("reading kernel memory")?;
            check.wrong(u64::from(seen != [expected]), || format!("a sum is {seen:?}, not {expected}"));
        }
        Ok::<(), BenchError>(())
    })?;
    let counts = two.counts()?;
    for (device, seen) in counts.iter().enumerate() {
        let wanted = expected_counts(&two, device, count, runs, kept);
        check.wrong(u64::from(*seen != wanted), || {
            format!("device {device} counted {seen:?}, not {wanted:?}")
        });
    }
    let mut row = with_counts(Row::new(&samples), counts).bandwidth_of(2 * bytes as u64);
    (row.blocks, row.threads) = (Some(blocks), Some(threads));
    Ok((row, check))
}

/// What a device's threads load that add up all words so often: their own half, and lines of the other.
fn expected_counts(two: &Two, device: usize, count: u64, runs: u64, kept: bool) -> RemoteCounts {
    let is_own = |word: u64| {
        two.runtime.owner(two.start.wrapping_add(8 * word as usize)) == Some(two.runtime.devices()[device])
    };
    // The first word of the second part, found by halves.
    let (mut low, mut high) = (0, count);
    let first = is_own(0);
    while low < high {
        let middle = low + (high - low) / 2;
        if is_own(middle) == first { low = middle + 1 } else { high = middle }
    }
    let own = if first { low } else { count - low };
    let others = count - own;
    let requests = if kept { others / WORDS as u64 } else { others };
    RemoteCounts { local: runs * own, remote: runs * requests, kept: runs * (others - requests), outside: 0 }
}

/// Device 0 writes its memory, and device 1 reads that.
fn fences(setup: &Setup, kept: bool, build: u32) -> Result<(Row, Check), BenchError> {
    let options = setup.options;
    let gpu = options.device == Device::Gpu;
    let (blocks, threads) = if gpu { (64, 64) } else { (2, 8) };
    let rounds = options.iterations.unwrap_or(if gpu { 500 } else { 100 });
    let pairs = u64::from(blocks * threads);
    // Data and what the reader says in one half, the flags in the other, which may begin further on than here.
    let part = (2 * pairs as usize * LINE).next_multiple_of(2 << 20);
    let two = Two::new(setup, 2 * part)?;
    let (data, flag) = (two.start as u64, two.start as u64 + part as u64);
    let seen = [0, 1].map(|i| two.processor(i).alloc(size_of::<bench_litmus_counts>()));
    let [one, other] = seen;
    let seen = [one.doing("allocating kernel memory")?, other.doing("allocating kernel memory")?];
    let launches = [0, 1].map(|i: usize| {
        let args = bench_hpe_fences {
            map: two.maps[i].address(),
            data,
            said: data + pairs * LINE as u64,
            flag,
            counts: seen[i].address(),
            rounds,
            timeout_ns: options.timeout.as_nanos() as u64,
            reads: i as u32,
            kept: kept.into(),
            build,
            reserved: 0,
        };
        kernel::launch(two.processor(i), "bench_hpe_fences_rounds", blocks, threads, &args)
    });
    for counts in &seen {
        counts.write_u64s(0, &[0; 4]).doing("writing kernel memory")?;
    }
    let begun = std::time::Instant::now();
    kernel::run(&launches, options)?;
    let samples = Samples::new(vec![begun.elapsed().as_nanos() as f64 / rounds as f64], rounds);
    ended(&seen[0], pairs)?;
    let [observed, forbidden] = ended(&seen[1], pairs)?;
    let mut check = Check::default();
    let wrong = match build {
        BENCH_LITMUS_WEAK if kept => forbidden == 0,
        BENCH_LITMUS_WEAK => false,
        _ => forbidden > 0,
    };
    let why = || format!("{forbidden} of {observed} loads behind a flag were stale");
    check.wrong(u64::from(wrong), why);
    check.wrong(u64::from(observed != pairs * rounds), || format!("{observed} loads in {rounds} rounds"));
    let mut row = with_counts(Row::new(&samples).bytes(8), two.counts()?);
    row = row.with("rounds", pairs * rounds).with("observed", observed).with("forbidden", forbidden);
    (row.blocks, row.threads) = (Some(blocks), Some(threads));
    Ok((row, check))
}

/// Observed and forbidden, once all threads came to their end.
fn ended(counts: &KernelMem, pairs: u64) -> Result<[u64; 2], BenchError> {
    let words = counts.read_u64s(0, 4).doing("reading kernel memory")?;
    let [observed, forbidden, ended, status] = std::array::from_fn(|i| words.get(i).copied().unwrap_or(0));
    if ended == pairs {
        return Ok([observed, forbidden]);
    }
    let reason = format!("{ended} of {pairs} threads ended well (status {status})");
    Err(BenchError::Kernel { kernel: "bench_hpe_fences_rounds".to_owned(), reason })
}

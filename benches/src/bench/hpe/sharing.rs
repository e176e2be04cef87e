//! `hpe-sharing`: many threads that copy to one device.

use std::time::{Duration, Instant};

use ggas_hpe::{Locking, Runtime, Wait};

use super::{compare, devices, pattern};
use crate::bench::litmus::in_one_process;
use crate::error::Doing;
use crate::setup::{Setup, Worker};
use crate::team::Task;
use crate::{Bench, BenchError, Check, Options, Progress, Report, Row, Samples, Team};

/// Threads of the host.
const THREADS: [u32; 4] = [1, 2, 4, 16];
/// How long they copy.
const LASTS: Duration = Duration::from_secs(1);

pub(crate) struct Sharing;

const WAYS: [(&str, Wait, Locking); 4] = [
    ("short", Wait::SPIN_FIRST, Locking::Short),
    ("short-poll", Wait::PAPER, Locking::Short),
    ("coarse", Wait::SPIN_FIRST, Locking::Coarse),
    ("coarse-poll", Wait::PAPER, Locking::Coarse),
];

impl Bench for Sharing {
    fn name(&self) -> &'static str {
        "hpe-sharing"
    }

    fn about(&self) -> &'static str {
        "copies of 1 to 16 threads to one device: lock, queue, unlock and poll, or a lock that is held (HPE III-A)"
    }

    fn is_of_two_nodes(&self) -> bool {
        true
    }

    fn methods(&self) -> &'static [&'static str] {
        const NAMES: [&str; 4] = [WAYS[0].0, WAYS[1].0, WAYS[2].0, WAYS[3].0];
        &NAMES
    }

    fn by_windows(&self) -> bool {
        true
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        in_one_process(team)?;
        let sizes = options.sizes_or(&[4096, 1 << 20], 1..=64 << 20, 1)?;
        let threads = options.threads_or(&THREADS);
        if let Some(bad) = threads.iter().find(|threads| !(1..=256).contains(*threads)) {
            return Err(BenchError::option("threads", bad, "use 1 to 256 threads of the host"));
        }
        let mut report = task.report();
        let methods = task.methods();
        progress.begin(self.name(), (methods.len() * sizes.len() * threads.len()) as u64);
        let setup = Setup::new(task, Worker::Kernels)?;
        for method in methods {
            for &bytes in &sizes {
                for &threads in &threads {
                    progress.now(format!("{method}, {bytes} bytes, {threads} threads"));
                    let (row, check) = measure(&setup, method, bytes as usize, threads)?;
                    report.push(row.method(method).bytes(bytes), check);
                    progress.step();
                }
            }
        }
        report.notes.push(
            "a time is a thread's mean for a copy; `slowest`: copies of the slowest thread over the mean"
                .to_owned(),
        );
        Ok(report)
    }
}

fn measure(setup: &Setup, method: &str, bytes: usize, threads: u32) -> Result<(Row, Check), BenchError> {
    let (_, wait, locking) = WAYS.into_iter().find(|(name, ..)| *name == method).unwrap_or(WAYS[0]);
    let builder = devices(setup, 1)?.wait(wait).locking(locking).timeout(setup.options.timeout);
    let runtime = builder.build().doing("making a runtime")?;
    let seed = setup.options.seed;
    let ends = Instant::now() + LASTS;
    let counts = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|thread| {
                let runtime = &runtime;
                scope.spawn(move || copies(runtime, bytes, seed + u64::from(thread), ends))
            })
            .collect();
        let ended = |thread: std::thread::ScopedJoinHandle<_>| thread.join().unwrap_or_else(|_| Err(gone()));
        threads.into_iter().map(ended).collect::<Result<Vec<(u64, Check)>, BenchError>>()
    })?;
    let (sum, least) = (
        counts.iter().map(|(copies, _)| copies).sum::<u64>(),
        counts.iter().map(|(copies, _)| *copies).min(),
    );
    let mean = sum as f64 / f64::from(threads);
    let samples =
        Samples::new(counts.iter().map(|(copies, _)| LASTS.as_nanos() as f64 / *copies as f64).collect(), 1);
    let waited = runtime.counts().locks.first().map_or(0.0, |lock| lock.time.as_secs_f64() * 1e6);
    let mut row = Row::new(&samples).with("slowest", least.unwrap_or(0) as f64 / mean);
    row = row.with("lock wait us", waited / sum as f64);
    row.threads = Some(threads);
    row.rate_per_s = Some(sum as f64 / LASTS.as_secs_f64());
    let mut check = Check::default();
    counts.into_iter().for_each(|(_, one)| check.merge(one));
    Ok((row, check))
}

fn gone() -> BenchError {
    BenchError::Unsupported("a thread that copies has ended".to_owned())
}

/// One thread's copies, and whether the last came.
fn copies(runtime: &Runtime, bytes: usize, seed: u64, ends: Instant) -> Result<(u64, Check), BenchError> {
    let (source, mut seen) = (pattern(bytes, seed), vec![0; bytes]);
    let there = runtime.alloc(runtime.devices()[0], bytes).doing("allocating memory of a device")?;
    let mut count = 0;
    // SAFETY: memory of this thread.
    unsafe {
        while Instant::now() < ends {
            runtime.copy(there, source.as_ptr(), bytes).doing("copying")?;
            count += 1;
        }
        runtime.copy(seen.as_mut_ptr(), there, bytes).doing("copying")?;
    }
    Ok((count, compare(&source, &seen)))
}

//! What a process of the job checks.

use std::time::{Duration, Instant};

use ggas_coll::GroupError;
use ggas_members::Job;
use ggas_selftest::args::{selftest_threads, selftest_window};
use ggas_window::Mapping;

use crate::setup::{Process, ROUNDS, SOON, TRANSFER};
use crate::{Options, Outcome, run};

/// After a death, collectives under way end within this.
const DEATH: Duration = Duration::from_secs(2);

pub fn run(options: &Options) -> Outcome<()> {
    let job = Job::join()?;
    let begun = Instant::now();
    let process = Process::new(&job, options)?;
    let table = Table { job: &job };
    table.row("window and group set up", Ok(begun.elapsed()), 1)?;
    if options.run {
        return if options.death { run::death(&job, &process) } else { run::checks(&table, &process) };
    }
    if options.death { death(&job, &process) } else { checks(&table, &process, options) }
}

/// Rows that rank 0 prints once all ranks have come so far, with the longest time of all.
pub struct Table<'a> {
    pub job: &'a Job,
}

impl Table<'_> {
    pub fn row(&self, what: &str, took: Outcome<Duration>, operations: u32) -> Outcome<()> {
        // Who failed leaves, and the others learn of it by its absence.
        let micros = took?.as_secs_f64() * 1e6 / f64::from(operations);
        let all = self.job.exchange(&micros.to_ne_bytes(), SOON)?;
        let all = all.iter().filter_map(|bytes| Some(f64::from_ne_bytes(bytes.as_slice().try_into().ok()?)));
        let longest = all.fold(0.0, f64::max);
        if self.job.rank() == 0 {
            println!("PASS  {what:<60} {longest:>12.2} us");
        }
        Ok(())
    }
}

fn checks(table: &Table<'_>, process: &Process, options: &Options) -> Outcome<()> {
    if table.job.rank() == 0 {
        println!("      {}", process.window.info());
    }
    // Rounds that take about as long: the CPU executor passes cores around, and between hosts each access is a packet.
    let over_hosts = table.job.spans_hosts();
    let rounds = match (over_hosts, options.cpu) {
        (true, _) => 20,
        (_, true) => 200,
        (_, false) => 20_000,
    };
    table.row("host reads and writes of all parts", host_access(table.job, process), 1)?;
    table.row(
        "kernels write, read and add to all parts, 64 KiB or 1, a round",
        kernels(process, rounds / 20),
        rounds / 20,
    )?;
    for (what, shape) in [("barrier, one block", (1, 64)), ("barrier, four blocks", (4, 64))] {
        table.row(
            what,
            timed(|| process.run("ggas_selftest_coll", shape, &process.barriers(rounds)?)),
            2 * rounds,
        )?;
    }
    let counts = if over_hosts { &[1, 256][..] } else { &[1, 256, 16_384] };
    for &count in counts {
        let what = format!("allreduce of {count} int64, 4 blocks");
        let rounds = if count > 1000 { rounds / 10 } else { rounds };
        table.row(&what, process.allreduce((4, 256), count, rounds), rounds)?;
    }
    let reset = timed(|| Ok(process.group.reset_across(table.job)?));
    table.row("reset of the group", reset, 1)?;
    table.row("allreduce after it", process.allreduce((1, 64), 1000, 3), 3)?;
    Ok(table.job.barrier(SOON)?)
}

fn timed(work: impl FnOnce() -> Outcome<()>) -> Outcome<Duration> {
    let begun = Instant::now();
    work()?;
    Ok(begun.elapsed())
}

/// Everyone writes to the part of the next, and reads all parts.
fn host_access(job: &Job, process: &Process) -> Outcome<Duration> {
    const AT: usize = 8192;
    let text = |from: usize| format!("from rank {from} to the next").into_bytes();
    let (size, begun) = (process.size, Instant::now());
    let next = (process.rank + 1) % size;
    process.window.write(next, AT, &text(process.rank))?;
    // Behind a network device the write is done when a read that follows it is; a barrier of the job says nothing of it.
    process.window.read(next, AT, &mut [0])?;
    job.barrier(SOON)?;
    for part in 0..size {
        let expected = text((part + size - 1) % size);
        let mut seen = vec![0; expected.len()];
        process.window.read(part, AT, &mut seen)?;
        if seen != expected {
            return Err(format!("part {part} holds {:?}", String::from_utf8_lossy(&seen)).into());
        }
    }
    let took = begun.elapsed();
    job.barrier(SOON)?;
    Ok(took)
}

fn kernels(process: &Process, rounds: u32) -> Outcome<Duration> {
    let args = selftest_window {
        window: process.window.member(process.rank)?.address(),
        status: process.status.address(),
        wrong: process.wrong.address(),
        // Between hosts each word is a packet.
        bytes: if process.window.info().mapped == Ok(Mapping::Trapped) { 1024 } else { TRANSFER as u64 },
        rounds,
        atomics: u32::from(process.window.info().atomics),
    };
    timed(|| process.run("ggas_selftest_window", (1, 256), &args))
}

/// The last rank kills itself while all kernels are inside barriers.
fn death(job: &Job, process: &Process) -> Outcome<()> {
    const AT: usize = ROUNDS + 16; // behind the two counters
    let victim = process.size - 1;
    let endless = process.start("ggas_selftest_coll", (4, 64), &process.barriers(u32::MAX)?)?;
    let begun = Instant::now();
    if process.rank == victim {
        // The others' kernels may end a round before theirs.
        while process.window.load_u64(process.rank, ROUNDS)? < 20 {
            if begun.elapsed() > SOON {
                return Err("the kernels do not get to their barriers".into());
            }
            std::thread::yield_now();
        }
        for rank in 0..victim {
            process.window.store_u64(rank, AT, monotonic_ns())?;
            // Behind a network device it is there when a load that follows it is answered.
            process.window.load_u64(rank, AT)?;
        }
        // SAFETY: ends this process.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    }
    let end = endless.wait(2 * SOON);
    if !job.spans_hosts() {
        end?; // else an access that nobody answers may end it
    }
    let ended = monotonic_ns();
    let took = Duration::from_nanos(ended.saturating_sub(process.window.load_u64(process.rank, AT)?));
    match process.group.check() {
        Err(GroupError::PeerLost { rank }) if rank as usize == victim => {}
        other => return Err(format!("the group says {other:?}").into()),
    }
    if took > DEATH {
        return Err(format!("the kernel ended {took:?} after the death").into());
    }
    // The dead one's memory is still there, unless it was on another host, and the processor does further work.
    if !job.spans_hosts() {
        process.window.load_u64(victim, ROUNDS)?;
    }
    let counted = (process.processor.alloc(8 * 256)?, process.processor.alloc(8)?);
    let args = selftest_threads {
        out: counted.0.address(),
        counter: counted.1.address(),
        report: 0,
        timeout_ns: 1_000_000_000,
    };
    process.start("ggas_selftest_threads", (4, 64), &args)?.wait(SOON)?;
    if counted.0.read_u64s(0, 256)?.iter().any(|seen| *seen != 256) {
        return Err("a kernel after the death counts wrongly".into());
    }
    let took = took.as_secs_f64() * 1e6;
    println!(
        "PASS  rank {}: from the death of rank {victim} to the kernel's end {took:>21.2} us",
        job.rank()
    );
    Ok(())
}

/// A clock that all processes of the host share.
fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a structure to write to.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

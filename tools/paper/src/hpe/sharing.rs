//! Section 4.1: up to 16 threads share a context, each of which looks for its copy's end every 20 us.

use extoll_sim::timed::{Ps, System};
use ggas_plot::{Axis, Line, Scale};
use serde_json::json;

use super::machine::{Lane, Machine, Way};
use super::thread::Thread;
use super::{SYSTEM, named, report};
use crate::memory::Memory;
use crate::{Claim, Figure, PaperError, Report, Settings, today};

const THREADS: [usize; 7] = [1, 2, 4, 8, 16, 24, 32];
const COPIES: u64 = 8;
/// The first takes the lanes half as long as a look's period, the second eight times as long.
const SIZES: [u64; 2] = [64 << 10, 1 << 20];

/// GB/s of all threads, and the part of the time in which the context was locked, in percent.
fn share(system: &System, bytes: u64, threads: usize, seed: u64) -> Result<[f64; 2], PaperError> {
    // A core for each thread: the claim is the lock's.
    let mut system = system.clone();
    system.host.cores = system.host.cores.max(threads as u64);
    let machine = Machine::new(&system, Way::Software, seed)?;
    let ends = Memory::new(Ps::ZERO);
    machine.run_on_one(threads, |_| {
        let thread = Thread::new(&machine, 0);
        for _ in 0..COPIES {
            let done = thread.queue(0, Lane::Down, bytes);
            thread.finish(0, &done);
        }
        let (mut ends, now) = (ends.lock(), thread.now());
        *ends = (*ends).max(now);
    });
    let time = ends.lock().as_us();
    let all = threads as u64 * COPIES * bytes;
    Ok([all as f64 / time / 1e3, 100.0 * machine.contexts[0].held().as_us() / time])
}

pub(super) fn run(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let system = settings.system(SYSTEM)?;
    let columns = &["bytes", "threads", "GB/s", "% of the time locked"];
    let axes = (Axis::new("threads", Scale::Linear), Axis::new("GB/s", Scale::Linear));
    let mut report = report(figure, settings, &system, columns, axes);
    for bytes in SIZES {
        let mut points = Vec::new();
        for threads in THREADS {
            let [rate, locked] = share(&system, bytes, threads, settings.seed)?;
            report.row([json!(bytes), json!(threads), json!(rate), json!(locked)]);
            points.push((threads as f64, rate));
        }
        let most = points.iter().map(|point| point.1).fold(0.0, f64::max);
        let of_16 = points.iter().find(|point| point.0 == 16.0).map(|point| 100.0 * point.1 / most);
        let text = format!("16 threads share a context efficiently, {}: of the best rate", named(bytes));
        let why = || {
            "each copy locks the context for its call and for each look, and a lock is handed over by a look of 1 us".to_owned()
        };
        report.claims.push(
            Claim::at_least(&text, "4.1", 90.0, "%").judge(of_16).because(why).today(today::hpe_threads()),
        );
        report.picture.lines.push(Line::new(&format!("copies of {}", named(bytes)), points));
    }
    report.notes.push(
        "a look at a copy's end is assumed to take 1 us of the lock (host.poll_ns), and a lock to be handed over in as long; a core for each thread; no \
         parameter was taken in view of the claim but the period itself"
            .to_owned(),
    );
    Ok(report)
}

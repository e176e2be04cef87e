//! The same job again and again; in every other repetition a random process is killed at a random moment, and in
//! every fourth one is stopped for a random while.

use std::time::{Duration, Instant};

use ggas::members::launch::{Exit, Outcome, Running};
use indicatif::ProgressBar;

use crate::{HASTY, Left, PATIENT, said, suite};

const PROCESSES: u32 = 4;
const ROUNDS: u64 = 2;
/// Repetitions of an ordinary test run.
const FEW: u64 = 16;
/// How long a job may take from the death, or stop, of one of its processes to the end of the last other one.
const BOUND: Duration = Duration::from_secs(40);
/// Bound of a job that nobody disturbs for long, on a machine that compiles beside.
const WHOLE: Duration = Duration::from_secs(60);
/// Longest stop that nobody gives up for.
const NAP: Duration = Duration::from_millis(300);
/// How long processes wait for one that is stopped; also for its joining.
const SHORT: Duration = Duration::from_millis(400);

/// Statuses of the suite.
const LOST: i32 = 3;
const LATE: i32 = 4;

pub fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[derive(Default)]
struct Tally {
    whole: u64,
    died: u64,
    napped: u64,
    stopped: u64,
    before_the_death: u64,
    lost: u64,
    late: u64,
    longest: Duration,
}

pub fn run() {
    let repetitions = setting("GGAS_CHAOS").unwrap_or(FEW);
    let seed = setting("GGAS_CHAOS_SEED").unwrap_or_else(|| fastrand::u64(..));
    let mut random = fastrand::Rng::with_seed(seed);
    let before = Left::now();
    let mut tally = Tally::default();
    let bar = ProgressBar::new(repetitions);
    // How long a job takes here now: deaths are spread over all of it.
    let mut usual = Duration::from_millis(100);
    for repetition in 0..repetitions {
        let name = format!("repetition {repetition} of GGAS_CHAOS_SEED={seed}");
        let (seed, victim) = (random.u64(..), random.u32(0..PROCESSES));
        let moment = usual.mul_f64(random.f64());
        match repetition % 8 {
            0 | 4 => usual = (3 * usual + whole(&name, seed, &mut tally)) / 4,
            2 => napped(&name, seed, victim, moment, NAP.mul_f64(random.f64()), &mut tally),
            6 => stopped(&name, seed, victim, moment, &mut tally),
            _ => killed(&name, seed, victim, moment, &mut tally),
        }
        bar.inc(1);
    }
    bar.finish();
    before.assert_nothing_more(&format!("{repetitions} jobs, half of them with a death"));
    let Tally { whole, died, napped, stopped, before_the_death, lost, late, longest } = tally;
    eprintln!(
        "{repetitions} jobs of {PROCESSES} processes (GGAS_CHAOS_SEED={seed}): {whole} whole, {napped} went on after a \
         stop, {stopped} gave up for one, {died} with a death; of the others there {before_the_death} were done, \
         {lost} lost a peer, {late} ran into a time-out; longest {longest:.2?}"
    );
}

/// A job that nobody disturbs.
fn whole(name: &str, seed: u64, tally: &mut Tally) -> Duration {
    let started = Instant::now();
    let outcome = suite(seed, ROUNDS, PATIENT).spawn().expect("a job").wait();
    let took = started.elapsed();
    assert!(outcome.is_success() && took < WHOLE, "{name}, {took:?}:\n{}", said(&outcome));
    tally.whole += 1;
    tally.longest = tally.longest.max(took);
    took
}

/// A job with a process that is stopped for a while, and nobody gives up: it ends well, every byte right.
fn napped(name: &str, seed: u64, victim: u32, moment: Duration, nap: Duration, tally: &mut Tally) {
    let started = Instant::now();
    let job = suite(seed, ROUNDS, PATIENT).spawn().expect("a job");
    std::thread::sleep(moment);
    // It may have ended by itself.
    let _ = job.kill(victim, libc::SIGSTOP);
    std::thread::sleep(nap);
    let _ = job.kill(victim, libc::SIGCONT);
    let outcome = job.wait();
    let took = started.elapsed();
    assert!(
        outcome.is_success() && took < WHOLE,
        "{name}, rank {victim} stopped after {moment:?} for {nap:?}, {took:?}:\n{}",
        said(&outcome)
    );
    tally.napped += 1;
    tally.longest = tally.longest.max(took);
}

/// A job with a process that is stopped until all others have ended, which they do by their own bounds.
fn stopped(name: &str, seed: u64, victim: u32, moment: Duration, tally: &mut Tally) {
    let job = suite(seed, ROUNDS, SHORT).join_timeout(SHORT).spawn().expect("a job");
    std::thread::sleep(moment);
    let _ = job.kill(victim, libc::SIGSTOP);
    let began = Instant::now();
    let others = others_end(&job, victim, began + BOUND);
    let took = began.elapsed();
    let _ = job.kill(victim, libc::SIGCONT);
    let outcome = job.wait();
    let name = format!("{name}, rank {victim} stopped after {moment:?}, the others over after {took:?}");
    assert!(others, "{name}: too long\n{}", said(&outcome));
    count(&name, &outcome, None, tally);
    tally.stopped += 1;
    tally.longest = tally.longest.max(moment + took);
}

/// Whether all but `victim` end by a deadline.
fn others_end(job: &Running, victim: u32, deadline: Instant) -> bool {
    while (0..PROCESSES).any(|rank| rank != victim && job.exit(rank).is_none()) {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    true
}

/// A job that loses `victim` after `moment`: the others end by themselves, and say why.
fn killed(name: &str, seed: u64, victim: u32, moment: Duration, tally: &mut Tally) {
    let started = Instant::now();
    let job = suite(seed, ROUNDS, HASTY).spawn().expect("a job");
    std::thread::sleep(moment);
    // It may have ended by itself.
    let _ = job.kill(victim, libc::SIGKILL);
    let outcome = job.wait();
    let took = started.elapsed();
    let name = format!("{name}, rank {victim} killed after {moment:?}, all over after {took:?}");
    count(&name, &outcome, Some(victim), tally);
    assert!(took < moment + BOUND, "{name}: too long\n{}", said(&outcome));
    tally.longest = tally.longest.max(took);
}

/// Everyone was done, or says why not.
fn count(name: &str, outcome: &Outcome, killed: Option<u32>, tally: &mut Tally) {
    for (rank, exit) in outcome.exits().iter().enumerate() {
        let is_victim = Some(rank as u32) == killed;
        match exit {
            Exit::Signal(libc::SIGKILL) if is_victim => tally.died += 1,
            Exit::Code(0) => tally.before_the_death += u64::from(!is_victim),
            Exit::Code(LOST) => tally.lost += 1,
            Exit::Code(LATE) => tally.late += 1,
            _ => panic!("{name}: rank {rank} {exit}\n{}", said(outcome)),
        }
    }
}

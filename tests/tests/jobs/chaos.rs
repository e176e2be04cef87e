//! The same job again and again; in every other repetition a random process is killed at a random moment.

use std::time::{Duration, Instant};

use ggas::boot::launch::Exit;
use indicatif::ProgressBar;

use crate::{Left, said, suite};

const PROCESSES: u32 = 4;
const ROUNDS: u64 = 2;
/// Repetitions of an ordinary test run.
const FEW: u64 = 12;
/// How long a job may take from the death of one of its processes to the end of the last one.
const BOUND: Duration = Duration::from_secs(5);

/// Statuses of the suite.
const LOST: i32 = 3;
const LATE: i32 = 4;

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[derive(Default)]
struct Tally {
    whole: u64,
    died: u64,
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
    let mut usual = Duration::from_millis(300);
    for repetition in 0..repetitions {
        let name = format!("repetition {repetition} of GGAS_CHAOS_SEED={seed}");
        if repetition % 2 == 0 {
            let took = whole(&name, random.u64(..), &mut tally);
            usual = (3 * usual + took) / 4;
        } else {
            let victim = random.u32(0..PROCESSES);
            let moment = usual.mul_f64(random.f64());
            killed(&name, random.u64(..), victim, moment, &mut tally);
        }
        bar.inc(1);
    }
    bar.finish();
    before.assert_nothing_more(&format!("{repetitions} jobs, half of them with a death"));
    let Tally { whole, died, before_the_death, lost, late, longest } = tally;
    eprintln!(
        "{repetitions} jobs of {PROCESSES} processes (GGAS_CHAOS_SEED={seed}): {whole} whole, {died} with a death; of the \
         survivors {before_the_death} were done, {lost} lost a peer, {late} ran into a time-out; longest {longest:.2?}"
    );
}

/// A job that nobody disturbs.
fn whole(name: &str, seed: u64, tally: &mut Tally) -> Duration {
    let started = Instant::now();
    let outcome = suite(PROCESSES, 2, seed, ROUNDS).spawn().expect("a job").wait();
    let took = started.elapsed();
    assert!(outcome.is_success() && took < BOUND, "{name}, {took:?}:\n{}", said(&outcome));
    tally.whole += 1;
    tally.longest = tally.longest.max(took);
    took
}

/// A job that loses `victim` after `moment`: the others end by themselves, and say why.
fn killed(name: &str, seed: u64, victim: u32, moment: Duration, tally: &mut Tally) {
    let started = Instant::now();
    let job = suite(PROCESSES, 2, seed, ROUNDS).spawn().expect("a job");
    std::thread::sleep(moment);
    // It may have ended by itself.
    let _ = job.kill(victim, libc::SIGKILL);
    let outcome = job.wait();
    let took = started.elapsed();
    let name = format!("{name}, rank {victim} killed after {moment:?}, all over after {took:?}");
    for (rank, exit) in outcome.exits().iter().enumerate() {
        let is_victim = rank as u32 == victim;
        match exit {
            Exit::Signal(libc::SIGKILL) if is_victim => tally.died += 1,
            Exit::Code(0) => tally.before_the_death += u64::from(!is_victim),
            Exit::Code(LOST) => tally.lost += 1,
            Exit::Code(LATE) => tally.late += 1,
            _ => panic!("{name}: rank {rank} {exit}\n{}", said(&outcome)),
        }
    }
    assert!(took < moment + BOUND, "{name}: too long\n{}", said(&outcome));
    tally.longest = tally.longest.max(took);
}

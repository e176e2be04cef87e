//! One process of the multi-process suite: what the parts of the library do between processes, in rounds, every wait
//! bounded. `tests/jobs` starts it as a job, and kills or stops some of its processes, or makes one a vandal.
//!
//! Exit codes: 0 all rounds done; 1 wrong data or a call that failed for no good reason; 3 a peer was lost; 4 a peer
//! did not answer in time.

mod atoms;
mod locks;
mod shared;
mod transfer;
mod trouble;
mod vandal;

use std::process::ExitCode;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use ggas::Job;

use crate::trouble::Trouble;

static PATIENCE: OnceLock<Duration> = OnceLock::new();

/// Bound of every wait for a peer.
pub fn patience() -> Duration {
    *PATIENCE.get_or_init(|| Duration::from_millis(1500))
}

fn main() -> ExitCode {
    let numbers: Option<Vec<u64>> = std::env::args().skip(1).map(|text| text.parse().ok()).collect();
    let Some([seed, rounds, more @ ..]) = numbers.as_deref() else {
        eprintln!(
            "usage: job-suite SEED ROUNDS [MILLISECONDS [VANDAL]], as a job of ggas run or of the tests"
        );
        return ExitCode::from(2);
    };
    let (seed, rounds) = (*seed, *rounds);
    if let Some(milliseconds) = more.first() {
        let _ = PATIENCE.set(Duration::from_millis(*milliseconds));
    }
    let vandal = more.get(1).copied();
    let started = Instant::now();
    let mut step = "joining".to_owned();
    match run(seed, rounds, vandal, &mut step) {
        Ok(rank) => {
            println!("rank {rank}: done after {:?}", started.elapsed());
            ExitCode::SUCCESS
        }
        Err(trouble) => {
            println!("{step}, after {:?}: {trouble}", started.elapsed());
            trouble.exit_code()
        }
    }
}

fn run(seed: u64, rounds: u64, vandal: Option<u64>, step: &mut String) -> Result<u32, Trouble> {
    // Memory that a stopped peer still reads is waited for as long as the peer itself.
    let job = Job::builder().release_timeout(patience()).join()?;
    let rank = job.rank();
    let mut say = |what: &str, round: u64| *step = format!("rank {rank}: {what} of round {round}");
    say("window and group, before the first", 0);
    let mut shared = shared::Shared::new(&job)?;
    if vandal == Some(rank.into()) {
        vandal::begin(seed)?;
    }
    for round in 0..rounds {
        let seed = seed.wrapping_mul(0x9e37_79b9).wrapping_add(round);
        say("transfers", round);
        transfer::run(&job, seed)?;
        say("immediate puts and notifications", round);
        atoms::run(&job, seed)?;
        say("locks", round);
        locks::run(&job)?;
        say("window and group", round);
        shared.run(round)?;
    }
    say("last barrier", rounds);
    job.barrier(patience())?;
    Ok(rank)
}

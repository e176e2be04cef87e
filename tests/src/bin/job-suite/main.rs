//! One process of the multi-process suite: what the parts of the library do between processes, in rounds, every wait
//! bounded. `tests/processes` starts it as a job, and kills some of its processes.
//!
//! Exit codes: 0 all rounds done; 1 wrong data or a call that failed for no good reason; 3 a peer was lost; 4 a peer
//! did not answer in time.

mod atoms;
mod locks;
mod shared;
mod transfer;
mod trouble;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use ggas::Job;

use crate::trouble::Trouble;

/// Bound of every wait for a peer.
pub const PATIENCE: Duration = Duration::from_millis(1500);

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u64>().ok());
    let (Some(Some(seed)), Some(Some(rounds))) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: job-suite SEED ROUNDS, started as a job by ggas run or by the tests");
        return ExitCode::from(2);
    };
    let started = Instant::now();
    let mut step = "joining".to_owned();
    match run(seed, rounds, &mut step) {
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

fn run(seed: u64, rounds: u64, step: &mut String) -> Result<u32, Trouble> {
    let job = Job::join()?;
    let rank = job.rank();
    let mut say = |what: &str, round: u64| *step = format!("rank {rank}: {what} of round {round}");
    say("window and group, before the first", 0);
    let mut shared = shared::Shared::new(&job)?;
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
    job.barrier(PATIENCE)?;
    Ok(rank)
}

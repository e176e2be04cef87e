//! Jobs of real processes: all parts of the library between them, and what their deaths leave of the others.
//!
//! `GGAS_CHAOS=1000` repeats the job of four that many times, and kills a random process of every other one at a
//! random moment, and stops one of every fourth; by default few times. `GGAS_CHAOS_SEED` repeats a failure.

mod chaos;
mod left;
mod vandals;

use std::time::{Duration, Instant};

use ggas::members::launch::{Exit, Launch, Outcome, Output, Stream};

use left::Left;

/// How long a job may take, deaths and time-outs included.
const LIMIT: Duration = Duration::from_secs(120);

/// Bound of a wait where all peers answer: a machine that compiles beside may be slow.
const PATIENT: Duration = Duration::from_secs(50);
/// Bound of a wait where peers may be gone.
const HASTY: Duration = Duration::from_millis(1500);

/// The suite as a job of four processes on two nodes, not started yet.
fn suite(seed: u64, rounds: u64, patience: Duration) -> Launch {
    shaped((4, 2), seed, rounds, patience)
}

fn shaped((processes, per_node): (u32, u32), seed: u64, rounds: u64, patience: Duration) -> Launch {
    Launch::new(env!("CARGO_BIN_EXE_job-suite"))
        .args([seed.to_string(), rounds.to_string(), patience.as_millis().to_string()])
        .processes(processes)
        .per_node(per_node)
        .output(Output::Capture)
        .timeout(LIMIT)
        .keep_going()
        .env("GGAS_DEVICE", "sim")
        .env_remove("EXTOLL_DEVICE")
}

/// What every process said, for messages of failed tests.
fn said(outcome: &Outcome) -> String {
    let text =
        |rank: usize, stream| String::from_utf8_lossy(outcome.output(rank as u32, stream)).into_owned();
    let line = |(rank, exit): (usize, &Exit)| {
        format!("rank {rank} {exit}: {}{}", text(rank, Stream::Out), text(rank, Stream::Err))
    };
    outcome.exits().iter().enumerate().map(line).collect::<Vec<_>>().join("\n")
}

fn run(processes: u32, per_node: u32, rounds: u64) -> Duration {
    let started = Instant::now();
    let outcome = shaped((processes, per_node), 1, rounds, PATIENT).spawn().expect("a job").wait();
    assert!(outcome.is_success(), "{processes} processes, {per_node} a node:\n{}", said(&outcome));
    started.elapsed()
}

/// The tests here look at what is left of processes and descriptors, so they take turns. Under nextest each is a process
/// of its own: there a test group sees to it.
static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());

#[test]
fn every_part_works_between_processes() {
    let _turn = TURN.lock();
    let before = Left::now();
    for (processes, per_node) in [(1, 1), (2, 1), (2, 2), (4, 2), (5, 3)] {
        let took = run(processes, per_node, 2);
        eprintln!("{processes} processes, {per_node} a node: {took:?}");
    }
    before.assert_nothing_more("jobs that ended well");
}

#[test]
fn a_job_outlives_the_death_of_its_processes() {
    let _turn = TURN.lock();
    chaos::run();
}

#[test]
fn a_process_that_writes_anywhere_harms_itself_alone() {
    let _turn = TURN.lock();
    vandals::run();
}

//! Jobs in which one process writes anything anywhere into the memory that it shares with the others. These may get
//! wrong data, lose it, or give up; they neither crash nor hang.

use std::time::Duration;

use ggas::members::launch::Exit;

use crate::chaos::setting;
use crate::{Left, said, suite};

const ROUNDS: u64 = 3;
/// Jobs of an ordinary test run.
const FEW: u64 = 4;
const PATIENCE: Duration = Duration::from_millis(250);

pub fn run() {
    let seed = setting("GGAS_CHAOS_SEED").unwrap_or_else(|| fastrand::u64(..));
    let mut random = fastrand::Rng::with_seed(seed);
    let before = Left::now();
    for repetition in 0..setting("GGAS_CHAOS").map_or(FEW, |all| all / 8) {
        let vandal = random.usize(0..4);
        let job = suite(random.u64(..), ROUNDS, PATIENCE).arg(vandal.to_string());
        let outcome = job.spawn().expect("a job").wait();
        for (rank, exit) in outcome.exits().iter().enumerate().filter(|(rank, _)| *rank != vandal) {
            assert!(
                matches!(exit, Exit::Code(0 | 1 | 3 | 4)),
                "GGAS_CHAOS_SEED={seed}, job {repetition} with vandal {vandal}: rank {rank} {exit}\n{}",
                said(&outcome)
            );
        }
    }
    before.assert_nothing_more("jobs with vandals");
}

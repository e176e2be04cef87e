//! Random programs ([`random`](crate::random)): the same ones by our own messages and by MPI libraries.

use std::process::ExitStatus;

use ggas_gmpi::{Gmpi, Joined};

use crate::random::{self, AREA};
use crate::start::{Here, by_mpi, job, part};
use crate::world::config;

/// This process's rank of each.
fn programs() {
    let Joined { gmpi, processor, job } = Gmpi::join(&config()).expect("all came");
    let here = Here::with(gmpi, processor);
    let (rank, size) = (here.gmpi.rank() as usize, here.gmpi.size() as usize);
    let comms = random::communicators(&here.gmpi, 0);
    for seed in random::seeds(30) {
        let plans = random::programs(seed, &vec![here.at(0); size], &vec![comms.clone(); size]);
        let plan = &plans[rank];
        here.memory.write(0, &plan.before).expect("in range");
        let results = here.run(plan.script.clone());
        let mut memory = vec![0; AREA];
        here.memory.read(0, &mut memory).expect("in range");
        // MPICH over UCX drops a message that is too long.
        let first_bytes = !here.gmpi.carrier().contains("MPICH");
        let status = |number| results.status_of(0, number);
        let wrong = random::difference(plan, first_bytes, &results.errors(0), status, &memory);
        assert_eq!(wrong, None, "seed {seed}, rank {rank} of {size}, {}", here.gmpi.carrier());
    }
    here.gmpi.close().expect("all came");
    drop(job);
}

#[test]
fn random_programs_of_a_job() {
    if part().is_some() {
        return programs();
    }
    let ends = job("programs::random_programs_of_a_job", 3);
    assert!(ends.iter().all(ExitStatus::success), "{ends:?}");
}

#[test]
fn random_programs_by_mpi_libraries() {
    if part().is_some() {
        return programs();
    }
    by_mpi("programs::random_programs_by_mpi_libraries", "plain");
}

//! The program as the ranks of a job: alone, beside each other, and with neighbours in both directions.

use std::process::{Child, Command};

fn run(ranks: u32) {
    let start = |rank: u32| -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gmpi-halo"));
        command.env("GGAS_RANK", rank.to_string()).env("GGAS_SIZE", ranks.to_string());
        command
            .env("GGAS_JOB", format!("gmpi-halo-{ranks}-{}", std::process::id()))
            .env("GGAS_DEVICE", "sim");
        command.spawn().expect("started")
    };
    let children: Vec<Child> = (0..ranks).map(start).collect();
    for (rank, child) in children.into_iter().enumerate() {
        let status = child.wait_with_output().expect("ended").status;
        assert!(status.success(), "rank {rank} of {ranks}: {status}");
    }
}

#[test]
fn one_rank_has_no_neighbours() {
    run(1);
}

#[test]
fn two_ranks_exchange_columns() {
    run(2);
}

#[test]
fn four_ranks_exchange_rows_and_columns() {
    run(4);
}

//! What ranks do together: barriers, exchanges, descriptors.

use std::time::Duration;

use crate::common::{all, member, out, run, succeeds};

#[test]
fn ranks_know_their_places() {
    let outcome = run(member(5, "join who").per_node(2));
    succeeds(&outcome);
    for (rank, node) in [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2)] {
        assert_eq!(out(&outcome, rank), format!("rank {rank} of 5 on node {node} of 3\n"));
    }
}

#[test]
fn barriers_and_exchanges_in_a_row() {
    succeeds(&run(member(
        4,
        "join barrier=60000 exchange=100 exchange=0 exchange=65536 barriers=300 exchange=9 barrier=60000 exchange=5000 again",
    )));
}

#[test]
fn a_job_of_one() {
    succeeds(&run(member(1, "join who barrier=0 exchange=5000 exchange=5000 fds")));
}

/// Neither memory nor threads of a job outlive it in a process.
#[test]
fn nothing_stays_of_a_job_that_was_left() {
    let outcome = run(member(3, "join mapped barrier=60000 leave mapped threads"));
    succeeds(&outcome);
    let said = out(&outcome, 1);
    assert!(!said.starts_with("0 mapped"), "{said}");
    assert!(said.ends_with("\n0 mapped\n1 threads\n"), "{said}");
}

#[test]
fn descriptors_reach_everyone() {
    let outcome = run(member(4, "join fds barrier=60000"));
    succeeds(&outcome);
    assert!(out(&outcome, 2).contains("pipes are right"));
}

#[test]
fn letters_of_who_has_left_are_there() {
    for _ in 0..8 {
        succeeds(&run(member(4, "join 1:letters=30 2:letters=30 3:letters=30 0:collect=30")));
    }
}

/// Nobody leaves a barrier before the last has come.
#[test]
fn a_barrier_waits_for_the_last() {
    let outcome = run(member(3, "join 1:sleep=400 1:print=late barrier=60000 try-barrier=60000"));
    succeeds(&outcome);
    // The one that is busy is named, and the others are not: they look at each other in time unless the machine stalls.
    let tries = [("100", "100ms"), ("2000", "2s"), ("20000", "20s")];
    let named = tries.into_iter().map(|(time, said)| {
        let waits = format!("0:try-barrier={time} 2:try-barrier={time} 0:tell=1 2:tell=1 1:hear=0 1:hear=2");
        let early = run(member(3, &format!("join {waits} barrier=60000")));
        succeeds(&early);
        let part = format!("rank 1 did not come in {said}");
        [0, 2].into_iter().all(|rank| out(&early, rank).contains(&part)).then_some(()).ok_or(all(&early))
    });
    let late: Vec<String> = named.map_while(Result::err).collect();
    assert!(late.len() < tries.len(), "{late:?}");
}

#[test]
fn exchanges_that_cannot_be() {
    let long = run(member(2, "join try-exchange=65537 barrier=60000"));
    succeeds(&long);
    assert!(out(&long, 0).contains("65537 bytes are too many"), "{}", all(&long));
    // One calls barrier where the other exchanges: said by the one that can see it, and nobody hangs.
    let mixed = run(member(2, "join 0:try-exchange=8 1:barrier=60000 barrier=100").grace(Duration::ZERO));
    assert!(out(&mixed, 0).contains("rank 1 is in another call"), "{}", all(&mixed));
}

/// Waiting for deaths and letters costs nothing.
#[test]
fn watching_uses_no_cpu() {
    let used = |_| {
        let outcome = run(member(2, "join cpu=500"));
        succeeds(&outcome);
        out(&outcome, 0).trim().trim_end_matches(" us").parse::<u64>().expect("a number")
    };
    // What takes the processor away may count as use, but not each time.
    let used: Vec<u64> = (0..10).map(used).take_while(|used| *used >= 5_000).collect();
    assert!(used.len() < 10, "{used:?} us of 500,000");
}

#[test]
fn sixty_four_processes() {
    let outcome = run(member(64, "join exchange=64 barrier=60000").per_node(16));
    succeeds(&outcome);
}

//! Direct receives whose outcome is asked for late, or never.

use ggas_gmpi::Direct;
use ggas_gmpi::layout::*;

use crate::direct::direct;
use crate::world::*;

/// What a receive came to is known to its wait, however many others were made meanwhile.
#[test]
fn late_waits_know_what_became_of_early_receives() {
    const EARLY: u64 = 5;
    let world = World::new(2, &config());
    let comm = direct(&world, 1, Direct::default());
    let (at, to) = (world.ranks[0].at(0), world.ranks[1].at(0));
    let (mut sender, mut receiver) = (Script::default(), Script::default());
    for early in 0..EARLY {
        sender = sender.call(GMPI_CALL_SEND, &[at, 1 + early % 2, LONG, 1, early, comm]);
        receiver = receiver.call(GMPI_CALL_IRECV, &[to, 1, LONG, 0, early, comm]).request(early as u32);
    }
    for _ in 0..100 {
        sender = sender.call(GMPI_CALL_SEND, &[at, 1, LONG, 1, 40, comm]);
        receiver = receiver.call(GMPI_CALL_RECV, &[to + 64, 1, LONG, 0, 40, comm]);
    }
    for early in 0..EARLY {
        receiver = receiver.call(GMPI_CALL_WAIT, &[]).request(early as u32).status(early as u32);
    }
    let results = world.run(vec![sender, receiver]);
    for early in 0..EARLY as i32 {
        let error = if early % 2 == 0 { GMPI_SUCCESS } else { GMPI_ERR_TRUNCATE };
        assert_eq!(results[1].status(early as usize), (0, early, error, 8), "{early}");
    }
}

/// Receives that nobody waits for keep no places.
#[test]
fn freed_requests_keep_no_places() {
    let world = World::new(2, &config());
    let comm = direct(&world, 1, Direct::default());
    let (at, to) = (world.ranks[0].at(0), world.ranks[1].at(0));
    let (mut sender, mut receiver) = (Script::default(), Script::default());
    for round in 0..100 {
        sender = sender.call(GMPI_CALL_ISEND, &[at, 1, LONG, 1, round, comm]).request(0);
        sender = sender.call(GMPI_CALL_REQUEST_FREE, &[]).request(0);
        sender = sender.call(GMPI_CALL_SEND, &[at, 1, LONG, 1, 1000 + round, comm]);
        receiver = receiver.call(GMPI_CALL_IRECV, &[to, 1, LONG, 0, round, comm]).request(0);
        receiver = receiver.call(GMPI_CALL_REQUEST_FREE, &[]).request(0);
        // It comes behind the other one.
        receiver = receiver.call(GMPI_CALL_RECV, &[to + 64, 1, LONG, 0, 1000 + round, comm]);
    }
    for results in world.run(vec![sender, receiver]) {
        assert!(results.errors(0).iter().all(|error| *error == 0), "{:?}", results.errors(0));
    }
}

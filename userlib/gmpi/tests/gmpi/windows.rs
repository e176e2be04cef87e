//! One-sided calls.

use ggas_gmpi::Comm;
use ggas_gmpi::layout::*;
use ggas_selftest::args::*;

use crate::world::*;

#[test]
fn puts_and_gets_are_there_after_a_fence_or_flush() {
    for size in [1, 3] {
        let world = World::new(size, &config());
        let wins: Vec<u64> = world
            .all(|gmpi, rank| gmpi.window(Comm::WORLD, &world.ranks[rank].memory).expect("all came").0)
            .into_iter()
            .collect();
        let count = 3000u64;
        let script = |rank: usize| {
            let (at, win, next) = (world.ranks[rank].at(0), wins[rank], ((rank + 1) % size) as u64);
            Script::default()
                .call(SELFTEST_GMPI_FILL, &[at, count, 10_000 * rank as u64])
                .call(GMPI_CALL_WIN_FENCE, &[0, win])
                .call(GMPI_CALL_PUT, &[at, count, LONG, next, BYTES as u64 / 2, count, LONG, win])
                .call(GMPI_CALL_WIN_FENCE, &[0, win])
                .call(GMPI_CALL_GET, &[at, count, LONG, next, BYTES as u64 / 2, count, LONG, win])
                .call(GMPI_CALL_WIN_FLUSH, &[next, win])
                .call(GMPI_CALL_WIN_FENCE, &[0, win])
        };
        world.succeed((0..size).map(script).collect());
        for rank in 0..size {
            let read = |offset| world.ranks[rank].memory.read_u64s(offset, count as usize).expect("in range");
            let before = 10_000 * ((rank + size - 1) % size) as u64;
            assert!(read(BYTES / 2).iter().zip(before..).all(|(got, expected)| *got == expected), "puts");
            // What this rank had put into the next one's window.
            assert!(
                read(0).iter().zip(10_000 * rank as u64..).all(|(got, expected)| *got == expected),
                "gets"
            );
        }
    }
}

#[test]
fn what_leaves_a_window_is_refused() {
    let world = World::new(2, &config());
    let wins = world.all(|gmpi, rank| gmpi.window(Comm::WORLD, &world.ranks[rank].memory).expect("all came"));
    let (at, win) = (world.ranks[0].at(0), wins[0].0);
    let put = |rank: u64, displacement: u64, there: u64, win: u64| {
        [at, 2, LONG, rank, displacement, there, LONG, win]
    };
    let first = Script::default()
        .call(GMPI_CALL_PUT, &put(1, BYTES as u64 - 15, 2, win))
        .call(SELFTEST_GMPI_SYNCHRONIZE, &[])
        .call(GMPI_CALL_GET, &put(1, u64::MAX, 2, win))
        .call(SELFTEST_GMPI_SYNCHRONIZE, &[])
        .call(GMPI_CALL_PUT, &put(2, 0, 2, win))
        .call(SELFTEST_GMPI_SYNCHRONIZE, &[])
        .call(GMPI_CALL_PUT, &put(1, 0, 3, win))
        .call(SELFTEST_GMPI_SYNCHRONIZE, &[])
        .call(GMPI_CALL_PUT, &put(1, 0, 2, win + 5))
        .call(SELFTEST_GMPI_SYNCHRONIZE, &[])
        .call(SELFTEST_GMPI_SYNCHRONIZE, &[])
        .call(GMPI_CALL_WIN_FLUSH, &[9, win]);
    let errors = world.run(vec![first, Script::default()])[0].errors(0);
    let expected = [GMPI_ERR_DISP, GMPI_ERR_DISP, GMPI_ERR_RANK, GMPI_ERR_COUNT, GMPI_ERR_WIN];
    assert_eq!([1, 3, 5, 7, 9].map(|call| errors[call]), expected);
    assert_eq!((errors[10], errors[11]), (0, GMPI_ERR_RANK), "an error is told once");
    world.all(|gmpi, rank| gmpi.free_window(wins[rank]).expect("it was there"));
    let freed = world.run(vec![Script::default().call(GMPI_CALL_WIN_FLUSH, &[1, win]), Script::default()]);
    assert_eq!(freed[0].errors(0), [GMPI_ERR_WIN]);
}

#[test]
fn a_flush_or_fence_tells_of_puts_and_gets_that_failed() {
    let world = World::new(2, &config());
    let wins = world.all(|gmpi, rank| gmpi.window(Comm::WORLD, &world.ranks[rank].memory).expect("all came"));
    let (at, win) = (world.ranks[0].at(0), wins[0].0);
    let beyond = [at, 2, LONG, 1, BYTES as u64 - 15, 2, LONG, win];
    let first = Script::default()
        .call(GMPI_CALL_PUT, &beyond)
        .call(GMPI_CALL_PUT, &[at, 2, LONG, 2, 0, 2, LONG, win])
        .call(GMPI_CALL_WIN_FLUSH, &[1, win])
        .call(GMPI_CALL_WIN_FLUSH, &[1, win])
        .call(GMPI_CALL_GET, &beyond)
        .call(GMPI_CALL_WIN_FENCE, &[0, win])
        .call(GMPI_CALL_WIN_FENCE, &[0, win]);
    // The other member's fences go on.
    let second = Script::default()
        .call(GMPI_CALL_WIN_FENCE, &[0, wins[1].0])
        .call(GMPI_CALL_WIN_FENCE, &[0, wins[1].0]);
    let results = world.run(vec![first, second]);
    let errors = results[0].errors(0);
    assert_eq!([errors[2], errors[3], errors[5], errors[6]], [GMPI_ERR_DISP, 0, GMPI_ERR_DISP, 0]);
    assert_eq!(results[1].errors(0), [0, 0]);
}

/// What MPI calls the window's group and context: they are its own.
#[test]
fn a_window_outlives_its_communicator_and_keeps_apart_from_it() {
    let world = World::new(2, &config());
    let comms = world.all(|gmpi, _| gmpi.dup(Comm::WORLD).expect("all came"));
    let wins =
        world.all(|gmpi, rank| gmpi.window(comms[rank], &world.ranks[rank].memory).expect("all came").0);
    let script = |rank: usize| {
        let (at, fence) = (world.ranks[rank].at(0), [0, wins[rank]]);
        let sum = [at, at + 8, 1, LONG, GMPI_SUM.into(), comms[rank].0];
        let script = Script::default().call(SELFTEST_GMPI_FILL, &[at, 1, 5 + rank as u64]);
        // The sum is begun first at one of them, the fence at the other.
        let script = match rank {
            0 => script.call(GMPI_CALL_IALLREDUCE, &sum).request(0).call(GMPI_CALL_WIN_FENCE, &fence),
            _ => script.call(GMPI_CALL_WIN_FENCE, &fence).call(GMPI_CALL_IALLREDUCE, &sum).request(0),
        };
        script.call(GMPI_CALL_WAIT, &[]).request(0)
    };
    world.succeed((0..2).map(script).collect());
    for rank in &world.ranks {
        assert_eq!(rank.memory.load_u64(8).expect("in range"), 11);
    }
    world.all(|gmpi, rank| gmpi.free(comms[rank]).expect("it was there"));
    let (at, win) = (world.ranks[0].at(0), wins[0]);
    let put = Script::default()
        .call(SELFTEST_GMPI_FILL, &[at, 2, 40])
        .call(GMPI_CALL_PUT, &[at, 2, LONG, 1, 64, 2, LONG, win])
        .call(GMPI_CALL_WIN_FENCE, &[0, win]);
    world.succeed(vec![put, Script::default().call(GMPI_CALL_WIN_FENCE, &[0, wins[1]])]);
    assert_eq!(world.ranks[1].memory.read_u64s(64, 2).expect("in range"), [40, 41]);
}

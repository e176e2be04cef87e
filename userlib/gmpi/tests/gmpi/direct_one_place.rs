//! Requests of which one is started where the handle of another one lies, as in Fig. 6 of the paper: direct ones, and the daemon's with them.

use ggas_gmpi::layout::*;
use ggas_selftest::args::*;

use crate::direct::{SMALL, direct};
use crate::world::*;

#[test]
fn two_requests_in_one_place_complete_both() {
    // The paper's Fig. 6, with a send that needs the receiver to go on.
    let world = World::new(2, &config());
    let comm = direct(&world, 1, SMALL);
    let (count, half) = (20_000u64, BYTES / 2);
    let call = |rank: usize, at: usize| [world.ranks[rank].at(at), count, LONG, 1 - rank as u64, 4, comm];
    let both = |rank: usize| {
        Script::default()
            .call(SELFTEST_GMPI_FILL, &[world.ranks[rank].at(0), count, 100 * rank as u64])
            .call(GMPI_CALL_IRECV, &call(rank, half))
            .call(GMPI_CALL_ISEND, &call(rank, 0))
            .call(GMPI_CALL_WAIT, &[])
    };
    // Both are started where the last call's request lies.
    world.succeed(vec![both(0), both(1)]);
    for (rank, of) in world.ranks.iter().zip([1, 0]) {
        let came = rank.memory.read_u64s(half, count as usize).expect("in range");
        assert!(came.into_iter().eq(100 * of..100 * of + count), "the receive was waited for, too");
    }
}

/// Rank 0 begins a receive and a send in one place, looks at them, and says "go", behind which rank 1 sends what the receive still waits
/// for. `kinds`: the communicators of the two; `third`: another send behind them, of the first kind.
fn kinds_in_one_place(world: &World, kinds: [u64; 2], third: bool, scope: u32) {
    let here = |i: usize| world.ranks[0].at(8 * i);
    let message = |rank: usize, i: usize, tag: u64, comm: u64| {
        [world.ranks[rank].at(8 * i), 1, LONG, 1 - rank as u64, tag, comm]
    };
    let [first, second] = kinds;
    let mut begins = Script::default()
        .call(SELFTEST_GMPI_FILL, &[here(0), 64, 0])
        .call(GMPI_CALL_IRECV, &message(0, 4, 1, first))
        .call(GMPI_CALL_ISEND, &message(0, 9, 2, second));
    let mut answers = Script::default()
        .call(SELFTEST_GMPI_FILL, &[world.ranks[1].at(0), 64, 100])
        .call(GMPI_CALL_RECV, &message(1, 16, 2, second))
        .call(GMPI_CALL_RECV, &message(1, 17, 5, WORLD));
    if third {
        begins = begins.call(GMPI_CALL_ISEND, &message(0, 10, 3, first));
        let receive = message(1, 18, 3, first);
        answers = answers.call(GMPI_CALL_RECV, &receive);
    }
    let looks = begins.0.len();
    // Not over, however often it is asked.
    for _ in 0..3 {
        begins =
            begins.call(GMPI_CALL_TEST, &[]).call(GMPI_CALL_TESTALL, &[1]).call(GMPI_CALL_GET_STATUS, &[]);
    }
    let looked = begins.0.len();
    begins = begins.call(GMPI_CALL_SEND, &message(0, 11, 5, WORLD));
    answers = answers.call(GMPI_CALL_SEND, &message(1, 0, 1, first));
    let ways: [(u32, &[u64]); 4] = [
        (GMPI_CALL_WAIT, &[]),
        (GMPI_CALL_WAITALL, &[1]),
        (SELFTEST_GMPI_TEST_UNTIL, &[]),
        (GMPI_CALL_WAITANY, &[1]),
    ];
    for (way, arguments) in ways {
        world.ranks[0].memory.write(0, &[0; 512]).expect("in range");
        let results = world
            .succeed(vec![begins.clone().call(way, arguments).scope(scope), answers.clone().scope(scope)]);
        let flags: Vec<u32> = (looks..looked).map(|call| results[0].value(call)).collect();
        assert_eq!(flags, vec![0; looked - looks], "kinds {kinds:?}, {third}, {scope}: not over yet");
        let came = world.ranks[0].memory.read_u64s(32, 1).expect("in range");
        assert_eq!(came, [100], "kinds {kinds:?}, {third}, {scope}, call {way}: the first one is over, too");
        world.ranks[0].gmpi.check().expect("nothing is open");
    }
}

#[test]
fn a_direct_request_in_the_place_of_another_one_completes_both() {
    let world = World::new(2, &config());
    let comm = direct(&world, 1, SMALL);
    for scope in [SELFTEST_PUT_BLOCK, SELFTEST_PUT_WARP, SELFTEST_PUT_THREAD] {
        kinds_in_one_place(&world, [WORLD, comm], false, scope);
        kinds_in_one_place(&world, [WORLD, comm], true, scope);
        // Of three the second one is over before the third begins.
        kinds_in_one_place(&world, [comm, comm], true, scope);
    }
}

#[test]
fn a_request_of_the_daemon_in_the_place_of_a_direct_one_completes_both() {
    let world = World::new(2, &config());
    let comm = direct(&world, 1, SMALL);
    for scope in [SELFTEST_PUT_BLOCK, SELFTEST_PUT_WARP, SELFTEST_PUT_THREAD] {
        kinds_in_one_place(&world, [comm, WORLD], false, scope);
        kinds_in_one_place(&world, [comm, WORLD], true, scope);
    }
}

//! Messages between kernels.

use std::time::Duration;

use ggas_clock::Manual;
use ggas_gmpi::layout::*;
use ggas_gmpi::{Config, GmpiError, PLACEMENTS, Polling};
use ggas_selftest::args::*;

use crate::world::*;

/// `count` longs from byte 0 of rank 0 to byte 512 KiB of rank 1 and back, by blocks of 64 threads.
fn ping_pong(world: &World, count: usize, scope: u32) {
    let ranks = &world.ranks;
    let half = BYTES / 2;
    let send = |rank: usize, from: usize, tag: u64| {
        [ranks[rank].at(from), count as u64, LONG, 1 - rank as u64, tag, WORLD]
    };
    let first = Script::default()
        .call(SELFTEST_GMPI_FILL, &[ranks[0].at(0), count as u64, 1000])
        .call(GMPI_CALL_ISEND, &send(0, 0, 7))
        .request(0)
        .call(GMPI_CALL_IRECV, &send(0, half, 8))
        .request(1)
        .call(GMPI_CALL_WAITALL, &[2])
        .request(0)
        .status(0)
        .call(SELFTEST_GMPI_SYNCHRONIZE, &[])
        .scope(scope);
    let second = Script::default()
        .call(GMPI_CALL_RECV, &send(1, half, 7))
        .status(0)
        .call(GMPI_CALL_SEND, &send(1, half, 8))
        .call(SELFTEST_GMPI_COUNT, &[0, LONG])
        .scope(scope);
    let results = world.succeed(vec![first, second]);
    let came = ranks[0].memory.read_u64s(half, count).expect("in range");
    assert!(came.iter().zip(1000..).all(|(came, sent)| *came == sent), "{count} longs");
    let bytes = 8 * count as u64;
    assert_eq!((results[0].status(0), results[0].status(1)), ((0, 7, 0, bytes), (1, 8, 0, bytes)));
    assert_eq!(results[1].status(0), (0, 7, 0, bytes));
    assert_eq!(results[1].value(2), count as u32);
    for rank in ranks {
        rank.gmpi.check().expect("nothing is open");
    }
}

#[test]
fn messages_of_all_lengths_come_and_go_with_all_placements_scopes_and_polling() {
    for placement in PLACEMENTS {
        for polling in [Polling::Spin, Polling::Yield, Polling::Sleep] {
            let world = World::new(2, &Config { placement, polling, ..config() });
            for count in [0, 1, 5, 504, 505, 40_000] {
                ping_pong(&world, count, SELFTEST_PUT_BLOCK);
            }
            for scope in [SELFTEST_PUT_THREAD, SELFTEST_PUT_WARP] {
                ping_pong(&world, 100, scope);
            }
        }
    }
}

#[test]
fn two_requests_in_one_place_are_both_complete_after_the_wait() {
    // As in Fig. 6 of the paper: the handle of the send is overwritten by that of the receive. The daemon's time runs by its looks, so the
    // wait for the last one ends when its time is over, though that one is over: the two before it are not.
    let (clock, _time) = Manual::new();
    let world = World::new(2, &Config { timeout: Duration::from_millis(20), clock, ..config() });
    let (here, there, long) = (&world.ranks[0], &world.ranks[1], 40_000);
    let message = |at: u64, count: u64, tag: u64, rank: u64| [at, count, LONG, rank, tag, WORLD];
    let half = BYTES / 2;
    let first = Script::default()
        .call(GMPI_CALL_IRECV, &message(here.at(half), 1, 1, 1))
        .call(GMPI_CALL_ISEND, &message(here.at(0), long, 2, 1))
        .call(GMPI_CALL_IRECV, &message(here.at(half + 8), 1, 3, 1))
        // What comes behind the last one's message.
        .call(GMPI_CALL_IRECV, &message(here.at(half + 16), 1, 4, 1))
        .request(1)
        .call(SELFTEST_GMPI_TEST_UNTIL, &[])
        .request(1)
        .call(GMPI_CALL_WAIT, &[])
        .call(GMPI_CALL_ISEND, &message(here.at(0), 1, 9, 1))
        .request(2)
        .call(SELFTEST_GMPI_TEST_UNTIL, &[])
        .request(2)
        .call(SELFTEST_GMPI_TEST_UNTIL, &[])
        .status(0);
    let mut second = Script::default().call(SELFTEST_GMPI_FILL, &[there.at(0), 3, 5]);
    for (function, at, count, tag) in [
        (GMPI_CALL_ISEND, there.at(8), 1, 3),
        (GMPI_CALL_ISEND, there.at(16), 1, 4),
        (GMPI_CALL_IRECV, there.at(64), 1, 9),
        (GMPI_CALL_ISEND, there.at(0), 1, 1),
        (GMPI_CALL_IRECV, there.at(half), long, 2),
    ] {
        second = second.call(function, &message(at, count, tag, 0)).call(SELFTEST_GMPI_TEST_UNTIL, &[]);
    }
    let results = world.run(vec![first, second]);
    let errors = results[0].errors(0);
    assert_eq!(errors, [0, 0, 0, 0, 0, GMPI_ERR_TIMEOUT, 0, 0, 0], "the wait is for all three");
    assert!(results[1].errors(0).iter().all(|error| *error == 0), "{:?}", results[1].errors(0));
    assert_eq!(results[0].status(0), (1, 3, 0, 8), "the status of the last one");
    assert_eq!(here.memory.read_u64s(half, 3).expect("in range"), [5, 6, 7], "all receives");
    here.gmpi.check().expect("the send is over, too");
}

#[test]
fn statuses_of_more_requests_than_an_attribute_names_are_all_told() {
    let world = World::new(2, &Config { entries: 4, ..config() });
    let count = 40;
    let mut scripts = Vec::new();
    for (rank, function) in [GMPI_CALL_ISEND, GMPI_CALL_IRECV].into_iter().enumerate() {
        let mut script =
            Script::default().call(SELFTEST_GMPI_FILL, &[world.ranks[rank].at(0), count, 100 * rank as u64]);
        for i in 0..count {
            // Sent in one order, received in another.
            let tag = if rank == 0 { i } else { count - 1 - i };
            let at = world.ranks[rank].at(8 * i as usize);
            script = script.call(function, &[at, 1, LONG, 1 - rank as u64, tag, WORLD]).request(i as u32);
        }
        scripts.push(script.call(GMPI_CALL_WAITALL, &[count]).request(0).status(0));
    }
    let results = world.succeed(scripts);
    for i in 0..count as usize {
        assert_eq!(results[1].status(i), (0, (count as usize - 1 - i) as i32, 0, 8));
    }
    let came = world.ranks[1].memory.read_u64s(0, count as usize).expect("in range");
    assert!(came.iter().rev().copied().eq(0..count));
}

#[test]
fn wildcards_probes_and_tests() {
    let world = World::new(3, &config());
    let send = |rank: usize, tag: u64, count: u64| {
        let at = world.ranks[rank].at(0);
        Script::default()
            .call(SELFTEST_GMPI_FILL, &[at, count, 10 * rank as u64])
            .call(GMPI_CALL_SEND, &[at, count, LONG, 0, tag, WORLD])
    };
    let at = world.ranks[0].at(0);
    let first = Script::default()
        .call(GMPI_CALL_PROBE, &[2, ANY, WORLD])
        .status(0)
        .call(GMPI_CALL_IPROBE, &[ANY, 44, WORLD])
        .call(GMPI_CALL_RECV, &[at, 10, LONG, ANY, 6, WORLD])
        .status(1)
        .call(GMPI_CALL_IRECV, &[at + 80, 10, LONG, ANY, ANY, WORLD])
        .call(SELFTEST_GMPI_TEST_UNTIL, &[])
        .status(2)
        .call(GMPI_CALL_TEST, &[])
        .call(GMPI_CALL_IPROBE, &[ANY, ANY, WORLD]);
    let results = world.succeed(vec![first, send(1, 5, 3), send(2, 6, 4)]);
    assert_eq!(results[0].status(0), (2, 6, 0, 32));
    assert_eq!(results[0].status(1), (2, 6, 0, 32));
    assert_eq!(results[0].status(2), (1, 5, 0, 24));
    assert_eq!([1, 5, 6].map(|call| results[0].value(call)), [0, 1, 0]);
}

#[test]
fn persistent_requests_are_started_again_and_again() {
    let world = World::new(2, &config());
    let rounds = 5;
    let mut scripts = Vec::new();
    for (rank, function) in [GMPI_CALL_SEND_INIT, GMPI_CALL_RECV_INIT].into_iter().enumerate() {
        let at = world.ranks[rank].at(0);
        let mut script = Script::default()
            .call(function, &[at, 2, LONG, 1 - rank as u64, 1, WORLD])
            .request(0)
            .call(function, &[at + 16, 700, LONG, 1 - rank as u64, 2, WORLD])
            .request(1);
        for round in 0..rounds {
            if rank == 0 {
                script = script.call(SELFTEST_GMPI_FILL, &[at, 702, round * 1000]);
            }
            script = script.call(GMPI_CALL_STARTALL, &[2]).call(GMPI_CALL_WAITALL, &[2]);
        }
        scripts.push(
            script
                .call(GMPI_CALL_WAIT, &[])
                .call(GMPI_CALL_REQUEST_FREE, &[])
                .request(0)
                .call(GMPI_CALL_REQUEST_FREE, &[])
                .request(1),
        );
    }
    world.succeed(scripts);
    let came = world.ranks[1].memory.read_u64s(0, 702).expect("in range");
    assert!(came.iter().zip((rounds - 1) * 1000..).all(|(came, sent)| *came == sent));
}

#[test]
fn blocks_with_a_port_each_talk_at_the_same_time() {
    let blocks = 6;
    let world = World::new(2, &Config { ports: blocks, entries: 2, ..config() });
    let scripts = |rank: usize| {
        (0..u64::from(blocks)).map(move |block| {
            let at = world_at(rank, block);
            (rank, block, at)
        })
    };
    let script = |(rank, block, offset): (usize, u64, usize)| {
        let at = world.ranks[rank].at(offset);
        let mut script = Script::default().call(SELFTEST_GMPI_FILL, &[at, 600, 10_000 * block + rank as u64]);
        for round in 0..4 {
            let message = |at, count| [at, count, LONG, 1 - rank as u64, 100 * block + round, WORLD];
            script = script
                .call(GMPI_CALL_IRECV, &message(at + 8192, 600))
                .request(0)
                .call(GMPI_CALL_ISEND, &message(at, 600))
                .request(1)
                .call(GMPI_CALL_WAITALL, &[2]);
        }
        script
    };
    let all = (0..2).map(|rank| scripts(rank).map(script).collect()).collect();
    let results = world.run_blocks(all, 32);
    for (rank, results) in results.iter().enumerate() {
        for block in 0..blocks as usize {
            assert!(results.errors(block).iter().all(|error| *error == 0), "{:?}", results.errors(block));
            let came =
                world.ranks[rank].memory.load_u64(world_at(rank, block as u64) + 8192).expect("in range");
            assert_eq!(came, 10_000 * block as u64 + 1 - rank as u64);
        }
    }
}

fn world_at(_: usize, block: u64) -> usize {
    block as usize * 16384
}

#[test]
fn with_one_context_for_the_grid_block_0_calls_and_the_others_stand_by() {
    let world = World::new(2, &Config { single: true, ..config() });
    let script = |rank: usize| {
        let at = world.ranks[rank].at(0);
        let call = if rank == 0 { GMPI_CALL_SEND } else { GMPI_CALL_RECV };
        Script::default().call(call, &[at, 1, INT, 1 - rank as u64, 0, WORLD])
    };
    let results = world.run_blocks((0..2).map(|rank| vec![script(rank); 3]).collect(), 32);
    assert!(results.iter().all(|results| (0..3).all(|block| results.errors(block) == [0])));
    world
        .all(|gmpi, _| gmpi.check())
        .into_iter()
        .for_each(|checked| checked.expect("one message, one receive"));
}

#[test]
fn requests_that_kernels_leave_open_are_told_and_given_up() {
    let world = World::new(2, &config());
    let at = world.ranks[0].at(0);
    let open = Script::default().call(GMPI_CALL_IRECV, &[at, 1, INT, 1, 9, WORLD]);
    world.succeed(vec![open, Script::default()]);
    let error = world.ranks[0].gmpi.check();
    assert!(
        matches!(error, Err(GmpiError::OpenRequests { count: 1, what: "receive", port: 0 })),
        "{error:?}"
    );
    world.ranks[0].gmpi.check().expect("told once");
    world.ranks[1].gmpi.check().expect("nothing");
    // A later message is for a later receive.
    ping_pong(&world, 3, SELFTEST_PUT_BLOCK);
}

#[test]
fn a_receive_that_was_freed_gets_its_message() {
    for count in [1u64, 20, 100, 5000] {
        let world = World::new(2, &config());
        let (at, there) = (world.ranks[0].at(0), world.ranks[1].at(0));
        let first = Script::default()
            .call(SELFTEST_GMPI_FILL, &[at, count + 1, 5])
            .call(GMPI_CALL_SEND, &[at, count, LONG, 1, 3, WORLD])
            .call(GMPI_CALL_SEND, &[at + 8, count, LONG, 1, 3, WORLD]);
        let second = Script::default()
            .call(GMPI_CALL_IRECV, &[there, count, LONG, 0, 3, WORLD])
            .call(GMPI_CALL_REQUEST_FREE, &[])
            .call(GMPI_CALL_RECV, &[there + 8 * count, count, LONG, 0, 3, WORLD]);
        world.succeed(vec![first, second]);
        let came = world.ranks[1].memory.read_u64s(0, 2 * count as usize).expect("in range");
        assert!(came.into_iter().eq((5..5 + count).chain(6..6 + count)), "{count}");
        world.ranks[1].gmpi.check().expect("nothing is open");
    }
}

//! Calls on several requests, a send and a receive in one call, and collectives that are waited for later.

use std::time::Duration;

use ggas_clock::Manual;
use ggas_gmpi::layout::*;
use ggas_gmpi::{Config, GmpiError, PLACEMENTS};
use ggas_selftest::args::*;

use crate::direct::{SMALL, direct};
use crate::world::*;

/// What a kernel calls GMPI_UNDEFINED.
const UNDEFINED: u32 = GMPI_UNDEFINED as u32;
/// `GMPI_PROC_NULL` as one of two ints in an argument.
const NOBODY: u64 = GMPI_PROC_NULL as u32 as u64;
/// Where indices go.
const INDICES: usize = BYTES - 4096;

/// `count` receives of a long each from `peer`, tag i behind requests `first` on.
fn receives(mut script: Script, at: u64, peer: u64, tags: std::ops::Range<u64>, comm: u64) -> Script {
    for tag in tags {
        script = script.call(GMPI_CALL_IRECV, &[at + 8 * tag, 1, LONG, peer, tag, comm]).request(tag as u32);
    }
    script
}

fn indices(world: &World, rank: usize, count: usize) -> Vec<u32> {
    let mut bytes = vec![0; 4 * count];
    world.ranks[rank].memory.read(INDICES, &mut bytes).expect("in range");
    bytes.chunks_exact(4).map(|bytes| u32::from_ne_bytes(bytes.try_into().expect("four"))).collect()
}

#[test]
fn one_of_several_requests_is_completed_at_a_time() {
    for placement in PLACEMENTS {
        let world = World::new(2, &Config { placement, ..config() });
        let (at, there) = (world.ranks[0].at(0), world.ranks[1].at(0));
        let go = |script: Script, at: u64, call: u32, peer: u64| {
            script.call(call, &[at + 800, 1, LONG, peer, 99, WORLD])
        };
        // Only tag 2 comes before rank 0 has said so.
        let first = receives(Script::default(), at, 1, 0..3, WORLD)
            .call(GMPI_CALL_WAITANY, &[3])
            .request(0)
            .status(0);
        let first = go(first, at, GMPI_CALL_SEND, 1)
            // Behind it both others have come, and still one is completed at a time.
            .call(GMPI_CALL_BARRIER, &[WORLD])
            .call(GMPI_CALL_WAITANY, &[3])
            .request(0)
            .status(1)
            .call(GMPI_CALL_WAITANY, &[3])
            .request(0)
            .status(2)
            .call(GMPI_CALL_WAITANY, &[3])
            .request(0)
            .status(3)
            .call(GMPI_CALL_TESTANY, &[3])
            .request(0)
            .call(GMPI_CALL_WAITANY, &[0])
            .request(0);
        let second = Script::default().call(GMPI_CALL_SEND, &[there, 1, LONG, 0, 2, WORLD]);
        let second = go(second, there, GMPI_CALL_RECV, 0)
            .call(GMPI_CALL_SEND, &[there, 1, LONG, 0, 0, WORLD])
            .call(GMPI_CALL_SEND, &[there, 1, LONG, 0, 1, WORLD])
            .call(GMPI_CALL_BARRIER, &[WORLD]);
        let results = world.succeed(vec![first, second]);
        let found = [3, 6, 7, 8, 9, 10].map(|call| results[0].value(call));
        let (left, right) = (found[1].min(found[2]), found[1].max(found[2]));
        let nothing = (UNDEFINED << 1) | 1;
        assert_eq!([found[0], left, right], [2, 0, 1], "{placement:?}");
        assert_eq!(found[3..], [UNDEFINED, nothing, UNDEFINED], "{placement:?}: none is left");
        assert_eq!(results[0].status(0), (1, 2, 0, 8));
        assert_eq!(results[0].status(1), (1, found[1] as i32, 0, 8), "the status is that of the one");
        assert_eq!(results[0].status(3), (-1, -1, 0, 0), "empty");
        world.ranks[0].gmpi.check().expect("nothing is open");
    }
}

#[test]
fn tests_of_several_complete_all_or_none() {
    let world = World::new(2, &config());
    let (at, there) = (world.ranks[0].at(0), world.ranks[1].at(0));
    // More than an attribute names, and as many as it names.
    for count in [4, 15, 16, 40] {
        let first = receives(Script::default(), at, 1, 0..count, WORLD);
        let base = count as usize;
        let first = first
            .call(GMPI_CALL_TESTALL, &[count])
            .request(0)
            .call(GMPI_CALL_TESTANY, &[count])
            .request(0)
            .call(GMPI_CALL_TESTSOME, &[count, at + INDICES as u64])
            .request(0)
            .call(GMPI_CALL_GET_STATUS, &[])
            .request(0)
            .call(GMPI_CALL_BARRIER, &[WORLD])
            // Behind it all but the last have come.
            .call(GMPI_CALL_BARRIER, &[WORLD])
            .call(GMPI_CALL_TESTALL, &[count])
            .request(0)
            .call(GMPI_CALL_GET_STATUS, &[])
            .request(0)
            .status(count as u32)
            .call(GMPI_CALL_BARRIER, &[WORLD])
            .call(GMPI_CALL_BARRIER, &[WORLD])
            .call(GMPI_CALL_TESTALL, &[count])
            .request(0)
            .status(0)
            .call(GMPI_CALL_TESTALL, &[count])
            .request(0);
        let send = |script: Script, tag: u64| script.call(GMPI_CALL_SEND, &[there, 1, LONG, 0, tag, WORLD]);
        let second = Script::default().call(GMPI_CALL_BARRIER, &[WORLD]);
        let second = (0..count - 1)
            .fold(second, send)
            .call(GMPI_CALL_BARRIER, &[WORLD])
            .call(GMPI_CALL_BARRIER, &[WORLD]);
        let second = send(second, count - 1).call(GMPI_CALL_BARRIER, &[WORLD]);
        let results = world.succeed(vec![first, second]);
        let value = |call: usize| results[0].value(base + call);
        assert_eq!([0, 2, 3].map(value), [0, 0, 0], "{count}: nothing has come");
        assert_eq!(value(1) & 1, 0, "{count}: nothing has come");
        assert_eq!(
            [6, 7, 10, 11].map(value),
            [0, 1, 1, 1],
            "{count}: all but one, then all, then none is left"
        );
        assert_eq!(results[0].status(base), (1, 0, 0, 8), "a look tells the status");
        for tag in 0..base {
            assert_eq!(results[0].status(tag), (1, tag as i32, 0, 8), "{count}");
        }
        world.ranks[0].gmpi.check().expect("nothing is open");
    }
}

#[test]
fn what_is_over_is_completed_together() {
    let world = World::new(2, &config());
    let (at, there) = (world.ranks[0].at(0), world.ranks[1].at(0));
    let (count, some) = (20, [3, 14, 15, 19]);
    let waits = |script: Script, call: u32, count: u64, status: u32| {
        script.call(call, &[count, at + INDICES as u64]).request(0).status(status)
    };
    let script = receives(Script::default(), at, 1, 0..count, WORLD).call(GMPI_CALL_BARRIER, &[WORLD]);
    let results = world.succeed(vec![
        waits(script, GMPI_CALL_WAITSOME, count, 0),
        some.into_iter()
            .fold(Script::default(), |script, tag| {
                script.call(GMPI_CALL_SEND, &[there, 1, LONG, 0, tag, WORLD])
            })
            .call(GMPI_CALL_BARRIER, &[WORLD]),
    ]);
    assert_eq!(results[0].value(count as usize + 1), some.len() as u32);
    assert_eq!(indices(&world, 0, some.len()), some.map(|tag| tag as u32));
    for (i, tag) in some.into_iter().enumerate() {
        assert_eq!(results[0].status(i), (1, tag as i32, 0, 8));
    }
    let open = world.ranks[0].gmpi.check().expect_err("the others are open").to_string();
    assert!(open.contains("16 open requests"), "{open}");
    // A failed one among them; persistent ones that are idle count as none, and are there after they were completed.
    let first = Script::default()
        .call(GMPI_CALL_SEND_INIT, &[at, 1, LONG, 1, 0, WORLD])
        .request(0)
        .call(GMPI_CALL_ISEND, &[at, 1, LONG, 7, 0, WORLD])
        .request(1);
    let first = waits(first, GMPI_CALL_WAITSOME, 2, 0).call(GMPI_CALL_START, &[]).request(0);
    let first = waits(first, GMPI_CALL_WAITSOME, 2, 1);
    let first = waits(first, GMPI_CALL_TESTSOME, 2, 2).call(GMPI_CALL_REQUEST_FREE, &[]).request(0);
    let results =
        world.run(vec![first, Script::default().call(GMPI_CALL_RECV, &[there, 1, LONG, 0, 0, WORLD])]);
    assert_eq!(results[0].errors(0), [0, 0, GMPI_ERR_IN_STATUS, 0, 0, 0, 0]);
    assert_eq!([2, 4, 5].map(|call| results[0].value(call)), [1, 1, UNDEFINED]);
    assert_eq!(results[0].status(0).2, GMPI_ERR_RANK);
    assert_eq!(indices(&world, 0, 1), [0]);
}

#[test]
fn a_wait_for_any_that_nobody_ends_gets_its_error_and_completes_nothing() {
    // The daemon's time runs by its looks alone.
    let (clock, _time) = Manual::new();
    let world = World::new(2, &Config { timeout: Duration::from_millis(20), clock, ..config() });
    let at = world.ranks[0].at(0);
    let first = receives(Script::default(), at, 1, 0..2, WORLD)
        .call(GMPI_CALL_WAITANY, &[2])
        .request(0)
        .call(GMPI_CALL_WAITSOME, &[2, at + INDICES as u64])
        .request(0)
        .call(
            GMPI_CALL_SENDRECV,
            &[at, at, both(1, 1), both(LONG, LONG), both(NOBODY, 1), both(0, 9), WORLD],
        );
    let errors = world.run(vec![first, Script::default()])[0].errors(0);
    assert_eq!(errors, [0, 0, GMPI_ERR_TIMEOUT, GMPI_ERR_TIMEOUT, GMPI_ERR_TIMEOUT]);
    let open = world.ranks[0].gmpi.check().expect_err("still open").to_string();
    assert!(open.contains("2 open requests"), "{open}");
}

/// Passes `count` longs around a ring, and along it without its ends meeting.
fn shift(world: &World, comm: u64, count: u64) {
    let (size, half) = (world.ranks.len() as u64, BYTES / 2);
    let script = |rank: u64, ring: bool| {
        let at = |offset| world.ranks[rank as usize].at(offset);
        let nobody = NOBODY;
        let next = if rank + 1 < size || ring { (rank + 1) % size } else { nobody };
        let before = if rank > 0 || ring { (rank + size - 1) % size } else { nobody };
        Script::default()
            .call(SELFTEST_GMPI_FILL, &[at(0), count, 1000 * rank])
            .call(SELFTEST_GMPI_FILL, &[at(half), count, 7])
            .call(
                GMPI_CALL_SENDRECV,
                &[
                    at(0),
                    at(half),
                    both(count, count),
                    both(LONG, LONG),
                    both(next, before),
                    both(5, 5),
                    comm,
                ],
            )
            .status(0)
    };
    for ring in [true, false] {
        let results = world.succeed((0..size).map(|rank| script(rank, ring)).collect());
        for (rank, result) in results.iter().enumerate() {
            let before = (rank + world.ranks.len() - 1) % world.ranks.len();
            let nobody = !ring && rank == 0;
            let first = if nobody { 7 } else { 1000 * before as u64 };
            let came = world.ranks[rank].memory.read_u64s(half, count as usize).expect("in range");
            assert!(came.into_iter().eq(first..first + count), "rank {rank}, {count} longs");
            let expected = if nobody { (-2, -1, 0, 0) } else { (before as i32, 5, 0, 8 * count) };
            assert_eq!(result.status(0), expected);
        }
    }
}

#[test]
fn a_send_and_a_receive_in_one_call() {
    let world = World::new(3, &config());
    let comm = direct(&world, 1, SMALL);
    for comm in [WORLD, comm] {
        for count in [0, 1, 600, 20_000] {
            shift(&world, comm, count);
        }
    }
    let at = world.ranks[0].at(0);
    let wrong = |send: u64, receive: u64, comm: u64| {
        [at, at, both(1, 1), both(LONG, LONG), both(send, receive), both(0, 0), comm]
    };
    let script = Script::default()
        .call(GMPI_CALL_SENDRECV, &wrong(3, 0, WORLD))
        .call(GMPI_CALL_SENDRECV, &wrong(1, 3, WORLD))
        .call(GMPI_CALL_SENDRECV, &wrong(3, 0, comm))
        .call(GMPI_CALL_IPROBE, &[0, 0, WORLD]);
    let results = world.run(vec![script, Script::default(), Script::default()]);
    assert_eq!(results[0].errors(0), [GMPI_ERR_RANK, GMPI_ERR_RANK, GMPI_ERR_RANK, 0]);
    world.ranks[1].gmpi.check().expect("nothing was begun");
}

#[test]
fn collectives_that_are_waited_for_later_go_on_side_by_side() {
    let size = 3;
    let world = World::new(size, &config());
    let half = BYTES / 2;
    let script = |rank: usize| {
        let at = |offset| world.ranks[rank].at(offset);
        let sum = GMPI_SUM.into();
        Script::default()
            .call(SELFTEST_GMPI_FILL, &[at(0), 900, 100 * rank as u64])
            .call(SELFTEST_GMPI_FILL, &[at(65_536), 8, 100 * rank as u64])
            .call(GMPI_CALL_IALLREDUCE, &[at(0), at(half), 900, LONG, sum, WORLD])
            .request(0)
            .call(GMPI_CALL_IBARRIER, &[WORLD])
            .request(1)
            .call(GMPI_CALL_IBCAST, &[at(65_536), 8, LONG, 1, WORLD])
            .request(2)
            .call(GMPI_CALL_IREDUCE, &[at(0), at(half + 8192), 1, LONG, sum, 2, WORLD])
            .request(3)
            .call(GMPI_CALL_IALLGATHER, &[at(0), 1, LONG, at(half + 16_384), 1, LONG, WORLD])
            .request(4)
            .call(GMPI_CALL_IALLTOALL, &[at(0), 1, LONG, at(half + 20_480), 1, LONG, WORLD])
            .request(5)
            // What waits goes on beside them.
            .call(GMPI_CALL_BARRIER, &[WORLD])
            .call(GMPI_CALL_WAITANY, &[6])
            .request(0)
            .call(GMPI_CALL_WAITALL, &[6])
            .request(0)
            .call(GMPI_CALL_IBCAST, &[at(0), 1, LONG, 9, WORLD])
            .request(6)
            .call(GMPI_CALL_IBARRIER, &[77])
            .request(7)
    };
    let results = world.run((0..size).map(script).collect());
    for (rank, result) in results.iter().enumerate() {
        assert!(result.errors(0).iter().all(|error| *error == 0), "{:?}", result.errors(0));
        let read = |offset, count| world.ranks[rank].memory.read_u64s(offset, count).expect("in range");
        assert!(read(half, 900).into_iter().eq((0..900).map(|i| 300 + 3 * i)), "sums on rank {rank}");
        assert!(read(65_536, 8).into_iter().eq(100..108), "what rank 1 had");
        assert_eq!(read(half + 16_384, 3), [0, 100, 200]);
        assert_eq!(read(half + 20_480, 3), [0, 1, 2].map(|of| 100 * of + rank as u64));
    }
    assert_eq!(world.ranks[2].memory.load_u64(half + 8192).expect("in range"), 300);
    // One that others do not begin is open until the host gives it up.
    let mut scripts = vec![Script::default(); size];
    scripts[0] = Script::default().call(GMPI_CALL_IBARRIER, &[2]).call(GMPI_CALL_WAIT, &[]);
    scripts[0] = scripts[0].clone().call(GMPI_CALL_IBARRIER, &[WORLD]);
    world.succeed(scripts);
    let open = world.ranks[0].gmpi.check();
    assert!(matches!(open, Err(GmpiError::OpenRequests { count: 1, what: "barrier", port: 0 })), "{open:?}");
    let mut scripts = vec![Script::default().call(GMPI_CALL_BARRIER, &[WORLD]); size];
    scripts[0] = Script::default();
    world.succeed(scripts);
    // A wait tells what was wrong.
    let wrong = |rank: usize| {
        let at = world.ranks[rank].at(0);
        Script::default()
            .call(GMPI_CALL_IBCAST, &[at, 1, LONG, 9, WORLD])
            .request(0)
            .call(GMPI_CALL_IBARRIER, &[77])
            .request(1)
            .call(GMPI_CALL_WAIT, &[])
            .request(0)
            .call(GMPI_CALL_WAIT, &[])
            .request(1)
    };
    let results = world.run((0..size).map(wrong).collect());
    assert_eq!(results[0].errors(0), [0, 0, GMPI_ERR_ROOT, GMPI_ERR_COMM]);
}

#[test]
fn requests_with_and_without_the_daemon_are_looked_at_together() {
    let world = World::new(2, &config());
    let comm = direct(&world, 1, SMALL);
    for scope in [SELFTEST_PUT_BLOCK, SELFTEST_PUT_WARP, SELFTEST_PUT_THREAD] {
        let (at, there) = (world.ranks[0].at(0), world.ranks[1].at(0));
        let receive = |script: Script, at: u64, tag: u64, request: u32, comm: u64| {
            script.call(GMPI_CALL_IRECV, &[at + 8 * tag, 1, LONG, 1, tag, comm]).request(request)
        };
        let go = |script: Script, at: u64, call: u32, peer: u64| {
            script.call(call, &[at + 800, 1, LONG, peer, 99, WORLD])
        };
        let mut first = Script::default();
        // Requests 0 and 2 are direct, 1 and 3 the daemon's.
        for (request, of) in [(0, comm), (1, WORLD), (2, comm), (3, WORLD)] {
            first = receive(first, at, request, request as u32, of);
        }
        let first = first.call(GMPI_CALL_TESTALL, &[4]).request(0).call(GMPI_CALL_TESTANY, &[4]).request(0);
        let first = go(first, at, GMPI_CALL_SEND, 1).call(GMPI_CALL_WAITANY, &[4]).request(0).status(0);
        let first = go(first, at, GMPI_CALL_SEND, 1).call(GMPI_CALL_WAITANY, &[4]).request(0).status(1);
        let first = go(first, at, GMPI_CALL_SEND, 1)
            .call(GMPI_CALL_BARRIER, &[WORLD])
            .call(GMPI_CALL_GET_STATUS, &[])
            .request(2)
            .status(4)
            .call(GMPI_CALL_TESTALL, &[4])
            .request(0)
            .status(2)
            .call(GMPI_CALL_WAITSOME, &[4, at + INDICES as u64])
            .request(0)
            .scope(scope);
        let send = |script: Script, tag: u64, comm: u64| {
            script.call(GMPI_CALL_SEND, &[there, 1, LONG, 0, tag, comm])
        };
        let second = Script::default().call(SELFTEST_GMPI_FILL, &[there, 1, 5]);
        let second = go(second, there, GMPI_CALL_RECV, 0);
        let second = go(send(second, 1, WORLD), there, GMPI_CALL_RECV, 0);
        let second = go(send(second, 0, comm), there, GMPI_CALL_RECV, 0);
        let second = send(send(second, 2, comm), 3, WORLD).call(GMPI_CALL_BARRIER, &[WORLD]).scope(scope);
        let results = world.succeed(vec![first, second]);
        let value = |call| results[0].value(call);
        assert_eq!((value(4), value(5) & 1), (0, 0), "nothing has come");
        assert_eq!((value(7), value(9)), (1, 0), "the daemon's, then the direct one");
        assert_eq!((value(12), value(13), value(14)), (1, 1, UNDEFINED), "all, then none");
        // Statuses 2 to 5 are those of the test of all: of places that were empty, and of the two that were not.
        let told =
            [(0, 1), (1, 0), (4, 2), (5, 3)].map(|(status, tag)| (results[0].status(status), (1, tag, 0, 8)));
        assert!(told.iter().all(|(told, expected)| told == expected), "{told:?}");
        assert_eq!(world.ranks[0].memory.read_u64s(0, 4).expect("in range"), [5; 4]);
        world.ranks[0].gmpi.check().expect("nothing is open");
    }
}

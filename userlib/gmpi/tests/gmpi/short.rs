//! Short messages, which travel in attributes and answers.

use ggas_gmpi::layout::*;
use ggas_gmpi::{Config, PLACEMENTS};
use ggas_selftest::args::*;

use crate::world::*;

const OF_BYTES: u64 = GMPI_BYTE as u64;
/// Bytes of an attribute that are left by Send, Isend and Sendrecv.
const FIT: [u64; 3] = [200, 192, 160];
const MOST: u64 = GMPI_ANSWER_MESSAGE as u64;
/// What is around a buffer.
const GUARD: u8 = 0xee;

fn pattern(bytes: u64, seed: u64) -> Vec<u8> {
    (0..bytes).map(|i| (i * 7 + seed) as u8).collect()
}

/// Checks bytes at an offset of a rank, and those around them.
fn expect(world: &World, rank: usize, offset: usize, expected: &[u8], what: &str) {
    let mut bytes = vec![0; expected.len() + 16];
    world.ranks[rank].memory.read(offset - 8, &mut bytes).expect("in range");
    let (before, rest) = bytes.split_at(8);
    let (came, behind) = rest.split_at(expected.len());
    assert_eq!(came, expected, "{what}");
    assert!(before.iter().chain(behind).all(|byte| *byte == GUARD), "{what}: {before:x?} {behind:x?}");
}

fn guard(world: &World, rank: usize) {
    world.ranks[rank].memory.write(0, &vec![GUARD; 16384]).expect("in range");
}

#[test]
fn sizes_around_all_limits_arrive_whole_from_and_at_any_address() {
    let mut sizes = vec![0, 1, 7, 8, 9, 15, 16, 17];
    sizes.extend(
        FIT.iter().chain(&[MOST]).flat_map(|limit| [limit - 8, limit - 1, *limit, limit + 1, limit + 8]),
    );
    for placement in PLACEMENTS {
        let world = World::new(2, &Config { placement, ..config() });
        for (scope, threads) in [
            (SELFTEST_PUT_THREAD, 64),
            (SELFTEST_PUT_WARP, 64),
            (SELFTEST_PUT_BLOCK, 64),
            (SELFTEST_PUT_BLOCK, 5),
        ] {
            for (offset, bytes) in sizes.iter().enumerate().map(|(i, bytes)| (4096 + i % 9, *bytes)) {
                let what = format!("{placement:?}, scope {scope}, {bytes} bytes at {offset}");
                for rank in 0..2 {
                    guard(&world, rank);
                    world.ranks[rank].memory.write(3, &pattern(bytes, rank as u64)).expect("in range");
                }
                let script = |rank: usize| {
                    let (from, to, other) =
                        (world.ranks[rank].at(3), world.ranks[rank].at(offset), 1 - rank as u64);
                    let message = |at, tag| [at, bytes, OF_BYTES, other, tag, WORLD];
                    let both = [
                        from,
                        to + 1024,
                        both(bytes, bytes),
                        both(OF_BYTES, OF_BYTES),
                        both(other, other),
                        both(3, 3),
                        WORLD,
                    ];
                    let script = Script::default()
                        .call(GMPI_CALL_IRECV, &message(to + 2048, 2))
                        .request(0)
                        .call(GMPI_CALL_ISEND, &message(from, 2))
                        .request(1);
                    let one = [(GMPI_CALL_SEND, message(from, 1)), (GMPI_CALL_RECV, message(to, 1))];
                    let one = if rank == 0 { one } else { [one[1], one[0]] };
                    one.iter()
                        .fold(script, |script, (call, arguments)| script.call(*call, arguments))
                        .call(GMPI_CALL_WAITALL, &[2])
                        .status(0)
                        .call(GMPI_CALL_SENDRECV, &both)
                        .status(2)
                        .scope(scope)
                };
                let results = world.succeed_in(vec![script(0), script(1)], threads);
                for (rank, result) in results.iter().enumerate() {
                    let expected = pattern(bytes, 1 - rank as u64);
                    for place in [0, 1024, 2048] {
                        expect(&world, rank, offset + place, &expected, &format!("{what} + {place}"));
                    }
                    assert_eq!(result.status(0), (1 - rank as i32, 2, 0, bytes), "{what}");
                    assert_eq!(result.status(2), (1 - rank as i32, 3, 0, bytes), "{what}");
                }
            }
        }
    }
}

#[test]
fn vectors_of_allreduces_around_the_limit_come_whole_in_place_and_elsewhere() {
    for placement in PLACEMENTS {
        let world = World::new(3, &Config { placement, ..config() });
        for (scope, threads) in [(SELFTEST_PUT_THREAD, 64), (SELFTEST_PUT_WARP, 64), (SELFTEST_PUT_BLOCK, 64)]
        {
            for count in [0u64, 1, 2, 24, 25, 26, 28, 29, 400] {
                let what = format!("{placement:?}, scope {scope}, {count} longs");
                let script = |rank: usize| {
                    guard(&world, rank);
                    let at = |offset| world.ranks[rank].at(offset);
                    let own = |i: u64| 1000 * rank as u64 + i;
                    for place in [8, 8192] {
                        let bytes: Vec<u8> = (0..count).flat_map(|i| own(i).to_le_bytes()).collect();
                        world.ranks[rank].memory.write(place, &bytes).expect("in range");
                    }
                    let sum = u64::from(GMPI_SUM);
                    Script::default()
                        .call(GMPI_CALL_ALLREDUCE, &[at(8), at(4096), count, LONG, sum, WORLD])
                        .call(
                            GMPI_CALL_ALLREDUCE,
                            &[GMPI_IN_PLACE_ADDRESS.into(), at(8192), count, LONG, sum, WORLD],
                        )
                        .scope(scope)
                };
                world.succeed_in((0..3).map(script).collect(), threads);
                let sums: Vec<u8> = (0..count).flat_map(|i| (3000 + 3 * i).to_le_bytes()).collect();
                for rank in 0..3 {
                    expect(&world, rank, 4096, &sums, &what);
                    expect(&world, rank, 8192, &sums, &format!("{what}, in place"));
                }
            }
        }
    }
}

#[test]
fn allreduces_of_memory_that_is_not_attached_are_refused_and_write_nothing() {
    let world = World::new(1, &config());
    guard(&world, 0);
    let (at, other) = (world.ranks[0].at(8), world.ranks[0].processor.alloc(64).expect("memory"));
    let call = |from, to| [from, to, 2, LONG, u64::from(GMPI_SUM), WORLD];
    let script = Script::default()
        .call(GMPI_CALL_ALLREDUCE, &call(other.address(), at))
        .call(GMPI_CALL_ALLREDUCE, &call(at, other.address()))
        .call(GMPI_CALL_ALLREDUCE, &[at, at, 2, LONG, 99, WORLD]);
    let errors = world.run(vec![script])[0].errors(0);
    assert_eq!(errors, [GMPI_ERR_BUFFER, GMPI_ERR_BUFFER, GMPI_ERR_OP]);
    let mut bytes = [0; 64];
    other.read(0, &mut bytes).expect("in range");
    assert_eq!(bytes, [0; 64], "nothing is written");
    expect(&world, 0, 8, &[GUARD; 16], "nothing is written");
}

#[test]
fn a_short_message_is_that_of_its_call_whatever_is_written_behind_it() {
    let world = World::new(2, &config());
    let (at, there) = (world.ranks[0].at(0), world.ranks[1].at(0));
    // More than the receiver keeps, so the last ones wait at the sender until they are received.
    let count = 70;
    let send = |script: Script, i: u64| {
        script
            .call(SELFTEST_GMPI_FILL, &[at, 3, 100 * i])
            .call(GMPI_CALL_ISEND, &[at, 3, LONG, 1, i, WORLD])
            .request(i as u32)
    };
    let first = (0..count)
        .fold(Script::default(), send)
        .call(SELFTEST_GMPI_FILL, &[at, 3, 99_999])
        .call(GMPI_CALL_BARRIER, &[WORLD])
        .call(GMPI_CALL_WAITALL, &[count])
        .request(0);
    let receive =
        |script: Script, i: u64| script.call(GMPI_CALL_RECV, &[there + 24 * i, 3, LONG, 0, i, WORLD]);
    let second = Script::default().call(GMPI_CALL_BARRIER, &[WORLD]);
    world.succeed(vec![first, (0..count).fold(second, receive)]);
    let came = world.ranks[1].memory.read_u64s(0, 3 * count as usize).expect("in range");
    assert!(came.chunks(3).enumerate().all(|(i, came)| (0..3).all(|k| came[k] == 100 * i as u64 + k as u64)));
}

#[test]
fn what_has_come_is_stored_by_the_call_that_completes_the_receive() {
    for placement in PLACEMENTS {
        let world = World::new(2, &Config { placement, ..config() });
        let (at, there) = (world.ranks[0].at(0), world.ranks[1].at(0));
        let first = Script::default()
            .call(SELFTEST_GMPI_FILL, &[at, 2, 7])
            .call(GMPI_CALL_SEND, &[at, 2, LONG, 1, 1, WORLD])
            .call(GMPI_CALL_BARRIER, &[WORLD])
            .call(GMPI_CALL_RECV, &[at + 800, 2, LONG, 1, 2, WORLD]);
        let second = Script::default()
            .call(SELFTEST_GMPI_FILL, &[there, 2, 5])
            .call(GMPI_CALL_IRECV, &[there, 2, LONG, 0, 1, WORLD])
            .request(0)
            .call(GMPI_CALL_BARRIER, &[WORLD])
            // It has come.
            .call(GMPI_CALL_SEND, &[there, 2, LONG, 0, 2, WORLD])
            .call(GMPI_CALL_GET_STATUS, &[])
            .request(0)
            .call(GMPI_CALL_WAIT, &[])
            .request(0);
        world.succeed(vec![first, second]);
        let early = world.ranks[0].memory.read_u64s(800, 2).expect("in range");
        let late = world.ranks[1].memory.read_u64s(0, 2).expect("in range");
        assert_eq!((early, late), (vec![5, 6], vec![7, 8]), "{placement:?}: the host stored nothing");
    }
}

#[test]
fn a_longer_message_than_a_short_receive_has_room_for_brings_what_fits() {
    for placement in PLACEMENTS {
        let world = World::new(2, &Config { placement, ..config() });
        guard(&world, 1);
        // In the attribute, in a frame, and by asking.
        let lens = [24, 400, 6000];
        world.ranks[0].memory.write(0, &pattern(6000, 3)).expect("in range");
        let (at, there) = (world.ranks[0].at(0), world.ranks[1].at(0));
        let send = |script: Script, (i, len): (usize, &u64)| {
            script
                .call(GMPI_CALL_SEND, &[at, *len, OF_BYTES, 1, i as u64, WORLD])
                .call(GMPI_CALL_SEND, &[at, *len, OF_BYTES, 1, 10 + i as u64, WORLD])
        };
        let receive = |script: Script, i: usize| {
            let to = there + 1001 + 512 * i as u64;
            script
                .call(GMPI_CALL_RECV, &[to, 21, OF_BYTES, 0, i as u64, WORLD])
                .call(GMPI_CALL_IRECV, &[to + 256, 21, OF_BYTES, 0, 10 + i as u64, WORLD])
                .request(0)
                .call(GMPI_CALL_WAIT, &[])
                .request(0)
        };
        let first = lens.iter().enumerate().fold(Script::default(), send);
        let results = world.run(vec![first, (0..3).fold(Script::default(), receive)]);
        let three = [GMPI_ERR_TRUNCATE, 0, GMPI_ERR_TRUNCATE];
        assert_eq!(results[1].errors(0), three.repeat(3), "{placement:?}");
        assert!(results[0].errors(0).iter().all(|error| *error == 0));
        for place in (0..6).map(|i| 1001 + 256 * i) {
            expect(&world, 1, place, &pattern(6000, 3)[..21], &format!("{placement:?} {place}"));
        }
    }
}

#[test]
fn several_receives_of_one_wait_come_whether_they_fit_or_not() {
    for placement in PLACEMENTS {
        let world = World::new(2, &Config { placement, ..config() });
        for (count, bytes) in [(15, 8), (7, 9), (2, 104), (3, 104), (4, 200), (15, 224), (40, 8), (5, 225)] {
            for (call, told) in
                [(GMPI_CALL_WAITALL, true), (GMPI_CALL_WAITALL, false), (GMPI_CALL_TESTALL, true)]
            {
                let what = format!("{placement:?}: {count} of {bytes} by {call}, statuses {told}");
                guard(&world, 1);
                let (at, there) = (world.ranks[0].at(0), world.ranks[1].at(8));
                let all: Vec<u8> = (0..count).flat_map(|i| pattern(bytes, 31 * i)).collect();
                world.ranks[0].memory.write(0, &all).expect("in range");
                let send = |script: Script, i: u64| {
                    script.call(GMPI_CALL_SEND, &[at + bytes * i, bytes, OF_BYTES, 1, i, WORLD])
                };
                let receive = |script: Script, i: u64| {
                    script
                        .call(GMPI_CALL_IRECV, &[there + 300 * i, bytes, OF_BYTES, 0, i, WORLD])
                        .request(i as u32)
                };
                let first = (0..count).fold(Script::default(), send).call(GMPI_CALL_BARRIER, &[WORLD]);
                let second = (0..count).fold(Script::default(), receive).call(GMPI_CALL_BARRIER, &[WORLD]);
                let second = second.call(call, &[count]).request(0);
                let second = if told { second.status(0) } else { second };
                let results = world.succeed(vec![first, second]);
                for i in 0..count {
                    expect(&world, 1, 8 + 300 * i as usize, &pattern(bytes, 31 * i), &format!("{what}: {i}"));
                    if told {
                        assert_eq!(results[1].status(i as usize), (0, i as i32, 0, bytes), "{what}");
                    }
                }
                world.ranks[1].gmpi.check().expect("nothing is open");
            }
        }
    }
}

#[test]
fn addresses_that_are_not_attached_are_refused_and_not_read() {
    for placement in PLACEMENTS {
        let world = World::new(2, &Config { placement, ..config() });
        let (at, end) = (world.ranks[0].at(0), world.ranks[0].at(BYTES));
        let wrong = [0, 8, end - 7, end, at - 1, at.wrapping_sub(4), u64::MAX, u64::MAX - 7, 1 << 63];
        let script = |script: Script, address: &u64| {
            let both = [*address, at, both(8, 8), both(OF_BYTES, OF_BYTES), both(1, 1), 0, WORLD];
            script
                .call(GMPI_CALL_SEND, &[*address, 8, OF_BYTES, 1, 0, WORLD])
                .call(GMPI_CALL_RECV, &[*address, 8, OF_BYTES, 1, 0, WORLD])
                .call(GMPI_CALL_SENDRECV, &both)
                .call(GMPI_CALL_ISEND, &[*address, 8, OF_BYTES, 1, 0, WORLD])
                .call(GMPI_CALL_WAIT, &[])
        };
        let results = world.run(vec![wrong.iter().fold(Script::default(), script), Script::default()]);
        let each = [GMPI_ERR_BUFFER, GMPI_ERR_BUFFER, GMPI_ERR_BUFFER, 0, GMPI_ERR_BUFFER];
        assert_eq!(results[0].errors(0), each.repeat(wrong.len()), "{placement:?}");
    }
}

#[test]
fn memory_beyond_what_kernels_know_is_the_daemons_to_read() {
    let world = World::new(2, &config());
    let more: Vec<_> = (0..GMPI_RANGES + 3)
        .map(|i| {
            let memory = std::sync::Arc::new(world.ranks[0].processor.alloc(64).expect("memory"));
            memory.write_u64s(0, &[1000 + u64::from(i)]).expect("in range");
            world.ranks[0].gmpi.attach(&memory).expect("attached");
            memory
        })
        .collect();
    let there = world.ranks[1].at(0);
    let send = |script: Script, memory: &std::sync::Arc<ggas::kernels::KernelMem>| {
        script.call(GMPI_CALL_SEND, &[memory.address(), 1, LONG, 1, 0, WORLD])
    };
    let receive =
        |script: Script, i: u64| script.call(GMPI_CALL_RECV, &[there + 8 * i, 1, LONG, 0, 0, WORLD]);
    let second = (0..more.len() as u64).fold(Script::default(), receive);
    world.succeed(vec![more.iter().fold(Script::default(), send), second]);
    let came = world.ranks[1].memory.read_u64s(0, more.len()).expect("in range");
    assert!(came.iter().copied().eq(1000..1000 + more.len() as u64), "{came:?}");
}

#[test]
fn all_callers_see_what_came_as_their_call_returns() {
    for placement in PLACEMENTS {
        let world = World::new(2, &Config { placement, ..config() });
        let (at, there) = (world.ranks[0].at(0), world.ranks[1].at(0));
        for (scope, threads) in [(SELFTEST_PUT_BLOCK, 256), (SELFTEST_PUT_BLOCK, 7), (SELFTEST_PUT_WARP, 64)]
        {
            let rounds = 30;
            let send = |script: Script, i: u64| {
                script
                    .call(SELFTEST_GMPI_FILL, &[at, 25, 100 * i])
                    .call(GMPI_CALL_SEND, &[at, 25, LONG, 1, 0, WORLD])
            };
            let see = |script: Script, i: u64| {
                script.call(SELFTEST_GMPI_SEE, &[there, 25, 0, 0, 0, WORLD, 100 * i])
            };
            let first = (0..rounds).fold(Script::default(), send).scope(scope);
            let second = (0..rounds).fold(Script::default(), see).scope(scope);
            world.succeed_in(vec![first, second], threads);
        }
    }
}

#[test]
fn persistent_receives_and_requests_in_one_place_bring_short_messages_too() {
    let world = World::new(2, &config());
    let (at, there) = (world.ranks[0].at(0), world.ranks[1].at(0));
    let mut first = Script::default()
        .call(SELFTEST_GMPI_FILL, &[at, 4, 40])
        .call(GMPI_CALL_SEND_INIT, &[at, 1, LONG, 1, 1, WORLD])
        .request(0);
    let mut second = Script::default().call(GMPI_CALL_RECV_INIT, &[there, 1, LONG, 0, 1, WORLD]).request(0);
    for round in 0..3 {
        first = first.call(SELFTEST_GMPI_FILL, &[at, 1, round]);
        for script in [&mut first, &mut second] {
            *script = script.clone().call(GMPI_CALL_START, &[]).call(GMPI_CALL_WAIT, &[]);
        }
        let save = [there, 1, LONG, 1, 5, WORLD];
        let to = [there + 80 + 8 * round, 1, LONG, 1, 5, WORLD];
        second = second
            .call(GMPI_CALL_IRECV, &to)
            .request(1)
            .call(GMPI_CALL_SEND, &save)
            .call(GMPI_CALL_WAIT, &[])
            .request(1);
    }
    let tagged = |tag: u64, to: u64| [to, 1, LONG, 0, tag, WORLD];
    second = second
        .call(GMPI_CALL_REQUEST_FREE, &[])
        .request(0)
        .call(GMPI_CALL_IRECV, &tagged(2, there + 8))
        .request(2)
        .call(GMPI_CALL_IRECV, &tagged(3, there + 16))
        .request(2)
        .call(GMPI_CALL_WAIT, &[])
        .request(2);
    first = first
        .call(GMPI_CALL_REQUEST_FREE, &[])
        .request(0)
        .call(GMPI_CALL_SEND, &[at + 16, 1, LONG, 1, 3, WORLD])
        .call(GMPI_CALL_SEND, &[at + 8, 1, LONG, 1, 2, WORLD]);
    world.succeed(vec![first, second]);
    let memory = &world.ranks[1].memory;
    assert_eq!(memory.read_u64s(8, 2).expect("in range"), [41, 42], "both of one place");
    assert_eq!(memory.read_u64s(80, 3).expect("in range"), [0, 1, 2], "each start");
}

//! Collectives and communicators.

use ggas_gmpi::layout::*;
use ggas_gmpi::{Comm, GmpiError};
use ggas_selftest::args::*;

use crate::rooted::Member;
use crate::world::*;

#[test]
fn collectives_of_every_size() {
    for size in [1, 2, 3, 4, 5] {
        let world = World::new(size, &config());
        // Longer than a frame, and not a whole number of them.
        let count = 1300u64;
        let script = |rank: usize| {
            let (from, to) = (world.ranks[rank].at(0), world.ranks[rank].at(BYTES / 2));
            Script::default()
                .call(SELFTEST_GMPI_FILL, &[from, count, 1000 * rank as u64])
                .call(GMPI_CALL_BARRIER, &[WORLD])
                .call(GMPI_CALL_ALLREDUCE, &[from, to, count, LONG, GMPI_SUM.into(), WORLD])
                .call(GMPI_CALL_REDUCE, &[from, to + 16384, 5, LONG, GMPI_MAX.into(), size as u64 - 1, WORLD])
                .call(GMPI_CALL_ALLGATHER, &[from, 3, LONG, to + 32768, 3, LONG, WORLD])
                .call(GMPI_CALL_ALLTOALL, &[from, 2, LONG, to + 65536, 2, LONG, WORLD])
                .call(GMPI_CALL_BCAST, &[from, count, LONG, size as u64 / 2, WORLD])
                .call(
                    GMPI_CALL_ALLREDUCE,
                    &[GMPI_IN_PLACE_ADDRESS.into(), from, 1, LONG, GMPI_MIN.into(), WORLD],
                )
                .call(GMPI_CALL_ALLGATHER, &[GMPI_IN_PLACE_ADDRESS.into(), 0, 0, to + 32768, 3, LONG, WORLD])
                .call(GMPI_CALL_COMM_PLACE, &[WORLD])
        };
        let results = world.succeed((0..size).map(script).collect());
        let ranks = || 0..size as u64;
        for (rank, result) in results.iter().enumerate() {
            let read = |offset, count| world.ranks[rank].memory.read_u64s(offset, count).expect("in range");
            let half = BYTES / 2;
            let sums: u64 = ranks().map(|of| 1000 * of).sum();
            assert!(
                read(half, count as usize).iter().zip(0..).all(|(sum, i)| *sum == sums + size as u64 * i),
                "{size}"
            );
            let gathered: Vec<u64> = ranks().flat_map(|of| (0..3).map(move |i| 1000 * of + i)).collect();
            assert_eq!(read(half + 32768, 3 * size), gathered);
            let exchanged: Vec<u64> =
                ranks().flat_map(|of| (0..2).map(move |i| 1000 * of + 2 * rank as u64 + i)).collect();
            assert_eq!(read(half + 65536, 2 * size), exchanged);
            assert!(
                read(0, count as usize).iter().zip(0..).all(|(got, i)| *got == 1000 * (size as u64 / 2) + i)
            );
            assert_eq!(result.value(9), rank as u32 | (size as u32) << 16);
        }
        let most = world.ranks[size - 1].memory.read_u64s(BYTES / 2 + 16384, 5).expect("in range");
        assert!(most.iter().zip(1000 * (size as u64 - 1)..).all(|(got, expected)| *got == expected));
    }
}

fn member(world: &World, rank: usize, root: usize, count: u64, comm: u64) -> Member {
    Member { at: world.ranks[rank].at(0), rank, size: world.ranks.len(), root, count, comm }
}

#[test]
fn gathers_and_scatters_of_every_size_and_root() {
    for size in [1, 2, 3, 5] {
        let world = World::new(size, &config());
        // None, less than a frame, more than one.
        for (root, count) in (0..size).flat_map(|root| [0, 3, 1300].map(|count| (root, count))) {
            let members = || (0..size).map(|rank| member(&world, rank, root, count, WORLD));
            world.succeed(members().map(|member| member.script(true)).collect());
            for member in members() {
                let memory = &world.ranks[member.rank].memory;
                member.check(true, |offset, count| memory.read_u64s(offset, count).expect("in range"));
            }
        }
    }
}

#[test]
fn what_is_wrong_with_a_gather_or_scatter_is_told_before_others_wait() {
    let world = World::new(2, &config());
    let (at, to, long) = (world.ranks[0].at(0), world.ranks[0].at(BYTES / 2), LONG);
    let in_place = u64::from(GMPI_IN_PLACE_ADDRESS);
    let none = -1i64 as u64;
    for call in [GMPI_CALL_GATHER, GMPI_CALL_SCATTER] {
        // By the root: its own block differs from the others'.
        let mut wrong = vec![
            ([at, 2, long, to, 3, long, 0, WORLD], GMPI_ERR_COUNT),
            ([at, none, long, to, none, long, 0, WORLD], GMPI_ERR_COUNT),
            ([at, 2, 9, to, 2, 9, 0, WORLD], GMPI_ERR_TYPE),
            ([at, 2, long, to, 2, long, 2, WORLD], GMPI_ERR_ROOT),
            ([at, 2, long, to, 2, long, none, WORLD], GMPI_ERR_ROOT),
            ([at, 2, long, to, 2, long, 0, 99], GMPI_ERR_COMM),
        ];
        // Two blocks do not fit; elsewhere than at the root nothing is in place.
        let end = world.ranks[0].at(BYTES - 24);
        wrong.push(match call {
            GMPI_CALL_GATHER => ([at, 2, long, end, 2, long, 0, WORLD], GMPI_ERR_BUFFER),
            _ => ([end, 2, long, to, 2, long, 0, WORLD], GMPI_ERR_BUFFER),
        });
        wrong.push(match call {
            GMPI_CALL_GATHER => ([in_place, 2, long, to, 2, long, 1, WORLD], GMPI_ERR_BUFFER),
            _ => ([at, 2, long, in_place, 2, long, 1, WORLD], GMPI_ERR_BUFFER),
        });
        let script = wrong.iter().fold(Script::default(), |script, (call_of, _)| script.call(call, call_of));
        let results = world.run(vec![script, Script::default()]);
        let expected: Vec<u32> = wrong.iter().map(|(_, error)| *error).collect();
        assert_eq!(results[0].errors(0), expected, "call {call}");
    }
}

#[test]
fn communicators_that_the_host_made_are_worlds_of_their_own_until_they_are_freed() {
    let world = World::new(4, &config());
    // Odd and even ranks, in reverse.
    let made = world.all(|gmpi, rank| gmpi.split(Comm::WORLD, Some(rank as u32 % 2), -(rank as i32)));
    let comms: Vec<u64> = made.into_iter().map(|made| made.expect("all came").expect("in one").0).collect();
    let script = |rank: usize| {
        let (from, to, comm) = (world.ranks[rank].at(0), world.ranks[rank].at(64), comms[rank]);
        let other = u64::from(rank >= 2);
        Script::default()
            .call(SELFTEST_GMPI_FILL, &[from, 1, 1 << rank])
            .call(GMPI_CALL_COMM_PLACE, &[comm])
            .call(GMPI_CALL_ALLREDUCE, &[from, to, 1, LONG, GMPI_SUM.into(), comm])
            .call(GMPI_CALL_IRECV, &[to + 8, 1, LONG, other, 3, comm])
            .request(0)
            .call(GMPI_CALL_ISEND, &[from, 1, LONG, other, 3, comm])
            .request(1)
            .call(GMPI_CALL_WAITALL, &[2])
            .status(0)
    };
    let results = world.succeed((0..4).map(script).collect());
    for (rank, result) in results.iter().enumerate() {
        let place = u32::from(rank < 2);
        assert_eq!(result.value(1), place | 2 << 16, "rank {rank} is {place} of 2");
        let words = world.ranks[rank].memory.read_u64s(64, 2).expect("in range");
        let other = (rank + 2) % 4;
        assert_eq!(words, [(1 << rank) + (1 << other), 1 << other]);
        assert_eq!(result.status(0).0, i32::from(rank >= 2));
    }
    world.all(|gmpi, rank| gmpi.free(Comm(comms[rank])).expect("it was there"));
    let freed =
        world.run((0..4).map(|rank| Script::default().call(GMPI_CALL_BARRIER, &[comms[rank]])).collect());
    assert!(freed.iter().all(|result| result.errors(0) == [GMPI_ERR_COMM]));
    for kept in [Comm::WORLD, Comm(GMPI_COMM_SELF.into())] {
        let error = world.ranks[0].gmpi.free(kept).unwrap_err();
        assert!(matches!(error, GmpiError::Kept) && error.to_string().contains("cannot be freed"), "{error}");
    }
    assert!(matches!(world.ranks[0].gmpi.free(Comm(0)), Err(GmpiError::Failed { .. })), "none");
    let none =
        world.all(|gmpi, rank| gmpi.split(Comm::WORLD, (rank == 1).then_some(0), 0).expect("all came"));
    assert_eq!(none.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true, false, false]);
}

#[test]
fn a_copy_of_a_communicator_keeps_its_messages_apart() {
    let world = World::new(2, &config());
    let reversed = world.all(|gmpi, rank| {
        gmpi.split(Comm::WORLD, Some(0), -(rank as i32)).expect("all came").expect("in it")
    });
    let copies = world.all(|gmpi, rank| gmpi.dup(reversed[rank]).expect("all came").0);
    let at = |rank: usize, offset| world.ranks[rank].at(offset);
    // In both, rank 1 of the world is rank 0. What was sent first comes last.
    let first = Script::default()
        .call(SELFTEST_GMPI_FILL, &[at(0, 0), 2, 5])
        .call(GMPI_CALL_SEND, &[at(0, 0), 1, LONG, 0, 3, reversed[0].0])
        .call(GMPI_CALL_SEND, &[at(0, 8), 1, LONG, 0, 3, copies[0]])
        .call(GMPI_CALL_COMM_PLACE, &[copies[0]]);
    let second = Script::default()
        .call(GMPI_CALL_RECV, &[at(1, 0), 1, LONG, 1, 3, copies[1]])
        .call(GMPI_CALL_RECV, &[at(1, 8), 1, LONG, 1, 3, reversed[1].0]);
    let results = world.succeed(vec![first, second]);
    assert_eq!(results[0].value(3), 1 | 2 << 16);
    assert_eq!(world.ranks[1].memory.read_u64s(0, 2).expect("in range"), [6, 5]);
    // It does not end with the other one.
    world.all(|gmpi, rank| gmpi.free(reversed[rank]).expect("it was there"));
    world.succeed((0..2).map(|rank| Script::default().call(GMPI_CALL_BARRIER, &[copies[rank]])).collect());
    assert!(matches!(world.ranks[0].gmpi.dup(reversed[0]), Err(GmpiError::Failed { .. })));
}

#[test]
fn all_leave_together() {
    let world = World::new(3, &config());
    std::thread::scope(|scope| {
        for rank in world.ranks {
            scope.spawn(move || rank.gmpi.close().expect("all came"));
        }
    });
}

#[test]
fn counts_that_differ_are_an_error_and_the_communicator_goes_on() {
    for size in 2..5 {
        let world = World::new(size, &config());
        let comms = world.all(|gmpi, rank| {
            gmpi.split(Comm::WORLD, Some(0), -(rank as i32)).expect("all came").expect("in it").0
        });
        // Short ones in the rings, one frame, two frames.
        for (few, many) in [(1, 2), (10, 20), (30, 500), (600, 700)] {
            let script = |rank: usize| {
                let count = if rank == 1 { few } else { many };
                let (from, to) = (world.ranks[rank].at(0), world.ranks[rank].at(BYTES / 2));
                let sum = u64::from(GMPI_SUM);
                Script::default()
                    .call(GMPI_CALL_ALLREDUCE, &[from, to, count, LONG, sum, comms[rank]])
                    .call(SELFTEST_GMPI_FILL, &[from, 1, 7])
                    .call(GMPI_CALL_ALLREDUCE, &[from, to, 1, LONG, sum, comms[rank]])
            };
            let results = world.run((0..size).map(script).collect());
            let errors: Vec<_> = results.iter().map(|result| result.errors(0)).collect();
            assert!(errors.iter().any(|errors| errors[0] == GMPI_ERR_TRUNCATE), "{few} {many}: {errors:?}");
            assert!(
                errors.iter().all(|errors| errors[0] == 0 || errors[0] == GMPI_ERR_TRUNCATE),
                "{errors:?}"
            );
            assert!(errors.iter().all(|errors| errors[2] == 0), "{errors:?}");
            for rank in &world.ranks {
                assert_eq!(rank.memory.read_u64s(BYTES / 2, 1).expect("in range"), [7 * size as u64]);
            }
        }
    }
}

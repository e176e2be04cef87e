//! Allreduces and barriers from kernel to kernel, without the daemon.

use std::time::Duration;

use ggas_gmpi::layout::*;
use ggas_gmpi::{Comm, Config, Direct};
use ggas_selftest::args::*;

use crate::direct::{SMALL, direct, direct_with, without_daemons};
use crate::rooted::Member;
use crate::world::*;

/// Types, and whether they have signs or are floats.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Signed,
    Unsigned,
    Float,
}

const TYPES: [(u32, Kind); 13] = [
    (GMPI_CHAR, Kind::Signed),
    (GMPI_SIGNED_CHAR, Kind::Signed),
    (GMPI_UNSIGNED_CHAR, Kind::Unsigned),
    (GMPI_SHORT, Kind::Signed),
    (GMPI_UNSIGNED_SHORT, Kind::Unsigned),
    (GMPI_INT, Kind::Signed),
    (GMPI_UNSIGNED, Kind::Unsigned),
    (GMPI_LONG, Kind::Signed),
    (GMPI_UNSIGNED_LONG, Kind::Unsigned),
    (GMPI_LONG_LONG, Kind::Signed),
    (GMPI_UNSIGNED_LONG_LONG, Kind::Unsigned),
    (GMPI_FLOAT, Kind::Float),
    (GMPI_DOUBLE, Kind::Float),
];

/// The operation as MPI says it is; a float's values are whole and small.
fn one(op: u32, kind: Kind, bits: u32, a: u64, b: u64) -> u64 {
    let value = |x: u64| match kind {
        Kind::Signed => i128::from((x << (64 - bits)) as i64 >> (64 - bits)),
        Kind::Unsigned => i128::from(x),
        Kind::Float if bits == 32 => f32::from_bits(x as u32) as i128,
        Kind::Float => f64::from_bits(x) as i128,
    };
    let (a, b) = (value(a), value(b));
    let result = match op {
        GMPI_MAX => a.max(b),
        GMPI_MIN => a.min(b),
        GMPI_SUM => a + b,
        GMPI_PROD => a * b,
        GMPI_LAND => i128::from(a != 0 && b != 0),
        GMPI_LOR => i128::from(a != 0 || b != 0),
        GMPI_LXOR => i128::from((a != 0) != (b != 0)),
        GMPI_BAND => a & b,
        GMPI_BOR => a | b,
        _ => a ^ b,
    };
    match kind {
        Kind::Float if bits == 32 => (result as f32).to_bits().into(),
        Kind::Float => (result as f64).to_bits(),
        _ => result as u64 & (u64::MAX >> (64 - bits)),
    }
}

fn element(kind: Kind, bits: u32, rank: usize, i: usize) -> u64 {
    // No zeros of floats, which have signs.
    let number = (i * 5 + rank * 3 + 1) % 7 + usize::from(kind == Kind::Float);
    let signed = if (i + rank).is_multiple_of(2) { number as i64 } else { -(number as i64) };
    match kind {
        Kind::Float if bits == 32 => (signed as f32).to_bits().into(),
        Kind::Float => (signed as f64).to_bits(),
        Kind::Signed => signed as u64 & (u64::MAX >> (64 - bits)),
        Kind::Unsigned => number as u64,
    }
}

#[test]
fn every_operation_on_every_type_without_the_daemons() {
    for (size, scope) in [(3, SELFTEST_PUT_BLOCK), (2, SELFTEST_PUT_WARP), (2, SELFTEST_PUT_THREAD)] {
        let world = World::new(size, &config());
        let comm = direct(&world, 1, SMALL);
        for (of, kind) in TYPES {
            let (width, bits) = ((of & GMPI_TYPE_SIZE_MASK) as usize, 8 * (of & GMPI_TYPE_SIZE_MASK));
            let last = if kind == Kind::Float { GMPI_PROD } else { GMPI_BXOR };
            let ops: Vec<u32> = (GMPI_MAX..=last).collect();
            // As many as fit, and odd numbers of them.
            let counts: Vec<usize> = ops.iter().map(|op| [1, 256 / width, 3, 17][*op as usize % 4]).collect();
            let lies = |rank: usize| {
                let data: Vec<u8> = (0..256)
                    .flat_map(|i| element(kind, bits, rank, i).to_ne_bytes()[..width].to_vec())
                    .collect();
                world.ranks[rank].memory.write(0, &data).expect("in range");
                world.ranks[rank].memory.write(8192, &[0xee; 16 * 512]).expect("in range");
            };
            (0..size).for_each(lies);
            let script = |rank: usize| {
                let at = |offset: usize| world.ranks[rank].at(offset);
                let to = |op: u32| at(8192 + 512 * op as usize);
                ops.iter().zip(&counts).fold(Script::default(), |script, (op, count)| {
                    let call = [at(0), to(*op), *count as u64, of.into(), (*op).into(), comm];
                    script.call(GMPI_CALL_ALLREDUCE, &call)
                })
            };
            let scripts = (0..size).map(|rank| script(rank).scope(scope)).collect();
            without_daemons(&world, || world.succeed_in(scripts, 64));
            for (op, count) in ops.iter().zip(counts) {
                let expected: Vec<u8> = (0..count)
                    .flat_map(|i| {
                        let of_rank = |rank| element(kind, bits, rank, i);
                        let sum = (1..size).map(of_rank).fold(of_rank(0), |a, b| one(*op, kind, bits, a, b));
                        sum.to_ne_bytes()[..width].to_vec()
                    })
                    .collect();
                for rank in &world.ranks {
                    let mut came = vec![0; 512];
                    rank.memory.read(8192 + 512 * *op as usize, &mut came).expect("in range");
                    assert_eq!(came[..expected.len()], expected, "type {of:x}, operation {op}, {count}");
                    assert!(came[expected.len()..].iter().all(|byte| *byte == 0xee), "nothing behind it");
                }
            }
        }
    }
}

#[test]
fn a_last_warp_with_fewer_lanes_than_members_takes_the_same_way() {
    let world = World::new(3, &config());
    let comm = direct(&world, 1, SMALL);
    // A last warp of one lane, of two, of three; the members are three.
    for threads in [33, 34, 35, 65] {
        let script = |rank: usize| {
            let at = |offset| world.ranks[rank].at(offset);
            world.ranks[rank].memory.write_u64s(0, &[rank as u64 + 1, 0]).expect("in range");
            let sum = [at(0), at(8), 1, GMPI_LONG.into(), GMPI_SUM.into(), comm];
            Script::default()
                .call(GMPI_CALL_ALLREDUCE, &sum)
                .call(GMPI_CALL_BARRIER, &[comm])
                .call(GMPI_CALL_ALLREDUCE, &sum)
        };
        without_daemons(&world, || world.succeed_in((0..3).map(script).collect(), threads));
        for rank in &world.ranks {
            assert_eq!(rank.memory.read_u64s(8, 1).expect("in range"), [6], "{threads} threads");
        }
    }
}

#[test]
fn gathers_and_scatters_of_short_blocks_without_the_daemons() {
    for (size, scope) in [(3, SELFTEST_PUT_BLOCK), (2, SELFTEST_PUT_WARP), (4, SELFTEST_PUT_THREAD)] {
        let world = World::new(size, &config());
        let comm = direct(&world, 1, SMALL);
        // The longest, and one more, which is the daemon's.
        for (root, count) in (0..size).flat_map(|root| [0, 1, 5, 32, 33].map(|count| (root, count))) {
            let member = |rank: usize| Member { at: world.ranks[rank].at(0), rank, size, root, count, comm };
            let scripts = || (0..size).map(|rank| member(rank).script(false).scope(scope)).collect();
            match count {
                33 => world.succeed_in(scripts(), 96),
                _ => without_daemons(&world, || world.succeed_in(scripts(), 96)),
            };
            for rank in 0..size {
                let memory = &world.ranks[rank].memory;
                let read = |offset, count| memory.read_u64s(offset, count).expect("in range");
                member(rank).check(false, read);
            }
        }
    }
}

#[test]
fn barriers_and_sums_in_place_go_on_and_on() {
    let world = World::new(4, &Config { ports: 2, ..config() });
    let comm = direct(&world, 2, SMALL);
    let rounds = 40;
    let script = |rank: usize, block: usize| {
        let at = world.ranks[rank].at(4096 * block);
        let start = Script::default().call(SELFTEST_GMPI_FILL, &[at, 3, rank as u64 + 10 * block as u64]);
        (0..rounds).fold(start, |script, round: u64| {
            let sum = [GMPI_IN_PLACE_ADDRESS.into(), at, round % 4, LONG, GMPI_MAX.into(), comm];
            let script = script.call(GMPI_CALL_ALLREDUCE, &sum);
            if round.is_multiple_of(3) { script.call(GMPI_CALL_BARRIER, &[comm]) } else { script }
        })
    };
    let scripts = (0..4).map(|rank| vec![script(rank, 0), script(rank, 1)]).collect();
    without_daemons(&world, || {
        let results = world.run_blocks(scripts, 64);
        for block in [0, 1] {
            assert!(results.iter().all(|result| result.errors(block).iter().all(|error| *error == 0)));
        }
    });
    for rank in &world.ranks {
        for block in 0..2 {
            let most = rank.memory.read_u64s(4096 * block, 3).expect("in range");
            assert_eq!(most, [0, 1, 2].map(|i| 3 + i + 10 * block as u64));
        }
    }
}

/// What does not fit on a board, and what there is no such operation for, is the daemon's.
#[test]
fn longer_sums_and_wrong_ones_are_the_daemons() {
    let world = World::new(2, &config());
    let comm = direct(&world, 1, SMALL);
    let script = |rank: usize| {
        let (from, to) = (world.ranks[rank].at(0), world.ranks[rank].at(BYTES / 2));
        let sum = |count: u64, of: u32, op: u32| [from, to, count, of.into(), op.into(), comm];
        Script::default()
            .call(SELFTEST_GMPI_FILL, &[from, 33, 100 * rank as u64])
            .call(GMPI_CALL_ALLREDUCE, &sum(33, GMPI_LONG, GMPI_SUM))
            .call(GMPI_CALL_ALLREDUCE, &sum(1, GMPI_BYTE, GMPI_SUM))
            .call(GMPI_CALL_ALLREDUCE, &sum(1, GMPI_DOUBLE, GMPI_BXOR))
            .call(GMPI_CALL_ALLREDUCE, &sum(u64::from(u32::MAX), GMPI_LONG, GMPI_SUM))
            .call(GMPI_CALL_ALLREDUCE, &sum(1, GMPI_LONG, 11))
            .call(GMPI_CALL_ALLREDUCE, &sum(1, 8, GMPI_SUM))
    };
    for (result, rank) in world.run((0..2).map(script).collect()).iter().zip(&world.ranks) {
        assert_eq!(
            result.errors(0),
            [0, 0, GMPI_ERR_OP, GMPI_ERR_OP, GMPI_ERR_COUNT, GMPI_ERR_OP, GMPI_ERR_TYPE]
        );
        let sums = rank.memory.read_u64s(BYTES / 2, 33).expect("in range");
        assert!(sums.into_iter().eq((0..33).map(|i| 100 + 2 * i)));
    }
}

#[test]
fn members_whose_calls_differ_are_told_and_go_on() {
    let world = World::new(3, &config());
    let comm = direct(&world, 1, SMALL);
    let script = |rank: usize| {
        let (from, to) = (world.ranks[rank].at(0), world.ranks[rank].at(1024));
        let sum = |count: u64, op: u32| [from, to, count, LONG, op.into(), comm];
        let blocks = |count: u64, root: u64| [from, count, LONG, to + 512, count, LONG, root, comm];
        let (gather, scatter) = (GMPI_CALL_GATHER, GMPI_CALL_SCATTER);
        // Another length, another operation; and one that all make. Of gathers another root, too, and a scatter among them.
        Script::default()
            .call(SELFTEST_GMPI_FILL, &[from, 30, 10 * rank as u64])
            .call(GMPI_CALL_ALLREDUCE, &sum(if rank == 1 { 30 } else { 2 }, GMPI_SUM))
            .call(GMPI_CALL_ALLREDUCE, &sum(2, if rank == 2 { GMPI_MAX } else { GMPI_SUM }))
            .call(GMPI_CALL_ALLREDUCE, &sum(2, GMPI_SUM))
            .call(gather, &blocks(if rank == 1 { 3 } else { 2 }, 0))
            .call(gather, &blocks(2, if rank == 2 { 1 } else { 0 }))
            .call(if rank == 0 { scatter } else { gather }, &blocks(2, 1))
            .call(scatter, &blocks(2, 2))
    };
    for (result, rank) in world.run((0..3).map(script).collect()).iter().zip(&world.ranks) {
        let differ = GMPI_ERR_TRUNCATE;
        assert_eq!(result.errors(0), [0, differ, differ, 0, differ, differ, differ, 0]);
        assert_eq!(rank.memory.read_u64s(1024, 2).expect("in range"), [30, 33]);
    }
}

#[test]
fn a_member_that_does_not_come_ends_the_wait_and_the_same_call_may_be_made_again() {
    let world = World::new(2, &Config { timeout: Duration::from_millis(1), ..config() });
    let comm = direct(&world, 1, SMALL);
    let barrier = || Script::default().call(GMPI_CALL_BARRIER, &[comm]);
    let results = world.run(vec![barrier(), Script::default()]);
    assert_eq!(results[0].errors(0), [GMPI_ERR_TIMEOUT]);
    let error = world.ranks[0].gmpi.check().expect_err("it was reported").to_string();
    assert!(error.contains("node 0") && error.contains("node 1"), "{error}");
    // Member 0's part of it lies there.
    assert_eq!(world.run(vec![Script::default(), barrier()])[1].errors(0), [0]);
    assert_eq!(world.run(vec![barrier(), Script::default()])[0].errors(0), [0]);
}

/// A message that needs its sender to go on does while that is in a sum.
#[test]
fn messages_go_on_while_their_sender_is_in_a_collective() {
    let world = World::new(2, &config());
    let comm = direct(&world, 1, SMALL);
    let (count, at) = (5000u64, |rank: usize, offset: usize| world.ranks[rank].at(offset));
    let message = |rank: usize| [at(rank, 0), count, LONG, 1 - rank as u64, 0, comm];
    let sum = |rank: usize| [at(rank, BYTES / 2), at(rank, BYTES / 2 + 8), 1, LONG, GMPI_SUM.into(), comm];
    let first = Script::default()
        .call(SELFTEST_GMPI_FILL, &[at(0, 0), count, 7])
        .call(GMPI_CALL_ISEND, &message(0))
        .request(0)
        .call(GMPI_CALL_ALLREDUCE, &sum(0))
        .call(GMPI_CALL_WAIT, &[])
        .request(0);
    let second = Script::default().call(GMPI_CALL_RECV, &message(1)).call(GMPI_CALL_ALLREDUCE, &sum(1));
    without_daemons(&world, || world.succeed(vec![first, second]));
    let came = world.ranks[1].memory.read_u64s(0, count as usize).expect("in range");
    assert!(came.into_iter().eq(7..7 + count));
}

/// Numbers begin anew, so nothing of the one before may lie there.
#[test]
fn a_later_communicator_may_have_the_same_window() {
    let world = World::new(2, &config());
    let (comm, window) = direct_with(&world, 1, SMALL, 0);
    let run = |comm: u64, base: u64| {
        let script = |rank: usize| {
            let at = |offset: usize| world.ranks[rank].at(offset);
            let message = |offset: usize| [at(offset), 3, LONG, 1 - rank as u64, 0, comm];
            Script::default()
                .call(SELFTEST_GMPI_FILL, &[at(0), 3, base + 10 * rank as u64])
                .call(GMPI_CALL_ALLREDUCE, &[at(0), at(64), 1, LONG, GMPI_SUM.into(), comm])
                .call(GMPI_CALL_SEND, &message(0))
                .call(GMPI_CALL_RECV, &message(128))
        };
        world.succeed((0..2).map(script).collect());
        for (rank, of) in world.ranks.iter().zip([1, 0]) {
            assert_eq!(rank.memory.read_u64s(64, 1).expect("in range"), [2 * base + 10]);
            assert_eq!(rank.memory.read_u64s(128, 1).expect("in range"), [base + 10 * of]);
        }
    };
    run(comm, 100);
    world.all(|gmpi, _| gmpi.free(Comm(comm)).expect("it was there"));
    let mailboxes = Direct { ..SMALL };
    let comms = world.all(|gmpi, _| gmpi.direct(Comm::WORLD, &window, &mailboxes).expect("all came").0);
    run(comms[0], 5000);
}

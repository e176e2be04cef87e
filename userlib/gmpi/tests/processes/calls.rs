//! Calls that all carriers have.

use ggas_gmpi::Comm;
use ggas_gmpi::layout::*;
use ggas_selftest::args::*;

use crate::rooted::Member;
use crate::start::Here;
use crate::world::{BYTES, INT, LONG, Script, WORLD};

/// Something of everything, with the neighbours in a ring.
pub fn everything(here: &Here) {
    let (rank, size) = (u64::from(here.gmpi.rank()), u64::from(here.gmpi.size()));
    let (next, before) = ((rank + 1) % size, (rank + size - 1) % size);
    let (at, half) = (here.at(0), here.at(BYTES / 2));
    for count in [0u64, 1, 505, 30_000] {
        let script = Script::default()
            .call(SELFTEST_GMPI_FILL, &[at, count, 1000 * rank])
            .call(GMPI_CALL_IRECV, &[half, count, LONG, before, 3, WORLD])
            .request(0)
            .call(GMPI_CALL_ISEND, &[at, count, LONG, next, 3, WORLD])
            .request(1)
            .call(GMPI_CALL_WAITALL, &[2])
            .request(0)
            .status(0);
        let results = here.succeed(script);
        assert_eq!(results.status(0), (before as i32, 3, 0, 8 * count));
        assert!(here.read(BYTES / 2, count as usize).into_iter().eq(1000 * before..1000 * before + count));
    }
    let sums = here.succeed(
        Script::default()
            .call(SELFTEST_GMPI_FILL, &[at, 6, 10 * rank])
            .call(GMPI_CALL_ALLREDUCE, &[at, half, 6, LONG, GMPI_SUM.into(), WORLD])
            .call(GMPI_CALL_REDUCE, &[at, half + 64, 1, LONG, GMPI_MAX.into(), 0, WORLD])
            .call(GMPI_CALL_ALLGATHER, &[at, 1, LONG, half + 128, 1, LONG, WORLD])
            .call(GMPI_CALL_ALLTOALL, &[at, 1, LONG, half + 256, 1, LONG, WORLD])
            .call(GMPI_CALL_BCAST, &[at, 6, LONG, size - 1, WORLD])
            .call(GMPI_CALL_ALLREDUCE, &[GMPI_IN_PLACE_ADDRESS.into(), at, 1, LONG, GMPI_PROD.into(), WORLD])
            .call(GMPI_CALL_RECV, &[at, 1, INT, -2i64 as u64, 0, WORLD])
            // Behind the barrier others may have gone on.
            .call(GMPI_CALL_IPROBE, &[u64::MAX, u64::MAX, WORLD])
            .call(GMPI_CALL_BARRIER, &[WORLD]),
    );
    assert_eq!(sums.value(8), 0, "nothing is under way");
    let of = |of: u64, i| 10 * of + i;
    assert_eq!(
        here.read(BYTES / 2, 6),
        (0..6).map(|i| (0..size).map(|r| of(r, i)).sum()).collect::<Vec<u64>>()
    );
    if rank == 0 {
        assert_eq!(here.read(BYTES / 2 + 64, 1), [10 * (size - 1)]);
    }
    assert_eq!(here.read(BYTES / 2 + 128, size as usize), (0..size).map(|r| of(r, 0)).collect::<Vec<_>>());
    assert_eq!(here.read(BYTES / 2 + 256, size as usize), (0..size).map(|r| of(r, rank)).collect::<Vec<_>>());
    assert_eq!(here.read(0, 2), [of(size - 1, 0).pow(size as u32), of(size - 1, 1)]);
    later(here);
    rooted(here);
    typed(here);
    wider(here);
    wrong(here);
    others(here);
}

/// Calls on several requests, a send and a receive in one, collectives that are waited for later.
fn later(here: &Here) {
    let (rank, size) = (u64::from(here.gmpi.rank()), u64::from(here.gmpi.size()));
    let (next, before) = ((rank + 1) % size, (rank + size - 1) % size);
    let (at, half) = (here.at(0), here.at(BYTES / 2));
    let both = |first: u64, second: u64| first | second << 32;
    for count in [1u64, 600, 20_000] {
        let script = Script::default()
            .call(SELFTEST_GMPI_FILL, &[at, count, 1000 * rank])
            .call(
                GMPI_CALL_SENDRECV,
                &[at, half, both(count, count), both(LONG, LONG), both(next, before), both(4, 4), WORLD],
            )
            .status(0);
        let results = here.succeed(script);
        assert_eq!(results.status(0), (before as i32, 4, 0, 8 * count));
        assert!(here.read(BYTES / 2, count as usize).into_iter().eq(1000 * before..1000 * before + count));
    }
    let script = Script::default()
        .call(GMPI_CALL_IALLREDUCE, &[at, half, 1, LONG, GMPI_SUM.into(), WORLD])
        .request(0)
        .call(GMPI_CALL_IBARRIER, &[WORLD])
        .request(1)
        .call(GMPI_CALL_IBCAST, &[at + 64, 1, LONG, 0, WORLD])
        .request(2)
        .call(GMPI_CALL_IREDUCE, &[at, half + 64, 1, LONG, GMPI_MAX.into(), 0, WORLD])
        .request(3)
        .call(GMPI_CALL_IALLGATHER, &[at, 1, LONG, half + 128, 1, LONG, WORLD])
        .request(4)
        .call(GMPI_CALL_IALLTOALL, &[at, 1, LONG, half + 256, 1, LONG, WORLD])
        .request(5)
        .call(GMPI_CALL_WAITANY, &[6])
        .request(0)
        .call(GMPI_CALL_WAITSOME, &[6, at + BYTES as u64 - 64])
        .request(0)
        .call(GMPI_CALL_WAITALL, &[6])
        .request(0)
        .call(GMPI_CALL_TESTALL, &[6])
        .request(0)
        .call(GMPI_CALL_TESTANY, &[6])
        .request(0);
    let results = here.succeed(script);
    assert!(results.value(6) < 6 && results.value(7) >= 1);
    assert_eq!((results.value(9), results.value(10)), (1, (GMPI_UNDEFINED as u32) << 1 | 1));
    assert_eq!(here.read(BYTES / 2, 1), [(0..size).map(|rank| 1000 * rank).sum::<u64>()]);
    assert_eq!(here.read(BYTES / 2 + 128, size as usize), (0..size).map(|of| 1000 * of).collect::<Vec<_>>());
    assert_eq!(here.read(BYTES / 2 + 256, 1), [rank]);
}

/// Gathers and scatters of each root.
fn rooted(here: &Here) {
    let (rank, size, at) = (here.gmpi.rank() as usize, here.gmpi.size() as usize, here.at(0));
    for (root, count) in (0..size).flat_map(|root| [0, 1, 25, 1300].map(|count| (root, count))) {
        let member = Member { at, rank, size, root, count, comm: WORLD };
        here.succeed(member.script(true));
        member.check(true, |offset, count| here.read(offset, count));
    }
}

/// Types of kernels: columns of a matrix go into rows of another one, by calls that wait, are waited for, or are started.
fn typed(here: &Here) {
    let (rank, size) = (u64::from(here.gmpi.rank()), u64::from(here.gmpi.size()));
    let (next, before) = ((rank + 1) % size, (rank + size - 1) % size);
    let (at, half, types) = (here.at(0), here.at(BYTES / 2), here.at(BYTES - 4096));
    let both = |first: u64, second: u64| first | second << 32;
    // Two columns of so many rows of 9 longs; in frames of our messages, and longer.
    for rows in [3u64, 200, 3000] {
        let (columns, row) = (types, types + 64);
        let longs = 2 * rows as usize;
        let script = Script::default()
            .call(SELFTEST_GMPI_FILL, &[at, 9 * rows, 100_000 * rank])
            .call(SELFTEST_GMPI_FILL, &[half, 3 * 2 * rows, 7])
            .call(SELFTEST_GMPI_TYPE_VECTOR, &[columns, rows, 2, 9, LONG])
            .call(SELFTEST_GMPI_TYPE_COMMIT, &[columns])
            .call(SELFTEST_GMPI_TYPE_CONTIGUOUS, &[row, 2 * rows, LONG])
            .call(SELFTEST_GMPI_TYPE_COMMIT, &[row])
            .call(
                GMPI_CALL_SENDRECV,
                &[at + 16, half, both(1, 1), 0, both(next, before), both(6, 6), WORLD, columns],
            )
            .status(0)
            .call(GMPI_CALL_IRECV, &[half + 16 * rows, 1, row, before, 7, WORLD])
            .request(0)
            .call(GMPI_CALL_ISEND, &[at + 24, 1, columns, next, 7, WORLD])
            .request(1)
            .call(GMPI_CALL_WAITALL, &[2])
            .request(0)
            // Back into columns, every third long.
            .call(SELFTEST_GMPI_TYPE_VECTOR, &[row, 2 * rows, 1, 3, LONG])
            .call(SELFTEST_GMPI_TYPE_COMMIT, &[row])
            .call(GMPI_CALL_RECV_INIT, &[half + 32 * rows, 1, row, before, 8, WORLD])
            .request(0)
            .call(GMPI_CALL_SEND_INIT, &[at, 1, columns, next, 8, WORLD])
            .request(1)
            .call(GMPI_CALL_STARTALL, &[2])
            .request(0)
            .call(GMPI_CALL_WAITALL, &[2])
            .request(0)
            .call(GMPI_CALL_REQUEST_FREE, &[])
            .request(0)
            .call(GMPI_CALL_REQUEST_FREE, &[])
            .request(1);
        let results = here.succeed(script);
        assert_eq!(results.status(0).3, 16 * rows, "{rows} rows");
        let column = |first: u64| {
            (0..rows)
                .flat_map(move |row| [0, 1].map(|i| 100_000 * before + 9 * row + first + i))
                .collect::<Vec<u64>>()
        };
        assert_eq!(here.read(BYTES / 2, longs), column(2), "{rows} rows");
        assert_eq!(here.read(BYTES / 2 + 8 * longs, longs), column(3), "{rows} rows");
        let apart = here.read(BYTES / 2 + 16 * longs, 3 * longs);
        assert_eq!(apart.iter().copied().step_by(3).collect::<Vec<u64>>(), column(0), "{rows} rows");
        let between = (0..longs).map(|i| 3 * i + 1).take_while(|i| *i < longs);
        assert!(
            between.into_iter().all(|i| apart[i] == 7 + 2 * longs as u64 + i as u64),
            "{rows} rows: others"
        );
    }
}

/// Receives that have more room than there comes, or less: what is behind a message stays as it is.
fn wider(here: &Here) {
    let (rank, size) = (u64::from(here.gmpi.rank()), u64::from(here.gmpi.size()));
    let (next, before) = ((rank + 1) % size, (rank + size - 1) % size);
    let (at, half) = (here.at(0), here.at(BYTES / 2));
    for (room, came) in [(30_000u64, 100u64), (30_000, 29_999), (100, 3), (100, 300)] {
        let fits = came.min(room);
        let script = Script::default()
            .call(SELFTEST_GMPI_FILL, &[at, came, 1000 * rank])
            .call(SELFTEST_GMPI_FILL, &[half, room + 1, 5])
            .call(GMPI_CALL_IRECV, &[half, room, LONG, before, 9, WORLD])
            .request(0)
            // MPI forbids it to programs: here it shows whether the place was copied, and comes back as it was.
            .call(SELFTEST_GMPI_FILL, &[half + 8 * fits, room + 1 - fits, 6])
            .call(GMPI_CALL_ISEND, &[at, came, LONG, next, 9, WORLD])
            .request(1)
            .call(GMPI_CALL_WAITALL, &[2])
            .request(0)
            .status(0);
        let (results, cut) = (here.run(script), came > room);
        let error = if cut { GMPI_ERR_IN_STATUS } else { 0 };
        assert_eq!(results.errors(0), [0, 0, 0, 0, 0, error]);
        let (.., error, bytes) = results.status(0);
        let wanted = if cut { (GMPI_ERR_TRUNCATE, bytes) } else { (0, 8 * came) };
        assert_eq!((error, bytes), wanted, "{room} {came}");
        let there = here.read(BYTES / 2, room as usize + 1);
        let (message, behind) = there.split_at(fits as usize);
        let is_there = message.iter().copied().eq(1000 * before..1000 * before + fits);
        // How much of a longer message a library leaves is its own matter.
        assert!(is_there || cut && message.iter().copied().eq(5..5 + fits), "{room} {came}: {message:?}");
        assert!(behind.iter().copied().eq(6..6 + behind.len() as u64), "{room} {came}: {behind:?}");
    }
}

/// Errors of the carrier arrive as classes.
fn wrong(here: &Here) {
    // MPI forbids it, and it is what it would be elsewhere.
    let (size, at) = (u64::from(here.gmpi.size()), here.at(0));
    let script = Script::default()
        .call(SELFTEST_GMPI_FILL, &[at, 101, 5])
        .call(GMPI_CALL_ALLREDUCE, &[at + 8, at, 100, LONG, GMPI_SUM.into(), WORLD]);
    here.succeed(script);
    assert!(here.read(0, 100).into_iter().eq((0..100).map(|i| size * (6 + i))), "across");
    let (rank, at) = (u64::from(here.gmpi.rank()), here.at(0));
    let script = Script::default().call(GMPI_CALL_SEND, &[at, 1, INT, 99, 0, WORLD]);
    assert_eq!(here.run(script).errors(0), [GMPI_ERR_RANK]);
    // Two longs for a receive of one.
    let script = match rank {
        0 => Script::default().call(GMPI_CALL_SEND, &[at, 2, LONG, 1, 0, WORLD]),
        1 => Script::default().call(GMPI_CALL_RECV, &[at, 1, LONG, 0, 0, WORLD]),
        _ => Script::default(),
    };
    let errors = here.run(script).errors(0);
    if rank == 1 {
        assert_eq!(errors, [GMPI_ERR_TRUNCATE]);
    }
}

/// Communicators and windows that the host makes.
fn others(here: &Here) {
    let (rank, size) = (here.gmpi.rank(), here.gmpi.size());
    let comm = here.gmpi.split(Comm::WORLD, Some(7), -(rank as i32)).expect("all came").expect("in it");
    let place = here.succeed(Script::default().call(GMPI_CALL_COMM_PLACE, &[comm.0])).value(0);
    assert_eq!(place, (size - 1 - rank) | size << 16);
    let win = here.gmpi.window(comm, &here.memory).expect("all came");
    let (at, half) = (here.at(0), BYTES as u64 / 2);
    let next = u64::from((size - rank) % size);
    let script = Script::default()
        .call(SELFTEST_GMPI_FILL, &[at, 2000, 1000 * u64::from(rank)])
        .call(GMPI_CALL_WIN_FENCE, &[0, win.0])
        .call(GMPI_CALL_PUT, &[at, 2000, LONG, next, half, 2000, LONG, win.0])
        .call(GMPI_CALL_WIN_FENCE, &[0, win.0])
        .call(GMPI_CALL_GET, &[at + 16_000, 2000, LONG, next, half, 2000, LONG, win.0])
        .call(GMPI_CALL_WIN_FENCE, &[0, win.0]);
    here.succeed(script);
    // In the communicator rank r is the world's size - 1 - r: it puts to the one before it there, which is the next in the world.
    let put = here.read(BYTES / 2, 2000);
    let from = (0..size).find(|of| (size - *of) % size == size - 1 - rank).expect("one puts here");
    assert!(put.into_iter().eq(1000 * u64::from(from)..1000 * u64::from(from) + 2000), "puts");
    assert_eq!(here.read(16_000, 1), [1000 * u64::from(rank)], "gets");
    here.gmpi.free_window(win).expect("it was there");
    here.gmpi.free(comm).expect("it was there");
    let freed = here.run(Script::default().call(GMPI_CALL_BARRIER, &[comm.0]));
    assert_eq!(freed.errors(0), [GMPI_ERR_COMM]);
}

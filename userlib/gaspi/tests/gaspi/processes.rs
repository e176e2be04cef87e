//! Processes that communicate: each test starts itself as the ranks of a job.

use std::time::Duration;

use crate::jobs::{BLOCK, ends, job, part, pattern};
use ggas_gaspi::{Counter, Datatype, GROUP_ALL, Gaspi, GaspiError, Notice, Operation, Timeout};

/// All that was written before a notification is there, through several queues and sizes.
fn ring(gaspi: &Gaspi) {
    let (me, ranks) = (gaspi.rank(), gaspi.ranks());
    let (next, before) = ((me + 1) % ranks, (me + ranks - 1) % ranks);
    const HALF: u64 = 32 << 20;
    gaspi.segment_create(0, 2 * HALF, GROUP_ALL, BLOCK).unwrap();
    for (round, bytes) in [1u64, 7, 8, 4096, 65_537, 9 << 20, HALF].into_iter().enumerate() {
        let round = round as u64;
        gaspi.store(0, 0, &pattern(me, round, bytes as usize)).unwrap();
        let (queue, value) = ((round % 8) as u8, round as u32 + 1);
        let notice = Notice { segment: 0, id: 65_535, value };
        gaspi.write_notify(&[part(0, HALF, bytes)], &notice, next, queue).unwrap();
        assert_eq!(gaspi.queue_size(queue), Ok(1));
        assert_eq!(gaspi.notify_waitsome(0, 65_530, 6, BLOCK), Ok(Some(65_535)));
        assert_eq!(gaspi.notify_reset(0, 65_535), Ok(value));
        assert_eq!(gaspi.notify_reset(0, 65_535), Ok(0));
        let mut got = vec![0; bytes as usize];
        gaspi.load(0, HALF, &mut got).unwrap();
        assert!(got == pattern(before, round, bytes as usize), "{bytes} bytes");
        gaspi.wait(queue, BLOCK).unwrap();
        assert_eq!(gaspi.queue_size(queue), Ok(0));
        gaspi.barrier(GROUP_ALL, BLOCK).unwrap();
    }
    assert_eq!(gaspi.statistics().get(Counter::NumberOfWriteNotifys), 7);
    assert!(gaspi.state_vector().iter().all(|is_corrupt| !is_corrupt));
}

#[test]
fn notified_writes_alone() {
    job("processes::notified_writes_alone", 1, ring);
}

#[test]
fn notified_writes_of_two() {
    job("processes::notified_writes_of_two", 2, ring);
}

#[test]
fn notified_writes_of_eight() {
    job("processes::notified_writes_of_eight", 8, |gaspi| {
        let (me, ranks) = (gaspi.rank(), gaspi.ranks());
        gaspi.segment_create(0, 4096, GROUP_ALL, BLOCK).unwrap();
        for to in 0..ranks {
            gaspi.store(0, 8 * u64::from(to), &u64::from(me * 100 + to).to_ne_bytes()).unwrap();
            let notice = Notice { segment: 0, id: me.into(), value: u32::MAX };
            let own = part(8 * u64::from(to), 1024 + 8 * u64::from(me), 8);
            gaspi.write_notify(&[own], &notice, to, 3).unwrap();
        }
        let mut left: Vec<u16> = (0..ranks).collect();
        while !left.is_empty() {
            let from = gaspi.notify_waitsome(0, 0, ranks.into(), BLOCK).unwrap().unwrap();
            assert_eq!(gaspi.notify_reset(0, from), Ok(u32::MAX));
            left.retain(|rank| u32::from(*rank) != from);
            let mut value = [0; 8];
            gaspi.load(0, 1024 + 8 * u64::from(from), &mut value).unwrap();
            assert_eq!(u64::from_ne_bytes(value), u64::from(from) * 100 + u64::from(me));
        }
        gaspi.wait(3, BLOCK).unwrap();
    });
}

/// Reads, lists, notifications of reads; a queue that is full takes nothing.
#[test]
fn reads_lists_and_full_queues() {
    job("processes::reads_lists_and_full_queues", 2, |gaspi| {
        let (me, other) = (gaspi.rank(), 1 - gaspi.rank());
        gaspi.segment_create(0, 1 << 16, GROUP_ALL, BLOCK).unwrap();
        gaspi.store(0, 0, &pattern(me, 0, 4096)).unwrap();
        gaspi.barrier(GROUP_ALL, BLOCK).unwrap();
        gaspi.read(&part(8192, 0, 4096), other, 1).unwrap();
        gaspi.wait(1, BLOCK).unwrap();
        let expect = |at: u64, bytes: std::ops::Range<usize>| {
            let mut got = vec![0; bytes.len()];
            gaspi.load(0, at, &mut got).unwrap();
            assert!(got == pattern(other, 0, 4096)[bytes], "at {at}");
        };
        expect(8192, 0..4096);
        let parts = [part(16384, 1, 3), part(0, 0, 0), part(16640, 100, 200)];
        gaspi.read_notify(&parts, 0, 9, other, 2).unwrap();
        assert_eq!(gaspi.queue_size(2), Ok(3));
        assert_eq!(gaspi.notify_waitsome(0, 0, 100, BLOCK), Ok(Some(9)));
        assert_eq!(gaspi.notify_reset(0, 9), Ok(1));
        expect(16384, 1..4);
        expect(16640, 100..300);
        gaspi.wait(2, BLOCK).unwrap();
        let notice = Notice { segment: 0, id: 200, value: 1 };
        for _ in 0..1024 {
            gaspi.notify(&notice, other, 5).unwrap();
        }
        assert_eq!(gaspi.notify(&notice, other, 5), Err(GaspiError::QueueFull));
        assert_eq!(gaspi.queue_size(5), Ok(1024));
        gaspi.wait(5, BLOCK).unwrap();
        gaspi.notify(&notice, other, 5).unwrap();
        gaspi.wait(5, BLOCK).unwrap();
        assert_eq!(gaspi.queue_create(), Ok(8));
        gaspi.notify(&notice, other, 8).unwrap();
        gaspi.queue_delete(8).unwrap();
        assert_eq!(gaspi.wait(8, BLOCK), Err(GaspiError::Queue));
    });
}

/// What ran out of time goes on: a barrier, a commit, a passive message.
#[test]
fn calls_go_on_where_they_timed_out() {
    job("processes::calls_go_on_where_they_timed_out", 2, |gaspi| {
        let short = Timeout::Within(Duration::from_millis(20));
        gaspi.segment_create(0, 1 << 17, GROUP_ALL, BLOCK).unwrap();
        let group = gaspi.group_create().unwrap();
        if gaspi.rank() == 0 {
            assert_eq!(gaspi.barrier(GROUP_ALL, short), Err(GaspiError::Timeout));
            let sum = gaspi.allreduce(GROUP_ALL, &[0; 4], Operation::Sum, Datatype::Int, short);
            assert_eq!(sum, Err(GaspiError::ActiveCollective));
            // Rank 1 waits for this one, which it sees without a call of rank 1.
            gaspi.notify(&Notice { segment: 0, id: 1, value: 1 }, 1, 0).unwrap();
            gaspi.barrier(GROUP_ALL, BLOCK).unwrap();
            gaspi.store(0, 0, &pattern(0, 0, 65_535)).unwrap();
            assert_eq!(gaspi.passive_send(0, 0, 1, 65_535, Timeout::Test), Err(GaspiError::Timeout));
            gaspi.store(0, 0, &pattern(0, 1, 65_535)).unwrap();
            gaspi.notify(&Notice { segment: 0, id: 2, value: 1 }, 1, 0).unwrap();
            gaspi.passive_send(0, 0, 1, 65_535, BLOCK).unwrap();
            gaspi.group_add(group, 1).unwrap();
            assert_eq!(gaspi.group_commit(group, BLOCK), Err(GaspiError::Group));
            gaspi.group_add(group, 0).unwrap();
            assert_eq!(gaspi.group_commit(group, short), Err(GaspiError::Timeout));
            gaspi.notify(&Notice { segment: 0, id: 3, value: 1 }, 1, 0).unwrap();
            gaspi.group_commit(group, BLOCK).unwrap();
        } else {
            gaspi.notify_waitsome(0, 1, 1, BLOCK).unwrap();
            gaspi.barrier(GROUP_ALL, BLOCK).unwrap();
            assert_eq!(gaspi.notify_waitsome(0, 50, 5, short), Err(GaspiError::Timeout));
            gaspi.notify_waitsome(0, 2, 1, BLOCK).unwrap();
            assert_eq!(gaspi.passive_receive(0, 65_536, 65_535, BLOCK), Ok(0));
            assert_eq!(gaspi.passive_receive(0, 65_536, 65_535, short), Err(GaspiError::Timeout));
            let mut got = vec![0; 65_535];
            gaspi.load(0, 65_536, &mut got).unwrap();
            assert!(got == pattern(0, 0, 65_535), "the first message, once");
            gaspi.notify_waitsome(0, 3, 1, BLOCK).unwrap();
            (0..2).for_each(|rank| gaspi.group_add(group, rank).unwrap());
            gaspi.group_commit(group, BLOCK).unwrap();
        }
        gaspi.barrier(group, BLOCK).unwrap();
        gaspi.group_delete(group).unwrap();
        assert_eq!(gaspi.barrier(group, BLOCK), Err(GaspiError::Group));
        // The same id again, many times.
        for _ in 0..20 {
            assert_eq!(gaspi.group_create(), Ok(group));
            (0..2).for_each(|rank| gaspi.group_add(group, rank).unwrap());
            gaspi.group_commit(group, BLOCK).unwrap();
            let own = u64::from(gaspi.rank() + 1).to_ne_bytes();
            let all = gaspi.allreduce(group, &own, Operation::Sum, Datatype::Ulong, BLOCK).unwrap();
            assert_eq!(all, 3u64.to_ne_bytes());
            gaspi.group_delete(group).unwrap();
        }
    });
}

/// Counters that all ranks add to, and a lock by compare and swap; reductions of all sizes.
#[test]
fn atomics_and_reductions_of_eight() {
    job("processes::atomics_and_reductions_of_eight", 8, |gaspi| {
        let ranks = u64::from(gaspi.ranks());
        gaspi.segment_create(3, 64 * (1 + u64::from(gaspi.rank())), GROUP_ALL, BLOCK).unwrap();
        assert_eq!(gaspi.segment_size(3, 7), Ok(512));
        const ADDS: u64 = 50;
        for _ in 0..ADDS {
            gaspi.fetch_add(3, 8, 0, 1).unwrap();
        }
        let winners = gaspi.compare_swap(3, 16, 0, 0, u64::from(gaspi.rank()) + 1).unwrap();
        let own = if winners == 0 { i32::from(gaspi.rank()) + 1 } else { 0 };
        let won = [i32::from(winners == 0), own, -1].map(i32::to_ne_bytes).concat();
        let all = gaspi.allreduce(GROUP_ALL, &won, Operation::Sum, Datatype::Int, BLOCK).unwrap();
        let winner = gaspi.fetch_add(3, 16, 0, 0).unwrap();
        assert_eq!(all, [1, winner as i32, -8].map(i32::to_ne_bytes).concat(), "the first one stays");
        assert_eq!(gaspi.fetch_add(3, 8, 0, 0), Ok(ADDS * ranks));
        assert_eq!(gaspi.fetch_add(3, 4, 0, 0), Err(GaspiError::Unaligned));
        assert_eq!(gaspi.fetch_add(3, 64, 0, 0), Err(GaspiError::RemoteOffset));
        for count in [0usize, 1, 255] {
            let own: Vec<u8> =
                (0..count).flat_map(|i| (i as f64 + f64::from(gaspi.rank())).to_ne_bytes()).collect();
            let all = gaspi.allreduce(GROUP_ALL, &own, Operation::Max, Datatype::Double, BLOCK).unwrap();
            let expected: Vec<u8> = (0..count).flat_map(|i| (i as f64 + 7.0).to_ne_bytes()).collect();
            assert!(all == expected, "{count}");
        }
        let too_many = gaspi.allreduce(GROUP_ALL, &[0; 2048], Operation::Max, Datatype::Double, BLOCK);
        assert_eq!(too_many, Err(GaspiError::Number));
        for rank in 0..8 {
            gaspi.ping(rank, BLOCK).unwrap();
        }
    });
}

/// A rank that another one kills dies in its barrier; the other one's requests to it fail, and its queues go on.
#[test]
fn a_killed_rank_is_reported() {
    let ends = ends("processes::a_killed_rank_is_reported", 2, |gaspi| {
        gaspi.segment_create(0, 4096, GROUP_ALL, BLOCK).unwrap();
        if gaspi.rank() == 1 {
            gaspi.notify(&Notice { segment: 0, id: 0, value: 1 }, 0, 0).unwrap();
            unreachable!("killed before {:?}", gaspi.barrier(GROUP_ALL, BLOCK));
        }
        gaspi.notify_waitsome(0, 0, 1, BLOCK).unwrap();
        assert_eq!(gaspi.kill(0, BLOCK), Err(GaspiError::Rank));
        gaspi.kill(1, BLOCK).unwrap();
        while gaspi.ping(1, BLOCK).is_ok() {}
        assert_eq!(gaspi.state_vector(), [false, true]);
        gaspi.write(&part(0, 0, 8), 1, 3).unwrap();
        assert_eq!(gaspi.wait(3, BLOCK), Err(GaspiError::Failed));
        assert_eq!(gaspi.wait(3, BLOCK), Ok(()));
        assert_eq!(gaspi.barrier(GROUP_ALL, BLOCK), Err(GaspiError::Dead));
        let alone = gaspi.group_create().unwrap();
        gaspi.group_add(alone, 0).unwrap();
        gaspi.group_commit(alone, BLOCK).unwrap();
        gaspi.barrier(alone, BLOCK).unwrap();
        gaspi.write(&part(0, 8, 8), 0, 3).unwrap();
        gaspi.wait(3, BLOCK).unwrap();
    });
    if let [survivor, killed] = ends[..] {
        assert!(survivor.success() && killed.code() == Some(255), "{survivor}, {killed}");
    }
}

//! Short requests, which the poster stores itself, beside long ones, which go through the card.

use std::process::ExitStatus;
use std::time::{Duration, Instant};

use crate::jobs::{BLOCK, ends, ends_told, job, part, pattern};
use crate::signals::{say_pid, signals};
use ggas_gaspi::{Config, Datatype, GROUP_ALL, Gaspi, GaspiError, Notice, Operation, Part};
use ggas_mapping::Pattern;

fn tell(gaspi: &Gaspi, rank: u16, id: u32, value: u32) {
    gaspi.notify(&Notice { segment: 0, id, value }, rank, 0).unwrap();
}

/// What was told under this id, which nobody tells anew before it was taken.
fn told(gaspi: &Gaspi, id: u32) -> u32 {
    assert_eq!(gaspi.notify_waitsome(0, id, 1, BLOCK), Ok(Some(id)));
    gaspi.notify_reset(0, id).unwrap()
}

/// Whoever sees a notification sees all that was posted before it, by whichever way it went.
#[test]
fn short_writes_stay_behind_long_ones() {
    job("stores::short_writes_stay_behind_long_ones", 2, |gaspi| {
        const LONG: u64 = 3 << 20;
        const HALF: u64 = 4 << 20;
        let (me, other) = (gaspi.rank(), 1 - gaspi.rank());
        gaspi.segment_create(0, 2 * HALF, GROUP_ALL, BLOCK).unwrap();
        for round in 0..60u64 {
            let (is_long, value) = (round % 12 < 4, round as u32 + 1);
            let bytes = if is_long { LONG } else { 1 + 97 * round % 4000 };
            if me == 0 {
                gaspi.store(0, 0, &pattern(0, round, bytes as usize)).unwrap();
                gaspi.write(&part(0, HALF, bytes), other, 0).unwrap();
                tell(gaspi, other, 1, value);
                gaspi
                    .write_notify(&[part(0, HALF - 64, 8)], &Notice { segment: 0, id: 2, value }, other, 0)
                    .unwrap();
                gaspi.wait(0, BLOCK).unwrap();
                assert_eq!(told(gaspi, 3), value);
            } else {
                assert_eq!(told(gaspi, 1), value, "round {round}");
                let mut got = vec![0; bytes as usize];
                gaspi.load(0, HALF, &mut got).unwrap();
                assert!(got == pattern(0, round, bytes as usize), "round {round}: {bytes} bytes");
                assert_eq!(told(gaspi, 2), value);
                tell(gaspi, other, 3, value);
            }
        }
    });
}

/// Rank 1 deletes a segment and makes another one of the same size, which most likely lies where the first one did. What rank
/// 0 writes to the first one, short or long, is nowhere. The test's end bounds both, also where one of them fails.
#[test]
fn a_deleted_segment_is_not_written() {
    let ends = ends("stores::a_deleted_segment_is_not_written", 2, |gaspi| {
        const BYTES: u64 = 64 << 10;
        gaspi.segment_create(0, 2 * BYTES, GROUP_ALL, BLOCK).unwrap();
        gaspi.store(0, 0, &[0xa5; BYTES as usize]).unwrap();
        let lost = |bytes| Part { local: 0, local_offset: 0, remote: 1, remote_offset: 0, bytes };
        for round in 1..20u32 {
            if gaspi.rank() == 0 {
                assert_eq!(told(gaspi, 1), round);
                for bytes in [8, 4096, BYTES] {
                    gaspi.write(&lost(bytes), 1, 2).unwrap();
                    gaspi
                        .write_notify(&[lost(bytes)], &Notice { segment: 1, id: 4, value: 1 }, 1, 2)
                        .unwrap();
                }
                while gaspi.wait(2, BLOCK) == Err(GaspiError::Failed) {}
                // Behind them.
                gaspi.read(&part(BYTES, 0, 8), 1, 3).unwrap();
                gaspi.wait(3, BLOCK).unwrap();
                tell(gaspi, 1, 2, round);
                assert_eq!(told(gaspi, 3), round);
            } else {
                gaspi.segment_alloc(1, BYTES).unwrap();
                gaspi.segment_register(1, 0, BLOCK).unwrap();
                gaspi.segment_delete(1).unwrap();
                gaspi.segment_alloc(2, BYTES).unwrap();
                tell(gaspi, 0, 1, round);
                assert_eq!(told(gaspi, 2), round);
                let mut got = vec![1; BYTES as usize];
                gaspi.load(2, 0, &mut got).unwrap();
                assert!(got.iter().all(|byte| *byte == 0), "round {round}");
                assert_eq!(gaspi.notify_reset(2, 4), Ok(0), "round {round}");
                gaspi.segment_delete(2).unwrap();
                tell(gaspi, 0, 3, round);
            }
        }
        gaspi.barrier(GROUP_ALL, BLOCK).unwrap();
    });
    assert!(ends.iter().all(std::process::ExitStatus::success), "{ends:?}");
}

/// Rank 0 stores all the time to a segment that rank 1 deletes meanwhile; the next one at its place stays as it is.
#[test]
fn a_segment_may_be_deleted_under_stores() {
    let ends = ends("stores::a_segment_may_be_deleted_under_stores", 2, |gaspi| {
        gaspi.segment_create(0, 4096, GROUP_ALL, BLOCK).unwrap();
        gaspi.store(0, 0, &[0xa5; 4096]).unwrap();
        if gaspi.rank() == 1 {
            for round in 1..20u32 {
                gaspi.segment_alloc(1, 4096).unwrap();
                gaspi.segment_register(1, 0, BLOCK).unwrap();
                let mut got = [0; 8];
                let until = Instant::now() + Duration::from_secs(30);
                while got == [0; 8] {
                    gaspi.load(1, 4088, &mut got).unwrap();
                    assert!(Instant::now() < until, "nothing is written");
                    std::thread::yield_now();
                }
                gaspi.segment_delete(1).unwrap();
                gaspi.segment_alloc(2, 4096).unwrap();
                for _ in 0..10 {
                    let mut got = [1; 4096];
                    gaspi.load(2, 0, &mut got).unwrap();
                    assert!(got == [0; 4096], "round {round}");
                    std::thread::yield_now();
                }
                gaspi.segment_delete(2).unwrap();
            }
            tell(gaspi, 0, 1, 1);
        } else {
            let page = Part { local: 0, local_offset: 0, remote: 1, remote_offset: 0, bytes: 4096 };
            while gaspi.notify_reset(0, 1) == Ok(0) {
                match gaspi.write(&page, 1, 2) {
                    Ok(()) => {}
                    Err(GaspiError::Null) => std::thread::yield_now(),
                    Err(error) => panic!("{error}"),
                }
                while gaspi.wait(2, BLOCK) == Err(GaspiError::Failed) {}
            }
        }
        gaspi.barrier(GROUP_ALL, BLOCK).unwrap();
    });
    assert!(ends.iter().all(std::process::ExitStatus::success), "{ends:?}");
}

/// Stores to its page of rank 0's segment 1 until it is told to stop.
fn store_on(gaspi: &Gaspi) {
    const PAGE: u64 = 4096;
    let page = Part {
        local: 0,
        local_offset: 0,
        remote: 1,
        remote_offset: PAGE * u64::from(gaspi.rank()),
        bytes: PAGE,
    };
    let until = Instant::now() + Duration::from_secs(60);
    while gaspi.notify_reset(0, 1) == Ok(0) {
        assert!(Instant::now() < until, "rank 0 does not say that it is over");
        match gaspi.write(&page, 0, 2) {
            Ok(()) => {}
            Err(GaspiError::Null) => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
        while gaspi.wait(2, BLOCK) == Err(GaspiError::Failed) {}
    }
}

/// Waits until a rank has stored to its page of segment 1.
fn sees_stores_of(gaspi: &Gaspi, rank: u16) {
    let mut got = [0; 8];
    let until = Instant::now() + Duration::from_secs(30);
    while got == [0; 8] {
        gaspi.load(1, 4096 * u64::from(rank) + 4088, &mut got).unwrap();
        assert!(Instant::now() < until, "nothing is written");
        std::thread::yield_now();
    }
}

/// Segment 2 is new, and nobody knows it.
fn is_left_alone(gaspi: &Gaspi, looks: u32) {
    let bytes = gaspi.segment_size(2, gaspi.rank()).unwrap() as usize;
    for _ in 0..looks {
        let mut got = vec![1; bytes];
        gaspi.load(2, 0, &mut got).unwrap();
        assert!(got.iter().all(|byte| *byte == 0));
        std::thread::yield_now();
    }
}

/// One after the other dies while it stores to a segment that is deleted then. Nobody waits for the dead, and the next segment
/// stays as it is.
#[test]
fn who_dies_in_the_midst_of_a_store_holds_nobody_up() {
    const RANKS: u16 = 6;
    let ends = ends("stores::who_dies_in_the_midst_of_a_store_holds_nobody_up", RANKS, |gaspi| {
        gaspi.segment_create(0, 4096, GROUP_ALL, BLOCK).unwrap();
        gaspi.store(0, 0, &[0xa5; 4096]).unwrap();
        if gaspi.rank() > 0 {
            return store_on(gaspi);
        }
        for victim in 1..RANKS {
            gaspi.segment_alloc(1, 4096 * u64::from(RANKS)).unwrap();
            (victim..RANKS).for_each(|rank| gaspi.segment_register(1, rank, BLOCK).unwrap());
            sees_stores_of(gaspi, victim);
            gaspi.kill(victim, BLOCK).unwrap();
            // It would fail if it waited for the dead, who never leaves.
            gaspi.segment_delete(1).unwrap();
            gaspi.segment_alloc(2, 4096 * u64::from(RANKS)).unwrap();
            while gaspi.ping(victim, BLOCK).is_ok() {}
            is_left_alone(gaspi, 20);
            gaspi.segment_delete(2).unwrap();
        }
    });
    let wrong = |(rank, status): &(usize, std::process::ExitStatus)| status.success() != (*rank == 0);
    assert_eq!(ends.into_iter().enumerate().find(wrong), None);
}

/// Who is stopped in the midst of a store, and goes on when the segment is deleted, stores to memory that is nobody's.
#[test]
fn who_is_stopped_in_the_midst_of_a_store_harms_nobody() {
    let ends = ends("stores::who_is_stopped_in_the_midst_of_a_store_harms_nobody", 2, |gaspi| {
        gaspi.segment_create(0, 4096, GROUP_ALL, BLOCK).unwrap();
        gaspi.store(0, 0, &[0xa5; 4096]).unwrap();
        say_pid(gaspi);
        if gaspi.rank() > 0 {
            store_on(gaspi);
        } else {
            let signal = signals(gaspi);
            gaspi.segment_alloc(1, 8192).unwrap();
            gaspi.segment_register(1, 1, BLOCK).unwrap();
            sees_stores_of(gaspi, 1);
            signal("-STOP");
            gaspi.segment_delete(1).unwrap();
            gaspi.segment_alloc(2, 8192).unwrap();
            signal("-CONT");
            gaspi.ping(1, BLOCK).unwrap();
            is_left_alone(gaspi, 100);
            tell(gaspi, 1, 1, 1);
        }
        gaspi.barrier(GROUP_ALL, BLOCK).unwrap();
    });
    assert!(ends.iter().all(std::process::ExitStatus::success), "{ends:?}");
}

/// A run of two ranks, and what a trace has of it.
fn traced(name: &str, is_quiet: bool, body: fn(&Gaspi)) -> Option<Pattern> {
    let folder =
        std::env::temp_dir().join(format!("ggas-{}-{}", name.replace("::", "-"), std::process::id()));
    let is_parent = std::env::var_os("GGAS_RANK").is_none();
    if is_parent {
        std::fs::create_dir_all(&folder).unwrap();
    }
    let prefix = folder.join("run");
    let told =
        [("GGAS_TRACE", prefix.to_str().unwrap()), ("GGAS_TEST_QUIET", if is_quiet { "1" } else { "" })];
    let ends = ends_told(name, 2, &told, |_| {
        let gaspi = Gaspi::init(Config::default(), BLOCK).unwrap();
        gaspi.segment_create(0, 1 << 20, GROUP_ALL, BLOCK).unwrap();
        if std::env::var_os("GGAS_TEST_QUIET").is_some_and(|quiet| quiet.is_empty()) {
            body(&gaspi);
        }
        gaspi.barrier(GROUP_ALL, BLOCK).unwrap();
    });
    if !is_parent {
        return None;
    }
    assert!(ends.iter().all(ExitStatus::success), "{ends:?}");
    let pattern = Pattern::traced(&prefix).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    Some(pattern)
}

/// Where somebody asks, a trace has each request once, whichever way it goes.
#[test]
fn what_hosts_write_and_read_is_traced() {
    let body = |gaspi: &Gaspi| match gaspi.rank() {
        0 => {
            gaspi.write(&part(0, 0, 100), 1, 0).unwrap();
            let notice = Notice { segment: 0, id: 2, value: 7 };
            gaspi.write_notify(&[part(0, 0, 3000)], &notice, 1, 0).unwrap();
            gaspi.write(&part(0, 0, 300_000), 1, 0).unwrap();
            gaspi.read(&part(0, 400_000, 5000), 1, 0).unwrap();
            gaspi.wait(0, BLOCK).unwrap();
            gaspi.fetch_add(0, 800_000, 1, 5).unwrap();
            gaspi.passive_send(0, 0, 1, 60_000, BLOCK).unwrap();
            // None of this leaves the process.
            gaspi.write(&part(0, 0, 100), 0, 0).unwrap();
            gaspi.wait(0, BLOCK).unwrap();
        }
        _ => {
            gaspi.passive_receive(0, 500_000, 60_000, BLOCK).unwrap();
        }
    };
    let name = "stores::what_hosts_write_and_read_is_traced";
    let Some(all) = traced(name, false, body) else { return };
    let Some(quiet) = traced(name, true, body) else { return };
    let more = |from, to| all.bytes(from, to) - quiet.bytes(from, to);
    assert_eq!((more(0, 1), more(1, 0)), (100 + 3008 + 300_000 + 8 + 60_000, 5000 + 8));
    // Set-up and barrier, by whatever way: words of 8 bytes.
    assert!(quiet.bytes(0, 1) + quiet.bytes(1, 0) > 0, "barriers count");
}

/// What one rank gives another one in an allreduce, above a barrier's words.
#[test]
fn collectives_of_hosts_are_traced() {
    let body = |gaspi: &Gaspi| {
        let sums = gaspi.allreduce(
            GROUP_ALL,
            &1.5f64.to_ne_bytes().repeat(100),
            Operation::Sum,
            Datatype::Double,
            BLOCK,
        );
        assert_eq!(sums, Ok(3f64.to_ne_bytes().repeat(100)));
    };
    let name = "stores::collectives_of_hosts_are_traced";
    let Some(all) = traced(name, false, body) else { return };
    let Some(quiet) = traced(name, true, body) else { return };
    let more = |from, to| all.bytes(from, to) - quiet.bytes(from, to);
    // Two give each other all; or one leaves what it has at the hub and reads the result there.
    assert!(more(0, 1) >= 800 && more(1, 0) >= 800, "{} {}", more(0, 1), more(1, 0));
    assert!(more(0, 1) + more(1, 0) < 3 * 800, "{} {}", more(0, 1), more(1, 0));
}

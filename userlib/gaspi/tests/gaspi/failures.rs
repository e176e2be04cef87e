//! What goes wrong, or is given up halfway: each test starts itself as the ranks of a job.

use std::time::Duration;

use crate::jobs::{BLOCK, ends, ends_with, job, part, pattern};
use crate::signals::{say_pid, signals};
use ggas_gaspi::{
    Config, Datatype, GROUP_ALL, Gaspi, GaspiError, Notice, Operation, Part, QUEUES_MAX, Timeout,
};

/// Tells a rank something that it waits for by [`told`].
fn tell(gaspi: &Gaspi, rank: u16, id: u32) {
    gaspi.notify(&Notice { segment: 0, id, value: 1 }, rank, 0).unwrap();
}

fn told(gaspi: &Gaspi, id: u32) {
    assert_eq!(gaspi.notify_waitsome(0, id, 1, BLOCK), Ok(Some(id)));
    assert_eq!(gaspi.notify_reset(0, id), Ok(1));
}

/// A part of a read whose segment is gone fails the wait, wherever it stands in the request.
#[test]
fn no_lost_read_is_a_success() {
    job("failures::no_lost_read_is_a_success", 2, |gaspi| {
        gaspi.segment_create(0, 64 << 20, GROUP_ALL, BLOCK).unwrap();
        gaspi.segment_create(1, 20 << 20, GROUP_ALL, BLOCK).unwrap();
        if gaspi.rank() == 1 {
            gaspi.segment_delete(1).unwrap();
        }
        gaspi.barrier(GROUP_ALL, BLOCK).unwrap();
        if gaspi.rank() == 0 {
            let gone = |bytes| Part { local: 0, local_offset: 0, remote: 1, remote_offset: 0, bytes };
            let here = part(32 << 20, 0, 8);
            let failed = |queue| {
                assert_eq!(gaspi.wait(queue, BLOCK), Err(GaspiError::Failed), "queue {queue}");
                while gaspi.wait(queue, BLOCK) == Err(GaspiError::Failed) {}
                assert_eq!(gaspi.queue_size(queue), Ok(0));
            };
            gaspi.read_list(&[gone(8), here], 1, 1).unwrap();
            failed(1);
            gaspi.read_list(&[here, gone(8), here], 1, 2).unwrap();
            failed(2);
            gaspi.read_notify(&[gone(8)], 0, 5, 1, 3).unwrap();
            failed(3);
            // Of three transfers of the card.
            gaspi.read_list(&[gone(20 << 20), here], 1, 4).unwrap();
            failed(4);
            assert_eq!(gaspi.state_vector(), [false, true]);
            // The queues, and the notifications of those behind, are in step.
            gaspi.read_list(&[here, part(0, 1 << 20, 20 << 20)], 1, 1).unwrap();
            gaspi.wait(1, BLOCK).unwrap();
        }
    });
}

/// As many reads as all queues hold, each with a notification of the card.
#[test]
fn full_queues_of_reads_come_to_an_end() {
    job("failures::full_queues_of_reads_come_to_an_end", 2, |gaspi| {
        gaspi.segment_create(0, 1 << 16, GROUP_ALL, BLOCK).unwrap();
        gaspi.store(0, 0, &pattern(gaspi.rank(), 0, 4096)).unwrap();
        gaspi.barrier(GROUP_ALL, BLOCK).unwrap();
        let other = 1 - gaspi.rank();
        let parts: Vec<Part> = (0..255).map(|at| part(8192 + 8 * at, 8 * at, 8)).collect();
        (8..QUEUES_MAX as u8).for_each(|id| assert_eq!(gaspi.queue_create(), Ok(id)));
        for _ in 0..2 {
            for queue in 0..QUEUES_MAX as u8 {
                for _ in 0..4 {
                    gaspi.read_notify(&parts, 0, queue.into(), other, queue).unwrap();
                }
                assert_eq!(gaspi.queue_size(queue), Ok(1024));
            }
            for queue in 0..QUEUES_MAX as u8 {
                gaspi.wait(queue, BLOCK).unwrap();
            }
        }
        let mut got = vec![0; 255 * 8];
        gaspi.load(0, 8192, &mut got).unwrap();
        assert!(got == pattern(other, 0, 4096)[..255 * 8]);
    });
}

/// A member that is done with a group, and commits the next one of the same id, does not disturb one that still commits.
#[test]
fn a_commit_is_its_own_beside_the_next_one() {
    job("failures::a_commit_is_its_own_beside_the_next_one", 2, |gaspi| {
        gaspi.segment_create(0, 64, GROUP_ALL, BLOCK).unwrap();
        let soon = Timeout::Within(Duration::from_secs(20));
        let new = || {
            let group = gaspi.group_create().unwrap();
            (0..2).for_each(|rank| gaspi.group_add(group, rank).unwrap());
            group
        };
        let group = new();
        let sum = || {
            let own = u64::from(gaspi.rank() + 1).to_ne_bytes();
            let all = gaspi.allreduce(group, &own, Operation::Sum, Datatype::Ulong, soon).unwrap();
            assert_eq!(all, 3u64.to_ne_bytes());
        };
        if gaspi.rank() == 0 {
            assert_eq!(gaspi.group_commit(group, Timeout::Test), Err(GaspiError::Timeout));
            tell(gaspi, 1, 1);
            told(gaspi, 2);
            gaspi.group_commit(group, soon).unwrap();
            gaspi.group_delete(group).unwrap();
            assert_eq!(new(), group);
            gaspi.group_commit(group, soon).unwrap();
        } else {
            told(gaspi, 1);
            gaspi.group_commit(group, soon).unwrap();
            gaspi.group_delete(group).unwrap();
            assert_eq!(new(), group);
            let _ = gaspi.group_commit(group, Timeout::Test);
            // Behind the message of the commit.
            gaspi.ping(0, soon).unwrap();
            tell(gaspi, 0, 2);
            gaspi.group_commit(group, soon).unwrap();
        }
        sum();
        gaspi.barrier(GROUP_ALL, BLOCK).unwrap();
        gaspi.group_delete(group).unwrap();
        // One that was given up, and is done again with the same members.
        let group = new();
        if gaspi.rank() == 0 {
            assert_eq!(gaspi.group_commit(group, Timeout::Test), Err(GaspiError::Timeout));
            gaspi.group_delete(group).unwrap();
            assert_eq!(new(), group);
            tell(gaspi, 1, 3);
        } else {
            told(gaspi, 3);
        }
        gaspi.group_commit(group, soon).unwrap();
        sum();
    });
}

/// In each round one member comes late, and the others have given up some commits of the same members before.
#[test]
fn commits_that_were_given_up_leave_nothing_behind() {
    job("failures::commits_that_were_given_up_leave_nothing_behind", 4, |gaspi| {
        let (me, ranks) = (gaspi.rank(), gaspi.ranks());
        for round in 0..40u16 {
            let new = || {
                let group = gaspi.group_create().unwrap();
                (0..ranks).for_each(|rank| gaspi.group_add(group, rank).unwrap());
                group
            };
            if me != round % ranks {
                for _ in 0..(me + round) % 3 {
                    let group = new();
                    assert_eq!(gaspi.group_commit(group, Timeout::Test), Err(GaspiError::Timeout));
                    gaspi.group_delete(group).unwrap();
                }
            }
            gaspi.barrier(GROUP_ALL, BLOCK).unwrap();
            let group = new();
            gaspi.group_commit(group, BLOCK).unwrap();
            let own = u64::from(me + round).to_ne_bytes();
            let all = gaspi.allreduce(group, &own, Operation::Sum, Datatype::Ulong, BLOCK).unwrap();
            assert_eq!(all, (6 + 4 * u64::from(round)).to_ne_bytes());
            // Nobody waits for those that are behind.
            gaspi.group_delete(group).unwrap();
        }
    });
}

/// Whoever waits for a receiver holds up nobody who sends to another one; a message goes on where its call timed out.
#[test]
fn passive_messages_have_a_turn_for_each_receiver() {
    job("failures::passive_messages_have_a_turn_for_each_receiver", 3, |gaspi| {
        gaspi.segment_create(0, 1 << 17, GROUP_ALL, BLOCK).unwrap();
        let soon = Timeout::Within(Duration::from_secs(20));
        match gaspi.rank() {
            0 => {
                gaspi.store(0, 0, &pattern(0, 0, 65_535)).unwrap();
                std::thread::scope(|scope| {
                    let first = scope.spawn(|| gaspi.passive_send(0, 0, 1, 65_535, BLOCK));
                    // The thread has most likely begun then. Rank 2 has one message, and lets rank 1 take the other.
                    (0..200).for_each(|_| gaspi.ping(1, soon).unwrap());
                    assert_eq!(gaspi.passive_send(0, 0, 2, 100, soon), Ok(()));
                    tell(gaspi, 2, 1);
                    first.join().unwrap().unwrap();
                });
                for _ in 0..3 {
                    assert_eq!(gaspi.passive_send(0, 0, 1, 65_535, Timeout::Test), Err(GaspiError::Timeout));
                }
                tell(gaspi, 1, 2);
                gaspi.passive_send(0, 0, 1, 65_535, soon).unwrap();
            }
            1 => {
                told(gaspi, 1);
                assert_eq!(gaspi.passive_receive(0, 0, 65_535, soon), Ok(0));
                told(gaspi, 2);
                assert_eq!(gaspi.passive_receive(0, 0, 65_535, soon), Ok(0));
                assert_eq!(gaspi.passive_receive(0, 0, 65_535, Timeout::Test), Err(GaspiError::Timeout));
            }
            _ => {
                assert_eq!(gaspi.passive_receive(0, 0, 65_535, soon), Ok(0));
                told(gaspi, 1);
                tell(gaspi, 1, 1);
            }
        }
    });
}

/// All members get the same code, and nobody waits.
#[test]
fn unlike_reductions_are_refused_everywhere() {
    job("failures::unlike_reductions_are_refused_everywhere", 5, |gaspi| {
        let odd = gaspi.rank() == 3;
        let sum = |bytes: usize, operation, datatype| {
            let all = gaspi.allreduce(GROUP_ALL, &vec![1; bytes], operation, datatype, BLOCK);
            all.map_err(GaspiError::code).map(|all| all.len())
        };
        let unlike = Err(19);
        assert_eq!(sum(if odd { 2040 } else { 8 }, Operation::Sum, Datatype::Ulong), unlike);
        assert_eq!(sum(if odd { 8 } else { 2040 }, Operation::Sum, Datatype::Ulong), unlike);
        assert_eq!(sum(if odd { 0 } else { 8 }, Operation::Sum, Datatype::Ulong), unlike);
        let operation = if odd { Operation::Max } else { Operation::Min };
        assert_eq!(sum(8, operation, Datatype::Ulong), unlike);
        let datatype = if odd { Datatype::Double } else { Datatype::Long };
        assert_eq!(sum(8, Operation::Sum, datatype), unlike);
        assert_eq!(sum(2040, Operation::Sum, Datatype::Ulong), Ok(2040));
        // No whole elements.
        assert_eq!(sum(15, Operation::Sum, Datatype::Ulong), Err(20));
    });
}

#[test]
fn a_configuration_out_of_range_is_refused() {
    let alone = ends("failures::a_configuration_out_of_range_is_refused", 1, |gaspi| {
        let wide = Config { queue_num: QUEUES_MAX + 1, ..Config::default() };
        assert_eq!(Gaspi::init(wide, BLOCK).err(), Some(GaspiError::Config));
        gaspi.barrier(GROUP_ALL, BLOCK).unwrap();
    });
    assert!(alone.iter().all(std::process::ExitStatus::success), "{alone:?}");
}

/// All ranks say which rank has another value, and of which field.
#[test]
fn unequal_configurations_are_refused_everywhere() {
    let name = "failures::unequal_configurations_are_refused_everywhere";
    let ends = ends_with(name, 3, |rank| {
        let few = Config { notification_num: 8, ..Config::default() };
        let joined = Gaspi::init(if rank == 2 { few } else { Config::default() }, BLOCK);
        let text = joined.map(drop).unwrap_err().to_string();
        assert!(text.contains("rank 2") && text.contains("notification_num"), "{text}");
    });
    assert!(ends.iter().all(std::process::ExitStatus::success), "{ends:?}");
}

/// Of seven ranks one dies; all calls of the others return, also those that may take for ever.
#[test]
fn no_call_waits_for_the_dead() {
    const DEAD: u16 = 4;
    // Far beyond the time of a test: whoever waits for the dead one tells the others.
    let config = Config { failure_timeout: Duration::from_secs(3600), ..Config::default() };
    let ends = ends_with("failures::no_call_waits_for_the_dead", 7, |me| {
        let gaspi = &Gaspi::init(config, BLOCK).unwrap();
        gaspi.segment_create(0, 4096, GROUP_ALL, BLOCK).unwrap();
        gaspi.barrier(GROUP_ALL, BLOCK).unwrap();
        if me == DEAD {
            for rank in (0..7).filter(|rank| *rank != DEAD) {
                told(gaspi, rank.into());
            }
            std::process::abort();
        }
        tell(gaspi, DEAD, me.into());
        match me {
            // Nobody tells it.
            0 => assert_eq!(gaspi.notify_waitsome(0, 0, 8, Timeout::Block), Err(GaspiError::Failed)),
            1 => assert_eq!(gaspi.passive_receive(0, 0, 8, Timeout::Block), Err(GaspiError::Failed)),
            2 => assert_eq!(gaspi.passive_send(0, 0, DEAD, 8, Timeout::Block), Err(GaspiError::Failed)),
            _ => {}
        }
        // Whoever waits for the dead rank itself, and whoever waits for one of these.
        assert_eq!(gaspi.barrier(GROUP_ALL, Timeout::Block).map_err(GaspiError::code), Err(26));
        let all = gaspi.allreduce(GROUP_ALL, &[0; 8], Operation::Sum, Datatype::Ulong, Timeout::Block);
        assert_eq!(all.map_err(GaspiError::code), Err(26));
        let dead = |rank| rank == DEAD;
        assert!(gaspi.state_vector().into_iter().enumerate().all(|(rank, is)| is == dead(rank as u16)));
        // All posts are taken, and each wait comes to an end.
        for queue in 0..4 {
            gaspi.write(&part(0, 8, 8), DEAD, queue).unwrap();
            gaspi.read(&part(16, 8, 8), DEAD, queue).unwrap();
            gaspi.notify(&Notice { segment: 0, id: 0, value: 1 }, DEAD, queue).unwrap();
            assert_eq!(gaspi.wait(queue, Timeout::Block), Err(GaspiError::Failed));
            gaspi.queue_purge(queue, Timeout::Block).unwrap();
            assert_eq!(gaspi.queue_size(queue), Ok(0));
        }
        assert_eq!(gaspi.ping(DEAD, Timeout::Block), Err(GaspiError::Failed));
        assert_eq!(gaspi.segment_register(0, DEAD, Timeout::Block), Err(GaspiError::Failed));
        assert_eq!(gaspi.fetch_add(0, 0, DEAD, 1), Err(GaspiError::Failed));
        let group = gaspi.group_create().unwrap();
        (0..7).for_each(|rank| gaspi.group_add(group, rank).unwrap());
        assert_eq!(gaspi.group_commit(group, Timeout::Block), Err(GaspiError::Failed));
        gaspi.group_delete(group).unwrap();
        // Without it all goes on.
        let rest = gaspi.group_create().unwrap();
        (0..7).filter(|rank| *rank != DEAD).for_each(|rank| gaspi.group_add(rest, rank).unwrap());
        gaspi.group_commit(rest, Timeout::Block).unwrap();
        gaspi.segment_create(1, 64, rest, Timeout::Block).unwrap();
        let ones = gaspi.allreduce(rest, &1u64.to_ne_bytes(), Operation::Sum, Datatype::Ulong, BLOCK);
        assert_eq!(ones.unwrap(), 6u64.to_ne_bytes());
        gaspi.barrier(rest, BLOCK).unwrap();
    });
    let wrong =
        |(rank, status): &(usize, std::process::ExitStatus)| status.success() == (*rank == DEAD as usize);
    assert_eq!(ends.into_iter().enumerate().find(wrong), None);
}

/// What a process was asked for when it died does not come: waits that look once each end, too.
#[test]
fn reads_from_a_process_that_dies_meanwhile_fail() {
    let ends = ends("failures::reads_from_a_process_that_dies_meanwhile_fail", 2, |gaspi| {
        gaspi.segment_create(0, 64, GROUP_ALL, BLOCK).unwrap();
        say_pid(gaspi);
        if gaspi.rank() == 1 {
            told(gaspi, 1);
            return;
        }
        let signal = signals(gaspi);
        signal("-STOP");
        gaspi.read_list(&[part(8, 0, 8), part(16, 0, 8)], 1, 2).unwrap();
        assert_eq!(gaspi.wait(2, Timeout::Test), Err(GaspiError::Timeout));
        signal("-KILL");
        let until = std::time::Instant::now() + Duration::from_secs(60);
        let test = || loop {
            match gaspi.wait(2, Timeout::Test) {
                Err(GaspiError::Timeout) => assert!(std::time::Instant::now() < until, "it is waited for"),
                over => break over,
            }
        };
        assert_eq!(test(), Err(GaspiError::Failed));
        assert_eq!((test(), gaspi.queue_size(2)), (Ok(()), Ok(0)));
    });
    let wrong = |(rank, status): &(usize, std::process::ExitStatus)| status.success() == (*rank == 1);
    assert_eq!(ends.into_iter().enumerate().find(wrong), None);
}

/// A process that is stopped takes no packets, so posts to it run out of time halfway. What the card has of them is waited
/// for, and the whole comes again.
#[test]
fn posts_that_ran_out_of_time_halfway_are_waited_for() {
    job("failures::posts_that_ran_out_of_time_halfway_are_waited_for", 2, |gaspi| {
        const HALF: u64 = 32 << 20;
        gaspi.segment_create(0, 2 * HALF, GROUP_ALL, BLOCK).unwrap();
        say_pid(gaspi);
        if gaspi.rank() == 1 {
            told(gaspi, 1);
            let mut got = vec![0; HALF as usize];
            gaspi.load(0, HALF, &mut got).unwrap();
            assert!(got == pattern(0, 1, HALF as usize));
            return;
        }
        let signal = signals(gaspi);
        gaspi.store(0, 0, &pattern(0, 0, HALF as usize)).unwrap();
        signal("-STOP");
        let whole = part(0, HALF, HALF);
        let soon = Timeout::Within(Duration::from_millis(50));
        let refused = (0..1024).find_map(|_| gaspi.within(soon).write(&whole, 1, 3).err());
        assert_eq!(refused, Some(GaspiError::Timeout));
        assert_eq!(gaspi.wait(3, soon), Err(GaspiError::Timeout));
        signal("-CONT");
        gaspi.wait(3, BLOCK).unwrap();
        assert_eq!(gaspi.queue_size(3), Ok(0));
        gaspi.store(0, 0, &pattern(0, 1, HALF as usize)).unwrap();
        gaspi.write_notify(&[whole], &Notice { segment: 0, id: 1, value: 1 }, 1, 3).unwrap();
        gaspi.wait(3, BLOCK).unwrap();
    });
}

/// The one that waits for the dead one itself does not come: the others do not wait for it.
#[test]
fn a_collective_with_a_dead_member_ends_in_time() {
    let config = Config { failure_timeout: Duration::from_millis(20), ..Config::default() };
    let ends = ends_with("failures::a_collective_with_a_dead_member_ends_in_time", 4, |rank| {
        let gaspi = &Gaspi::init(config, BLOCK).unwrap();
        gaspi.segment_create(0, 64, GROUP_ALL, BLOCK).unwrap();
        match rank {
            0 => (1..3).for_each(|id| told(gaspi, id)),
            3 => std::process::abort(),
            _ => {
                assert_eq!(gaspi.barrier(GROUP_ALL, Timeout::Block), Err(GaspiError::Dead));
                tell(gaspi, 0, rank.into());
                gaspi.wait(0, BLOCK).unwrap();
            }
        }
    });
    assert!(ends.iter().enumerate().all(|(rank, status)| status.success() == (rank != 3)), "{ends:?}");
}

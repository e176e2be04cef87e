//! Verbs between processes of a job that come late, or die. Time is virtual where something is repeated or given up.

use std::time::Duration;

use crate::common::*;
use crate::processes::{die, in_job, in_job_with_death, victim};
use crate::world::{World, expect, pattern_of};
use extoll_sim::memory::HostMemory;
use ggas_clock::{Clock, Manual};
use ggas_members::{Job, JobError, PeerState};
use ggas_verbs::*;

/// How long a queue pair with `timeout` 14 waits for an answer.
const PATIENCE: Duration = Duration::from_nanos(4096 << 14);

fn write_work(id: u64, end: &End, remote: &RemoteRegion) -> SendWork {
    let write = Operation::Write { address: remote.address + INTO, rkey: remote.rkey, immediate: None };
    SendWork::new(id, write, Sges::one(end.mr.address(), 1000, end.mr.lkey()))
}

/// Rank 0's time is virtual, so what is repeated, and when patience ends, does not depend on the machine.
fn late(job: &Job) {
    let (clock, time) = Manual::new();
    let memory = HostMemory::new();
    let null = std::fs::File::open("/dev/null").unwrap();
    let fd = std::os::fd::AsFd::as_fd(&null);
    if job.rank() == 0 {
        let error =
            network_across(job, &memory, clock.clone(), Duration::from_millis(1)).err().expect("alone");
        assert!(
            matches!(&error, VerbsError::Job(JobError::Timeout { waiting_for, .. }) if waiting_for == &[1])
        );
        job.send_fds(1, 7, &[fd], SOON).unwrap();
    } else {
        job.recv_fds(0, 7, SOON).unwrap();
    }
    let clock = if job.rank() == 0 { clock } else { Clock::real() };
    let network = network_across(job, &memory, clock, SOON).unwrap();
    let connect = Connect { mtu: Mtu::B256, ..Connect::default() };
    let world = World { connect, ..World::on(job, network, memory) };
    let end = world.end(Format::Mlx5, Placement::Host);
    let told = world.tell(&[&end.qp], &end.mr);
    let (endpoints, remote) = &told[1 - job.rank() as usize];
    if job.rank() == 0 {
        end.qp.connect(&endpoints[0], world.connect).unwrap();
        end.qp.post_send(&write_work(1, &end, remote)).unwrap();
        while world.network.step() {}
        world.barrier();
        world.barrier();
        assert!(!world.network.step() && end.send.poll().unwrap().is_none(), "nobody heard it");
        time.advance(PATIENCE);
        let done = world.completed(&end.send);
        assert_eq!((done.id, done.status), (1, Status::Success));
        world.barrier();
    } else {
        world.barrier();
        // The packets have come, to a queue pair that is not ready.
        assert!(world.network.step());
        while world.network.step() {}
        end.qp.connect(&endpoints[0], world.connect).unwrap();
        let _running = world.run();
        world.barrier();
        world.barrier();
        expect(&end, 1, INTO as usize, &pattern_of(0)[..1000], "repeated");
    }
}

#[test]
fn who_opens_late_gets_what_was_sent_to_it_again() {
    in_job("ends::who_opens_late_gets_what_was_sent_to_it_again", (2, 1), late);
}

#[test]
fn who_has_no_socket_has_the_others_fail_at_once() {
    in_job("ends::who_has_no_socket_has_the_others_fail_at_once", (3, 1), |job| {
        if job.rank() == 1 {
            // As network_across says it.
            job.exchange(&[], SOON).unwrap();
        } else {
            let made = network_across(job, &HostMemory::new(), Clock::real(), 100 * SOON);
            assert!(matches!(made, Err(VerbsError::Peer(1))));
        }
    });
}

/// Rank 1 dies with a request of rank 0 unanswered; rank 0's time is virtual. Rank 2 goes on.
fn lose_one(job: &Job) {
    let (clock, time) = Manual::new();
    let world = World::join(job, if job.rank() == 0 { clock } else { Clock::real() });
    let connect = Connect { mtu: Mtu::B256, ..Connect::default() };
    let end = world.end(Format::Mlx4, Placement::Host);
    let qps: Vec<Qp> =
        (0..3).map(|_| end.pd.qp(QpAttributes::default(), &end.send, &end.receive).unwrap()).collect();
    let told = world.tell(&qps.iter().collect::<Vec<_>>(), &end.mr);
    for other in (0..3).filter(|other| *other != job.rank() as usize) {
        qps[other].connect(&told[other].0[job.rank() as usize], connect).unwrap();
    }
    world.barrier();
    if Some(job.rank()) == victim() {
        // Nobody runs its adapters, so nothing is answered.
        world.barrier();
        die();
    }
    if job.rank() == 2 {
        let _running = world.run();
        world.barrier();
        let end = std::time::Instant::now() + SOON;
        while job.state(0) == PeerState::Joined {
            assert!(std::time::Instant::now() < end, "rank 0 has no end");
            std::thread::yield_now();
        }
        return;
    }
    let remotes: Vec<RemoteRegion> = told.iter().map(|(_, region)| *region).collect();
    qps[1].post_send(&write_work(10, &end, &remotes[1])).unwrap();
    while world.network.step() {}
    world.barrier();
    assert!(matches!(job.barrier(SOON), Err(JobError::PeerLost { rank: 1 })));
    qps[1].post_send(&write_work(11, &end, &remotes[1])).unwrap();
    for retries in 0..=Reliability::default().retries {
        while world.network.step() {}
        assert_eq!(end.send.poll().unwrap().map(|done| done.id), None, "after {retries} repetitions");
        time.advance(PATIENCE);
    }
    let ended = [0, 1].map(|_| world.completed(&end.send)).map(|done| (done.id, done.status));
    assert_eq!(ended, [(10, Status::RetryExceeded), (11, Status::Flushed)]);
    assert_eq!((qps[1].state(), qps[2].state()), (State::Error, State::ReadyToSend));
    assert_eq!(end.context.event(), Some(Event::QueuePairFailed(qps[1].number())));
    qps[2].post_send(&write_work(12, &end, &remotes[2])).unwrap();
    let read = Operation::Read { address: remotes[2].address + INTO, rkey: remotes[2].rkey };
    let back = Sges::one(end.mr.address() + 2000, 1000, end.mr.lkey());
    qps[2].post_send(&SendWork::new(13, read, back)).unwrap();
    for id in [12, 13] {
        let done = world.completed(&end.send);
        assert_eq!((done.id, done.status), (id, Status::Success));
    }
    expect(&end, 0, 2000, &pattern_of(0)[..1000], "written, and read again");
}

#[test]
fn requests_to_a_process_that_died_end_by_their_time_out() {
    in_job_with_death("ends::requests_to_a_process_that_died_end_by_their_time_out", 3, 1, lose_one);
}

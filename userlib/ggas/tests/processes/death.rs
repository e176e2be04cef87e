//! Processes that die or leave: the others are told at once, get what was sent, and go on.

use std::time::Duration;

use ggas::device::{LostPeer, PeerEnd};
use ggas::{Address, HostBuffer, Job, JobError, Kind, Match, PostError, RemoteRegion, Spec, WaitError};

use crate::common::{End, NOTICED, SOON, die, job, port_and_region, timed};

fn killed_last(last: u32) -> impl Fn(u32) -> End {
    move |rank| if rank == last { End::Killed } else { End::Well }
}

/// That `from`'s wait fails because rank `rank` ended so.
fn assert_lost(error: &WaitError, rank: u32, end: PeerEnd) {
    let WaitError::PeerLost { peer, .. } = error else { panic!("{error}") };
    assert_eq!((peer.rank, peer.end), (rank, end));
}

/// Rank 2 of three dies while the others wait for it, asleep.
#[test]
fn waits_that_name_a_killed_process_end_at_once_and_others_go_on() {
    let test = "death::waits_that_name_a_killed_process_end_at_once_and_others_go_on";
    job(test, 3, 1, killed_last(2), |job| {
        let (port, region) = port_and_region(&job, 4096);
        let all: Vec<Address> = job.exchange_values(&port.address(), SOON).unwrap();
        if job.rank() == 2 {
            // Both others will be asleep by then; earlier is as good.
            std::thread::sleep(Duration::from_millis(300));
            die();
        }
        let of_lost = Match::any().from(all[2]);
        let (error, took) = timed(|| port.wait_match(&of_lost, SOON).unwrap_err());
        assert_lost(&error, 2, PeerEnd::Lost);
        assert!(took < NOTICED, "{took:?}");
        assert!(error.to_string().contains("member 2 died"), "{error}");
        let (error, took) = timed(|| port.wait_match(&Match::any().from_node(2), SOON).unwrap_err());
        assert_lost(&error, 2, PeerEnd::Lost);
        assert!(took < NOTICED, "{took:?}");

        // Posts of every kind fail at once.
        let to = port.connect(all[2]);
        for error in [
            to.put(&region, 0, 4096, 0, Spec::COMPLETER).unwrap_err(),
            to.get(&region, 0, 8, 0, Spec::COMPLETER).unwrap_err(),
            to.try_notification_put(1, 2, Spec::COMPLETER).unwrap_err(),
        ] {
            let lost = LostPeer { rank: 2, node: 2, vpid: Some(all[2].vpid), end: PeerEnd::Lost };
            assert!(matches!(error, PostError::PeerLost(peer) if peer == lost), "{error}");
        }
        assert_eq!(job.lost(), [2]);
        assert!(matches!(job.barrier(SOON), Err(JobError::PeerLost { rank: 2 })));

        // A wait that names nobody keeps its timeout, and the survivors go on.
        let of_nobody = port.wait_match(&Match::any().class(99), Duration::from_millis(20));
        assert!(matches!(of_nobody, Err(WaitError::Timeout { .. })));
        let other = all[1 - job.rank() as usize];
        for round in 0..100 {
            port.connect(other).notification_put(5, round, Spec::COMPLETER).unwrap();
            assert_eq!(port.wait_match(&Match::any().from(other), SOON).unwrap().word0, round);
        }
        drop(region);
        port.close().unwrap();
    });
}

#[test]
fn what_a_process_sent_before_it_died_is_delivered() {
    let test = "death::what_a_process_sent_before_it_died_is_delivered";
    job(test, 2, 1, killed_last(1), |job| {
        const SENT: u64 = 100;
        const LEN: usize = 256 << 10;
        let (port, region) = port_and_region(&job, LEN);
        let all = job.exchange_values(&RemoteRegion::of(&region), SOON).unwrap();
        if job.rank() == 1 {
            let to = port.connect(all[0].port());
            // By reference to memory of a process that will be dead.
            region.write(0, &[0x5a; LEN]).unwrap();
            to.put(&region, 0, LEN, all[0].nla(0, LEN as u64).unwrap(), Spec::COMPLETER).unwrap();
            for i in 0..SENT {
                to.notification_put(2, i, Spec::COMPLETER).unwrap();
            }
            while port.outstanding() > 0 {
                port.progress();
            }
            die();
        }
        // It is dead, and nothing of what it sent was looked at.
        while job.lost().is_empty() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let of_lost = Match::any().from(all[1].port());
        let put = port.wait_match(&of_lost, SOON).unwrap();
        assert!(put.error().is_empty());
        assert!(crate::common::bytes(&region, 0, LEN).iter().all(|byte| *byte == 0x5a));
        for i in 0..SENT {
            assert_eq!(port.wait_match(&of_lost, SOON).unwrap().word0, i);
        }
        let error = port.wait_match(&of_lost, SOON).unwrap_err();
        assert_lost(&error, 1, PeerEnd::Lost);
    });
}

/// The peer dies at a random moment of a stream of puts by reference, in which it holds our memory.
#[test]
fn memory_that_a_killed_process_held_is_free_at_once() {
    let test = "death::memory_that_a_killed_process_held_is_free_at_once";
    job(test, 2, 1, killed_last(1), |job| {
        const LEN: usize = 1 << 20;
        let (port, region) = port_and_region(&job, LEN);
        let all = job.exchange_values(&RemoteRegion::of(&region), SOON).unwrap();
        if job.rank() == 1 {
            std::thread::spawn(|| {
                std::thread::sleep(Duration::from_millis(50));
                die();
            });
            loop {
                // The error at the end of the other side is none of this one's.
                let _ = port.wait(Duration::from_millis(1));
            }
        }
        let to = port.connect(all[1].port());
        let error = loop {
            let buffer = port.register(HostBuffer::zeroed(LEN).unwrap()).unwrap();
            buffer.write(0, &[7; LEN]).unwrap();
            let target = all[1].nla(0, LEN as u64).unwrap();
            let put = to.put(&buffer, 0, LEN, target, Spec::COMPLETER | Spec::REQUESTER);
            let (freed, took) = timed(|| buffer.unregister());
            freed.unwrap();
            assert!(took < NOTICED, "{took:?}");
            if let Err(error) = put {
                break error;
            }
            while port.poll().is_some() {}
        };
        assert!(matches!(error, PostError::PeerLost(LostPeer { rank: 1, .. })), "{error}");
        let (closed, took) = timed(|| port.close());
        closed.unwrap();
        assert!(took < NOTICED, "{took:?}");
    });
}

#[test]
fn a_process_that_left_is_said_to_have_left() {
    let test = "death::a_process_that_left_is_said_to_have_left";
    job(
        test,
        2,
        1,
        |_| End::Well,
        |job| {
            let (port, region) = port_and_region(&job, 4096);
            let all: Vec<Address> = job.exchange_values(&port.address(), SOON).unwrap();
            if job.rank() == 1 {
                let said = port.connect(all[0]).notification_put(1, 77, Spec::COMPLETER);
                said.unwrap();
                drop(region);
                port.close().unwrap();
                drop(job);
                // Gone from the job, not from the world.
                std::thread::sleep(Duration::from_millis(500));
                return;
            }
            let of_other = Match::any().from(all[1]);
            assert_eq!(port.wait_match(&of_other, SOON).unwrap().word0, 77, "its last message arrives");
            let (error, took) = timed(|| port.wait_match(&of_other, SOON).unwrap_err());
            assert_lost(&error, 1, PeerEnd::Left);
            assert!(took < NOTICED, "{took:?}");
            assert!(error.to_string().contains("has left the network"), "{error}");
            let error = port.connect(all[1]).notification_put(1, 0, Spec::COMPLETER).unwrap_err();
            assert!(matches!(error, PostError::PeerLost(LostPeer { end: PeerEnd::Left, .. })), "{error}");
            assert!(job.lost().is_empty(), "nobody was lost");
        },
    );
}

/// One of two processes of a node dies: its ports are lost, the other's are not.
#[test]
fn a_node_goes_on_with_those_of_its_processes_that_live() {
    let test = "death::a_node_goes_on_with_those_of_its_processes_that_live";
    job(test, 3, 2, killed_last(1), |job: Job| {
        let (port, region) = port_and_region(&job, 4096);
        let all = job.exchange_values(&RemoteRegion::of(&region), SOON).unwrap();
        if job.rank() == 1 {
            die();
        }
        let error = port.wait_match(&Match::any().from(all[1].port()), SOON).unwrap_err();
        assert_lost(&error, 1, PeerEnd::Lost);
        let other = all[2 - job.rank() as usize];
        let of_node = Match::any().from_node(other.port().node).kind(Kind::Completer);
        let to = port.connect(other.port());
        to.put(&region, 0, 4096, other.nla(0, 4096).unwrap(), Spec::COMPLETER).unwrap();
        port.wait_match(&of_node, SOON).unwrap();
        // The VPID of the dead stays taken.
        let next = job.node().open_port(ggas::PortConfig::default()).unwrap();
        assert_ne!(next.address(), all[1].port());
        to.notification_put(9, 0, Spec::COMPLETER).unwrap();
        port.wait_match(&Match::any().class(9), SOON).unwrap();
    });
}

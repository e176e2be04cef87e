//! Puts, gets, locks and notifications between processes.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ggas::{Address, HostBuffer, Job, Kind, Lock, LockOutcome, Match, PortConfig, RemoteRegion, Spec};

use crate::common::{SOON, bytes, job, pattern, port_and_region, well};

/// Each puts to the next and gets from the one before, from the arena and from private memory.
fn ring(job: Job) {
    const LEN: usize = 3 << 20;
    let (rank, size) = (job.rank(), job.size());
    let (next, before) = ((rank + 1) % size, (rank + size - 1) % size);
    let (port, inbox) = port_and_region(&job, LEN);
    let shared = port.register(HostBuffer::zeroed(LEN).unwrap()).unwrap();
    let private = port.register(HostBuffer::unshared(LEN).unwrap()).unwrap();
    for outbox in [&shared, &private] {
        outbox.write(0, &pattern(LEN, rank)).unwrap();
    }
    let mine = (RemoteRegion::of(&inbox), RemoteRegion::of(&shared));
    let all = job.exchange_values(&mine, SOON).unwrap();
    let (target, source) = (all[next as usize].0, all[before as usize].1);
    let to = port.connect(target.port());
    let from = Match::any().kind(Kind::Completer).puts().from(source.port());
    for outbox in [&shared, &private] {
        for (i, len) in [1, 8, 64, 65, 497, 4096, 70_001, (2 << 20) + 5].into_iter().enumerate() {
            to.put(outbox, i, len, target.nla(i as u64 * 3, len as u64).unwrap(), Spec::COMPLETER).unwrap();
            let arrived = port.wait_match(&from, SOON).unwrap();
            assert!(arrived.error().is_empty() && arrived.remote() == source.port());
            assert_eq!(bytes(&inbox, i * 3, len), pattern(LEN, before)[i..i + len], "{len} bytes");
            // The neighbour must have looked before the next put changes it.
            job.barrier(SOON).unwrap();
        }
    }
    let back = port.connect(source.port());
    for len in [1, 500, 1 << 20] {
        inbox.write(0, &vec![0; len]).unwrap();
        back.get(&inbox, 0, len, source.nla(7, len as u64).unwrap(), Spec::COMPLETER).unwrap();
        port.wait_match(&Match::any().kind(Kind::Completer).gets(), SOON).unwrap();
        assert_eq!(bytes(&inbox, 0, len), pattern(LEN, before)[7..7 + len], "got {len} bytes");
    }
    job.barrier(SOON).unwrap();
    port.close().unwrap();
}

#[test]
fn a_ring_of_nodes() {
    job("transfer::a_ring_of_nodes", 3, 1, well, ring);
}

#[test]
fn a_ring_within_one_node() {
    job("transfer::a_ring_within_one_node", 3, 3, well, ring);
}

#[test]
fn a_ring_of_two_nodes_and_one_process_alone() {
    job("transfer::a_ring_of_two_nodes_and_one_process_alone", 3, 2, well, ring);
}

#[test]
fn a_job_of_one() {
    job("transfer::a_job_of_one", 1, 1, well, ring);
}

#[test]
fn processes_of_a_node_have_ports_of_their_own() {
    job("transfer::processes_of_a_node_have_ports_of_their_own", 4, 2, well, |job| {
        let ports: Vec<_> = (0..3).map(|_| job.node().open_port(PortConfig::default()).unwrap()).collect();
        let mine: Vec<Address> = ports.iter().map(|port| port.address()).collect();
        let all = job.exchange_values(&mine, SOON).unwrap();
        let distinct: BTreeSet<Address> = all.iter().flatten().copied().collect();
        assert_eq!(distinct.len(), 12);
        assert!(all.iter().enumerate().all(|(rank, of)| of.iter().all(|a| usize::from(a.node) == rank / 2)));

        // Every port tells every other one.
        for port in &ports {
            for to in &distinct {
                port.connect(*to).notification_put(3, u64::from(to.vpid), Spec::COMPLETER).unwrap();
            }
        }
        for port in &ports {
            let mut senders = BTreeSet::new();
            for _ in 0..distinct.len() {
                let heard = port.wait_match(&Match::any().class(3), SOON).unwrap();
                assert_eq!(heard.word0, u64::from(port.address().vpid));
                senders.insert(heard.remote());
            }
            assert_eq!(senders, distinct);
        }
        job.barrier(SOON).unwrap();
        // A port that one process closes is free for another one, once packets for it are no longer on the way.
        let freed = ports[0].address();
        if job.rank() == 0 {
            ports.into_iter().for_each(|port| port.close().unwrap());
            job.barrier(SOON).unwrap();
        } else {
            job.barrier(SOON).unwrap();
            if job.rank() == 1 {
                let again = || job.node().open_port(PortConfig::default()).unwrap().address();
                let deadline = Instant::now() + SOON;
                while !all[0].contains(&again()) {
                    assert!(Instant::now() < deadline, "{freed} and others of rank 0 are free");
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
        }
        job.barrier(SOON).unwrap();
    });
}

#[test]
fn locks_count_what_all_processes_add() {
    job("transfer::locks_count_what_all_processes_add", 3, 1, well, |job| {
        const ROUNDS: i32 = 200;
        let (port, _region) = port_and_region(&job, 8);
        let all: Vec<Address> = job.exchange_values(&port.address(), SOON).unwrap();
        let lock = Lock { number: 5, compare: i32::MAX, add: 1 };
        let at_first = port.connect(all[0]);
        let mut last = 0;
        for _ in 0..ROUNDS {
            let LockOutcome { taken, value } = port.lock(&at_first, lock, SOON).unwrap();
            assert!(taken && value > last);
            last = value;
        }
        job.barrier(SOON).unwrap();
        let sum = port.lock(&at_first, Lock { compare: i32::MIN, ..lock }, SOON).unwrap();
        assert_eq!((sum.taken, sum.value), (false, 3 * ROUNDS));
        job.barrier(SOON).unwrap();
    });
}

#[test]
fn a_put_into_private_memory_of_a_process_that_only_computes_completes() {
    job("transfer::a_put_into_private_memory_of_a_process_that_only_computes_completes", 2, 1, well, |job| {
        const LEN: usize = 1 << 20;
        let port = job.node().open_port(PortConfig::default()).unwrap();
        let mut memory = vec![0u64; LEN / 8];
        let start = memory.as_mut_ptr();
        // SAFETY: the vector outlives the region and is only accessed atomically until then.
        let region = unsafe { port.register_raw(start.cast(), LEN) }.unwrap();
        let all = job.exchange_values(&RemoteRegion::of(&region), SOON).unwrap();
        if job.rank() == 0 {
            let to = port.connect(all[1].port());
            region.write(0, &pattern(LEN, 9)).unwrap();
            to.put(&region, 0, LEN, all[1].nla(0, LEN as u64).unwrap(), Spec::NONE).unwrap();
            to.immediate_put(u64::MAX, 8, all[1].nla(LEN as u64 - 8, 8).unwrap(), Spec::REQUESTER).unwrap();
            // No more calls into the library until the other one is done.
            port.wait_match(&Match::any().kind(Kind::Requester), SOON).unwrap();
        } else {
            // SAFETY: the last word of the vector, which only the card writes meanwhile.
            let last = unsafe { AtomicU64::from_ptr(start.add(LEN / 8 - 1)) };
            let started = std::time::Instant::now();
            let mut sum = 0u64;
            // Nothing of the library runs on this thread here.
            while last.load(Ordering::Acquire) != u64::MAX {
                sum = std::hint::black_box(sum.wrapping_mul(31) + 1);
                assert!(started.elapsed() < SOON, "the put did not arrive while this process computed");
            }
            let mut expected = pattern(LEN, 9);
            expected[LEN - 8..].fill(0xff);
            assert_eq!(bytes(&region, 0, LEN), expected);
        }
        job.barrier(SOON).unwrap();
        drop(region);
        port.close().unwrap();
    });
}

//! RMA engines across processes, on the CPU executor: puts, gets, locks, ends at different times, and processes that die.

use std::time::{Duration, Instant};

use crate::common::{die, in_job, in_job_with_death};
use ggas_device::engine::{EngineErrors, EngineNetwork};
use ggas_device::{HostBuffer, LostPeer, PeerEnd};
use ggas_kernels::{Processor, start};
use ggas_members::{Job, JobError};
use ggas_rma::{
    Address, ErrorUnits, Kind, Lock, Match, Node, PageOption, Path, Port, PortBase, PortConfig, PostError,
    Region, Spec, WaitError,
};
use ggas_selftest::args::selftest_rma;
use ggas_window::{WindowError, engines_across};

const SOON: Duration = Duration::from_secs(60);
const BYTES: usize = 20_000;

const CONFIG: PortConfig = PortConfig {
    queue_bytes: 64 << 10,
    segment_bytes: 64 << 10,
    path: Some(Path::Slots),
    slots: 64,
    slot_option: PageOption::TE,
    post_timeout: SOON,
    kernel_timeout: SOON,
    kernel_free_batch: 32,
    watch_page: false,
    traced: true,
};

fn network(job: &Job) -> EngineNetwork {
    engines_across(job, &Processor::cpu(), SOON).expect("a network")
}

/// A port of this process.
fn port(job: &Job, network: &EngineNetwork) -> Port {
    let device = network.device(job.rank() as usize).expect("mine");
    Node::new(device).open_port(CONFIG).expect("a port")
}

fn errors(job: &Job, network: &EngineNetwork) -> EngineErrors {
    network.engine_device(job.rank() as usize).expect("mine").errors().expect("counters")
}

fn pattern(rank: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251 + 31 * (rank + 1)) as u8).collect()
}

/// A registered region that begins with the pattern of `rank`.
fn region(port: &Port, rank: usize, len: usize) -> Region {
    let region = port.register(HostBuffer::zeroed(len).expect("memory")).expect("registered");
    region.write(0, &pattern(rank, len)).expect("in range");
    region
}

/// Where everyone's ports and regions are, by rank.
fn share(job: &Job, port: &PortBase, region: &Region) -> Vec<(Address, u64)> {
    let (Address { node, vpid }, nla) = (port.address(), region.nla(0).expect("registered"));
    let own = [u64::from(node).to_le_bytes(), u64::from(vpid).to_le_bytes(), nla.to_le_bytes()].concat();
    let all = job.exchange(&own, SOON).expect("all");
    let word =
        |bytes: &[u8], i: usize| u64::from_le_bytes(bytes[8 * i..8 * i + 8].try_into().expect("a word"));
    all.iter()
        .map(|bytes| (Address::new(word(bytes, 0) as u16, word(bytes, 1) as u8), word(bytes, 2)))
        .collect()
}

#[test]
fn puts_gets_and_locks_go_between_all_processes() {
    in_job("engines::puts_gets_and_locks_go_between_all_processes", (3, 1), |job| {
        let (network, rank) = (network(job), job.rank() as usize);
        assert_eq!((network.len(), network.local()), (3, rank..rank + 1));
        assert!(network.device((rank + 1) % 3).is_err() && network.device(3).is_err());
        let port = port(job, &network);
        // Own bytes, then a place for each peer's put, then one for each get.
        let own = region(&port, rank, 7 * BYTES);
        let all = share(job, &port, &own);
        let _running = network.run().expect("engines");
        let peers = || (0..3).filter(|peer| *peer != rank);
        for peer in peers() {
            let (there, nla) = all[peer];
            let connection = port.connect(there);
            let to = nla + ((1 + rank) * BYTES + 3) as u64;
            connection.put(&own, 1, BYTES - 100, to, Spec::COMPLETER).expect("posted");
            connection.get(&own, (4 + peer) * BYTES, BYTES, nla, Spec::COMPLETER).expect("posted");
            connection.lock(Lock { number: 5, compare: 100, add: 1 }, Spec::COMPLETER).expect("posted");
        }
        for peer in peers() {
            for command in 0..3 {
                let noti = port.wait_match(&Match::any().from(all[peer].0), SOON).expect("it comes");
                assert!(
                    noti.error().is_empty() && noti.kind() == Some(Kind::Completer),
                    "{command}: {noti:?}"
                );
            }
            let mut bytes = vec![0; BYTES];
            own.read((1 + peer) * BYTES + 3, &mut bytes[..BYTES - 100]).expect("in range");
            assert!(bytes[..BYTES - 100] == pattern(peer, BYTES)[1..BYTES - 99], "put by {peer}");
            own.read((4 + peer) * BYTES, &mut bytes).expect("in range");
            assert!(bytes == pattern(peer, BYTES), "got from {peer}");
        }
        job.barrier(SOON).expect("all");
        // Each lock was taken by both peers; the third to come sees it.
        port.connect(all[rank].0)
            .lock(Lock { number: 5, compare: 100, add: 1 }, Spec::COMPLETER)
            .expect("posted");
        assert_eq!(port.wait(SOON).expect("it comes").lock_value(), 3);
        assert_eq!(errors(job, &network), EngineErrors::default());
        job.barrier(SOON).expect("all");
    });
}

#[test]
fn several_ports_of_two_processes_keep_apart_and_in_order() {
    in_job("engines::several_ports_of_two_processes_keep_apart_and_in_order", (2, 1), |job| {
        const PORTS: usize = 5;
        const ROUNDS: u64 = 200;
        let network = network(job);
        let ports: Vec<_> = (0..PORTS).map(|_| port(job, &network)).collect();
        let _running = network.run().expect("engines");
        job.barrier(SOON).expect("all");
        let peer = 1 - job.rank() as u16;
        std::thread::scope(|scope| {
            for (i, port) in ports.iter().enumerate() {
                scope.spawn(move || {
                    let connection = port.connect(Address::new(peer, i as u8));
                    for round in 0..ROUNDS {
                        let payload = round << 8 | i as u64;
                        connection.notification_put(i as u8, payload, Spec::COMPLETER).expect("posted");
                        assert_eq!(port.wait(SOON).expect("the other's").word0, payload, "port {i}");
                    }
                });
            }
        });
        job.barrier(SOON).expect("all");
    });
}

#[test]
fn what_is_wrong_is_counted_where_it_happens() {
    in_job("engines::what_is_wrong_is_counted_where_it_happens", (2, 1), |job| {
        let network = network(job);
        let port = port(job, &network);
        let own = region(&port, 0, 4096);
        let all = share(job, &port, &own);
        let _running = network.run().expect("engines");
        job.barrier(SOON).expect("all");
        if job.rank() == 0 {
            // No command at all, no such node, and a put to memory that nobody registered.
            port.post_raw(PageOption::TE, [3 | 11 << 2 | 1 << 16 | 1 << 32, 0, 0]).expect("posted");
            let told = port.wait(SOON).expect("the requester's");
            assert!(told.error().contains(ErrorUnits::REQUESTER), "{told:?}");
            port.connect(Address::new(5, 0)).notification_put(1, 1, Spec::NONE).expect("posted");
            let connection = port.connect(all[1].0);
            connection.put(&own, 0, 100, 1 << 35, Spec::COMPLETER).expect("posted");
        } else {
            let told = port.wait(SOON).expect("the completer's");
            assert!(told.error().contains(ErrorUnits::COMPLETER), "{told:?}");
        }
        job.barrier(SOON).expect("all");
        let expected = match job.rank() {
            0 => EngineErrors { command: 1, route: 1, ..EngineErrors::default() },
            _ => EngineErrors { target: 1, received: 1, ..EngineErrors::default() },
        };
        assert_eq!(errors(job, &network), expected);
        job.barrier(SOON).expect("all");
    });
}

#[test]
fn kernels_of_two_processes_play_by_engines() {
    in_job("engines::kernels_of_two_processes_play_by_engines", (2, 1), |job| {
        const SIZE: usize = 1000;
        let (cpu, network, rank) = (Processor::cpu(), network(job), job.rank() as usize);
        let memory = std::sync::Arc::new(cpu.alloc(4096).expect("memory"));
        let result = cpu.alloc(16).expect("memory");
        let node = Node::new(network.device(rank).expect("mine"));
        let port = node.open_kernel_port(CONFIG, &cpu).expect("a port");
        let own = port.register_kernel_memory(memory.clone()).expect("registered");
        let all = share(job, &port, &own);
        let (peer, there) = all[1 - rank];
        let args = selftest_rma {
            port: port.address(),
            send: memory.address(),
            send_nla: own.nla(0).expect("registered"),
            receive: memory.address() + 2048,
            target_nla: there + 2048,
            status: result.address(),
            wrong: result.address() + 8,
            peer_node: peer.node.into(),
            peer_vpid: peer.vpid.into(),
            rounds: 30,
            bytes: SIZE as u32,
            first: u32::from(rank == 0),
            quiet: 0,
        };
        for _ in 0..2 {
            let armed = port.arm();
            // SAFETY: the arguments are this kernel's, their memory lives beyond the wait.
            let launch = unsafe { ggas_selftest::launch(&cpu, "ggas_selftest_rma", 1, 32, &args) };
            start(&[launch]).and_then(|running| running.wait(SOON)).expect("it ends");
            drop(armed);
            assert_eq!(result.read_u64s(0, 2).expect("in range"), [0, 0], "{:?}", port.report());
            job.barrier(SOON).expect("all");
        }
    });
}

#[test]
fn what_is_sent_to_an_engine_that_does_not_run_waits_for_it() {
    in_job("engines::what_is_sent_to_an_engine_that_does_not_run_waits_for_it", (2, 1), |job| {
        const PUTS: u64 = 30;
        let network = network(job);
        let port = port(job, &network);
        let own = region(&port, job.rank() as usize, 64 << 10);
        let all = share(job, &port, &own);
        if job.rank() == 0 {
            // Far more than a ring of 128 KiB takes.
            let running = network.run().expect("engines");
            let connection = port.connect(all[1].0);
            for i in 0..PUTS {
                connection.put(&own, 0, 60_000, all[1].1, Spec::REQUESTER).expect("posted");
                connection.notification_put(1, i, Spec::COMPLETER).expect("posted");
            }
            port.wait(SOON).expect("the first has left");
            // Its own changes do not wait for the other engine.
            let begun = Instant::now();
            drop(self::port(job, &network));
            assert!(begun.elapsed() < SOON / 2, "{:?}", begun.elapsed());
            // Ending does, for a while, and keeps the rest.
            drop(running);
            assert!(begun.elapsed() < SOON / 2, "{:?}", begun.elapsed());
            let sent = std::iter::from_fn(|| port.poll()).count() as u64;
            assert!(sent < PUTS / 2, "{sent} of them have left to nobody");
            let _running = network.run().expect("engines");
            job.barrier(SOON).expect("all");
            job.barrier(SOON).expect("all");
        } else {
            job.barrier(SOON).expect("all");
            assert!(port.poll().is_none(), "nobody was here to take it in");
            let _running = network.run().expect("engines");
            for i in 0..PUTS {
                assert_eq!(port.wait(SOON).expect("it comes").word0, i);
            }
            job.barrier(SOON).expect("all");
        }
    });
}

#[test]
fn who_sends_to_a_process_that_is_killed_hears_of_it_and_goes_on() {
    const NAME: &str = "engines::who_sends_to_a_process_that_is_killed_hears_of_it_and_goes_on";
    in_job_with_death(NAME, 3, 1, |job| {
        let (network, rank) = (network(job), job.rank() as usize);
        let port = port(job, &network);
        let own = region(&port, rank, 64 << 10);
        let all = share(job, &port, &own);
        // The one that dies takes nothing in, so that all rings to it are full.
        let _running = (rank != 1).then(|| network.run().expect("engines"));
        job.barrier(SOON).expect("all");
        if rank == 1 {
            // Both others are waiting for it by then.
            for peer in [0, 2] {
                job.recv_fds(peer, 9, SOON).expect("a letter");
            }
            die();
        }
        let connection = port.connect(all[1].0);
        for _ in 0..20 {
            connection.put(&own, 0, 60_000, all[1].1, Spec::REQUESTER).expect("posted");
        }
        port.wait(SOON).expect("the first has left");
        job.send_fds(1, 9, &[], SOON).expect("sent");
        let begun = Instant::now();
        // Some have left before; the others fail, each of them. The other process may be further.
        let requester = Match::any().kind(Kind::Requester);
        let mut failed = 0;
        for _ in 1..20 {
            let told = port.wait_match(&requester, SOON).expect("an end");
            failed += u64::from(!told.error().is_empty());
        }
        assert!(failed > 10 && begun.elapsed() < SOON / 2, "{failed} after {:?}", begun.elapsed());
        assert_eq!(errors(job, &network), EngineErrors { gone: failed, ..EngineErrors::default() });
        // Kernels' posts go on the same way; the host's are refused, with the name.
        let lost = LostPeer { rank: 1, node: 1, vpid: Some(all[1].0.vpid), end: PeerEnd::Lost };
        let error = connection.notification_put(1, 1, Spec::COMPLETER).expect_err("gone");
        assert!(matches!(error, PostError::PeerLost(peer) if peer == lost), "{error}");
        let error = port.wait_match(&Match::any().from(all[1].0), SOON).expect_err("gone");
        assert!(matches!(error, WaitError::PeerLost { peer, .. } if peer == lost), "{error}");
        // The others stay usable, and ports, too.
        let peer = all[2 - rank].0;
        port.connect(peer).notification_put(7, rank as u64, Spec::COMPLETER).expect("posted");
        assert_eq!(port.wait_match(&Match::any().from(peer), SOON).expect("it comes").word0, 2 - rank as u64);
        drop(self::port(job, &network));
        port.connect(peer).notification_put(8, 1, Spec::COMPLETER).expect("posted");
        port.wait_match(&Match::any().class(8), SOON).expect("it comes");
    });
}

#[test]
fn what_a_killed_process_had_sent_arrives_and_half_a_put_delays_nobody() {
    const NAME: &str = "engines::what_a_killed_process_had_sent_arrives_and_half_a_put_delays_nobody";
    in_job_with_death(NAME, 2, 0, |job| {
        // A ring takes one of them, and some packets of the next.
        const PUT: usize = 40 << 10;
        const PACKET: usize = 4096;
        let network = network(job);
        let port = port(job, &network);
        let own = region(&port, 0, 2 * PUT);
        own.write(PUT, &[0; PUT]).expect("in range");
        let all = share(job, &port, &own);
        if job.rank() == 0 {
            let _running = network.run().expect("engines");
            let connection = port.connect(all[1].0);
            connection.notification_put(1, 42, Spec::COMPLETER).expect("posted");
            connection.put(&own, 0, PUT, all[1].1, Spec::REQUESTER).expect("posted");
            port.wait(SOON).expect("it has left");
            connection.put(&own, 0, PUT, all[1].1 + PUT as u64, Spec::COMPLETER).expect("posted");
            // Its engine begins with that between two changes, at the latest.
            for _ in 0..8 {
                drop(self::port(job, &network));
            }
            die();
        }
        let begun = Instant::now();
        while port.device().lost_peer(0, None).is_none() {
            assert!(begun.elapsed() < SOON, "nobody says that process 0 has died");
            std::thread::yield_now();
        }
        // Nothing of it was taken in before.
        let _running = network.run().expect("engines");
        assert_eq!(port.wait(SOON).expect("it was sent").word0, 42);
        let error = port.wait_match(&Match::any().from(all[0].0), SOON).expect_err("the put was not whole");
        assert!(
            matches!(error, WaitError::PeerLost { .. }) && error.to_string().contains("member 0 died"),
            "{error}"
        );
        let half_sent = || {
            let mut bytes = vec![0; PUT];
            own.read(PUT, &mut bytes).expect("in range");
            bytes[..PACKET] == pattern(0, PUT)[..PACKET] && bytes[PUT - PACKET..] == [0; PACKET]
        };
        let begun = Instant::now();
        while !half_sent() {
            assert!(begun.elapsed() < SOON, "no put was half sent");
            std::thread::yield_now();
        }
        // Its engine still takes notice of changes, and works.
        let begun = Instant::now();
        drop(self::port(job, &network));
        port.connect(all[1].0).notification_put(1, 7, Spec::COMPLETER).expect("posted");
        assert_eq!(port.wait(SOON).expect("to itself").word0, 7);
        assert!(begun.elapsed() < SOON / 2, "{:?}", begun.elapsed());
    });
}

#[test]
fn a_network_that_was_dropped_refuses_and_the_others_go_on() {
    in_job("engines::a_network_that_was_dropped_refuses_and_the_others_go_on", (2, 1), |job| {
        let network = network(job);
        let port = port(job, &network);
        let own = region(&port, 0, 64 << 10);
        let all = share(job, &port, &own);
        if job.rank() == 1 {
            drop((own, port, network));
            job.barrier(SOON).expect("all");
        } else {
            job.barrier(SOON).expect("all");
            let _running = network.run().expect("engines");
            let connection = port.connect(all[1].0);
            for _ in 0..3 {
                connection.put(&own, 0, 60_000, all[1].1, Spec::REQUESTER).expect("posted");
                assert!(!port.wait(SOON).expect("an end").error().is_empty());
            }
            assert_eq!(errors(job, &network).gone, 3);
        }
        job.barrier(SOON).expect("all");
        // And again, with new ones.
        let network = self::network(job);
        let port = self::port(job, &network);
        let _running = network.run().expect("engines");
        job.barrier(SOON).expect("all");
        let peer = Address::new(1 - job.rank() as u16, 0);
        port.connect(peer).notification_put(3, 9, Spec::COMPLETER).expect("posted");
        assert_eq!(port.wait(SOON).expect("the other's").word0, 9);
        job.barrier(SOON).expect("all");
    });
}

#[test]
fn too_many_processes_are_refused_on_all_ranks() {
    in_job("engines::too_many_processes_are_refused_on_all_ranks", (9, 1), |job| {
        let error = engines_across(job, &Processor::cpu(), SOON).expect_err("8 at most");
        assert!(error.to_string().contains("9 nodes: engines join 1 to 8"), "{error}");
        job.barrier(SOON).expect("all");
    });
}

#[test]
fn a_death_before_the_engines_are_joined_is_named() {
    in_job_with_death("engines::a_death_before_the_engines_are_joined_is_named", 3, 2, |job| {
        if job.rank() == 2 {
            die();
        }
        let error = engines_across(job, &Processor::cpu(), SOON).expect_err("no rank 2");
        assert!(matches!(error, WindowError::Job(JobError::PeerLost { rank: 2 })), "{error}");
    });
}

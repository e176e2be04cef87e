//! Ports served by engines, on the CPU executor: order, full queues, memory and ports that go, and kernels.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::common::engines::{CONFIG, engines, errors, is_full, kernel_port, patient, port};
use crate::common::{SOON, Stops, bytes, pattern, region, until};
use ggas_device::engine::{EngineConfig, EngineNetwork};
use ggas_kernels::{Processor, start};
use ggas_rma::{
    Address, DeviceError, HostBuffer, Lock, Match, Node, PageOption, Path, PortConfig, PortError, Spec,
};
use ggas_selftest::args::{selftest_posts, selftest_rma};

#[test]
fn no_notification_comes_before_its_data() {
    const ROUNDS: u64 = 100;
    let network = engines(2);
    let ports = [0, 1].map(|node| port(&network, node));
    let regions = [0, 1].map(|i: usize| region(&ports[i], 4096, i as u8));
    let _running = network.run().unwrap();
    let to = regions[1].nla(64).unwrap();
    let connection = ports[0].connect(ports[1].address());
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..ROUNDS {
                // The source is free for the next round once the requester says so.
                regions[0].write(0, &pattern(300, round as u8)).unwrap();
                connection.put(&regions[0], 0, 300, to, Spec::REQUESTER).unwrap();
                ports[0].wait(SOON).unwrap();
                connection.notification_put(7, round, Spec::COMPLETER).unwrap();
                // The other side has looked.
                ports[0].wait(SOON).unwrap();
            }
        });
        let back = ports[1].connect(ports[0].address());
        for round in 0..ROUNDS {
            assert_eq!(ports[1].wait(SOON).unwrap().word0, round);
            assert_eq!(bytes(&regions[1], 64, 300), pattern(300, round as u8), "round {round}");
            back.notification_put(8, round, Spec::COMPLETER).unwrap();
        }
    });
}

#[test]
fn many_posts_keep_their_order_and_wait_for_room_in_a_small_queue() {
    const POSTS: u64 = 1500;
    let network = patient(SOON);
    let small = PortConfig { queue_bytes: 4096, segment_bytes: 4096, slots: 4, ..CONFIG };
    let open = |node| Node::new(network.device(node).unwrap()).open_port(small).unwrap();
    let (origin, target) = (open(0), open(1));
    let _running = network.run().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let connection = origin.connect(target.address());
            (0..POSTS).for_each(|i| connection.notification_put(1, i, Spec::COMPLETER).unwrap());
        });
        until("the queue does not fill", || is_full(&target));
        for i in 0..POSTS {
            assert_eq!(target.wait(SOON).unwrap().word0, i);
        }
    });
    assert_eq!(errors(&network, 1).dropped, 0);
}

#[test]
fn a_full_queue_drops_after_its_time_and_takes_again_once_it_is_read() {
    const ENTRIES: u64 = 256;
    let config = EngineConfig {
        requesters: Some(1),
        queue_timeout: Duration::from_millis(50),
        ..EngineConfig::default()
    };
    let network = EngineNetwork::with_config(&[Processor::cpu(), Processor::cpu()], config).unwrap();
    let small = PortConfig { queue_bytes: 4096, segment_bytes: 4096, ..CONFIG };
    let open = |node| Node::new(network.device(node).unwrap()).open_port(small).unwrap();
    let (origin, target, bystander) = (open(0), open(1), open(1));
    let _running = network.run().unwrap();
    let connection = origin.connect(target.address());
    for i in 0..ENTRIES + 9 {
        connection.notification_put(1, i, Spec::COMPLETER).unwrap();
    }
    // One entry stays free; the others are lost, but nobody else's.
    origin.connect(bystander.address()).notification_put(2, 77, Spec::COMPLETER).unwrap();
    assert_eq!(bystander.wait(SOON).unwrap().word0, 77);
    assert_eq!(errors(&network, 1).dropped, 10);
    for i in 0..ENTRIES - 1 {
        assert_eq!(target.wait(SOON).unwrap().word0, i);
    }
    assert!(target.poll().is_none());
    connection.notification_put(1, 1000, Spec::COMPLETER).unwrap();
    assert_eq!(target.wait(SOON).unwrap().word0, 1000);
}

#[test]
fn memory_is_left_alone_once_it_is_unregistered() {
    memory_is_left_alone(64 << 10);
}

#[test]
fn memory_of_short_puts_is_left_alone_once_it_is_unregistered() {
    memory_is_left_alone(64);
}

fn memory_is_left_alone(bytes: usize) {
    let network = engines(2);
    let (origin, target) = (port(&network, 0), port(&network, 1));
    let from = region(&origin, 64 << 10, 1);
    let _running = network.run().unwrap();
    let connection = origin.connect(target.address());
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let buffer = Arc::new(HostBuffer::zeroed(64 << 10).unwrap());
        let there = target.register_shared(buffer.clone()).unwrap();
        let nla = there.nla(0).unwrap();
        let (connection, from, stop) = (&connection, &from, &stop);
        let poster = scope.spawn(move || {
            let mut posts = 0u64;
            while !stop.load(Ordering::Relaxed) {
                connection.put(from, 0, bytes, nla, Spec::NONE).unwrap();
                posts += 1;
            }
            posts
        });
        let stops = Stops(stop);
        until("no put has arrived", || buffer.load_u64(0) != 0);
        there.unregister().unwrap();
        buffer.write(0, &vec![0x5a; 64 << 10]);
        // Puts go on all the time, and none of them may reach it.
        let refused = errors(&network, 1).target;
        until("later puts are not refused", || errors(&network, 1).target > refused + 20);
        drop(stops);
        assert!(poster.join().unwrap() > 1);
        let mut after = vec![0; 64 << 10];
        buffer.read(0, &mut after);
        assert!(after.iter().all(|byte| *byte == 0x5a), "an old translation was used");
    });
    connection.notification_put(1, 5, Spec::COMPLETER).unwrap();
    assert_eq!(target.wait(SOON).unwrap().word0, 5);
}

#[test]
fn engines_that_end_keep_what_is_under_way() {
    const BYTES: usize = 1 << 20;
    let network = engines(2);
    let (origin, target) = (port(&network, 0), port(&network, 1));
    let (from, to) = (region(&origin, BYTES, 3), region(&target, BYTES, 4));
    let connection = origin.connect(target.address());
    for round in 0..6u64 {
        connection.put(&from, 0, BYTES, to.nla(0).unwrap(), Spec::COMPLETER).unwrap();
        connection.notification_put(1, round, Spec::COMPLETER).unwrap();
        assert!(target.poll().is_none(), "nothing happens while they do not run");
        // They end when nothing is left to do, however long somebody holds them.
        drop(network.run().unwrap());
        assert_eq!(target.wait(Duration::ZERO).unwrap().size() as usize, BYTES % 496);
        assert_eq!(target.wait(Duration::ZERO).unwrap().word0, round);
        assert!(bytes(&to, 0, BYTES) == pattern(BYTES, 3));
        to.write(0, &vec![0; BYTES]).unwrap();
    }
}

#[test]
fn four_nodes_and_themselves_exchange_all_to_all() {
    all_to_all(4);
}

/// Engines of so many warps are another kernel.
#[test]
fn six_nodes_and_themselves_exchange_all_to_all() {
    all_to_all(6);
}

fn all_to_all(nodes: usize) {
    const BYTES: usize = 600;
    let network = engines(nodes);
    let ports: Vec<_> = (0..nodes).map(|node| port(&network, node)).collect();
    let sources: Vec<_> = (0..nodes).map(|node| region(&ports[node], BYTES, node as u8 + 1)).collect();
    let arrivals: Vec<_> = ports.iter().map(|port| region(port, nodes * 1024, 0)).collect();
    let _running = network.run().unwrap();
    for (from, port) in ports.iter().enumerate() {
        for (to, there) in ports.iter().zip(&arrivals) {
            let nla = there.nla(from * 1024).unwrap();
            port.connect(to.address()).put(&sources[from], 0, BYTES, nla, Spec::COMPLETER).unwrap();
        }
    }
    for (to, port) in ports.iter().enumerate() {
        for (from, peer) in ports.iter().enumerate() {
            let noti = port.wait_match(&Match::any().from(peer.address()), SOON).unwrap();
            assert!(noti.error().is_empty(), "{noti:?}");
            assert_eq!(bytes(&arrivals[to], from * 1024, BYTES), pattern(BYTES, from as u8 + 1));
        }
    }
}

#[test]
fn ports_close_and_open_while_others_work() {
    let network = engines(2);
    let (origin, target) = (port(&network, 0), port(&network, 1));
    let _running = network.run().unwrap();
    for round in 0..5u64 {
        let short = port(&network, 1);
        assert_eq!(short.address().vpid, 1);
        let connection = origin.connect(short.address());
        connection.notification_put(1, round, Spec::COMPLETER).unwrap();
        assert_eq!(short.wait(SOON).unwrap().word0, round);
        short.close().unwrap();
        connection.notification_put(1, round, Spec::COMPLETER).unwrap();
        origin.connect(target.address()).notification_put(1, round, Spec::COMPLETER).unwrap();
        assert_eq!(target.wait(SOON).unwrap().word0, round);
    }
    assert_eq!(errors(&network, 1).vpid, 5);
    // Locks begin at 0 again.
    let (a, b) = (port(&network, 1), origin.connect(Address { node: 1, vpid: 1 }));
    let lock = Lock { number: 0, compare: 10, add: 1 };
    b.lock(lock, Spec::COMPLETER).unwrap();
    assert_eq!(origin.wait(SOON).unwrap().lock_value(), 1);
    a.close().unwrap();
    let a = port(&network, 1);
    b.lock(lock, Spec::COMPLETER).unwrap();
    assert_eq!(origin.wait(SOON).unwrap().lock_value(), 1);
    drop(a);
}

#[test]
fn what_engines_do_not_have_is_refused() {
    let network = engines(1);
    let node = Node::new(network.device(0).unwrap());
    let card = node.open_port(PortConfig { path: Some(Path::Card), ..PortConfig::default() }).unwrap_err();
    assert!(matches!(card, PortError::NoPath { available: Path::Slots, .. }), "{card}");
    for option in [0, 4, 8, 20, 24] {
        let slot_option = PageOption::new(option).unwrap();
        let refused = node.open_port(PortConfig { slot_option, ..CONFIG }).unwrap_err();
        let expected = matches!(refused, PortError::Device(DeviceError::NotAvailable { .. }));
        assert!(expected, "option {option}: {refused}");
    }
    assert!(matches!(node.read_register(0), Err(DeviceError::NotAvailable { .. })));
    let ports: Vec<_> = (0..32).map(|_| node.open_port(CONFIG).unwrap()).collect();
    let none = node.open_port(CONFIG).unwrap_err();
    assert!(matches!(none, PortError::Device(DeviceError::PortsInUse { max: 32, .. })), "{none}");
    drop(ports);
    node.open_port(CONFIG).unwrap();
    assert!(EngineNetwork::new(&[]).is_err());
    assert!(EngineNetwork::new(&vec![Processor::cpu(); 9]).is_err());
}

#[test]
fn kernels_use_engines_as_they_use_the_card() {
    const BYTES: usize = 1000;
    let (cpu, network) = (Processor::cpu(), engines(2));
    let memory = [(); 2].map(|()| Arc::new(cpu.alloc(4096).unwrap()));
    let result = cpu.alloc(16).unwrap();
    let ports = [kernel_port(&network, 0), kernel_port(&network, 1)];
    let regions = [0, 1].map(|i: usize| ports[i].register_kernel_memory(memory[i].clone()).unwrap());
    let args = [0, 1].map(|i: usize| {
        let peer = ports[1 - i].port_address();
        selftest_rma {
            port: ports[i].address(),
            send: memory[i].address(),
            send_nla: regions[i].nla(0).unwrap(),
            receive: memory[i].address() + 2048,
            target_nla: regions[1 - i].nla(2048).unwrap(),
            status: result.address(),
            wrong: result.address() + 8,
            peer_node: peer.node.into(),
            peer_vpid: peer.vpid.into(),
            rounds: 30,
            bytes: BYTES as u32,
            first: u32::from(i == 0),
            quiet: 0,
        }
    });
    for _ in 0..2 {
        let armed = [ports[0].arm(), ports[1].arm()];
        // SAFETY: the arguments are this kernel's, their memory lives beyond the wait.
        let launch = |args| unsafe { ggas_selftest::launch(&cpu, "ggas_selftest_rma", 1, 32, args) };
        start(&args.each_ref().map(launch)).unwrap().wait(SOON).unwrap();
        drop(armed);
        assert_eq!(
            result.read_u64s(0, 2).unwrap(),
            [0, 0],
            "{:?} {:?}",
            ports[0].report(),
            ports[1].report()
        );
    }
}

#[test]
fn many_threads_of_several_ports_post() {
    const THREADS: u32 = 32;
    // Odd: the sum of an even number of them would stay if each lost or got the lowest bit.
    const POSTS: u32 = 11;
    let (cpu, network) = (Processor::cpu(), engines(2));
    let status = cpu.alloc(8).unwrap();
    let pairs: Vec<_> = (0..3).map(|_| (kernel_port(&network, 0), kernel_port(&network, 1))).collect();
    let seen: Vec<_> = pairs.iter().map(|_| cpu.alloc(8 * THREADS as usize).unwrap()).collect();
    let mut args = Vec::new();
    for (i, (sender, receiver)) in pairs.iter().enumerate() {
        let (from, to) = (sender.port_address(), receiver.port_address());
        for (port, peer, expect) in [(sender, to, 0), (receiver, from, THREADS * POSTS)] {
            args.push(selftest_posts {
                port: port.address(),
                seen: seen[i].address(),
                status: status.address(),
                peer_node: peer.node.into(),
                peer_vpid: peer.vpid.into(),
                posts: POSTS,
                batch: u32::from(i == 1),
                expect,
                reserved: 0,
            });
        }
    }
    let _armed: Vec<_> = pairs.iter().map(|pair| pair.0.arm()).collect();
    // SAFETY: the arguments are this kernel's, their memory lives beyond the wait.
    let launch = |args| unsafe { ggas_selftest::launch(&cpu, "ggas_selftest_posts", 1, THREADS, args) };
    start(&args.iter().map(launch).collect::<Vec<_>>()).unwrap().wait(SOON).unwrap();
    assert_eq!(status.load_u64(0).unwrap(), 0);
    let sum = u64::from(POSTS * (POSTS + 1) / 2);
    for seen in &seen {
        assert_eq!(seen.read_u64s(0, THREADS as usize).unwrap(), vec![sum; THREADS as usize]);
    }
}

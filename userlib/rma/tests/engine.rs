//! Ports served by engines (kernels that do the card's work), on the CPU executor: they must say and move what the model
//! says and moves.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::{SOON, builder, bytes, pattern, region};
use ggas_device::engine::{EngineConfig, EngineErrors, EngineNetwork};
use ggas_kernels::args::{selftest_posts, selftest_rma};
use ggas_kernels::{Launch, Processor, start};
use ggas_rma::{
    Address, DeviceError, HostBuffer, Kind, Lock, Match, Modifier, Node, Notification, PageOption, Path,
    Port, PortConfig, PortError, Region, Request, Spec,
};

const CONFIG: PortConfig = PortConfig {
    queue_bytes: 64 << 10,
    segment_bytes: 64 << 10,
    path: Path::Slots,
    slots: 64,
    slot_option: PageOption::TE,
    post_timeout: Duration::from_secs(20),
    kernel_timeout: Duration::from_secs(20),
    kernel_free_batch: 32,
};

fn engines(nodes: usize) -> EngineNetwork {
    EngineNetwork::new(&vec![Processor::cpu(); nodes]).unwrap()
}

fn port(network: &EngineNetwork, node: usize) -> Port {
    Node::new(network.device(node).unwrap()).open_port(CONFIG).unwrap()
}

fn errors(network: &EngineNetwork, node: usize) -> EngineErrors {
    network.engine_device(node).unwrap().errors().unwrap()
}

/// Two ports of two nodes with a region each.
struct Ends {
    ports: [Port; 2],
    regions: [Region; 2],
}

impl Ends {
    const BYTES: usize = 100_000;

    fn new(ports: [Port; 2]) -> Ends {
        let regions = [0, 1].map(|i| region(&ports[i], Ends::BYTES, i as u8));
        Ends { ports, regions }
    }

    fn memory(&self) -> [Vec<u8>; 2] {
        [0, 1].map(|i| bytes(&self.regions[i], 0, Ends::BYTES))
    }

    /// Posts the words at port 0, then waits for a command behind them, and returns what both ports were told before.
    fn told(&self, words: [u64; 3]) -> [Vec<Notification>; 2] {
        self.ports[0].post_raw(PageOption::TE, words).unwrap();
        let mut told = [Vec::new(), Vec::new()];
        // A get follows the way of requests and responses, and tells both sides.
        let Address { node, vpid } = self.ports[1].address();
        let (read, write) = (self.regions[1].nla(0).unwrap(), self.regions[0].nla(99_992).unwrap());
        let request = Request::Get { qw: true, read, write, size: 8 };
        let connection = self.ports[0].connect(Address { node, vpid });
        connection.post(&request, Spec::RESPONDER | Spec::COMPLETER, Modifier::NTR).unwrap();
        for (port, told) in self.ports.iter().zip(&mut told) {
            loop {
                let noti = port.wait(SOON).unwrap();
                // Its address and size are nobody else's.
                if noti.word0 == read && noti.kind() == Some(Kind::Responder)
                    || noti.word0 == write && noti.kind() == Some(Kind::Completer)
                {
                    break;
                }
                told.push(noti);
            }
        }
        told
    }
}

/// The same ports and regions on the model and on engines: NLAs and VPIDs are the same too.
struct Twins {
    model: Ends,
    engine: Ends,
    network: EngineNetwork,
}

impl Twins {
    fn new() -> Twins {
        let sim = builder().build().unwrap();
        let open = |node| Node::new(sim.device(node).unwrap()).open_port(CONFIG).unwrap();
        let model = Ends::new([open(0), open(1)]);
        let network = engines(2);
        let engine = Ends::new([port(&network, 0), port(&network, 1)]);
        for i in 0..2 {
            assert_eq!(model.regions[i].nla(0).unwrap(), engine.regions[i].nla(0).unwrap());
            assert_eq!(model.ports[i].address(), engine.ports[i].address());
        }
        Twins { model, engine, network }
    }

    /// Posts the words on both; they must say the same, in the same order at each port, and leave the same bytes.
    fn compare(&self, words: [u64; 3]) -> [Vec<Notification>; 2] {
        let (expected, told) = (self.model.told(words), self.engine.told(words));
        assert_eq!(told, expected, "words {words:#x?}");
        let same = self.engine.memory() == self.model.memory();
        assert!(same, "the bytes differ after {words:#x?}");
        told
    }

    fn post(&self, request: &Request, spec: Spec, modifier: Modifier) -> [Vec<Notification>; 2] {
        let to = self.model.ports[1].address();
        self.compare(extoll_abi::Descriptor::encode(to, spec, modifier, request).unwrap().word)
    }
}

#[test]
fn puts_and_gets_are_those_of_the_model() {
    let twins = Twins::new();
    let _running = twins.network.run().unwrap();
    let at = |i: usize, offset| twins.model.regions[i].nla(offset).unwrap();
    let sizes = [1, 7, 8, 9, 16, 224, 225, 496, 497, 4095, 4096, 4097, 50_001];
    for (n, size) in sizes.into_iter().enumerate() {
        for (from, to) in [(0, 0), (8, 16), (1, 0), (4093, 4090)] {
            let modifier = if n % 3 == 0 { Modifier::NTR } else { Modifier::NONE };
            let put = Request::Put { qw: false, read: at(0, from), write: at(1, to), size };
            twins.post(&put, Spec::REQUESTER | Spec::COMPLETER, modifier);
            let get = Request::Get { qw: false, read: at(1, from + 5), write: at(0, to + 40_000), size };
            twins.post(&get, Spec::REQUESTER | Spec::RESPONDER | Spec::COMPLETER, modifier);
        }
    }
    let quadwords = Request::Put { qw: true, read: at(0, 8), write: at(1, 80), size: 4096 };
    twins.post(&quadwords, Spec::COMPLETER, Modifier::NONE);
    let quadwords = Request::Get { qw: true, read: at(1, 8), write: at(0, 80), size: 6000 };
    let told = twins.post(&quadwords, Spec::COMPLETER, Modifier::NONE);
    assert_eq!((told[0].len(), told[1].len()), (1, 0));
    assert_eq!(errors(&twins.network, 0), EngineErrors::default());
    assert_eq!(errors(&twins.network, 1), EngineErrors::default());
}

#[test]
fn small_commands_are_those_of_the_model() {
    let twins = Twins::new();
    let _running = twins.network.run().unwrap();
    let every = Spec::REQUESTER | Spec::RESPONDER | Spec::COMPLETER;
    let nla = twins.model.regions[1].nla(0).unwrap();
    for count in 1..=8 {
        // The last one crosses a page.
        for write in [nla, nla + 3, nla + 4090 + u64::from(count)] {
            let request = Request::ImmediatePut { count, write, value: 0x8877_6655_4433_2211 };
            twins.post(&request, every, Modifier::NONE);
        }
    }
    twins.post(&Request::NotificationPut { class: 200, payload: u64::MAX }, every, Modifier::NONE);
    twins.post(&Request::NotificationPut { class: 0, payload: 0 }, Spec::COMPLETER, Modifier::NONE);
    // The spec's trace (section 5), then locks that do not exist.
    for (compare, add) in [(28, 7), (28, 7), (28, 7), (28, 7), (28, 7), (28, 7), (35, -7), (-1, 5)] {
        let told = twins.post(
            &Request::Lock { to_responder: false, number: 3, compare, add },
            every,
            Modifier::NONE,
        );
        assert_eq!((told[0].len(), told[1].len()), (2, 1));
    }
    for number in [16, 0xff_ffff] {
        twins.post(&Request::Lock { to_responder: true, number, compare: 9, add: 1 }, every, Modifier::NONE);
    }
    assert_eq!(errors(&twins.network, 1).responder, 2);
}

#[test]
fn what_is_wrong_is_said_as_the_model_says_it() {
    let twins = Twins::new();
    let _running = twins.network.run().unwrap();
    let Address { node, vpid } = twins.model.ports[1].address();
    let frame = |command: u64, spec: u64| {
        3 | command << 2 | u64::from(vpid) << 8 | u64::from(node) << 16 | spec << 32
    };
    let nla = twins.model.regions[0].nla(0).unwrap();
    let far = 1 << 35;
    for command in 0..16 {
        let size = 63 << 40;
        // Unregistered source and destination, unaligned for quadwords, another count of quadwords, the Excellerate
        // port, a closed VPID.
        for words in [
            [frame(command, 7) | size, far, nla],
            [frame(command, 7) | size, nla, far],
            [frame(command, 7) | 4999 << 40, nla, nla + 99_000],
            [frame(command, 7) | size, nla + 1, nla],
            [(frame(command, 7) | size) & !1, nla, nla],
            [frame(command, 7) | size | 4 << 35, nla, nla],
            [frame(command, 7) | size | 8 << 35, nla, nla],
            [frame(command, 7) | size | 9 << 8, nla, nla],
            [frame(command, 0) | size, far, far],
        ] {
            twins.compare(words);
        }
    }
    let (origin, target) = (errors(&twins.network, 0), errors(&twins.network, 1));
    assert!(origin.command > 0 && origin.source > 0 && origin.route == 0, "{origin:?}");
    assert!(
        target.vpid > 0 && target.target > 0 && target.received > 0 && target.responder > 0,
        "{target:?}"
    );
}

#[test]
fn random_words_are_answered_as_by_the_model() {
    let twins = Twins::new();
    let _running = twins.network.run().unwrap();
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    for i in 0..400 {
        let [mut word0, mut word1, mut word2] = [next(), next(), next()];
        // To node 0 or 1 and open VPIDs mostly; no multicast; addresses mostly registered.
        word0 = word0 & !0xffff_ff08_ffff_ff03 | 3 | (next() & 1) << 16;
        if i % 8 != 0 {
            word0 &= !(0x7f_0000 << 40);
            (word1, word2) = (word1 % 110_000, word2 % 110_000);
        }
        if i % 16 == 1 {
            word0 |= 1 << 8;
        }
        twins.compare([word0, word1, word2]);
    }
}

#[test]
fn a_node_that_is_not_there_is_an_error_of_the_requester() {
    let network = engines(2);
    let (origin, target) = (port(&network, 0), port(&network, 1));
    let _running = network.run().unwrap();
    let nowhere = origin.connect(Address { node: 2, vpid: 0 });
    nowhere.notification_put(1, 2, Spec::REQUESTER | Spec::COMPLETER).unwrap();
    let noti = origin.wait(SOON).unwrap();
    assert!(noti.kind() == Some(Kind::Requester) && !noti.error().is_empty(), "{noti:?}");
    assert_eq!(errors(&network, 0).route, 1);
    origin.connect(target.address()).notification_put(1, 2, Spec::COMPLETER).unwrap();
    assert!(target.wait(SOON).unwrap().error().is_empty(), "others are not touched");
}

#[test]
fn the_largest_put_is_exact_and_one_byte_beyond_its_region_moves_nothing() {
    const BYTES: usize = 8 << 20;
    let network = engines(2);
    let (origin, target) = (port(&network, 0), port(&network, 1));
    let (from, to) = (region(&origin, BYTES, 3), region(&target, BYTES, 4));
    let _running = network.run().unwrap();
    let connection = origin.connect(target.address());
    // Registered memory ends with a page; the size goes beyond.
    let request =
        Request::Put { qw: false, read: from.nla(1).unwrap(), write: to.nla(0).unwrap(), size: BYTES as u32 };
    connection.post(&request, Spec::REQUESTER | Spec::COMPLETER, Modifier::NONE).unwrap();
    assert!(!origin.wait(SOON).unwrap().error().is_empty());
    assert!(!target.wait(SOON).unwrap().error().is_empty());
    assert!(bytes(&to, 0, BYTES) == pattern(BYTES, 4), "no byte moved");
    connection.put(&from, 0, BYTES, to.nla(0).unwrap(), Spec::COMPLETER).unwrap();
    let noti = target.wait(SOON).unwrap();
    let last = (BYTES as u64 - 1) / 496 * 496;
    assert_eq!(noti.word0, to.nla(0).unwrap() + last);
    assert!(bytes(&to, 0, BYTES) == pattern(BYTES, 3));
}

#[test]
fn a_page_that_is_missing_in_the_middle_is_an_error_of_the_whole_put() {
    let network = engines(2);
    let (origin, target) = (port(&network, 0), port(&network, 1));
    let from = region(&origin, 5 * 4096, 1);
    let parts: Vec<_> = (0..5).map(|i| region(&target, 4096, 10 + i)).collect();
    let first = parts[0].nla(0).unwrap();
    let mut parts: Vec<_> = parts.into_iter().map(Some).collect();
    parts[2].take().unwrap().unregister().unwrap();
    let _running = network.run().unwrap();
    let connection = origin.connect(target.address());
    connection.put(&from, 0, 5 * 4096, first, Spec::COMPLETER).unwrap();
    let noti = target.wait(SOON).unwrap();
    assert!(!noti.error().is_empty(), "{noti:?}");
    // The next one of the same port is not blamed for it.
    connection.put(&from, 0, 4096, first, Spec::COMPLETER).unwrap();
    assert!(target.wait(SOON).unwrap().error().is_empty());
}

#[test]
fn no_notification_comes_before_its_data() {
    const ROUNDS: u64 = 100;
    let network = engines(2);
    let ends = Ends::new([port(&network, 0), port(&network, 1)]);
    let _running = network.run().unwrap();
    let to = ends.regions[1].nla(64).unwrap();
    let connection = ends.ports[0].connect(ends.ports[1].address());
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..ROUNDS {
                // The source is free for the next round once the requester says so.
                ends.regions[0].write(0, &pattern(300, round as u8)).unwrap();
                connection.put(&ends.regions[0], 0, 300, to, Spec::REQUESTER).unwrap();
                ends.ports[0].wait(SOON).unwrap();
                connection.notification_put(7, round, Spec::COMPLETER).unwrap();
                // The other side has looked.
                ends.ports[0].wait(SOON).unwrap();
            }
        });
        let back = ends.ports[1].connect(ends.ports[0].address());
        for round in 0..ROUNDS {
            assert_eq!(ends.ports[1].wait(SOON).unwrap().word0, round);
            assert_eq!(bytes(&ends.regions[1], 64, 300), pattern(300, round as u8), "round {round}");
            back.notification_put(8, round, Spec::COMPLETER).unwrap();
        }
    });
}

#[test]
fn many_posts_keep_their_order_and_wait_for_room_in_a_small_queue() {
    const POSTS: u64 = 1500;
    let network = engines(2);
    let small = PortConfig { queue_bytes: 4096, segment_bytes: 4096, slots: 4, ..CONFIG };
    let open = |node| Node::new(network.device(node).unwrap()).open_port(small).unwrap();
    let (origin, target) = (open(0), open(1));
    let _running = network.run().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let connection = origin.connect(target.address());
            (0..POSTS).for_each(|i| connection.notification_put(1, i, Spec::COMPLETER).unwrap());
        });
        // Let the queue of 256 entries fill.
        thread::sleep(Duration::from_millis(50));
        for i in 0..POSTS {
            assert_eq!(target.wait(SOON).unwrap().word0, i);
        }
    });
    assert_eq!(errors(&network, 1).dropped, 0);
}

#[test]
fn a_full_queue_drops_after_its_time_and_takes_again_once_it_is_read() {
    const ENTRIES: u64 = 256;
    let config =
        EngineConfig { requesters: 1, queue_timeout: Duration::from_millis(50), ..EngineConfig::default() };
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
                connection.put(from, 0, 64 << 10, nla, Spec::NONE).unwrap();
                posts += 1;
            }
            posts
        });
        let begun = Instant::now();
        while buffer.load_u64(0) == 0 {
            assert!(begun.elapsed() < SOON, "no put has arrived");
            thread::yield_now();
        }
        there.unregister().unwrap();
        buffer.write(0, &vec![0x5a; 64 << 10]);
        // Puts go on all the time, and none of them may reach it.
        thread::sleep(Duration::from_millis(100));
        stop.store(true, Ordering::Relaxed);
        assert!(poster.join().unwrap() > 1);
        let mut after = vec![0; 64 << 10];
        buffer.read(0, &mut after);
        assert!(after.iter().all(|byte| *byte == 0x5a), "an old translation was used");
    });
    connection.notification_put(1, 5, Spec::COMPLETER).unwrap();
    assert_eq!(target.wait(SOON).unwrap().word0, 5);
    assert!(errors(&network, 1).target > 0, "later puts were refused");
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
    const NODES: usize = 4;
    const BYTES: usize = 600;
    let network = engines(NODES);
    let ports: Vec<_> = (0..NODES).map(|node| port(&network, node)).collect();
    let sources: Vec<_> = (0..NODES).map(|node| region(&ports[node], BYTES, node as u8 + 1)).collect();
    let arrivals: Vec<_> = ports.iter().map(|port| region(port, NODES * 1024, 0)).collect();
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
    let card = node.open_port(PortConfig::default()).unwrap_err();
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
    let ports = [port(&network, 0), port(&network, 1)];
    let regions = [0, 1].map(|i: usize| ports[i].register_kernel_memory(memory[i].clone()).unwrap());
    let ports = ports.map(|port| port.for_kernels(&cpu, Path::Slots).unwrap());
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
            reserved: 0,
        }
    });
    for _ in 0..2 {
        let armed = [ports[0].arm(), ports[1].arm()];
        // SAFETY: the arguments are this kernel's, their memory lives beyond the wait.
        let launch = |args| unsafe { Launch::new(&cpu, "ggas_selftest_rma", 1, 32, args) };
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
    let [a, b] = ports.map(|port| port.into_port().unwrap());
    let _running = network.run().unwrap();
    a.connect(b.address()).notification_put(7, 7, Spec::COMPLETER).unwrap();
    let noti = b.wait_match(&Match::any().class(7), SOON).unwrap();
    assert_eq!(noti.word0, 7, "the host goes on where the kernels stopped");
}

#[test]
fn many_threads_of_several_ports_post() {
    const THREADS: u32 = 32;
    const POSTS: u32 = 10;
    let (cpu, network) = (Processor::cpu(), engines(2));
    let status = cpu.alloc(8).unwrap();
    let kernel_port = |node| port(&network, node).for_kernels(&cpu, Path::Slots).unwrap();
    let pairs: Vec<_> = (0..3).map(|_| (kernel_port(0), kernel_port(1))).collect();
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
    let launch = |args| unsafe { Launch::new(&cpu, "ggas_selftest_posts", 1, THREADS, args) };
    start(&args.iter().map(launch).collect::<Vec<_>>()).unwrap().wait(SOON).unwrap();
    assert_eq!(status.load_u64(0).unwrap(), 0);
    let sum = u64::from(POSTS * (POSTS + 1) / 2);
    for seen in &seen {
        assert_eq!(seen.read_u64s(0, THREADS as usize).unwrap(), vec![sum; THREADS as usize]);
    }
}

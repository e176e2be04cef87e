//! The timed driver: what a put costs, links that are shared, order, kernels, and that the same is the same again.

use std::sync::{Arc, Mutex};

use extoll_sim::timed::{Flag, Kernel, Place, Ps, Put, Switching, System, Timed, Topology};
use extoll_sim::torus::Torus;
use proptest::prelude::*;

/// A system in which each cost can be told from the others in a sum.
fn system(topology: Topology) -> System {
    let mut system = System::named("extoll-fpga").expect("a system");
    system.network.topology = topology;
    let network = &mut system.network;
    (network.link_bytes_per_ns, network.link_ns, network.switch_ns) = (1.0, 1e3, 1e4);
    (network.header_bytes, network.packet_bytes, network.train_bytes) = (16, 512, 4096);
    let bus = &mut system.bus;
    (bus.write_ns, bus.read_ns) = (1e5, 1e6);
    (bus.write_bytes_per_ns, bus.read_bytes_per_ns) = (2.0, 4.0);
    let card = &mut system.card;
    (card.requester_ns, card.translate_ns, card.completer_ns, card.notify_ns) = (1e7, 2e7, 4e7, 8e8);
    (card.requester_busy_ns, card.completer_busy_ns) = (100.0, 100.0);
    (system.host.post_ns, system.host.poll_ns, system.host.look_ns) = (1e9, 1.0, 1e10);
    system
}

fn flags<const N: usize>(timed: &Timed) -> [Flag; N] {
    std::array::from_fn(|_| timed.flag())
}

type Program<'a> = (usize, String, Box<dyn FnOnce() + 'a>);

fn program<'a>(node: usize, run: impl FnOnce() + 'a) -> Program<'a> {
    (node, format!("the program of node {node}"), Box::new(run))
}

/// When a put is visible at its target, from the moment in which it is posted.
fn put_takes(system: &System, nodes: usize, put: impl FnOnce(Put) -> Put) -> Ps {
    let timed = Timed::new(system, nodes, 1).expect("a system");
    let [flag] = flags(&timed);
    let mut at = Ps::ZERO;
    let (arrived, seen) = (flag.clone(), &mut at);
    timed.run([
        program(0, || timed.node(0).put(put(Put::new(1, 0)).arrived(&arrived))),
        program(1, || {
            timed.node(1).wait(&flag, 1);
            *seen = timed.now();
        }),
    ]);
    at
}

#[test]
fn a_put_takes_the_sum_of_its_costs() {
    let node = |bytes: f64| {
        let there = 1e9 + 1e5 + (1e7 + 2e7) + if bytes > 0.0 { 1e6 + bytes / 4.0 } else { 0.0 };
        there + (4e7 + 2e7) + (1e5 + bytes / 2.0) + 1e10
    };
    // (topology, nodes, links, switches passed, serialisations of the packet)
    for (topology, nodes, links, switches) in
        [(Topology::Torus, 2, 1.0, 1.0), (Topology::Star, 2, 2.0, 1.0), (Topology::Direct, 2, 1.0, 0.0)]
    {
        for bytes in [0, 8, 512] {
            let system = system(topology);
            let takes = put_takes(&system, nodes, |_| Put::new(1, bytes));
            let wire = bytes as f64 + 16.0;
            let by_hand = node(bytes as f64) + links * 1e3 + switches * 1e4 + wire;
            assert!(
                (takes.as_ns() - by_hand).abs() < 1.0,
                "{topology:?}, {bytes} bytes: {takes} for {by_hand} ns"
            );
            let notified = put_takes(&system, nodes, |_| Put::new(1, bytes).notified());
            assert_eq!((notified - takes), Ps::ns(8e8), "{topology:?}, {bytes} bytes");
        }
    }
}

#[test]
fn a_switch_that_stores_adds_a_packet_for_each_link() {
    let mut system = system(Topology::Star);
    let through = put_takes(&system, 2, |_| Put::new(1, 500));
    system.network.switching = Switching::StoreAndForward;
    assert_eq!(put_takes(&system, 2, |_| Put::new(1, 500)) - through, Ps::ns(516.0));
}

#[test]
fn a_route_takes_each_of_its_hops() {
    let system = system(Topology::Torus);
    let torus = Torus::new(8, 4, 4).expect("a torus");
    let takes = |to: usize| {
        let timed = Timed::on_torus(&system, torus, 1).expect("a system");
        let [flag] = flags(&timed);
        timed.run([program(0, || {
            timed.node(0).put(Put::new(to, 8).arrived(&flag));
            timed.node(0).wait(&flag, 1);
        })]);
        assert_eq!(timed.counts().hops, u64::from(torus.distance(0, to as u16).expect("a node")));
        timed.now()
    };
    let one = takes(1);
    for to in [2, 4, 9, 127, 100] {
        let hops = torus.distance(0, to as u16).expect("a node");
        assert_eq!(takes(to) - one, Ps::ns(1.1e4) * u64::from(hops - 1), "to {to}, {hops} hops");
    }
}

#[test]
fn puts_over_one_link_wait_for_each_other() {
    let mut system = system(Topology::Torus);
    // Nothing but the link is slow.
    (system.bus.read_bytes_per_ns, system.bus.write_bytes_per_ns) = (1e6, 1e6);
    let torus = Torus::new(8, 1, 1).expect("a torus");
    let packet = Ps::ns(528.0);
    let takes = |senders: &[(usize, usize, Ps)]| {
        let timed = Timed::on_torus(&system, torus, 1).expect("a system");
        let [flag] = flags(&timed);
        let all = senders.len() as u64;
        let send = |&(from, to, delay): &(usize, usize, Ps)| {
            let (timed, flag) = (&timed, &flag);
            program(from, move || {
                timed.node(from).work(delay);
                timed.node(from).put(Put::new(to, 512).arrived(flag));
            })
        };
        let wait = program(7, || timed.node(7).wait(&flag, all));
        timed.run(senders.iter().map(send).chain([wait]));
        timed.now()
    };
    let now = Ps::ZERO;
    let (far, near) = (takes(&[(1, 3, now)]), takes(&[(2, 3, now)]));
    // A whole train from one node: one behind the other.
    for many in 2..5u64 {
        let senders: Vec<_> = (0..many).map(|_| (2, 3, now)).collect();
        assert_eq!(takes(&senders), near + packet * (many - 1), "{many} puts");
    }
    // Both need the link from 2 to 3. The one from 2 is gone before the other comes.
    assert_eq!(takes(&[(1, 3, now), (2, 3, now)]), far);
    // It begins a hop later: both are at the link at the same time.
    let hop = Ps::ns(1.1e4);
    assert_eq!(takes(&[(1, 3, now), (2, 3, hop)]), far + packet);
    // It comes in the middle of the other one.
    assert_eq!(takes(&[(1, 3, now), (2, 3, hop + Ps::ns(300.0))]), far + packet);
    // Other links to the same node: its completer takes one after the other.
    assert_eq!(takes(&[(2, 3, now), (4, 3, now)]), near + Ps::ns(100.0));
}

#[test]
fn long_puts_reach_the_rate_of_the_slowest_part() {
    let mut system = System::named("extoll-fpga").expect("a system");
    system.network.topology = Topology::Direct;
    for (read, link, write, slowest) in [(0.5, 2.0, 4.0, 0.5), (4.0, 0.5, 2.0, 0.5), (4.0, 2.0, 0.25, 0.25)] {
        (system.bus.read_bytes_per_ns, system.network.link_bytes_per_ns, system.bus.write_bytes_per_ns) =
            (read, link, write);
        system.network.header_bytes = 0;
        let [small, large] = [1 << 20, 3 << 20].map(|bytes| put_takes(&system, 2, |_| Put::new(1, bytes)));
        let rate = (2 << 20) as f64 / (large - small).as_ns();
        assert!((rate / slowest - 1.0).abs() < 0.01, "{rate} of {slowest}");
    }
}

#[test]
fn puts_of_one_sender_to_one_receiver_arrive_in_order() {
    let system = System::named("extoll-fpga").expect("a system");
    let timed = Timed::new(&system, 27, 5).expect("a system");
    let (order, [flag]) = (Arc::new(Mutex::new(vec![Vec::new(); 27])), flags(&timed));
    let send = |from: usize| {
        let (timed, order, flag) = (&timed, order.clone(), flag.clone());
        program(from, move || {
            let mut random = timed.random(from as u64);
            for count in 0..50 {
                let bytes = [0, 8, 100, 496, 3_000, 40_000][random.usize(..6)];
                let order = order.clone();
                let then = move || order.lock().expect("a list")[from].push(count);
                timed.node(from).put(Put::new(0, bytes).arrived(&flag).then(then));
                if random.bool() {
                    timed.node(from).work(Ps::ns(random.f64() * 1e3));
                }
            }
        })
    };
    let wait = program(0, || timed.node(0).wait(&flag, 26 * 50));
    timed.run((1..27).map(send).chain([wait]));
    for (from, order) in order.lock().expect("a list").iter().enumerate().skip(1) {
        assert_eq!(*order, (0..50).collect::<Vec<_>>(), "from {from}");
    }
}

/// All send to all, with kernels and gets between: the digest of everything, and the time.
fn busy_system(seed: u64) -> (u64, Ps) {
    let system = System::named("extoll-fpga").expect("a system");
    let timed = Timed::new(&system, 12, seed).expect("a system");
    let flags: [Flag; 12] = flags(&timed);
    let run = |me: usize| {
        let (timed, flags) = (&timed, &flags);
        program(me, move || {
            let (node, mut random) = (timed.node(me), timed.random(me as u64));
            for to in (0..12).filter(|to| *to != me) {
                node.put(Put::new(to, random.u64(..5_000)).arrived(&flags[to]));
            }
            let (next, flag) = ((me + 1) % 12, flags[(me + 1) % 12].clone());
            let kernel = node.stream(0).launch(Kernel::new("a kernel", 30), move |block| {
                block.compute(1_000, 0);
                block.store(Put::new(next, 64).into(Place::Gpu).arrived(&flag));
                block.load(next, 8);
            });
            node.wait(&kernel, 1);
            node.get(Put::new(next, 700).arrived(&flags[me]));
            node.wait(&flags[me], 11 + 30 + 1);
        })
    };
    timed.run((0..12).map(run));
    (timed.counts().digest, timed.now())
}

#[test]
fn the_same_is_the_same_again() {
    let first = busy_system(3);
    assert_eq!(busy_system(3), first);
    let elsewhere = std::thread::spawn(|| busy_system(3)).join().expect("a run");
    assert_eq!(elsewhere, first);
    assert_ne!(busy_system(4), first);
}

#[test]
fn kernels_have_their_blocks_on_the_places_that_there_are() {
    let mut system = System::named("gpu-tn").expect("a system");
    (system.gpu.launch_call_ns, system.gpu.launch_ns, system.gpu.end_ns) = (10.0, 1_000.0, 500.0);
    (system.gpu.sms, system.gpu.blocks_per_sm, system.gpu.block_start_ns) = (4, 2, 0.0);
    (system.host.poll_ns, system.host.look_ns) = (1e-3, 0.0);
    for (blocks, rounds) in [(0, 0), (1, 1), (8, 1), (9, 2), (24, 3)] {
        let timed = Timed::new(&system, 1, 1).expect("a system");
        timed.run([program(0, || {
            let node = timed.node(0);
            let work = |block: extoll_sim::timed::Block<'_>| block.work(Ps::ns(100.0));
            let kernel = node.stream(0).launch(Kernel::new("a kernel", blocks), work);
            node.wait(&kernel, 1);
        })]);
        assert_eq!(
            timed.now(),
            Ps::ns(10.0 + 1_000.0 + 500.0 + 100.0 * f64::from(rounds)),
            "{blocks} blocks"
        );
    }
}

#[test]
fn a_stream_is_in_order_and_its_triggers_fire_at_kernel_ends() {
    let system = System::named("gpu-tn").expect("a system");
    let timed = Timed::new(&system, 2, 1).expect("a system");
    let [arrived] = flags(&timed);
    let mut times = [Ps::ZERO; 2];
    let (ended, there) = times.split_at_mut(1);
    timed.run([
        program(0, || {
            let (node, stream) = (timed.node(0), timed.node(0).stream(0));
            let trigger =
                node.prepare(Put::new(1, 64).from(Place::Gpu).into(Place::Gpu).arrived(&arrived), 1);
            let kernel = stream.launch(Kernel::new("a kernel", 24), |block| block.work(Ps::us(3.0)));
            stream.trigger(&trigger);
            assert!(!trigger.has_fired());
            node.wait(&kernel, 1);
            ended[0] = timed.now();
            stream.synchronize();
        }),
        program(1, || {
            timed.node(1).wait(&arrived, 1);
            there[0] = timed.now();
        }),
    ]);
    assert!(times[0] > Ps::us(6.0) && times[1] > times[0], "{times:?}");
}

#[test]
fn a_put_that_is_held_fires_once_and_not_before() {
    let system = System::named("gpu-tn").expect("a system");
    let timed = Timed::new(&system, 2, 1).expect("a system");
    let [arrived] = flags(&timed);
    timed.run([program(0, || {
        let node = timed.node(0);
        let trigger = node.prepare(Put::new(1, 64).arrived(&arrived), 3);
        for _ in 0..2 {
            node.trigger(&trigger);
        }
        node.work(Ps::us(100.0));
        assert_eq!((trigger.count(), trigger.has_fired(), arrived.value()), (2, false, 0));
        let held = trigger.clone();
        let kernel = node.stream(0).launch(Kernel::new("a kernel", 5), move |block| block.trigger(&held));
        node.wait(&kernel, 1);
        node.wait(&arrived, 1);
        node.work(Ps::us(100.0));
        assert_eq!((trigger.count(), arrived.value()), (7, 1));
    })]);
}

#[test]
fn programs_that_wait_for_ever_are_named() {
    let system = System::named("gpu-tn").expect("a system");
    let timed = Timed::new(&system, 2, 1).expect("a system");
    let [flag] = flags(&timed);
    let run = std::panic::AssertUnwindSafe(|| timed.run([program(1, || timed.node(1).wait(&flag, 1))]));
    let panic = std::panic::catch_unwind(run).expect_err("it panics");
    let text = panic.downcast_ref::<String>().expect("a text");
    assert!(text.contains("the program of node 1"), "{text}");
}

/// A cost of the system, by number.
fn cost(system: &mut System, number: usize) -> &mut f64 {
    let (network, bus, card, host) =
        (&mut system.network, &mut system.bus, &mut system.card, &mut system.host);
    match number {
        0 => &mut network.link_ns,
        1 => &mut network.switch_ns,
        2 => &mut bus.write_ns,
        3 => &mut bus.read_ns,
        4 => &mut card.requester_ns,
        5 => &mut card.requester_busy_ns,
        6 => &mut card.translate_ns,
        7 => &mut card.completer_ns,
        8 => &mut card.completer_busy_ns,
        9 => &mut card.notify_ns,
        _ => &mut host.post_ns,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Of a stream of puts that nothing else is on the way of.
    #[test]
    fn no_stream_ends_sooner_where_a_cost_is_higher(
        sizes in proptest::collection::vec(0u64..20_000, 1..12),
        number in 0usize..11,
        more in 1u32..2_000,
        slower in 1.0f64..4.0,
        torus in any::<bool>(),
    ) {
        let ends = |system: &System| {
            let timed = Timed::new(system, 8, 1).expect("a system");
            let [flag] = flags(&timed);
            timed.run([program(0, || {
                sizes.iter().for_each(|bytes| timed.node(0).put(Put::new(7, *bytes).notified().arrived(&flag)));
                timed.node(0).wait(&flag, sizes.len() as u64);
            })]);
            timed.now()
        };
        let mut system = System::named("extoll-fpga").expect("a system");
        system.network.topology = if torus { Topology::Torus } else { Topology::Star };
        (system.host.poll_ns, system.host.look_ns) = (1e-3, 0.0);
        let before = ends(&system);
        *cost(&mut system, number) += f64::from(more);
        let costly = ends(&system);
        prop_assert!(costly >= before, "cost {number}: {costly} < {before}");
        let rates: [fn(&mut System) -> &mut f64; 3] = [
            |system| &mut system.network.link_bytes_per_ns,
            |system| &mut system.bus.read_bytes_per_ns,
            |system| &mut system.bus.write_bytes_per_ns,
        ];
        for rate in rates {
            let mut system = system.clone();
            *rate(&mut system) /= slower;
            prop_assert!(ends(&system) >= costly, "a lower rate");
        }
    }
}

//! The timed driver where things are scarce: room behind links, places in a card's queue, cores of a host.

use std::cell::Cell;
use std::sync::{Arc, Mutex};

use extoll_sim::timed::{Flag, Kernel, Ps, Put, System, Timed, Topology, Trigger};
use extoll_sim::torus::Torus;

fn system() -> System {
    System::named("extoll-fpga").expect("a system")
}

fn flags(timed: &Timed) -> Vec<Flag> {
    (0..timed.nodes()).map(|_| timed.flag()).collect()
}

fn on_all<'t>(timed: &'t Timed, program: impl Fn(usize) + 't) {
    let program = &program;
    timed.run((0..timed.nodes()).map(|me| (me, format!("host {me}"), move || program(me))));
}

/// Puts of 4 KiB that a program posts one behind the other.
const PUTS: u64 = 2_000;
const BYTES: u64 = 3_968;

/// When a program has posted all its puts, when the last was there, and how many were on their way at once.
fn posted_and_there(system: &System) -> (Ps, Ps, u64) {
    let timed = Timed::new(system, 2, 1).expect("a system");
    let arrived = timed.flag();
    let mut posted = Ps::ZERO;
    timed.run([(0, "the sender".to_owned(), || {
        (0..PUTS).for_each(|_| timed.node(0).put(Put::new(1, BYTES).arrived(&arrived)));
        posted = timed.now();
        timed.node(0).wait(&arrived, PUTS);
    })]);
    (posted, timed.now(), timed.counts().most_flights)
}

#[test]
fn a_slow_receiver_stops_who_sends_and_memory_stays_bounded() {
    for topology in [Topology::Torus, Topology::Star, Topology::Direct] {
        let mut slow = system();
        slow.network.topology = topology;
        // The target writes 20 MB/s.
        slow.bus.write_bytes_per_ns = 0.02;
        let (posted, there, most) = posted_and_there(&slow);
        // What is not written yet is in the queue of the sender's card, or behind at most two links.
        let held = slow.card.queue + 2 * slow.network.credits;
        let least = Ps::ns((PUTS - held) as f64 * BYTES as f64 / 0.02);
        assert!(posted >= least, "{topology:?}: posted after {posted}, which takes {least} to write");
        assert!(there > posted && most <= held + 2, "{topology:?}: {most} on their way, {held} have room");
    }
    // One that is not slow stops nobody for longer than the link takes.
    let (_, there, _) = posted_and_there(&system());
    let link = Ps::ns((PUTS * (BYTES + 8 * 32)) as f64 / 1.225);
    assert!(there < link + Ps::us(20.0), "{there}, where the link takes {link}");
}

#[test]
fn a_get_stops_who_asks_too() {
    let mut slow = system();
    slow.bus.read_bytes_per_ns = 0.02;
    let timed = Timed::new(&slow, 2, 1).expect("a system");
    let arrived = timed.flag();
    timed.run([(0, "who asks".to_owned(), || {
        (0..PUTS).for_each(|_| timed.node(0).get(Put::new(1, BYTES).arrived(&arrived)));
        timed.node(0).wait(&arrived, PUTS);
    })]);
    let most = timed.counts().most_flights;
    assert!(most <= slow.card.queue + 2 * slow.network.credits + 2, "{most} on their way");
}

/// Everyone sends half way round its ring, with room for one packet at each end of a link: each waits for the next.
#[test]
fn rings_of_a_torus_do_not_stop_themselves() {
    let mut small = system();
    small.network.credits = 1;
    for torus in [Torus::new(8, 1, 1), Torus::new(5, 5, 1), Torus::new(4, 4, 4), Torus::new(33, 33, 1)] {
        let torus = torus.expect("a torus");
        let timed = Timed::on_torus(&small, torus, 1).expect("a system");
        let (flags, nodes, [x, y, z]) = (flags(&timed), timed.nodes(), torus.size());
        let far = (x / 2 + x * (y / 2) + x * y * (z / 2)) as usize;
        const ROUNDS: u64 = 8;
        on_all(&timed, |me| {
            let to = (me + far) % nodes;
            for _ in 0..ROUNDS {
                timed.node(me).put(Put::new(to, 2_000).arrived(&flags[to]));
                timed.node(me).get(Put::new(to, 2_000).arrived(&flags[me]));
            }
            timed.node(me).wait(&flags[me], 2 * ROUNDS);
        });
        assert_eq!(timed.counts().bytes, nodes as u64 * ROUNDS * 4_000, "{torus:?}");
    }
}

#[test]
fn threads_of_a_host_share_its_cores() {
    let ends = |cores: u64, threads: usize| {
        let mut system = system();
        system.host.cores = cores;
        let timed = Timed::new(&system, 2, 1).expect("a system");
        let thread = |me: usize| {
            let timed = &timed;
            (0, format!("thread {me}"), move || timed.node(0).work(Ps::us(10.0)))
        };
        timed.run((0..threads).map(thread));
        timed.now()
    };
    for (cores, threads, rounds) in [(3, 3, 1.0), (3, 4, 2.0), (1, 5, 5.0), (2, 5, 3.0)] {
        assert_eq!(ends(cores, threads), Ps::us(10.0 * rounds), "{threads} threads on {cores} cores");
    }
}

#[test]
fn threads_that_poll_have_cores_for_a_slice() {
    let takes = |cores: u64| {
        let mut system = system();
        (system.host.cores, system.host.slice_ns) = (cores, 1e5);
        let timed = Timed::new(&system, 2, 1).expect("a system");
        let word = timed.flag();
        let thread = |me: usize| {
            let (timed, word) = (&timed, word.clone());
            let program = move || match me {
                2 => {
                    timed.node(0).work(Ps::us(10.0));
                    word.add(1);
                }
                _ => timed.node(0).wait(&word, 1),
            };
            (0, format!("thread {me}"), program)
        };
        timed.run((0..3).map(thread));
        timed.now().as_us()
    };
    let enough = takes(3);
    assert!((10.0..10.5).contains(&enough), "{enough}");
    // The one that computes, and is asked for last, waits until a poller's slice is over.
    let scarce = takes(2);
    assert!((110.0..111.0).contains(&scarce), "{scarce}");
}

#[test]
fn a_held_put_waits_for_its_descriptor() {
    let mut system = system();
    system.host.post_ns = 1e6;
    let timed = Timed::new(&system, 2, 1).expect("a system");
    let (arrived, prepared) = (timed.flag(), Arc::new(Mutex::new(None::<Trigger>)));
    let there = Cell::new(Ps::ZERO);
    on_all(&timed, |me| {
        let node = timed.node(me);
        if me == 1 {
            node.wait(&arrived, 1);
            return there.set(timed.now());
        }
        let held = prepared.clone();
        node.stream(0).launch(Kernel::new("pulls", 1), move |block| {
            block.work(Ps::us(10.0));
            let trigger = held.lock().expect("a trigger").clone().expect("it is prepared");
            block.trigger(&trigger);
        });
        *prepared.lock().expect("a trigger") = Some(node.prepare(Put::new(1, 8).arrived(&arrived), 1));
    });
    // Making the descriptor takes a millisecond; the kernel had triggered by then.
    let there = there.get();
    assert!(there > Ps::us(1_000.0) && there < Ps::us(1_010.0), "{there}");
}

//! Many members, and members that nobody drives.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use extoll_abi::*;

use crate::common::*;
use crate::members::*;

/// As many descriptors as the system allows: 64 members here have those of 64 processes.
fn raise_descriptors() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
}

/// Waits until the card has sent all that was posted.
fn rest(port: &Port<'_>) {
    let deadline = Instant::now() + PATIENCE;
    while !port.node.nic.requester_idle(port.vpid) {
        assert!(Instant::now() < deadline, "the requester does not come to rest");
        port.node.nic.progress();
        std::thread::yield_now();
    }
}

#[test]
fn sixty_four_members_exchange_all_to_all() {
    raise_descriptors();
    const MEMBERS: usize = 64;
    const ROUNDS: u64 = 3;
    let job = members(MEMBERS as u32, 4);
    let opened = Barrier::new(MEMBERS);
    let addresses = std::sync::Mutex::new(vec![(Address::default(), 0); MEMBERS]);
    std::thread::scope(|scope| {
        for (rank, member) in job.iter().enumerate() {
            let (opened, addresses) = (&opened, &addresses);
            scope.spawn(move || {
                let mut port = member.open(1);
                // A word for each sender, and behind them what this one sends.
                let memory = member.private(8 * MEMBERS + 8);
                let nla = member.node.register(port.vpid, &memory, Access::ALL);
                addresses.lock().unwrap()[rank] = (port.address(), nla);
                opened.wait();
                let peers = addresses.lock().unwrap().clone();
                let mut heard = [0; MEMBERS];
                for round in 1..=ROUNDS {
                    memory.store(MEMBERS, round << 32 | rank as u64);
                    for (to, there) in (0..MEMBERS).map(|i| peers[(rank + i) % MEMBERS]) {
                        // The card takes 64 at once, and says so (spec 2.4); slow down before it must.
                        rest(&port);
                        port.put(to, Spec::COMPLETER, nla + 8 * MEMBERS as u64, there + 8 * rank as u64, 8);
                    }
                    // Members may be a round ahead of each other.
                    while heard.iter().any(|rounds| *rounds < round) {
                        let (header, _) = port.next().decode().unwrap();
                        assert_eq!(header.error, ErrorUnits::NONE);
                        let from = peers.iter().position(|(address, _)| *address == header.remote).unwrap();
                        heard[from] += 1;
                        let there = memory.load(from) >> 32;
                        assert!(there >= heard[from], "a notification came before its data");
                    }
                }
                // Closing a VPID forgets what it has not sent.
                rest(&port);
                assert_eq!(member.node.all_errors(), []);
            });
        }
    });
}

#[test]
fn a_put_reaches_a_process_that_polls_nothing() {
    let job = members(2, 1);
    let (a, b) = (&job[0], &job[1]);
    let (p, q) = (a.open(1), b.open(1));
    let (from, to) = (a.private(1 << 20), b.private(1 << 20));
    let src = a.node.register(p.vpid, &from, Access::READ);
    let dst = b.node.register(q.vpid, &to, Access::WRITE);
    let last = (1 << 20) / 8 - 1;
    for round in 1..=50u64 {
        from.store(0, round);
        from.store(last, round);
        let size = if round % 2 == 0 { 1 << 20 } else { 8 };
        let at = if size == 8 { 0 } else { last };
        p.put(q.address(), Spec::NONE, src, dst, size);
        let deadline = Instant::now() + PATIENCE;
        while to.load(at) != round {
            assert!(Instant::now() < deadline, "round {round}: nobody took it");
            std::thread::sleep(Duration::from_micros(200));
        }
        if round % 10 == 0 {
            // Long enough for the target to go to sleep.
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    assert!(a.fabric.counters().wakes > 0);
}

#[test]
fn a_sleeper_is_woken_by_a_notification() {
    let job = members(2, 1);
    let (a, b) = (&job[0], &job[1]);
    let (p, mut q) = (a.open(1), b.open(1));
    let request = Request::NotificationPut { class: 1, payload: 9 };
    let to = q.address();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::sleep(Duration::from_millis(30));
            p.post(to, Spec::COMPLETER, Modifier::NONE, &request);
            rest(&p); // closing a VPID forgets what waits until the two have met
        });
        let mut got = None;
        let nic = &b.node.nic;
        assert!(nic.wait_notification(PATIENCE, &mut || {
            got = q.try_next();
            got.is_some()
        }));
        assert_eq!(got.unwrap().decode().unwrap().1, Body::Class { class: 1, payload: 9 });
    });
}

#[test]
fn a_sleeper_is_woken_by_a_loss() {
    let job = members(2, 1);
    let (a, b) = (&job[0], &job[1]);
    let before = a.fabric.departures().load(std::sync::atomic::Ordering::SeqCst);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(30));
            a.fabric.lose(b.fabric.rank());
        });
        let start = Instant::now();
        let moved = || a.fabric.departures().load(std::sync::atomic::Ordering::SeqCst) != before;
        assert!(a.node.nic.wait_notification(PATIENCE, &mut || moved()));
        assert!(start.elapsed() < PATIENCE / 2, "{:?}", start.elapsed());
    });
}

#[test]
fn an_unregistration_waits_for_readers_in_other_processes() {
    use extoll_sim::Fabric;
    use extoll_sim::packet::Class;
    // The peer has no card, so what it got stays where the test keeps it.
    let fabrics = fabrics(2, 1);
    let setup = Setup::over(fabrics[0].clone());
    let a = setup.node(0);
    meet(&fabrics);
    let vpids = [0, 1].map(|i: usize| fabrics[i].nodes().take_vpid(256).unwrap());
    let p = a.open(vpids[0], 1);
    let from = Pages::in_arena(&setup.memory, fabrics[0].arena(), 1 << 16);
    let nla = a.register(p.vpid, &from, Access::READ);
    p.put(Address::new(1, vpids[1]), Spec::NONE, nla, 0, 1 << 16);
    let packet = fabrics[1].poll(1, Class::Request).unwrap();
    let released = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let released = &released;
        scope.spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            released.store(true, std::sync::atomic::Ordering::SeqCst);
            drop(packet);
        });
        a.unregister(nla, &from);
        assert!(
            released.load(std::sync::atomic::Ordering::SeqCst),
            "the page was given back while it is read"
        );
    });
}

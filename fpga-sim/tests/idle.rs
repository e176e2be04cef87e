//! What cards cost while nothing happens. Alone in their process: others' CPU time would be counted too.

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::*;
use extoll_abi::*;
use extoll_sim::*;

/// CPU time that the engine's two threads have used so far; waits until both have begun and come to rest.
fn cpu_of_resting_engine() -> Duration {
    let deadline = Instant::now() + PATIENCE;
    let mut before = None;
    loop {
        let now = cpu_of_engine();
        if now.is_some() && now == before || Instant::now() > deadline {
            return now.expect("the engine's threads are found by their names");
        }
        before = now;
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// `None` until both threads have begun.
fn cpu_of_engine() -> Option<Duration> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().filter_map(Result::ok);
    let engine = tasks.filter(|task| {
        std::fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.starts_with("extoll-nic"))
    });
    let nanos = engine.map(|task| {
        let schedstat = std::fs::read_to_string(task.path().join("schedstat")).unwrap();
        schedstat.split(' ').next().and_then(|nanos| nanos.parse::<u64>().ok()).unwrap()
    });
    let nanos: Vec<u64> = nanos.collect();
    (nanos.len() == 2).then(|| Duration::from_nanos(nanos.iter().sum()))
}

/// One test, since two would run at once.
#[test]
fn idle_cards_cost_nothing() {
    nothing_armed_nothing_pending_no_cpu();
    waiting_for_room_takes_naps();
    a_thousand_cards_start_fast_and_small();
}

fn nothing_armed_nothing_pending_no_cpu() {
    let setup = Setup { driver: Some(NicThreads::new(2)), ..Setup::inline() };
    let nodes: Vec<Node> = (0..8).map(|n| setup.node(n)).collect();
    let (p, mut q) = (nodes[0].open(1, 1), nodes[7].open(2, 1));
    let note = Request::NotificationPut { class: 0, payload: 1 };
    p.post(q.address(), Spec::COMPLETER, Modifier::NONE, &note);
    assert_eq!(q.next().word0, 1);
    nodes[0].nic.arm(1);
    nodes[0].nic.disarm(1);
    let idle = Duration::from_micros(500);
    let used = least_used(idle, || {
        let before = cpu_of_resting_engine();
        std::thread::sleep(Duration::from_millis(500));
        cpu_of_engine().unwrap() - before
    });
    assert!(used < idle, "idle cards used {used:?} of CPU time");
}

fn a_thousand_cards_start_fast_and_small() {
    let resident = || {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
        pages * 4096
    };
    let (memory, fabric) = (HostMemory::new(), fabric::Loopback::new(128, true));
    let engine = NicThreads::new(1);
    let before = resident();
    let card = |node| {
        let (memory, fabric) = (memory.clone(), fabric.clone());
        let config = NicConfig { driver: Some(engine.clone()), ..NicConfig::new(node, memory, fabric) };
        Nic::new(config).unwrap()
    };
    let (cards, took) = cpu_of(|| (0..1000).map(card).collect::<Vec<Arc<Nic>>>());
    let each = (resident() - before) / cards.len();
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert!(each < 512 << 10, "{each} bytes each");
    println!("1,000 cards: {took:?}, {each} bytes resident each");
}

/// A full queue is looked at now and then, not all the time.
fn waiting_for_room_takes_naps() {
    let setup = Setup { driver: Some(NicThreads::new(2)), ..Setup::inline() };
    let a = setup.node(0);
    let p = a.open(1, 1);
    a.nic.reg_write(regs::EXTOLL_RF_RMA_BQ_TIMEOUT, 0); // for ever
    let note = Request::NotificationPut { class: 0, payload: 1 };
    (0..300).for_each(|_| p.post(p.address(), Spec::COMPLETER, Modifier::NONE, &note));
    while cpu_of_engine().is_none() {
        std::thread::yield_now();
    }
    let little = Duration::from_millis(30);
    let used = least_used(little, || {
        std::thread::sleep(Duration::from_millis(50)); // past the shortest naps
        let before = cpu_of_engine().unwrap();
        std::thread::sleep(Duration::from_millis(300));
        cpu_of_engine().unwrap() - before
    });
    assert!(used < little, "waiting used {used:?} of CPU time");
}

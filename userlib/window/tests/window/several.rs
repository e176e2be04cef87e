//! Several windows at once between hosts, behind the units of the same nodes. Where no library carries packets between hosts the
//! tests are skipped.

use std::time::Duration;

use crate::common::{all_of_first, die, on_hosts, victim};
use ggas_device::sim::SimNetwork;
use ggas_device::{DeviceError, PeerEnd};
use ggas_kernels::{Processor, start};
use ggas_members::Job;
use ggas_rma::Node;
use ggas_selftest::args::{
    SELFTEST_ACCESS_ADD, SELFTEST_ACCESS_ORDER, SELFTEST_PUT_BLOCK, SELFTEST_PUT_THREAD, selftest_access,
    selftest_put,
};
use ggas_window::{Atomic, Mapping, Window, WindowError};

/// Bound of every wait that is expected to succeed, on a machine that may stall for seconds.
const SOON: Duration = Duration::from_secs(60);

/// Runs `member` in a process for each of these hosts.
fn job(test: &str, hosts: &[usize], per_node: u32, dies: Option<u32>, member: fn(&Job)) {
    if crate::wire::is_there() {
        on_hosts(test, hosts, per_node, dies, member);
    }
}

struct Process {
    node: Node,
    cpu: Processor,
    _network: SimNetwork,
}

impl Process {
    fn new(job: &Job) -> Process {
        let network = SimNetwork::builder().join_as(job.member().clone()).expect("a node");
        Process { node: Node::new(network.device(0).expect("one")), cpu: Processor::cpu(), _network: network }
    }

    fn window(&self, job: &Job, bytes: usize) -> Window {
        let window = Window::across(job, &self.node, &self.cpu, bytes, SOON).expect("a window");
        assert_eq!((window.info().mapped.clone(), window.info().atomics), (Ok(Mapping::Trapped), true));
        window
    }
}

/// Each rank writes to each part of each window, and finds there what it wrote, and nothing else.
fn reach_all(job: &Job, windows: &[&Window], round: u8) {
    let (rank, size) = (job.rank() as usize, job.size() as usize);
    let word =
        |window: usize, from: usize, to: usize| [round, window as u8, from as u8, to as u8, 1, 2, 3, 4];
    for (at, window) in windows.iter().enumerate() {
        let own = window.member(rank).expect("mine");
        for to in 0..size {
            own.store(to, 8 * rank, &word(at, rank, to)).expect("stored");
            own.reduce(to, 512, Atomic::add(1 + at as u64)).expect("posted");
        }
    }
    for (at, window) in windows.iter().enumerate() {
        let own = window.member(rank).expect("mine");
        for to in 0..size {
            let mut back = [0; 8];
            own.load(to, 8 * rank, &mut back, SOON).expect("loaded");
            assert_eq!(back, word(at, rank, to));
        }
    }
    job.barrier(SOON).expect("all");
    for (at, window) in windows.iter().enumerate() {
        for from in 0..size {
            let mut there = [0; 8];
            window.read(rank, 8 * from, &mut there).expect("mine");
            assert_eq!(there, word(at, from, rank), "window {at}");
        }
        assert_eq!(window.load_u64(rank, 512).expect("mine"), (1 + at as u64) * size as u64, "window {at}");
        window.zero(rank, 512, 8).expect("mine");
    }
    job.barrier(SOON).expect("all");
}

#[test]
fn windows_are_dropped_in_any_order_and_made_again() {
    const TEST: &str = "several::windows_are_dropped_in_any_order_and_made_again";
    job(TEST, &[0, 1], 1, None, come_and_go);
    job(TEST, &[0, 0, 1, 1], 2, None, come_and_go);
    job(TEST, &[0, 0, 0, 1], 3, None, come_and_go);
}

fn come_and_go(job: &Job) {
    let process = Process::new(job);
    let [first, second, third] = [1000, 1000, 5000].map(|bytes| process.window(job, bytes));
    reach_all(job, &[&first, &second, &third], 1);
    drop(first);
    reach_all(job, &[&second, &third], 2);
    let fourth = process.window(job, 9000);
    reach_all(job, &[&second, &third, &fourth], 3);
    drop(third);
    let fifth = process.window(job, 1000);
    reach_all(job, &[&fifth, &fourth, &second], 4);
    // One rank still has a window that the others have dropped, whose intervals others' next windows take.
    let kept = (job.rank() == 0).then_some(second);
    job.barrier(SOON).expect("all");
    let sixth = process.window(job, 1000);
    reach_all(job, &[&sixth, &fifth, &fourth], 5);
    if let Some(kept) = &kept {
        let own = kept.member(0).expect("mine");
        for part in 1..job.size() as usize {
            own.store(part, 0, &[9; 8]).expect("posted");
            let error = own.load(part, 0, &mut [0; 8], SOON).expect_err("it is dropped there").to_string();
            assert!(error.contains("the window is not open there"), "{error}");
        }
    }
    job.barrier(SOON).expect("all");
    drop(kept);
    reach_all(job, &[&sixth, &fifth, &fourth], 6);
}

#[test]
fn kernels_put_signal_and_add_in_two_windows_at_once() {
    const TEST: &str = "several::kernels_put_signal_and_add_in_two_windows_at_once";
    job(TEST, &[0, 1], 1, None, use_both_at_once);
}

fn use_both_at_once(job: &Job) {
    const ROUNDS: u64 = 40;
    let process = Process::new(job);
    let rank = job.rank() as usize;
    let windows = [0, 1, 2].map(|_| process.window(job, 64 << 10));
    let results = process.cpu.alloc(64).expect("memory");
    let own = |window: usize| windows[window].member(rank).expect("mine");
    let put = |window: usize, form| {
        let args = selftest_put {
            window: own(window).address(),
            status: results.address() + 16 * window as u64,
            wrong: results.address() + 16 * window as u64 + 8,
            bytes: 48,
            each: 80,
            form,
            rounds: 4,
            ..selftest_put::default()
        };
        let blocks = 1 + window as u32;
        // SAFETY: the structure is this kernel's, and its memory outlives the waits.
        unsafe { ggas_selftest::launch(&process.cpu, "ggas_selftest_put", blocks, 8, &args) }
    };
    let access = |what| {
        let done = own(2).pointer_of(rank).expect("mine") + 2048 + 16 * u64::from(what);
        let args = selftest_access {
            window: own(2).address(),
            done,
            sum: done + 8,
            rounds: ROUNDS,
            offset: 64 + 128 * u64::from(what == SELFTEST_ACCESS_ORDER) * (1 + rank as u64),
            peer: 1 - rank as u32,
            what,
        };
        // SAFETY: as above.
        unsafe { ggas_selftest::launch(&process.cpu, "ggas_selftest_access", 1, 1, &args) }
    };
    // Puts and signals in two windows while atomics and stores are in a third.
    let running = [
        start(&[put(0, SELFTEST_PUT_THREAD)]),
        start(&[put(1, SELFTEST_PUT_BLOCK)]),
        start(&[access(SELFTEST_ACCESS_ADD)]),
        start(&[access(SELFTEST_ACCESS_ORDER)]),
    ];
    running.into_iter().for_each(|run| run.and_then(|run| run.wait(SOON)).expect("it ends"));
    let ended = [0, 8, 16, 24].map(|at| results.load_u64(at).expect("in range"));
    assert_eq!(ended, [0; 4], "{:?} {:?}", own(0).report(), own(1).report());
    let order = 2048 + 16 * SELFTEST_ACCESS_ORDER as usize;
    assert_eq!(
        [order, order + 8].map(|at| windows[2].load_u64(rank, at).expect("mine")),
        [ROUNDS, 0],
        "in order"
    );
    job.barrier(SOON).expect("all");
    let sum = own(2).atomic(1 - rank, 64, Atomic::add(0), SOON).expect("done");
    assert_eq!(sum, ROUNDS);
    job.barrier(SOON).expect("all");
}

#[test]
fn who_dies_leaves_its_windows_to_the_others() {
    const TEST: &str = "several::who_dies_leaves_its_windows_to_the_others";
    job(TEST, &[0, 0, 1, 1], 2, Some(3), go_on_without_one);
}

fn go_on_without_one(job: &Job) {
    let process = Process::new(job);
    let (rank, size, lost) = (job.rank() as usize, job.size() as usize, victim().expect("who dies"));
    let windows = [0, 1].map(|_| process.window(job, 4096));
    reach_all(job, &windows.each_ref(), 1);
    if job.rank() == lost {
        die();
    }
    while !job.lost().contains(&lost) {
        std::thread::yield_now();
    }
    for window in &windows {
        let own = window.member(rank).expect("mine");
        let error = own.load(lost as usize, 0, &mut [0; 8], SOON).expect_err("nobody is there");
        let WindowError::Device(DeviceError::PeerLost(peer)) = &error else { panic!("{error}") };
        assert_eq!((peer.rank, peer.end), (lost, PeerEnd::Lost));
    }
    // Ranks that are left reach each other in both, and none of them finds what was for the other one.
    for (at, window) in windows.iter().enumerate() {
        let own = window.member(rank).expect("mine");
        for to in (0..size).filter(|to| *to != lost as usize) {
            own.store(to, 1024 + 8 * rank, &[at as u8 + 1; 8]).expect("stored");
        }
    }
    for (at, window) in windows.iter().enumerate() {
        for from in (0..size).filter(|from| *from != lost as usize) {
            let word = || window.load_u64(rank, 1024 + 8 * from).expect("mine");
            while word() == 0 {
                std::thread::yield_now();
            }
            assert_eq!(word(), u64::from_ne_bytes([at as u8 + 1; 8]), "window {at}");
        }
    }
    all_of_first(3, job);
}

//! Latency and bandwidth between two processes: puts to consumed notification, half a round trip.
//!
//! `cargo run --release -p extoll-sim --example process_latency`

#[path = "../tests/common/mod.rs"]
mod common;

use std::time::{Duration, Instant};

use common::{Node, Pages, Port, Setup};
use extoll_abi::{Access, Address, Spec};
use extoll_sim::shared::ProcessFabric;
use extoll_sim::*;
use ggas_clock::Clock;
use ggas_members::Job;

/// Bound of waiting for the other process: every size takes its time.
const PATIENCE: Duration = Duration::from_secs(600);
const BYTES: usize = 8 << 20;
const WARMUP: usize = 2_000;

struct Side<'a> {
    port: Port<'a>,
    peer: Address,
    /// NLAs: mine in the arena, mine in private memory; the peer's are the same.
    shared: u64,
    private: u64,
}

fn main() {
    let name = format!("latency-{}", std::process::id());
    // SAFETY: no other thread exists yet, so the child may do whatever it likes.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork: {}", std::io::Error::last_os_error());
    if child == 0 {
        // SAFETY: asks for a signal when the other one ends: this one would wait for it without end.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    }
    let rank = if child == 0 { "1" } else { "0" };
    for (name, value) in
        [("GGAS_RANK", rank), ("GGAS_SIZE", "2"), ("GGAS_PER_NODE", "1"), ("GGAS_JOB", &name)]
    {
        // SAFETY: as above.
        unsafe { std::env::set_var(name, value) };
    }
    run(&Job::join().expect("the job"));
    if child != 0 {
        // SAFETY: waits for our own child.
        unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
    }
}

fn pin(core: usize) {
    // SAFETY: a zeroed set of ours; a refusal only makes the numbers worse.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &set);
    }
}

fn run(job: &Job) {
    let rank = job.rank();
    pin(rank as usize);
    let fabric = ProcessFabric::join(job.member().clone()).expect("the fabric");
    let memory = HostMemory::new();
    let shared = Some(fabric.nodes().clone());
    let setup = Setup {
        memory: memory.clone(),
        fabric: fabric.clone(),
        driver: None,
        clock: Clock::real(),
        inline: true,
        shared,
    };
    let node = setup.node(job.node());
    let vpid = fabric.nodes().take_vpid(256).expect("a VPID");
    let shared = Pages::in_arena(&memory, fabric.arena(), BYTES);
    let private = Pages::new(&memory, BYTES, 4096);
    for pages in [&shared, &private] {
        pages.fill_pattern(1);
    }
    let mut side = open(&node, vpid, &shared, &private, rank);
    job.barrier(PATIENCE).expect("the other process");
    for size in [8, 64, 512, 2048, 4096, 16384, 65536, 1 << 20] {
        for (name, source, target) in [
            ("shared to shared", side.shared, side.shared),
            ("shared to private", side.shared, side.private),
            ("private to private", side.private, side.private),
        ] {
            let rounds = (20_000_000 / size).clamp(100, 20_000);
            ping_pong(&mut side, rank, size, rounds, source, target + (BYTES / 2) as u64, name);
        }
    }
    if rank == 0 {
        copies(&shared, &private);
        println!("{:?}", fabric.counters());
    }
    job.barrier(PATIENCE).expect("the other process");
}

fn open<'a>(node: &'a Node, vpid: u8, shared: &Pages, private: &Pages, rank: u32) -> Side<'a> {
    let port = node.open(vpid, 1);
    let peer = Address::new(1 - rank as u16, vpid);
    let shared = node.register(vpid, shared, Access::ALL);
    let private = node.register(vpid, private, Access::ALL);
    Side { port, peer, shared, private }
}

fn ping_pong(side: &mut Side<'_>, rank: u32, size: usize, rounds: usize, read: u64, write: u64, name: &str) {
    let mut times = Vec::with_capacity(rounds);
    let rounds = WARMUP.min(rounds) + rounds;
    for _ in 0..rounds {
        let start = Instant::now();
        if rank == 0 {
            side.port.put(side.peer, Spec::COMPLETER, read, write, size as u32);
        }
        spin(&mut side.port);
        if rank == 1 {
            side.port.put(side.peer, Spec::COMPLETER, read, write, size as u32);
        }
        times.push(start.elapsed());
    }
    if rank == 0 {
        times.drain(..WARMUP.min(rounds / 2));
        times.sort();
        let half = |at: usize| times[at].as_nanos() as f64 / 2000.0;
        let (least, median) = (half(0), half(times.len() / 2));
        let rate = size as f64 / median / 1000.0;
        println!("{size:>8} B  {name:<19} min {least:>8.3} us  median {median:>8.3} us  {rate:>6.2} GB/s");
    }
}

/// Waits without pauses: latency is what is measured.
fn spin(port: &mut Port<'_>) {
    let mut rounds = 0u64;
    while port.try_next().is_none() {
        port.node.nic.progress();
        rounds += 1;
        assert!(rounds < 4_000_000_000, "no notification");
    }
}

fn copies(shared: &Pages, private: &Pages) {
    for size in [65536usize, 1 << 20] {
        let mut least = f64::MAX;
        for _ in 0..300 {
            let start = Instant::now();
            // SAFETY: both blocks are longer, and nothing else uses them now.
            unsafe {
                libc::memcpy(
                    private.address() as *mut libc::c_void,
                    shared.address() as *const libc::c_void,
                    size,
                )
            };
            least = least.min(start.elapsed().as_secs_f64());
        }
        println!("{size:>8} B  memcpy              {:>6.2} GB/s", size as f64 / least / 1e9);
    }
}

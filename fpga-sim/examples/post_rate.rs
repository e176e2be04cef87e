//! What a command costs in the model, one thread, inline progress:
//! `cargo run --release -p extoll-sim --example post_rate [repetitions [loopback|torus]]`.

use std::time::{Duration, Instant};

#[path = "../tests/common/mod.rs"]
mod common;

use common::*;
use extoll_abi::*;
use extoll_sim::network::Network;
use extoll_sim::torus::Torus;
use extoll_sim::{Fabric, fabric, faults::Faults};
use std::sync::Arc;

fn main() {
    let repetitions = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1_000_000u32);
    let torus = Network::new(Torus::new(2, 1, 1).unwrap(), Faults::none()).unwrap();
    let fabrics: [(&str, Arc<dyn Fabric>); 2] =
        [("loopback", fabric::Loopback::new(4096, true)), ("torus", torus)];
    let only = std::env::args().nth(2);
    for (name, fabric) in fabrics {
        if only.as_ref().is_some_and(|only| only != name) {
            continue;
        }
        let setup = Setup::over(fabric);
        println!("{name}:");
        small(&setup, repetitions);
        bulk(&setup);
    }
}

/// CPU time of this thread: what the work costs, however busy the machine is.
fn cpu() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is ours.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[inline(never)]
fn small(setup: &Setup, repetitions: u32) {
    let (a, b) = (setup.node(0), setup.node(1));
    let (mut p, mut q) = (a.open(1, 4), b.open(2, 4));
    let (from, to) = (Pages::new(&a.memory, 4096, 4096), Pages::new(&b.memory, 4096, 4096));
    let (src, dst) = (a.register(1, &from, Access::ALL), b.register(2, &to, Access::ALL));
    let put = |dst: Address, spec, read, write| {
        let request = Request::Put { qw: true, read, write, size: 8 };
        Descriptor::encode(dst, spec, Modifier::NONE, &request).unwrap().word
    };
    let there = put(q.address(), Spec::COMPLETER, src, dst);
    let back = put(p.address(), Spec::COMPLETER, dst, src);
    let (start, work) = (Instant::now(), cpu());
    for i in 0..repetitions {
        from.store(0, u64::from(i));
        p.post_words(PageOption::TE, there);
        while q.try_next().is_none() {}
        q.post_words(PageOption::TE, back);
        while p.try_next().is_none() {}
    }
    let (half, work) = (start.elapsed() / (2 * repetitions), (cpu() - work) / (2 * repetitions));
    println!("  8-byte put + completer notification, half round trip: {half:?} (CPU time {work:?})");
    let silent = put(q.address(), Spec::NONE, src, dst);
    let (start, work) = (Instant::now(), cpu());
    (0..repetitions).for_each(|_| p.post_words(PageOption::TE, silent));
    let (elapsed, work) = (start.elapsed() / repetitions, (cpu() - work) / repetitions);
    let rate = 1e3 / elapsed.as_nanos() as f64;
    println!("  8-byte put without notifications: {elapsed:?} (CPU time {work:?}), {rate:.2} M/s");
    assert_eq!(to.load(0), u64::from(repetitions - 1));
}

fn bulk(setup: &Setup) {
    const MIB: usize = 1 << 20;
    let (a, b) = (setup.node(0), setup.node(1));
    let (p, mut q) = (a.open(1, 1), b.open(2, 1));
    let (from, to) = (Pages::new(&a.memory, MIB, 4096), Pages::new(&b.memory, MIB, 4096));
    from.fill_pattern(1);
    let (src, dst) = (a.register(1, &from, Access::ALL), b.register(2, &to, Access::ALL));
    let (mut puts, mut copies) = (Vec::new(), Vec::new());
    for _ in 0..200 {
        let start = Instant::now();
        p.put(q.address(), Spec::COMPLETER, src, dst, MIB as u32);
        while q.try_next().is_none() {}
        puts.push(start.elapsed());
        let start = Instant::now();
        // SAFETY: two allocations of 1 MiB each.
        unsafe {
            std::ptr::copy_nonoverlapping(from.address() as *const u8, to.address() as *mut u8, MIB);
        }
        std::hint::black_box(&to);
        copies.push(start.elapsed());
    }
    puts.sort();
    copies.sort();
    let (put, copy) = (puts[100], copies[100]);
    let ratio = put.as_secs_f64() / copy.as_secs_f64();
    println!("  1 MiB put: {put:?}, memcpy: {copy:?}, ratio {ratio:.3}");
}

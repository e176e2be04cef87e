//! The kernels of the GPU self-test on the CPU executor, so that on a GPU only the GPU is new.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ggas_kernels::{Processor, start};
use ggas_selftest::args::{gputest_hold, gputest_ping, gputest_poke};
use ggas_selftest::launch;

const WAIT: Duration = Duration::from_secs(60);
const KERNEL_WAIT_NS: u64 = 40_000_000_000;

/// Words that kernels and the test share.
fn words(count: usize) -> &'static [AtomicU64] {
    (0..count).map(|_| AtomicU64::new(0)).collect::<Vec<_>>().leak()
}

fn at(word: &AtomicU64) -> u64 {
    word.as_ptr() as u64
}

#[test]
fn two_pings_answer_each_other() {
    let cpu = Processor::cpu();
    let w = words(4);
    let side = |request: &AtomicU64, answer: &AtomicU64, second, status: &AtomicU64| gputest_ping {
        request: at(request),
        answer: at(answer),
        rounds: 100,
        second,
        status: at(status),
        timeout_ns: KERNEL_WAIT_NS,
    };
    let (first, second) = (side(&w[0], &w[1], 0, &w[2]), side(&w[1], &w[0], 1, &w[3]));
    // SAFETY: the kernel's structure; the words live for good.
    let launches = unsafe {
        [launch(&cpu, "ggas_gputest_ping", 1, 1, &first), launch(&cpu, "ggas_gputest_ping", 1, 1, &second)]
    };
    start(&launches).unwrap().wait(WAIT).unwrap();
    let seen: Vec<_> = w.iter().map(|word| word.load(Ordering::Acquire)).collect();
    assert_eq!(seen, [100, 100, 1, 1]);
}

#[test]
fn a_ping_without_answer_ends_with_a_timeout() {
    let cpu = Processor::cpu();
    let w = words(3);
    let args = gputest_ping {
        request: at(&w[0]),
        answer: at(&w[1]),
        rounds: 1,
        second: 0,
        status: at(&w[2]),
        timeout_ns: 1_000_000,
    };
    // SAFETY: as above.
    start(&[unsafe { launch(&cpu, "ggas_gputest_ping", 1, 1, &args) }]).unwrap().wait(WAIT).unwrap();
    assert_eq!((w[0].load(Ordering::Acquire), w[2].load(Ordering::Acquire)), (1, 2));
}

#[test]
fn held_blocks_count_themselves_and_wait() {
    let cpu = Processor::cpu();
    let w = words(2);
    let args = gputest_hold { flag: at(&w[0]), counter: at(&w[1]), timeout_ns: KERNEL_WAIT_NS };
    // SAFETY: as above.
    let running = start(&[unsafe { launch(&cpu, "ggas_gputest_hold", 5, 64, &args) }]).unwrap();
    let begin = Instant::now();
    while w[1].load(Ordering::Acquire) < 5 {
        assert!(begin.elapsed() < WAIT);
        std::thread::yield_now();
    }
    w[0].store(1, Ordering::Release);
    running.wait(WAIT).unwrap();
    assert_eq!(w[1].load(Ordering::Acquire), 5);
}

#[test]
fn a_poke_reaches_every_part() {
    let cpu = Processor::cpu();
    let w = words(100);
    let args = gputest_poke { base: at(&w[0]), stride: 16, parts: 50, value: 7 };
    // SAFETY: as above.
    start(&[unsafe { launch(&cpu, "ggas_gputest_poke", 1, 32, &args) }]).unwrap().wait(WAIT).unwrap();
    for (i, word) in w.iter().enumerate() {
        let expected = if i % 2 == 0 { 7 + i as u64 / 2 } else { 0 };
        assert_eq!(word.load(Ordering::Acquire), expected, "word {i}");
    }
}

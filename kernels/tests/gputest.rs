//! The kernels of the GPU self-test on the CPU executor, so that on a GPU only the GPU is new.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ggas_kernels::{Launch, Processor, start};

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
    let first = [at(&w[0]), at(&w[1]), 100, 0, at(&w[2]), KERNEL_WAIT_NS];
    let second = [at(&w[1]), at(&w[0]), 100, 1, at(&w[3]), KERNEL_WAIT_NS];
    // SAFETY: the kernel's structure is six words; the words live for good.
    let launches = unsafe {
        [
            Launch::new(&cpu, "ggas_gputest_ping", 1, 1, &first),
            Launch::new(&cpu, "ggas_gputest_ping", 1, 1, &second),
        ]
    };
    start(&launches).unwrap().wait(WAIT).unwrap();
    let seen: Vec<_> = w.iter().map(|word| word.load(Ordering::Acquire)).collect();
    assert_eq!(seen, [100, 100, 1, 1]);
}

#[test]
fn a_ping_without_answer_ends_with_a_timeout() {
    let cpu = Processor::cpu();
    let w = words(3);
    let args = [at(&w[0]), at(&w[1]), 1, 0, at(&w[2]), 1_000_000];
    // SAFETY: as above.
    start(&[unsafe { Launch::new(&cpu, "ggas_gputest_ping", 1, 1, &args) }]).unwrap().wait(WAIT).unwrap();
    assert_eq!((w[0].load(Ordering::Acquire), w[2].load(Ordering::Acquire)), (1, 2));
}

#[test]
fn held_blocks_count_themselves_and_wait() {
    let cpu = Processor::cpu();
    let w = words(2);
    let args = [at(&w[0]), at(&w[1]), KERNEL_WAIT_NS];
    // SAFETY: the kernel's structure is three words; the words live for good.
    let running = start(&[unsafe { Launch::new(&cpu, "ggas_gputest_hold", 5, 64, &args) }]).unwrap();
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
    let args = [at(&w[0]), 16, 50, 7];
    // SAFETY: the kernel's structure is four words; the words live for good.
    start(&[unsafe { Launch::new(&cpu, "ggas_gputest_poke", 1, 32, &args) }]).unwrap().wait(WAIT).unwrap();
    for (i, word) in w.iter().enumerate() {
        let expected = if i % 2 == 0 { 7 + i as u64 / 2 } else { 0 };
        assert_eq!(word.load(Ordering::Acquire), expected, "word {i}");
    }
}

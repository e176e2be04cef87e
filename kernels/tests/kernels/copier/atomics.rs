//! Atomic operations of the copier: what they leave in the word, and what they bring back.

use std::sync::atomic::{AtomicU64, Ordering};

use extoll_abi::{Atomic, Operation, Width};

use super::*;

impl Copier {
    /// Carries one out; gives what was there.
    fn change(&mut self, at: u64, atomic: Atomic) -> u64 {
        let number = self.submit(0, &Command::Atomic { at, atomic });
        self.wait(0, number);
        self.rings[0].take_before(number).expect("it brings what was there")
    }
}

fn cut(width: Width, word: u64) -> u64 {
    if width == Width::Four { word & u64::from(u32::MAX) } else { word }
}

#[test]
fn atomics_of_every_operation_and_width_are_exact() {
    let mut copier = Copier::new();
    copier.run(WAIT);
    let minus = (-5i64) as u64;
    let floats = [f32::to_bits(1.5), f32::to_bits(-0.75), f32::to_bits(3e8)].map(u64::from);
    let doubles = [1.5, -0.75, 3e300].map(f64::to_bits);
    let numbers = [0, 1, 6, 12, u64::from(u32::MAX), 1 << 31, 0x8000_0000_8000_0001, minus, u64::MAX];
    for operation in (0..11).filter_map(Operation::new) {
        for (width, offset) in [(Width::Four, 0), (Width::Four, 4), (Width::Eight, 0)] {
            let values: &[u64] = match (operation, width) {
                (Operation::AddFloat, Width::Four) => &floats,
                (Operation::AddFloat, Width::Eight) => &doubles,
                _ => &numbers,
            };
            for (old, operand) in values.iter().flat_map(|old| values.iter().map(move |v| (*old, *v))) {
                let atomic = match operation {
                    Operation::CompareExchange => Atomic::compare_exchange(width, values[1], operand),
                    _ => Atomic::new(operation, width, operand),
                };
                let words = [0x5a5a_5a5a_5a5a_5a5au64; 3].map(AtomicU64::new);
                let shift = 8 * offset;
                let kept = if width == Width::Four { !(u64::from(u32::MAX) << shift) } else { 0 };
                let with = |value| 0x5a5a_5a5a_5a5a_5a5a & kept | cut(width, value) << shift;
                words[1].store(with(old), Ordering::Relaxed);
                let found = copier.change(words[1].as_ptr() as u64 + offset, atomic);
                assert_eq!(found, cut(width, old), "{atomic:?} of {old:#x}");
                let new = words.each_ref().map(|word| word.load(Ordering::Relaxed));
                let outside = 0x5a5a_5a5a_5a5a_5a5a;
                assert_eq!(new, [outside, with(atomic.apply(old)), outside], "{atomic:?} of {old:#x}");
            }
        }
    }
    copier.stop();
}

/// More than a ring has entries are under way before anybody asks what they found, beside copies, and beside others that add to the same word.
#[test]
fn atomics_in_flight_are_done_once_each_and_their_results_wait() {
    const ADDS: u64 = 2 * ENTRIES;
    let mut copier = Copier::new();
    copier.run(WAIT);
    let (word, from, to) = (AtomicU64::new(0), [7u64; 2], [0; 2].map(AtomicU64::new));
    let at = word.as_ptr() as u64;
    let mut numbers = Vec::new();
    std::thread::scope(|threads| {
        threads.spawn(|| (0..ADDS).for_each(|_| _ = word.fetch_add(1 << 32, Ordering::Relaxed)));
        for i in 0..ADDS {
            numbers.push(copier.submit(0, &Command::Atomic { at, atomic: Atomic::add(1) }));
            if i % 2 == 0 {
                let (dst, src) = (to[0].as_ptr() as u64, from.as_ptr() as u64);
                copier.submit(0, &Command::Copy { dst, src, len: 16 });
            }
        }
    });
    copier.stop();
    let to = to.map(AtomicU64::into_inner);
    assert_eq!((word.load(Ordering::Relaxed), to), (ADDS << 32 | ADDS, from));
    let mut found: Vec<u64> = numbers
        .iter()
        .map(|number| copier.rings[0].take_before(*number).expect("it waits") & u64::from(u32::MAX))
        .collect();
    found.sort_unstable();
    assert!(found.iter().copied().eq(0..ADDS), "two found the same, or one was lost");
    assert!(numbers.iter().all(|number| copier.rings[0].take_before(*number).is_none()), "taken twice");
}

#[test]
fn an_atomic_that_came_too_late_is_done_by_the_next_run_once() {
    let mut copier = Copier::new();
    let word = AtomicU64::new(40);
    let at = word.as_ptr() as u64;
    copier.run(Duration::from_millis(1));
    copier.end();
    let late = copier.submit(0, &Command::Atomic { at, atomic: Atomic::add(1) });
    assert_eq!(word.load(Ordering::Relaxed), 40);
    copier.rings.iter_mut().for_each(|ring| assert!(ring.close()));
    copier.run(WAIT);
    copier.wait(0, late);
    assert_eq!(copier.rings[0].take_before(late), Some(40));
    assert_eq!(copier.change(at, Atomic::add(1)), 41);
    copier.stop();
    assert_eq!(word.load(Ordering::Relaxed), 42);
}

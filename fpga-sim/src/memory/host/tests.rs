use super::*;
use crate::memory::{Completion, Memory};

fn declared(memory: &HostMemory, len: usize) -> Vec<u64> {
    let words = vec![0u64; len];
    // SAFETY: the vector outlives the test's accesses (every test keeps it to its end).
    unsafe { memory.add_range(RangeKind::Host, words.as_ptr() as u64, len * 8).unwrap() };
    words
}

#[test]
fn undeclared_memory_is_never_touched() {
    let memory = HostMemory::new();
    let words = declared(&memory, 4);
    let base = words.as_ptr() as u64;
    assert!(memory.load(base).is_ok());
    assert!(memory.load(base + 32).is_err());
    assert!(memory.load(base.wrapping_sub(8)).is_err());
    assert!(memory.load(base + 4).is_err(), "misaligned");
    assert!(memory.copy(base, base + 24, 16).is_err());
    assert!(memory.write(base + 25, &[0; 8]).is_err());
    for hostile in [0, 1, u64::MAX, u64::MAX - 7, 1 << 63] {
        assert!(memory.load(hostile).is_err());
        assert!(memory.write(hostile, &[1; 16]).is_err());
        assert!(memory.fetch_compare_add(hostile, 0, 1).is_err());
    }
}

#[test]
fn each_declaration_is_removed_on_its_own() {
    let memory = HostMemory::new();
    let words = declared(&memory, 8);
    let base = words.as_ptr() as u64;
    // SAFETY: inside `words`.
    unsafe { memory.add_range(RangeKind::Host, base + 16, 16).unwrap() };
    memory.remove_range(base, 64).unwrap();
    assert!(memory.load(base).is_err());
    assert!(memory.load(base + 16).is_ok());
    memory.remove_range(base + 16, 16).unwrap();
    assert!(memory.load(base + 16).is_err());
    assert!(memory.remove_range(base + 16, 16).is_err());
}

#[test]
fn many_declarations_are_removed_at_once() {
    let memory = HostMemory::new();
    let words = [0u64; 8];
    let base = words.as_ptr() as u64;
    for at in [0, 16, 16, 32, 48] {
        // SAFETY: inside `words`, and only tables are looked at.
        unsafe { memory.add_range(RangeKind::Host, base + at, 16).unwrap() };
    }
    let gone = memory.remove_ranges(&[(base + 48, 16), (base + 16, 16), (base + 8, 16), (base, 16)]);
    assert_eq!(gone.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, true, false, true]);
    let there = [0, 16, 32, 48].map(|at| memory.contains(base + at, 16));
    assert_eq!(there, [false, true, true, false], "one of two declarations is left");
}

#[test]
fn removal_waits_for_a_copy_in_progress() {
    let memory = HostMemory::new();
    let mut from = vec![1u8; 32 << 20];
    let mut to = vec![0u8; 32 << 20];
    let (source, destination) = (from.as_mut_ptr() as u64, to.as_mut_ptr() as u64);
    // SAFETY: both outlive the ranges.
    unsafe {
        memory.add_range(RangeKind::Host, source, from.len()).unwrap();
        memory.add_range(RangeKind::Host, destination, to.len()).unwrap();
    }
    let copier = memory.clone();
    let copies = std::thread::spawn(move || {
        let mut copies = 0;
        while copier.copy(destination, source, 32 << 20).is_ok() {
            copies += 1;
        }
        copies
    });
    while to[0] == 0 {
        std::hint::black_box(&mut to);
        std::thread::yield_now();
    }
    memory.remove_range(destination, to.len()).unwrap();
    to.fill(7);
    assert!(copies.join().unwrap() >= 1);
    assert!(to.iter().all(|b| *b == 7), "written after the removal");
}

/// A device that does what is asked while it starts a copy, and never ends it.
struct Starting<F>(F);

impl<F: Fn() + Send + Sync> DeviceCopier for Starting<F> {
    fn copy(&self, _: u64, _: u64, _: usize) -> u64 {
        (self.0)();
        1
    }
    fn write_inline(&self, destination: u64, bytes: &[u8]) -> u64 {
        self.copy(destination, 0, bytes.len())
    }
    fn poll(&self, _: u64) -> TicketState {
        TicketState::Pending
    }
}

/// Others go on meanwhile, and a removal waits for it.
#[test]
fn a_copy_may_take_long_to_start() {
    let (memory, words) = (HostMemory::new(), vec![0u64; 8]);
    let (base, end) = (words.as_ptr() as u64, words.as_ptr() as u64 + 64);
    let (own, seen) = (memory.clone(), Arc::new(Mutex::new(Vec::new())));
    let quiet = seen.clone();
    let removes = move || {
        // A thread that holds the lock waits for this one.
        let mut state = own.state.try_lock().expect("others can use the memory");
        state.declared.clear();
        let number = own.publish(&mut state);
        drop(state);
        quiet.lock().unwrap().push((number, own.quiet(number, base, end)));
    };
    // SAFETY: never touched.
    unsafe { memory.add_range(RangeKind::Device(Arc::new(Starting(removes))), base, 64).unwrap() };
    assert!(matches!(memory.write(base, &[1; 64]), Ok(Completion::Ticket(_))));
    let (number, was_quiet) = seen.lock().unwrap()[0];
    assert!(!was_quiet, "while the copy was started");
    assert!(!memory.quiet(number, base, end), "while it is made");
    assert!(memory.write(base, &[1; 64]).is_err());
}

#[test]
fn fetch_compare_add_follows_the_trace_of_the_specification() {
    let memory = HostMemory::new();
    let words = declared(&memory, 1);
    let at = words.as_ptr() as u64;
    for step in 1..=5 {
        assert_eq!(memory.fetch_compare_add(at, 28, 7), Ok((true, 7 * step)));
    }
    assert_eq!(memory.fetch_compare_add(at, 28, 7), Ok((false, 35)));
    assert_eq!(memory.fetch_compare_add(at, 35, -7), Ok((true, 28)));
}

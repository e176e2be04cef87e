//! When the copier takes atomic operations, on a libcuda whose GPUs are host memory, and whose copier a thread is (`fake_libcuda.c`).

use std::time::{Duration, Instant};

use extoll_abi::{Atomic, Operation, Width};
use ggas_gpu::copier::ring::ENTRIES;
use ggas_gpu::{AtomicStart, Copier, CopyState, DeviceBuffer, Gpu};

use crate::fake::{function, in_a_child};

#[test]
fn atomics_are_the_kernels_alone() {
    in_a_child("copier::child", Some("FAKE_COPIER"));
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(60), "waited too long for {what}");
        std::thread::yield_now();
    }
}

/// Whether the copier's thread takes no commands.
fn hold(held: bool) {
    // SAFETY: the function has this type.
    let hold: extern "C" fn(i32) = unsafe { std::mem::transmute(function(c"fake_hold")) };
    hold(held.into());
}

fn start(copier: &Copier, at: u64, atomic: Atomic) -> AtomicStart {
    // SAFETY: callers keep the memory.
    unsafe { copier.atomic(at, atomic) }
}

/// What it found.
fn end(copier: &Copier, started: AtomicStart) -> Option<u64> {
    let AtomicStart::Started(id) = started else { panic!("{started:?}") };
    until("an atomic operation", || copier.poll(id) == CopyState::Done);
    copier.take_before(id)
}

fn word(memory: &DeviceBuffer, offset: u64) -> u64 {
    let mut bytes = [0; 8];
    memory.read(offset, &mut bytes).unwrap();
    u64::from_le_bytes(bytes)
}

#[test]
#[ignore = "runs as the child of the other test"]
fn child() {
    let gpu = Gpu::open(0).unwrap();
    let memory = gpu.alloc(64).unwrap();
    memory.write(0, &[0; 64]).unwrap();
    let at = memory.address();
    let copier = Copier::of(&gpu).unwrap();
    let add = || start(&copier, at, Atomic::add(1));
    // Without a kernel copies go through the driver. Atomics are refused: the driver has none.
    assert_eq!(add(), AtomicStart::Refused);
    gpu.load(b"image").unwrap();
    let armed = copier.arm().unwrap();
    assert_eq!((end(&copier, add()), end(&copier, add())), (Some(0), Some(1)));
    let four = Atomic::compare_exchange(Width::Four, 0, 7);
    assert_eq!(end(&copier, start(&copier, at + 12, four)), Some(0));
    assert_eq!(end(&copier, start(&copier, at + 12, four)), Some(7));
    assert_eq!((word(&memory, 0), word(&memory, 8)), (2, 7 << 32));

    // No words, and words of others.
    let host = [0u64; 2];
    let other = Gpu::open(1).unwrap().alloc(64).unwrap();
    for (at, width) in [
        (at + 4, Width::Eight),
        (at + 2, Width::Four),
        (at + 64, Width::Eight),
        (host.as_ptr() as u64, Width::Eight),
        (other.address(), Width::Eight),
    ] {
        assert_eq!(
            start(&copier, at, Atomic::new(Operation::Add, width, 1)),
            AtomicStart::Refused,
            "{at:#x}"
        );
    }
    full(&copier, &add);
    assert_eq!(word(&memory, 0), 2 + ENTRIES);
    paused(&gpu, &copier, &add);
    // What is under way as the kernel is told to end is done; nothing more is taken.
    hold(true);
    let last = add();
    drop(armed);
    assert_eq!(add(), AtomicStart::Refused);
    hold(false);
    assert_eq!((end(&copier, last), word(&memory, 0)), (Some(4 + ENTRIES), 5 + ENTRIES));
}

/// A ring that is full has room again.
fn full(copier: &Copier, add: &dyn Fn() -> AtomicStart) {
    hold(true);
    let started: Vec<_> = (0..ENTRIES).map(|_| add()).collect();
    assert_eq!(add(), AtomicStart::Busy);
    hold(false);
    // Asked the last one first.
    let found: Vec<_> = started.into_iter().rev().map(|one| end(copier, one)).collect();
    assert!(found.into_iter().rev().eq((2..).map(Some).take(ENTRIES as usize)));
}

/// The kernel is stopped for calls that wait for the GPU, and starts again: behind the call, or, where it did not end in time and the call was
/// put off, when somebody asks for it.
fn paused(gpu: &Gpu, copier: &Copier, add: &dyn Fn() -> AtomicStart) {
    // SAFETY: the function has this type.
    let runs: extern "C" fn() -> i32 = unsafe { std::mem::transmute(function(c"fake_copiers")) };
    let before = runs();
    drop(gpu.alloc(64).unwrap());
    assert_eq!((runs(), ggas_gpu::deferred_calls()), (before + 1, 0));
    let first = add();
    hold(true);
    drop(gpu.alloc(64).unwrap());
    assert_eq!((add(), runs()), (AtomicStart::Busy, before + 1));
    hold(false);
    let mut again = AtomicStart::Busy;
    until("the kernel's next run", || {
        again = add();
        again != AtomicStart::Busy
    });
    assert_eq!((end(copier, first), end(copier, again)), (Some(2 + ENTRIES), Some(3 + ENTRIES)));
}

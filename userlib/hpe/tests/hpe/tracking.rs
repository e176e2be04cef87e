//! How the host's accesses to shared objects are seen: nothing is lost without a shadow, by `userfaultfd` of older kernels, and while
//! accesses wait. Threads of the host stand for kernels.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Barrier};

use crate::common::objects::{ALL, BLOCK, inside, made, wait_until, words};
use ggas_hpe::{Builder, Runtime, Tracking, Use};

/// Devices whose kernels are threads of the host, looked at by `userfaultfd`.
fn userfault(count: usize) -> Builder {
    Runtime::builder().executors(count).block(BLOCK).tracking(Tracking::Userfault)
}

/// The server thread looks at a fault that waits again and again, meanwhile it serves others.
#[test]
fn an_access_that_waits_counts_once() {
    let Some(runtime) = made(userfault(2)) else { return };
    let (shared, other) = (words(&runtime, 0), words(&runtime, 1));
    let begun = Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            begun.wait();
            shared[3].fetch_add(1, Ordering::Relaxed)
        });
        runtime
            .launch(&[(shared.as_ptr().cast(), Use::Write)], || {
                begun.wait();
                wait_until(|| runtime.counts().shared.waited > 0);
                for block in 0..8 {
                    other[block * BLOCK / 8].store(1, Ordering::Relaxed);
                }
                assert_eq!((runtime.counts().shared.waited, runtime.counts().shared.faults), (1, 8));
            })
            .unwrap();
    });
}

/// Blocks that are fetched into the user's own mapping, and read first, are watched for writes.
#[test]
fn without_a_shadow_no_write_behind_a_read_is_lost() {
    for tracking in ALL {
        let settings = Runtime::builder().executors(1).block(BLOCK).tracking(tracking).shadow(false);
        let Some(runtime) = made(settings) else { continue };
        let shared = words(&runtime, 0);
        let device = inside(&runtime, shared);
        let used = [(shared.as_ptr().cast(), Use::Write)];
        runtime.launch(&used, || device[9].store(7, Ordering::Relaxed)).unwrap();
        assert_eq!(shared[9].load(Ordering::Relaxed), 7);
        shared[9].store(8, Ordering::Relaxed);
        assert_eq!(runtime.launch(&used, || device[9].load(Ordering::Relaxed)).unwrap(), 8, "{tracking:?}");
        shared[10].store(3, Ordering::Relaxed);
        assert_eq!(
            shared[9].load(Ordering::Relaxed),
            8,
            "{tracking:?}: a write brings the rest of the block"
        );
    }
}

/// What the kernel says of a thread: `S` for one that sleeps.
fn state_of(thread: i32) -> String {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap();
    stat.rsplit(") ").next().unwrap()[..1].to_owned()
}

#[test]
fn without_a_shadow_who_faulted_waits_until_all_has_come() {
    let (faulting, looked) = (Arc::new(AtomicI32::new(0)), Arc::new(AtomicBool::new(false)));
    let (thread, seen) = (faulting.clone(), looked.clone());
    // At half of the copy: the thread sleeps still, or else it has been woken and looks at what is there.
    let between = move || {
        let thread = thread.load(Ordering::SeqCst);
        wait_until(|| thread == 0 || seen.load(Ordering::SeqCst) || state_of(thread) == "S");
    };
    let Some(runtime) = made(userfault(1).shadow(false).between(between)) else { return };
    let shared = words(&runtime, 0);
    let device = inside(&runtime, shared);
    let used = [(shared.as_ptr().cast(), Use::Write)];
    runtime.launch(&used, || device.iter().for_each(|word| word.store(1, Ordering::Relaxed))).unwrap();
    // SAFETY: no arguments.
    faulting.store(unsafe { libc::gettid() }, Ordering::SeqCst);
    let last = shared[BLOCK / 8 - 1].load(Ordering::Relaxed);
    looked.store(true, Ordering::SeqCst);
    assert_eq!(last, 1);
}

/// Linux before 6.4 does not map pages protected: blocks that are read count as written.
#[test]
fn userfaultfd_of_older_kernels_loses_nothing() {
    let Some(runtime) = made(userfault(1).protects_at_once(false)) else { return };
    let shared = words(&runtime, 0);
    let device = inside(&runtime, shared);
    let at = shared.as_ptr().cast();
    for round in 1..4u64 {
        let used = [(at, Use::Write)];
        runtime.launch(&used, || device[9].fetch_add(round, Ordering::Relaxed)).unwrap();
        let read = shared[9].load(Ordering::Relaxed);
        shared[9].store(10 * read, Ordering::Relaxed);
        // Of both sides: the host's write of a block that it shares with the device is seen, too.
        let used = [(at, Use::Read)];
        assert_eq!(runtime.launch(&used, || device[9].load(Ordering::Relaxed)).unwrap(), 10 * read);
        shared[9].store(read, Ordering::Relaxed);
        assert_eq!(runtime.launch(&used, || device[9].load(Ordering::Relaxed)).unwrap(), read);
        assert_eq!(read, (1..=round).sum());
    }
    let counts = runtime.counts().shared;
    assert_eq!(
        (counts.faults, counts.stored),
        (6, 6 * BLOCK as u64),
        "each round: a read, and a write behind a launch"
    );
}

/// Whether a thread that looks at a block while it arrives reads one half of it and not the other.
fn is_torn(shadow: bool) -> bool {
    let (half_way, looked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let waiting: Arc<std::sync::OnceLock<Runtime>> = Arc::default();
    let (reached, seen, counted) = (half_way.clone(), looked.clone(), waiting.clone());
    let between = move || {
        reached.store(true, Ordering::SeqCst);
        let waits = || counted.get().is_some_and(|runtime| runtime.counts().shared.waiting > 0);
        wait_until(|| seen.load(Ordering::SeqCst) || waits());
    };
    let runtime =
        Runtime::builder().executors(1).block(BLOCK).shadow(shadow).between(between).build().unwrap();
    let shared = words(&runtime, 0);
    let device = inside(&runtime, shared);
    runtime
        .launch(&[(shared.as_ptr().cast(), Use::Write)], || {
            device.iter().for_each(|word| word.store(1, Ordering::Relaxed));
        })
        .unwrap();
    let _ = waiting.set(runtime.clone());
    std::thread::scope(|scope| {
        let looker = scope.spawn(|| {
            wait_until(|| half_way.load(Ordering::SeqCst));
            let halves = [&shared[0], &shared[BLOCK / 8 - 1]].map(|word| word.load(Ordering::Relaxed));
            looked.store(true, Ordering::SeqCst);
            halves
        });
        assert_eq!(shared[1].load(Ordering::Relaxed), 1, "who fetches sees all");
        let halves = looker.join().unwrap();
        halves[0] != halves[1]
    })
}

#[test]
fn without_a_shadow_threads_read_halves_and_with_it_never() {
    assert!(is_torn(false), "the race of the paper");
    assert!(!is_torn(true));
}

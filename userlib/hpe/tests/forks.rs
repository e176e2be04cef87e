//! Children of a fork: each in a process of its own.

mod common;

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use common::cases::{dies, in_child, passes};
use ggas_hpe::{HpeError, Runtime, Use};

#[test]
#[ignore = "runs as the child of the other tests"]
fn case() {
    match std::env::var("HPE_CASE").as_deref() {
        Ok("child-touches") => child_touches(),
        Ok("child-calls") => child_calls(),
        Ok("busy") => children_of_a_busy_process(),
        _ => {}
    }
}

fn runtime() -> Runtime {
    Runtime::builder().executors(1).build().unwrap()
}

fn shared(runtime: &Runtime) -> *mut u8 {
    runtime.alloc_shared(runtime.devices()[0], 4096).unwrap()
}

fn child_touches() {
    let runtime = runtime();
    let start = shared(&runtime);
    // SAFETY: an object of this test; the child faults.
    unsafe {
        start.write_volatile(5);
        let status = in_child(|| {
            libc::signal(libc::SIGABRT, libc::SIG_DFL);
            start.write_volatile(6);
            0
        });
        assert!(libc::WIFSIGNALED(status), "{status:#x}");
        assert_eq!(start.read_volatile(), 5, "the child changed the parent's object");
    }
    // The parent dies in the same way, so that its parent sees the text.
    // SAFETY: no arguments.
    unsafe { libc::abort() }
}

fn child_calls() {
    let old = runtime();
    let start = shared(&old);
    // SAFETY: refused in the child.
    let status = in_child(|| unsafe {
        let refused = [
            old.alloc(old.devices()[0], 8).map(drop),
            old.copy(start, [1].as_ptr(), 1),
            old.free(start),
            old.launch(&[(start.cast_const(), Use::Read)], || ()),
        ];
        if !refused.iter().all(|result| matches!(result, Err(HpeError::Forked))) {
            return 1;
        }
        // What only looks says so, too, and whose a pointer is still is in its bits.
        let address = old.device_address(start);
        if !matches!(address, Err(HpeError::Forked)) || old.holds(start, 1) {
            return 2;
        }
        if old.owner(start) != Some(old.devices()[0]) {
            return 3;
        }
        // One of its own works, and both go.
        let new = runtime();
        let own = shared(&new);
        own.write_volatile(9);
        let fine = own.read_volatile() == 9;
        drop(old.clone());
        drop(new);
        i32::from(!fine)
    });
    assert_eq!(status, 0);
    // SAFETY: the parent's goes on.
    unsafe {
        start.write_volatile(3);
        assert_eq!(start.read_volatile(), 3);
    }
}

/// Other threads allocate, free, make runtimes and drop them while this one forks: a child meets each lock as it was then.
fn children_of_a_busy_process() {
    let old = runtime();
    let device = old.devices()[0];
    let spread = old.alloc_spread(&[device], 4096).unwrap();
    let (stop, begun) = (AtomicBool::new(false), Barrier::new(6));
    let busy = |work: &dyn Fn()| {
        begun.wait();
        while !stop.load(Ordering::Relaxed) {
            work();
        }
    };
    std::thread::scope(|scope| {
        // SAFETY: memory of these threads, which nobody uses.
        scope.spawn(|| busy(&|| unsafe { old.free(old.alloc_spread(&[device], 1).unwrap()).unwrap() }));
        // SAFETY: the same.
        scope.spawn(|| busy(&|| unsafe { old.free(shared(&old)).unwrap() }));
        for _ in 0..3 {
            scope.spawn(|| busy(&|| drop(runtime())));
        }
        // The standard library has a lock where threads begin: children of who begins threads may find it locked for ever.
        begun.wait();
        for round in 0..200 {
            let status = in_child(|| child_of_a_busy_process(&old, spread));
            if status != 0 {
                stop.store(true, Ordering::Relaxed);
            }
            assert_eq!(status, 0, "child {round}");
        }
        stop.store(true, Ordering::Relaxed);
    });
}

fn child_of_a_busy_process(old: &Runtime, spread: *mut u8) -> i32 {
    if old.owner(spread).is_none() || old.holds(spread, 1) {
        return 1;
    }
    let new = runtime();
    let own = shared(&new);
    // SAFETY: an object of this child; the parent's runtime is dropped here once, and not used again.
    unsafe {
        own.write_volatile(9);
        new.free(own).unwrap();
        drop(new);
        drop(std::ptr::read(old));
    }
    0
}

#[test]
fn a_child_cannot_touch_objects_of_its_parent() {
    dies("child-touches", "a child touched a shared object of its parent");
}

#[test]
fn a_child_is_refused_and_may_have_a_runtime_of_its_own() {
    passes("child-calls");
}

#[test]
fn children_do_not_wait_for_locks_of_their_parents_threads() {
    passes("busy");
}

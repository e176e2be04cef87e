//! Shared objects: one pointer, coherent around kernels. Those whose kernels are no threads of the host run on two GPUs, too, with
//! `GGAS_TEST_GPUS=2`; 1 has them on one.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::time::Duration;

use crate::common::objects::{ALL, BLOCK, WORDS, inside, made, wait_until, words};
use crate::common::{devices, on_gpus};
use ggas_hpe::{HpeError, Runtime, Tracking, Use};
use ggas_kernels::{Launch, start};
use ggas_selftest::args::selftest_threads;

/// Two devices; see [`made`].
fn runtime(tracking: Tracking) -> Option<Runtime> {
    made(devices(2).block(BLOCK).tracking(tracking))
}

/// The same where kernels are threads of the host, whose closures stand for them.
fn runtime_of_threads(tracking: Tracking) -> Option<Runtime> {
    if on_gpus() {
        eprintln!("not run on GPUs: the host's threads stand for kernels");
        return None;
    }
    runtime(tracking)
}

#[test]
fn kernels_see_what_the_host_wrote_and_the_host_what_kernels_wrote() {
    for runtime in ALL.into_iter().filter_map(runtime_of_threads) {
        let (shared, other) = (words(&runtime, 0), words(&runtime, 1));
        let device = inside(&runtime, shared);
        for round in 1..4u64 {
            for (i, word) in shared.iter().enumerate() {
                word.store(round * i as u64, Ordering::Relaxed);
            }
            other[5].store(round, Ordering::Relaxed);
            let used = [(shared.as_ptr().cast(), Use::Write), (other.as_ptr().cast(), Use::Read)];
            runtime
                .launch(&used, || {
                    for (i, word) in device.iter().enumerate() {
                        assert_eq!(word.load(Ordering::Relaxed), round * i as u64);
                        word.fetch_add(inside(&runtime, other)[5].load(Ordering::Relaxed), Ordering::Relaxed);
                    }
                })
                .unwrap();
            for (i, word) in shared.iter().enumerate() {
                assert_eq!(word.load(Ordering::Relaxed), round * (i as u64 + 1));
            }
        }
    }
}

#[test]
fn a_kernel_uses_an_object() {
    let processor = ggas_selftest::processor(0); // its kernels are known before the GPU is opened
    let runtime = runtime(Tracking::Protect).unwrap();
    let (out, counter) = (words(&runtime, 0), words(&runtime, 0));
    let at = |words: &[AtomicU64]| runtime.device_address(words.as_ptr().cast()).unwrap();
    let args = selftest_threads { out: at(out), counter: at(counter), report: 0, timeout_ns: 30_000_000_000 };
    // SAFETY: the structure is this kernel's; the objects live beyond the wait.
    let launch = unsafe { Launch::new(&processor, "ggas_selftest_threads", 4, 64, &args) };
    let objects = [(out.as_ptr().cast(), Use::Write), (counter.as_ptr().cast(), Use::Write)];
    runtime.launch(&objects, || start(&[launch])?.wait(Duration::from_secs(60))).unwrap().unwrap();
    assert!(out[..256].iter().all(|word| word.load(Ordering::Relaxed) == 256));
}

#[test]
fn only_blocks_that_are_touched_are_copied() {
    for runtime in ALL.into_iter().filter_map(runtime) {
        let shared = words(&runtime, 0);
        let used = [(shared.as_ptr().cast(), Use::Write)];
        runtime.launch(&used, || {}).unwrap();
        assert_eq!(runtime.counts().shared.fetched, 0);
        shared[0].store(1, Ordering::Relaxed);
        assert_eq!(shared[WORDS - 1].load(Ordering::Relaxed), 0);
        let counts = runtime.counts().shared;
        assert_eq!((counts.faults, counts.fetched, counts.stored), (2, 2 * BLOCK as u64, 0));
        runtime.launch(&[(shared.as_ptr().cast(), Use::Read)], || {}).unwrap();
        assert_eq!(runtime.counts().shared.stored, BLOCK as u64, "the block that was only read stays");
        assert_eq!(shared[0].load(Ordering::Relaxed), 1);
        assert_eq!(runtime.counts().shared.faults, 2, "the kernel only read: what the host has is valid");
        shared[0].store(2, Ordering::Relaxed);
        runtime.launch(&used, || {}).unwrap();
        runtime.launch(&used, || {}).unwrap();
        let counts = runtime.counts().shared;
        assert_eq!((counts.faults, counts.stored), (3, 2 * BLOCK as u64));
        assert_eq!(shared[0].load(Ordering::Relaxed), 2);
    }
}

#[test]
fn copies_take_shared_objects_at_both_ends() {
    for runtime in ALL.into_iter().filter_map(runtime_of_threads) {
        let shared = words(&runtime, 0);
        let plain = runtime.alloc(runtime.devices()[1], WORDS * 8).unwrap();
        shared[7].store(70, Ordering::Relaxed);
        let at = shared.as_ptr() as *mut u8;
        // SAFETY: memory of this test.
        unsafe {
            runtime.copy(plain, at, WORDS * 8).unwrap();
            let mut word = 0u64;
            runtime.copy((&raw mut word).cast(), plain.add(56), 8).unwrap();
            assert_eq!(word, 70);
            // Over an edge of blocks, and it reaches the device.
            runtime.copy(at.add(BLOCK - 8), [9u64; 2].as_ptr().cast(), 16).unwrap();
        }
        let device = inside(&runtime, shared);
        let used = [(shared.as_ptr().cast(), Use::Write)];
        let seen =
            runtime.launch(&used, || [BLOCK / 8 - 1, BLOCK / 8].map(|i| device[i].load(Ordering::Relaxed)));
        assert_eq!(seen.unwrap(), [9, 9]);
        let used = [(shared.as_ptr().cast(), Use::Write)];
        // SAFETY: refused.
        let inner = runtime.launch(&used, || unsafe { runtime.copy(plain, at, 8) }).unwrap();
        assert!(matches!(inner, Err(HpeError::InUse { .. })));
        let twice = [used[0], used[0]];
        assert!(matches!(runtime.launch(&twice, || {}), Err(HpeError::InUse { .. })));
        assert!(matches!(
            runtime.launch(&[(plain.cast_const(), Use::Read)], || {}),
            Err(HpeError::NotShared { .. })
        ));
        runtime.launch(&used, || {}).unwrap();
    }
}

#[test]
fn neighbours_do_not_share_a_page() {
    let runtime = runtime(Tracking::Protect).unwrap();
    let device = runtime.devices()[0];
    let (one, two) = (runtime.alloc_shared(device, 8).unwrap(), runtime.alloc_shared(device, 8).unwrap());
    // SAFETY: objects of this test.
    unsafe {
        one.write_volatile(1);
        two.write_volatile(2);
        runtime
            .launch(&[(one, Use::Write)], || {
                // The neighbour is not in the launch.
                two.write_volatile(3);
            })
            .unwrap();
        assert_eq!((one.read_volatile(), two.read_volatile()), (1, 3));
    }
}

#[test]
fn threads_that_touch_an_object_of_a_kernel_wait_for_its_end() {
    for runtime in ALL.into_iter().filter_map(runtime_of_threads) {
        let shared = words(&runtime, 0);
        let device = inside(&runtime, shared);
        let begun = Barrier::new(2);
        std::thread::scope(|scope| {
            let toucher = scope.spawn(|| {
                begun.wait();
                shared[3].fetch_add(1, Ordering::Relaxed)
            });
            runtime
                .launch(&[(shared.as_ptr().cast(), Use::Write)], || {
                    begun.wait();
                    wait_until(|| runtime.counts().shared.waited > 0);
                    device[3].store(41, Ordering::Relaxed);
                })
                .unwrap();
            assert_eq!(toucher.join().unwrap(), 41);
        });
        assert_eq!(shared[3].load(Ordering::Relaxed), 42);
    }
}

#[test]
fn many_threads_fault_on_the_same_blocks_while_kernels_run() {
    for runtime in ALL.into_iter().filter_map(runtime_of_threads) {
        let shared = words(&runtime, 0);
        let device = inside(&runtime, shared);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for thread in 0..4usize {
                let (stop, shared) = (&stop, &shared);
                scope.spawn(move || {
                    // Each thread has words of its own in each block, next to those of the others.
                    let mut sum = 0;
                    while !stop.load(Ordering::Relaxed) {
                        for block in 0..8 {
                            shared[block * BLOCK / 8 + thread].fetch_add(1, Ordering::Relaxed);
                        }
                        sum += 1;
                    }
                    for block in 0..8 {
                        assert_eq!(
                            shared[block * BLOCK / 8 + thread].load(Ordering::Relaxed),
                            sum,
                            "{thread}"
                        );
                    }
                });
            }
            for round in 1..=100u64 {
                runtime
                    .launch(&[(shared.as_ptr().cast(), Use::Write)], || {
                        device[100].fetch_add(1, Ordering::Relaxed);
                    })
                    .unwrap();
                assert_eq!(shared[100].load(Ordering::Relaxed), round);
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}

#[test]
fn system_calls_reach_objects_that_userfaultfd_keeps() {
    use std::io::Read;
    let Some(runtime) = runtime_of_threads(Tracking::Userfault) else { return };
    let shared = words(&runtime, 0);
    let mut file = tempfile::tempfile().unwrap();
    std::io::Write::write_all(&mut file, &[5; 16]).unwrap();
    std::io::Seek::rewind(&mut file).unwrap();
    // SAFETY: bytes of the object, used by this thread only.
    let bytes = unsafe { std::slice::from_raw_parts_mut(shared.as_ptr() as *mut u8, 16) };
    file.read_exact(bytes).unwrap();
    let device = inside(&runtime, shared);
    let used = [(shared.as_ptr().cast(), Use::Read)];
    assert_eq!(runtime.launch(&used, || device[1].load(Ordering::Relaxed)).unwrap(), 0x0505_0505_0505_0505);
}

#[test]
fn a_lost_device_keeps_what_the_host_wrote() {
    let Some(runtime) = runtime_of_threads(Tracking::Protect) else { return };
    let (shared, lost) = (words(&runtime, 0), words(&runtime, 0));
    shared[1].store(11, Ordering::Relaxed);
    runtime.end_device(runtime.devices()[0]).unwrap();
    // Not the second time either: the block is still to be sent.
    for _ in 0..2 {
        let mut ran = false;
        let launched = runtime.launch(&[(shared.as_ptr().cast(), Use::Write)], || ran = true);
        assert!(matches!(launched, Err(HpeError::Lost { .. })) && !ran);
    }
    // What the device alone has cannot come any more, and a copy says why.
    let mut byte = 0u8;
    // SAFETY: memory of this test.
    let copied = unsafe { runtime.copy(&mut byte, lost.as_ptr().cast(), 1) };
    assert!(matches!(copied, Err(HpeError::Lost { .. })), "{copied:?}");
    assert_eq!(shared[1].load(Ordering::Relaxed), 11);
    shared[1].store(12, Ordering::Relaxed);
}

#[test]
fn prepared_launches_are_as_others_until_an_object_is_freed() {
    let Some(runtime) = runtime_of_threads(Tracking::Protect) else { return };
    let [one, two] = [0, 1].map(|device| words(&runtime, device));
    let pointer = |words: &[AtomicU64]| words.as_ptr().cast::<u8>();
    let prepared = runtime.prepare(&[(pointer(two), Use::Read), (pointer(one), Use::Write)]).unwrap();
    for times in 1..4 {
        two[5].store(times, Ordering::Relaxed);
        let kernel = || {
            let seen = inside(&runtime, two)[5].load(Ordering::Relaxed);
            inside(&runtime, one)[5].fetch_add(seen, Ordering::Relaxed);
        };
        prepared.launch(kernel).unwrap();
        assert_eq!(one[5].load(Ordering::Relaxed), (1..=times).sum::<u64>());
    }
    let within = prepared.launch(|| runtime.launch(&[(pointer(one), Use::Read)], || ()));
    assert!(matches!(within, Ok(Err(HpeError::InUse { .. }))), "{within:?}");
    // SAFETY: no kernel has it, and nobody touches it again.
    unsafe { runtime.free(pointer(two).cast_mut()) }.unwrap();
    let freed = prepared.launch(|| ());
    assert!(matches!(freed, Err(HpeError::NotShared { .. })), "{freed:?}");
    assert_eq!(one[5].load(Ordering::Relaxed), 6, "as it was");
}

/// A copy uses two objects, or one twice, as a launch takes both: neither waits for what the other has.
#[test]
fn copies_of_objects_that_are_launched_end() {
    for runtime in ALL.into_iter().filter_map(runtime_of_threads) {
        let pointers = [words(&runtime, 0), words(&runtime, 0)].map(|words| words.as_ptr() as u64);
        let (runtime, (tell, told)) = (Arc::new(runtime), mpsc::channel());
        let half = WORDS as u64 * 4;
        let copies = [(0, 1, 0), (1, 0, 0), (0, 0, half), (1, 1, half)];
        let (copier, all_told) = (runtime.clone(), tell.clone());
        std::thread::spawn(move || {
            for (to, from, behind) in copies.into_iter().cycle().take(4000) {
                // SAFETY: halves of these objects, which nobody else touches.
                unsafe {
                    let (dst, src) = (pointers[to] as *mut u8, (pointers[from] + behind) as *const u8);
                    copier.copy(dst, src, half as usize).unwrap();
                }
            }
            tell.send(()).unwrap();
        });
        std::thread::spawn(move || {
            let used = pointers.map(|start| (start as *const u8, Use::Write));
            for _ in 0..4000 {
                runtime.launch(&used, || ()).unwrap();
            }
            all_told.send(()).unwrap();
        });
        for _ in 0..2 {
            told.recv_timeout(Duration::from_secs(120)).expect("a copy and a launch wait for each other");
        }
    }
}

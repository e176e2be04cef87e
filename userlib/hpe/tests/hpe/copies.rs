//! Copies between any two memories, by pointers alone. Those that need no executor run on two GPUs with `GGAS_TEST_GPUS=2`; 1 has them on one.

use std::time::Duration;

use crate::common::{devices, on_gpus, pair};
use ggas_hpe::address::{Owner, owner, view};
use ggas_hpe::{HpeError, Runtime, Staging, Told, Wait, Way};

const BUFFER: usize = 64 << 10;

fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| (i as u8).wrapping_mul(31).wrapping_add((i >> 8) as u8) ^ seed).collect()
}

/// Copies a pattern from the host over two devices back, in each of the ways that `runtime` takes.
fn around(runtime: &Runtime, len: usize) -> Vec<u8> {
    let devices = pair(runtime);
    let one = runtime.alloc(devices[0], len).unwrap();
    let two = runtime.alloc(devices[1], len).unwrap();
    let again = runtime.alloc(devices[1], len).unwrap();
    let (source, mut target) = (pattern(len, len as u8), vec![0; len]);
    // SAFETY: the memory is this test's.
    unsafe {
        runtime.copy(one, source.as_ptr(), len).unwrap();
        runtime.copy(two, one, len).unwrap();
        runtime.copy(again, two, len).unwrap();
        runtime.copy(target.as_mut_ptr(), again, len).unwrap();
        for start in [one, two, again] {
            runtime.free(start).unwrap();
        }
    }
    assert!(source == target, "{len} bytes came back changed");
    target
}

#[test]
fn every_size_goes_around_by_peers_and_staged() {
    for peers in [true, false] {
        let runtime = devices(2).peers(peers).pinned(BUFFER, 2 * BUFFER).build().unwrap();
        let sizes = [1, 8, 4095, 4096, BUFFER - 1, BUFFER, BUFFER + 1, 2 * BUFFER, 5 * BUFFER + 17];
        for len in sizes {
            around(&runtime, len);
        }
        let ways = runtime.counts().ways;
        let each = sizes.len() as u64;
        // GPUs reach memory of the host through pinned buffers, too.
        let by_host = if on_gpus() { (each, 2 * each) } else { (3 * each, 0) };
        // Peer, staged, and, on one GPU, direct.
        let between = match (runtime.devices().len(), peers) {
            (1, _) => (0, 0, each),
            (_, true) => (each, 0, 0),
            (_, false) => (0, each, 0),
        };
        assert_eq!((ways.of(Way::Peer), ways.of(Way::Staged)), (between.0, between.1 + by_host.1));
        assert_eq!(ways.of(Way::Direct), between.2 + by_host.0);
    }
}

#[test]
fn short_copies_do_not_wait_for_large_buffers() {
    let runtime = devices(2).peers(false).pinned(4096, 8192 + (2 << 20)).build().unwrap();
    let pair = runtime.pinned_buffers().unwrap().unwrap();
    for len in [1, 4096, 5000, 32 << 10] {
        around(&runtime, len);
    }
    let pinned = runtime.counts().pinned;
    assert_eq!((pinned.in_use, pinned.waited), (8192, 0), "the only pair was not needed");
    drop(pair);
    around(&runtime, (32 << 10) + 1);
    assert_eq!(runtime.counts().pinned.in_use, 0);
}

#[test]
fn staged_copies_are_right_by_all_shapes() {
    for (blocks, bytes) in
        [(2, usize::MAX), (3, usize::MAX), (4, usize::MAX), (3, 8192), (4, 4096), (16, 4096), (99, 1), (0, 0)]
    {
        for told in [Told::ByThread, Told::ByEvents] {
            let staging = Staging { blocks, bytes, told };
            let runtime =
                devices(2).peers(false).pinned(32 << 10, 2 * (64 << 10)).staging(staging).build().unwrap();
            for len in [1, 4096, 8192, 64 << 10, (64 << 10) + 1, 1_000_003] {
                around(&runtime, len);
            }
            let counts = runtime.counts();
            assert!(counts.ways.of(Way::Staged) > 0 && counts.pinned.in_use == 0, "{staging:?}");
            // Three and four blocks that are as long as can be lie in two pairs; on one GPU nothing goes between devices.
            let long = bytes == usize::MAX && blocks > 2 && runtime.devices().len() > 1;
            let pairs = if long { 2 } else { 1 };
            assert_eq!(
                (counts.pinned.most_in_use, counts.pinned.waited),
                (pairs * (64 << 10), 0),
                "{staging:?}"
            );
        }
    }
}

#[test]
fn a_long_copy_needs_no_second_pair() {
    let runtime = devices(2).peers(false).pinned(32 << 10, 2 * (64 << 10)).build().unwrap();
    let pair = runtime.pinned_buffers().unwrap().unwrap();
    around(&runtime, 1_000_003);
    let pinned = runtime.counts().pinned;
    assert_eq!((pinned.in_use, pinned.most_in_use, pinned.waited), (64 << 10, 2 * (64 << 10), 0));
    drop(pair);
}

#[test]
fn owners_are_in_the_bits_of_pointers() {
    let runtime = Runtime::builder().executors(2).build().unwrap();
    for device in runtime.devices() {
        let start = runtime.alloc(device, 100).unwrap();
        assert!(matches!(owner(start as u64), Owner::Device(found, _) if found == device));
        assert_eq!(runtime.owner(start), Some(device));
        assert_eq!(runtime.device_address(start).unwrap(), view(start as u64));
    }
    let here = 0u8;
    assert_eq!(runtime.owner(&here), None);
    assert_eq!(runtime.device_address(&here).unwrap(), &raw const here as u64);
}

#[test]
fn pinned_bytes_stay_within_their_bound() {
    let runtime = devices(2).peers(false).pinned(4096, 3 * 8192).build().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..12 {
            scope.spawn(|| {
                for _ in 0..10 {
                    around(&runtime, 50_000);
                }
            });
        }
    });
    let pinned = runtime.counts().pinned;
    assert!(pinned.most_in_use <= 3 * 8192 && pinned.bytes <= 3 * 8192, "{pinned:?}");
    assert_eq!((pinned.in_use, pinned.bound), (0, 3 * 8192));
}

#[test]
fn pinned_buffers_of_a_program_are_copied_without_staging() {
    let runtime = devices(1).pinned(4096, 2 * 8192).build().unwrap();
    let there = runtime.alloc(runtime.devices()[0], 8192).unwrap();
    let one = runtime.pinned_buffers().unwrap().unwrap();
    let _two = runtime.pinned_buffers().unwrap().unwrap();
    assert!(runtime.pinned_buffers().unwrap().is_none(), "the bound is reached");
    assert_eq!((one.size(), runtime.counts().pinned.in_use), (4096, 2 * 8192));
    let (start, sent) = (one.start(), pattern(8192, 3));
    // SAFETY: both buffers are this test's.
    let seen = unsafe {
        start.copy_from_nonoverlapping(sent.as_ptr(), 8192);
        runtime.copy(there, start, 8192).unwrap();
        start.write_bytes(0, 8192);
        runtime.copy(start, there, 8192).unwrap();
        std::slice::from_raw_parts(start, 8192)
    };
    assert!(seen == sent);
    assert_eq!(runtime.counts().ways.of(Way::Direct), 2);
    drop(one);
    assert_eq!(runtime.counts().pinned.in_use, 8192);
    assert!(runtime.pinned_buffers().unwrap().is_some());
}

#[test]
fn bad_ranges_are_refused_and_change_nothing() {
    let runtime = Runtime::builder().executors(2).build().unwrap();
    let devices = runtime.devices();
    let one = runtime.alloc(devices[0], 100).unwrap();
    let two = runtime.alloc(devices[0], 100).unwrap();
    let mut here = [0u8; 5000];
    let copy = |dst: *mut u8, src: *const u8, len| {
        // SAFETY: refused, or within the memory of this test.
        unsafe { runtime.copy(dst, src, len) }
    };
    let pointer = here.as_mut_ptr();
    // Bytes behind an object belong to nobody, though its page has room for them.
    assert!(matches!(copy(one, pointer, 101), Err(HpeError::AcrossObjects { left: 100, .. })));
    assert!(matches!(
        copy(pointer, one.wrapping_add(60), 5000),
        Err(HpeError::AcrossObjects { left: 40, .. })
    ));
    assert!(matches!(copy(one.wrapping_add(100), pointer, 1), Err(HpeError::Unknown { .. })));
    assert!(matches!(copy(one.wrapping_add(10), one, 50), Err(HpeError::Overlap { len: 50, .. })));
    assert!(matches!(copy(pointer.wrapping_add(1), pointer, 2), Err(HpeError::Overlap { .. })));
    assert!(copy(one.wrapping_add(50), one, 50).is_ok());
    assert!(matches!(copy(std::ptr::null_mut(), one, 1), Err(HpeError::NoMemory { address: 0, .. })));
    assert!(matches!(copy(one, pointer, usize::MAX), Err(HpeError::NoMemory { .. })));
    assert!(copy(std::ptr::null_mut(), std::ptr::null(), 0).is_ok());
    // What calls return that failed, and addresses of the kernel: nobody's, and no rank's.
    for none in [u64::MAX, 0xffff_8000_0000_1000] {
        let error = copy(pointer, none as *const u8, 1).unwrap_err();
        assert!(matches!(error, HpeError::NoMemory { .. }), "{error}");
        assert!(!runtime.holds(none as *const u8, 1));
    }
    // SAFETY: nobody uses it.
    unsafe { runtime.free(two).unwrap() };
    let error = copy(pointer, two, 1).unwrap_err();
    assert!(error.to_string().contains("it was freed, or never given out"), "{error}");
    assert_eq!(error.errno(), libc::EFAULT);
    // SAFETY: refused.
    unsafe {
        assert!(matches!(runtime.free(two), Err(HpeError::NotAllocated { .. })));
        assert!(matches!(runtime.free(one.wrapping_add(1)), Err(HpeError::NotAllocated { .. })));
    }
    let other = Runtime::builder().executors(1).build().unwrap();
    let theirs = other.alloc(other.devices()[0], 8).unwrap();
    assert!(matches!(copy(pointer, theirs, 8), Err(HpeError::NoDevice { count: 2, .. })));
    assert!(matches!(runtime.alloc(other.devices()[0], 8), Err(HpeError::NoDevice { .. })));
    assert!(matches!(runtime.alloc(devices[0], usize::MAX), Err(HpeError::Full { .. })));
    assert!(here.iter().all(|&byte| byte == 0));
}

#[test]
fn settings_that_cannot_work_say_so() {
    assert!(matches!(Runtime::builder().build(), Err(HpeError::Devices { asked: 0, .. })));
    assert!(matches!(Runtime::builder().executors(32).build(), Err(HpeError::Devices { asked: 32, .. })));
    let pinned = Runtime::builder().executors(1).pinned(8192, 8192).build();
    assert!(matches!(pinned, Err(HpeError::Pinned { bound: 8192, buffer: 8192 })));
    assert!(matches!(
        Runtime::builder().executors(1).pinned(usize::MAX, 1).build(),
        Err(HpeError::Pinned { .. })
    ));
}

#[test]
fn copies_of_a_lost_device_fail_and_the_others_go_on() {
    let wait = Wait { spin: Duration::ZERO, every: Duration::from_micros(20) };
    let runtime = Runtime::builder().executors(3).peers(false).wait(wait).build().unwrap();
    let devices = runtime.devices();
    let at: Vec<_> = devices.iter().map(|&device| runtime.alloc(device, 100).unwrap()).collect();
    runtime.end_device(devices[1]).unwrap();
    // SAFETY: memory of this test.
    unsafe {
        let lost = |result| assert!(matches!(result, Err(HpeError::Lost { device }) if device == devices[1]));
        lost(runtime.copy(at[1], at[0], 100));
        lost(runtime.copy(at[0], at[1], 100));
        lost(runtime.copy(at[1], [0; 100].as_ptr(), 100));
        runtime.copy(at[2], at[0], 100).unwrap();
        runtime.free(at[1]).unwrap();
    }
}

/// Who writes knows of all bytes that were taken: else it would send them again.
#[test]
fn a_device_that_is_lost_behind_the_first_block_leaves_the_bytes_so_far() {
    let runtime = Runtime::builder().executors(1).pinned(4096, 8192).build().unwrap();
    let device = runtime.devices()[0];
    let start = runtime.alloc(device, 10 * 4096).unwrap();
    let mut taken = 0;
    let mut put = |_: *const u8, len: usize, at: usize| {
        if at == 4096 {
            runtime.end_device(device).unwrap();
        }
        taken += len;
        Ok(len)
    };
    // SAFETY: memory of this test.
    let (first, second) = unsafe {
        (
            runtime.write_to(start, 10 * 4096, &mut put),
            runtime.write_to(start, 4096, &mut |_, len, _| Ok(len)),
        )
    };
    assert!((2 * 4096..10 * 4096).contains(&taken), "{taken}");
    assert_eq!(first.unwrap(), taken);
    assert!(matches!(second, Err(HpeError::Lost { .. })), "{second:?}");
}

/// Buffers stay for copies that may still use them. Those of a device that is lost are over: a program that tries again and again, as with a
/// file, does not use memory up.
#[test]
fn copies_of_a_lost_device_give_their_buffers_back() {
    let runtime = Runtime::builder().executors(2).peers(false).pinned(4096, 2 * 8192).build().unwrap();
    let devices = runtime.devices();
    let bytes = 10 * 4096;
    let [one, two] = [0, 1].map(|device| runtime.alloc(devices[device], bytes).unwrap());
    let spread = runtime.alloc_spread(&devices, bytes).unwrap();
    let ends = |at| {
        if at == 4096 {
            runtime.end_device(devices[1]).unwrap()
        }
    };
    let mut put = |_: *const u8, len, at| {
        ends(at);
        Ok(len)
    };
    // SAFETY: memory of this test.
    unsafe {
        let _ = runtime.write_to(spread, bytes, &mut put);
        for _ in 0..10 {
            let mut get = |_: *mut u8, len, _| Ok(len);
            let tried = [
                runtime.write_to(two, bytes, &mut put).map(drop),
                runtime.read_from(two, bytes, true, &mut get).map(drop),
                runtime.read_from(spread.add(bytes / 2), bytes / 2, true, &mut get).map(drop),
                runtime.copy(two, one, bytes),
                runtime.copy(one, two, bytes),
            ];
            for error in tried.map(Result::unwrap_err) {
                assert!(matches!(error, HpeError::Lost { .. }), "{error}");
            }
        }
    }
    let pinned = runtime.counts().pinned;
    assert_eq!((pinned.abandoned, pinned.in_use), (0, 0), "{pinned:?}");
}

/// No bytes are asked for, but a file is.
#[test]
fn calls_without_bytes_look_at_the_file() {
    let runtime = Runtime::builder().executors(1).build().unwrap();
    let start = runtime.alloc(runtime.devices()[0], 1).unwrap();
    for offset in [None, Some(0)] {
        // SAFETY: no bytes.
        let results =
            unsafe { [runtime.read_file(-1, start, 0, offset), runtime.write_file(-1, start, 0, offset)] };
        assert!(
            results.iter().all(|result| result.as_ref().is_err_and(|error| error.errno() == libc::EBADF))
        );
    }
}

#[test]
fn memory_is_zeroed_and_given_out_again() {
    let runtime = Runtime::builder().executors(1).build().unwrap();
    let device = runtime.devices()[0];
    let mut back = vec![1u8; 5000];
    for _ in 0..3 {
        let start = runtime.alloc(device, 5000).unwrap();
        // SAFETY: memory of this test.
        unsafe {
            runtime.copy(back.as_mut_ptr(), start, 5000).unwrap();
            assert!(back.iter().all(|&byte| byte == 0));
            runtime.copy(start, [7; 5000].as_ptr(), 5000).unwrap();
            runtime.free(start).unwrap();
        }
    }
}

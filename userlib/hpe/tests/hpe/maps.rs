//! Kernels that use memory of any device by the host's pointers, and count what leaves theirs. They run on two GPUs, too, with
//! `GGAS_TEST_GPUS=2`; 1 has them on one.

use std::time::Duration;

use crate::common::{devices, on_gpus, pair};
use ggas_hpe::{DeviceId, HpeError, Map, RemoteCounts, Runtime};
use ggas_kernels::start;
use ggas_selftest::args::selftest_map;

/// Bytes of a part of a distributed object: what GPUs map at once.
const PART: usize = 2 << 20;
const WORDS: usize = 1000;

/// Has a kernel of the first device add one to each of some words.
fn add_one(map: &Map, words: *const u8, count: usize) {
    let processor = ggas_selftest::processor(0);
    let args = selftest_map { map: map.address(), words: words as u64, count: count as u64 };
    // SAFETY: the structure is this kernel's; map and words live beyond the wait.
    let launch = unsafe { ggas_selftest::launch(&processor, "ggas_selftest_map", 4, 64, &args) };
    start(&[launch]).unwrap().wait(Duration::from_secs(60)).unwrap();
}

fn read(runtime: &Runtime, start: *const u8, count: usize) -> Vec<u64> {
    let mut words = vec![77u64; count];
    // SAFETY: memory of the test that calls.
    unsafe { runtime.copy(words.as_mut_ptr().cast(), start, 8 * count).unwrap() };
    words
}

fn made() -> (Runtime, [DeviceId; 2]) {
    ggas_selftest::add(); // before a GPU is opened
    let runtime = devices(2).build().unwrap();
    let pair = pair(&runtime);
    (runtime, pair)
}

#[test]
fn accesses_to_a_device_s_own_memory_are_counted_as_such() {
    let (runtime, [one, _]) = made();
    let words = runtime.alloc(one, 8 * WORDS).unwrap();
    let map = runtime.map(one, Some(words)).unwrap();
    for times in 1..=2 {
        add_one(&map, words, WORDS);
        assert_eq!(read(&runtime, words, WORDS), [times; WORDS]);
        let local = 2 * times * WORDS as u64;
        assert_eq!(map.counts().unwrap(), RemoteCounts { local, ..RemoteCounts::default() });
    }
    // Of another object: counted, and carried out.
    let other = runtime.alloc(one, 8 * WORDS).unwrap();
    let map = runtime.map(one, Some(words)).unwrap();
    add_one(&map, other, WORDS);
    assert_eq!(read(&runtime, other, WORDS), [1; WORDS]);
    let outside = 2 * WORDS as u64;
    assert_eq!(map.counts().unwrap(), RemoteCounts { outside, ..RemoteCounts::default() });
}

#[test]
fn accesses_to_parts_on_another_device_are_remote() {
    let (runtime, [one, two]) = made();
    let object = runtime.alloc_spread(&[one, two], 2 * PART).unwrap();
    let map = runtime.map(one, Some(object)).unwrap();
    // Ten words of the first part, and the rest of the second one's.
    let from = object.wrapping_add(PART - 80);
    add_one(&map, from, WORDS);
    assert_eq!(read(&runtime, from, WORDS), [1; WORDS]);
    let remote = if one == two { 0 } else { 2 * (WORDS as u64 - 10) };
    let local = 2 * WORDS as u64 - remote;
    assert_eq!(map.counts().unwrap(), RemoteCounts { local, remote, ..RemoteCounts::default() });
    // Memory of another device by itself.
    let words = runtime.alloc(two, 8 * WORDS).unwrap();
    let map = runtime.map(one, Some(words)).unwrap();
    add_one(&map, words, WORDS);
    assert_eq!(read(&runtime, words, WORDS), [1; WORDS]);
    assert_eq!(map.counts().unwrap().remote, if one == two { 0 } else { 2 * WORDS as u64 });
}

#[test]
fn what_has_no_map_is_refused() {
    let (runtime, [one, _]) = made();
    let host = 7u8;
    let shared = runtime.alloc_shared(one, 8).unwrap();
    for address in [&raw const host, shared.cast_const()] {
        let refused = runtime.map(one, Some(address)).map(|_| ());
        assert!(matches!(refused, Err(HpeError::Unmapped { .. })), "{refused:?}");
    }
    // All segments are the executor's.
    let all = runtime.map(one, None).map(drop);
    assert_eq!(matches!(all, Err(HpeError::Unmapped { .. })), on_gpus(), "{all:?}");
}

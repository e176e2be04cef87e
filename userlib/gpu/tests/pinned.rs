//! Page-locked memory and its copies, on a libcuda whose GPUs are host memory (`fake_libcuda.c`).

mod fake;

use std::ffi::CStr;

use ggas_gpu::{DeviceBuffer, Gpu, GpuError, LateCopies, PinnedBuffer};

use crate::fake::in_a_child;

#[test]
fn copies_reach_page_locked_memory_part_by_part() {
    in_a_child("child", None);
}

#[test]
fn late_copies_are_done_later_and_keep_what_they_use() {
    in_a_child("late_copies", None);
}

/// A function of the driver that is only in this one: it is loaded already.
fn of_the_driver(name: &CStr) -> *mut libc::c_void {
    // SAFETY: the library is loaded, and both names end with a zero.
    let function = unsafe {
        let library = libc::dlopen(c"libcuda.so".as_ptr(), libc::RTLD_NOW);
        libc::dlsym(library, name.as_ptr())
    };
    assert!(!function.is_null());
    function
}

/// Pieces of page-locked memory that the driver has.
fn pieces() -> i32 {
    // SAFETY: the function takes nothing.
    unsafe {
        std::mem::transmute::<*mut libc::c_void, extern "C" fn() -> i32>(of_the_driver(c"fake_pinned"))()
    }
}

/// From here on copies are begun, and not done; or what was begun is done.
fn later(begins: bool) {
    // SAFETY: the function takes a number.
    unsafe {
        std::mem::transmute::<*mut libc::c_void, extern "C" fn(i32)>(of_the_driver(c"fake_later"))(
            begins.into(),
        );
    }
}

#[test]
#[ignore = "runs as the child of the other test"]
fn late_copies() {
    let gpu = Gpu::open(0).unwrap();
    let (memory, data) = filled(&gpu);
    let before = pieces();
    let pinned = gpu.alloc_pinned(100).unwrap();
    let mut copies = LateCopies::new(&gpu).unwrap();
    for _ in 0..2 {
        later(true);
        // SAFETY: both live until the copies are done, and nobody else uses them.
        let (first, second) = unsafe {
            let first = copies.gather(&pinned, 10, &memory, [(500, 4), (3, 2)].into_iter()).unwrap();
            (first, copies.scatter(&pinned, 10, &memory, std::iter::once((990, 6))).unwrap())
        };
        assert!(!copies.is_done(&first).unwrap() && !copies.is_done(&second).unwrap());
        assert_eq!(bytes_of(&pinned, 10, 6), [0; 6], "they are only begun");
        later(false);
        assert!(copies.is_done(&first).unwrap() && copies.is_done(&second).unwrap());
        copies.wait().unwrap();
        [first, second].into_iter().for_each(|copy| copies.forget(copy));
        assert_eq!(bytes_of(&pinned, 9, 8), [0, 0, 1, 2, 3, 3, 4, 0]);
        let mut after = vec![0; 10];
        memory.read(988, &mut after).unwrap();
        assert_eq!(after, [238, 239, 0, 1, 2, 3, 3, 4, 246, 247]);
        memory.write(0, &data).unwrap();
        pinned.gather(10, &gpu.alloc(6).unwrap(), std::iter::once((0, 6))).unwrap();
    }
    for (at, offset, len) in [(97, 0, 4), (usize::MAX, 0, 1), (0, 999, 2), (0, usize::MAX, 2)] {
        // SAFETY: nothing is begun.
        let refused = unsafe { copies.gather(&pinned, at, &memory, std::iter::once((offset, len))) };
        assert!(matches!(refused.err(), Some(GpuError::OutOfRange { .. })), "{at} {offset} {len}");
    }
    later(true);
    // SAFETY: they are not done when both are dropped, which waits for them.
    unsafe { copies.gather(&pinned, 0, &memory, std::iter::once((0, 100))).unwrap() };
    drop((copies, pinned, memory));
    assert_eq!(pieces(), before + 1, "a copy may write to it");
    later(false);
    drop(gpu.alloc(8).unwrap());
    assert_eq!(pieces(), before, "it is freed behind the copy");
}

/// GPU memory, and what it has.
fn filled(gpu: &Gpu) -> (DeviceBuffer, Vec<u8>) {
    let (memory, data) = (gpu.alloc(1000).unwrap(), (0..250).cycle().take(1000).collect::<Vec<u8>>());
    memory.write(0, &data).unwrap();
    (memory, data)
}

fn bytes_of(pinned: &PinnedBuffer, at: usize, len: usize) -> Vec<u8> {
    assert!(at + len <= pinned.len());
    // SAFETY: in range, and no copy is under way.
    unsafe { std::slice::from_raw_parts(pinned.as_ptr().add(at), len).to_vec() }
}

#[test]
#[ignore = "runs as the child of the other test"]
fn child() {
    let gpu = Gpu::open(0).unwrap();
    let (memory, data) = filled(&gpu);
    let before = pieces();
    let pinned = gpu.alloc_pinned(100).unwrap();
    assert_eq!(bytes_of(&pinned, 0, 100), [0; 100]);
    pinned.gather(10, &memory, [(500, 4), (3, 2), (998, 2)].into_iter()).unwrap();
    assert_eq!(bytes_of(&pinned, 9, 10), [0, 0, 1, 2, 3, 3, 4, 248, 249, 0]);
    pinned.scatter(11, &memory, [(100, 3), (7, 1)].into_iter()).unwrap();
    let mut after = vec![0; 1000];
    memory.read(0, &mut after).unwrap();
    let mut wanted = data;
    wanted[100..103].copy_from_slice(&[1, 2, 3]);
    wanted[7] = 3;
    assert_eq!(after, wanted, "other bytes stay as they were");
    for (at, offset, len) in [(97, 0, 4), (101, 0, 1), (usize::MAX, 0, 1), (0, 999, 2), (0, usize::MAX, 2)] {
        let refused = pinned.gather(at, &memory, std::iter::once((offset, len)));
        assert!(matches!(refused, Err(GpuError::OutOfRange { .. })), "{at} {offset} {len}: {refused:?}");
    }
    pinned.gather(100, &memory, std::iter::empty()).unwrap();
    assert_eq!(pieces(), before + 1);
    drop(pinned);
    assert_eq!(pieces(), before, "it is freed");
}

//! Page-locked memory and its copies, on a libcuda whose GPUs are host memory (`fake_libcuda.c`).

use ggas_gpu::{Gpu, GpuError, PinnedBuffer};

use crate::fake::in_a_child;

#[test]
fn copies_reach_page_locked_memory_part_by_part() {
    in_a_child("pinned::child", None);
}

/// Pieces of page-locked memory that the driver has.
fn pieces() -> i32 {
    // SAFETY: libcuda is loaded already, so this finds the same one; the function takes nothing.
    unsafe {
        let library = libc::dlopen(c"libcuda.so".as_ptr(), libc::RTLD_NOW);
        let function = libc::dlsym(library, c"fake_pinned".as_ptr());
        assert!(!function.is_null());
        std::mem::transmute::<*mut libc::c_void, extern "C" fn() -> i32>(function)()
    }
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
    let memory = gpu.alloc(1000).unwrap();
    let data: Vec<u8> = (0..250).cycle().take(1000).collect();
    memory.write(0, &data).unwrap();
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

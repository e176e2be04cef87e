//! Memory of GPUs that several processes map, on a libcuda whose GPUs are host memory (`fake_libcuda.c`).

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;

use ggas_gpu::{Gpu, GpuError, GpuPart, GpuWindow};

use crate::fake::in_a_child;

/// Bytes that are used of each part.
const BYTES: usize = 3 << 20;

#[test]
fn parts_are_shared_by_descriptors() {
    in_a_child("share::child", None);
}

#[test]
fn gpus_without_a_path_are_named() {
    in_a_child("share::child_of_gpus_apart", Some("FAKE_APART"));
}

#[test]
fn a_gpu_whose_memory_cannot_be_passed_on_is_named() {
    in_a_child("share::child_without_handles", Some("FAKE_NO_HANDLES"));
}

/// The window as one of two processes sees it; the other's part is known by a descriptor only.
fn window(part: GpuPart, rank: usize, other: BorrowedFd<'_>) -> Result<GpuWindow, GpuError> {
    let mut others = [Some(other), Some(other)];
    others[rank] = None;
    part.window(rank, &others, BYTES)
}

fn filled(window: &GpuWindow, part: usize) -> u8 {
    let mut bytes = vec![0; BYTES];
    window.read(part, 0, &mut bytes).unwrap();
    assert!(bytes.iter().all(|byte| *byte == bytes[0]), "part {part} is mixed");
    bytes[0]
}

#[test]
#[ignore = "runs as the child of the other test"]
fn child() {
    let gpus = Gpu::all().unwrap();
    let stride = BYTES.next_multiple_of(gpus[0].part_granularity().unwrap());
    assert!(matches!(GpuPart::new(&gpus[0], BYTES), Err(GpuError::Invalid(_))), "not whole granules");
    let parts = [0, 1].map(|i| GpuPart::new(&gpus[i], stride).unwrap());
    let fds = [0, 1].map(|i| parts[i].export().unwrap());
    let [a, b] = parts;
    let a = window(a, 0, fds[1].as_fd()).unwrap();
    assert_eq!((a.stride(), a.bytes(), a.nodes()), (stride as u64, BYTES, 2));
    assert_eq!((filled(&a, 0), filled(&a, 1)), (0, 0xee), "each zeroes its own part");
    a.write(0, 0, &vec![1; BYTES]).unwrap();
    a.write(1, 0, &vec![2; BYTES]).unwrap();
    let b = window(b, 1, fds[0].as_fd()).unwrap();
    assert_eq!((filled(&b, 0), filled(&b, 1)), (1, 0));
    b.write(0, 0, &vec![3; BYTES]).unwrap();
    b.write(1, 0, &vec![4; BYTES]).unwrap();
    assert_eq!((filled(&a, 0), filled(&a, 1)), (3, 4));
    exported_as_a_dma_buf(&gpus[0], a.address(0).unwrap());
    // A part outlives the window of its own process.
    drop((b, fds));
    assert_eq!((filled(&a, 0), filled(&a, 1)), (3, 4));
    drop(a);
    assert_eq!(live(), 0, "handles or mappings left");
    bad_descriptors(&gpus, stride);
    assert_eq!(live(), 0, "handles or mappings left by failures");
}

/// Whole pages around the bytes, which the descriptor's holder reads; nothing for no bytes.
fn exported_as_a_dma_buf(gpu: &Gpu, address: u64) {
    let (buffer, offset) = gpu.dma_buf(address + 5, 4096).unwrap();
    assert_eq!(offset, 5);
    let mut bytes = [0; 4096];
    std::fs::File::from(buffer).read_exact_at(&mut bytes, offset).unwrap();
    assert_eq!(bytes, [3; 4096]);
    assert!(matches!(gpu.dma_buf(address, 0), Err(GpuError::Invalid(_))));
    assert!(gpu.dma_buf(address, usize::MAX).is_err());
}

#[test]
#[ignore = "runs as the child of the other test"]
fn child_of_gpus_apart() {
    let gpus = Gpu::all().unwrap();
    let error = GpuWindow::new(&gpus, BYTES).err().unwrap();
    assert_eq!(error, GpuError::NoPeerAccess { from: 0, to: 1 });
    assert!(error.to_string().contains("GPU 0 cannot access the memory of GPU 1"), "{error}");
    assert_eq!(live(), 0, "nothing was allocated");
    // Each of them stays usable.
    for gpu in &gpus {
        let window = GpuWindow::new(&[gpu.clone(), gpu.clone()], BYTES).unwrap();
        window.write(1, 0, &[7; BYTES]).unwrap();
        assert_eq!((filled(&window, 0), filled(&window, 1)), (0, 7));
    }
    assert_eq!(live(), 0, "handles or mappings left");
}

#[test]
#[ignore = "runs as the child of the other test"]
fn child_without_handles() {
    let gpus = Gpu::all().unwrap();
    let refused = |error| {
        let what = "memory that other processes map";
        assert_eq!(error, Some(GpuError::Unsupported { gpu: 1, what }));
    };
    refused(gpus[1].part_granularity().err());
    refused(GpuPart::new(&gpus[1], 2 << 20).err());
    assert_eq!(live(), 0, "nothing was allocated");
    // Processes that map nothing of each other's are none the worse.
    let window = GpuWindow::new(&[gpus[1].clone(), gpus[1].clone()], BYTES).unwrap();
    window.write(1, 0, &[7; BYTES]).unwrap();
    assert_eq!((filled(&window, 0), filled(&window, 1)), (0, 7));
}

fn bad_descriptors(gpus: &[Gpu], stride: usize) {
    let part = |bytes| GpuPart::new(&gpus[0], bytes).unwrap();
    let nothing = std::fs::File::open("/dev/null").unwrap();
    let error = window(part(stride), 0, nothing.as_fd()).err().unwrap();
    assert!(error.to_string().contains("cuMemImportFromShareableHandle"), "{error}");
    let small = part(stride / 2).export().unwrap();
    let error = window(part(stride), 0, small.as_fd()).err().unwrap();
    assert!(error.to_string().contains("cuMemMap"), "{error}");
    let fd = small.as_fd();
    assert!(
        matches!(part(stride).window(0, &[Some(fd), None], BYTES), Err(GpuError::Invalid(_))),
        "own place"
    );
    assert!(
        matches!(part(stride).window(2, &[None, Some(fd)], BYTES), Err(GpuError::Invalid(_))),
        "no such rank"
    );
    assert!(
        matches!(part(stride).window(0, &[None, Some(fd)], 2 * stride), Err(GpuError::Invalid(_))),
        "too large"
    );
}

/// What the driver still holds.
fn live() -> i32 {
    // SAFETY: looks a function of the loaded library up, which has this type.
    unsafe {
        let library = libc::dlopen(c"libcuda.so".as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD);
        let function = libc::dlsym(library, c"fake_live".as_ptr());
        assert!(!function.is_null());
        std::mem::transmute::<*mut libc::c_void, extern "C" fn() -> i32>(function)()
    }
}

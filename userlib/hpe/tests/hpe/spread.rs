//! Distributed objects: one pointer, whose bytes lie on several devices. They run on two GPUs, too, with `GGAS_TEST_GPUS=2`; 1 has them on one.

use std::io::{Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use crate::common::{devices, on_gpus, pair};
use ggas_hpe::{HpeError, Runtime};
use ggas_kernels::{Launch, start};
use ggas_selftest::args::selftest_threads;

/// Bytes of a part: what GPUs map at once.
const PART: usize = 2 << 20;

fn pattern(len: usize) -> Vec<u8> {
    (0..len as u32).map(|i| (i.wrapping_mul(0x9e37_79b1) >> 21) as u8).collect()
}

fn read(runtime: &Runtime, start: *const u8, len: usize) -> Vec<u8> {
    let mut bytes = vec![0xee; len];
    // SAFETY: memory of the test that calls.
    unsafe { runtime.copy(bytes.as_mut_ptr(), start, len).unwrap() };
    bytes
}

#[test]
fn one_pointer_reaches_all_parts() {
    for peers in [true, false] {
        let runtime = devices(2).peers(peers).pinned(64 << 10, 128 << 10).build().unwrap();
        let [one, two] = pair(&runtime);
        // The parts of a device need not lie side by side, and the last has less.
        let (order, len) = ([two, one, two], 3 * PART - 100);
        let (a, b) =
            (runtime.alloc_spread(&order, len).unwrap(), runtime.alloc_spread(&[one, two], len).unwrap());
        for (part, device) in order.into_iter().enumerate() {
            assert_eq!(runtime.owner(a.wrapping_add(part * PART)), Some(device));
            assert_eq!(runtime.owner(a.wrapping_add((part + 1) * PART - 101)), Some(device));
        }
        assert!(read(&runtime, a, len) == vec![0; len], "zeroed");
        let sent = pattern(len);
        // SAFETY: memory of this test.
        unsafe {
            // Over both edges; between objects that are cut elsewhere; to a part's device, and from it.
            runtime.copy(a.add(7), sent[7..].as_ptr(), len - 7).unwrap();
            runtime.copy(b, a, len).unwrap();
            assert!(read(&runtime, b.add(7), len - 7) == sent[7..]);
            let plain = runtime.alloc(one, PART).unwrap();
            runtime.copy(plain, a.add(PART / 2), PART).unwrap();
            assert!(read(&runtime, plain, PART) == sent[PART / 2..][..PART]);
            runtime.copy(a.add(PART + PART / 2), plain, PART).unwrap();
            assert!(read(&runtime, a.add(PART + PART / 2), PART) == sent[PART / 2..][..PART]);
            runtime.free(a).unwrap();
            let freed = runtime.copy(b, a, 1);
            // By CUDA's addresses it might be the host's.
            let is_told = match &freed {
                Err(HpeError::NoMemory { .. }) => on_gpus(),
                // It is in the segment of no device.
                Err(error @ HpeError::Unknown { .. }) => !on_gpus() && !error.to_string().contains("device"),
                _ => false,
            };
            assert!(is_told, "{freed:?}");
            runtime.free(b).unwrap();
        }
        assert_eq!(runtime.counts().pinned.in_use, 0);
    }
}

#[test]
fn kernels_use_all_parts_by_one_pointer() {
    let processor = ggas_selftest::processor(0); // its kernels are known before the GPU is opened
    let runtime = devices(2).build().unwrap();
    let devices = pair(&runtime);
    // 4 blocks of 64 words of 8 bytes, half of them on each device.
    let out = runtime.alloc_spread(&[devices[1], devices[0]], 2 * PART).unwrap();
    let counter = runtime.alloc(devices[0], 8).unwrap();
    let at = PART - 1024;
    let inside = runtime.device_address(out.wrapping_add(at)).unwrap();
    let args = selftest_threads {
        out: inside,
        counter: runtime.device_address(counter).unwrap(),
        report: 0,
        timeout_ns: 30_000_000_000,
    };
    // SAFETY: the structure is this kernel's; the memory lives beyond the wait.
    let launch = unsafe { Launch::new(&processor, "ggas_selftest_threads", 4, 64, &args) };
    start(&[launch]).unwrap().wait(Duration::from_secs(60)).unwrap();
    let words = read(&runtime, out.wrapping_add(at), 2048);
    assert!(words.chunks(8).all(|word| word == 256u64.to_le_bytes()), "a kernel's words in both parts");
}

#[test]
fn files_fill_all_parts() {
    let runtime = devices(2).pinned(64 << 10, 128 << 10).build().unwrap();
    let len = PART + 12345;
    let object = runtime.alloc_spread(&pair(&runtime), 2 * PART).unwrap();
    let mut file = tempfile::tempfile().unwrap();
    let sent = pattern(len);
    file.write_all(&sent).unwrap();
    // SAFETY: memory of this test.
    unsafe {
        // As far as the file goes; at an offset; from its position.
        assert_eq!(runtime.read_file(file.as_raw_fd(), object, 2 * PART, Some(0)).unwrap(), len);
        assert!(read(&runtime, object, len) == sent);
        assert_eq!(runtime.read_file(file.as_raw_fd(), object.add(3), len, Some(100)).unwrap(), len - 100);
        assert!(read(&runtime, object.add(3), len - 100) == sent[100..]);
        let mut copy = tempfile::tempfile().unwrap();
        assert_eq!(runtime.write_file(copy.as_raw_fd(), object.add(3), len - 100, None).unwrap(), len - 100);
        copy.rewind().unwrap();
        assert_eq!(runtime.read_file(copy.as_raw_fd(), object, len - 100, None).unwrap(), len - 100);
        assert!(read(&runtime, object, len - 100) == sent[100..]);
    }
}

#[test]
fn messages_of_sockets_are_whole_whatever_parts_they_lie_on() {
    let runtime = devices(2).build().unwrap();
    let object = runtime.alloc_spread(&pair(&runtime), 2 * PART).unwrap();
    // Ten bytes before the edge of both parts.
    let at = object.wrapping_add(PART - 10);
    let (near, far) = UnixDatagram::pair().unwrap();
    let sent = pattern(60);
    // SAFETY: memory of this test.
    unsafe {
        for (from, to) in [(0, 10), (10, 30), (30, 60)] {
            near.send(&sent[from..to]).unwrap();
        }
        // One that ends at the edge, and one that passes it; then the same bytes as one message again.
        for (from, to) in [(0, 10), (10, 30)] {
            assert_eq!(runtime.read_file(far.as_raw_fd(), at, 100, None).unwrap(), to - from);
            assert!(read(&runtime, at, to - from) == sent[from..to]);
        }
        assert_eq!(runtime.read_file(far.as_raw_fd(), at, 25, None).unwrap(), 25);
        assert_eq!(runtime.write_file(near.as_raw_fd(), at, 25, None).unwrap(), 25);
    }
    let mut got = [0; 100];
    assert_eq!(far.recv(&mut got).unwrap(), 25);
    assert!(got[..25] == sent[30..55]);
}

#[test]
fn a_pipe_is_asked_once() {
    let runtime = devices(2).build().unwrap();
    let object = runtime.alloc_spread(&pair(&runtime), 2 * PART).unwrap();
    let mut asked = Vec::new();
    let mut get = |_: *mut u8, len: usize, done: usize| {
        asked.push((len, done));
        Ok(10)
    };
    // SAFETY: memory of this test.
    let got = unsafe { runtime.read_from(object.wrapping_add(PART - 10), 100, false, &mut get) };
    assert_eq!(
        (got.unwrap(), asked),
        (10, vec![(100, 0)]),
        "it holds what ends at an edge, and more is not waited for"
    );
}

#[test]
fn what_cannot_be_distributed_is_refused() {
    let runtime = Runtime::builder().executors(2).build().unwrap();
    let devices = runtime.devices();
    assert!(matches!(runtime.alloc_spread(&[], 1), Err(HpeError::Apart)));
    assert!(matches!(runtime.alloc_spread(&devices, usize::MAX), Err(HpeError::Full { .. })));
    let other = Runtime::builder().executors(1).build().unwrap();
    assert!(matches!(runtime.alloc_spread(&other.devices(), 1), Err(HpeError::NoDevice { .. })));
    let object = runtime.alloc_spread(&devices, 100).unwrap();
    let here = [0u8; 101];
    // SAFETY: refused.
    unsafe {
        let long = runtime.copy(object, here.as_ptr(), 101);
        assert!(matches!(long, Err(HpeError::AcrossObjects { left: 100, .. })));
        assert!(matches!(runtime.free(object.add(1)), Err(HpeError::NotAllocated { .. })));
        let overlap = runtime.copy(object.add(1), object, 50);
        assert!(matches!(overlap, Err(HpeError::Overlap { .. })));
    }
    let used = [(object.cast_const(), ggas_hpe::Use::Read)];
    assert!(matches!(runtime.launch(&used, || ()), Err(HpeError::NotShared { .. })));
    // Another runtime's are nobody's here.
    assert!(matches!(other.device_address(object), Err(HpeError::NoDevice { .. })));
}

#[test]
fn a_lost_device_takes_its_parts_only() {
    let runtime = Runtime::builder().executors(2).build().unwrap();
    let devices = runtime.devices();
    let object = runtime.alloc_spread(&devices, 2 * 4096).unwrap();
    runtime.end_device(devices[1]).unwrap();
    let mut here = [0u8; 8192];
    // SAFETY: memory of this test.
    unsafe {
        runtime.copy(here.as_mut_ptr(), object, 4096).unwrap();
        let lost = runtime.copy(here.as_mut_ptr(), object, 4097);
        assert!(matches!(lost, Err(HpeError::Lost { device }) if device == devices[1]));
    }
}

//! Streams on the CPU executor: work in order, and waits for other streams.

use std::time::Duration;

use ggas_kernels::{KernelMem, Launch, LaunchError, Processor, Stream};
use ggas_selftest::KERNELS;
use ggas_selftest::args::selftest_threads;

/// Bound of waits that are expected to succeed, on a machine that may stall for seconds.
const SOON: Duration = Duration::from_secs(60);
const BLOCKS: u32 = 3;
const THREADS: u32 = 32;
const ALL: usize = (BLOCKS * THREADS) as usize;

/// Writes how many threads there are, once all have come.
fn counting<'a>(cpu: &'a Processor, out: &KernelMem, counter: &KernelMem) -> Launch<'a> {
    let args = selftest_threads {
        out: out.address(),
        counter: counter.address(),
        report: 0,
        timeout_ns: SOON.as_nanos() as u64,
    };
    // SAFETY: the structure is this kernel's, and the memory outlives the streams.
    unsafe { Launch::new(cpu, "ggas_selftest_threads", BLOCKS, THREADS, &args) }
}

#[test]
fn work_is_done_in_order_and_streams_wait_for_each_other() {
    ggas_kernels::add(&KERNELS).unwrap();
    let cpu = Processor::cpu();
    let memory = || cpu.alloc(8 * ALL).unwrap();
    let (out, counter, there, back, flag) = (memory(), memory(), memory(), memory(), memory());
    let kernels = [counting(&cpu, &out, &counter)];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let stream = Stream::new(&[], SOON).unwrap();
            // SAFETY: memory of this test; the word is accessed by these calls only.
            unsafe { stream.wait_for(flag.address(), 7) }.unwrap();
            // SAFETY: the other stream wrote it before the word.
            unsafe { stream.copy(back.address(), there.address(), 8 * ALL) }.unwrap();
        });
        let stream = Stream::new(&kernels, SOON).unwrap();
        stream.launch(0).unwrap();
        // SAFETY: memory of this test.
        unsafe { stream.copy(there.address(), out.address(), 8 * ALL) }.unwrap();
        // SAFETY: as above.
        unsafe { stream.store(flag.address(), 7) }.unwrap();
        stream.wait().unwrap();
    });
    assert_eq!(back.read_u64s(0, ALL).unwrap(), [ALL as u64; ALL]);
}

#[test]
fn what_cannot_be_done_is_an_error() {
    ggas_kernels::add(&KERNELS).unwrap();
    let cpu = Processor::cpu();
    let memory = cpu.alloc(8 * ALL).unwrap();
    let kernels = [counting(&cpu, &memory, &memory)];
    let stream = Stream::new(&kernels, Duration::from_millis(1)).unwrap();
    assert!(matches!(stream.launch(1), Err(LaunchError::UnknownKernel { .. })));
    // SAFETY: memory of this test.
    let late = unsafe { stream.wait_for(memory.address(), 1) }.unwrap_err().to_string();
    assert!(late.contains("waits for 1, the word is 0"), "{late}");
    // SAFETY: never started.
    let unknown = [unsafe { Launch::new(&cpu, "nobody", 1, 1, &0u64) }];
    assert!(matches!(Stream::new(&unknown, SOON), Err(LaunchError::UnknownKernel { .. })));
}

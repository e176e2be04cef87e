//! The executor: what it runs, and what it catches.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use extoll_abi::layout::ggas_port;
use ggas_clock::{Clock, Manual};
use ggas_kernels::mmio::{self, MmioTarget};
use ggas_kernels::{CpuConfig, Launch, LaunchError, Processor, kernel_names, start};
use ggas_selftest::args::{planted_args, selftest_posts, selftest_threads, selftest_vocab};

/// Bound of every wait that is expected to succeed, on a machine that may stall for seconds.
const TIMEOUT: Duration = Duration::from_secs(60);

fn launch<'a, T: Copy>(cpu: &'a Processor, kernel: &'a str, grid: u32, block: u32, args: &T) -> Launch<'a> {
    // SAFETY: every test passes the kernel's own structure, and memory that outlives its wait.
    unsafe { ggas_selftest::launch(cpu, kernel, grid, block, args) }
}

fn threads_meet(cpu: &Processor, grids: &[(u32, u32)]) {
    let total: usize = grids.iter().map(|(grid, block)| (grid * block) as usize).sum();
    let memory: Vec<_> = grids
        .iter()
        .map(|(grid, block)| {
            (cpu.alloc((grid * block) as usize * 8).expect("memory"), cpu.alloc(8).expect("memory"))
        })
        .collect();
    let launches: Vec<_> = grids
        .iter()
        .zip(&memory)
        .map(|(&(grid, block), (out, counter))| {
            let args = selftest_threads {
                out: out.address(),
                counter: counter.address(),
                report: 0,
                timeout_ns: 60_000_000_000,
            };
            launch(cpu, "ggas_selftest_threads", grid, block, &args)
        })
        .collect();
    start(&launches).and_then(|running| running.wait(TIMEOUT)).expect("all threads meet");
    let mut met = 0;
    for ((grid, block), (out, _)) in grids.iter().zip(&memory) {
        let threads = (grid * block) as usize;
        assert_eq!(out.read_u64s(0, threads).expect("in range"), vec![threads as u64; threads]);
        met += threads;
    }
    assert_eq!(met, total);
}

#[test]
fn all_blocks_of_all_launches_live_at_once() {
    threads_meet(&Processor::cpu(), &[(1, 1)]);
    threads_meet(&Processor::cpu(), &[(8, 33), (2, 256), (1, 7)]);
}

#[test]
fn four_thousand_threads_on_one_worker() {
    let mut config = CpuConfig::default();
    config.workers = 1;
    threads_meet(&Processor::cpu_with(config), &[(4, 1024)]);
}

#[test]
fn the_vocabulary_holds_for_every_shape_of_block() {
    let cpu = Processor::cpu();
    for block in [1, 2, 3, 31, 32, 33, 64, 100, 1024] {
        let (scratch, failed) = (cpu.alloc(4096).expect("memory"), cpu.alloc(8).expect("memory"));
        let args = selftest_vocab { scratch: scratch.address(), failed: failed.address() };
        let launch = launch(&cpu, "ggas_selftest_vocab", 1, block, &args);
        start(&[launch]).and_then(|running| running.wait(TIMEOUT)).expect("it ends");
        let failed = failed.load_u64(0).expect("in range");
        assert_eq!(failed, 0, "block of {block}: checks {failed:#b} failed");
    }
}

#[test]
fn blocks_have_shared_memory_of_their_own() {
    let cpu = Processor::cpu();
    let memory: Vec<_> =
        (0..6).map(|_| (cpu.alloc(4096).expect("memory"), cpu.alloc(8).expect("memory"))).collect();
    let launches: Vec<_> = memory
        .iter()
        .map(|(scratch, failed)| {
            let args = selftest_vocab { scratch: scratch.address(), failed: failed.address() };
            launch(&cpu, "ggas_selftest_vocab", 1, 96, &args)
        })
        .collect();
    start(&launches).and_then(|running| running.wait(TIMEOUT)).expect("it ends");
    for (_, failed) in &memory {
        assert_eq!(failed.load_u64(0).expect("in range"), 0);
    }
}

/// Runs a kernel of `kernels/selftest/host/planted.cu`, which must fail soon. A thread that loses its processor for long looks
/// like one that does not pause: `no_pause` says what is long.
fn planted(kernel: &str, block: u32, timeout: Duration, no_pause: Duration) -> LaunchError {
    let mut config = CpuConfig::default();
    config.no_pause_limit = no_pause;
    let cpu = Processor::cpu_with(config);
    let flag = cpu.alloc(8).expect("memory");
    let running =
        start(&[launch(&cpu, kernel, 2, block, &planted_args { flag: flag.address() })]).expect("it starts");
    running.wait(timeout).expect_err("the bug is caught")
}

/// Tries with `limit`, then with more and more: a machine may stall for as long as that.
fn patiently<T>(
    limit: Duration,
    attempt: impl Fn(Duration) -> Result<T, LaunchError>,
) -> Result<T, LaunchError> {
    attempt(limit).or_else(|_| attempt(10 * limit)).or_else(|_| attempt(60 * limit))
}

#[test]
fn an_unbounded_wait_is_ended_and_named() {
    let parts = [
        "planted_unbounded_wait block 0",
        "block 1",
        "4 threads last waited for a flag",
        "expected 42, seen 0",
    ];
    // Who has not come to its wait by then is not named.
    let error = patiently(Duration::from_millis(200), |limit| {
        let error = planted("planted_unbounded_wait", 4, limit, TIMEOUT);
        let LaunchError::Timeout { waits, .. } = &error else { panic!("{error}") };
        if parts.iter().all(|part| waits.contains(part)) { Ok(()) } else { Err(error) }
    });
    error.unwrap();
}

#[test]
fn a_loop_without_pause_is_named_and_left_behind() {
    no_pause_is_found(TIMEOUT);
    // The process goes on.
    threads_meet(&Processor::cpu(), &[(2, 32)]);
}

#[test]
fn a_loop_without_pause_is_found_when_the_launch_timed_out_first() {
    no_pause_is_found(Duration::from_millis(20));
}

fn no_pause_is_found(timeout: Duration) {
    // Others that lose their processor for as long are named in its place.
    let found =
        patiently(Duration::from_millis(300), |limit| match planted("planted_no_pause", 4, timeout, limit) {
            LaunchError::NoPause { kernel, block: 0, thread: 1, .. } => Ok(kernel),
            other => Err(other),
        });
    assert_eq!(found.unwrap(), "planted_no_pause");
}

#[test]
fn a_barrier_that_half_of_the_block_left_is_divergence() {
    match planted("planted_divergent_exit", 64, TIMEOUT, TIMEOUT) {
        LaunchError::Divergence { detail, .. } => {
            assert!(detail.contains("32 threads at the barrier of planted.cu"), "{detail}");
            assert!(detail.contains("32 threads exited (first: 32)"), "{detail}");
        }
        other => panic!("{other}"),
    }
}

#[test]
fn two_barriers_of_one_block_are_divergence() {
    let error = planted("planted_divergent_barrier", 8, TIMEOUT, TIMEOUT);
    assert!(matches!(error, LaunchError::Divergence { .. }), "{error}");
}

#[test]
fn a_lane_that_never_comes_is_a_deadlock() {
    match planted("planted_divergent_warp", 32, TIMEOUT, TIMEOUT) {
        LaunchError::Deadlock { detail, .. } => {
            assert!(detail.contains("31 threads in a warp Sync"), "{detail}");
            assert!(detail.contains("1 thread at the barrier"), "{detail}");
        }
        other => panic!("{other}"),
    }
}

#[test]
fn impossible_launches_are_refused() {
    let cpu = Processor::cpu();
    let args = selftest_vocab { scratch: 0, failed: 0 };
    let refused = |kernel, grid, block| start(&[launch(&cpu, kernel, grid, block, &args)]).err();
    assert!(matches!(refused("no_such_kernel", 1, 1), Some(LaunchError::UnknownKernel { .. })));
    assert!(matches!(refused("ggas_selftest_threads", 1, 1), Some(LaunchError::Arguments { .. })));
    assert!(matches!(refused("ggas_selftest_vocab", 0, 1), Some(LaunchError::Geometry { .. })));
    assert!(matches!(refused("ggas_selftest_vocab", 1, 1025), Some(LaunchError::Geometry { .. })));
    let threads = refused("ggas_selftest_vocab", u32::MAX, 1024);
    assert!(matches!(threads, Some(LaunchError::TooManyThreads { .. })));
}

#[test]
fn dropping_a_launch_cancels_it() {
    let cpu = Processor::cpu();
    let flag = cpu.alloc(8).expect("memory");
    let args = planted_args { flag: flag.address() };
    // It would not end by itself.
    drop(start(&[launch(&cpu, "planted_unbounded_wait", 1, 32, &args)]).expect("it starts"));
}

#[test]
fn nothing_to_launch_is_done_at_once() {
    start(&[]).and_then(|running| running.wait(Duration::ZERO)).expect("nothing to do");
}

#[test]
fn the_table_has_every_kernel_once() {
    let mut names: Vec<_> = kernel_names().collect();
    assert!(names.contains(&"ggas_collective"));
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn an_endless_timeout_is_a_timeout() {
    threads_meet(&Processor::cpu(), &[(1, 2)]);
    start(&[]).and_then(|running| running.wait(Duration::MAX)).expect("nothing to do");
}

#[test]
fn idle_workers_do_what_kernels_wait_for() {
    let cpu = Processor::cpu();
    let flag = Arc::new(cpu.alloc(8).expect("memory"));
    let target = flag.clone();
    let guard = ggas_kernels::on_idle(Clock::REAL, move || {
        target.store_u64(0, 42).expect("in range");
        false
    });
    let args = planted_args { flag: flag.address() };
    start(&[launch(&cpu, "planted_unbounded_wait", 2, 64, &args)])
        .and_then(|running| running.wait(TIMEOUT))
        .expect("the flag is set");
    drop(guard);
    flag.store_u64(0, 0).expect("in range");
    let again = start(&[launch(&cpu, "planted_unbounded_wait", 1, 1, &args)]);
    let error = again.and_then(|running| running.wait(Duration::from_millis(50)));
    assert!(matches!(error, Err(LaunchError::Timeout { .. })), "nobody sets it any more: {error:?}");
}

/// A device whose third store is a bug.
struct Broken(AtomicU32);

impl MmioTarget for Broken {
    fn store(&self, offset: u64, _value: u64) {
        let stores = self.0.fetch_add(1, Ordering::Relaxed);
        assert!(stores < 2, "store {stores} at offset {offset:#x}");
    }
}

#[test]
fn a_device_model_that_panics_ends_the_launch() {
    // Addresses that are nobody's memory.
    let pages = 0x7000_0000_0000_0000u64..0x7000_0000_0200_0000;
    let device = Arc::new(Broken(AtomicU32::new(0)));
    let _guard = mmio::register(pages.clone(), device).expect("free addresses");
    assert!(mmio::register(pages.end - 1..pages.end, Arc::new(Broken(AtomicU32::new(0)))).is_err());
    let cpu = Processor::cpu();
    let [wcb, status] = [8, 8].map(|bytes| cpu.alloc(bytes).expect("memory"));
    // SAFETY: plain numbers; all zero is a port without anything.
    let mut port: ggas_port = unsafe { std::mem::zeroed() };
    (port.req_pages, port.wcb_state, port.timeout_ns) = (pages.start, wcb.address(), 1_000_000_000);
    port.lines = 255;
    let memory = cpu.alloc(size_of::<ggas_port>()).expect("memory");
    // SAFETY: plain numbers without padding.
    let bytes = unsafe { std::slice::from_raw_parts((&raw const port).cast::<u8>(), size_of::<ggas_port>()) };
    memory.write(0, bytes).expect("in range");
    let args =
        selftest_posts { port: memory.address(), status: status.address(), posts: 1, ..Default::default() };
    let run = start(&[launch(&cpu, "ggas_selftest_posts", 1, 32, &args)]);
    match run.and_then(|running| running.wait(TIMEOUT)) {
        Err(LaunchError::Device { what }) => assert_eq!(what, "store 2 at offset 0x10"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn blocks_start_when_others_have_ended() {
    let cpu = Processor::cpu();
    let flag = cpu.alloc(8).unwrap();
    flag.store_u64(0, 42).unwrap();
    // More than could live at once.
    let args = planted_args { flag: flag.address() };
    for (grid, resident) in [(5, 1), (5, 4), (5, 9), (200_000, 16)] {
        let launch = launch(&cpu, "planted_unbounded_wait", grid, 1, &args).resident(resident);
        start(&[launch]).unwrap().wait(Duration::from_secs(100)).unwrap();
    }
}

#[test]
fn a_wait_for_blocks_that_cannot_start_says_so() {
    let (clock, _) = Manual::new();
    let cpu = Processor::cpu_with(CpuConfig::on_clock(clock));
    let flag = cpu.alloc(8).unwrap();
    let args = planted_args { flag: flag.address() };
    let launch = launch(&cpu, "planted_unbounded_wait", 7, 2, &args).resident(3);
    let error = start(&[launch]).unwrap().wait(Duration::from_secs(5)).unwrap_err();
    let said = error.to_string();
    assert!(matches!(error, LaunchError::Timeout { .. }), "{said}");
    assert!(said.contains("planted_unbounded_wait: 4 blocks have not started"), "{said}");
}

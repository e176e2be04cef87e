//! Launches: what fits, what runs at once, what may be called meanwhile.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use ggas_gpu::{DeviceBuffer, Gpu, GpuError, GpuWindow, Launch, Module, Running, start};
use ggas_selftest::args::{gputest_hold, gputest_ping, selftest_threads, selftest_vocab};

use crate::harness::{Outcome, SHORT, Shared, Suite, bounded, until};
use crate::text;

const KERNEL_TIMEOUT_NS: u64 = 8_000_000_000;

pub fn checks(suite: &mut Suite, gpus: &[Module]) {
    let first = &gpus[0];
    suite.check("launch: refusals", || refusals(first));
    suite.check("launch: fit, and all blocks of a full GPU at once", || full(first, false));
    suite.check("launch: the same, cooperative", || full(first, true));
    suite.check("launch: 16 kernels at once on one GPU", || many(first, 16));
    suite.check("launch: 100 kernels at once on one GPU", || many(first, 100));
    suite.check("launch: 200 kernels refused", || too_many(first));
    suite.check("doorbell: GPU to CPU and back in host memory", || doorbell(first));
    suite.check("flags: two kernels on one GPU", || flags(first, first));
    for other in gpus.iter().skip(1) {
        let name = format!("flags: kernels on GPU 0 and {}", other.gpu().ordinal());
        suite.check(&name, || flags(first, other));
    }
    for call in CALLS {
        suite.check(&format!("beside waiting kernels: {}", call.0), || meanwhile(first, *call));
    }
    suite.check("deferred: free and unmap wait for kernels", || deferred(first));
    suite.check("timeout: named, then the kernel's own bound ends it", || timeout(first));
    suite.check("executor seam: ggas_kernels::start on the GPU", seam);
    suite.check("vocabulary: atomics, fences and warps do what vocab.h says", vocabulary);
}

/// Kernels that wait for a flag in host memory.
struct Held {
    words: Shared,
    running: Running,
}

impl Held {
    fn start(
        module: &Module,
        shapes: &[(u32, u32)],
        cooperative: bool,
        timeout_ns: u64,
    ) -> Result<Held, GpuError> {
        let words = Shared::new(module.gpu(), 2).map_err(GpuError::Invalid)?;
        let args = gputest_hold { flag: words.address(0), counter: words.address(1), timeout_ns };
        let launches: Vec<_> = shapes
            .iter()
            .map(|(grid, block)| {
                // SAFETY: the structure is the kernel's; `Held` keeps the words until the kernels have ended.
                let launch = unsafe { Launch::new(module, "ggas_gputest_hold", *grid, *block, &args) };
                if cooperative { launch.cooperative() } else { launch }
            })
            .collect();
        let running = start(&launches)?;
        Ok(Held { words, running })
    }

    fn await_blocks(&self, blocks: u64) -> Result<(), String> {
        let counted = until("all blocks to be resident", SHORT, || self.words.load(1) == blocks);
        counted.map_err(|error| format!("{error}: {} of {blocks} are", self.words.load(1)))
    }

    fn release(mut self) -> Result<(), String> {
        self.words.store(0, 1);
        self.running.wait(SHORT).map_err(text)
    }
}

fn refusals(module: &Module) -> Outcome {
    let try_start = |name: &str, grid, block, bytes: usize| {
        let args = [std::mem::MaybeUninit::zeroed(); 64];
        // SAFETY: nothing starts.
        let launch = unsafe { Launch::with_bytes(module, name, grid, block, &args[..bytes]) };
        start(&[launch]).map(drop)
    };
    let hold = "ggas_gputest_hold";
    match (try_start("nothing", 1, 1, 24), try_start(hold, 1, 1, 16), try_start(hold, 0, 1, 24)) {
        (
            Err(GpuError::UnknownKernel { .. }),
            Err(GpuError::ArgumentSize { needed: 24, .. }),
            Err(GpuError::Shape { .. }),
        ) => {}
        other => return Err(format!("{other:?}")),
    }
    match try_start(hold, 1, 2048, 24) {
        Err(error @ GpuError::Shape { .. }) => Ok(error.to_string()),
        other => Err(format!("2048 threads: {other:?}")),
    }
}

/// As many blocks as fit really are resident together; one more is refused.
fn full(module: &Module, cooperative: bool) -> Outcome {
    let sms = module.gpu().info().multiprocessors;
    let mut per_sm = 32;
    while per_sm > 1 {
        match Held::start(module, &[(sms * per_sm, 256)], cooperative, KERNEL_TIMEOUT_NS) {
            Err(GpuError::DoesNotFit { .. }) => per_sm -= 1,
            Err(error) => return Err(text(error)),
            Ok(held) => {
                let beside = start_one_more(module);
                let resident = held.await_blocks(u64::from(sms * per_sm));
                held.release()?;
                resident?;
                return match beside {
                    Err(error @ GpuError::DoesNotFit { .. }) => {
                        Ok(format!("{} × 256 run; one more: {error}", sms * per_sm))
                    }
                    other => Err(format!("one more block beside a full GPU: {:?}", other.map(drop))),
                };
            }
        }
    }
    Err("not even two blocks of 256 a multiprocessor fit".into())
}

fn start_one_more(module: &Module) -> Result<Held, GpuError> {
    Held::start(module, &[(1, 1024)], false, 1_000_000)
}

/// Kernels of one block each, on streams of their own.
fn many(module: &Module, count: usize) -> Outcome {
    let held = Held::start(module, &vec![(1, 32); count], false, KERNEL_TIMEOUT_NS).map_err(text)?;
    let resident = held.await_blocks(count as u64);
    held.release()?;
    resident.map(|()| String::new())
}

fn too_many(module: &Module) -> Outcome {
    match Held::start(module, &[(1, 32); 200], false, 1_000_000) {
        Err(GpuError::DoesNotFit { .. }) => Ok(String::new()),
        other => Err(format!("{:?}", other.map(drop))),
    }
}

fn doorbell(module: &Module) -> Outcome {
    const ROUNDS: u64 = 20_000;
    let words = Shared::new(module.gpu(), 64).map_err(text)?;
    let ping = gputest_ping {
        request: words.address(0),
        answer: words.address(16),
        rounds: ROUNDS,
        second: 0,
        status: words.address(32),
        timeout_ns: KERNEL_TIMEOUT_NS,
    };
    // SAFETY: the structure is the kernel's; `words` lives until it has ended.
    let mut running =
        start(&[unsafe { Launch::new(module, "ggas_gputest_ping", 1, 1, &ping) }]).map_err(text)?;
    let mut begin = Instant::now();
    for i in 1..=ROUNDS {
        let rung = until("the doorbell", SHORT, || words.load(0) >= i);
        rung?;
        words.store(16, i);
        if i == 1 {
            begin = Instant::now();
        }
    }
    let took = begin.elapsed();
    running.wait(SHORT).map_err(text)?;
    match words.load(32) {
        1 => Ok(format!("round trip {:.2} us", took.as_secs_f64() * 1e6 / (ROUNDS - 1) as f64)),
        status => Err(format!("the kernel ended with status {status}")),
    }
}

/// Ping-pong over a window with one part on each side's GPU.
fn flags(first: &Module, second: &Module) -> Outcome {
    const ROUNDS: u64 = 20_000;
    let window = GpuWindow::new(&[first.gpu().clone(), second.gpu().clone()], 4096).map_err(text)?;
    let status = Shared::new(first.gpu(), 2).map_err(text)?;
    let (a, b) = (window.base(), window.base() + window.stride());
    let side = |request, answer, second, word| gputest_ping {
        request,
        answer,
        rounds: ROUNDS,
        second,
        status: status.address(word),
        timeout_ns: KERNEL_TIMEOUT_NS,
    };
    // Each polls its own part and stores to the other's.
    let (ping, pong) = (side(b, a, 0, 0), side(a, b, 1, 1));
    let begin = Instant::now();
    // SAFETY: the structures are the kernel's; window and words live until both have ended.
    let launches = unsafe {
        [
            Launch::new(first, "ggas_gputest_ping", 1, 1, &ping),
            Launch::new(second, "ggas_gputest_ping", 1, 1, &pong),
        ]
    };
    start(&launches).and_then(|mut running| running.wait(SHORT + SHORT)).map_err(text)?;
    let half = begin.elapsed().as_secs_f64() * 1e6 / ROUNDS as f64 / 2.0;
    match (status.load(0), status.load(1)) {
        (1, 1) => Ok(format!("half round trip {half:.2} us (launches included)")),
        other => Err(format!("the kernels ended with {other:?}")),
    }
}

/// A call that must return while kernels wait, and how many 1024-thread blocks wait on each multiprocessor: two
/// leave no room for any other kernel.
type Call = (&'static str, u32, fn(&Gpu) -> Result<(), GpuError>);

static PREPARED: Mutex<Option<DeviceBuffer>> = Mutex::new(None);

const CALLS: &[Call] = &[
    ("write and read GPU memory, on a full GPU", 2, |_| {
        let buffer = PREPARED.lock().map_or(None, |mut slot| slot.take());
        let buffer = buffer.ok_or_else(|| GpuError::Invalid("no buffer".into()))?;
        buffer.write(0, &[1; 4096])?;
        buffer.read(0, &mut [0; 4096])
    }),
    ("allocate and zero 64 MiB, on a full GPU", 2, |gpu| gpu.alloc(64 << 20).map(std::mem::forget)),
    ("map host memory", 2, |gpu| {
        let memory = vec![0u8; 1 << 20].leak();
        // SAFETY: leaked.
        unsafe { gpu.map_host(memory.as_ptr(), memory.len()) }.map(std::mem::forget)
    }),
    ("make a window, on a full GPU", 2, |gpu| {
        GpuWindow::new(std::slice::from_ref(gpu), 4096).map(std::mem::forget)
    }),
    ("make 40 streams and an event", 2, |gpu| {
        let streams = (0..40).map(|_| gpu.stream()).collect::<Result<Vec<_>, _>>()?;
        let event = ggas_gpu::Event::new(gpu)?;
        streams.iter().try_for_each(|stream| event.record(stream))
    }),
    ("copy 16 MiB by copy engine, on a full GPU", 2, |gpu| {
        // Made before the kernels: zeroing may need room on the GPU.
        let buffer = PREPARED.lock().map_or(None, |mut slot| slot.take());
        let buffer = buffer.ok_or_else(|| GpuError::Invalid("no buffer".into()))?;
        let stream = gpu.stream()?;
        // SAFETY: the buffer is leaked below.
        unsafe { stream.copy(buffer.address(), buffer.address() + (16 << 20), 16 << 20)? };
        let done = stream.wait("the copy", Duration::from_secs(2));
        std::mem::forget(buffer);
        done
    }),
];

/// Makes a call in a thread while kernels fill most of the GPU and wait.
fn meanwhile(module: &Module, (name, blocks, call): Call) -> Outcome {
    let prepared = module.gpu().alloc(32 << 20).map_err(text)?;
    if let Ok(mut slot) = PREPARED.lock() {
        *slot = Some(prepared);
    }
    let blocks = module.gpu().info().multiprocessors * blocks;
    let held = Held::start(module, &[(blocks, 1024)], false, KERNEL_TIMEOUT_NS).map_err(text)?;
    let resident = held.await_blocks(u64::from(blocks));
    let gpu = module.gpu().clone();
    let begin = Instant::now();
    let returned = bounded(name, Duration::from_secs(3), move || call(&gpu));
    let took = begin.elapsed();
    held.release()?;
    resident?;
    returned?.map_err(text)?;
    Ok(format!("{:.0} us", took.as_secs_f64() * 1e6))
}

fn deferred(module: &Module) -> Outcome {
    let before = ggas_gpu::deferred_calls();
    let held = Held::start(module, &[(1, 32)], false, KERNEL_TIMEOUT_NS).map_err(text)?;
    held.await_blocks(1)?;
    let words = Shared::new(module.gpu(), 1000)?;
    let address = words.address(0);
    drop(module.gpu().alloc(1 << 20).map_err(text)?);
    drop(words);
    let put_off = ggas_gpu::deferred_calls() - before;
    // SAFETY: refused.
    let again = unsafe { module.gpu().map_host(address as *const u8, 8000) }.map(drop);
    held.release()?;
    let after = ggas_gpu::deferred_calls();
    match again {
        Err(GpuError::Busy { .. }) if put_off >= 2 && after == 0 => Ok(format!("{put_off} put off, 0 left")),
        other => Err(format!("{put_off} put off, {after} left; mapping again: {other:?}")),
    }
}

fn timeout(module: &Module) -> Outcome {
    let mut held = Held::start(module, &[(2, 32)], false, 400_000_000).map_err(text)?;
    let waited = held.running.wait(Duration::from_millis(50));
    let Err(GpuError::Timeout { what, .. }) = &waited else {
        return Err(format!("expected a timeout, got {waited:?}"));
    };
    let what = what.clone();
    // Dropped while it runs: memory is kept until it has ended.
    let Held { words, running } = held;
    drop(running);
    drop(module.gpu().alloc(4096).map_err(text)?);
    let put_off = ggas_gpu::deferred_calls();
    until("the kernel's own bound", SHORT, || ggas_gpu::deferred_calls() == 0)?;
    drop(words);
    if put_off == 0 { Err("nothing was put off".into()) } else { Ok(format!("'{what}' named")) }
}

fn seam() -> Outcome {
    let processor = ggas_kernels::Processor::gpu(0).map_err(text)?;
    let (blocks, threads) = (4, 64);
    let out = processor.alloc(blocks * threads * 8).map_err(text)?;
    let counter = processor.alloc(8).map_err(text)?;
    let args = selftest_threads {
        out: out.address(),
        counter: counter.address(),
        report: 0,
        timeout_ns: 5_000_000_000,
    };
    // SAFETY: the kernel's structure, and the memory lives beyond the wait.
    let launch = unsafe {
        ggas_selftest::launch(&processor, "ggas_selftest_threads", blocks as u32, threads as u32, &args)
    };
    ggas_kernels::start(&[launch]).and_then(|running| running.wait(SHORT)).map_err(text)?;
    let seen = out.read_u64s(0, blocks * threads).map_err(text)?;
    match seen.iter().all(|seen| *seen == (blocks * threads) as u64) {
        true => Ok(processor.name()),
        false => Err(format!("threads saw {:?}", &seen[..4])),
    }
}

fn vocabulary() -> Outcome {
    let processor = ggas_kernels::Processor::gpu(0).map_err(text)?;
    for threads in [32, 96, 1024] {
        let (scratch, failed) = (processor.alloc(4096).map_err(text)?, processor.alloc(8).map_err(text)?);
        let args = selftest_vocab { scratch: scratch.address(), failed: failed.address() };
        // SAFETY: the kernel's structure, and the memory lives beyond the wait.
        let launch = unsafe { ggas_selftest::launch(&processor, "ggas_selftest_vocab", 1, threads, &args) };
        ggas_kernels::start(&[launch]).and_then(|running| running.wait(SHORT)).map_err(text)?;
        let failed = failed.load_u64(0).map_err(text)?;
        if failed != 0 {
            return Err(format!("block of {threads}: checks {failed:#b} failed"));
        }
    }
    Ok(String::new())
}

//! `hpe-copy`: copies by one call, beside the driver's own.

use ggas_gpu::{Gpu, HostMapping};
use ggas_hpe::{Runtime, Staging, Told};

use super::{between, compare, devices, gpus, pattern};
use crate::bench::{iterations_for, methods_by_sizes};
use crate::error::Doing;
use crate::setup::{Setup, Worker};
use crate::stats::time_calls;
use crate::team::Task;
use crate::{Bench, BenchError, Check, Device, Options, Progress, Report, Row, Samples, Team};

pub(crate) struct Copies;

/// Methods of GPUs only: the driver's copies, until the host knows of their end.
const DRIVERS: [&str; 3] = ["driver", "pinned-up", "pinned-down"];

/// Ways through pinned buffers (pairs of 8 MiB) for one run to choose from: blocks, bytes of each, and who tells engines of them.
const SHAPES: [(&str, usize, usize, Told); 19] = [
    ("thread-2x4M", 2, 4 << 20, Told::ByThread),
    ("thread-3x2M", 3, 2 << 20, Told::ByThread),
    ("thread-4x2M", 4, 2 << 20, Told::ByThread),
    ("thread-3x4M", 3, 4 << 20, Told::ByThread),
    ("thread-4x3M", 4, 3 << 20, Told::ByThread),
    ("thread-6x2M", 6, 2 << 20, Told::ByThread),
    ("thread-4x1M", 4, 1 << 20, Told::ByThread),
    ("thread-8x1M", 8, 1 << 20, Told::ByThread),
    ("thread-16x512K", 16, 512 << 10, Told::ByThread),
    ("line-3x2M", 3, 2 << 20, Told::InLine),
    ("line-4x2M", 4, 2 << 20, Told::InLine),
    ("line-8x1M", 8, 1 << 20, Told::InLine),
    ("line-16x512K", 16, 512 << 10, Told::InLine),
    ("events-2x4M", 2, 4 << 20, Told::ByEvents),
    ("events-3x2M", 3, 2 << 20, Told::ByEvents),
    ("events-4x2M", 4, 2 << 20, Told::ByEvents),
    ("events-4x1M", 4, 1 << 20, Told::ByEvents),
    ("events-8x1M", 8, 1 << 20, Told::ByEvents),
    ("events-16x512K", 16, 512 << 10, Told::ByEvents),
];
/// Of shorter copies all go in one block.
const SHORTEST: u64 = 1 << 20;

const USUAL: [&str; 8] = ["driver", "peer", "pinned-up", "pinned-down", "staged", "both-ways", "up", "down"];
/// Methods of one process, and behind them those of several.
const ALONE: usize = USUAL.len() + SHAPES.len();
const METHODS: [&str; ALONE + between::METHODS.len()] = {
    let mut all = [""; ALONE + between::METHODS.len()];
    let mut i = 0;
    while i < all.len() {
        all[i] = if i < USUAL.len() {
            USUAL[i]
        } else if i < ALONE {
            SHAPES[i - USUAL.len()].0
        } else {
            between::METHODS[i - ALONE]
        };
        i += 1;
    }
    all
};

/// How a method stages, if it says so.
fn staging(method: &str) -> Option<Staging> {
    let (_, blocks, bytes, told) = SHAPES.into_iter().find(|(name, ..)| *name == method)?;
    Some(Staging { blocks, bytes, told })
}

impl Bench for Copies {
    fn name(&self) -> &'static str {
        "hpe-copy"
    }

    fn about(&self) -> &'static str {
        "copies between devices, the host and other ranks by one call of pointers, and by the driver (HPE Figs 7, 8)"
    }

    fn is_of_two_nodes(&self) -> bool {
        true
    }

    fn methods(&self) -> &'static [&'static str] {
        &METHODS
    }

    fn by_windows(&self) -> bool {
        true
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        let of_gpus = |method: &str| {
            let by_streams = method.starts_with("events") || method.starts_with("line");
            DRIVERS.contains(&method) || by_streams || method == "ipc"
        };
        let has = |method: &&str| {
            let is_here = between::METHODS.contains(method) == (team.size() > 1);
            is_here && (options.device == Device::Gpu || !of_gpus(method))
        };
        let methods: Vec<_> = task.methods().into_iter().filter(has).collect();
        if let (Some(method), []) = (&options.method, &methods[..]) {
            let advice = "not of so many processes, or of GPUs: see the table in benches/README.md";
            return Err(BenchError::option("method", method, advice));
        }
        let sizes = options.sizes_or(&[8, 4096, 64 << 10, 1 << 20, 16 << 20, 64 << 20], 1..=1 << 30, 1)?;
        methods_by_sizes(task, &methods, &sizes, progress, |report, method, bytes| {
            if options.sizes.is_empty() && bytes < SHORTEST && staging(method).is_some() {
                return Ok(());
            }
            let setup = Setup::new(task, Worker::Kernels)?;
            let Some((samples, check)) = measure(&setup, method, bytes as usize)? else {
                report.notes.push(format!("{method}, {bytes} bytes: not run: this memory has no handles"));
                return Ok(());
            };
            let moved = if method == "both-ways" { 2 * bytes } else { bytes };
            report.push(Row::new(&samples).method(method).bytes(bytes).bandwidth_of(moved), check);
            Ok(())
        })
    }
}

pub(super) type Measured = (Samples, Check);

/// `None` where the device has not what the method takes.
fn measure(setup: &Setup, method: &str, bytes: usize) -> Result<Option<Measured>, BenchError> {
    let iterations = setup.options.iterations.unwrap_or(iterations_for(1000, bytes as u64)).max(20);
    match method {
        "driver" => driver(setup, bytes, iterations),
        "pinned-up" | "pinned-down" => pinned(setup, method == "pinned-up", bytes, iterations),
        _ if between::METHODS.contains(&method) => {
            return between::measure(setup, method, bytes, iterations);
        }
        _ => ours(setup, method, bytes, iterations),
    }
    .map(Some)
}

/// One of the driver's copies.
pub(super) fn one(gpu: &Gpu, to: u64, from: u64, bytes: usize) -> Result<(), BenchError> {
    let stream = gpu.stream().doing("making a stream")?;
    // SAFETY: the caller's memory, which lives until the copy was waited for.
    unsafe { stream.copy(to, from, bytes) }.doing("copying")?;
    while !stream.is_done().doing("copying")? {
        std::hint::spin_loop();
    }
    Ok(())
}

/// From GPU to GPU.
fn driver(setup: &Setup, bytes: usize, iterations: u64) -> Result<Measured, BenchError> {
    let gpus = gpus(setup, 2)?;
    let [from, to] = [0, 1].map(|i: usize| gpus[i].alloc(bytes));
    let (from, to) = (from.doing("allocating memory of a GPU")?, to.doing("allocating memory of a GPU")?);
    let (sent, mut seen) = (pattern(bytes, setup.options.seed), vec![0; bytes]);
    from.write(0, &sent).doing("writing memory of a GPU")?;
    // As the library: the engine of the destination.
    let samples = time_calls(iterations, |_| one(&gpus[1], to.address(), from.address(), bytes))?;
    to.read(0, &mut seen).doing("reading memory of a GPU")?;
    Ok((samples, compare(&sent, &seen)))
}

/// Between pinned memory of the host and a GPU: the limit of what is staged.
fn pinned(setup: &Setup, up: bool, bytes: usize, iterations: u64) -> Result<Measured, BenchError> {
    let gpu = &gpus(setup, 1)?[0];
    let host = ggas::HostBuffer::zeroed(bytes.next_multiple_of(4096)).doing("allocating host memory")?;
    // SAFETY: the mapping goes before the buffer, and nobody else uses it.
    let mapping: HostMapping =
        unsafe { gpu.map_host(host.as_ptr(), host.len()) }.doing("pinning host memory")?;
    let buffer = gpu.alloc(bytes).doing("allocating memory of a GPU")?;
    let (sent, mut seen) = (pattern(bytes, setup.options.seed), vec![0; bytes]);
    if up {
        host.write(0, &sent);
    } else {
        buffer.write(0, &sent).doing("writing memory of a GPU")?;
    }
    let (here, there) = (mapping.address(), buffer.address());
    let (to, from) = if up { (there, here) } else { (here, there) };
    let samples = time_calls(iterations, |_| one(gpu, to, from, bytes))?;
    if up {
        buffer.read(0, &mut seen).doing("reading memory of a GPU")?;
    } else {
        host.read(0, &mut seen);
    }
    Ok((samples, compare(&sent, &seen)))
}

/// Memory of a runtime's devices.
struct Two {
    runtime: Runtime,
    at: [*mut u8; 2],
    back: [*mut u8; 2],
    bytes: usize,
}

// SAFETY: addresses, which any thread may copy from and to.
unsafe impl Sync for Two {}

impl Two {
    fn new(setup: &Setup, method: &str, bytes: usize) -> Result<Two, BenchError> {
        let builder = devices(setup, 2)?.peers(method == "peer").staging(staging(method).unwrap_or_default());
        let runtime = builder.timeout(setup.options.timeout).build();
        let runtime = runtime.doing("making a runtime")?;
        let devices = runtime.devices();
        let alloc = |i: usize| runtime.alloc(devices[i], bytes).doing("allocating memory of a device");
        let (at, back) = ([alloc(0)?, alloc(1)?], [alloc(0)?, alloc(1)?]);
        Ok(Two { runtime, at, back, bytes })
    }

    fn copy(&self, to: *mut u8, from: *const u8) -> Result<(), BenchError> {
        // SAFETY: memory of the runtime's, or of a caller that waits.
        unsafe { self.runtime.copy(to, from, self.bytes) }.doing("copying")
    }
}

fn ours(setup: &Setup, method: &str, bytes: usize, iterations: u64) -> Result<Measured, BenchError> {
    let two = Two::new(setup, method, bytes)?;
    let (sent, mut seen) = (pattern(bytes, setup.options.seed), vec![0; bytes]);
    let samples = match method {
        "up" => {
            let samples = time_calls(iterations, |_| two.copy(two.at[0], sent.as_ptr()))?;
            two.copy(seen.as_mut_ptr(), two.at[0])?;
            samples
        }
        "down" => {
            two.copy(two.at[0], sent.as_ptr())?;
            time_calls(iterations, |_| two.copy(seen.as_mut_ptr(), two.at[0]))?
        }
        "both-ways" => {
            two.copy(two.at[0], sent.as_ptr())?;
            let samples = both_ways(&two, iterations)?;
            two.copy(seen.as_mut_ptr(), two.back[0])?;
            samples
        }
        _ => {
            two.copy(two.at[0], sent.as_ptr())?;
            let samples = time_calls(iterations, |_| two.copy(two.at[1], two.at[0]))?;
            two.copy(seen.as_mut_ptr(), two.at[1])?;
            samples
        }
    };
    Ok((samples, compare(&sent, &seen)))
}

/// Two threads: one copies from device 0 to 1, the other from 1 to 0; a call is both.
fn both_ways(two: &Two, iterations: u64) -> Result<Samples, BenchError> {
    two.copy(two.at[1], two.at[0])?;
    let calls = crate::stats::calls(iterations);
    let (start, end) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let mut result = Ok(());
            for _ in 0..calls {
                start.wait();
                // Whatever happens, the first thread is met.
                result = result.and(two.copy(two.back[0], two.at[1]));
                end.wait();
            }
            result
        });
        let mut result = Ok(());
        let samples = time_calls(iterations, |_| {
            start.wait();
            let copied = two.copy(two.back[1], two.at[0]);
            end.wait();
            result = std::mem::replace(&mut result, Ok(())).and(copied);
            Ok::<(), BenchError>(())
        })?;
        result?;
        other.join().map_err(|_| BenchError::Unsupported("a thread that copies has ended".to_owned()))??;
        Ok(samples)
    })
}

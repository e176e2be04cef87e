//! `hpe-copy` of several processes: copies between memory of two of them by one call, beside what a program does without it.

use ggas::HostBuffer;
use ggas_gpu::{GpuError, IpcName};
use ggas_hpe::Runtime;

use super::copies::{Measured, one};
use super::ranks::{Link, Ranks};
use super::{compare, devices, gpus, pattern};
use crate::error::Doing;
use crate::setup::Setup;
use crate::stats::time_calls;
use crate::{BenchError, Check};

/// The first process asks for all copies, and is timed.
pub(super) const METHODS: [&str; 6] = ["own", "rank-get", "rank-put", "rank-host", "by-puts", "ipc"];

/// A copy of the first process. `None` where the GPU has no handles of its memory for other processes.
pub(super) fn measure(
    setup: &Setup,
    method: &str,
    bytes: usize,
    iterations: u64,
) -> Result<Option<Measured>, BenchError> {
    match method {
        "ipc" => by_handle(setup, bytes, iterations),
        "by-puts" => by_puts(setup, bytes, iterations).map(Some),
        _ => by_pointers(setup, method, bytes, iterations).map(Some),
    }
}

/// Memory of a process, which the other one names by a pointer.
struct Memory {
    runtime: Runtime,
    at: *mut u8,
    /// Exported until this is dropped.
    host: Option<HostBuffer>,
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.host.is_some() && self.runtime.unexport(self.at).is_err() {
            // A copy that was given up may still use it.
            std::mem::forget(self.host.take());
        }
    }
}

impl Memory {
    fn new(runtime: Runtime, in_host: bool, bytes: usize) -> Result<Memory, BenchError> {
        if !in_host {
            let at = runtime.alloc(runtime.devices()[0], bytes).doing("allocating memory of a device")?;
            return Ok(Memory { runtime, at, host: None });
        }
        let host = HostBuffer::zeroed(bytes.next_multiple_of(4096)).doing("allocating host memory")?;
        let at = host.as_ptr();
        // SAFETY: the buffer goes behind `unexport`, and the processes copy by turns.
        unsafe { runtime.export(at, bytes) }.doing("exporting host memory")?;
        Ok(Memory { runtime, at, host: Some(host) })
    }

    fn copy(&self, to: *mut u8, from: *const u8, bytes: usize) -> Result<(), BenchError> {
        // SAFETY: memory of both processes, which copy by turns.
        unsafe { self.runtime.copy(to, from, bytes) }.doing("copying")
    }
}

fn by_pointers(setup: &Setup, method: &str, bytes: usize, iterations: u64) -> Result<Measured, BenchError> {
    let rank = setup.local().start;
    let in_processes = || BenchError::Unsupported("copies between ranks want processes of a job".to_owned());
    let job = setup.job().ok_or_else(in_processes)?;
    let runtime = devices(setup, 1)?.timeout(setup.options.timeout).build().doing("making a runtime")?;
    runtime.join(job, setup.node(rank)?).doing("joining the other ranks")?;
    let source = Memory::new(runtime.clone(), method == "rank-host", bytes)?;
    let target = Memory::new(runtime.clone(), method == "rank-host", bytes)?;
    // Each rank has other bytes, so that it is seen whose came.
    let sent = |rank: u32| pattern(bytes, setup.options.seed + u64::from(rank));
    source.copy(source.at, sent(rank).as_ptr(), bytes)?;
    let places = setup.share(vec![[source.at as u64, target.at as u64]])?;
    let other =
        |which: usize| runtime.remote(1, places[1][which] as *const u8).doing("naming memory of a rank");
    // Whose bytes go where; the pointers as the first process has them.
    let (from, to) = match method {
        "own" => (0, 0),
        "rank-put" => (0, 1),
        _ => (1, 0),
    };
    let samples = match rank {
        0 => {
            let from = if from == 0 { source.at } else { other(0)? };
            let to = if to == 0 { target.at } else { other(1)? };
            Some(time_calls(iterations, |_| source.copy(to, from, bytes))?)
        }
        _ => None,
    };
    setup.share::<()>(Vec::new())?;
    let mut check = Check::default();
    if rank == to {
        let mut seen = vec![0; bytes];
        target.copy(seen.as_mut_ptr(), target.at, bytes)?;
        check = compare(&sent(from), &seen);
    }
    setup.collect(samples, check)
}

/// Both sides at work: down to the host, a put, up to the device, and a word back.
fn by_puts(setup: &Setup, bytes: usize, iterations: u64) -> Result<Measured, BenchError> {
    let runtime = devices(setup, 1)?.timeout(setup.options.timeout).build().doing("making a runtime")?;
    let (data, back) = (Ranks::new(setup, bytes)?, Ranks::new(setup, 8)?);
    let memory = Memory::new(runtime, false, bytes)?;
    let (sent, mut here) = (pattern(bytes, setup.options.seed), vec![0; bytes]);
    let mut check = Check::default();
    let ends = |side: usize| Some((data.links[side].as_ref()?, back.links[side].as_ref()?));
    let samples = match (setup.local().start, ends(0), ends(1)) {
        (0, _, Some((data, back))) => {
            memory.copy(memory.at, sent.as_ptr(), bytes)?;
            let send = |step: u64| {
                memory.copy(here.as_mut_ptr(), memory.at, bytes)?;
                data.send(step, &here)?;
                back.receive(step, &mut [0; 8])
            };
            Some(time_calls(iterations, send)?)
        }
        (1, Some((data, back)), _) => {
            (0..crate::stats::calls(iterations)).try_for_each(|step| {
                take(&memory, data, step, &mut here)?;
                back.send(step, &[0; 8])
            })?;
            memory.copy(here.as_mut_ptr(), memory.at, bytes)?;
            check = compare(&sent, &here);
            None
        }
        _ => None,
    };
    setup.collect(samples, check)
}

/// A message to the device.
fn take(memory: &Memory, link: &Link, step: u64, here: &mut [u8]) -> Result<(), BenchError> {
    link.receive(step, here)?;
    memory.copy(memory.at, here.as_ptr(), here.len())
}

/// The driver's own way between processes of a host: a copy from memory that CUDA's handle of it opened.
fn by_handle(setup: &Setup, bytes: usize, iterations: u64) -> Result<Option<Measured>, BenchError> {
    const OTHER: &str = "memory of another process by its handle";
    let gpu = &gpus(setup, 1)?[0];
    let alloc = || gpu.alloc(bytes).doing("allocating memory of a GPU");
    let (source, target) = (alloc()?, alloc()?);
    let sent = pattern(bytes, setup.options.seed);
    source.write(0, &sent).doing("writing memory of a GPU")?;
    let name = match gpu.ipc_name(source.address()) {
        Err(GpuError::Unsupported { .. }) => None,
        name => Some(name.doing(OTHER)?.words().to_vec()),
    };
    let names = setup.share(vec![name])?;
    let Some(words) = names[1].as_ref().and_then(|words| words[..].try_into().ok()) else { return Ok(None) };
    let (mut samples, mut check) = (None, Check::default());
    if setup.local().start == 0 {
        let name = IpcName::from_words(words);
        let memory = gpu.open_ipc(&name).doing(OTHER)?;
        let from = memory.address_of(&name).unwrap_or_default();
        let copy = |_| one(gpu, target.address(), from, bytes);
        samples = Some(time_calls(iterations, copy)?);
        let mut seen = vec![0; bytes];
        target.read(0, &mut seen).doing("reading memory of a GPU")?;
        check = compare(&sent, &seen);
    }
    setup.collect(samples, check).map(Some)
}

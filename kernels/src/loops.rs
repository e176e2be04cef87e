//! Rounds of kernels that repeat themselves without the host.

use std::time::Duration;

use ggas_clock::Clock;
use ggas_gpu::GpuError;

use crate::launch::{Launch, LaunchError, start};
use crate::memory::KernelMem;
use crate::processor::Processor;
use crate::proxy::Attended;

/// A round of kernels of one processor that is made again and again without the host: on a GPU by a graph with a loop,
/// where thesis 5.8.3 has a control kernel.
#[derive(Clone)]
pub struct Loop<'a> {
    /// The steps of a round, one after the other; kernels of a step run at the same time.
    pub steps: Vec<Vec<Launch<'a>>>,
    /// Where, from this offset on, two words of 8 bytes are: rounds that are done, and rounds that are left, at least 1. Both
    /// change at the end of each round; a kernel that stores 1 to the second one makes its round the last.
    pub words: (&'a KernelMem, usize),
}

/// Runs loops at the same time, each on its processor, until none has a round left. Kernels of different loops may wait for
/// each other. On the CPU executor the host makes the loop, step by step for all of them, so they need as many steps.
/// Gives how long all took.
///
/// # Errors
/// As [`start`] and [`Running::wait`](crate::Running::wait), on the CPU for each step; [`LaunchError::Gpu`] for GPUs with others than GPUs.
pub fn run_loops(loops: &[Loop<'_>], timeout: Duration) -> Result<Duration, LaunchError> {
    let all = || loops.iter().flat_map(|of| of.steps.iter().flatten());
    all().try_for_each(Launch::check)?;
    if !all().any(|launch| matches!(launch.processor, Processor::Gpu(_))) {
        return by_host(loops, timeout);
    }
    let attended = Attended::new(all());
    let mut on_gpus = Vec::new();
    for of in loops {
        let mut steps = Vec::new();
        for step in &of.steps {
            let mut kernels = Vec::new();
            for launch in step {
                let Processor::Gpu(processor) = launch.processor else {
                    let why = "loops are all on GPUs or all on the CPU";
                    return Err(LaunchError::Gpu(GpuError::Invalid(why.into())));
                };
                kernels.push(launch.on(processor)?);
            }
            steps.push(kernels);
        }
        on_gpus.push((steps, of.words.0.address() + of.words.1 as u64));
    }
    let on_gpus: Vec<_> =
        on_gpus.iter().map(|(steps, words)| ggas_gpu::Loop { steps, words: *words }).collect();
    // SAFETY: the memory of the words is borrowed, and memory that kernels may still use after a time-out is not freed.
    let took = unsafe { ggas_gpu::run_loops(&on_gpus, timeout) };
    let took = took.map_err(|error| attended.failure().unwrap_or(LaunchError::Gpu(error)))?;
    attended.finish().map(|()| took.into_iter().max().unwrap_or_default())
}

/// The loops on the CPU: the host makes what a graph makes on a GPU.
fn by_host(loops: &[Loop<'_>], timeout: Duration) -> Result<Duration, LaunchError> {
    let begun = Clock::REAL.now();
    let left = |of: &Loop<'_>| of.words.0.load_u64(of.words.1 + 8);
    loop {
        let steps = loops.iter().map(|of| of.steps.len()).max().unwrap_or(0);
        for step in 0..steps {
            let kernels = loops.iter().filter_map(|of| of.steps.get(step)).flatten();
            start(&kernels.cloned().collect::<Vec<_>>())?.wait(timeout)?;
        }
        let mut again = false;
        for of in loops {
            let done = of.words.0.load_u64(of.words.1).map_err(LaunchError::Memory)?;
            let rest = left(of).map_err(LaunchError::Memory)?.saturating_sub(1);
            of.words.0.store_u64(of.words.1, done + 1).map_err(LaunchError::Memory)?;
            of.words.0.store_u64(of.words.1 + 8, rest).map_err(LaunchError::Memory)?;
            again |= rest > 0;
        }
        if !again {
            return Ok(Clock::REAL.since(begun));
        }
    }
}

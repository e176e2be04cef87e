//! Rounds of kernels that a GPU repeats without the host: a graph with a conditional node (a WHILE node, CUDA 12.4).

use std::time::Duration;

use crate::error::GpuError;
use crate::graph::Graph;
use crate::launch::Launch;
use crate::module::Module;
use crate::place::Reservation;
use crate::running::Running;
use crate::stream::Event;
use crate::sys::*;

/// The kernel at the end of each round, compiled by the driver.
const NEXT: &str = "ggas_loop_next";
static CODE: &str = concat!(include_str!("loop.ptx"), "\0");

/// A round of kernels of one GPU, and how often it is made.
#[derive(Clone, Copy)]
pub struct Loop<'a> {
    /// The steps of a round, one after the other; kernels of a step run at the same time.
    pub steps: &'a [Vec<Launch<'a>>],
    /// Address of two words of 8 bytes in memory of the GPU: rounds that are done, and rounds that are left, at least 1.
    /// Both change at the end of each round; a kernel that stores 1 to the second one makes its round the last.
    pub words: u64,
}

/// Arguments of [`NEXT`].
#[repr(C)]
#[derive(Clone, Copy)]
struct Next {
    handle: u64,
    words: u64,
}

/// Runs loops at the same time, each on its GPU, until no round is left. Kernels of different loops may wait for each other.
/// Gives how long each took.
///
/// # Safety
/// The words of each loop are valid on its GPU until this returns or, after [`GpuError::Timeout`], its kernels have ended.
///
/// # Errors
/// [`GpuError::Invalid`] for a loop without kernels, or whose steps are on several GPUs; [`GpuError::DoesNotFit`] and what a
/// launch is refused for, before anything starts; [`GpuError::Timeout`].
pub unsafe fn run_loops(loops: &[Loop<'_>], timeout: Duration) -> Result<Vec<Duration>, GpuError> {
    let mut made = loops.iter().map(Made::new).collect::<Result<Vec<_>, _>>()?;
    let mut running = Vec::new();
    for made in &made {
        running.push(made.begin()?);
    }
    let mut failed = None;
    for running in &mut running {
        // All of them are waited for: a loop that failed ends the waits of the others.
        if let Err(error) = running.wait(timeout) {
            failed.get_or_insert(error);
        }
    }
    match failed {
        None => made.iter().map(|made| made.end.since(&made.begin)).collect(),
        Some(error) => {
            // Their kernels may still run.
            made.drain(..).for_each(std::mem::forget);
            Err(error)
        }
    }
}

/// A loop that can be started.
struct Made<'a> {
    graph: Graph,
    /// The step that takes most room.
    widest: &'a [Launch<'a>],
    rounds: String,
    begin: Event,
    end: Event,
}

impl<'a> Made<'a> {
    fn new(of: &Loop<'a>) -> Result<Self, GpuError> {
        let all = || of.steps.iter().flatten();
        let Some(first) = all().next().filter(|_| of.steps.iter().all(|step| !step.is_empty())) else {
            return Err(GpuError::Invalid("each step of a loop needs a kernel".into()));
        };
        let gpu = first.gpu();
        if all().any(|launch| launch.gpu() != gpu) {
            return Err(GpuError::Invalid("a loop's kernels are all on one GPU".into()));
        }
        let mut graph = Graph::empty(gpu)?;
        let (handle, body) = graph.add_while(gpu)?;
        let mut before: Vec<CUgraphNode> = Vec::new();
        for step in of.steps {
            before = step.iter().map(|launch| launch.add_to(body, &before)).collect::<Result<_, _>>()?;
        }
        let next = Next { handle, words: of.words };
        let module: Module = gpu.load(CODE.as_bytes())?;
        // SAFETY: the kernel takes this structure; the handle is the graph's, and the caller vouches for the words.
        unsafe { Launch::new(&module, NEXT, 1, 1, &next) }.add_to(body, &before)?;
        graph.instantiate(gpu)?;
        let widest = of
            .steps
            .iter()
            .max_by_key(|step| step.iter().map(|launch| u64::from(launch.at_once())).sum::<u64>());
        let rounds = format!("a loop of {}", first.describe());
        let widest = widest.map_or(&[][..], Vec::as_slice);
        Ok(Made { graph, widest, rounds, begin: Event::new(gpu)?, end: Event::new(gpu)? })
    }

    fn begin(&self) -> Result<Running, GpuError> {
        let stream = self.begin.gpu().stream()?;
        Running::in_stream(Reservation::new(self.widest)?, self.rounds.clone(), stream, |stream| {
            self.begin.record(stream)?;
            self.graph.launch(stream)?;
            self.end.record(stream)
        })
    }
}

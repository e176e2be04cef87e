//! `directions` (thesis 3.4.2, Table 3.1): host memory and kernel memory as source and as destination of what a host sends.

use ggas::{PortBase, Spec};
use ggas_kernels::Stream;

use super::iterations_for;
use super::litmus::in_one_process;
use crate::ends::host_ends_with;
use crate::error::Doing;
use crate::kernel;
use crate::payload::{Layout, MAX_PUT, Payload, RoundData};
use crate::setup::{Setup, Worker};
use crate::staging::{Bystander, Memories};
use crate::stats::time_calls;
use crate::team::Task;
use crate::{Bench, BenchError, Check, Device, Memory, Options, Progress, Report, Row, Samples, Team, Via};

pub(crate) struct Directions;

impl Bench for Directions {
    fn name(&self) -> &'static str {
        "directions"
    }

    fn about(&self) -> &'static str {
        "host and kernel memory as source and destination: puts of the device, copies by a copy engine (thesis 3.4.2)"
    }

    fn is_of_two_nodes(&self) -> bool {
        true
    }

    fn methods(&self) -> &'static [&'static str] {
        &["host-host", "host-gpu", "gpu-host", "gpu-gpu"]
    }

    fn by_windows(&self) -> bool {
        true
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        in_one_process(team)?;
        let gpu = options.device == Device::Gpu;
        let sizes: &[u64] = if gpu { &[8, 4096, 65_536, 1 << 20, 8 << 20] } else { &[8, 65_536] };
        let sizes = options.sizes_or(sizes, 1..=MAX_PUT, 1)?;
        // Peer memory takes no descriptors.
        let ways: &[&str] = if options.via == Via::Nvlink { &["copy"] } else { &["put", "copy"] };
        super::methods_by_sizes(task, &task.methods(), &sizes, progress, |report, method, bytes| {
            for &way in ways {
                let direction = Direction::of(method);
                let (samples, check) = match way {
                    "put" => puts(task, direction, bytes)?,
                    _ => copies(task, direction, bytes)?,
                };
                let row = Row::new(&samples).method(method).bytes(bytes).bandwidth_of(bytes);
                report.push(row.with("by", way), check);
            }
            Ok(())
        })
    }
}

/// Whether source and destination are kernel memory.
#[derive(Clone, Copy)]
struct Direction {
    kernel: [bool; 2],
}

impl Direction {
    fn of(method: &str) -> Direction {
        Direction { kernel: [method.starts_with("gpu"), method.ends_with("gpu")] }
    }
}

fn iterations(options: &Options, bytes: u64) -> u64 {
    let small = if options.device == Device::Gpu { 1000 } else { 400 };
    options.iterations.unwrap_or(iterations_for(small, bytes))
}

/// A put by the host and its notification, as the thesis measures it.
fn puts(task: Task, direction: Direction, bytes: u64) -> Result<(Samples, Check), BenchError> {
    // Copiers of GPUs serve who says that payload is there.
    let memory = if task.options.device == Device::Gpu { Memory::Gpu } else { Memory::Host };
    let options = Options { memory, ..task.options.clone() };
    let setup = Setup::new(Task { options: &options, ..task }, Worker::KernelsByHost)?;
    let layout = Layout::new(bytes);
    let data = RoundData::new(options.seed, 0, layout.bytes);
    let payload = |node: u32, port: &PortBase| match direction.kernel[node as usize] {
        true => Payload::of_kernels(&setup, node, port, layout.len()),
        false => Payload::host(port, layout.len()),
    };
    let ends = host_ends_with(&setup, layout, &data, payload)?;
    let [from, to] = &ends[..] else {
        return Err(BenchError::Unsupported("a transfer needs two nodes".to_owned()));
    };
    let mut rounds = 0;
    let samples = time_calls(iterations(&options, bytes), |round| {
        rounds = round + 1;
        from.put(layout.source(round), layout.bytes, 0, Spec::COMPLETER)?;
        to.consume(&options)
    })?;
    let check = data.check(1, &to.payload, layout, rounds)?;
    setup.collect(Some(samples), check)
}

/// A copy by the copy engine of node 0's GPU, which the host waits for; on the CPU executor by the host.
fn copies(task: Task, direction: Direction, bytes: u64) -> Result<(Samples, Check), BenchError> {
    let setup = Setup::new(task, Worker::KernelsByHost)?;
    let memories = Memories::new(&setup, bytes, 0)?;
    let bystander = Bystander::new(setup.processor(0))?;
    let launches = bystander.launch(setup.processor(0));
    let stream = Stream::new(&launches, kernel::limit(task.options.timeout)).doing("making a stream")?;
    let [from_kernels, to_kernels] = direction.kernel;
    let to = if to_kernels { memories.target(0)? } else { memories.host_target() };
    let mut rounds = 0;
    let samples = time_calls(iterations(task.options, bytes), |round| {
        rounds = round + 1;
        let from = if from_kernels { memories.source(round) } else { memories.host_source(round) };
        // SAFETY: memory of both nodes, which nobody uses before the copy was waited for.
        unsafe { stream.copy(to, from, bytes as usize) }.doing("posting a copy")?;
        stream.wait().doing("waiting for a copy")
    })?;
    let check = if to_kernels { memories.check(rounds)? } else { memories.check_host(rounds)? };
    setup.collect(Some(samples), check)
}

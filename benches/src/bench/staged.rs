//! `staged` (thesis 3.4.1): kernel memory that is sent directly, or through memory of the hosts, in one piece or as a pipeline.

use ggas_kernels::Stream;

use super::iterations_for;
use super::litmus::in_one_process;
use crate::error::Doing;
use crate::kernel;
use crate::payload::MAX_PUT;
use crate::setup::{Setup, Worker};
use crate::staging::{Bystander, Direct, Memories, Route, Staged};
use crate::stats::time_calls;
use crate::team::Task;
use crate::{Bench, BenchError, Check, Device, Options, Progress, Report, Row, Samples, Team, Via};

pub(crate) struct StagedCopies;

impl Bench for StagedCopies {
    fn name(&self) -> &'static str {
        "staged"
    }

    fn about(&self) -> &'static str {
        "kernel memory to another node's: by one copy, or through memory of the hosts (thesis 3.4.1)"
    }

    fn is_of_two_nodes(&self) -> bool {
        true
    }

    fn methods(&self) -> &'static [&'static str] {
        &["direct", "staged", "pipelined"]
    }

    fn by_windows(&self) -> bool {
        true
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        in_one_process(team)?;
        let gpu = options.device == Device::Gpu;
        let sizes: &[u64] = if gpu { &[1024, 16_384, 262_144, 1 << 20, 8 << 20] } else { &[1024, 262_144] };
        let most = if options.via == Via::Nvlink { 256 << 20 } else { MAX_PUT };
        let sizes = options.sizes_or(sizes, 1..=most, 1)?;
        super::methods_by_sizes(task, &task.methods(), &sizes, progress, |report, method, bytes| {
            for chunk in chunks(method, bytes, options.device) {
                let (samples, check) = copies(task, method, bytes, chunk)?;
                let row = Row::new(&samples).method(method).bytes(bytes).bandwidth_of(bytes);
                let row = if method == "direct" { row } else { row.with("chunk", chunk) };
                report.push(row, check);
            }
            Ok(())
        })
    }
}

/// Bytes of a chunk: all at once, or sizes below.
fn chunks(method: &str, bytes: u64, device: Device) -> Vec<u64> {
    let sizes: &[u64] = if device == Device::Gpu { &[65_536, 262_144, 1 << 20] } else { &[16_384, 65_536] };
    match method {
        "pipelined" => sizes.iter().copied().filter(|chunk| 2 * chunk <= bytes).collect(),
        _ => vec![bytes],
    }
}

fn copies(task: Task, method: &str, bytes: u64, chunk: u64) -> Result<(Samples, Check), BenchError> {
    let setup = Setup::new(task, Worker::KernelsByHost)?;
    // What the hosts have is no data of this run until it came there.
    let memories = Memories::new(&setup, bytes, 2)?;
    let bystanders = [Bystander::new(setup.processor(0))?, Bystander::new(setup.processor(1))?];
    let launches = [0, 1].map(|node| bystanders[node].launch(setup.processor(node as u32)));
    let stream = |node: usize| Stream::new(&launches[node], kernel::limit(task.options.timeout));
    let streams = [stream(0).doing("making a stream")?, stream(1).doing("making a stream")?];
    let direct = Direct { memories: &memories, stream: &streams[0] };
    let staged = Staged::new(&memories, [&streams[0], &streams[1]], chunk as usize)?;
    let route: &dyn Route = if method == "direct" { &direct } else { &staged };
    let small = if task.options.device == Device::Gpu { 1000 } else { 200 };
    let iterations = task.options.iterations.unwrap_or(iterations_for(small, bytes));
    let mut rounds = 0;
    let samples = time_calls(iterations, |round| {
        rounds = round + 1;
        route.post(round)?;
        route.wait(round)
    })?;
    let check = memories.check(rounds)?;
    setup.collect(Some(samples), check)
}

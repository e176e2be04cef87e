//! `versus-ucx`: a put to its consumed notification between two processes, and beside it UCX's tag latency.

use super::rma_pingpong::pingpong;
use crate::ends::host_ends;
use crate::payload::{Layout, RoundData};
use crate::setup::{Setup, Worker};
use crate::stats::calls;
use crate::team::Task;
use crate::ucx;
use crate::{Bench, BenchError, Check, Memory, Options, Progress, Report, Row, Samples, Team};

/// Both are measured this often, in turn.
const REPETITIONS: usize = 7;

pub(crate) struct VersusUcx;

impl Bench for VersusUcx {
    fn name(&self) -> &'static str {
        "versus-ucx"
    }

    fn about(&self) -> &'static str {
        "half a round trip of a put between processes, in turn with ucx_perftest tag latency"
    }

    fn is_of_two_nodes(&self) -> bool {
        true
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        if team.size() < 2 || options.memory == Memory::Gpu {
            let why = "UCX is run between two processes over host memory: use --fabric process --memory host";
            return Err(BenchError::Unsupported(why.to_owned()));
        }
        let sizes = options.sizes_or(&[8], 1..=4096, 1)?;
        let mut report = task.report();
        report.notes.push(format!(
            "{REPETITIONS} runs of each in turn; medians of the runs' medians; UCX over posix shared memory"
        ));
        progress.begin(self.name(), (sizes.len() * REPETITIONS) as u64);
        for bytes in sizes {
            measure(task, bytes, &mut report, progress)?;
        }
        Ok(report)
    }
}

fn measure(task: Task, bytes: u64, report: &mut Report, progress: &mut Progress) -> Result<(), BenchError> {
    let options = task.options;
    let cores = cores(task)?;
    let iterations = options.iterations.unwrap_or(100_000);
    let version = task.team.is_first().then(ucx::version).flatten();
    let (mut ours, mut theirs, mut averages) = (Vec::new(), Vec::new(), Vec::new());
    let mut all = Check::default();
    for repetition in 1..=REPETITIONS {
        progress.now(format!("{bytes} bytes, {repetition} of {REPETITIONS}"));
        let setup = Setup::new(task, Worker::Host)?;
        let layout = Layout::new(bytes);
        let data = RoundData::new(options.seed, repetition as u64, layout.bytes);
        let ends = host_ends(&setup, layout, &data)?;
        let samples = pingpong(&ends, layout, iterations, options)?;
        let mut check = Check::default();
        for end in &ends {
            check.merge(data.check(end.node, &end.payload, layout, calls(iterations))?);
        }
        let (samples, check) = setup.collect(samples, check)?;
        all.merge(check);
        ours.push(samples.halved());
        if version.is_some() {
            let latency = ucx::tag_latency(bytes, iterations, cores)?;
            theirs.push(latency.median * 1e3);
            averages.push(latency.average * 1e3);
        }
        // The other processes sleep meanwhile.
        setup.share::<()>(Vec::new())?;
        progress.step();
    }
    let medians = Samples::new(ours.iter().map(|samples| samples.latency().median * 1e3).collect(), 1);
    let (ours, theirs) = (Samples::merged(&ours), Samples::new(theirs, 1));
    let median = medians.latency().median;
    let mut row = Row::new(&ours).method("put").bytes(bytes);
    row.latency_us.median = median;
    let Some(version) = version else {
        report.push(row.with("peer", ucx::INSTALL), all);
        return Ok(());
    };
    let peer = format!("UCX {version} tag_lat");
    let value = theirs.latency().median;
    let ratio = median / value.max(1e-9);
    report.push(row.with("peer", peer.clone()).with("peer_value", value).with("ratio", ratio), all);
    let mut row = Row::new(&theirs).method(&peer).bytes(bytes);
    row.batch = iterations;
    report.push(row.with("average_us", Samples::new(averages, 1).latency().median), Check::default());
    Ok(())
}

/// The core of each of the two processes, or two that this machine has.
fn cores(task: Task) -> Result<[usize; 2], BenchError> {
    let first = task.team.gather(&task.team.cores().first().copied().unwrap_or(0), task.options)?;
    match first[..] {
        [a, b, ..] if a != b => Ok([a, b]),
        _ => Ok([0, 1.min(std::thread::available_parallelism().map_or(0, |cores| cores.get() - 1))]),
    }
}

//! `gaspi-gpu-write`: writes between segments in GPU memory of two processes, by each of the ways that there are.

use crate::gaspi::GpuWrite;
use crate::job::{Job, Line};
use crate::team::Task;
use crate::{Bench, BenchError, Check, Device, Options, Progress, Report, Row, Samples, Team};

pub(crate) struct GaspiGpuWrite;

/// Bytes between which limits are looked for.
pub(crate) const SIZES: [u64; 10] =
    [8, 512, 4096, 16 << 10, 64 << 10, 128 << 10, 512 << 10, 2 << 20, 8 << 20, 64 << 20];
/// Longest write by a kernel on standby.
pub(crate) const STANDBY_MAX: u64 = 1 << 20;
/// Longest by the network device, which the model moves by a processor.
const CARD_MAX: u64 = 8 << 20;
/// Bytes of pieces that are tried.
pub(crate) const HYBRID: [u64; 3] = [512 << 10, 2 << 20, 8 << 20];
pub(crate) const STAGED: [u64; 3] = [32 << 10, 128 << 10, 512 << 10];

/// All of them, and the longest write of each.
pub(crate) fn ways() -> Vec<(GpuWrite, u64)> {
    let most = SIZES[SIZES.len() - 1];
    let mut ways = vec![
        (GpuWrite::Standby, STANDBY_MAX),
        (GpuWrite::Engine, most),
        (GpuWrite::Stores, most),
        (GpuWrite::Card, CARD_MAX),
    ];
    ways.extend(HYBRID.map(|piece| (GpuWrite::Hybrid { piece }, most)));
    ways.extend(STAGED.map(|piece| (GpuWrite::Staged { piece }, CARD_MAX)));
    ways
}

impl Bench for GaspiGpuWrite {
    fn name(&self) -> &'static str {
        crate::gaspi::GPU_WRITE
    }

    fn about(&self) -> &'static str {
        "half a round trip of a write with a notification between segments in GPU memory, by each way to write"
    }

    fn has_own_processes(&self) -> bool {
        true
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        if team.size() > 1 {
            let why = "it starts processes by itself: leave --fabric out";
            return Err(BenchError::Unsupported(why.to_owned()));
        }
        if options.nodes > 2 {
            return Err(BenchError::option("nodes", options.nodes, "two processes do all of it; use 2"));
        }
        let sizes = options.sizes_or(&SIZES, 1..=SIZES[SIZES.len() - 1], 1)?;
        let mut report = task.report();
        report.fabric = "process".to_owned();
        if options.device == Device::Cpu {
            let note = "the executor stands in for GPUs: all ways without the network device are one copy by the processor";
            report.notes.push(note.to_owned());
        }
        let ways = ways();
        progress.begin(self.name(), ways.len() as u64);
        let mut lines = Vec::new();
        for (way, most) in ways {
            progress.now(way.name());
            let sizes: Vec<u64> = sizes.iter().copied().filter(|size| *size <= most).collect();
            if !sizes.is_empty() {
                lines.extend(job(way, options, sizes).run(2)?);
            }
            progress.step();
        }
        lines.sort_by_key(|line| line.bytes);
        lines.into_iter().for_each(|line| push(line, &mut report));
        Ok(report)
    }
}

fn job(way: GpuWrite, options: &Options, sizes: Vec<u64>) -> Job {
    let (rounds, usual) = if options.device == Device::Gpu { (10, 200) } else { (3, 10) };
    let trips = options.iterations.unwrap_or(usual).min(u64::from(u32::MAX)) as u32;
    let bench = format!("{} {}", crate::gaspi::GPU_WRITE, way.name());
    Job { bench, rounds, trips, seed: options.seed, sizes }
}

fn push(line: Line, report: &mut Report) {
    let bytes = line.bytes.unwrap_or(0);
    let mut row = Row::new(&Samples::new(vec![line.value * 1e3], 1)).method(&line.peer).bandwidth_of(bytes);
    row.latency_us.min = line.min;
    row.bytes = Some(bytes);
    let first = (line.errors > 0).then(|| format!("{}, {bytes} bytes", line.peer));
    report.push(row, Check { errors: line.errors, first });
}

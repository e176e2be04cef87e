//! What `ggas tune` does: measures the choices that groups have on this host, and keeps the quickest.

use ggas_coll::{Choices, SumChoice, SumShape, device_of};

use crate::bench::{allreduce_stream, reduce};
use crate::setup::{Setup, Worker};
use crate::team::Task;
use crate::{BenchError, Device, Options, Progress, Report, Team};

/// What was chosen, and the measurements behind it.
#[derive(Debug)]
pub struct Tuned {
    /// For [`ggas_coll::Tuning`].
    pub choices: Choices,
    /// Rows of `allreduce-stream` and, of more than two nodes, of `allreduce`.
    pub reports: Vec<Report>,
}

/// Measures on `options.nodes` nodes; every process of `team` calls it with the same options, and the first one's
/// result counts.
///
/// # Errors
/// As for [`Bench::run`](crate::Bench::run); [`BenchError::WrongData`].
pub fn tune(team: &Team, options: &Options, progress: &mut Progress) -> Result<Tuned, BenchError> {
    let stream = Task::new(crate::find("allreduce-stream")?, team, options)?;
    let packets = Task::new(crate::find("allreduce")?, team, options)?;
    let setup = Setup::new(stream, Worker::Kernels)?;
    let device = device_of(setup.processor(setup.local().start));
    drop(setup);
    let mut choices = Choices::defaults(device, options.nodes as usize);
    let mut reports = Vec::new();
    let (sums, report) = sums(stream, progress)?;
    choices.sums = sums;
    reports.push(report);
    // Two nodes have nothing to split.
    if options.nodes > 2 {
        let (bytes, report) = one_shot_bytes(packets, progress)?;
        choices.one_shot_bytes = bytes;
        reports.push(report);
    }
    reports.iter().try_for_each(Report::check)?;
    Ok(Tuned { choices, reports })
}

/// The quickest shape at each size, from that size on until another is quicker.
fn sums(task: Task, progress: &mut Progress) -> Result<(Vec<SumChoice>, Report), BenchError> {
    let gpu = task.options.device == Device::Gpu;
    let (sizes, blocks, threads, chunks): (&[u64], &[u32], u32, &[u32]) = match gpu {
        // What is quickest at 64 MiB is so beyond.
        true => (&[4096, 65_536, 262_144, 1 << 20, 4 << 20, 16 << 20], &[16, 64, 132], 512, &[0, 4]),
        false => (&[1000, 16_384], &[1, 2], 32, &[0, 2]),
    };
    let sizes = task.options.sizes_or(sizes, 1..=64 << 20, 1)?;
    let mut report = task.report();
    let mut found: Vec<SumChoice> = Vec::new();
    progress.begin("sums that the host starts", sizes.len() as u64);
    for &elements in &sizes {
        let bytes = 4 * elements as usize;
        let mut best: Option<(f64, SumShape)> = None;
        for &blocks in blocks {
            for &chunks in chunks {
                let shape = SumShape { blocks, threads, chunks };
                progress.now(format!("{elements} elements, {blocks} blocks, {chunks} chunks"));
                let (row, check) = allreduce_stream::row(task, "out-of-place", elements, Some(shape))?;
                let median = row.latency_us.median;
                if best.is_none_or(|(least, _)| median < least) {
                    best = Some((median, shape));
                }
                report.push(row, check);
            }
        }
        progress.step();
        let Some((_, shape)) = best else { continue };
        if found.last().is_none_or(|last| last.shape != shape) {
            let from_bytes = if found.is_empty() { 0 } else { bytes };
            found.push(SumChoice { from_bytes, shape });
        }
    }
    Ok((found, report))
}

/// The largest vector up to which one step is never slower than two.
fn one_shot_bytes(task: Task, progress: &mut Progress) -> Result<(usize, Report), BenchError> {
    const SIZES: [u64; 6] = [256, 1024, 4096, 16_384, 65_536, 262_144];
    let mut report = task.report();
    let mut bytes = 0;
    let mut still = true;
    progress.begin("allreduces by packets", SIZES.len() as u64);
    for elements in SIZES {
        let mut median = |method| -> Result<f64, BenchError> {
            progress.now(format!("{method}, {elements} elements"));
            let (row, check) = reduce::row(task, method, elements)?;
            let median = row.latency_us.median;
            report.push(row, check);
            Ok(median)
        };
        still &= median("one-shot")? <= median("two-shot")?;
        if still {
            bytes = 4 * elements as usize;
        }
        progress.step();
    }
    Ok((bytes, report))
}

//! What `ggas tune` does: measures the choices that groups have on this host, and keeps the quickest.

use std::collections::BTreeMap;

use ggas_coll::{Choices, GaspiLimits, SumChoice, SumShape, device_of};

use crate::bench::{allreduce_stream, gaspi_gpu, reduce};
use crate::gaspi::GpuWrite;
use crate::setup::{Setup, Worker};
use crate::team::Task;
use crate::{BenchError, Device, Options, Progress, Report, Row, Team, Via};

/// What was chosen, and the measurements behind it.
#[derive(Debug)]
pub struct Tuned {
    /// For [`ggas_coll::Tuning`].
    pub choices: Choices,
    /// GASPI's, on GPUs.
    pub gaspi: Option<GaspiLimits>,
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
    let mut choices = Choices::defaults(device.clone(), options.nodes as usize);
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
    let mut gaspi = None;
    if options.device == Device::Gpu && options.nodes == 2 {
        // Its processes take whatever carries their traffic; the ways of which need a network device.
        let options = Options { via: Via::Sim, ..options.clone() };
        let report = crate::find(crate::gaspi::GPU_WRITE)?.run(team, &options, progress)?;
        gaspi = Some(limits(device, &times(&report)));
        reports.push(report);
    }
    reports.iter().try_for_each(Report::check)?;
    Ok(Tuned { choices, gaspi, reports })
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

/// Microseconds of a way at a size, as measured.
type Times = BTreeMap<(String, u64), f64>;

fn times(report: &Report) -> Times {
    let time = |row: &Row| Some(((row.method.clone()?, row.bytes?), row.latency_us.median));
    report.rows.iter().filter_map(time).collect()
}

/// What choices cost in all: at each size, how much more than the quickest way.
fn cost(times: &Times, choice: impl Fn(u64) -> GpuWrite) -> f64 {
    let more = |bytes: u64| {
        let own = times.get(&(choice(bytes).name(), bytes))?;
        let best = times.iter().filter(|((_, of), _)| *of == bytes).map(|(_, time)| *time);
        Some(own / best.fold(f64::INFINITY, f64::min) - 1.0)
    };
    gaspi_gpu::SIZES.into_iter().filter_map(more).sum()
}

/// The limits for GASPI's writes between GPUs that cost least. What is best at the longest size is so beyond.
fn limits(device: String, times: &Times) -> GaspiLimits {
    use GpuWrite::{Card, Engine, Hybrid, Staged, Standby, Stores};
    let [sizes @ .., _] = gaspi_gpu::SIZES;
    let bounds = || std::iter::once(0).chain(sizes).chain([1 << 30]);
    let least = |choices: Vec<(u64, u64, u64)>, cost: &dyn Fn((u64, u64, u64)) -> f64| {
        choices.into_iter().min_by(|a, b| cost(*a).total_cmp(&cost(*b))).unwrap_or_default()
    };
    let direct = |(engine_max, stores_max, piece): (u64, u64, u64)| {
        move |bytes| match bytes {
            _ if bytes <= engine_max => Engine,
            _ if bytes <= stores_max => Stores,
            _ => Hybrid { piece },
        }
    };
    let ways = bounds()
        .flat_map(|engine| bounds().filter(move |stores| *stores >= engine).map(move |s| (engine, s)));
    let ways = ways.flat_map(|(engine, stores)| gaspi_gpu::HYBRID.map(|piece| (engine, stores, piece)));
    let way = least(ways.collect(), &|way| cost(times, direct(way)));
    let standby = bounds().filter(|most| *most <= gaspi_gpu::STANDBY_MAX).map(|most| (most, 0, 0));
    let standby = least(standby.collect(), &|(most, ..)| {
        cost(times, |bytes| if bytes <= most { Standby } else { direct(way)(bytes) })
    });
    let card = bounds().flat_map(|most| gaspi_gpu::STAGED.map(|piece| (most, piece, 0)));
    let card = least(card.collect(), &|(most, piece, _)| {
        cost(times, |bytes| if bytes <= most { Card } else { Staged { piece } })
    });
    let ((engine_max, stores_max, piece), (standby_max, ..), (staged_min, staged_piece, _)) =
        (way, standby, card);
    GaspiLimits { device, standby_max, engine_max, stores_max, piece, staged_min, staged_piece }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A launch costs 5, a copy engine begins late and is slow, stores are quick, and pieces pay from 16 MiB on.
    fn time(way: GpuWrite, bytes: u64) -> f64 {
        let kib = bytes as f64 / 1024.0;
        match way {
            GpuWrite::Standby => 3.0 + kib / 2.0,
            GpuWrite::Engine => 5.0 + kib / 100.0,
            GpuWrite::Stores => 6.0 + kib / 200.0,
            GpuWrite::Hybrid { piece } => 30.0 + kib / 400.0 + piece as f64 / 1e9,
            GpuWrite::Card => 1.0 + kib / 5.0,
            GpuWrite::Staged { piece } => 10.0 + kib / 6.0 + (131_072.0 - piece as f64).abs() / 1e5,
        }
    }

    #[test]
    fn limits_are_where_ways_cross() {
        let measured = |(way, most): (GpuWrite, u64)| {
            let sizes = gaspi_gpu::SIZES.into_iter().filter(move |bytes| *bytes <= most);
            sizes.map(move |bytes| ((way.name(), bytes), time(way, bytes)))
        };
        let times: Times = gaspi_gpu::ways().into_iter().flat_map(measured).collect();
        let limits = limits("GPU".into(), &times);
        // They cross at 4.1 KiB, 200 KiB, 9.4 MiB, and 270 KiB.
        assert_eq!((limits.standby_max, limits.engine_max, limits.stores_max), (4096, 128 << 10, 8 << 20));
        assert_eq!((limits.piece, limits.staged_min, limits.staged_piece), (512 << 10, 128 << 10, 128 << 10));
    }
}

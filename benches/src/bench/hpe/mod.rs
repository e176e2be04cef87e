//! HPE (seed 003): one pointer for every memory. `hpe-copy`, `hpe-sharing`, `hpe-objects`, `hpe-file`, and the programs
//! `hpe-stencil`, `hpe-fft`, `hpe-sort`.

mod between;
mod copies;
mod cube;
mod fft;
mod fft_run;
mod files;
#[cfg(test)]
mod kernels;
mod memory;
mod objects;
mod ranks;
mod remote;
mod sharing;
mod sort;
mod sort_run;
mod spectrum;
mod stencil;
mod stencil_level;
mod stencil_run;
mod stencil_shared;
mod steps;

pub(crate) use copies::Copies;
pub(crate) use fft::Fft;
pub(crate) use files::Files;
pub(crate) use objects::Objects;
pub(crate) use remote::Remote;
pub(crate) use sharing::Sharing;
pub(crate) use sort::Sort;
pub(crate) use stencil::Stencil;

use ggas_gpu::Gpu;
use ggas_hpe::{Builder, Runtime};
use ggas_kernels::Processor;

use crate::setup::Setup;
use crate::{BenchError, Check, Device, Options, Progress, Report, Row, Team};

/// The GPUs of the nodes; none on the CPU executor.
fn gpus(setup: &Setup, count: u32) -> Result<Vec<Gpu>, BenchError> {
    let of = |node| match setup.processor(node) {
        Processor::Gpu(gpu) => Some(gpu.device().clone()),
        _ => None,
    };
    let gpus: Vec<Gpu> = (0..count).filter_map(of).collect();
    match &gpus[..] {
        [first, second, ..] if first.ordinal() == second.ordinal() => Err(BenchError::Unsupported(
            "copies go between two devices: use --gpus 2, or --device cpu".to_owned(),
        )),
        _ => Ok(gpus),
    }
}

/// So many devices: the GPUs of the nodes, or devices of the CPU executor.
fn devices(setup: &Setup, count: u32) -> Result<Builder, BenchError> {
    let gpus = gpus(setup, count)?;
    Ok(match gpus.is_empty() {
        true => Runtime::builder().executors(count as usize),
        false => Runtime::builder().gpus(gpus),
    })
}

/// Numbers of devices that a program runs on: those asked for, else 1, 2 and 4, as far as there are so many GPUs. Of several
/// processes each has so many, of GPUs one.
fn device_counts(team: &Team, options: &Options) -> Result<Vec<u32>, BenchError> {
    if team.size() == 1 && options.nodes > 2 {
        let advice = "parts are on devices: use --devices, or --fabric process for so many processes";
        return Err(BenchError::option("nodes", options.nodes, advice));
    }
    let (most, why) = match (options.device, team.size()) {
        (Device::Cpu, _) => (16, "devices of the CPU executor"),
        (Device::Gpu, 1) => (options.gpus, "devices, as many as --gpus says"),
        (Device::Gpu, _) => (1, "device: each process has one GPU"),
    };
    if let Some(bad) = options.devices.iter().find(|count| !(1..=most).contains(*count)) {
        return Err(BenchError::option("devices", bad, format!("use 1 to {most} {why}")));
    }
    Ok(match options.devices.is_empty() {
        true => [1, 2, 4].into_iter().filter(|count| *count <= most).collect(),
        false => options.devices.clone(),
    })
}

/// Refuses several processes, or nodes, of programs whose devices are one's.
fn of_one_process(team: &Team, options: &Options) -> Result<(), BenchError> {
    match team.size() {
        1 if options.nodes > 2 => {
            let advice = "its parts are on devices of one process: use --devices";
            Err(BenchError::option("nodes", options.nodes, advice))
        }
        1 => Ok(()),
        _ => Err(BenchError::Unsupported(
            "its devices are those of one process: leave --fabric process out".to_owned(),
        )),
    }
}

/// Whether kernels of each device reach the memory of all others.
fn reach(setup: &Setup, count: u32) -> Result<bool, BenchError> {
    let gpus = gpus(setup, count)?;
    let all = |one: &Gpu| gpus.iter().all(|other| one.ordinal() == other.ordinal() || one.reaches(other));
    Ok(gpus.iter().all(all))
}

/// How a device of the transform, or of the sort, gets numbers of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// By copies through pinned memory of the host, as where devices do not reach each other; the host finds the pivots of the sort, by
    /// copies of single numbers.
    Staged,
    /// By copies from device to device; a kernel finds the pivots, by loads from other devices.
    Copies,
    /// Kernels read them where they are.
    Remote,
}

impl How {
    const ALL: [How; 3] = [How::Staged, How::Copies, How::Remote];
    const NAMES: [&'static str; 3] = ["staged", "copies", "remote"];

    fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// A way of a program: itself, its name, and whether kernels read memory of other devices.
type Way<W> = (W, &'static str, bool);

/// Rows of a program at one size: each way on each number of devices. Where devices do not reach each other and the way needs it, a
/// note says so.
fn rows<W: Copy>(
    setup: &Setup,
    (ways, counts, size): (&[Way<W>], &[u32], &str),
    (report, progress): (&mut Report, &mut Progress),
    measure: impl Fn(W, u32) -> Result<(Row, Check), BenchError>,
) -> Result<(), BenchError> {
    for &(way, name, reads_others) in ways {
        for &count in counts {
            progress.now(format!("{name}, {size}, {count} devices"));
            progress.step();
            if reads_others && !reach(setup, count)? {
                report
                    .notes
                    .push(format!("{name} on {count} devices: not run: they do not reach each other"));
                continue;
            }
            let (row, check) = measure(way, count)?;
            report.push(row.with("devices", count), check);
        }
    }
    Ok(())
}

/// Blocks and threads of a kernel that goes through so many items by a loop.
fn shape(device: Device, items: u64) -> (u32, u32) {
    let (threads, most) = match device {
        Device::Cpu => (32, 2),
        Device::Gpu => (256, 2048),
    };
    (items.div_ceil(u64::from(threads)).clamp(1, most) as u32, threads)
}

/// What is copied, and whether it came.
fn pattern(bytes: usize, seed: u64) -> Vec<u8> {
    crate::verify::Pattern::new(seed, 0).bytes(bytes)
}

fn compare(expected: &[u8], seen: &[u8]) -> Check {
    let mut check = Check::default();
    check.bytes("what arrived", expected, seen);
    check
}

//! HPE (seed 003): one pointer for every memory. `hpe-copy`, `hpe-sharing`, `hpe-objects`, `hpe-file`.

mod copies;
mod files;
mod objects;
mod sharing;

pub(crate) use copies::Copies;
pub(crate) use files::Files;
pub(crate) use objects::Objects;
pub(crate) use sharing::Sharing;

use ggas_gpu::Gpu;
use ggas_hpe::{Builder, Runtime};
use ggas_kernels::Processor;

use crate::setup::Setup;
use crate::{BenchError, Check};

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

/// What is copied, and whether it came.
fn pattern(bytes: usize, seed: u64) -> Vec<u8> {
    crate::verify::Pattern::new(seed, 0).bytes(bytes)
}

fn compare(expected: &[u8], seen: &[u8]) -> Check {
    let mut check = Check::default();
    check.bytes("what arrived", expected, seen);
    check
}

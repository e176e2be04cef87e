//! Timing of collectives that the host starts.

use std::time::{Duration, Instant};

use ggas_kernels::{Launch, run_repeated};

use crate::error::Doing;
use crate::setup::Setup;
use crate::space::Space;
use crate::{BenchError, Check, Device, Samples};

/// Samples of a row, each over several operations in a row.
const SAMPLES: usize = 7;

/// Launches `times` operations in a row; gives ns of one.
pub(super) fn run(setup: &Setup, launches: &[Launch<'_>], times: u32) -> Result<f64, BenchError> {
    let limit = setup.options.timeout * 2 + Duration::from_secs(20);
    let began = Instant::now();
    run_repeated(launches, times, limit).doing("running a collective")?;
    Ok(began.elapsed().as_nanos() as f64 / f64::from(times))
}

/// Samples of operations on vectors of `bytes`, and the check of one that went before.
pub(super) fn measure(
    setup: &Setup,
    space: &Space,
    launches: &[Launch<'_>],
    bytes: usize,
    check: Check,
) -> Result<(Samples, Check), BenchError> {
    let options = setup.options;
    // On GPUs as many as peers/nccl_allreduce.cu has in a graph: that many share what a launch and the end take.
    let times = match options.device {
        Device::Gpu if bytes > 4 << 20 => 10,
        Device::Gpu => 50,
        Device::Cpu => 4,
    };
    let times = options.iterations.unwrap_or(times).clamp(1, 10_000) as u32;
    run(setup, launches, times)?;
    let mut samples = Vec::new();
    for _ in 0..SAMPLES {
        setup.share::<()>(Vec::new())?;
        samples.push(run(setup, launches, times)?);
    }
    space.check()?;
    let first = setup.local().start == 0;
    setup.collect(first.then(|| Samples::new(samples, times.into())), check)
}

//! One file per benchmark.

pub(crate) mod allreduce_stream;
mod alltoall;
mod assisted;
mod atomics_random;
mod barrier;
mod c_interface;
mod card_stores;
mod coalescing;
mod collectives;
mod collectives_stream;
mod device_copy;
mod directions;
mod engine_idle;
mod gaspi;
pub(crate) mod gaspi_gpu;
mod gaspi_himeno;
mod ggas_bandwidth;
mod ggas_pingpong;
mod global_reduction;
mod gmpi_calls;
mod gmpi_himeno;
mod gmpi_pingpong;
mod gmpi_polling;
mod himeno;
mod host_sync;
mod hpe;
mod litmus;
mod litmus_post;
mod litmus_trigger;
mod overlap;
mod post_work_wait;
mod progress;
mod put;
mod put_bandwidth;
mod put_rate;
mod queues;
mod random_nodes;
mod randomaccess;
pub(crate) mod reduce;
mod relaunch;
mod rma_bandwidth;
mod rma_pingpong;
mod rma_rate;
mod rma_roundtrip;
pub(crate) mod shared_gpu;
mod staged;
mod stream;
mod tn;
mod tn_allreduce;
mod tn_allreduce_host;
mod tn_jacobi;
mod tn_jacobi_host;
mod tn_learning;
mod tn_line;
mod velo_kernels;
mod velo_pingpong;
mod verbs;
mod verbs_latency;
mod versus_ucx;

use std::fmt::Display;

use crate::team::Task;
use crate::{Bench, BenchError, Check, Device, Options, Progress, Report, Row};
pub use random_nodes::SharedTable;

/// All benchmarks, in the order in which a suite runs them.
pub(crate) const ALL: &[&dyn Bench] = &[
    &rma_pingpong::RmaPingpong,
    &rma_bandwidth::RmaBandwidth,
    &rma_rate::RmaRate,
    &overlap::RmaOverlap,
    &engine_idle::EngineIdle,
    &card_stores::CardStores,
    &rma_roundtrip::RmaRoundtrip,
    &velo_pingpong::VeloPingpong,
    &verbs_latency::VerbsLatency,
    &verbs::BANDWIDTH,
    &verbs::RATE,
    &verbs::ATOMICS,
    &verbs::ladder::VerbsLadder,
    &alltoall::AllToAll,
    &versus_ucx::VersusUcx,
    &c_interface::CInterface,
    &gmpi_pingpong::GmpiPingpong,
    &gmpi_calls::GmpiCalls,
    &gmpi_polling::GmpiPolling,
    &progress::Progress,
    &gaspi::PINGPONG,
    &gaspi::BANDWIDTH,
    &gaspi::RATE,
    &gaspi::POST,
    &gaspi::POST_WORK_WAIT,
    &gaspi::ALLREDUCE,
    &gaspi::BARRIER,
    &gaspi::PASSIVE,
    &gaspi_gpu::GaspiGpuWrite,
    &gaspi_himeno::GaspiHimeno,
    &shared_gpu::ALLREDUCE,
    &shared_gpu::REDUCE,
    &shared_gpu::BROADCAST,
    &shared_gpu::ALLGATHER,
    &shared_gpu::ALLTOALL,
    &shared_gpu::REDUCE_SCATTER,
    &ggas_pingpong::GgasPingpong,
    &ggas_bandwidth::GgasBandwidth,
    &coalescing::GgasCoalescing,
    &device_copy::DeviceCopy,
    &directions::Directions,
    &staged::StagedCopies,
    &host_sync::HostSync,
    &host_sync::HostWait,
    &hpe::Copies,
    &hpe::Sharing,
    &hpe::Objects,
    &hpe::Files,
    &hpe::Remote,
    &hpe::Stencil,
    &hpe::Fft,
    &hpe::Sort,
    &post_work_wait::PostWorkWait,
    &put::PutSignal,
    &put::PutPacked,
    &put::Get,
    &tn::Triggered,
    &tn_line::TnLine,
    &tn_jacobi::TnJacobi,
    &tn_allreduce::TnAllreduce,
    &tn_learning::TnLearning,
    &put_bandwidth::PutBandwidth,
    &put_rate::PutRate,
    &queues::Queues,
    &overlap::PutOverlap,
    &atomics_random::AtomicsRandom,
    &litmus::Litmus,
    &litmus_post::LitmusPost,
    &litmus_trigger::LitmusTrigger,
    &barrier::Barrier,
    &reduce::Reduce,
    &reduce::Allreduce,
    &allreduce_stream::AllreduceStream,
    &collectives_stream::CollectivesStream,
    &collectives::Collectives,
    &global_reduction::GlobalReduction,
    &himeno::Himeno,
    &gmpi_himeno::GmpiHimeno,
    &randomaccess::RandomAccess,
];

/// The report of a benchmark whose rows are methods at sizes in bytes. `measure` adds the rows of one pair.
fn methods_by_sizes<M: Copy + Display>(
    task: Task,
    methods: &[M],
    sizes: &[u64],
    progress: &mut Progress,
    mut measure: impl FnMut(&mut Report, M, u64) -> Result<(), BenchError>,
) -> Result<Report, BenchError> {
    let mut report = task.report();
    progress.begin(task.bench.name(), (methods.len() * sizes.len()) as u64);
    for &method in methods {
        for &bytes in sizes {
            progress.now(format!("{method}, {bytes} bytes"));
            measure(&mut report, method, bytes)?;
            progress.step();
        }
    }
    Ok(report)
}

/// The same, size by size: what `prepare` makes of a size serves all methods. `measure` gives the row of one pair.
fn sizes_by_methods<M: Copy + Display, W>(
    task: Task,
    methods: &[M],
    (sizes, unit): (&[u64], &str),
    progress: &mut Progress,
    prepare: impl Fn(u64) -> Result<W, BenchError>,
    measure: impl Fn(&W, M, u64) -> Result<(Row, Check), BenchError>,
) -> Result<Report, BenchError> {
    let mut report = task.report();
    progress.begin(task.bench.name(), (methods.len() * sizes.len()) as u64);
    for &size in sizes {
        let prepared = prepare(size)?;
        for &method in methods {
            progress.now(format!("{method}, {size} {unit}"));
            let (row, check) = measure(&prepared, method, size)?;
            report.push(row, check);
            progress.step();
        }
    }
    Ok(report)
}

/// Iterations for payloads of `bytes`: `small` up to 4 KiB, then fewer so that a row moves about as much.
fn iterations_for(small: u64, bytes: u64) -> u64 {
    (small * 4096 / bytes.max(4096)).clamp(10, small.max(10))
}

/// One way, timed by iterations that a kernel or the host makes.
fn default_iterations(options: &Options, bytes: u64) -> u64 {
    let small = if options.device == Device::Gpu { 5000 } else { 2000 };
    options.iterations.unwrap_or(iterations_for(small, bytes))
}

//! Benchmarks on one harness.
//!
//! Every benchmark times verified library calls (inputs loaded from memory, waits bounded), checks the
//! bytes that it moved, and gives a [`Report`]: a table for people, JSON (schema 1) for programs, an SVG.
//! `benches/README.md` defines each column.
//!
//! ```no_run
//! use ggas_benches::{Options, Progress, Team};
//! let bench = ggas_benches::find("rma-pingpong")?;
//! let report = bench.run(&Team::alone(), &Options::default(), &mut Progress::silent())?;
//! println!("{}", report.table());
//! report.check()?; // an error if a byte was wrong
//! # Ok::<(), ggas_benches::BenchError>(())
//! ```

#[allow(missing_docs, non_camel_case_types)]
#[rustfmt::skip]
mod args;
mod bench;
mod capi;
mod cards;
mod cores;
mod ends;
pub mod energy;
mod error;
mod gaspi;
mod gmpi;
mod grid;
mod himeno;
mod host;
mod hosts;
mod hpcc;
mod image;
pub mod job;
mod kernel;
mod messages;
mod mpi;
mod options;
mod payload;
mod peer;
mod plot;
mod progress;
mod report;
mod ring;
mod setup;
mod shared_gpu;
mod shared_methods;
mod shared_vectors;
mod space;
mod staging;
mod stats;
mod team;
mod tune;
mod tune_hosts;
mod tune_shared;
mod ucx;
mod verify;
mod whole;

pub use bench::SharedTable;
pub use error::BenchError;
pub use himeno::{Grid, Split};
pub use host::HostFacts;
pub use options::{Device, Fabric, ITERATIONS_MAX, Memory, NicProgress, Options, Path, Scaling, Via};
pub use peer::Peers;
pub use plot::Pictures;
pub use progress::Progress;
pub use report::{Report, Row, SCHEMA};
pub use stats::{Latency, Samples};
pub use team::{Team, launch};
pub use tune::{Tuned, tune};
pub use tune_hosts::{HostsTuned, tune_hosts};
pub use tune_shared::{SharedTuned, tune_shared};
pub use verify::{Check, Pattern, RandomStream};
pub use whole::WholeFile;

/// One benchmark.
pub trait Bench: Sync {
    /// Name on the command line and in the JSON, such as `rma-pingpong`.
    fn name(&self) -> &'static str;

    /// What it measures, in one sentence.
    fn about(&self) -> &'static str;

    /// Methods that [`Options::method`] may name; empty if there is only one way.
    fn methods(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether kernels reach the other nodes by plain pointers alone, so that `--via nvlink` can carry it.
    fn by_windows(&self) -> bool {
        false
    }

    /// Whether its rows are of [grids](Options::grids), which one node can have, too.
    fn has_grids(&self) -> bool {
        false
    }

    /// Whether it runs on numbers of [devices](Options::devices) of a process.
    fn has_devices(&self) -> bool {
        false
    }

    /// Whether only nodes 0 and 1 do something, however many there are.
    fn is_of_two_nodes(&self) -> bool {
        false
    }

    /// Methods by which kernels post and consume on their own, so that engines beside them can carry the traffic
    /// (`--via nvlink`) though it takes more than pointers. Where there are also methods that go
    /// [by windows](Self::by_windows), these run only if they are named.
    fn by_engines(&self) -> &'static [&'static str] {
        &[]
    }

    /// Methods that a card can carry (`--via hw`): what takes descriptors, notifications and messages only.
    fn by_cards(&self) -> &'static [&'static str] {
        &[]
    }

    /// Methods by stores between memory that both nodes map, which those of different hosts do not.
    fn on_one_host(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether it starts processes of its own, each a node.
    fn has_own_processes(&self) -> bool {
        false
    }

    /// What of the options does not fit it, beyond what [`Options::validate`] knows itself.
    ///
    /// # Errors
    /// [`BenchError::Option`].
    fn check(&self, _options: &Options) -> Result<(), BenchError> {
        Ok(())
    }

    /// Runs it; every process of `team` calls it with the same options. Wrong data does not fail the call: the
    /// report of the first process says so ([`Report::check`]); those of the others lack rows' numbers.
    ///
    /// # Errors
    /// Options that do not fit, hardware that is missing, a library call or wait that failed.
    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError>;
}

/// The pictures of a report that was kept ([`Report::json`], [`energy::CommandReport::json`]): of its rows, as [`Report::svg`]
/// draws it, and of power over time where energy was counted.
///
/// # Errors
/// [`BenchError::NoReport`].
pub fn plot(json: &str) -> Result<Pictures, BenchError> {
    let report = serde_json::from_str(json).map_err(|error| BenchError::NoReport(error.to_string()))?;
    plot::pictures(&report)
}

/// All benchmarks, in the order in which a suite runs them.
pub fn all() -> &'static [&'static dyn Bench] {
    bench::ALL
}

/// The benchmark of this name.
///
/// # Errors
/// [`BenchError::UnknownBench`], listing the names there are.
pub fn find(name: &str) -> Result<&'static dyn Bench, BenchError> {
    all().iter().copied().find(|bench| bench.name() == name).ok_or_else(|| BenchError::UnknownBench {
        name: name.to_owned(),
        known: all().iter().map(|bench| bench.name()).collect::<Vec<_>>().join(", "),
    })
}

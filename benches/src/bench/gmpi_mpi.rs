//! `gmpi-mpi` (GMPI paper, Fig. 6): messages between two processes over an MPI library.

use crate::gaspi::Job;
use crate::gmpi::{METHODS, run};
use crate::team::Task;
use crate::{Bench, BenchError, Check, Device, Options, Progress, Report, Row, Samples, Team};

const MOST: u64 = 4 << 20;
const SIZES: [u64; 6] = [8, 512, 4096, 65_536, 262_144, 1 << 20];

pub(crate) struct GmpiMpi;

impl Bench for GmpiMpi {
    fn name(&self) -> &'static str {
        "gmpi-mpi"
    }

    fn about(&self) -> &'static str {
        "half a round trip over an MPI library: calls of kernels, kernels that end for each message, hosts (GMPI paper, Fig. 6)"
    }

    fn has_own_processes(&self) -> bool {
        true
    }

    fn methods(&self) -> &'static [&'static str] {
        &METHODS
    }

    fn check(&self, options: &Options) -> Result<(), BenchError> {
        if options.nodes != 2 {
            return Err(BenchError::option("nodes", options.nodes, "two processes do all of it; use 2"));
        }
        options.sizes_or(&SIZES, 8..=MOST, 8).map(drop)
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        let sizes = options.sizes_or(&SIZES, 8..=MOST, 8)?;
        let methods = task.methods();
        let mut report = task.report();
        report.fabric = "process".to_owned();
        progress.begin(self.name(), methods.len() as u64);
        for method in methods {
            progress.now(method.to_owned());
            let usual = if options.device == Device::Gpu { 1000 } else { 100 };
            let trips = options.iterations.unwrap_or(usual).clamp(1, 1 << 20) as u32;
            let job =
                Job { bench: method.to_owned(), rounds: 1, trips, seed: options.seed, sizes: sizes.clone() };
            for line in run(&job, options)? {
                let note = format!("carrier: {}", line.peer);
                if !report.notes.contains(&note) {
                    report.notes.push(note);
                }
                let mut row = Row::new(&Samples::new(vec![line.value * 1e3], 1)).method(method);
                row.latency_us.min = line.min;
                let row = match line.bytes {
                    Some(bytes) => row.bytes(bytes).bandwidth_of(bytes),
                    None => row,
                };
                let first = (line.errors > 0).then(|| format!("{method}: {} wrong", line.errors));
                report.push(row, Check { errors: line.errors, first });
            }
            progress.step();
        }
        report.notes.push("hosts: the library's blocking calls, of host memory".to_owned());
        Ok(report)
    }
}

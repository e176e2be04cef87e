//! `gaspi-himeno`: Himeno's hybrid form with the calls of GASPI, and the computation alone, between processes.

use crate::gaspi::HIMENO;
use crate::himeno::Parts;
use crate::job::Job;
use crate::team::Task;
use crate::{
    Bench, BenchError, Check, Device, Grid, Options, Progress, Report, Row, Samples, Scaling, Split, Team,
};

pub(crate) struct GaspiHimeno;

impl Bench for GaspiHimeno {
    fn name(&self) -> &'static str {
        HIMENO
    }

    fn about(&self) -> &'static str {
        "an iteration of Himeno on segments in GPU memory, whose boundaries hosts send while kernels compute (thesis 4.5)"
    }

    fn has_own_processes(&self) -> bool {
        true
    }

    fn has_grids(&self) -> bool {
        true
    }

    fn check(&self, options: &Options) -> Result<(), BenchError> {
        grids(options).map(drop)
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        let grids = grids(options)?;
        let mut report = task.report();
        report.fabric = "process".to_owned();
        progress.begin(self.name(), grids.len() as u64);
        for grid in grids {
            progress.now(grid.to_string());
            let (rounds, usual) = if options.device == Device::Gpu { (10, 100) } else { (5, 4) };
            let trips = options.iterations.unwrap_or(usual).min(1 << 20) as u32;
            let sizes = [grid.x, grid.y, grid.z].map(u64::from).to_vec();
            let job = Job { bench: HIMENO.to_owned(), rounds, trips, seed: options.seed, sizes };
            let mut alone = None;
            for line in job.run(options.nodes)? {
                let mut row = Row::new(&Samples::new(vec![line.value * 1e3], 1)).method(&line.peer);
                row.latency_us.min = line.min;
                row.elements = line.elements;
                let alone = *alone.get_or_insert(line.value.max(1e-9));
                let row = row
                    .with("grid", grid.to_string())
                    .with("gflops", grid.flop() as f64 / line.value.max(1e-9) / 1e3)
                    .with("over_compute_percent", 100.0 * (line.value - alone) / alone);
                let first = (line.errors > 0).then(|| format!("{grid} after 4 iterations"));
                report.push(row, Check { errors: line.errors, first });
            }
            progress.step();
        }
        let note = "`hybrid` is compared with the host's points and sums after 4 iterations, bit by bit";
        report.notes.push(note.to_owned());
        Ok(report)
    }
}

/// Slices of planes, as many for each process.
fn grids(options: &Options) -> Result<Vec<Grid>, BenchError> {
    let usual = match options.device {
        Device::Cpu => Grid { x: 32, y: 16, z: 12 * options.nodes },
        Device::Gpu => Grid { x: 256, y: 256, z: 256 * options.nodes },
    };
    let grids = if options.grids.is_empty() { vec![usual] } else { options.grids.clone() };
    for grid in &grids {
        Parts::new(*grid, Scaling::Strong, Split::slices(options.nodes))?;
    }
    Ok(grids)
}

//! `gmpi-himeno` (GMPI paper, Fig. 5, VI B): Himeno with halos and convergence by MPI calls of one kernel, beside kernels that end for
//! them, and beside puts.

use ggas_gmpi::{Comm, Config, Polling};

use crate::args::BENCH_GMPI_CALLERS;
use crate::gmpi::{Ranks, config, is_by_mpi};
use crate::himeno::{ByGmpi, Form, Parts, Problem, Reference, Run, Way, sum_of_planes};
use crate::host::require_memory;
use crate::setup::{Setup, Worker};
use crate::team::Task;
use crate::{
    Bench, BenchError, Check, Device, Grid, Options, Progress, Report, Row, Samples, Scaling, Split, Team,
};

const METHODS: [&str; 7] = ["put", "ggas", "direct", "own", "own-kernel-ends", "mpi", "mpi-kernel-ends"];

pub(crate) struct GmpiHimeno;

impl Bench for GmpiHimeno {
    fn name(&self) -> &'static str {
        "gmpi-himeno"
    }

    fn about(&self) -> &'static str {
        "an iteration of Himeno with halos and convergence by MPI calls of one kernel, by who carries them (GMPI paper, VI B)"
    }

    fn methods(&self) -> &'static [&'static str] {
        &METHODS
    }

    fn by_windows(&self) -> bool {
        true
    }

    fn on_one_host(&self) -> &'static [&'static str] {
        &["direct"]
    }

    fn has_grids(&self) -> bool {
        true
    }

    fn check(&self, options: &Options) -> Result<(), BenchError> {
        if options.nodes < 2 {
            return Err(BenchError::option("nodes", options.nodes, "one rank has no halo; use 2 or more"));
        }
        grids(options).map(drop)
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        let grids = grids(options)?;
        for parts in &grids {
            let arrays = 14 * parts.array_bytes() * u64::from(options.nodes);
            let others = if options.device == Device::Cpu { arrays } else { 0 };
            require_memory(parts.whole.points(), others + 8 * parts.whole.points())?;
        }
        let by_mpi = team.size() > 1 && is_by_mpi();
        let methods: Vec<_> =
            task.methods().into_iter().filter(|method| by_mpi || !method.starts_with("mpi")).collect();
        if methods.is_empty() {
            let why = "an MPI library takes a process for each rank, started by its launcher: mpirun -n 2 ggas bench gmpi-himeno";
            return Err(BenchError::Unsupported(why.to_owned()));
        }
        let setup = Setup::new(task, Worker::Kernels)?;
        let carriers = Carriers::new(&setup, &methods)?;
        let mut report = task.report();
        report.notes.extend(carriers.notes(by_mpi));
        progress.begin(self.name(), (methods.len() * grids.len()) as u64);
        for parts in grids {
            let grid = OneGrid::new(&setup, &carriers, parts)?;
            let by = grid.by_gmpi()?;
            let mut puts = None;
            for &method in &methods {
                progress.now(format!("{method}, {}, split {}", parts.whole, parts.split));
                let (mut row, check) = grid.measure(&by, method)?;
                let median = row.latency_us.median;
                if method == "put" {
                    puts = Some(median);
                }
                if let Some(puts) = puts.filter(|puts| *puts > 0.0) {
                    row = row.with("over_put_percent", 100.0 * (median - puts) / puts);
                }
                report.push(row, check);
                progress.step();
            }
        }
        setup.share::<()>(Vec::new())?;
        carriers.close()?;
        Ok(report)
    }
}

/// The grids asked for, or the paper's and a larger one, cut in i (planes) and in j (rows) unless the user says how.
fn grids(options: &Options) -> Result<Vec<Parts>, BenchError> {
    let usual = match options.device {
        Device::Cpu => vec![Grid { x: 32, y: 16, z: 16 }],
        Device::Gpu => vec![
            Grid { x: 128, y: 64, z: 64 },
            Grid { x: 256, y: 128, z: 128 },
            Grid { x: 512, y: 256, z: 256 },
            Grid { x: 512, y: 512, z: 512 },
        ],
    };
    let grids = if options.grids.is_empty() { usual } else { options.grids.clone() };
    let nodes = options.nodes;
    let splits = match options.split {
        Some(split) => vec![split],
        None => vec![Split::slices(nodes), Split { x: 1, y: nodes, z: 1 }],
    };
    let all = grids.iter().flat_map(|grid| splits.iter().map(|split| (*grid, *split)));
    let mut parts =
        all.map(|(grid, split)| Parts::new(grid, Scaling::Strong, split)).collect::<Result<Vec<_>, _>>()?;
    if let Some(grid) = &options.grid_of_row {
        parts.retain(|parts| parts.whole.to_string() == *grid);
    }
    Ok(parts)
}

/// What carries calls, for those methods that want it.
struct Carriers {
    own: Option<Ranks>,
    direct: Option<(Ranks, Comm)>,
    mpi: Option<Ranks>,
}

impl Carriers {
    fn new(setup: &Setup, methods: &[&str]) -> Result<Carriers, BenchError> {
        let config = config(setup.options);
        let wanted = |name: &str| methods.iter().any(|method| method.starts_with(name));
        let own = wanted("own").then(|| Ranks::own(setup, &config)).transpose()?;
        let direct = || -> Result<_, BenchError> {
            let ports = BENCH_GMPI_CALLERS;
            // Nobody calls the daemon.
            let config = Config { ports, polling: Polling::Sleep, ..config.clone() };
            let ranks = Ranks::own(setup, &config)?;
            let comm = ranks.direct(setup, ports, 0)?.comm;
            Ok((ranks, comm))
        };
        let direct = wanted("direct").then(direct).transpose()?;
        let mpi = wanted("mpi").then(|| Ranks::mpi(setup, &config)).transpose()?;
        Ok(Carriers { own, direct, mpi })
    }

    fn notes(&self, by_mpi: bool) -> Vec<String> {
        let mut notes = Vec::new();
        match &self.mpi {
            Some(mpi) => notes.push(format!("mpi: {}", mpi.carrier())),
            None if !by_mpi => notes.push(
                "mpi, mpi-kernel-ends: not run; they take a process for each rank, by mpirun -n 2 ggas bench gmpi-himeno"
                    .to_owned(),
            ),
            None => {}
        }
        if let Some(own) = &self.own {
            notes.push(format!("own: {}", own.carrier()));
        }
        notes.push(
            "put, direct, own, mpi: one kernel; put, direct: one block adds up while others exchange halos; kernel-ends: \
             packing and unpacking are in the computation; ggas: without convergence"
                .to_owned(),
        );
        notes
    }

    fn way(&self, method: &str) -> Option<Way<'_>> {
        match method {
            "put" => Some(Way::Puts),
            "direct" => self.direct.as_ref().map(|(ranks, comm)| Way::Direct(ranks, *comm)),
            "own" => self.own.as_ref().map(Way::Calls),
            "own-kernel-ends" => self.own.as_ref().map(Way::Ends),
            "mpi" => self.mpi.as_ref().map(Way::Calls),
            "mpi-kernel-ends" => self.mpi.as_ref().map(Way::Ends),
            _ => None,
        }
    }

    fn all(&self) -> impl Iterator<Item = &Ranks> {
        self.own.iter().chain(self.direct.iter().map(|(ranks, _)| ranks)).chain(self.mpi.iter())
    }

    fn close(self) -> Result<(), BenchError> {
        let all = self.own.into_iter().chain(self.direct.map(|(ranks, _)| ranks)).chain(self.mpi);
        all.into_iter().try_for_each(Ranks::close)
    }
}

/// A grid on all ranks, and what has to come out.
struct OneGrid<'a> {
    run: Run<'a>,
    setup: &'a Setup<'a>,
    carriers: &'a Carriers,
    parts: Parts,
    problem: Problem,
}

/// Times of iterations, those of computation, halo and convergence, and the sum that came out, where the method has them.
type Outcome = (Samples, Option<[Samples; 3]>, Option<f64>);

/// A grid's messages, and the number of their memory in each carrier.
struct Messages<'a> {
    by: ByGmpi<'a>,
    attached: Vec<(*const Ranks, usize)>,
}

impl<'a> OneGrid<'a> {
    fn new(setup: &'a Setup<'a>, carriers: &'a Carriers, parts: Parts) -> Result<Self, BenchError> {
        let problem = Problem::new(parts.whole, setup.options);
        Ok(Self { run: Run::new(setup, parts)?, setup, carriers, parts, problem })
    }

    fn by_gmpi(&'a self) -> Result<Messages<'a>, BenchError> {
        let by = ByGmpi::new(&self.run)?;
        let attached = self.carriers.all().map(|ranks| Ok((std::ptr::from_ref(ranks), by.attach(ranks)?)));
        let attached = attached.collect::<Result<Vec<_>, BenchError>>()?;
        Ok(Messages { by, attached })
    }

    fn measure(&'a self, messages: &Messages<'a>, method: &str) -> Result<(Row, Check), BenchError> {
        let mut check = Check::default();
        self.run.fill(&self.problem.tested)?;
        let (_, _, sum) = self.iterate(messages, method, Problem::TESTED)?;
        self.compare(&mut check, Problem::TESTED, &self.problem.after_test, sum)?;
        self.run.fill(&self.problem.timed)?;
        let (samples, phases, sum) = self.iterate(messages, method, self.problem.iterations)?;
        if let Some(reference) = &self.problem.after_timed {
            self.compare(&mut check, self.problem.iterations, reference, sum)?;
        }
        let is_first = self.setup.local().start == 0;
        let (samples, check) = self.setup.collect(is_first.then_some(samples), check)?;
        Ok((self.row(method, &samples, phases, sum), check))
    }

    fn iterate(
        &'a self,
        messages: &Messages<'a>,
        method: &str,
        iterations: u64,
    ) -> Result<Outcome, BenchError> {
        let Some(way) = self.carriers.way(method) else {
            return Ok((self.run.iterate(Form::Ggas, iterations)?, None, None));
        };
        let attached = match &way {
            Way::Calls(ranks) | Way::Direct(ranks, _) | Way::Ends(ranks) => {
                let of = messages.attached.iter().find(|(whose, _)| std::ptr::eq(*whose, *ranks));
                of.map_or(0, |(_, number)| *number)
            }
            Way::Puts => 0,
        };
        let phases = messages.by.iterate(&way, attached, iterations)?;
        Ok((phases.all, Some(phases.parts), Some(phases.sum)))
    }

    /// Points and sums of planes bit by bit; the sum over all ranks, whose order is another one, by its relative error.
    fn compare(
        &self,
        check: &mut Check,
        iterations: u64,
        reference: &Reference,
        sum: Option<f64>,
    ) -> Result<(), BenchError> {
        let sums = self.run.sums()?;
        check.merge(self.run.compare(iterations, reference, &sums)?);
        let wanted = sum_of_planes(&reference.sums);
        let is_near = |sum: f64| (sum - wanted).abs() <= 1e-9 * wanted.abs();
        if let Some(sum) = sum.filter(|sum| !is_near(*sum)) {
            check.wrong(1, || {
                format!("all ranks' residual is {sum:e} after {iterations} iterations, not {wanted:e}")
            });
        }
        Ok(())
    }

    fn row(&self, method: &str, samples: &Samples, phases: Option<[Samples; 3]>, sum: Option<f64>) -> Row {
        let whole = self.parts.whole;
        let mut row = Row::new(samples).method(method);
        row.elements = Some(whole.points());
        if !method.ends_with("ends") {
            (row.blocks, row.threads) = (Some(self.run.lasting.blocks), Some(self.run.lasting.threads));
        }
        let gflops = whole.flop() as f64 / (row.latency_us.median * 1e3).max(1e-9);
        row = row
            .with("grid", whole.to_string())
            .with("split", self.parts.split.to_string())
            .with("gflops", gflops)
            .with("iterations", self.problem.iterations);
        if let Some(phases) = phases {
            for (name, part) in ["computation_us", "halo_us", "convergence_us"].into_iter().zip(&phases) {
                row = row.with(name, part.latency().median);
            }
        }
        match sum {
            Some(sum) => row.with("residual", sum),
            None => row,
        }
    }
}

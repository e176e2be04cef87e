//! `himeno` (thesis 4.5, 5.8, 6.9.1): a stencil whose boundaries travel in every iteration, by who communicates.

use crate::himeno::{Form, Grid, Parts, Problem, Run, sum_of_planes};
use crate::host::require_memory;
use crate::setup::{Setup, Worker};
use crate::team::Task;
use crate::{Bench, BenchError, Check, Device, Options, Progress, Report, Row, Samples, Scaling, Team, Via};

pub(crate) struct Himeno;

impl Bench for Himeno {
    fn name(&self) -> &'static str {
        "himeno"
    }

    fn about(&self) -> &'static str {
        "an iteration of a 19-point stencil whose boundaries travel, by who communicates (thesis 4.5, 5.8, 6.9.1)"
    }

    fn methods(&self) -> &'static [&'static str] {
        &Form::NAMES
    }

    fn by_windows(&self) -> bool {
        true
    }

    fn by_engines(&self) -> &'static [&'static str] {
        &["queues-device"]
    }

    fn has_grids(&self) -> bool {
        true
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        let forms = forms(team, options)?;
        let grids = grids(options)?;
        for parts in &grids {
            let arrays = 14 * parts.array_bytes() * u64::from(options.nodes);
            let others = if options.device == Device::Cpu { arrays } else { 0 };
            require_memory(parts.whole.points(), others + 8 * parts.whole.points())?;
        }
        let mut report = task.report();
        report.settings.insert("scaling", options.scaling.name().into());
        if let Some(split) = options.split {
            report.settings.insert("split", split.to_string().into());
        }
        if forms.contains(&Form::Device) && options.device == Device::Cpu {
            report.notes.push("device: on the CPU executor the host makes the loop of the graph".to_owned());
        }
        if forms.iter().any(|form| !form.computes()) {
            report.notes.push(
                "exchange, exchange-flags: stores of the boundary and a meeting, nothing else".to_owned(),
            );
        }
        progress.begin(self.name(), (forms.len() * grids.len()) as u64);
        let setup = Setup::new(task, Worker::Kernels)?;
        for parts in grids {
            let grid = match OneGrid::new(&setup, parts) {
                Err(error) if !report.rows.is_empty() => {
                    mark(&mut report, "every form", parts.whole, &error);
                    return Ok(report);
                }
                grid => grid?,
            };
            let mut compute = None;
            for &form in forms.iter().filter(|form| asked_for(**form, &parts, options)) {
                progress.now(format!("{}, {}", form.name(), parts.whole));
                match grid.measure(form) {
                    Ok((row, check)) => {
                        report.push(beside(row, form, &mut compute), check);
                        progress.step();
                    }
                    Err(error) => {
                        mark(&mut report, form.name(), parts.whole, &error);
                        // What all nodes refuse is of this form; nodes that waited in vain do not come to the next one either.
                        if !matches!(error, BenchError::Option { .. } | BenchError::Unsupported(_)) {
                            return Ok(report);
                        }
                    }
                }
            }
        }
        Ok(report)
    }
}

/// Says which row is missing and why: those before it stay, and the report does not count.
fn mark(report: &mut Report, form: &str, grid: Grid, error: &BenchError) {
    report.notes.push(format!("incomplete: {form} of {grid} has no row: {error}"));
    let mut check = Check::default();
    check.wrong(1, || error.to_string());
    report.reject(check);
}

/// The time over that of the computation alone, where it was measured.
fn beside(row: Row, form: Form, compute: &mut Option<f64>) -> Row {
    let median = row.latency_us.median;
    if form == Form::Compute {
        *compute = Some(median);
    }
    match *compute {
        Some(alone) if alone > 0.0 && form.computes() => {
            row.with("over_compute_percent", 100.0 * (median - alone) / alone)
        }
        _ => row,
    }
}

/// The forms that are wanted and can be.
fn forms(team: &Team, options: &Options) -> Result<Vec<Form>, BenchError> {
    let split = options.split_of_nodes();
    let without_device = options.via == Via::Nvlink && !options.engines(&Himeno);
    let can = |form: Form| match form {
        _ if form.is_of_one_process() && team.size() > 1 => {
            Err("here the host knows the kernels of its own process only; leave --fabric process out"
                .to_owned())
        }
        _ if !form.splits() && !split.is_of_slices() => {
            let names: Vec<_> = Form::ALL.into_iter().filter(|form| form.splits()).map(Form::name).collect();
            let slices = crate::Split::slices(options.nodes);
            Err(format!(
                "it {} whole planes of a boundary, and neighbours in x or y have none; use one of {}, or --split {slices}",
                if form.computes() { "first computes" } else { "exchanges" },
                names.join(", ")
            ))
        }
        _ if options.nodes == 1
            && (!form.computes() || matches!(form, Form::Queues | Form::QueuesDevice)) =>
        {
            Err("one node has no boundary; use more --nodes".to_owned())
        }
        Form::QueuesDevice if without_device => Err(
            "only engines take descriptors by peer memory, and they run when this form alone is asked for"
                .to_owned(),
        ),
        _ => Ok(()),
    };
    let forms: Vec<_> = Form::ALL.into_iter().filter(|form| options.wants(form.name())).collect();
    match (&options.method, &forms[..]) {
        (Some(method), [form]) => {
            can(*form).map_err(|advice| BenchError::option("form", method, advice))?;
            Ok(forms)
        }
        _ => Ok(forms.into_iter().filter(|form| can(*form).is_ok()).collect()),
    }
}

/// The grids asked for, or some that suit the processors; rows are asked for again by their grid, and by its points or the bytes of
/// a boundary.
fn grids(options: &Options) -> Result<Vec<Parts>, BenchError> {
    let named: &[&str] = match (options.device, options.scaling) {
        (Device::Cpu, Scaling::Weak) => &["32x16x12"],
        (Device::Cpu, Scaling::Strong) => &["32x16x48"],
        (Device::Gpu, Scaling::Weak) => &["128x192x64", "L"],
        (Device::Gpu, Scaling::Strong) => &["128x128x192", "M"],
    };
    let usual = named.iter().map(|name| name.parse()).collect::<Result<Vec<Grid>, _>>()?;
    let grids = if options.grids.is_empty() { usual } else { options.grids.clone() };
    let parts = |grid| Parts::new(grid, options.scaling, options.split_of_nodes());
    let mut all = grids.into_iter().map(parts).collect::<Result<Vec<_>, _>>()?;
    if let Some(grid) = &options.grid_of_row {
        all.retain(|parts| parts.whole.to_string() == *grid);
    }
    if !options.sizes.is_empty() {
        let wanted = |size: u64| options.sizes.contains(&size);
        all.retain(|parts| wanted(parts.whole.points()) || wanted(parts.plane_bytes()));
    }
    if all.is_empty() {
        return Err(BenchError::option(
            "sizes",
            options.sizes.first().copied().unwrap_or_default(),
            "grids have sizes of their own; use --grid",
        ));
    }
    Ok(all)
}

/// Whether the row's size is one of those asked for.
fn asked_for(form: Form, parts: &Parts, options: &Options) -> bool {
    let size = if form.computes() { parts.whole.points() } else { parts.plane_bytes() };
    options.sizes.is_empty() || options.sizes.contains(&size)
}

/// A grid on all nodes, and what has to come out.
struct OneGrid<'a> {
    run: Run<'a>,
    setup: &'a Setup<'a>,
    parts: Parts,
    problem: Problem,
}

impl<'a> OneGrid<'a> {
    fn new(setup: &'a Setup<'a>, parts: Parts) -> Result<Self, BenchError> {
        let problem = Problem::new(parts.whole, setup.options);
        Ok(Self { run: Run::new(setup, parts)?, setup, parts, problem })
    }

    fn measure(&'a self, form: Form) -> Result<(Row, Check), BenchError> {
        let Self { run, setup, parts, .. } = self;
        if !form.computes() {
            return self.boundaries(form);
        }
        let exchanges = form != Form::Compute || parts.nodes() == 1;
        let mut check = Check::default();
        run.fill(&self.problem.tested)?;
        run.iterate(form, Problem::TESTED)?;
        let sums = run.sums()?;
        if exchanges {
            check.merge(run.compare(Problem::TESTED, &self.problem.after_test, &sums)?);
        }
        run.fill(&self.problem.timed)?;
        let samples = run.iterate(form, self.problem.iterations)?;
        let sums = run.sums()?;
        match &self.problem.after_timed {
            Some(reference) if exchanges => {
                check.merge(run.compare(self.problem.iterations, reference, &sums)?);
            }
            _ => {}
        }
        let (samples, check) = setup.collect(Some(samples).filter(|s| !s.is_empty()), check)?;
        Ok((self.row(form, &samples, exchanges.then(|| sum_of_planes(&sums))), check))
    }

    /// Boundaries and a barrier without a computation. Both fields are sent, and compared after the timed rounds, and once more
    /// after two rounds alone: of the others each overwrites the ones before.
    fn boundaries(&'a self, form: Form) -> Result<(Row, Check), BenchError> {
        let Self { run, setup, parts, .. } = self;
        run.fill(&self.problem.tested)?;
        run.poison()?;
        let samples = run.iterate(form, self.problem.iterations.max(2))?;
        setup.share::<()>(Vec::new())?;
        let mut check = run.compare_boundaries()?;
        run.fill(&self.problem.tested)?;
        run.poison()?;
        run.iterate(form, 2)?;
        setup.share::<()>(Vec::new())?;
        check.merge(run.compare_boundaries()?);
        let (samples, check) = setup.collect(Some(samples).filter(|s| !s.is_empty()), check)?;
        let mut row = Row::new(&samples).method(form.name()).bytes(parts.plane_bytes());
        row.nodes = Some(parts.nodes());
        (row.blocks, row.threads) = (run.blocks_of(form), Some(run.shape_of(form).threads));
        Ok((row.with("grid", parts.whole.to_string()), check))
    }

    fn row(&self, form: Form, samples: &Samples, residual: Option<f64>) -> Row {
        let whole = self.parts.whole;
        let mut row = Row::new(samples).method(form.name());
        row.elements = Some(whole.points());
        row.nodes = Some(self.parts.nodes());
        (row.blocks, row.threads) = (self.run.blocks_of(form), Some(self.run.shape_of(form).threads));
        let gflops = whole.flop() as f64 / (row.latency_us.median * 1e3).max(1e-9);
        row = row
            .with("grid", whole.to_string())
            .with("gflops", gflops)
            .with("iterations", self.problem.iterations);
        if !self.parts.split.is_of_slices() {
            row = row.with("split", self.parts.split.to_string());
        }
        match residual {
            Some(residual) => row.with("residual", residual),
            None => row,
        }
    }
}

#[cfg(test)]
mod tests;

//! Rows of a report, each once more and alone, with counters beside.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::columns::Work;
use super::recording::Recording;
use super::{EnergyFacts, Meter, Span, span};
use crate::options::GRID_MAX;
use crate::{Bench, BenchError, Check, Options, Progress, Report, Row, Team};

/// Runs of a row until one was long enough.
const ATTEMPTS: usize = 4;
/// How much longer than asked for a run is meant to be.
pub(super) const MARGIN: f64 = 1.15;
/// Less than this of a run in its longest kernel: the host does the work.
const BY_KERNELS: f64 = 0.5;

/// What all processes run next.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Plan {
    method: Option<String>,
    size: Option<u64>,
    grid: Option<String>,
    blocks: Option<u32>,
    threads: Option<u32>,
    devices: Option<u32>,
    iterations: u64,
}

impl Plan {
    /// Of a row, for `seconds`, as far as its times say.
    fn of(row: &Row, seconds: f64) -> Plan {
        let operations = row.samples.saturating_mul(row.batch).max(1);
        let took = operations as f64 * row.latency_us.median.max(1e-3) / 1e6;
        let mut plan = Plan {
            method: row.method.clone(),
            size: row.bytes.or(row.elements),
            grid: grid(row).map(str::to_owned),
            // More than can be asked for are the benchmark's own choice.
            blocks: row.blocks.filter(|blocks| *blocks <= GRID_MAX),
            threads: row.threads,
            devices: devices(row),
            iterations: operations,
        };
        plan.stretch(MARGIN * seconds / took);
        plan
    }

    fn stretch(&mut self, factor: f64) {
        self.iterations = ((self.iterations as f64 * factor).ceil() as u64).clamp(1, 1 << 32);
    }

    fn options(&self, options: &Options) -> Options {
        Options {
            method: self.method.clone().or_else(|| options.method.clone()),
            sizes: self.size.map_or_else(|| options.sizes.clone(), |size| vec![size]),
            grid_of_row: self.grid.clone(),
            blocks: self.blocks.map_or_else(|| options.blocks.clone(), |blocks| vec![blocks]),
            threads: self.threads.map_or_else(|| options.threads.clone(), |threads| vec![threads]),
            devices: self.devices.map_or_else(|| options.devices.clone(), |devices| vec![devices]),
            iterations: Some(self.iterations),
            ..options.clone()
        }
    }
}

/// Runs a benchmark as [`Bench::run`] does, and each row again for at least `seconds`, counting its energy.
///
/// The rows have, for each class of components (`gpu`, `cpu`, `dram`; all of a class together): `W`, microjoules of an
/// operation, and the same above the idle power; the error bound of these, one step of the counter, in percent; and the
/// processor time of this process for an operation (without that of looks at counters). [`Report::energy`] has the rest. Only the first process of `team` counts.
///
/// # Errors
/// As [`Bench::run`]. Counters that cannot be read are no error: the report says why.
pub fn measure(
    bench: &dyn Bench,
    team: &Team,
    options: &Options,
    seconds: f64,
    progress: &mut Progress,
) -> Result<Report, BenchError> {
    let idle = || std::thread::sleep(Duration::from_secs_f64(MARGIN * seconds));
    measure_with(Meter::open(options), idle, bench, team, options, seconds, progress)
}

/// With these counters; nothing runs until `idle` returns.
fn measure_with(
    mut meter: Meter,
    idle: impl FnOnce(),
    bench: &dyn Bench,
    team: &Team,
    options: &Options,
    seconds: f64,
    progress: &mut Progress,
) -> Result<Report, BenchError> {
    let mut report = bench.run(team, options, progress)?;
    if !team.is_first() {
        while let [Some(plan), ..] = &team.gather(&None::<Plan>, options)?[..] {
            bench.run(team, &plan.options(options), &mut Progress::silent())?;
        }
        return Ok(report);
    }
    progress.now("energy while nothing runs");
    let mut facts = meter.idle(idle);
    let mut again = Again { bench, team, options, seconds, meter: &mut meter };
    progress.begin("energy", report.rows.len() as u64);
    let mut all_came = true;
    for at in 0..report.rows.len() {
        progress.now(report.rows[at].method.clone().unwrap_or_default());
        match again.row(&report.rows[at]) {
            Ok(Ok(run)) => {
                let failed = run.recording.failures().map(|(component, why)| {
                    format!("no energy of {component} in row {}: its counter failed: {why}", at + 1)
                });
                report.notes.extend(failed);
                run.fill(&mut report.rows[at], at, &mut facts);
            }
            Ok(Err(why)) => report.notes.push(format!("no energy of row {}: {why}", at + 1)),
            Err(error) => {
                incomplete(&mut report, at, &error);
                all_came = false;
                break;
            }
        }
        progress.step();
    }
    if all_came {
        team.gather(&None::<Plan>, options)?;
    }
    facts.missing = meter.missing;
    report.notes.extend(facts.missing.iter().map(|m| format!("no energy of {}: {}", m.component, m.reason)));
    report.energy = Some(facts);
    Ok(report)
}

/// What was measured is not lost where a run of a row fails. Nodes that waited in vain do not come to the next one.
fn incomplete(report: &mut Report, at: usize, error: &BenchError) {
    report.notes.push(format!("incomplete: row {} and those behind it have no energy", at + 1));
    let mut check = Check::default();
    check.wrong(1, || error.to_string());
    report.reject(check);
}

/// Runs rows again.
struct Again<'a> {
    bench: &'a dyn Bench,
    team: &'a Team,
    options: &'a Options,
    seconds: f64,
    meter: &'a mut Meter,
}

/// A run that was long enough.
struct Run {
    row: Row,
    /// Where in the recording the row's work was, in seconds.
    from: f64,
    to: f64,
    recording: Recording,
    /// Processor time of this process in that time, without that of looks at counters, in seconds.
    processor: f64,
    /// Kernels did the work; else the run as a whole was counted.
    by_kernels: bool,
}

impl Again<'_> {
    /// The row's second run, or why there is none.
    fn row(&mut self, row: &Row) -> Result<Result<Run, String>, BenchError> {
        let mut plan = Plan::of(row, self.seconds);
        for _ in 0..ATTEMPTS {
            let run = match self.run(&plan, row)? {
                Ok(run) => run,
                Err(why) => return Ok(Err(why)),
            };
            let took = run.to - run.from;
            if took >= self.seconds {
                return Ok(Ok(run));
            }
            plan.stretch((MARGIN * self.seconds / took.max(1e-3)).clamp(1.05, 1e4));
        }
        Ok(Err(format!("its work does not grow to {} s with the iterations", self.seconds)))
    }

    fn run(&mut self, plan: &Plan, like: &Row) -> Result<Result<Run, String>, BenchError> {
        self.team.gather(&Some(plan.clone()), self.options)?;
        span::take_longest();
        let recorder = self.meter.start();
        let whole = Span::begin();
        let report = self.bench.run(self.team, &plan.options(self.options), &mut Progress::silent());
        let whole = whole.end();
        let kernels = span::take_longest().filter(|kernels| kernels.length() > BY_KERNELS * whole.length());
        let counted = kernels.unwrap_or(whole);
        let (from, to) = (recorder.seconds(counted.from), recorder.seconds(counted.to));
        let looks = recorder.looks().as_secs_f64() * counted.length() / whole.length().max(f64::MIN_POSITIVE);
        let processor = (counted.processor.as_secs_f64() - looks).max(0.0);
        let recording = self.meter.stop(recorder);
        let report = report?;
        report.check()?;
        let mut rows: Vec<Row> = report.rows.into_iter().filter(|row| is_same(row, like)).collect();
        let Some(row) = rows.pop().filter(|_| rows.is_empty()) else {
            return Ok(Err("the benchmark does not run it alone".to_owned()));
        };
        Ok(Ok(Run { row, from, to, recording, processor, by_kernels: kernels.is_some() }))
    }
}

fn is_same(one: &Row, other: &Row) -> bool {
    let what = |row: &Row| (row.bytes, row.elements, row.nodes, row.blocks, row.threads, devices(row));
    (&one.method, grid(one), what(one)) == (&other.method, grid(other), what(other))
}

/// The grid that a row is of, where grids differ.
fn grid(row: &Row) -> Option<&str> {
    row.extra.get("grid")?.as_str()
}

/// The number of devices of a row of a program that runs on several.
fn devices(row: &Row) -> Option<u32> {
    row.extra.get("devices")?.as_u64().map(|count| count as u32)
}

impl Run {
    /// Gives `row` its columns.
    fn fill(self, row: &mut Row, at: usize, facts: &mut EnergyFacts) {
        // The rate of this run, which is not that of the row's first, shorter one.
        let alone = 1e6 / self.row.latency_us.median.max(1e-6);
        let per_second = self.row.rate_per_s.filter(|rate| *rate > 0.0).unwrap_or(alone);
        let work = Work { from: self.from, to: self.to, per_second };
        row.extra.extend(work.columns(&self.recording, facts));
        let whole = (self.to - self.from).max(f64::MIN_POSITIVE);
        row.extra.insert("process_cpu_us_per_op", (1e6 * self.processor / whole / per_second).into());
        row.extra.insert("energy_of", if self.by_kernels { "kernels" } else { "run" }.into());
        facts.power.extend(self.recording.power(Some(at)));
        facts.windows.push(work.window(&self.recording, at));
    }
}

#[cfg(test)]
mod tests;

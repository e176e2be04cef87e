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
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::super::counter::Found;
    use super::super::recording::Steps;
    use super::super::tests::{Rising, component};
    use super::super::{Class, Window};
    use super::*;
    use crate::Samples;

    /// A benchmark whose kernels, as it says, run until a counter was looked at often enough.
    struct Looked(Arc<AtomicU64>);

    impl Looked {
        fn wait(&self) {
            let enough = self.0.load(Ordering::Relaxed) + 20;
            while self.0.load(Ordering::Relaxed) < enough {
                std::thread::yield_now();
            }
        }
    }

    impl Bench for Looked {
        fn name(&self) -> &'static str {
            "looked"
        }

        fn about(&self) -> &'static str {
            "waits for looks at a counter"
        }

        fn run(&self, team: &Team, options: &Options, _: &mut Progress) -> Result<Report, BenchError> {
            let _counted = Span::begin();
            // Nobody looks before counters are recorded.
            if self.0.load(Ordering::Relaxed) > 0 {
                self.wait();
            }
            let mut report = Report::new(self.name(), team, options);
            report.push(Row::new(&Samples::new(vec![1000.0], 1)).method("write").bytes(8), Check::default());
            Ok(report)
        }
    }

    fn options() -> Options {
        Options { method: Some("write".into()), sizes: vec![8], iterations: Some(20), ..Options::default() }
    }

    #[test]
    fn rows_have_the_energy_of_their_kernels() {
        let looks = Arc::<AtomicU64>::default();
        let rising = component("gpu 0", Box::new(Rising(looks.clone())));
        let bench = Looked(looks);
        let run = |meter, bench: &dyn Bench, idle: &dyn Fn(), seconds| {
            measure_with(meter, idle, bench, &Team::alone(), &options(), seconds, &mut Progress::silent())
        };
        let meter = |components| Meter::of(Found { components, ..Found::default() });
        let report = run(meter(vec![rising]), &bench, &|| bench.wait(), 1e-6).expect("it runs");
        let row = &report.rows[0];
        let value = |key: &str| row.extra.get(key).and_then(|value| value.as_f64());
        assert!(value("gpu_w").is_some_and(|watts| watts > 0.0), "{row:?}");
        assert!(value("energy_s").is_some_and(|seconds| seconds > 0.0));
        assert_eq!(row.extra.get("energy_of"), Some(&"kernels".into()));
        assert!(value("cpu_w").is_none(), "what is not counted has no column");
        let facts = report.energy.as_ref().expect("facts");
        let rows: Vec<_> = facts.power.iter().map(|power| power.row).collect();
        assert_eq!((facts.counters.len(), &rows[..]), (1, &[None, Some(0)][..]));
        let window = facts.windows[0];
        assert!(facts.power[1].begin_s > 0.0, "it began behind the idle time: {facts:?}");
        assert!(window.from_s >= facts.power[1].begin_s && window.to_s > window.from_s, "{facts:?}");
        let bench = crate::find("ggas-pingpong").expect("there is one");
        let report = run(meter(Vec::new()), bench, &|| {}, 0.01).expect("it runs");
        assert!(!report.rows[0].extra.contains_key("gpu_w"));
        assert!(report.rows[0].extra.contains_key("process_cpu_us_per_op"));
    }

    /// Runs once.
    struct Once(AtomicU64);

    impl Bench for Once {
        fn name(&self) -> &'static str {
            "once"
        }

        fn about(&self) -> &'static str {
            "fails when it runs again"
        }

        fn run(&self, team: &Team, options: &Options, _: &mut Progress) -> Result<Report, BenchError> {
            if self.0.fetch_add(1, Ordering::Relaxed) > 0 {
                return Err(BenchError::Unsupported("it broke".into()));
            }
            let mut report = Report::new(self.name(), team, options);
            report.push(Row::new(&Samples::new(vec![1000.0], 1)).bytes(8), Check::default());
            Ok(report)
        }
    }

    #[test]
    fn a_row_that_fails_again_keeps_what_was_measured() {
        let meter = Meter::of(Found::default());
        let bench = Once(AtomicU64::new(0));
        let report =
            measure_with(meter, || {}, &bench, &Team::alone(), &options(), 0.01, &mut Progress::silent());
        let report = report.expect("what was measured");
        assert_eq!((report.rows.len(), report.verified), (1, false));
        assert!(report.first_error.as_deref().is_some_and(|error| error.contains("it broke")));
        assert!(report.notes.iter().any(|note| note.contains("incomplete")), "{:?}", report.notes);
    }

    #[test]
    fn a_row_s_energy_is_power_over_rate() {
        let mut steps = Steps::default();
        steps.steps.extend((0..11).map(|s| (f64::from(s), 100.0 * f64::from(s))));
        let run = Run {
            row: Row { rate_per_s: Some(1000.0), ..Row::default() },
            from: 0.5,
            to: 10.5,
            recording: Recording {
                begin_s: 20.0,
                parts: vec![(Class::Gpu, "gpu 0".into(), steps.clone()), (Class::Gpu, "gpu 1".into(), steps)],
            },
            processor: 5.0,
            by_kernels: true,
        };
        let idle = |component: &str| super::super::CounterFacts {
            component: component.into(),
            source: String::new(),
            step_j: 1.0,
            idle_w: 40.0,
            idle_s: 10.0,
        };
        let mut facts =
            EnergyFacts { counters: vec![idle("gpu 0"), idle("gpu 1")], ..EnergyFacts::default() };
        let mut row = Row::default();
        run.fill(&mut row, 0, &mut facts);
        let value = |key: &str| row.extra[key].as_f64().expect("a number");
        assert_eq!((value("gpu_w"), value("energy_s")), (200.0, 9.0));
        assert_eq!(value("gpu_uj_per_op"), 200_000.0);
        assert_eq!(value("gpu_uj_per_op_above_idle"), 120_000.0);
        assert!((value("energy_error_percent") - 100.0 / 9.0).abs() < 1e-9);
        assert_eq!(value("process_cpu_us_per_op"), 500.0);
        let points: Vec<(f64, f64)> = (1..11).map(|s| (f64::from(s), 100.0)).collect();
        assert_eq!(facts.power[0].points, points);
        assert_eq!(facts.windows, [Window { row: 0, from_s: 20.5, to_s: 30.5 }]);
    }

    #[test]
    fn a_second_run_is_as_long_as_asked_for() {
        let row = Row {
            samples: 100,
            batch: 10,
            latency_us: crate::Latency { median: 2.0, ..Default::default() },
            ..Row::default()
        };
        assert_eq!(Plan::of(&row, 10.0).iterations, 5_750_000, "10 s of 2 us, and a margin");
        let blocks = |blocks| Plan::of(&Row { blocks: Some(blocks), ..Row::default() }, 10.0).blocks;
        assert_eq!((blocks(1024), blocks(2032)), (Some(1024), None), "what cannot be asked for is not");
        let himeno = Row::default().with("grid", "8x8x16");
        let options = Plan::of(&himeno, 10.0).options(&Options::default());
        assert_eq!(
            options.grid_of_row.as_deref(),
            Some("8x8x16"),
            "grids with as many points are not run with it"
        );
        assert!(!is_same(&himeno, &Row::default().with("grid", "8x16x8")));
        let stencil = Row::default().with("devices", 4);
        assert_eq!(Plan::of(&stencil, 10.0).options(&Options::default()).devices, [4]);
        assert!(!is_same(&stencil, &Row::default().with("devices", 2)));
        let mut plan = Plan::of(&Row::default(), 10.0);
        plan.stretch(f64::INFINITY);
        assert_eq!(plan.iterations, 1 << 32);
    }
}

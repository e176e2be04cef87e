//! `hpe-stencil`: a cube that devices share by planes, at the four levels of the paper's listings and with overlap.

use std::time::Duration;

use ggas_hpe::{HpeError, Runtime, Tracking};

use super::cube::Cube;
use super::stencil_level::Level;
use super::stencil_run::Run;
use super::{device_counts, reach};
use crate::host::require_memory;
use crate::setup::{Setup, Worker};
use crate::team::Task;
use crate::{Bench, BenchError, Check, Device, Options, Progress, Report, Row, Samples, Team};

/// Steps of a run, which begins with the input and is a sample.
const STEPS: u64 = 10;

pub(crate) struct Stencil;

impl Bench for Stencil {
    fn name(&self) -> &'static str {
        "hpe-stencil"
    }

    fn about(&self) -> &'static str {
        "a step of a 27-point stencil on a cube shared by devices, sizes: points along a side (HPE listings 1 to 4)"
    }

    fn methods(&self) -> &'static [&'static str] {
        &Level::NAMES
    }

    fn by_windows(&self) -> bool {
        true
    }

    fn has_devices(&self) -> bool {
        true
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        let counts = device_counts(team, options)?;
        let userfault = userfault();
        let has = |level: &Level| match level {
            Level::Managed => options.device == Device::Gpu,
            Level::Userfault => userfault.is_ok(),
            _ => true,
        };
        let levels: Vec<_> =
            Level::ALL.into_iter().filter(|level| options.wants(level.name()) && has(level)).collect();
        let sizes = sizes(team, options, &counts, levels.len())?;
        let mut report = task.report();
        progress.begin(self.name(), (sizes.len() * counts.len()) as u64);
        let setup = Setup::new(task, Worker::Kernels)?;
        for &side in &sizes {
            let cube = Cube::new(side as usize, STEPS, options.seed);
            let mut measured = Vec::new();
            for &count in &counts {
                progress.now(format!("{side} points a side, {count} devices"));
                progress.step();
                let (here, not): (Vec<_>, Vec<_>) = match reach(&setup, count)? {
                    true => (levels.clone(), Vec::new()),
                    false => levels.iter().partition(|level| !level.reads_neighbours()),
                };
                let skipped = |level: Level| {
                    format!("{} on {count} devices: not run: they do not reach each other", level.name())
                };
                report.notes.extend(not.into_iter().map(skipped));
                let rows = measure(&setup, &cube, &here, count)?;
                measured.extend(here.into_iter().zip(rows).map(|(level, row)| (level as usize, count, row)));
            }
            // A level's numbers of devices, one under the other.
            measured.sort_by_key(|(level, ..)| *level);
            for (_, count, (row, check)) in measured {
                report.push(row.with("devices", count), check);
            }
        }
        if let Err(why) = userfault
            && options.wants(Level::Userfault.name())
        {
            report.notes.push(format!("userfault: not run: {why}"));
        } else if levels.is_empty() {
            report.notes.push("managed: not run: managed memory is CUDA's".to_owned());
        }
        report.notes.push(format!(
            "a time is of a step, `total ms` of {STEPS}; `copies`: calls that copy in a step; `exchange percent`: of all threads' time, waits for \
             neighbours included; levels take turns, and every run is compared with the host's, bit by bit"
        ));
        Ok(report)
    }
}

/// Whether shared objects by `userfaultfd` can be had; else why not.
fn userfault() -> Result<(), HpeError> {
    Runtime::builder().executors(1).tracking(Tracking::Userfault).build().map(drop)
}

fn sizes(team: &Team, options: &Options, counts: &[u32], levels: usize) -> Result<Vec<u64>, BenchError> {
    let usual: &[u64] = match options.device {
        Device::Cpu => &[32],
        Device::Gpu => &[64, 128, 256],
    };
    let sizes = options.sizes_or(usual, 3..=1024, 1)?;
    let devices = u64::from(team.size() * counts.iter().copied().max().unwrap_or(1));
    for &side in &sizes {
        if side < 2 * devices {
            let advice = format!(
                "{devices} devices have two planes each at least: use {} points or more, or fewer --devices",
                2 * devices
            );
            return Err(BenchError::option("sizes", side, advice));
        }
        // All levels are there at once.
        require_memory(side, side.pow(3) * 4 * (2 + 3 * levels as u64))?;
    }
    Ok(sizes)
}

/// Levels by turns: what slows down the machine for a while slows down all.
fn measure(
    setup: &Setup,
    cube: &Cube,
    levels: &[Level],
    devices: u32,
) -> Result<Vec<(Row, Check)>, BenchError> {
    let usual = if setup.options.device == Device::Gpu { 15 } else { 5 };
    let runs = setup.options.iterations.map_or(usual, |steps| steps.div_ceil(cube.steps));
    let mut all = Vec::new();
    for &level in levels {
        all.push((Run::new(setup, cube, level, devices as usize)?, Seen::default()));
    }
    // The first is warm-up.
    for number in 0..=runs {
        for turn in 0..all.len() {
            let (run, seen) = &mut all[(turn + number as usize) % levels.len()];
            let taken = seen.look(setup, run)?;
            if number > 0 {
                seen.keep(taken);
            }
        }
    }
    all.into_iter().map(|(run, seen)| seen.row(setup, cube, run.level)).collect()
}

/// What was seen of a level.
#[derive(Default)]
struct Seen {
    runs: Vec<Taken>,
    copies: u64,
    check: Check,
}

/// What a run took.
struct Taken {
    took: Duration,
    exchange_percent: f64,
    kernels_us: Option<f64>,
}

impl Seen {
    /// A run, and its bits.
    fn look(&mut self, setup: &Setup, run: &Run) -> Result<Taken, BenchError> {
        run.fill()?;
        setup.share::<()>(Vec::new())?;
        let before = run.copies();
        let (took, exchange_percent) = run.all_steps()?;
        self.copies = run.copies() - before;
        self.check.merge(run.compare()?);
        Ok(Taken { took, exchange_percent, kernels_us: run.kernels_us() })
    }

    fn keep(&mut self, taken: Taken) {
        self.runs.push(taken);
    }

    fn row(self, setup: &Setup, cube: &Cube, level: Level) -> Result<(Row, Check), BenchError> {
        let steps = cube.steps as f64;
        let ns = self.runs.iter().map(|taken| taken.took.as_nanos() as f64 / steps).collect();
        let (samples, check) = setup.collect(Some(Samples::new(ns, cube.steps)), self.check)?;
        let mut row = Row::new(&samples).method(level.name());
        row.elements = Some(cube.side as u64);
        let median = row.latency_us.median;
        row.rate_per_s = Some((cube.plane() * cube.side) as f64 * 1e6 / median.max(1e-9));
        let percent = self.runs.iter().map(|taken| taken.exchange_percent).sum::<f64>();
        row = row.with("total_ms", median * steps / 1e3);
        row = row.with("copies", self.copies as f64 / steps);
        row = row.with("exchange_percent", percent / self.runs.len().max(1) as f64);
        let kernels: Vec<_> = self.runs.iter().filter_map(|taken| taken.kernels_us).collect();
        if !kernels.is_empty() {
            row = row.with("kernels_us", middle(kernels));
        }
        Ok((row, check))
    }
}

fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

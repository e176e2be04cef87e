//! `hpe-stencil`: a cube that devices share by planes, at the four levels of the paper's listings and with overlap.

use ggas_hpe::{HpeError, Runtime, Tracking};

use super::cube::Cube;
use super::stencil_level::Level;
use super::stencil_run::Run;
use super::{device_counts, rows};
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
        let levels = Level::ALL.into_iter().filter(|level| options.wants(level.name()) && has(level));
        let levels: Vec<_> = levels.map(|level| (level, level.name(), level.reads_neighbours())).collect();
        let sizes = sizes(team, options, &counts)?;
        let mut report = task.report();
        progress.begin(self.name(), (levels.len() * sizes.len() * counts.len()) as u64);
        let setup = Setup::new(task, Worker::Kernels)?;
        for &side in &sizes {
            let cube = Cube::new(side as usize, STEPS, options.seed);
            let what = format!("{side} points a side");
            let measure = |level, count| measure(&setup, &cube, level, count);
            rows(&setup, (&levels, &counts, &what), (&mut report, progress), measure)?;
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
             neighbours included; every run is compared with the host's, bit by bit"
        ));
        Ok(report)
    }
}

/// Whether shared objects by `userfaultfd` can be had; else why not.
fn userfault() -> Result<(), HpeError> {
    Runtime::builder().executors(1).tracking(Tracking::Userfault).build().map(drop)
}

fn sizes(team: &Team, options: &Options, counts: &[u32]) -> Result<Vec<u64>, BenchError> {
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
        require_memory(side, side.pow(3) * 4 * 6)?;
    }
    Ok(sizes)
}

fn measure(setup: &Setup, cube: &Cube, level: Level, devices: u32) -> Result<(Row, Check), BenchError> {
    let run = Run::new(setup, cube, level, devices as usize)?;
    let runs = setup.options.iterations.map_or(5, |steps| steps.div_ceil(cube.steps));
    let (mut ns, mut check) = (Vec::new(), Check::default());
    let (mut copies, mut percent, mut kernels) = (0, 0.0, Vec::new());
    // The first is warm-up.
    for number in 0..=runs {
        run.fill()?;
        setup.share::<()>(Vec::new())?;
        let before = run.copies();
        let (took, exchanged) = run.all_steps()?;
        copies = run.copies() - before;
        check.merge(run.compare()?);
        if number > 0 {
            percent += exchanged / runs as f64;
            ns.push(took.as_nanos() as f64 / cube.steps as f64);
            kernels.extend(run.kernels_us());
        }
    }
    let (samples, check) = setup.collect(Some(Samples::new(ns, cube.steps)), check)?;
    let mut row = Row::new(&samples).method(level.name());
    row.elements = Some(cube.side as u64);
    let median = row.latency_us.median;
    row.rate_per_s = Some((cube.plane() * cube.side) as f64 * 1e6 / median.max(1e-9));
    row = row.with("total_ms", median * cube.steps as f64 / 1e3);
    row = row.with("copies", copies as f64 / cube.steps as f64).with("exchange_percent", percent);
    if !kernels.is_empty() {
        row = row.with("kernels_us", middle(kernels));
    }
    Ok((row, check))
}

fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

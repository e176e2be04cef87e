//! `cargo xtask vm`: the kernel modules in virtual machines, on the model as a PCI device.

mod beside;
mod checks;
mod debs;
mod debug;
mod defects;
mod desk;
mod image;
mod initramfs;
mod kernel;
mod lab;
mod logs;
mod machine;
mod programs;
mod rdma;
mod scenario;
mod stock;

use crate::place;
use crate::run::{tell_failure, worked};
use crate::setup::Policy;
use crate::test::seconds;
use anyhow::{Result, bail};
use debs::Archive;
use desk::Desk;
use ggas_table::Column;
use kernel::Kernel;
use lab::{Built, Job, Lab};
use scenario::{Boot, Scenario, When};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What to run.
#[derive(clap::Args)]
pub struct Select {
    /// On these kernels only (repeat it or separate by commas)
    #[arg(long, value_enum, value_delimiter = ',')]
    kernel: Vec<Kernel>,
    /// These scenarios only
    #[arg(long, value_delimiter = ',', value_name = "SCENARIO")]
    only: Vec<String>,
    /// Guests that run at the same time [default: one more than there are cores, as guests wait now and then]
    #[arg(long, value_name = "N")]
    guests: Option<NonZeroU32>,
    /// Also what tells little about the modules after every change (`daily` in the scenarios' heads), and takes long
    #[arg(long)]
    long: bool,
    /// As on this day since 1970, of scenarios whose kernels take turns [default: today]
    #[arg(long, value_name = "N", conflicts_with = "long")]
    day: Option<u32>,
    /// List the scenarios
    #[arg(long)]
    list: bool,
    /// Only fetch or build what is not there yet of what cargo does not build: QEMU, small programs, kernels
    #[arg(long, conflicts_with_all = ["only", "guests", "long", "day", "list", "defects"])]
    kernels: bool,
    /// Put each defect of tests/vm/defects into the modules and expect its scenario to fail (--only names defects then)
    #[arg(long, conflicts_with_all = ["kernel", "guests", "list", "long", "day"])]
    defects: bool,
}

impl Select {
    /// All scenarios on all kernels.
    pub fn everything() -> Select {
        let (kernel, only, guests) = (Vec::new(), Vec::new(), None);
        Select { kernel, only, guests, long: true, day: None, list: false, kernels: false, defects: false }
    }

    /// Who asks for a scenario gets it on all of its kernels.
    fn when(&self) -> When {
        let day = || place::day() as u32;
        if self.long || !self.only.is_empty() {
            return When::Long;
        }
        let day = self.day.unwrap_or_else(day);
        // Who asks for the debug kernel gets it, on a day that has it.
        When::Day(if self.kernel.contains(&Kernel::Debug) { day & !1 } else { day })
    }
}

/// Builds the modules for each kernel and runs the scenarios on it; all of them, even if one fails.
pub fn vm(select: &Select, policy: Policy) -> Result<()> {
    let (scenarios, when) = (Scenario::all()?, select.when());
    if select.defects {
        return defects::all(policy, &scenarios, &select.only);
    }
    if select.list {
        for scenario in &scenarios {
            let Scenario { name, guests, modules, .. } = scenario;
            let on = Kernel::ALL.iter().filter(|kernel| scenario.runs_on(**kernel, when));
            let on: Vec<_> = on.map(|kernel| kernel.name()).collect();
            let (modules, on) = (modules.join(" "), on.join(" "));
            say!("  {name:<14} {guests} guests  modules: {modules:<14} kernels: {on}");
        }
        return Ok(());
    }
    if let Some(name) = select.only.iter().find(|name| !scenarios.iter().any(|s| s.name == **name)) {
        bail!("no scenario is called `{name}`; `cargo xtask vm --list` lists them");
    }
    let mut kernels = if select.kernel.is_empty() { usable()? } else { select.kernel.clone() };
    kernels.retain(|kernel| when.has(*kernel));
    if select.kernels {
        let archive = archive(&kernels, policy)?;
        Lab::ahead(&archive, &scenarios)?;
        debug::style(&archive)?;
        return kernels.iter().try_for_each(|kernel| kernel.get(&archive).map(|_| ()));
    }
    let named = |s: &Scenario| select.only.is_empty() || select.only.contains(&s.name);
    let cores = std::thread::available_parallelism().map_or(2, |cores| cores.get() as u32);
    // Most scenarios have at most two guests.
    let room = select.guests.map_or(cores + 1, NonZeroU32::get).max(2);
    let chosen = |kernel: Kernel| -> Vec<&Scenario> {
        scenarios.iter().filter(|s| named(s) && s.runs_on(kernel, when)).collect()
    };
    for name in &select.only {
        if !kernels.iter().any(|kernel| chosen(*kernel).iter().any(|s| s.name == *name)) {
            bail!("scenario `{name}` is for other kernels; the head of tests/vm/{name}.sh says which");
        }
    }
    if let When::Day(day) = when {
        report!("      vm day {day}, of those whose kernels take turns (--day {day} repeats it) ...");
    }
    let start = Instant::now();
    let before = worked();
    let mut results = Vec::new();
    let archive = timed(&mut results, None, "archive", || archive(&kernels, policy));
    let end = |results: &[Outcome]| report(results, start.elapsed(), worked().saturating_sub(before));
    let Some(archive) = archive else { return end(&results) };
    if kernels.contains(&checks::STYLE) {
        timed(&mut results, None, "kernel's style", || debug::style(&archive));
    }
    // The debug kernel is built beside all else, which waits for downloads and single threads a good deal.
    let (slow, quick): (Vec<Kernel>, Vec<Kernel>) =
        kernels.iter().copied().partition(|kernel| *kernel == Kernel::Debug);
    let desk = Desk::new(room, 2);
    let bring = |kernels: &[Kernel]| {
        let (mut results, mut jobs) = (Vec::new(), Vec::new());
        for kernel in kernels {
            let chosen = chosen(*kernel);
            if let Some(built) = Built::prepare(*kernel, &archive, &chosen, &mut results) {
                let built = Arc::new(built);
                // More parts than cores would only boot more often.
                let boots = Boot::all(&chosen, room.min(cores.max(2)));
                jobs.extend(boots.into_iter().map(|boot| Job { built: built.clone(), boot }));
            }
        }
        desk.bring(jobs);
        results
    };
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| bring(&slow));
        let lab = timed(&mut results, None, "programs", || {
            Lab::new(&archive, scenarios.iter().filter(|s| named(s)))
        });
        let quick = scope.spawn(|| bring(&quick));
        let ran = lab.map_or(Vec::new(), |lab| lab.run(&desk));
        for thread in [quick, slow] {
            results.extend(lab::joined(thread));
        }
        results.extend(ran);
    });
    end(&results)
}

/// Debian's archive, and what modules for these kernels are built with.
fn archive(kernels: &[Kernel], policy: Policy) -> Result<Archive> {
    kernels.iter().try_for_each(|kernel| kernel.tools(policy))?;
    Archive::open()
}

/// The kernels that can be used here; says which cannot, and why. Nothing is left out of continuous integration.
fn usable() -> Result<Vec<Kernel>> {
    let mut usable = Vec::new();
    for kernel in Kernel::ALL {
        match kernel.missing() {
            None => usable.push(kernel),
            Some(why) if place::ci() => bail!("kernel {}: {why}", kernel.name()),
            Some(why) => report!("xtask: SKIPPED kernel {}: {why}", kernel.name()),
        }
    }
    Ok(usable)
}

/// A part of the work, and how it ended.
struct Outcome {
    /// `None`: it was for all of them.
    kernel: Option<Kernel>,
    what: String,
    time: Duration,
    failed: bool,
}

impl Outcome {
    /// Notes how a part of the work ended; a failure is told at once.
    fn of(kernel: Option<Kernel>, what: &str, time: Duration, result: Result<()>) -> Outcome {
        if let Err(error) = &result {
            tell_failure(&format!("vm: {} {what} FAILED: {error:#}", kernel.map_or("all", Kernel::name)));
        }
        Outcome { kernel, what: what.into(), time, failed: result.is_err() }
    }
}

/// Does a part of the work and notes how it ended.
fn timed<T>(
    results: &mut Vec<Outcome>,
    kernel: Option<Kernel>,
    what: &str,
    work: impl FnOnce() -> Result<T>,
) -> Option<T> {
    let start = Instant::now();
    let (result, told) = match work() {
        Ok(done) => (Some(done), Ok(())),
        Err(error) => (None, Err(error)),
    };
    results.push(Outcome::of(kernel, what, start.elapsed(), told));
    result
}

fn report(results: &[Outcome], whole: Duration, worked: Duration) -> Result<()> {
    let mut rows = Vec::new();
    for kernel in std::iter::once(None).chain(Kernel::ALL.map(Some)) {
        for Outcome { what, time, failed, .. } in results.iter().filter(|outcome| outcome.kernel == kernel) {
            let (name, word) =
                (kernel.map_or("all", Kernel::name), if *failed { "FAILED" } else { "passed" });
            rows.push([name, what, word, &seconds(*time)].map(str::to_owned));
        }
    }
    rows.push(["all of it", "", "", &seconds(whole)].map(str::to_owned));
    rows.push(["processors", "", "", &seconds(worked)].map(str::to_owned));
    let [kernel, step, result] = ["kernel", "step", "result"].map(Column::text);
    say!("\n{}", ggas_table::table(&[kernel, step, result, Column::number("time")], rows));
    match results.iter().filter(|outcome| outcome.failed).count() {
        0 => Ok(()),
        failed => bail!("{failed} of {} steps failed; logs are in build/vm/run and build/log", results.len()),
    }
}

//! `cargo xtask vm`: the kernel modules in virtual machines, on the model as a PCI device.

mod checks;
mod debs;
mod debug;
mod defects;
mod initramfs;
mod kernel;
mod lab;
mod machine;
mod programs;
mod scenario;

use crate::place;
use crate::setup::Policy;
use anyhow::{Result, bail};
use kernel::Kernel;
use lab::{Job, Lab};
use scenario::Scenario;
use std::num::NonZeroU32;
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
    /// Guests that run at the same time [default: as many as there are cores]
    #[arg(long, value_name = "N")]
    guests: Option<NonZeroU32>,
    /// List the scenarios
    #[arg(long)]
    list: bool,
    /// Put each defect of tests/vm/defects into the modules and expect its scenario to fail (--only names defects then)
    #[arg(long, conflicts_with_all = ["kernel", "guests", "list"])]
    defects: bool,
}

/// Builds the modules for each kernel and runs the scenarios on it; all of them, even if one fails.
pub fn vm(select: &Select, policy: Policy) -> Result<()> {
    let scenarios = Scenario::all()?;
    if select.defects {
        return defects::all(policy, &scenarios, &select.only);
    }
    if select.list {
        for Scenario { name, guests, modules, .. } in &scenarios {
            println!("  {name:<12} {guests} guests  modules: {}", modules.join(" "));
        }
        return Ok(());
    }
    if let Some(name) = select.only.iter().find(|name| !scenarios.iter().any(|s| s.name == **name)) {
        bail!("no scenario is called `{name}`; `cargo xtask vm --list` lists them");
    }
    let kernels = if select.kernel.is_empty() { usable()? } else { select.kernel.clone() };
    let named = |s: &Scenario| select.only.is_empty() || select.only.contains(&s.name);
    let start = Instant::now();
    let mut results = Vec::new();
    let lab =
        timed(&mut results, None, "programs", || Lab::new(policy, scenarios.iter().filter(|s| named(s))));
    let Some(lab) = lab else { return report(&results, start.elapsed()) };
    let mut ready = Vec::new();
    for kernel in kernels {
        let chosen = |s: &&Scenario| {
            named(s) && (s.kernels.is_empty() || s.kernels.iter().any(|k| k == kernel.name()))
        };
        let chosen: Vec<&Scenario> = scenarios.iter().filter(chosen).collect();
        if let Some(built) = lab.prepare(kernel, &chosen, &mut results) {
            ready.push((built, chosen));
        }
    }
    let jobs = ready.iter().flat_map(|(built, chosen)| chosen.iter().map(|scenario| Job { built, scenario }));
    let cores = std::thread::available_parallelism().map_or(2, |cores| cores.get() as u32);
    results.extend(lab.run(jobs.collect(), select.guests.map_or(cores, NonZeroU32::get)));
    report(&results, start.elapsed())
}

/// The kernels that can be used here; says which cannot, and why. Nothing is left out of continuous integration.
fn usable() -> Result<Vec<Kernel>> {
    let mut usable = Vec::new();
    for kernel in Kernel::ALL {
        match kernel.missing() {
            None => usable.push(kernel),
            Some(why) if place::ci() => bail!("kernel {}: {why}", kernel.name()),
            Some(why) => eprintln!("xtask: SKIPPED kernel {}: {why}", kernel.name()),
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

/// Does a part of the work and notes how it ended; a failure is told at once.
fn timed<T>(
    results: &mut Vec<Outcome>,
    kernel: Option<Kernel>,
    what: &str,
    work: impl FnOnce() -> Result<T>,
) -> Option<T> {
    let start = Instant::now();
    let result = work();
    let name = kernel.map_or("all", Kernel::name);
    if let Err(error) = &result {
        eprintln!("{name} {what} FAILED: {error:#}");
    }
    results.push(Outcome { kernel, what: what.into(), time: start.elapsed(), failed: result.is_err() });
    result.ok()
}

fn report(results: &[Outcome], whole: Duration) -> Result<()> {
    println!("\n  {:<7} {:<22} {:<8} {:>9}", "kernel", "step", "result", "time");
    for kernel in std::iter::once(None).chain(Kernel::ALL.map(Some)) {
        for Outcome { what, time, failed, .. } in results.iter().filter(|outcome| outcome.kernel == kernel) {
            let (name, word) =
                (kernel.map_or("all", Kernel::name), if *failed { "FAILED" } else { "passed" });
            println!("  {name:<7} {what:<22} {word:<8} {:>7.1} s", time.as_secs_f64());
        }
    }
    println!("  all of it {:>44.1} s", whole.as_secs_f64());
    match results.iter().filter(|outcome| outcome.failed).count() {
        0 => Ok(()),
        failed => bail!("{failed} of {} steps failed; logs are in build/vm/run and build/log", results.len()),
    }
}

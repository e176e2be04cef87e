//! `cargo xtask vm`: the kernel modules in virtual machines, on the model as a PCI device.

mod checks;
mod debs;
mod debug;
mod initramfs;
mod kernel;
mod machine;
mod programs;
mod scenario;

use crate::place;
use crate::run::{Step, cargo};
use crate::setup::Policy;
use anyhow::{Context, Result, bail};
use debs::Archive;
use kernel::{Installed, Kernel};
use machine::{Emulator, Guest, Guests, Server};
use scenario::Scenario;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Checks make a kernel this much slower at most.
const DEBUG_FACTOR: u32 = 5;
/// A guest boots in 4 s on a machine that has nothing else to do, the debug kernel's in 15 s. Busy machines have
/// taken ten times as long.
const BOOT: Duration = Duration::from_secs(120);

/// What to run.
#[derive(clap::Args)]
pub struct Select {
    /// On these kernels only (repeat it or separate by commas)
    #[arg(long, value_enum, value_delimiter = ',')]
    kernel: Vec<Kernel>,
    /// These scenarios only
    #[arg(long, value_delimiter = ',', value_name = "SCENARIO")]
    only: Vec<String>,
    /// List the scenarios
    #[arg(long)]
    list: bool,
}

/// Builds the modules for each kernel and runs the scenarios on it; all of them, even if one fails.
pub fn vm(select: &Select, policy: Policy) -> Result<()> {
    let scenarios = Scenario::all()?;
    if select.list {
        for scenario in &scenarios {
            println!(
                "  {:<12} {} guests  modules: {}",
                scenario.name,
                scenario.guests,
                scenario.modules.join(" ")
            );
        }
        return Ok(());
    }
    if let Some(name) = select.only.iter().find(|name| !scenarios.iter().any(|s| s.name == **name)) {
        bail!("no scenario is called `{name}`; `cargo xtask vm --list` lists them");
    }
    let kernels = if select.kernel.is_empty() { usable() } else { select.kernel.clone() };
    let lab = Lab::new()?;
    let mut results = Vec::new();
    for kernel in kernels {
        let chosen = |s: &&Scenario| {
            let named = select.only.is_empty() || select.only.contains(&s.name);
            named && (s.kernels.is_empty() || s.kernels.iter().any(|k| k == kernel.name()))
        };
        let chosen: Vec<&Scenario> = scenarios.iter().filter(chosen).collect();
        results.extend(lab.run(kernel, &chosen, policy));
    }
    report(&results)
}

/// The kernels that can be used here; says which cannot, and why.
fn usable() -> Vec<Kernel> {
    let usable = |kernel: &Kernel| {
        let missing = kernel.missing();
        if let Some(why) = missing {
            eprintln!("xtask: SKIPPED kernel {}: {why}", kernel.name());
        }
        missing.is_none()
    };
    Kernel::ALL.into_iter().filter(usable).collect()
}

struct Outcome {
    kernel: Kernel,
    what: String,
    time: Duration,
    error: Option<anyhow::Error>,
}

fn report(results: &[Outcome]) -> Result<()> {
    println!("\n  {:<7} {:<22} {:<8} {:>9}", "kernel", "step", "result", "time");
    for Outcome { kernel, what, time, error } in results {
        let word = if error.is_some() { "FAILED" } else { "passed" };
        println!("  {:<7} {what:<22} {word:<8} {:>7.1} s", kernel.name(), time.as_secs_f64());
    }
    match results.iter().filter(|outcome| outcome.error.is_some()).count() {
        0 => Ok(()),
        failed => bail!("{failed} of {} steps failed; logs are in build/vm/run and build/log", results.len()),
    }
}

/// What all kernels share.
struct Lab {
    archive: Archive,
    emulator: Emulator,
    server: PathBuf,
    /// Programs for the guests.
    programs: Vec<PathBuf>,
}

impl Lab {
    fn new() -> Result<Lab> {
        let archive = Archive::open()?;
        let emulator = Emulator::get(&archive)?;
        let build = cargo(&["build", "--package", "extoll-vm"]);
        Step { name: "vm server", command: build, limit: Duration::from_secs(900) }.run()?;
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or(place::root().join("target"), PathBuf::from);
        Ok(Lab {
            archive,
            emulator,
            server: target.join("debug/extoll-vm-server"),
            programs: programs::all()?,
        })
    }

    /// Everything on one kernel.
    fn run(&self, kernel: Kernel, scenarios: &[&Scenario], policy: Policy) -> Vec<Outcome> {
        let mut results = Vec::new();
        let mut timed = |what: &str, work: &mut dyn FnMut() -> Result<()>| {
            let start = Instant::now();
            let error = work().err();
            if let Some(error) = &error {
                eprintln!("{} {what}: {error:#}", kernel.name());
            }
            results.push(Outcome { kernel, what: what.into(), time: start.elapsed(), error });
        };
        let mut installed = None;
        timed("kernel", &mut || {
            installed = Some(kernel.get(&self.archive, policy)?);
            Ok(())
        });
        let Some(installed) = installed else { return results };
        let mut modules = Vec::new();
        let mut wanted: Vec<String> = scenarios.iter().flat_map(|s| s.modules.clone()).collect();
        wanted.sort();
        wanted.dedup();
        for module in &wanted {
            timed(&format!("build {module}"), &mut || {
                modules.push((module.clone(), installed.modules(module, &[])?));
                Ok(())
            });
        }
        for (name, check) in checks::of(kernel).iter().filter(|_| !wanted.is_empty()) {
            timed(name, &mut || check(&installed, &wanted));
        }
        for scenario in scenarios {
            timed(&scenario.name, &mut || self.scenario(&installed, &modules, scenario));
        }
        results
    }

    fn scenario(&self, kernel: &Installed, modules: &[(String, PathBuf)], scenario: &Scenario) -> Result<()> {
        eprintln!("      vm {} {} ...", kernel.release, scenario.name);
        let dir = machine::run_folder()?;
        let stem = format!("{}-{}", kernel.kernel.name(), scenario.name);
        let mut files = machine::base(&self.emulator, &scenario.script)?;
        for program in &self.programs {
            let name = program.file_name().unwrap_or_default().to_string_lossy();
            files.copy(&format!("bin/{name}"), program)?;
        }
        for name in &scenario.modules {
            let built = modules.iter().find(|(module, _)| module == name);
            let (_, built) = built.with_context(|| format!("module {name} was not built"))?;
            for entry in std::fs::read_dir(built)? {
                let path = entry?.path();
                if path.extension().is_some_and(|extension| extension == "ko") {
                    files.copy(&path.file_name().unwrap_or_default().to_string_lossy(), &path)?;
                }
            }
        }
        let initrd = dir.join(format!("{stem}.cpio"));
        std::fs::write(&initrd, files.finish())?;
        let outcome = self.boot(kernel, scenario, &dir, &stem, &initrd);
        // Many MB each, and quickly made again.
        let _ = std::fs::remove_file(&initrd);
        outcome
    }

    fn boot(
        &self,
        kernel: &Installed,
        scenario: &Scenario,
        dir: &Path,
        stem: &str,
        initrd: &Path,
    ) -> Result<()> {
        let (mut arguments, mut guests) = (Vec::new(), Vec::new());
        for node in 0..scenario.guests {
            let nic = dir.join(format!("{node}.sock"));
            let mut devices = vec![nic.clone()];
            let mut argument = format!("nic={}", nic.display());
            if scenario.gpu > 0 {
                let gpu = dir.join(format!("{node}-gpu.sock"));
                argument += &format!(",gpu={}:{}", gpu.display(), scenario.gpu);
                devices.push(gpu);
            }
            arguments.extend(["--guest".to_owned(), argument]);
            let log = dir.join(format!("{stem}-{node}.log"));
            let _ = std::fs::remove_file(&log);
            let mut words = vec![format!("vm_node={node}"), format!("vm_nodes={}", scenario.guests)];
            words.push(format!("vm_peer={}", (node + 1) % scenario.guests));
            guests.push(Guest { devices, log, words });
        }
        let server = Server::start(&self.server, &arguments, &dir.join(format!("{stem}-server.log")))?;
        let factor = if kernel.kernel == Kernel::Debug { DEBUG_FACTOR } else { 1 };
        Guests::start(&self.emulator, kernel, initrd, &guests)?.finish(BOOT + scenario.limit * factor)?;
        server.finish()
    }
}

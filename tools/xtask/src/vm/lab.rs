//! What all kernels share, and guests side by side.

use super::debs::Archive;
use super::kernel::{Installed, Kernel};
use super::machine::{self, Emulator, Guest, Guests, Server};
use super::programs::{self, Program};
use super::scenario::Scenario;
use super::{Outcome, checks, timed};
use crate::setup::Policy;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Checks make a kernel this much slower at most.
const DEBUG_FACTOR: u32 = 5;
/// A guest boots in 4 s on a machine that has nothing else to do, the debug kernel's in 15 s. Busy machines have
/// taken ten times as long.
const BOOT: Duration = Duration::from_secs(120);

/// QEMU, and what runs in and beside it.
pub struct Lab {
    pub archive: Archive,
    emulator: Emulator,
    programs: Vec<Program>,
    pub policy: Policy,
}

/// A kernel, and the modules that were built for it: folder of `kmod`, folder with the `.ko` files.
pub struct Built {
    pub kernel: Installed,
    pub modules: Vec<(String, PathBuf)>,
}

/// A scenario on a kernel.
#[derive(Clone, Copy)]
pub struct Job<'a> {
    pub built: &'a Built,
    pub scenario: &'a Scenario,
}

impl Lab {
    /// With the programs on the library that these scenarios start.
    pub fn new<'a>(policy: Policy, scenarios: impl IntoIterator<Item = &'a Scenario>) -> Result<Lab> {
        let archive = Archive::open()?;
        let emulator = Emulator::get(&archive)?;
        let large = scenarios.into_iter().flat_map(|s| s.programs.iter().map(String::as_str)).collect();
        Ok(Lab { archive, emulator, programs: programs::build(&large)?, policy })
    }

    /// Fetches a kernel, builds the modules that the scenarios load, and checks them. `None` without a kernel.
    pub fn prepare(
        &self,
        kernel: Kernel,
        scenarios: &[&Scenario],
        results: &mut Vec<Outcome>,
    ) -> Option<Built> {
        let mut step =
            |what: &str, work: &mut dyn FnMut() -> Result<()>| timed(results, Some(kernel), what, work);
        let mut installed = None;
        step("kernel", &mut || {
            installed = Some(kernel.get(&self.archive, self.policy)?);
            Ok(())
        });
        let mut built = Built { kernel: installed?, modules: Vec::new() };
        let mut wanted: Vec<String> = scenarios.iter().flat_map(|s| s.modules.clone()).collect();
        wanted.sort();
        wanted.dedup();
        for module in &wanted {
            step(&format!("build {module}"), &mut || {
                built.modules.push((module.clone(), built.kernel.modules(module, &[])?));
                Ok(())
            });
        }
        for (name, check) in checks::of(kernel).iter().filter(|_| !wanted.is_empty()) {
            step(name, &mut || check(&built.kernel, &wanted));
        }
        Some(built)
    }

    /// Runs all of them, side by side as far as there is room for their guests.
    pub fn run(&self, jobs: Vec<Job<'_>>, room: u32) -> Vec<Outcome> {
        let desk = Desk::new(jobs, room);
        let workers = || {
            let mut results = Vec::new();
            while let Some(job) = desk.take() {
                let (kernel, scenario) = (job.built.kernel.kernel, job.scenario);
                let what = format!("{} {}", kernel.name(), scenario.name);
                eprintln!("      vm {what} on {} ...", job.built.kernel.release);
                let stem = format!("{}-{}", kernel.name(), scenario.name);
                timed(&mut results, Some(kernel), &scenario.name, || self.scenario(job, &stem));
                if let Some(Outcome { time, failed: false, .. }) = results.last() {
                    eprintln!("      vm {what}: passed, {:.1} s", time.as_secs_f64());
                }
                desk.give_back(scenario.guests);
            }
            results
        };
        let mut results: Vec<Outcome> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..desk.room).map(|_| scope.spawn(workers)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
        });
        results.sort_by(|a, b| a.what.cmp(&b.what));
        results
    }

    /// Runs one; its logs are `STEM-NODE.log` in the folder of runs.
    pub fn scenario(&self, Job { built, scenario }: Job, stem: &str) -> Result<()> {
        let dir = machine::run_folder()?;
        let mut files = machine::base(&self.emulator, &scenario.script)?;
        if let Some(name) =
            scenario.programs.iter().find(|name| !self.programs.iter().any(|p| p.name == **name))
        {
            bail!("no program is called `{name}`");
        }
        let wanted = |program: &&Program| program.small || scenario.programs.contains(&program.name);
        for (path, here) in self.programs.iter().filter(wanted).flat_map(|program| &program.files) {
            files.copy(path, here)?;
        }
        for name in &scenario.modules {
            let folder = built.modules.iter().find(|(module, _)| module == name);
            let (_, folder) = folder.with_context(|| format!("module {name} was not built"))?;
            for entry in std::fs::read_dir(folder)? {
                let path = entry?.path();
                if path.extension().is_some_and(|extension| extension == "ko") {
                    files.copy(&path.file_name().unwrap_or_default().to_string_lossy(), &path)?;
                }
            }
        }
        let initrd = dir.join(format!("{stem}.cpio"));
        std::fs::write(&initrd, files.finish())?;
        let outcome = boot(&self.emulator, &built.kernel, scenario, &dir, stem, &initrd);
        // Many MB each, and quickly made again.
        let _ = std::fs::remove_file(&initrd);
        outcome
    }
}

fn boot(
    emulator: &Emulator,
    kernel: &Installed,
    scenario: &Scenario,
    dir: &Path,
    stem: &str,
    initrd: &Path,
) -> Result<()> {
    let (mut arguments, mut guests) = (Vec::new(), Vec::new());
    for node in 0..scenario.guests {
        let nic = |card| dir.join(format!("{stem}-{node}-{card}.sock"));
        let mut devices: Vec<PathBuf> = (0..scenario.cards).map(nic).collect();
        let nics: Vec<String> = devices.iter().map(|nic| format!("nic={}", nic.display())).collect();
        let mut argument = nics.join(",");
        if scenario.gpu > 0 {
            let gpu = dir.join(format!("{stem}-{node}-gpu.sock"));
            argument += &format!(",gpu={}:{}", gpu.display(), scenario.gpu);
            devices.push(gpu);
        }
        arguments.extend(["--guest".to_owned(), argument]);
        let log = dir.join(format!("{stem}-{node}.log"));
        let _ = std::fs::remove_file(&log);
        let mut words = vec![format!("vm_node={node}"), format!("vm_nodes={}", scenario.guests)];
        words.push(format!("vm_peer={}", (node + 1) % scenario.guests));
        words.extend(
            std::env::var("VM_WORDS").iter().flat_map(|more| more.split_whitespace().map(str::to_owned)),
        );
        let Scenario { memory, processors, iommu, icount, .. } = *scenario;
        guests.push(Guest { devices, memory, processors, iommu, icount, log, words });
    }
    if scenario.trouble || scenario.orphan {
        arguments.push("--trouble".to_owned());
    }
    if scenario.msix {
        arguments.push("--msix".to_owned());
    }
    if scenario.trap {
        arguments.push("--trap".to_owned());
    }
    let server = Server::start(&programs::server(), &arguments, &dir.join(format!("{stem}-server.log")))?;
    let factor = if kernel.kernel == Kernel::Debug { DEBUG_FACTOR } else { 1 };
    Guests::start(emulator, kernel, initrd, &guests)?.finish(BOOT + scenario.limit * factor)?;
    server.finish(scenario.orphan)
}

/// Hands out jobs, the longest first, to as many as there is room for.
struct Desk<'a> {
    room: u32,
    /// Jobs that wait, and guests that there is room for now.
    state: Mutex<(Vec<Job<'a>>, u32)>,
    changed: Condvar,
}

impl<'a> Desk<'a> {
    fn new(mut jobs: Vec<Job<'a>>, room: u32) -> Desk<'a> {
        let room = jobs.iter().map(|job| job.scenario.guests).max().unwrap_or(0).max(room);
        let slow =
            |job: &Job| (job.built.kernel.kernel == Kernel::Debug, job.scenario.guests, job.scenario.limit);
        jobs.sort_by_key(|job| std::cmp::Reverse(slow(job)));
        Desk { room, state: Mutex::new((jobs, room)), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, (Vec<Job<'a>>, u32)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next job that there is room for; `None` once none is left.
    fn take(&self) -> Option<Job<'a>> {
        let mut state = self.state();
        while !state.0.is_empty() {
            let free = state.1;
            if let Some(at) = state.0.iter().position(|job| job.scenario.guests <= free) {
                let job = state.0.remove(at);
                state.1 -= job.scenario.guests;
                return Some(job);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        None
    }

    fn give_back(&self, guests: u32) {
        self.state().1 += guests;
        self.changed.notify_all();
    }
}

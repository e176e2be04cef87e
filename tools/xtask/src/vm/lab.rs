//! What all kernels share, and guests side by side.

use super::beside::{Beside, NETWORK};
use super::debs::Archive;
use super::desk::Desk;
use super::initramfs::Initramfs;
use super::kernel::{Installed, Kernel};
use super::machine::{self, Emulator, Guest, Guests, Server};
use super::programs::{self, Program};
use super::scenario::{Boot, Scenario};
use super::stock;
use super::{Outcome, checks, logs, timed};
use anyhow::{Context, Error, Result, anyhow, bail};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

/// Checks make a kernel this much slower at most.
const DEBUG_FACTOR: u32 = 5;
/// Limits are times of a machine like ours. Others are slower, busy, or stand still for a while; a guest that hangs is
/// ended after that.
const SLOW_FACTOR: u32 = 3;
/// What faults of links are chosen from.
const FAULTS: &str = "17";
/// A guest boots in 4 s on a machine that has nothing else to do, the debug kernel's in 15 s. Busy machines have
/// taken ten times as long.
const BOOT: Duration = Duration::from_secs(300);

/// QEMU, and what runs in and beside it.
pub struct Lab {
    emulator: Emulator,
    programs: Vec<Program>,
}

/// A kernel, and the modules that were built for it: folder of `kmod`, folder with the `.ko` files.
pub struct Built {
    pub kernel: Installed,
    pub modules: Vec<(String, PathBuf)>,
}

/// Scenarios on a kernel, in one guest each or several.
pub struct Job<'a> {
    pub built: Arc<Built>,
    pub boot: Boot<'a>,
}

impl Built {
    /// Fetches a kernel, builds the modules that the scenarios load, and checks them. `None` without a kernel.
    pub fn prepare(
        kernel: Kernel,
        archive: &Archive,
        scenarios: &[&Scenario],
        results: &mut Vec<Outcome>,
    ) -> Option<Built> {
        let mut step =
            |what: &str, work: &mut dyn FnMut() -> Result<()>| timed(results, Some(kernel), what, work);
        let mut installed = None;
        step("kernel", &mut || {
            installed = Some(kernel.get(archive)?);
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
}

impl Lab {
    /// With the programs on the library that these scenarios start.
    pub fn new<'a>(archive: &Archive, scenarios: impl IntoIterator<Item = &'a Scenario>) -> Result<Lab> {
        let emulator = Emulator::get(archive)?;
        let scenarios: Vec<_> = scenarios.into_iter().collect();
        let large = large(scenarios.iter().copied());
        let hosts = scenarios.iter().map(|s| s.host.as_str()).filter(|name| !name.is_empty()).collect();
        let wired = scenarios.iter().any(|s| s.wire.is_some());
        Ok(Lab { emulator, programs: programs::build(archive, &large, &hosts, wired)? })
    }

    /// Fetches and compiles what [`Lab::new`] needs and cargo does not build.
    pub fn ahead<'a>(archive: &Archive, scenarios: impl IntoIterator<Item = &'a Scenario>) -> Result<()> {
        Emulator::get(archive)?;
        programs::small(archive, &large(scenarios)).map(|_| ())
    }

    /// Runs all that the desk has and gets, side by side as far as there is room for their guests.
    pub fn run(&self, desk: &Desk<'_>) -> Vec<Outcome> {
        let workers = || {
            let mut results = Vec::new();
            while let Some((job, _room)) = desk.take() {
                let (kernel, machine) = (&job.built.kernel, &job.boot.machine);
                report!("      vm {} {} on {} ...", kernel.kernel.name(), machine.name, kernel.release);
                let stem = format!("{}-{}", kernel.kernel.name(), job.boot.scenarios[0].name);
                for (scenario, (time, result)) in job.boot.scenarios.iter().zip(self.boot(&job, &stem)) {
                    let outcome = Outcome::of(Some(kernel.kernel), &scenario.name, time, result);
                    if !outcome.failed {
                        let (name, time) = (kernel.kernel.name(), time.as_secs_f64());
                        report!("      vm {name} {}: passed, {time:.1} s", scenario.name);
                    }
                    results.push(outcome);
                }
            }
            results
        };
        let mut results: Vec<Outcome> = std::thread::scope(|scope| {
            // Two more for what takes no room.
            let threads: Vec<_> = (0..desk.room() + 2).map(|_| scope.spawn(workers)).collect();
            threads.into_iter().flat_map(joined).collect()
        });
        results.sort_by(|a, b| a.what.cmp(&b.what));
        results
    }

    /// Boots a job's guests and lets them run its scenarios: how each ended, and its time. Logs are `STEM-NODE.log` in the
    /// folder of runs.
    pub fn boot(&self, job: &Job<'_>, stem: &str) -> Vec<(Duration, Result<()>)> {
        let start = Instant::now();
        self.try_boot(job, stem).unwrap_or_else(|error| {
            let mut all = vec![(start.elapsed(), Err(error))];
            let not_run =
                || (Duration::ZERO, Err(Error::msg("not run: its guest did not start or end well")));
            all.resize_with(job.boot.scenarios.len(), not_run);
            all
        })
    }

    fn try_boot(&self, Job { built, boot }: &Job<'_>, stem: &str) -> Result<Vec<(Duration, Result<()>)>> {
        let dir = machine::run_folder()?;
        let initrd = dir.join(format!("{stem}.cpio"));
        std::fs::write(&initrd, self.files(built, boot)?.finish())?;
        let run = || start(&self.emulator, &built.kernel, boot, &dir, stem, &initrd);
        let mut outcome = run();
        // Kernels have a race of their own where timers are set up (`mask_ioapic_irq`), which says nothing of modules.
        let failed = outcome.as_ref().is_ok_and(|all| all.iter().any(|(_, result)| result.is_err()));
        let logs = (0..boot.machine.guests).map(|node| dir.join(format!("{stem}-{node}.log")));
        if failed && logs.into_iter().any(|log| logs::fell_before_its_first_program(&log)) {
            let kernel = built.kernel.kernel.name();
            report!("      vm {kernel} {stem}: the kernel fell before its first program: once more");
            outcome = run();
        }
        // Many MB each, and quickly made again.
        let _ = std::fs::remove_file(&initrd);
        outcome
    }

    /// The guests' files: scripts, the programs that they name, modules.
    fn files(&self, built: &Built, Boot { scenarios, machine }: &Boot<'_>) -> Result<Initramfs> {
        let mut files = machine::base(&self.emulator, scenarios)?;
        if let Some(name) =
            machine.programs.iter().find(|name| !self.programs.iter().any(|p| p.name == **name))
        {
            bail!("no program is called `{name}`");
        }
        let scripts = scenarios.iter().map(|s| std::fs::read_to_string(&s.script));
        let scripts = scripts.collect::<std::io::Result<String>>()?;
        let words: BTreeSet<&str> =
            scripts.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-').collect();
        let wanted = |program: &&Program| match program.small {
            true => words.contains(program.name.as_str()),
            false => machine.programs.contains(&program.name),
        };
        let chosen = self.programs.iter().filter(wanted).flat_map(|program| &program.files);
        // Programs have libraries in common.
        for (path, here) in chosen.collect::<BTreeSet<_>>() {
            files.copy(path, here)?;
        }
        if !machine.stock.is_empty() {
            let stock = stock::modules(built.kernel.stock()?, &machine.stock)?;
            for (i, (name, module)) in stock.iter().enumerate() {
                files.file(&format!("modules/{i:02}-{name}.ko"), module);
            }
        }
        for name in &machine.modules {
            let folder = built.modules.iter().find(|(module, _)| module == name);
            let (_, folder) = folder.with_context(|| format!("module {name} was not built"))?;
            for entry in std::fs::read_dir(folder)? {
                let path = entry?.path();
                if path.extension().is_some_and(|extension| extension == "ko") {
                    files.copy(&path.file_name().unwrap_or_default().to_string_lossy(), &path)?;
                }
            }
        }
        Ok(files)
    }
}

/// The large programs that scenarios start.
fn large<'a>(scenarios: impl IntoIterator<Item = &'a Scenario>) -> BTreeSet<&'a str> {
    scenarios.into_iter().flat_map(|s| s.programs.iter().map(String::as_str)).collect()
}

fn start(
    emulator: &Emulator,
    kernel: &Installed,
    Boot { scenarios, machine }: &Boot<'_>,
    dir: &Path,
    stem: &str,
    initrd: &Path,
) -> Result<Vec<(Duration, Result<()>)>> {
    let (mut arguments, mut guests) = (Vec::new(), Vec::new());
    for node in 0..machine.guests {
        let nic = |card| dir.join(format!("{stem}-{node}-{card}.sock"));
        let mut devices: Vec<PathBuf> = (0..machine.cards).map(nic).collect();
        let nics: Vec<String> = devices.iter().map(|nic| format!("nic={}", nic.display())).collect();
        let mut argument = nics.join(",");
        if machine.gpu > 0 {
            let gpu = dir.join(format!("{stem}-{node}-gpu.sock"));
            argument += &format!(",gpu={}:{}", gpu.display(), machine.gpu);
            devices.push(gpu);
        }
        if !argument.is_empty() {
            arguments.extend(["--guest".to_owned(), argument]);
        }
        let log = dir.join(format!("{stem}-{node}.log"));
        let _ = std::fs::remove_file(&log);
        let mut words = vec![format!("vm_node={node}"), format!("vm_nodes={}", machine.guests)];
        words.push(format!("vm_peer={}", (node + 1) % machine.guests));
        words.extend(
            std::env::var("VM_WORDS").iter().flat_map(|more| more.split_whitespace().map(str::to_owned)),
        );
        let Scenario { memory, processors, iommu, icount, orphan, sleeps, .. } = *machine;
        let together = machine.gpu > 0 && !machine.apart;
        let wire = machine.wire.as_ref().map(|_| (dir.join(format!("{stem}-{node}-wire.sock")), node));
        guests.push(Guest {
            devices,
            together,
            memory,
            processors,
            iommu,
            icount,
            orphan,
            sleeps,
            wire,
            log,
            words,
        });
    }
    if machine.trouble || machine.orphan {
        arguments.push("--trouble".to_owned());
    }
    if machine.msix {
        arguments.push("--msix".to_owned());
    }
    if machine.trap {
        arguments.push("--trap".to_owned());
    }
    if machine.faults {
        arguments.extend(["--faults", FAULTS].map(str::to_owned));
    }
    let beside = (!machine.host.is_empty()).then(|| Beside::new(&machine.host, dir, stem));
    let network = beside.as_ref().map(|beside| beside.network.as_path());
    if network.is_some() {
        arguments.extend(["--network", NETWORK, "--node", "0"].map(str::to_owned));
    }
    // Guests without devices need no server of them.
    let server = guests.iter().any(|guest| !guest.devices.is_empty()).then(|| {
        Server::start(&programs::server(), &arguments, &dir.join(format!("{stem}-server.log")), network)
    });
    let server = server.transpose()?;
    let wire = wire(machine, &guests, dir, stem)?;
    let beside =
        beside.map(|beside| beside.start(&programs::host(&machine.host), machine.guests)).transpose()?;
    let factor = if kernel.kernel == Kernel::Debug { DEBUG_FACTOR } else { 1 };
    let limits = scenarios.iter().enumerate().map(|(i, scenario)| {
        let boot = if i == 0 { BOOT } else { Duration::ZERO };
        (scenario.name.as_str(), boot + scenario.limit * factor * SLOW_FACTOR)
    });
    let limits: Vec<_> = limits.collect();
    let mut outcomes = Guests::start(emulator, kernel, initrd, &guests)?.finish(&limits);
    // A scenario that failed says more than what became of its server.
    let ended = server.map_or(Ok(()), |server| server.finish(machine.orphan));
    let wire = wire.map_or(Ok(()), |(server, log)| server.verdict(&log));
    // Its server has gone with the card, and that is what the program beside it waits for at last.
    let beside =
        beside.map_or(Ok(()), |beside| beside.finish(outcomes.iter().all(|(_, result)| result.is_ok())));
    for error in [&beside, &wire].into_iter().filter_map(|result| result.as_ref().err()) {
        // Whoever failed first, all logs tell.
        for (_, outcome) in &mut outcomes {
            if let Err(guest) = outcome {
                *guest = anyhow!("{guest:#}\n{error:#}");
            }
        }
    }
    match ended.and(beside).and(wire) {
        Err(error) if outcomes.iter().all(|(_, result)| result.is_ok()) => Err(error),
        _ => Ok(outcomes),
    }
}

/// Starts what is at the other end of the guests' Ethernet devices; with its log.
fn wire(machine: &Scenario, guests: &[Guest], dir: &Path, stem: &str) -> Result<Option<(Server, PathBuf)>> {
    let Some(words) = &machine.wire else { return Ok(None) };
    let mut arguments = words.clone();
    arguments
        .extend(std::env::var("VM_WIRE").iter().flat_map(|more| more.split_whitespace().map(str::to_owned)));
    for (socket, _) in guests.iter().filter_map(|guest| guest.wire.as_ref()) {
        arguments.extend(["--guest".to_owned(), socket.display().to_string()]);
    }
    let record = dir.join(format!("{stem}-wire.packets"));
    arguments.extend(["--record".to_owned(), record.display().to_string()]);
    let log = dir.join(format!("{stem}-wire.log"));
    Ok(Some((Server::start(&programs::wire(), &arguments, &log, None)?, log)))
}

/// What a thread gave. One that panicked must not pass for one that had nothing to say.
pub fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

//! Virtual machines: QEMU 11 as it comes from Debian, always emulating the processor. /dev/kvm is not asked: where
//! it exists it may not run a stock kernel, and a guest that hangs there takes its time limit to say so.

use super::debs::{self, Archive};
use super::initramfs::Initramfs;
use super::kernel::Installed;
use super::scenario::Scenario;
use crate::place;
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Lines of a guest's log that are shown when it fails.
const TAIL: usize = 60;
/// Time for a guest to switch itself off.
const POWER_OFF: Duration = Duration::from_secs(60);
/// How a guest says that a scenario ended well, before the time.
const WELL: &str = "0 ";
/// Lines by which a kernel says that something is wrong.
const REPORTS: [&str; 17] = [
    "BUG:",
    "WARNING:",
    "KASAN:",
    "UBSAN:",
    "DMA-API:",
    "INFO: possible",
    "INFO: task",
    "Oops:",
    "Kernel panic",
    "general protection fault",
    "unreferenced object",
    "refcount_t:",
    "kernel BUG at",
    "invalid opcode:",
    "divide error:",
    "non-static key",
    "nobody cared",
];

/// QEMU and busybox.
pub struct Emulator {
    root: PathBuf,
}

impl Emulator {
    /// Fetches it, once.
    pub fn get(archive: &Archive) -> Result<Emulator> {
        let packages = ["qemu-system-x86", "busybox-static"];
        Ok(Emulator { root: archive.unpack("qemu", "trixie-backports", &packages, true)? })
    }

    pub fn busybox(&self) -> PathBuf {
        self.root.join("usr/bin/busybox")
    }

    /// QEMU on its own C library.
    fn command(&self) -> Command {
        let libraries = self.root.join("usr/lib/x86_64-linux-gnu");
        let mut command = Command::new(libraries.join("ld-linux-x86-64.so.2"));
        command.env("QEMU_MODULE_DIR", libraries.join("qemu"));
        command.arg("--library-path").arg(&libraries).arg(self.root.join("usr/bin/qemu-system-x86_64"));
        for data in ["usr/share/qemu", "usr/share/seabios", "usr/lib/ipxe/qemu"] {
            command.arg("-L").arg(self.root.join(data));
        }
        command
    }
}

/// One guest of a scenario.
pub struct Guest {
    /// Sockets of its devices.
    pub devices: Vec<PathBuf>,
    /// MiB.
    pub memory: u32,
    /// Emulated on as many threads.
    pub processors: u32,
    /// Devices reach memory through an IOMMU.
    pub iommu: bool,
    /// Time is instructions, 1 ns each, while the processor does not wait.
    pub icount: bool,
    /// Its log.
    pub log: PathBuf,
    /// Words for its scenario: `vm_node=0`.
    pub words: Vec<String>,
}

/// Guests that run.
pub struct Guests(Vec<(Child, PathBuf)>);

impl Guests {
    /// Starts them, all with the same kernel and files.
    pub fn start(emulator: &Emulator, kernel: &Installed, initrd: &Path, guests: &[Guest]) -> Result<Guests> {
        let mut started = Guests(Vec::new());
        for guest in guests {
            let mut command = emulator.command();
            match guest.icount {
                true => command.args(["-accel", "tcg,thread=single", "-icount", "shift=0"]),
                false => command.args(["-accel", "tcg,thread=multi"]),
            };
            command.args(["-cpu", "max,la57=off"]);
            command.args(["-smp", &guest.processors.to_string()]);
            command.args(["-machine", "q35,memory-backend=mem", "-m", &format!("{}M", guest.memory)]);
            let backend = format!("memory-backend-memfd,id=mem,size={}M,share=on", guest.memory);
            command.args(["-object", &backend]);
            command.args(["-nodefaults", "-display", "none", "-no-reboot"]);
            let serial = format!("stdio,id=serial,signal=off,logfile={}", guest.log.display());
            command.args(["-chardev", &serial, "-serial", "chardev:serial"]);
            if guest.iommu {
                // QEMU tells the server of each map and unmap of the guest's tables: its caching mode.
                command.args(["-device", "intel-iommu,caching-mode=on"]);
            }
            for socket in &guest.devices {
                let path = socket.display();
                command.arg("-device").arg(format!(
                    "{{\"driver\":\"vfio-user-pci\",\"x-no-posted-writes\":true,\"x-msg-timeout\":20000,\
                     \"socket\":{{\"path\":\"{path}\",\"type\":\"unix\"}}}}"
                ));
            }
            // Warnings must show: at loglevel 4 and below the kernel keeps them from the console. The log has room
            // for every access to a register while the driver starts.
            let line = "console=ttyS0 panic=-1 loglevel=5 panic_on_warn=1 no_timer_check log_buf_len=4M";
            command.arg("-kernel").arg(&kernel.image).arg("-initrd").arg(initrd);
            let iommu = if guest.iommu { " intel_iommu=on" } else { "" };
            command.arg("-append").arg(format!("{line}{iommu} {}", guest.words.join(" ")));
            let said = File::create(guest.log.with_extension("qemu"))?;
            command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(said);
            let child = command.spawn().context("QEMU does not start")?;
            started.0.push((child, guest.log.clone()));
        }
        Ok(started)
    }

    /// Waits until all have ended, or one has failed, or has not come to the next scenario's end in its time. How each
    /// scenario ended, and when: with the end of the logs of all guests if one of them did not end it well.
    pub fn finish(mut self, scenarios: &[(&str, Duration)]) -> Vec<(Duration, Result<()>)> {
        let logs: Vec<PathBuf> = self.0.iter().map(|(_, log)| log.clone()).collect();
        let (mut done, mut since, mut late) = (0, Instant::now(), None);
        while self.0.iter_mut().any(|(child, _)| matches!(child.try_wait(), Ok(None))) {
            let texts: Vec<String> = logs.iter().map(|log| text(log)).collect();
            let left = &scenarios[done..];
            let ended_well = |text, name| end_of(text, name).map(|(said, _)| said.starts_with(WELL));
            // The others wait for one that failed, or for what it was to send.
            if left.iter().any(|(name, _)| texts.iter().any(|text| ended_well(text, name) == Some(false))) {
                break;
            }
            let by_all = |name| texts.iter().all(|text| end_of(text, name).is_some());
            let ended = left.iter().take_while(|(name, _)| by_all(name)).count();
            if ended > 0 {
                (done, since) = (done + ended, Instant::now());
                self.go_on();
            }
            let limit = scenarios.get(done).map_or(POWER_OFF, |(_, limit)| *limit);
            if since.elapsed() > limit {
                late = Some(limit);
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        drop(self);
        let names: Vec<&str> = scenarios.iter().map(|(name, _)| *name).collect();
        outcomes(&logs, &names, late)
    }

    /// Tells guests that run a scenario together that all have come to its end.
    fn go_on(&mut self) {
        if let [_, _, ..] = self.0[..] {
            for (child, _) in &mut self.0 {
                // One that has ended hears nothing; its log says why.
                let _ = child.stdin.as_mut().map(|line| line.write_all(b"\n"));
            }
        }
    }
}

impl Drop for Guests {
    fn drop(&mut self) {
        for (child, _) in &mut self.0 {
            // Those that have ended are not there to be killed.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A log, as text.
pub fn text(log: &Path) -> String {
    String::from_utf8_lossy(&fs::read(log).unwrap_or_default()).replace('\r', "")
}

/// How each scenario ended, by the guests' logs.
fn outcomes(logs: &[PathBuf], names: &[&str], late: Option<Duration>) -> Vec<(Duration, Result<()>)> {
    let texts: Vec<String> = logs.iter().map(|log| text(log)).collect();
    let verdicts: Vec<Vec<Verdict>> = texts.iter().map(|text| verdicts(text, names)).collect();
    let mut failed: Option<&str> = None;
    let mut all = Vec::new();
    for (i, name) in names.iter().enumerate() {
        let time = verdicts.iter().map(|of| of[i].time).max().unwrap_or_default();
        if let Some(other) = failed {
            all.push((time, Err(anyhow::anyhow!("not run: the guest ended in {other}"))));
        } else if verdicts.iter().all(|of| of[i].wrong.is_none()) {
            all.push((time, Ok(())));
        } else {
            let mut message = late.map_or_else(String::new, |limit| format!("not done after {limit:?}\n"));
            for (log, of) in logs.iter().zip(&verdicts) {
                let wrong = of[i].wrong.as_deref().unwrap_or("ended well");
                message += &format!("--- {}: {wrong}\n{}\n", place::shown(log), tail(log));
            }
            failed = Some(name);
            all.push((time, Err(anyhow::anyhow!("{}", message.trim_end()))));
        }
    }
    if let (None, Some(limit), Some(last)) = (failed, late, all.last_mut()) {
        last.1 = Err(anyhow::anyhow!("all ended well, but a guest was not switched off after {limit:?}"));
    }
    all
}

/// How a scenario ended in a guest.
struct Verdict {
    wrong: Option<String>,
    /// By the guest's clock; of the first one with the time that the guest took to start.
    time: Duration,
}

/// The rest of the line by which a guest says that a scenario has ended, and where in its log that is over.
fn end_of<'a>(log: &'a str, name: &str) -> Option<(&'a str, usize)> {
    let said = format!("guest: {name} done with ");
    let start = if log.starts_with(&said) { 0 } else { log.find(&format!("\n{said}"))? + 1 };
    let rest = &log[start + said.len()..];
    let len = rest.find('\n')?;
    Some((&rest[..len], start + said.len() + len))
}

/// What is wrong with each scenario's part of a guest's log. QEMU's own exit status says nothing: a guest has to say that
/// all went well, and its kernel must not have said anything else.
fn verdicts(log: &str, names: &[&str]) -> Vec<Verdict> {
    let (mut rest, mut before) = (log, Duration::ZERO);
    let mut all = Vec::new();
    for (i, name) in names.iter().enumerate() {
        let end = end_of(rest, name);
        // What the kernel says while the machine is switched off is the last one's.
        let at = end.filter(|_| i + 1 < names.len()).map_or(rest.len(), |(_, at)| at);
        let report = rest[..at].lines().find(|line| REPORTS.iter().any(|report| line.contains(report)));
        let wrong = match (report, end) {
            (Some(report), _) => Some(format!("the kernel reports: {}", report.trim())),
            (None, None) => Some("it did not come to its end".into()),
            (None, Some((said, _))) if said.starts_with(WELL) => None,
            (None, Some((said, _))) => Some(format!("its test ended with {said}")),
        };
        let seconds = |said: &str| said.split_whitespace().rev().nth(1)?.parse().ok();
        let time = end.and_then(|(said, _)| seconds(said)).map_or(before, Duration::from_secs_f64);
        all.push(Verdict { wrong, time: time.saturating_sub(before) });
        (rest, before) = (&rest[at..], time);
    }
    all
}

/// The end of a log, and what QEMU said.
fn tail(log: &Path) -> String {
    let text = text(log) + &text(&log.with_extension("qemu"));
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL)..].join("\n")
}

/// The program that serves the guests' devices.
pub struct Server(Child);

impl Server {
    /// Starts it with these arguments; returns once it listens.
    pub fn start(program: &Path, arguments: &[String], log: &Path) -> Result<Server> {
        let mut command = Command::new(program);
        command.args(arguments).arg("--until-eof").env("RUST_LOG", "extoll_vm=debug,extoll_sim=debug");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(File::create(log)?);
        let child = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
        let mut server = Server(child);
        let mut line = String::new();
        if let Some(output) = server.0.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        if line.trim() != "ready" {
            bail!("the device server did not start:\n{}", text(log));
        }
        Ok(server)
    }

    /// Whether it still runs: it must outlive its guests, unless they are there to see its end.
    pub fn finish(mut self, ends: bool) -> Result<()> {
        match self.0.try_wait()? {
            None if ends => bail!("the device server still runs: its guest did not end it"),
            Some(status) if !ends => bail!("the device server ended: {status}"),
            _ => Ok(()),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What all guests have: busybox, the first program, and the scripts that it runs, in /tests.
pub fn base(emulator: &Emulator, scripts: &[&Scenario]) -> Result<Initramfs> {
    let mut files = Initramfs::default();
    for folder in ["bin", "lib", "lib64", "tests"] {
        files.folder(folder);
    }
    files.copy("bin/busybox", &emulator.busybox())?;
    files.copy("init", &place::root().join("tests/vm/init"))?;
    for (i, scenario) in scripts.iter().enumerate() {
        files.copy(&format!("tests/{i:02}-{}", scenario.name), &scenario.script)?;
    }
    Ok(files)
}

/// Folder for the sockets and logs of a run. Sockets have short names: their paths are limited to 107 bytes.
pub fn run_folder() -> Result<PathBuf> {
    let dir = debs::folder().join("run");
    fs::create_dir_all(&dir)?;
    Ok(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_guest_that_says_so_ended_well() {
        let wrong = |log: &str| verdicts(log, &["x"]).pop().unwrap().wrong;
        assert_eq!(wrong("y\nguest: x done with 0 after 3.25 s\n[ 4.0] reboot: Power down\n"), None);
        assert!(wrong("").is_some());
        assert!(wrong("guest: x done with 1 after 3 s\n").is_some());
        assert!(wrong("guest: y done with 0 after 3 s\n").is_some());
        assert!(wrong("guest: x done with 0 after 3 s\n[ 1.0] BUG: KASAN: use-after-free in x\n").is_some());
        assert!(wrong("[ 1.0] WARNING: CPU: 0 PID: 1\nguest: x done with 0 after 3 s\n").is_some());
        assert!(wrong("[ 1.0] kernel BUG at x.c:1!\nguest: x done with 0 after 3 s\n").is_some());
    }

    #[test]
    fn a_failure_names_its_scenario_and_those_behind_it_did_not_run() {
        let log = "up\nguest: a done with 0 after 3.5 s\n[ 4.0] BUG: x\nguest: b done with 98 after 6.0 s\n";
        let all = verdicts(log, &["a", "b", "c"]);
        assert_eq!(all[0].wrong, None);
        assert_eq!(all[0].time, Duration::from_secs_f64(3.5));
        assert_eq!(all[1].wrong.as_deref(), Some("the kernel reports: [ 4.0] BUG: x"));
        assert_eq!(all[1].time, Duration::from_secs_f64(2.5));
        assert!(all[2].wrong.is_some());

        let dir = std::env::temp_dir().join(format!("extoll-guest-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("0.log"), log).unwrap();
        let all = outcomes(&[dir.join("0.log")], &["a", "b", "c"], None);
        let told = |i: usize| all[i].1.as_ref().map_or_else(ToString::to_string, |()| "passed".into());
        assert_eq!((told(0).as_str(), told(2).as_str()), ("passed", "not run: the guest ended in b"));
        assert!(told(1).contains("BUG: x") && told(1).contains("done with 98"), "{}", told(1));
        // A guest that hangs when all is over has not ended well.
        let late = outcomes(&[dir.join("0.log")], &["a"], Some(POWER_OFF));
        assert!(late[0].1.is_err());
        fs::remove_dir_all(&dir).unwrap();
    }
}

//! Virtual machines: QEMU 11 as it comes from Debian, always emulating the processor. /dev/kvm is not asked: where
//! it exists it may not run a stock kernel, and a guest that hangs there takes its time limit to say so.

use super::debs::{self, Archive};
use super::initramfs::Initramfs;
use super::kernel::Installed;
use crate::place;
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Lines of a guest's log that are shown when it fails.
const TAIL: usize = 60;
/// Lines by which a kernel says that something is wrong.
const REPORTS: [&str; 12] = [
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
            command.arg("-serial").arg(format!("file:{}", guest.log.display()));
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
            let output = File::create(guest.log.with_extension("qemu"))?;
            command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
            let child = command.spawn().context("QEMU does not start")?;
            started.0.push((child, guest.log.clone()));
        }
        Ok(started)
    }

    /// Waits until all have ended; fails with the end of the logs of those that did not end well.
    pub fn finish(mut self, limit: Duration) -> Result<()> {
        let end = Instant::now() + limit;
        while self.0.iter_mut().any(|(child, _)| matches!(child.try_wait(), Ok(None))) {
            if Instant::now() > end {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let late = self.0.iter_mut().any(|(child, _)| matches!(child.try_wait(), Ok(None)));
        let logs: Vec<PathBuf> = self.0.iter().map(|(_, log)| log.clone()).collect();
        drop(self);
        let verdicts: Vec<(PathBuf, Option<String>)> =
            logs.into_iter().map(|log| (log.clone(), verdict(&text(&log)))).collect();
        if verdicts.iter().all(|(_, wrong)| wrong.is_none()) {
            return Ok(());
        }
        let mut message = if late { format!("not done after {limit:?}\n") } else { String::new() };
        for (log, wrong) in verdicts {
            let wrong = wrong.unwrap_or_else(|| "ended well".into());
            message += &format!("--- {}: {wrong}\n{}\n", place::shown(&log), tail(&log));
        }
        bail!("{}", message.trim_end())
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

/// What is wrong with a guest's log. QEMU's own exit status says nothing: a guest has to say that all went well, and
/// its kernel must not have said anything else.
fn verdict(log: &str) -> Option<String> {
    let report = log.lines().find(|line| REPORTS.iter().any(|report| line.contains(report)));
    if let Some(report) = report {
        return Some(format!("the kernel reports: {}", report.trim()));
    }
    match log.lines().filter_map(|line| line.strip_prefix("guest: done with ")).next_back() {
        None => Some("it did not come to its end".into()),
        Some(rest) if rest.starts_with("0 ") => None,
        Some(rest) => Some(format!("its test ended with {rest}")),
    }
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

/// What all guests have: busybox, the first program, and the test as /test.
pub fn base(emulator: &Emulator, script: &Path) -> Result<Initramfs> {
    let mut files = Initramfs::default();
    for folder in ["bin", "lib", "lib64"] {
        files.folder(folder);
    }
    files.copy("bin/busybox", &emulator.busybox())?;
    files.copy("init", &place::root().join("tests/vm/init"))?;
    files.copy("test", script)?;
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
        assert_eq!(verdict("x\nguest: done with 0 after 3 s\n[ 4.0] reboot: Power down\n"), None);
        assert!(verdict("").is_some());
        assert!(verdict("guest: done with 1 after 3 s").is_some());
        assert!(verdict("guest: done with 0 after 3 s\nguest: done with 10 after 3 s").is_some());
        assert!(verdict("[ 1.0] BUG: KASAN: use-after-free in x\nguest: done with 0 after 3 s").is_some());
        assert!(verdict("[ 1.0] WARNING: CPU: 0 PID: 1\nguest: done with 0 after 3 s").is_some());
    }
}

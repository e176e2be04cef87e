//! Virtual machines: QEMU 11 as it comes from Debian, always emulating the processor. /dev/kvm is not asked: where
//! it exists it may not run a stock kernel, and a guest that hangs there takes its time limit to say so.

use super::debs::{self, Archive};
use super::initramfs::Initramfs;
use super::kernel::Installed;
use super::logs;
use super::scenario::Scenario;
use crate::place;
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time for a guest to switch itself off.
const POWER_OFF: Duration = Duration::from_secs(180);
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
    /// They are functions behind one bridge, and reach each other there; else each is on the root bus.
    pub together: bool,
    /// MiB.
    pub memory: u32,
    /// Emulated on as many threads.
    pub processors: u32,
    /// Devices reach memory through an IOMMU.
    pub iommu: bool,
    /// Time is instructions, 1 ns each, while the processor does not wait.
    pub icount: bool,
    /// The server of its devices ends while it runs.
    pub orphan: bool,
    /// It sleeps and wakes.
    pub sleeps: bool,
    /// Who listens at the other end of its Ethernet device, and the device's number; `None`: it has none.
    pub wire: Option<(PathBuf, u32)>,
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
            // Milliseconds for an answer: one that stands still with its server is not to lose its devices.
            let answer = if guest.orphan { 20_000 } else { 120_000 };
            if guest.together {
                command.args(["-device", "pcie-root-port,id=bridge0,chassis=1,slot=1,hotplug=off"]);
            }
            for (function, socket) in guest.devices.iter().enumerate() {
                let path = socket.display();
                let place = match guest.together {
                    true => format!("\"bus\":\"bridge0\",\"addr\":\"0.{function}\",\"multifunction\":true,"),
                    false => String::new(),
                };
                command.arg("-device").arg(format!(
                    "{{\"driver\":\"vfio-user-pci\",{place}\"x-no-posted-writes\":true,\"x-msg-timeout\":{answer},\
                     \"socket\":{{\"path\":\"{path}\",\"type\":\"unix\"}}}}"
                ));
            }
            if let Some((socket, number)) = &guest.wire {
                // A stream of frames, each behind its length; no option of it needs rights on this machine.
                let socket = socket.display();
                command.args(["-netdev", &format!("stream,id=wire,addr.type=unix,addr.path={socket}")]);
                let mac = format!("52:54:00:00:00:{:02x}", number + 1);
                command.args(["-device", &format!("virtio-net-pci,netdev=wire,mac={mac},romfile=")]);
            }
            // Warnings must show: at loglevel 4 and below the kernel keeps them from the console. The log has room
            // for every access to a register while the driver starts. A processor counts as locked up after two minutes
            // (twice `watchdog_thresh`, which is its most), not after twenty seconds that the host may stand still. Tests
            // of cryptography gather entropy from times, which an emulator on a busy host does not have.
            let line = "console=ttyS0 panic=-1 loglevel=5 panic_on_warn=1 no_timer_check log_buf_len=4M \
                        watchdog_thresh=60 cryptomgr.notests";
            // When a guest wakes, QEMU writes the data of an unpacked kernel once more. Whether one runs to its end where time
            // is instructions has not been seen.
            let image = if guest.sleeps || guest.icount { &kernel.packed } else { &kernel.image };
            command.arg("-kernel").arg(image).arg("-initrd").arg(initrd);
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
        let names: Vec<&str> = scenarios.iter().map(|(name, _)| *name).collect();
        let (mut done, mut fresh, mut since, mut late) = (0, 0, Instant::now(), None);
        while self.0.iter_mut().any(|(child, _)| matches!(child.try_wait(), Ok(None))) {
            let texts: Vec<String> = logs.iter().map(|log| logs::text(log)).collect();
            let failed = |name| texts.iter().any(|text| logs::ended_well(text, name) == Some(false));
            // The others wait for one that failed, or for what it was to send.
            if names[done..].iter().any(|name| failed(name)) {
                break;
            }
            let ended = by_all(&texts, &names[done..], |text, name| logs::ended_well(text, name).is_some());
            let reset = by_all(&texts, &names[fresh..done], logs::fresh_after);
            if ended > 0 {
                since = Instant::now();
            }
            if ended + reset > 0 {
                self.go_on();
            }
            (done, fresh) = (done + ended, fresh + reset);
            let limit = scenarios.get(done).map_or(POWER_OFF, |(_, limit)| *limit);
            if since.elapsed() > limit {
                late = Some(limit);
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        drop(self);
        logs::outcomes(&logs, &names, late)
    }

    /// Tells guests that run scenarios together that all have come to the end of one, or have reset their cards after it.
    fn go_on(&mut self) {
        if let [_, _, ..] = self.0[..] {
            for (child, _) in &mut self.0 {
                // One that has ended hears nothing; its log says why.
                let _ = child.stdin.as_mut().map(|line| line.write_all(b"\n"));
            }
        }
    }
}

/// Of how many of these scenarios, one after the other, all logs say it.
fn by_all(texts: &[String], names: &[&str], said: impl Fn(&str, &str) -> bool) -> usize {
    names.iter().take_while(|name| texts.iter().all(|text| said(text, name))).count()
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

/// The program that serves the guests' devices.
pub struct Server(Child);

impl Server {
    /// Starts it with these arguments; returns once it listens. `networks`: the folder of this host's networks that it is to
    /// use.
    pub fn start(
        program: &Path,
        arguments: &[String],
        log: &Path,
        networks: Option<&Path>,
    ) -> Result<Server> {
        let mut command = Command::new(program);
        command.args(arguments).arg("--until-eof").env("RUST_LOG", "extoll_vm=debug,extoll_sim=debug");
        command.envs(networks.map(|folder| ("GGAS_RUNTIME_DIR", folder)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(File::create(log)?);
        let child = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
        let mut server = Server(child);
        let mut line = String::new();
        if let Some(output) = server.0.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        if line.trim() != "ready" {
            bail!("the device server did not start:\n{}", logs::text(log));
        }
        Ok(server)
    }

    /// Waits until it ends by itself, which it does when its guests have gone, and says what it found.
    pub fn verdict(mut self, log: &Path) -> Result<()> {
        let end = Instant::now() + POWER_OFF;
        loop {
            match self.0.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => bail!("what is at the other end of the wire: {status}\n{}", logs::text(log)),
                None if Instant::now() > end => {
                    bail!("what is at the other end of the wire still runs:\n{}", logs::text(log))
                }
                None => std::thread::sleep(Duration::from_millis(50)),
            }
        }
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
    for folder in ["lib", "lib64"] {
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

    /// Longer than anything here takes.
    const LONG: Duration = Duration::from_secs(300);

    /// Scripts in place of guests, in an empty folder.
    fn scripts(name: &str, scripts: [&str; 2]) -> Guests {
        let dir = std::env::temp_dir().join(format!("extoll-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        let started = scripts.iter().enumerate().map(|(i, script)| {
            let log = dir.join(format!("{i}.log"));
            let mut shell = Command::new("sh");
            shell.arg("-c").arg(script).current_dir(&dir);
            shell.stdin(Stdio::piped()).stdout(File::create(&log).unwrap());
            (shell.spawn().unwrap(), log)
        });
        Guests(started.collect())
    }

    #[test]
    fn a_guest_that_fails_ends_its_boot_at_once() {
        let guests = scripts(
            "fails",
            [
                "until [ -e waits ]; do sleep 0.01; done; echo 'guest: a done with 1 after 2.0 s'; exec sleep 300",
                "echo waiting; touch waits; exec sleep 300",
            ],
        );
        let start = Instant::now();
        let all = guests.finish(&[("a", LONG), ("b", LONG)]);
        assert!(start.elapsed() < LONG / 10, "{:?}", start.elapsed());
        let told = all.iter().map(|(_, result)| result.as_ref().unwrap_err().to_string());
        let told: Vec<String> = told.collect();
        assert!(told[0].contains("ended with 1") && told[0].contains("waiting"), "{}", told[0]);
        assert!(told[1].starts_with("not run"), "{}", told[1]);
    }

    #[test]
    fn a_guest_that_waits_in_vain_is_told_with_its_limit() {
        let guests = scripts("waits", ["exec sleep 300", "exec sleep 300"]);
        let limit = Duration::from_millis(200);
        let all = guests.finish(&[("a", limit)]);
        let told = all[0].1.as_ref().unwrap_err().to_string();
        assert!(
            told.starts_with("not done after 200ms") && told.contains("did not come to its end"),
            "{told}"
        );
    }

    #[test]
    fn guests_go_on_together_and_with_cards_that_all_were_reset() {
        // The first one is ahead each time, and says what the second had done when it heard that it might go on.
        let ahead = "echo 'guest: a done with 0 after 1.0 s'; touch waits; read line; [ -e ended ]; a=$?
                     echo 'guest: fresh after a'; touch waits-again; read line; [ -e reset ]
                     echo \"guest: b done with $((a + $?)) after 2.0 s\"";
        let behind = "until [ -e waits ]; do sleep 0.01; done; sleep 0.3
                      touch ended; echo 'guest: a done with 0 after 1.0 s'; read line
                      until [ -e waits-again ]; do sleep 0.01; done; sleep 0.3
                      touch reset; echo 'guest: fresh after a'; read line
                      echo 'guest: b done with 0 after 2.0 s'";
        let all = scripts("together", [ahead, behind]).finish(&[("a", LONG / 10), ("b", LONG / 10)]);
        for (_, result) in all {
            result.unwrap();
        }
    }
}

//! Hosts made of namespaces: network, host name, System V IPC and mounts of their own, with their own /dev/shm and /tmp, on
//! a bridge in a namespace of its own. The machine's network is not touched, and all of it goes with this process: each host
//! is held by a process that ends when its input does.

use crate::run::ask;
use crate::{capi, place};
use anyhow::{Context, Result, bail, ensure};
use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Hosts that a lab may have.
pub const MOST: usize = 4;

/// See the module's description.
pub struct Lab {
    hosts: Vec<Held>,
    _switch: Held,
    folder: PathBuf,
}

/// A process that holds namespaces; ends when dropped.
struct Held {
    child: Child,
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Why there can be no such hosts here.
pub fn missing() -> Option<String> {
    if !place::is_root() {
        return Some("making namespaces takes root".to_owned());
    }
    for program in ["ip", "unshare", "nsenter"] {
        if place::which(program).is_none() {
            return Some(format!("there is no {program}: apt-get install iproute2 util-linux"));
        }
    }
    let probe = "ip link add name br0 type bridge && ip link add name a type veth peer name b && \
                 mount -t tmpfs tmpfs /dev/shm";
    let probed = Command::new("unshare").args(["-n", "-u", "-i", "-m", "sh", "-c", probe]).output();
    match probed {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(format!(
            "namespaces, bridges or mounts are not allowed here: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        )),
        Err(error) => Some(format!("unshare: {error}")),
    }
}

impl Lab {
    /// So many hosts: h1, h2, ... at 10.77.0.1, 10.77.0.2, ...
    pub fn new(hosts: usize) -> Result<Lab> {
        ensure!((1..=MOST).contains(&hosts), "a lab has 1 to {MOST} hosts");
        let folder = place::build().join("hosts").join(std::process::id().to_string());
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let mut names = "127.0.0.1 localhost\n".to_owned();
        (1..=hosts).try_for_each(|i| writeln!(names, "10.77.0.{i} h{i}"))?;
        fs::write(folder.join("hosts"), names)?;
        let switch = hold(&["-n"], "ip link set lo up; ip link add br0 type bridge; ip link set br0 up")?;
        let mut lab = Lab { hosts: Vec::new(), _switch: switch, folder };
        for i in 1..=hosts {
            let held = hold(&["-n", "-u", "-i", "-m"], &lab.inside(i))?;
            lab.wire(i, held.child.id())?;
            lab.hosts.push(held);
        }
        lab.write_agent()?;
        Ok(lab)
    }

    /// What a host does first.
    fn inside(&self, i: usize) -> String {
        let names = self.folder.join("hosts");
        let (keep, restore) = Self::through_tmp();
        format!(
            "hostname h{i}; mount -t tmpfs tmpfs /dev/shm; {keep}mount -t tmpfs tmpfs /tmp; {restore}\
             mount --bind '{}' /etc/hosts; ip link set lo up",
            names.display()
        )
    }

    /// What is in /tmp of this machine and hosts must see in theirs: the suite and what was built, if they are there.
    fn through_tmp() -> (String, String) {
        let suite = place::root();
        let target = std::path::absolute(capi::target()).ok().filter(|target| !target.starts_with(&suite));
        let (mut keep, mut restore) = (String::new(), String::new());
        let folders = std::iter::once(suite).chain(target).filter(|folder| folder.starts_with("/tmp"));
        for (number, folder) in folders.enumerate() {
            let (at, folder) = (format!("/dev/shm/keep{number}"), folder.display());
            keep += &format!("mkdir -p {at}; mount --bind '{folder}' {at}; ");
            restore += &format!("mkdir -p '{folder}'; mount --move {at} '{folder}'; rmdir {at}; ");
        }
        (keep, restore)
    }

    /// Joins a host to the bridge.
    fn wire(&self, i: usize, pid: u32) -> Result<()> {
        let switch = self._switch.child.id().to_string();
        let link = format!(
            "ip link add name v{i} type veth peer name eth0 netns {pid} && ip link set v{i} master br0 up"
        );
        done(Command::new("nsenter").args(["-t", &switch, "-n", "sh", "-c", &link]))?;
        let address = format!("ip addr add 10.77.0.{i}/24 dev eth0 && ip link set eth0 up");
        done(Command::new("nsenter").args(["-t", &pid.to_string(), "-n", "sh", "-c", &address]))
    }

    /// A command that is called as ssh is, by launchers: `agent HOST COMMAND...`.
    fn write_agent(&self) -> Result<()> {
        let mut text =
            "#!/bin/sh\nwhile [ \"${1#-}\" != \"$1\" ]; do shift; done\nhost=$1; shift\ncase $host in\n"
                .to_owned();
        for (i, held) in (1..).zip(&self.hosts) {
            writeln!(text, "h{i}|10.77.0.{i}) pid={};;", held.child.id())?;
        }
        text.push_str("*) echo \"no host $host\" >&2; exit 255;;\nesac\n");
        text.push_str("exec nsenter -t $pid -n -u -i -m --wd=\"$PWD\" sh -c \"$*\"\n");
        fs::write(self.agent(), text)?;
        Ok(fs::set_permissions(self.agent(), Permissions::from_mode(0o755))?)
    }

    /// See [`Lab::write_agent`].
    pub fn agent(&self) -> PathBuf {
        self.folder.join("agent")
    }

    /// A folder that all hosts see.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A program on host `i`, from 1, in the checkout's folder.
    pub fn on(&self, i: usize, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        let pid = self.hosts[i - 1].child.id().to_string();
        command.args(["-t", &pid, "-n", "-u", "-i", "-m"]);
        command.arg(format!("--wd={}", place::root().display())).arg("--").arg(program);
        // What people have set is for their own programs.
        for (name, _) in std::env::vars_os() {
            if ["GGAS_", "FI_", "UCX_"].iter().any(|start| name.to_string_lossy().starts_with(start)) {
                command.env_remove(name);
            }
        }
        command.env("GGAS_QUIET", "1").env("EXTOLL_LOCKED_MEMORY", "unlimited");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

impl Lab {
    /// Where packets of host `i` to host `to` go nowhere, without an answer, as behind a firewall; or no more.
    pub fn block(&self, i: usize, to: usize, blocked: bool) -> Result<()> {
        let pid = self.hosts[i - 1].child.id().to_string();
        let entry = if blocked { "lladdr 02:00:00:00:00:99 nud permanent" } else { "nud failed" };
        let set = format!("ip neigh replace 10.77.0.{to} {entry} dev eth0");
        done(Command::new("nsenter").args(["-t", &pid, "-n", "sh", "-c", &set]))
    }

    /// Adds a rule of host `i` for what comes to it, as a firewall has it; `iptables` has to be there.
    pub fn rule(&self, i: usize, rule: &str) -> Result<()> {
        self.iptables(i, &format!("-A INPUT -i eth0 {rule}"))
    }

    /// Takes all rules of all hosts back.
    pub fn no_rules(&self) -> Result<()> {
        (1..=self.hosts.len()).try_for_each(|i| self.iptables(i, "-F"))
    }

    fn iptables(&self, i: usize, words: &str) -> Result<()> {
        let pid = self.hosts[i - 1].child.id().to_string();
        done(Command::new("nsenter").args(["-t", &pid, "-n", "iptables", "-w"]).args(words.split(' ')))
    }

    /// Cuts host `i` off from all others, both ways, or no more.
    pub fn cut(&self, i: usize, cut: bool) -> Result<()> {
        for other in (1..=self.hosts.len()).filter(|other| *other != i) {
            self.block(i, other, cut)?;
            self.block(other, i, cut)?;
        }
        Ok(())
    }

    /// Sends a signal, by name, to all that runs on host `i`, other than who holds it.
    pub fn signal(&self, i: usize, name: &str) {
        let network = |process: &str| fs::read_link(format!("/proc/{process}/ns/net")).ok();
        let holder = self.hosts[i - 1].child.id().to_string();
        let Some(own) = network(&holder) else { return };
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let process = entry.file_name().to_string_lossy().into_owned();
            if process != holder && network(&process).as_ref() == Some(&own) {
                let _ = done(Command::new("kill").args(["-s", name, &process]));
            }
        }
    }

    /// Ends what daemons have left behind on the hosts.
    fn end_all(&self) {
        (1..=self.hosts.len()).for_each(|i| self.signal(i, "KILL"));
    }

    /// Looks again and again until it is so.
    pub fn until(&self, what: &str, mut is_so: impl FnMut() -> bool) -> Result<()> {
        let until = Instant::now() + Duration::from_secs(60);
        while !is_so() {
            ensure!(Instant::now() < until, "not in a minute: {what}");
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.end_all();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A process in namespaces of its own that did this and holds them.
fn hold(namespaces: &[&str], first: &str) -> Result<Held> {
    let script = format!("set -e; {first}; echo made; exec cat >/dev/null");
    let mut command = Command::new("unshare");
    command.args(namespaces).args(["sh", "-c", &script]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let mut held = Held { child: command.spawn().context("cannot start unshare")? };
    let mut said = [0; 5];
    let heard = held.child.stdout.as_mut().map(|out| out.read_exact(&mut said));
    ensure!(matches!(heard, Some(Ok(()))) && &said == b"made\n", "a host could not be made");
    Ok(held)
}

fn done(command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output().context("cannot start nsenter")?;
    if output.status.success() { Ok(()) } else { bail!("{}", String::from_utf8_lossy(&output.stderr).trim()) }
}

/// A program that runs on a host; ended when dropped.
pub struct Runs {
    child: Child,
    what: String,
    out: Reader,
    err: Reader,
}

impl Drop for Runs {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Runs {
    pub fn start(mut command: Command, what: &str) -> Result<Runs> {
        let mut child = command.spawn().with_context(|| format!("cannot start {what}"))?;
        let (out, err) = (Reader::new(child.stdout.take()), Reader::new(child.stderr.take()));
        Ok(Runs { child, what: what.to_owned(), out, err })
    }

    /// Waits until its output holds a text so often.
    pub fn says(&mut self, text: &str, times: usize) -> Result<()> {
        let until = Instant::now() + Duration::from_secs(60);
        while self.out.now().matches(text).count() < times {
            ensure!(
                Instant::now() < until && self.runs()?,
                "{}: no `{text}`:\n{}",
                self.what,
                self.out.now()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// What it has printed so far.
    pub fn said(&self) -> String {
        self.out.now() + &self.err.now()
    }

    /// What it has written to standard error.
    pub fn complaints(&self) -> String {
        self.err.now()
    }

    /// Sends it a signal, by name.
    pub fn signal(&self, name: &str) -> Result<()> {
        done(Command::new("kill").args(["-s", name, &self.child.id().to_string()]))
    }

    /// Whether it has not ended.
    pub fn runs(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// Waits until it ends, however it does, within this time.
    pub fn ends(mut self, within: Duration) -> Result<Output> {
        let until = Instant::now() + within;
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if Instant::now() >= until {
                let _ = self.child.kill();
                bail!("{} has not ended after {within:?}:\n{}{}", self.what, self.out.now(), self.err.now());
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        Ok(Output { status, stdout: self.out.whole().into_bytes(), stderr: self.err.whole().into_bytes() })
    }

    /// Waits until it ends well; what it printed.
    pub fn succeeds(self, within: Duration) -> Result<String> {
        let what = self.what.clone();
        let output = self.ends(within)?;
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success(), "{what}: {}\n{out}{err}", output.status);
        Ok(out.into_owned())
    }

    /// Waits until it fails; what it said.
    pub fn fails(self, within: Duration) -> Result<String> {
        let what = self.what.clone();
        let output = self.ends(within)?;
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        ensure!(!output.status.success(), "{what} was to fail, and ended well:\n{out}{err}");
        Ok(format!("{out}{err}"))
    }
}

/// What comes from a pipe, read by a thread.
#[derive(Default)]
struct Reader {
    bytes: Arc<Mutex<Vec<u8>>>,
    thread: Option<JoinHandle<()>>,
}

impl Reader {
    fn new(pipe: Option<impl Read + Send + 'static>) -> Reader {
        let bytes = Arc::<Mutex<Vec<u8>>>::default();
        let to = bytes.clone();
        let read = |mut pipe| {
            std::thread::spawn(move || {
                let mut some = [0; 4096];
                while let Ok(len @ 1..) = Read::read(&mut pipe, &mut some) {
                    to.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&some[..len]);
                }
            })
        };
        Reader { bytes, thread: pipe.map(read) }
    }

    fn now(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    /// Once nobody can write any more.
    fn whole(&mut self) -> String {
        let _ = self.thread.take().map(JoinHandle::join);
        self.now()
    }
}

/// A secret that nobody guesses, in hexadecimal digits.
pub fn secret() -> Result<String> {
    let digits = ask("od", &["-An", "-N16", "-tx1", "/dev/urandom"]).context("od does not run")?;
    Ok(digits.split_whitespace().collect())
}

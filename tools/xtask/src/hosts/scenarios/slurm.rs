//! Jobs that Slurm starts: its daemons run on hosts of the lab, with keys, sockets and state of their own.

use super::super::Built;
use super::super::lab::{Lab, Runs};
use super::SOON;
use super::jobs::ring_said;
use crate::place;
use anyhow::{Context, Result, ensure};
use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What has to be installed, each with what shows that it is.
const NEEDED: [&str; 5] = ["munged", "slurmctld", "slurmd", "srun", "scancel"];

/// Ranks in the order of their numbers: the host of each, and what places them so.
const PLACED: &[(&[&str], &[&str])] = &[
    (&["h1", "h1", "h1"], &["--nodes=1", "--nodelist=h1"]),
    (&["h1", "h1", "h1", "h2"], &["--nodes=2", "--distribution=arbitrary"]),
    (&["h1", "h2", "h1", "h2"], &["--nodes=2", "--ntasks-per-node=2", "--distribution=cyclic"]),
    (&["h2", "h1", "h1", "h2", "h1"], &["--nodes=2", "--distribution=arbitrary"]),
];

/// Munge, a controller on the first host and a daemon on each; ended when dropped, their jobs before them.
struct Slurm<'a> {
    lab: &'a Lab,
    config: PathBuf,
    daemons: Vec<Runs>,
}

impl Drop for Slurm<'_> {
    fn drop(&mut self) {
        // A daemon that is killed leaves its ranks behind.
        if !self.on(1, "scancel").arg("--user=root").output().is_ok_and(|done| done.status.success()) {
            return;
        }
        let _ = self.lab.until("Slurm's jobs end", || {
            self.on(1, "squeue").arg("--noheader").output().is_ok_and(|left| left.stdout.is_empty())
        });
    }
}

impl<'a> Slurm<'a> {
    /// Returns when it takes jobs.
    fn start(lab: &'a Lab, hosts: usize) -> Result<Slurm<'a>> {
        let folder = lab.folder().join("slurm");
        fs::create_dir_all(folder.join("state"))?;
        let config = folder.join("slurm.conf");
        fs::write(&config, configuration(&folder, hosts)?)?;
        let mut slurm = Slurm { lab, config, daemons: vec![munge(lab, &folder)?] };
        let up = slurm.up(&folder, hosts);
        up.with_context(|| slurm.daemons.iter().map(Runs::said).collect::<String>())?;
        Ok(slurm)
    }

    fn up(&mut self, folder: &Path, hosts: usize) -> Result<()> {
        let socket = folder.join("munge.socket");
        self.lab.until("munged listens", || socket.exists())?;
        let mut controller = self.on(1, "slurmctld");
        controller.args(["-D", "-f"]).arg(&self.config);
        self.daemons.push(Runs::start(controller, "slurmctld")?);
        for host in 1..=hosts {
            let mut daemon = self.on(host, "slurmd");
            daemon.args(["-D", "-N", &format!("h{host}"), "-f"]).arg(&self.config);
            self.daemons.push(Runs::start(daemon, "slurmd")?);
        }
        let idle = format!("idle {hosts}");
        self.lab.until("Slurm's nodes are idle", || {
            let said = self.on(1, "sinfo").args(["--noheader", "--format=%T %D"]).output();
            said.is_ok_and(|said| String::from_utf8_lossy(&said.stdout).trim() == idle)
        })
    }

    fn on(&self, host: usize, program: &str) -> Command {
        let mut command = self.lab.on(host, program);
        command.env("SLURM_CONF", &self.config);
        command
    }

    /// Each rank says its host, then is this program.
    fn srun(&self, hosts: &[&str], placed: &[&str], program: &str) -> Result<Command> {
        let mut command = self.on(1, "srun");
        command.args(["--mpi=pmix", "--kill-on-bad-exit=1"]).args(placed);
        command.arg(format!("--ntasks={}", hosts.len()));
        if placed.contains(&"--distribution=arbitrary") {
            let list = self.config.with_file_name("placement");
            fs::write(&list, hosts.join("\n") + "\n")?;
            command.env("SLURM_HOSTFILE", list);
        }
        let script = format!("echo \"$SLURM_PROCID is on $(hostname)\"; {program}");
        command.env("GGAS_DEVICE", "sim").args(["sh", "-c", &script]);
        Ok(command)
    }
}

/// One for all hosts: they see its socket, and it knows who asks by it.
fn munge(lab: &Lab, folder: &Path) -> Result<Runs> {
    let key = folder.join("munge.key");
    fs::write(&key, super::secret()?.repeat(4))?;
    fs::set_permissions(&key, Permissions::from_mode(0o600))?;
    let mut command = lab.on(1, "munged");
    command.args(["--foreground", "--force"]);
    for (option, file) in [
        ("key-file", "munge.key"),
        ("socket", "munge.socket"),
        ("pid-file", "munge.pid"),
        ("log-file", "munge.log"),
        ("seed-file", "munge.seed"),
    ] {
        command.arg(format!("--{option}={}", folder.join(file).display()));
    }
    Runs::start(command, "munged")
}

/// slurm.conf(5). Nodes claim more processors than the machine has, which `config_overrides` allows.
fn configuration(folder: &Path, hosts: usize) -> Result<String> {
    let at = folder.display();
    let mut text = format!(
        "ClusterName=lab\nSlurmctldHost=h1\nSlurmUser=root\nSlurmdUser=root\n\
         AuthType=auth/munge\nCredType=cred/munge\nAuthInfo=socket={at}/munge.socket\n\
         ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n\
         JobAcctGatherType=jobacct_gather/none\nAccountingStorageType=accounting_storage/none\n\
         SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\nSlurmdParameters=config_overrides\n\
         StateSaveLocation={at}/state\nSlurmdSpoolDir={at}/spool.%n\n\
         SlurmctldPidFile={at}/slurmctld.pid\nSlurmdPidFile={at}/slurmd.%n.pid\n\
         SlurmctldLogFile={at}/slurmctld.log\nSlurmdLogFile={at}/slurmd.%n.log\n\
         ReturnToService=2\nSlurmdTimeout=30\nKillWait=2\n"
    );
    for host in 1..=hosts {
        writeln!(text, "NodeName=h{host} NodeAddr=10.77.0.{host} CPUs=16 State=UNKNOWN")?;
    }
    writeln!(text, "PartitionName=all Nodes=h[1-{hosts}] Default=YES MaxTime=60 State=UP")?;
    Ok(text)
}

/// The ring, however its ranks are placed; then a rank fails while the others wait for it.
pub fn srun(lab: &Lab, built: &Built) -> Result<String> {
    if let Some(program) = NEEDED.iter().find(|program| place::which(program).is_none()) {
        return Ok(format!("skipped: there is no {program}: apt-get install slurm-wlm munge"));
    }
    let slurm = Slurm::start(lab, 2)?;
    let ring = format!("exec '{}'", built.example("ring").display());
    for (hosts, placed) in PLACED {
        let what = format!("srun {placed:?}");
        let said = Runs::start(slurm.srun(hosts, placed, &ring)?, &what)?.succeeds(2 * SOON)?;
        ring_said(&said, hosts.len() as u32).context(what.clone())?;
        for (rank, host) in hosts.iter().enumerate() {
            let line = format!("{rank} is on {host}");
            ensure!(said.lines().any(|said| said == line), "{what}: no `{line}` in\n{said}");
        }
    }
    let failing = format!("[ $SLURM_PROCID = 3 ] && exit 7; {ring}");
    let (hosts, placed) = PLACED[1];
    let said = Runs::start(slurm.srun(hosts, placed, &failing)?, "a rank that fails")?.fails(SOON)?;
    ensure!(said.contains("exit code 7"), "{said}");
    Ok(format!("{} placements", PLACED.len()))
}

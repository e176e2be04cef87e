//! `ggas run`: the processes of a job.

use crate::failure::Failure;
use crate::out::note;
use crate::over_hosts::{self, OverHosts};
use crate::values;
use clap::{Args, ValueEnum};
use ggas_members::JobError;
use ggas_members::launch::{Bind, Input, Launch, LaunchError, Output, Signals};
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

type Hosts = Vec<over_hosts::Host>;

/// Where the processes may run.
#[derive(Clone, Copy, ValueEnum)]
enum Cores {
    /// Wherever the system puts them
    None,
    /// Each on one core, in turn
    Cores,
}

const EXIT_CODES: &str = "\
Exit codes, as of a shell:
  0    every process ended with 0
  N    the first process that failed ended with N, or by signal N - 128
  124  the time was over (--timeout)
  126  the program cannot be executed
  127  there is no such program
  137  processes had to be killed: --kill-after, or a second INT within a second
  141  whoever read the output has gone (as by `| head -1`): the job is ended, and nothing said
  1    output could not be written, the job did not begin, or another failure of ggas
  2    a bad argument

When the job ends, or ggas is killed, all that the processes started is killed, in whatever process group or session.";

#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub struct RunArgs {
    /// Processes to start; with --host as many as it says
    #[arg(short = 'n', long, value_name = "N", required_unless_present_any = ["nodes", "per_node", "host"])]
    processes: Option<u32>,
    /// On these hosts, so many on each: h1:2,h2:2. The first one has rank 0; all have this program and the other at the same
    /// place
    #[arg(long, value_name = "HOST:N,...", value_parser = over_hosts::hosts, conflicts_with = "nodes")]
    host: Option<Hosts>,
    /// With --host: what starts a command on another host, called as ssh is
    #[arg(long, value_name = "COMMAND", default_value = "ssh -T", requires = "host")]
    agent: String,
    /// With --host: the port at which rank 0 is met, where firewalls let only some through [default: one of 20000 to 31999]
    #[arg(long, value_name = "PORT", requires = "host")]
    port: Option<u16>,
    /// Spread them evenly over this many nodes
    #[arg(long, value_name = "N")]
    nodes: Option<u32>,
    /// Put this many on each node [default: 1]
    #[arg(long, value_name = "K")]
    per_node: Option<u32>,
    /// End the job after this time, such as 60s, 1.5m, 500ms
    #[arg(long, value_name = "TIME", value_parser = values::time, overrides_with = "timeout")]
    timeout: Option<Duration>,
    /// After a failure, give the others this long before they are ended
    #[arg(long, value_name = "TIME", value_parser = values::time, default_value = "5s", conflicts_with = "keep_going")]
    grace: Duration,
    /// After TERM, or an INT, TERM, HUP or QUIT that was passed on, kill what has not ended in this time
    #[arg(long, value_name = "TIME", value_parser = values::time, default_value = "10s")]
    kill_after: Duration,
    /// After a failure, or if output cannot be written, let the others go on
    #[arg(long)]
    keep_going: bool,
    /// Do not put the rank in front of each line
    #[arg(long)]
    no_prefix: bool,
    /// Bind each process to a core
    #[arg(long, value_enum, default_value = "none")]
    bind: Cores,
    /// The GPU of each rank, as `ggas map` prints them: CUDA_VISIBLE_DEVICES of all processes. Ranks of this library take the GPUs
    /// that they see in turn
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    gpus: Vec<String>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

impl RunArgs {
    fn over_hosts(self) -> Result<OverHosts, Failure> {
        let hosts = self.host.unwrap_or_default();
        let size = hosts.iter().map(|host| u64::from(host.processes())).sum::<u64>();
        if let Some(processes) = self.processes.filter(|processes| u64::from(*processes) != size) {
            return Err(Failure::Usage(format!(
                "-n {processes}: --host names {size} processes; leave -n out"
            )));
        }
        if matches!(self.bind, Cores::Cores) {
            return Err(Failure::Usage("--bind cores is not there with --host".to_owned()));
        }
        Ok(OverHosts {
            hosts,
            agent: self.agent,
            port: self.port,
            per_node: self.per_node.unwrap_or(1),
            timeout: self.timeout,
            grace: self.grace,
            kill_after: self.kill_after,
            keep_going: self.keep_going,
            prefix: !self.no_prefix,
            program: self.program,
        })
    }

    /// Processes, and how many of them on a node.
    fn shape(&self) -> Result<(u32, u32), Failure> {
        let usage = |text: String| Err(Failure::Usage(text));
        if self.nodes == Some(0) {
            return usage("--nodes 0: use 1 or more".into());
        }
        match (self.processes, self.nodes, self.per_node) {
            (None, Some(nodes), Some(per_node)) => Ok((nodes.saturating_mul(per_node), per_node)),
            (Some(processes), None, per_node) => Ok((processes, per_node.unwrap_or(1))),
            (Some(processes), Some(nodes), None) => {
                if processes % nodes != 0 {
                    return usage(format!(
                        "{processes} processes do not spread evenly over {nodes} nodes: use a multiple of {nodes}"
                    ));
                }
                Ok((processes, processes / nodes))
            }
            (Some(processes), Some(nodes), Some(per_node)) => {
                if nodes.checked_mul(per_node) != Some(processes) {
                    return usage(format!(
                        "{processes} processes are not {nodes} nodes of {per_node}: leave one of the three out"
                    ));
                }
                Ok((processes, per_node))
            }
            (None, _, _) => usage("say how many processes: -n N".into()),
        }
    }
}

/// Starts the job and waits for it: its exit code is ours.
pub fn run(args: RunArgs) -> Result<ExitCode, Failure> {
    // Before any thread is started.
    let signals =
        Signals::catch().map_err(|error| Failure::Failed(format!("signals cannot be caught: {error}")))?;
    if args.host.is_some() {
        return over_hosts::run(args.over_hosts()?, signals);
    }
    let (processes, per_node) = args.shape()?;
    // Before hours of a run are for nothing.
    ggas_members::Trace::can_be_written().map_err(Failure::Usage)?;
    let (program, arguments) =
        args.program.split_first().ok_or_else(|| Failure::Usage("name a program after --".into()))?;
    let mut launch = Launch::new(program)
        .args(arguments)
        .processes(processes)
        .per_node(per_node)
        .grace(args.grace)
        .kill_after(args.kill_after)
        .input(Input::Inherit)
        .output(Output::Lines { prefix: !args.no_prefix })
        .bind(match args.bind {
            Cores::None => Bind::None,
            Cores::Cores => Bind::Cores,
        })
        .signals(signals);
    if args.keep_going {
        launch = launch.keep_going();
    }
    if !args.gpus.is_empty() {
        launch =
            launch.env("CUDA_VISIBLE_DEVICES", visible(&args.gpus)?).env("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
    }
    if let Some(timeout) = args.timeout {
        launch = launch.timeout(timeout);
    }
    let outcome = launch.spawn().map_err(failure)?.wait();
    for line in outcome.summary().lines() {
        note(&format!("ggas run: {line}\n"));
    }
    Ok(ExitCode::from(u8::try_from(outcome.code()).unwrap_or(1)))
}

/// Devices as CUDA takes them: it sees none behind one that is not there, and says nothing.
fn visible(gpus: &[String]) -> Result<String, Failure> {
    for (at, gpu) in gpus.iter().enumerate() {
        let is_number = gpu.parse::<u16>().is_ok();
        let is_uuid = gpu.starts_with("GPU-") || gpu.starts_with("MIG-");
        if !is_number && !is_uuid {
            return Err(Failure::Usage(format!(
                "--gpus: `{gpu}` is no GPU: use numbers such as 0,2,1,3, or names such as GPU-8f6a (nvidia-smi -L)"
            )));
        }
        if gpus[..at].contains(gpu) {
            return Err(Failure::Usage(format!("--gpus: GPU {gpu} is there twice")));
        }
    }
    Ok(gpus.join(","))
}

pub fn failure(error: LaunchError) -> Failure {
    match error {
        LaunchError::Job(
            error @ (JobError::Setting { .. }
            | JobError::Incomplete { .. }
            | JobError::Shape(_)
            | JobError::Crowded { .. }),
        ) => Failure::Usage(error.to_string()),
        // The error's own advice is for a name that is searched for.
        LaunchError::Program { program, .. } if is_missing_path(&program) => {
            let program = program.display();
            note(&format!(
                "ggas run: {program} cannot be started (no such file): build it, or check the path\n"
            ));
            Failure::Said(127)
        }
        error => {
            note(&format!("ggas run: {error}\n"));
            Failure::Said(error.code())
        }
    }
}

/// Whether this is a path, not a name to search for, and nothing is there.
fn is_missing_path(program: &Path) -> bool {
    let is_path = program.parent().is_some_and(|folder| !folder.as_os_str().is_empty());
    is_path && !program.exists()
}

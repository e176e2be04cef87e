//! Checks windows and groups between processes, each on a GPU of its own, or all on the CPU executor.
//!
//! Started plainly, it starts three jobs of itself one after the other: checks with timings, one in which a process is
//! killed inside a collective, and the checks once more. It needs nothing but libcuda, so a stripped binary can be
//! carried to a machine with GPUs.
//!
//! ```text
//! processes [-n PROCESSES] [--cpu]              all three jobs; as many processes as GPUs, or 4 on the CPU
//! ggas run -n 4 -- processes [--cpu] checks     the checks in a job that somebody else starts
//! ggas run -n 4 -- processes [--cpu] death      the last rank kills itself
//! ggas run -n 4 -- processes --cpu run [death]  the same by Group::run of processes without kernels, on any number of hosts
//! ```

mod member;
mod run;
mod setup;

use std::process::ExitCode;
use std::time::Duration;

use ggas_members::Job;
use ggas_members::launch::Launch;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Bound of each job.
const JOB: Duration = Duration::from_secs(100);

struct Options {
    processes: Option<u32>,
    cpu: bool,
    death: bool,
    /// By the processes, without kernels.
    run: bool,
}

fn main() -> ExitCode {
    let outcome = options()
        .and_then(|options| if Job::is_launched() { member::run(&options) } else { start(&options) });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("FAIL  {error}");
            ExitCode::FAILURE
        }
    }
}

fn options() -> Outcome<Options> {
    let mut options = Options { processes: None, cpu: false, death: false, run: false };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "-n" => options.processes = Some(args.next().ok_or("-n takes a number of processes")?.parse()?),
            "--cpu" => options.cpu = true,
            "checks" => options.death = false,
            "death" => options.death = true,
            "run" => options.run = true,
            other => return Err(format!("{other} is no option: see the head of this program").into()),
        }
    }
    Ok(options)
}

/// Starts the jobs; the last rank of the second must die, and nothing else may fail.
fn start(options: &Options) -> Outcome<()> {
    let gpus = match ggas_gpu::probe() {
        Ok(gpus) if !options.cpu => gpus.len() as u32,
        _ => 0,
    };
    let processes = options.processes.unwrap_or(if gpus == 0 { 4 } else { gpus });
    println!("{processes} processes on {gpus} GPUs{}", if gpus == 0 { ": on the CPU executor" } else { "" });
    for (what, victim) in [("checks", None), ("death", processes.checked_sub(1)), ("checks", None)] {
        if what == "death" && processes < 2 {
            continue;
        }
        println!("--- {what}");
        let cpu = (gpus == 0).then_some("--cpu");
        let launch = Launch::new(std::env::current_exe()?).args(cpu).arg(what);
        let job = launch.processes(processes).timeout(JOB).keep_going().spawn()?;
        let outcome = job.wait();
        for (rank, exit) in (0..).zip(outcome.exits()) {
            let expected =
                if Some(rank) == victim { exit.code() == 128 + libc::SIGKILL } else { exit.is_success() };
            if !expected {
                return Err(format!("rank {rank} {exit}\n{}", outcome.summary()).into());
            }
        }
    }
    println!("all passed");
    Ok(())
}

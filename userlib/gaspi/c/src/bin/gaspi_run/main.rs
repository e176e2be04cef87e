//! `gaspi_run -m FILE [-n N] PROGRAM [ARGUMENTS]`: the processes of a GASPI program on this host, by the launcher of
//! `ggas run`.

mod machines;
mod options;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use ggas_clock::Clock;
use ggas_members::launch::{Exit, Input, Launch, Output, Running, Signals};

use options::Options;

/// How often rank 0 is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// The system's folder of NUMA nodes.
const NUMA: &str = "/sys/devices/system/node";

/// Which failure ends the job, and which is that of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    /// That of rank 0.
    First,
    /// None ends it; that of any process that no signal has ended.
    None,
    /// That of any process.
    Any,
}

impl Ends {
    fn of(options: &Options) -> Ends {
        match (options.keep_going, options.strict) {
            (true, _) => Ends::None,
            (_, true) => Ends::Any,
            _ => Ends::First,
        }
    }
}

/// How many processes are wanted.
fn processes(options: &Options) -> Result<u32, String> {
    let nodes = options.numa.then(numa_nodes);
    let count = match (&options.machines, options.processes, nodes) {
        (Some(path), most, _) => {
            let told = |error: String| format!("{}: {error}", path.display());
            let text = std::fs::read(path).map_err(|error| told(error.to_string()))?;
            let host = nix::unistd::gethostname().map_err(|error| error.to_string())?;
            machines::processes(&text, &host.to_string_lossy(), most).map_err(told)?
        }
        (None, Some(count), _) | (None, None, Some(count)) => count,
        (None, None, None) => return Err("say how many processes: -m FILE or -n N".into()),
    };
    match nodes.filter(|nodes| count > *nodes) {
        Some(nodes) => Err(format!("-N: {count} processes are more than this host has NUMA nodes ({nodes})")),
        None => Ok(count),
    }
}

/// Nodes of this host that have cores.
fn numa_nodes() -> u32 {
    let list = |node: u32| std::fs::read_to_string(format!("{NUMA}/node{node}/cpulist"));
    (0..).take_while(|node| list(*node).is_ok_and(|list| !list.trim().is_empty())).count().max(1) as u32
}

/// Whether PATH leads to a program of this name.
fn is_in_path(name: &OsStr) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

/// A program that is not in PATH is meant as a path.
fn located(name: &OsStr) -> OsString {
    let is_path = name.as_bytes().contains(&b'/') || is_in_path(name) || !Path::new(name).exists();
    if is_path { name.into() } else { Path::new(".").join(name).into() }
}

/// The job as the options want it.
fn launch(options: &Options, count: u32) -> Result<Launch, String> {
    let (program, arguments) = options.program.split_first().ok_or("name a program")?;
    let program = located(program);
    let first = options.binary.as_ref().map_or_else(|| program.clone(), |binary| located(binary));
    let job = Launch::new(&program).args(arguments).processes(count).input(Input::Inherit);
    let job = match (options.debug, &options.binary) {
        (true, _) if !is_in_path(OsStr::new("gdb")) => {
            return Err("-d: there is no gdb in PATH: apt install gdb".into());
        }
        (true, _) => job.first("gdb", [OsStr::new("--args"), &first].into_iter().chain(words(arguments))),
        (false, Some(_)) => job.first(&first, arguments),
        (false, None) => job,
    };
    let job = if options.numa { job.env("GASPI_SET_NUMA_SOCKET", "1") } else { job };
    let job = job.output(if options.label { Output::Lines { prefix: true } } else { Output::Inherit });
    Ok(if options.strict { job } else { job.keep_going() })
}

fn words(arguments: &[OsString]) -> impl Iterator<Item = &OsStr> {
    arguments.iter().map(OsString::as_os_str)
}

fn run(options: &Options) -> Result<ExitCode, String> {
    let (count, ends) = (processes(options)?, Ends::of(options));
    let job = launch(options, count)?;
    // Before any thread is started.
    let signals = Signals::catch().map_err(|error| format!("signals cannot be caught: {error}"))?;
    let job = job.signals(signals).spawn().map_err(|error| error.to_string())?;
    if ends == Ends::First {
        end_with_first(&job, count);
    }
    let outcome = job.wait();
    eprint!("{}", outcome.summary());
    Ok(ExitCode::from(status(ends, outcome.exits(), outcome.code())))
}

/// Waits for rank 0; when it fails, ends the others.
fn end_with_first(job: &Running, count: u32) {
    let exit = loop {
        match job.exit(0) {
            Some(exit) => break exit,
            None => Clock::REAL.sleep(LOOK),
        }
    };
    if !exit.is_success() {
        // One that has ended meanwhile needs no end.
        (1..count).for_each(|rank| drop(job.end(rank)));
    }
}

/// The exit status, of all processes' and of the launcher's.
fn status(ends: Ends, exits: &[Exit], code: i32) -> u8 {
    let code = match ends {
        Ends::First => exits.first().map_or(code, |exit| exit.code()),
        Ends::None => exits
            .iter()
            .map(|exit| if let Exit::Code(code) = exit { *code } else { 0 })
            .find(|c| *c != 0)
            .unwrap_or(0),
        Ends::Any => code,
    };
    u8::try_from(code).unwrap_or(1)
}

fn main() -> ExitCode {
    let options = match Options::try_parse() {
        Ok(options) => options,
        Err(told) => {
            // Help, or what is wrong with the options; nobody may be there to read it.
            let _ = told.print();
            return if told.use_stderr() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
        }
    };
    run(&options).unwrap_or_else(|error| {
        eprintln!("gaspi_run: {error}");
        ExitCode::FAILURE
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_the_programs() {
        let exits = [Exit::Code(0), Exit::Signal(9), Exit::Code(7)];
        assert_eq!([Ends::First, Ends::None, Ends::Any].map(|ends| status(ends, &exits, 137)), [0, 7, 137]);
        assert_eq!(status(Ends::First, &exits[1..], 137), 137);
        assert_eq!(status(Ends::None, &exits[..2], 137), 0);
    }

    #[test]
    fn a_program_is_looked_up_in_path_and_then_as_a_path() {
        // Tests run in the folder of the package.
        assert_eq!(located(OsStr::new("sh")), "sh");
        assert_eq!(located(OsStr::new("Cargo.toml")), "./Cargo.toml");
        assert_eq!(located(OsStr::new("no such program")), "no such program");
        assert_eq!(located(OsStr::new("src/lib.rs")), "src/lib.rs");
    }

    #[test]
    fn options_that_do_not_go_together_are_told() {
        let told = |line: &str| {
            let line = std::iter::once("gaspi_run").chain(line.split(' '));
            processes(&Options::try_parse_from(line).unwrap())
        };
        assert!(told("-N -n 9999 prog").unwrap_err().starts_with("-N: 9999 processes are more"));
        assert_eq!(told("-N prog"), Ok(numa_nodes()));
        assert!(told("prog").unwrap_err().contains("-n N"));
        assert!(told("-m /no/such/file prog").unwrap_err().starts_with("/no/such/file: "));
    }
}

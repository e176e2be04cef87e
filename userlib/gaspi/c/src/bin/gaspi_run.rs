//! `gaspi_run -m FILE [-n N] PROGRAM [ARGUMENTS]`: the processes of a GASPI program on this host, by the launcher of
//! `ggas run`. The machine file's lines name this host, one for each process.

use std::ffi::{OsStr, OsString};
use std::process::ExitCode;
use std::time::Duration;

use ggas_clock::Clock;
use ggas_members::launch::{Exit, Input, Launch, Output, Running, Signals};

/// How often rank 0 is looked at.
const LOOK: Duration = Duration::from_millis(20);

const USAGE: &str = "\
usage: gaspi_run [OPTIONS] PROGRAM [ARGUMENTS]
  -m, --machinefile FILE  a file with the name of this host in a line for each process
  -n, --nodes N           this many processes: of the file the first N, without one all on this host
  -l, --label             the rank in front of each line that a process writes
  -k, --keep-going        the others go on when rank 0 fails, too
  -s, --strict            the others end when any process fails
  -h, --help              this text
The exit status is rank 0's. The others go on when one of them fails, and end when rank 0 fails. With -k and -s it is that of
the first process that fails; with -k one that a signal ends counts as none.
Processes of other hosts, and the options -b, -N, -d and -p, are not there.
";

/// What is to be started.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wanted {
    machines: Option<OsString>,
    processes: Option<u32>,
    program: Vec<OsString>,
    label: bool,
    ends: Ends,
    help: bool,
}

/// Which failure ends the job, and which is that of the job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Ends {
    /// That of rank 0.
    #[default]
    First,
    /// None ends it; that of any process that no signal has ended.
    None,
    /// That of any process.
    Any,
}

fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Wanted, String> {
    let mut arguments = arguments.into_iter();
    let mut wanted = Wanted::default();
    while let Some(argument) = arguments.next() {
        let name = argument.to_string_lossy().into_owned();
        let mut value = || arguments.next().ok_or_else(|| format!("{name} needs a value"));
        match name.as_str() {
            "-h" | "--help" => wanted.help = true,
            "-l" | "--label" => wanted.label = true,
            "-k" | "--keep-going" => wanted.ends = Ends::None,
            "-s" | "--strict" => wanted.ends = Ends::Any,
            "-m" | "--machinefile" => wanted.machines = Some(value()?),
            "-n" | "--nodes" => {
                let count = value()?.to_string_lossy().parse().ok().filter(|count| *count > 0);
                wanted.processes = Some(count.ok_or("-n needs a number above 0")?);
            }
            _ if name.starts_with('-') => return Err(format!("there is no option {name}")),
            _ => {
                wanted.program.push(argument);
                wanted.program.extend(arguments);
                break;
            }
        }
    }
    Ok(wanted)
}

/// Processes that a machine file asks for, all on the host of this name.
fn processes(text: &str, host: &str, most: Option<u32>) -> Result<u32, String> {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let count = most.unwrap_or(lines.len() as u32);
    if count == 0 || count as usize > lines.len() {
        return Err(format!(
            "the machine file has {} lines, and {count} processes are asked for",
            lines.len()
        ));
    }
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    let is_here = |name: &str| name == "localhost" || short(name) == short(host);
    match lines[..count as usize].iter().find(|name| !is_here(name)) {
        Some(name) => {
            Err(format!("{name} is not this host ({host}): processes of other hosts are not there"))
        }
        None => Ok(count),
    }
}

fn run() -> Result<ExitCode, String> {
    let wanted = parse(std::env::args_os().skip(1))?;
    if wanted.help {
        print!("{USAGE}");
        return Ok(ExitCode::SUCCESS);
    }
    let (program, arguments) = wanted.program.split_first().ok_or("name a program")?;
    let count = match (&wanted.machines, wanted.processes) {
        (Some(path), most) => {
            let read = |path: &OsStr| std::fs::read_to_string(path);
            let text = read(path).map_err(|error| format!("{}: {error}", path.to_string_lossy()))?;
            let host = nix::unistd::gethostname().map_err(|error| error.to_string())?;
            processes(&text, &host.to_string_lossy(), most)?
        }
        (None, Some(count)) => count,
        (None, None) => return Err("say how many processes: -m FILE or -n N".into()),
    };
    // Before any thread is started.
    let signals = Signals::catch().map_err(|error| format!("signals cannot be caught: {error}"))?;
    let job = Launch::new(program).args(arguments).processes(count).input(Input::Inherit);
    let job = job.output(if wanted.label { Output::Lines { prefix: true } } else { Output::Inherit });
    let job = if wanted.ends == Ends::Any { job } else { job.keep_going() };
    let job = job.signals(signals).spawn().map_err(|error| error.to_string())?;
    if wanted.ends == Ends::First {
        end_with_first(&job, count);
    }
    let outcome = job.wait();
    eprint!("{}", outcome.summary());
    Ok(ExitCode::from(status(wanted.ends, outcome.exits(), outcome.code())))
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
        // One that has ended meanwhile needs no signal.
        (1..count).for_each(|rank| drop(job.kill(rank, libc::SIGKILL)));
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
    run().unwrap_or_else(|error| {
        eprint!("gaspi_run: {error}\n{USAGE}");
        ExitCode::FAILURE
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_the_program_is_its_own() {
        let wanted = parse(["-n", "3", "-m", "file", "prog", "-n", "x y"].map(OsString::from)).unwrap();
        assert_eq!((wanted.processes, wanted.machines), (Some(3), Some("file".into())));
        assert_eq!(wanted.program, ["prog", "-n", "x y"].map(OsString::from));
        for bad in [&["-n"][..], &["-n", "0", "p"], &["-b", "x", "p"], &["--what"]] {
            assert!(parse(bad.iter().map(OsString::from)).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_status_is_the_programs() {
        let exits = [Exit::Code(0), Exit::Signal(9), Exit::Code(7)];
        assert_eq!([Ends::First, Ends::None, Ends::Any].map(|ends| status(ends, &exits, 137)), [0, 7, 137]);
        assert_eq!(status(Ends::First, &exits[1..], 137), 137);
        assert_eq!(status(Ends::None, &exits[..2], 137), 0);
        let wanted = parse(["-k", "--label", "prog", "-s"].map(OsString::from)).unwrap();
        assert_eq!((wanted.label, wanted.ends, wanted.program.len()), (true, Ends::None, 2));
    }

    #[test]
    fn a_machine_file_names_this_host() {
        assert_eq!(processes("me\nme.net\nlocalhost\n", "me.org", None), Ok(3));
        assert_eq!(processes("me\nme\n\n", "me", Some(1)), Ok(1));
        assert_eq!(processes("me\nother\n", "me", Some(1)), Ok(1));
        assert!(processes("me\nother\n", "me", None).unwrap_err().contains("other"));
        assert!(processes("me\n", "me", Some(2)).is_err() && processes("", "me", None).is_err());
    }
}

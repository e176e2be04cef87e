//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Parser;

const STATUS: &str = "\
A machine file names this host in a line for each process: by its name, as localhost or as 127.0.0.1. Empty lines and what follows a # \
count as nothing. For processes on several hosts: ggas run --host h1:2,h2:2 -- PROGRAM.

The exit status is rank 0's. The others go on when one of them fails, and end when rank 0 fails.
With -s it is that of the first process that fails; the others have 5 seconds then to end by themselves.
With -k it is that of the lowest rank that failed; one that a signal ended counts as none.";

/// Starts the processes of a GASPI program on this host
#[derive(Debug, Parser)]
#[command(name = "gaspi_run", version, after_help = STATUS, disable_version_flag = true)]
pub struct Options {
    /// A file with the name of this host in a line for each process
    #[arg(short, long = "machinefile", value_name = "FILE")]
    pub machines: Option<PathBuf>,
    /// This many processes: of the file the first N, without one all on this host
    #[arg(short = 'n', long = "nodes", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub processes: Option<u32>,
    /// Another executable for rank 0, with the same arguments
    #[arg(short, long, value_name = "FILE")]
    pub binary: Option<OsString>,
    /// One process for each NUMA node, which stays on its cores (GASPI_SET_NUMA_SOCKET=1)
    #[arg(short = 'N', long = "NUMA")]
    pub numa: bool,
    /// Rank 0 runs under gdb
    #[arg(short, long)]
    pub debug: bool,
    /// Ask first whether the hosts are there; all of them are this one, which is
    #[arg(short, long)]
    pub ping: bool,
    /// The rank in front of each line that a process writes
    #[arg(short, long)]
    pub label: bool,
    /// The others go on when rank 0 fails, too
    #[arg(short, long, conflicts_with = "strict")]
    pub keep_going: bool,
    /// The others end when any process fails
    #[arg(short, long)]
    pub strict: bool,
    /// The program, looked up in PATH and then as a path, and its arguments
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true)]
    pub program: Vec<OsString>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, clap::Error> {
        Options::try_parse_from(std::iter::once("gaspi_run").chain(line.split(' ')))
    }

    #[test]
    fn what_follows_the_program_is_its_own() {
        for line in ["-n 3 -m file prog -n 5 -h", "-n3 --machinefile=file -- prog -n 5 -h"] {
            let options = parse(line).unwrap();
            assert_eq!((options.processes, options.machines), (Some(3), Some("file".into())), "{line}");
            assert_eq!(options.program, ["prog", "-n", "5", "-h"].map(OsString::from), "{line}");
        }
        let program = parse("--nodes=2 prog a -- b").unwrap().program;
        assert_eq!(program, ["prog", "a", "--", "b"].map(OsString::from));
    }

    #[test]
    fn short_options_may_be_joined() {
        let options = parse("-lkdpN -b first prog").unwrap();
        assert!(options.label && options.keep_going && options.debug && options.ping && options.numa);
        assert_eq!(options.binary, Some("first".into()));
    }

    #[test]
    fn bad_options_are_refused() {
        for bad in ["-n", "-n 0 p", "-n x p", "--what p", "-s -k p", "-n 2"] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }
}

//! Set-up, demo and tests of the suite: `cargo xtask --help`.

/// As `println!`, without its panic where the reader is gone or the disk is full: what is checked and built goes on, and
/// the exit code says how it ended.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stdout(), $($text)*);
    }};
}

/// As `eprintln!`, without its panic, for the same reasons.
macro_rules! report {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($text)*);
    }};
}

mod capi;
mod demo;
mod gaspi;
mod gmpi;
mod hosts;
mod hpe;
mod place;
mod run;
mod setup;
mod test;
mod vm;

use clap::{Args, Parser, Subcommand};
use setup::Policy;
use std::process::ExitCode;

/// Set-up, demo and tests of the suite.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Build, then let EXTOLL nodes exchange data under kernels' own control: one table, all verified
    Demo {
        /// Arguments for `ggas demo`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
        #[command(flatten)]
        system: System,
    },
    /// Run what has to hold after every change, but what needs virtual machines (15 minutes on two idle cores)
    Test {
        #[command(flatten)]
        select: test::Select,
        #[command(flatten)]
        system: System,
    },
    /// Run what takes hours: all C programs, sanitizers, the tests on a crowded machine, fresh simulations, chaos
    Long {
        #[command(flatten)]
        select: test::Select,
        #[command(flatten)]
        system: System,
    },
    /// Run the kernel modules in virtual machines, on the model as a PCI device
    Vm {
        #[command(flatten)]
        select: vm::Select,
        #[command(flatten)]
        system: System,
    },
    /// Run programs on several hosts, which are namespaces of this machine
    Hosts {
        #[command(flatten)]
        select: hosts::Select,
        #[command(flatten)]
        system: System,
    },
    /// Write the constants and structures of the C headers again for Rust, after a change to them
    Facts {
        /// Only compare; change nothing
        #[arg(long)]
        check: bool,
        #[command(flatten)]
        system: System,
    },
    /// Build for speed and run `ggas bench`
    #[command(disable_help_flag = true)] // `--help` is for `ggas bench`
    Bench {
        /// Arguments for `ggas bench`; `list` lists the benchmarks
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Simulate whole networks in virtual time, each from a seed: `cargo xtask sim --seeds 10000`
    #[command(disable_help_flag = true)] // `--help` is for `simulate`
    Sim {
        /// Arguments for `simulate`; `--help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Build the C libraries and install them with their headers, gaspi_run and ggas
    Install {
        /// Folder that gets lib/, lib64/, include/ and bin/
        #[arg(long, value_name = "DIR")]
        prefix: std::path::PathBuf,
        /// Build with checks instead of for speed
        #[arg(long)]
        debug: bool,
    },
    /// Find what the build needs, install what is missing into build/
    Setup {
        /// Only report; install nothing
        #[arg(long)]
        check: bool,
        #[command(flatten)]
        system: System,
    },
}

/// System packages are installed by apt-get for root: after a question at a terminal, without one elsewhere.
#[derive(Args, Clone, Copy)]
struct System {
    /// Install missing system packages without asking (root only)
    #[arg(long, conflicts_with = "no_install")]
    install: bool,
    /// Never install system packages; say which are missing
    #[arg(long)]
    no_install: bool,
}

impl System {
    fn policy(self) -> Policy {
        match (self.install, self.no_install) {
            (true, _) => Policy::Install,
            (_, true) => Policy::Leave,
            _ => Policy::Default,
        }
    }
}

fn main() -> ExitCode {
    let done = |()| ExitCode::SUCCESS;
    let result = match Cli::parse().task {
        Task::Demo { args, system } => demo::demo(&args, system.policy()),
        Task::Test { select, system } => test::test(&select, system.policy()).map(done),
        Task::Long { select, system } => test::long(&select, system.policy()).map(done),
        Task::Vm { select, system } => vm::vm(&select, system.policy()).map(done),
        Task::Hosts { select, system } => hosts::hosts(&select, system.policy()).map(done),
        Task::Facts { check, system } => setup::facts(check, system.policy()).map(done),
        Task::Bench { args } => demo::ggas("bench", &args),
        Task::Sim { args } => demo::simulate(&args),
        Task::Install { prefix, debug } => {
            let profile = if debug { capi::Profile::Debug } else { capi::Profile::Release };
            capi::install(&prefix, profile)
        }
        Task::Setup { check, system } => setup::setup(check, system.policy()).map(done),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            run::tell_failure(&format!("xtask: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_explain_their_own_arguments() {
        for flag in ["--help", "-h"] {
            let args = |task| match Cli::try_parse_from(["xtask", task, flag]).map(|cli| cli.task) {
                Ok(Task::Sim { args } | Task::Bench { args }) => args,
                _ => panic!("`{task} {flag}` is answered by xtask"),
            };
            assert_eq!([args("sim"), args("bench")], [[flag], [flag]]);
        }
    }
}

//! Set-up, demo and tests of the suite: `cargo xtask --help`.

mod place;
mod run;
mod setup;

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
    let result = match Cli::parse().task {
        Task::Setup { check, system } => setup::setup(check, system.policy()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

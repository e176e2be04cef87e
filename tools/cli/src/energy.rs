//! `ggas energy`: what any program takes, by the counters that the machine has.

use crate::bench::written;
use crate::failure::Failure;
use crate::{out, values};
use ggas_benches::{WholeFile, energy};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

const MARKS: &str = "\
The program marks work by lines of JSON on its standard output, which ends up on standard error:
  {\"begin\": \"NAME\"}
  {\"end\": \"NAME\", \"operations\": N}
Without any, its whole run is counted. Let work take 10 s or more: counters of GPUs change every 100 ms.";

#[derive(clap::Args)]
#[command(after_help = MARKS)]
pub struct EnergyArgs {
    /// Measure the power while nothing runs for this many seconds before, and expect work to take as long
    #[arg(long, value_name = "S", default_value = "10", value_parser = values::seconds)]
    idle: Duration,
    /// Write the result as JSON; `-`: to standard output, and everything else to standard error
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

pub fn run(args: &EnergyArgs) -> Result<(), Failure> {
    let to_stdout = args.json.as_ref().is_some_and(|path| path.as_os_str() == "-");
    let create = |path: &PathBuf| WholeFile::create(path).map_err(|error| Failure::Usage(error.to_string()));
    let file = args.json.as_ref().filter(|_| !to_stdout).map(create).transpose()?;
    let tell = &mut |line: &str| out::note(&format!("{line}\n"));
    let report = energy::of_command(&args.command, args.idle.as_secs_f64(), tell)?;
    if let Some(file) = file {
        written(file, &report.json())?;
    }
    if to_stdout {
        out::note(&report.table());
        out::print(&report.json())?;
    } else {
        out::print(&report.table())?;
    }
    match report.verified {
        true => Ok(()),
        false => Err(Failure::Failed(format!("the program failed: {}", report.status))),
    }
}

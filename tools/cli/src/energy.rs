//! `ggas energy`: what any program takes, by the counters that the machine has.

use crate::failure::Failure;
use crate::outputs::Outputs;
use crate::{out, values};
use ggas_benches::energy;
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
    let outputs = Outputs::open(args.json.as_deref(), None)?;
    let tell = &mut |line: &str| out::note(&format!("{line}\n"));
    let report = energy::of_command(&args.command, args.idle.as_secs_f64(), tell)?;
    outputs.give(&report.table(), &report.json(), None)?;
    match report.verified {
        true => Ok(()),
        false => Err(Failure::Failed(format!("the program failed: {}", report.status))),
    }
}

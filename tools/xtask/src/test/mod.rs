//! `cargo xtask test`: every check of the suite, one table at the end.

mod headers;
mod librma2;
mod long;
mod steps;

use crate::place;
use crate::run::Step;
use crate::setup::{self, Need, Policy};
use anyhow::{Result, bail};
use std::process::Command;
use std::time::{Duration, Instant};

/// One check. `run` returns remarks for the table; an error is the step's failure.
pub struct Check {
    pub name: &'static str,
    pub about: &'static str,
    pub run: fn(&Context) -> Result<String>,
}

/// A command takes five minutes at most on two idle cores; busy ones have taken several times as long.
const LIMIT: Duration = Duration::from_secs(5400);

/// What the steps share.
pub struct Context {
    pub policy: Policy,
}

impl Context {
    /// Runs a command as part of `step`.
    pub fn run(&self, step: &str, command: Command) -> Result<()> {
        Step { name: step, command, limit: LIMIT }.run().map(|_| ())
    }
}

/// Which steps to run.
#[derive(clap::Args)]
pub struct Select {
    /// Run these steps only (repeat it or separate by commas)
    #[arg(long, value_delimiter = ',', value_name = "STEP")]
    only: Vec<String>,
    /// Leave these steps out
    #[arg(long, value_delimiter = ',', value_name = "STEP")]
    skip: Vec<String>,
    /// List the steps
    #[arg(long)]
    list: bool,
}

enum Outcome {
    Passed(String),
    Failed,
}

/// Runs the selected steps, all of them even if one fails.
pub fn test(select: &Select, policy: Policy) -> Result<()> {
    if select.list {
        for check in steps::ALL {
            println!("  {:<10} {}", check.name, check.about);
        }
        return Ok(());
    }
    let chosen = choose(select)?;
    // All steps build the kernels, so nvcc has to be there before the first.
    let nvcc = chosen.iter().any(|check| check.name == "nvcc");
    setup::prepare(if nvcc { Need::Nvcc } else { Need::Run }, policy)?;
    run_all(&chosen, "test", policy)
}

/// What takes too long for every change; before a release, and before an issue is called resolved.
pub fn long(policy: Policy) -> Result<()> {
    setup::prepare(Need::Run, policy)?;
    run_all(&Vec::from_iter(long::ALL), "long", policy)
}

fn run_all(chosen: &[&'static Check], task: &str, policy: Policy) -> Result<()> {
    let context = Context { policy };
    let mut results = Vec::new();
    for (i, check) in chosen.iter().enumerate() {
        eprintln!("[{:>2}/{}] {}: {}", i + 1, chosen.len(), check.name, check.about);
        let start = Instant::now();
        let outcome = match (check.run)(&context) {
            Ok(note) => Outcome::Passed(note),
            Err(error) => {
                let alone = if task == "test" { format!("--only {}", check.name) } else { String::new() };
                eprintln!("{error:#}\n  again: cargo xtask {task} {alone}");
                Outcome::Failed
            }
        };
        results.push((*check, start.elapsed(), outcome));
    }
    table(&results);
    let failed = results.iter().filter(|(_, _, outcome)| matches!(outcome, Outcome::Failed)).count();
    println!("{} passed, {failed} failed", results.len() - failed);
    if failed > 0 {
        bail!("{failed} of {} steps failed; logs are in {}", results.len(), place::shown(&place::logs()));
    }
    Ok(())
}

fn choose(select: &Select) -> Result<Vec<&'static Check>> {
    for name in select.only.iter().chain(&select.skip) {
        if !steps::ALL.iter().any(|check| check.name == name) {
            let names: Vec<&str> = steps::ALL.iter().map(|check| check.name).collect();
            bail!("no step is called `{name}`; there are: {}", names.join(", "));
        }
    }
    let wanted = |check: &&Check| {
        let named = |list: &[String]| list.iter().any(|name| name == check.name);
        (select.only.is_empty() || named(&select.only)) && !named(&select.skip)
    };
    let chosen: Vec<&Check> = steps::ALL.iter().filter(wanted).collect();
    if chosen.is_empty() {
        bail!("no step is left to run");
    }
    Ok(chosen)
}

fn table(results: &[(&'static Check, Duration, Outcome)]) {
    println!("\n  {:<10} {:<8} {:>9}", "step", "result", "time");
    for (check, time, outcome) in results {
        let (word, note) = match outcome {
            Outcome::Passed(note) => ("passed", note.as_str()),
            Outcome::Failed => ("FAILED", ""),
        };
        println!(
            "{}",
            format!("  {:<10} {word:<8} {:>7.1} s  {note}", check.name, time.as_secs_f64()).trim_end()
        );
    }
}

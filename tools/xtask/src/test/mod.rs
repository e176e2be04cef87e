//! `cargo xtask test` and `cargo xtask long`: the checks of the suite, one table at the end.

mod gaspi;
mod gmpi;
mod headers;
mod hpe;
mod librma2;
mod long;
mod steps;

use crate::place;
use crate::run::{Step, ask, tell_failure, worked};
use crate::setup::{self, Need, Policy};
use anyhow::{Result, anyhow, bail};
use ggas_table::Column;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::Command;
use std::time::{Duration, Instant};

/// One check. `run` returns remarks for the table; an error is the step's failure.
#[derive(Clone, Copy)]
pub struct Check {
    name: &'static str,
    about: &'static str,
    run: fn(&Context) -> Result<String>,
    /// Keeps one core busy and no more, so it runs beside those behind it.
    one_core: bool,
}

impl Check {
    pub const fn new(name: &'static str, about: &'static str, run: fn(&Context) -> Result<String>) -> Check {
        Check { name, about, run, one_core: false }
    }

    pub const fn one_core(
        name: &'static str,
        about: &'static str,
        run: fn(&Context) -> Result<String>,
    ) -> Check {
        Check { one_core: true, ..Check::new(name, about, run) }
    }
}

/// A command takes five minutes at most on two idle cores; busy ones have taken several times as long.
const LIMIT: Duration = Duration::from_secs(5400);

/// What the steps share.
pub struct Context {
    pub policy: Policy,
    /// There is time: `cargo xtask long`.
    pub thorough: bool,
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
    /// List the steps that would run
    #[arg(long)]
    list: bool,
}

enum Outcome {
    Passed(String),
    Failed,
}

type Finished = (&'static Check, Duration, Outcome);

/// `cargo xtask test`: what has to hold after every change. Runs all selected steps even if one fails.
pub fn test(select: &Select, policy: Policy) -> Result<()> {
    select.run("test", steps::ALL, policy)
}

/// `cargo xtask long`: what takes too long for every change; before a release, and before an issue is called resolved.
pub fn long(select: &Select, policy: Policy) -> Result<()> {
    select.run("long", long::ALL, policy)
}

impl Select {
    fn run(&self, task: &str, all: &'static [Check], policy: Policy) -> Result<()> {
        let chosen = self.choose(all)?;
        if self.list {
            for check in chosen {
                say!("  {:<10} {}", check.name, check.about);
            }
            return Ok(());
        }
        warn_of_little_room();
        // All steps build the kernels, so nvcc has to be there before the first.
        let nvcc = chosen.iter().any(|check| check.name == "nvcc");
        setup::prepare(if nvcc { Need::Nvcc } else { Need::Run }, policy)?;
        run_all(&chosen, task, policy)
    }

    fn choose(&self, all: &'static [Check]) -> Result<Vec<&'static Check>> {
        for name in self.only.iter().chain(&self.skip) {
            if !all.iter().any(|check| check.name == name) {
                let names: Vec<&str> = all.iter().map(|check| check.name).collect();
                bail!("no step is called `{name}`; there are: {}", names.join(", "));
            }
        }
        let wanted = |check: &&Check| {
            let named = |list: &[String]| list.iter().any(|name| name == check.name);
            (self.only.is_empty() || named(&self.only)) && !named(&self.skip)
        };
        let chosen: Vec<&Check> = all.iter().filter(wanted).collect();
        if chosen.is_empty() {
            bail!("no step is left to run");
        }
        Ok(chosen)
    }
}

/// Builds and their results, in GB of 10^9 bytes, where nothing is built yet.
const ROOM: u64 = 8;

/// A full disk shows as all kinds of errors in the middle of a build: it is said before.
fn warn_of_little_room() {
    let root = place::root().display().to_string();
    let free = ask("df", &["--output=avail", "--block-size=1", &root]);
    let free: Option<u64> = free.and_then(|text| text.lines().nth(1)?.trim().parse().ok());
    if let Some(free) = free.filter(|free| *free < ROOM * 1_000_000_000) {
        report!(
            "xtask: {:.1} GB are free on the disk of {root}; a first build of everything takes about {ROOM} GB",
            free as f64 / 1e9
        );
    }
}

fn run_all(chosen: &[&'static Check], task: &str, policy: Policy) -> Result<()> {
    let (start, before) = (Instant::now(), worked());
    let results = run_each(chosen, task, &Context { policy, thorough: task == "long" });
    table(&results, start.elapsed(), worked().saturating_sub(before));
    let failed = results.iter().filter(|(_, _, outcome)| matches!(outcome, Outcome::Failed)).count();
    say!("{} passed, {failed} failed", results.len() - failed);
    if failed > 0 {
        bail!("{failed} of {} steps failed; logs are in {}", results.len(), place::shown(&place::logs()));
    }
    Ok(())
}

/// One after the other, and beside them those that keep one core busy; in the order of `chosen`.
fn run_each(chosen: &[&'static Check], task: &str, context: &Context) -> Vec<Finished> {
    let run = |place: usize, check: &'static Check| {
        report!("[{:>2}/{}] {}: {}", place + 1, chosen.len(), check.name, check.about);
        (place, run_one(check, task, context))
    };
    let mut results = std::thread::scope(|scope| {
        let (mut results, mut beside) = (Vec::new(), Vec::new());
        for (place, check) in chosen.iter().copied().enumerate() {
            match check.one_core {
                true => beside.push(scope.spawn(move || run(place, check))),
                false => results.push(run(place, check)),
            }
        }
        results.extend(
            beside.into_iter().map(|check| check.join().unwrap_or_else(|panic| resume_unwind(panic))),
        );
        results
    });
    results.sort_by_key(|(place, _)| *place);
    results.into_iter().map(|(_, finished)| finished).collect()
}

fn run_one(check: &'static Check, task: &str, context: &Context) -> Finished {
    let start = Instant::now();
    // A panic, whose text has been shown, is a failure like others: the rest runs, and the table is printed.
    let ended = catch_unwind(AssertUnwindSafe(|| (check.run)(context)));
    let outcome = match ended.unwrap_or_else(|_| Err(anyhow!("{} panicked", check.name))) {
        Ok(note) => Outcome::Passed(note),
        Err(error) => {
            tell_failure(&format!("{error:#}\n  again: cargo xtask {task} --only {}", check.name));
            Outcome::Failed
        }
    };
    (check, start.elapsed(), outcome)
}

/// As tables show it.
pub fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// `whole`: time that all of it took, and `worked`: that processors gave to it.
fn table(results: &[Finished], whole: Duration, worked: Duration) {
    let columns = [Column::text("step"), Column::text("result"), Column::number("time"), Column::text("")];
    let rows = results.iter().map(|(check, time, outcome)| {
        let (word, note) = match outcome {
            Outcome::Passed(note) => ("passed", note.as_str()),
            Outcome::Failed => ("FAILED", ""),
        };
        [check.name, word, &seconds(*time), note].map(str::to_owned)
    });
    let all = [("all of it", whole), ("processors", worked)];
    let rows = rows.chain(all.map(|(name, time)| [name, "", &seconds(time), ""].map(str::to_owned)));
    say!("\n{}", ggas_table::table(&columns, rows));
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &[Check] = &[
        Check::new("well", "", |_| Ok("done".into())),
        Check::one_core("beside", "", |_| panic!("a mistake in a check that runs beside others")),
        Check::new("torn", "", |_| panic!("a mistake in a check")),
        Check::one_core("ill", "", |_| bail!("it fails")),
        Check::new("last", "", |_| Ok(String::new())),
    ];

    #[test]
    fn a_check_that_panics_has_failed_and_the_others_run() {
        let chosen: Vec<&'static Check> = ALL.iter().collect();
        let context = Context { policy: Policy::Leave, thorough: false };
        let results = run_each(&chosen, "test", &context);
        let said = results.iter().map(|(check, _, end)| (check.name, matches!(end, Outcome::Passed(_))));
        let expected = [("well", true), ("beside", false), ("torn", false), ("ill", false), ("last", true)];
        assert_eq!(said.collect::<Vec<_>>(), expected);
        assert!(run_all(&chosen, "test", Policy::Leave).unwrap_err().to_string().starts_with("3 of 5"));
    }
}

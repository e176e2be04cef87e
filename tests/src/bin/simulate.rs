//! Simulates networks by their seeds: `cargo xtask sim`.

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use ggas_tests::sim::{self, Outcome, Plan};
use indicatif::{ProgressBar, ProgressStyle};

/// Simulates whole networks in virtual time, one for each seed, and checks every byte, notification and message
#[derive(Parser)]
struct Options {
    /// How many networks, with the seeds from --first on
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Networks to run first: a file with a seed at the beginning of each line
    #[arg(long, value_name = "FILE")]
    known: Option<PathBuf>,
    /// Begin no network after this many seconds
    #[arg(long, value_name = "SECONDS")]
    time: Option<u64>,
    /// Run each network twice, and compare
    #[arg(long)]
    twice: bool,
    /// Say what each network is and did
    #[arg(long, short)]
    verbose: bool,
}

#[derive(Default)]
struct Totals {
    networks: u64,
    nodes: usize,
    commands: u64,
    messages: u64,
    accesses: u64,
    packets: u64,
    time: Duration,
}

impl Totals {
    fn add(&mut self, outcome: &Outcome) {
        self.networks += 1;
        self.nodes += outcome.nodes;
        self.commands += outcome.commands;
        self.messages += outcome.messages;
        self.accesses += outcome.accesses;
        self.packets += outcome.packets;
        self.time += outcome.time;
    }
}

/// Says which network failed and how to see it again.
struct Named<'a>(&'a Plan);

impl Drop for Named<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let seed = self.0.seed;
            eprintln!("failed: {}\nagain: cargo xtask sim --first {seed} --seeds 1 --verbose", self.0);
        }
    }
}

/// The seeds of a file.
fn seeds_of(file: &Path) -> Result<Vec<u64>, String> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| format!("{} cannot be read: {error}", file.display()))?;
    let lines =
        text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    lines
        .map(|(number, line)| {
            let seed = line.split_whitespace().next().and_then(|word| word.parse().ok());
            seed.ok_or_else(|| {
                format!("{}:{}: a line begins with a seed, or with #", file.display(), number + 1)
            })
        })
        .collect()
}

/// Why it ends early.
enum End {
    Failed(String),
    /// Who read our output has gone away: nothing to say, no error.
    ReaderGone,
}

/// Writes to standard output; `println!` would panic, as if the network had failed.
fn say(text: &str) -> Result<(), End> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => End::ReaderGone,
        _ => End::Failed(format!("cannot write to standard output: {error}")),
    })
}

fn main() -> ExitCode {
    match simulate(&Options::parse()) {
        Ok(()) | Err(End::ReaderGone) => ExitCode::SUCCESS,
        Err(End::Failed(error)) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn simulate(options: &Options) -> Result<(), End> {
    let began = Instant::now();
    let known = options.known.as_deref().map(seeds_of).transpose().map_err(End::Failed)?.unwrap_or_default();
    let style = ProgressStyle::with_template("{pos}/{len} networks {wide_bar} {per_sec} {eta}");
    let bar = ProgressBar::new(options.seeds.saturating_add(known.len() as u64));
    let bar = bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let mut totals = Totals::default();
    // The last seed is a seed as well.
    let new = (0..options.seeds).map_while(|further| options.first.checked_add(further));
    for seed in known.into_iter().chain(new) {
        if options.time.is_some_and(|time| began.elapsed() >= Duration::from_secs(time)) {
            break;
        }
        let plan = Plan::of(seed);
        let named = Named(&plan);
        let outcome = sim::run(&plan);
        if options.twice {
            assert_eq!(sim::run(&plan), outcome, "the same seed did something else");
        }
        drop(named);
        if options.verbose {
            bar.suspend(|| say(&format!("{plan}\n  {outcome:?}\n")))?;
        }
        totals.add(&outcome);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let Totals { networks, nodes, commands, messages, accesses, packets, time } = totals;
    let took = began.elapsed();
    say(&format!(
        "{networks} networks of {nodes} nodes in all, {commands} commands, {messages} messages, {accesses} accesses, \
         {packets} packets and {:.0} s of virtual time in {:.1} s: {:.0} networks a minute\n",
        time.as_secs_f64(),
        took.as_secs_f64(),
        60.0 * networks as f64 / took.as_secs_f64(),
    ))?;
    if networks == 0 {
        let error = "no network was simulated: give it more time, or ask for more than 0 seeds";
        return Err(End::Failed(error.to_owned()));
    }
    Ok(())
}

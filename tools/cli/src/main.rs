//! The `ggas` command line.
//!
//! Exit codes: 0 all well; 1 wrong data, a failed call, or hardware that is not there; 2 a bad argument. `run` ends as
//! the program that it runs does, or as a shell that cannot run it: `ggas help run` lists the codes.

mod bench;
mod card;
mod decode;
mod demo;
mod energy;
mod failure;
mod info;
mod map;
mod net;
mod out;
mod outputs;
mod over_hosts;
mod paper;
mod plot;
mod registers;
mod run;
mod tune;
mod values;

use clap::{ArgAction, Parser, Subcommand};
use std::io::IsTerminal;
use std::process::ExitCode;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{fmt, registry};

/// Communication that GPU kernels start themselves: benchmarks, a demo, and looks inside.
#[derive(Parser)]
#[command(name = "ggas", version, propagate_version = true)]
struct Cli {
    /// Say more on standard error; twice: still more (RUST_LOG, if set, decides instead)
    #[arg(short, long, global = true, action = ArgAction::Count)]
    verbose: u8,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// EXTOLL nodes exchange data under kernels' own control: one table, everything verified
    Demo(demo::DemoArgs),
    /// Run a benchmark: `ggas bench list` lists them
    Bench(Box<bench::BenchArgs>),
    /// Count the energy that a program takes: `ggas energy ./program`
    Energy(energy::EnergyArgs),
    /// Measure which algorithm is quickest at which size on this host, and keep it for groups of nodes
    Tune(tune::TuneArgs),
    /// Draw results that were kept as SVG
    Plot(plot::PlotArgs),
    /// Ask a figure of a paper again, on the timed model: `ggas paper list` lists them
    Paper(paper::PaperArgs),
    /// Choose the GPU of each rank by who sends how much to whom: `ggas map pattern.txt`
    Map(map::MapArgs),
    /// Start the processes of a job: `ggas run -n 4 -- ./program`
    Run(Box<run::RunArgs>),
    /// Has an agent start the processes of one host: for `ggas run --host`
    #[command(hide = true)]
    RunLink,
    /// The processes of this host: for `ggas run --host`
    #[command(hide = true)]
    RunPart,
    /// Networks of the model on this host: make one that stays, list them, take one down
    Net(net::NetArgs),
    /// GPUs, peers, limits, and what each device kind offers on this machine
    Info(info::InfoArgs),
    /// Say in words what a descriptor (three hex words) or a notification (two) means
    Decode(decode::DecodeArgs),
    /// Bring a card into its network, from a file that all nodes of a site share
    Card(card::CardArgs),
    /// A process of a benchmark that starts it by itself
    #[command(name = ggas_benches::job::COMMAND, hide = true)]
    BenchPart(bench::BenchPartArgs),
    /// Show a device's registers, or make the tree of files in which old clients look for them
    Registers(registers::RegistersArgs),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    log_to_stderr(cli.verbose);
    let result = match cli.command {
        Command::Demo(args) => demo::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::BenchPart(args) => bench::part(&args),
        Command::Energy(args) => energy::run(&args),
        Command::Tune(args) => tune::run(&args),
        Command::Plot(args) => plot::run(&args),
        Command::Paper(args) => paper::run(&args),
        Command::Run(args) => return ended(run::run(*args)),
        Command::RunLink => return ended(over_hosts::link()),
        Command::RunPart => return ended(over_hosts::part()),
        Command::Map(args) => map::run(&args),
        Command::Net(args) => net::run(args),
        Command::Info(args) => info::run(&args),
        Command::Decode(args) => decode::run(&args),
        Command::Card(args) => card::run(&args),
        Command::Registers(args) => registers::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn ended(result: Result<ExitCode, failure::Failure>) -> ExitCode {
    result.unwrap_or_else(|failure| failure.report())
}

fn log_to_stderr(verbose: u8) {
    let level = [LevelFilter::WARN, LevelFilter::INFO, LevelFilter::DEBUG, LevelFilter::TRACE];
    let asked = std::env::var("RUST_LOG").ok().and_then(|text| text.parse::<Targets>().ok());
    let filter = asked.unwrap_or(Targets::new().with_default(level[usize::from(verbose.min(3))]));
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    // Spans are what the units of cards do, in builds with the feature `trace`.
    let layer = fmt::layer().with_ansi(colours).with_writer(std::io::stderr).with_span_events(FmtSpan::NEW);
    registry().with(layer).with(filter).init();
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn arguments_are_consistent() {
        super::Cli::command().debug_assert();
    }
}

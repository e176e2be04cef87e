//! `ggas bench`: one benchmark, its table, its JSON.

use crate::failure::Failure;
use crate::outputs::Outputs;
use crate::values::{self, Sizes};
use crate::{info, out};
use ggas_benches::{
    Bench, BenchError, Device, Fabric, Grid, Memory, NicProgress, Options, Path, Peers, Progress, Report,
    Scaling, Split, Team, Via, energy,
};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

/// Nodes in one process from which on a row takes long before there is anything to show.
const MANY: u32 = 128;

#[derive(clap::Args)]
pub struct BenchArgs {
    /// Name of a benchmark, or `list`
    name: String,
    /// Nodes that take part
    #[arg(long, value_name = "N")]
    nodes: Option<u32>,
    /// What joins the nodes: in-process, or process (one for each node)
    #[arg(long, value_name = "KIND")]
    fabric: Option<Fabric>,
    /// With --via hw: the other end is the machine whose card has this node id, where the same command runs with this
    /// card's
    #[arg(long, value_name = "NODE", conflicts_with = "fabric")]
    machine: Option<u16>,
    /// Keep each process to cores of its own; by default where there are enough
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pin: Option<bool>,
    /// Where kernels run: cpu or gpu; a GPU if there is one
    #[arg(long, value_name = "WHERE")]
    device: Option<Device>,
    /// What carries the traffic: sim (the software EXTOLL), hw (a card) or nvlink; else GGAS_DEVICE says it, else it is
    /// the card where there is one
    #[arg(long, value_name = "KIND")]
    via: Option<Via>,
    /// Where the payload lies: host or gpu
    #[arg(long, value_name = "WHERE")]
    memory: Option<Memory>,
    /// Payload bytes (collectives: elements): 8,64,4K or a range of doublings 8..1M
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = values::sizes)]
    sizes: Vec<Sizes>,
    /// himeno: grids by name (XS, S, M, L, XL) or as XxYxZ, a list
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    grid: Vec<Grid>,
    /// himeno: a grid is each node's (weak), or what all have together (strong)
    #[arg(long, value_name = "KIND")]
    scaling: Option<Scaling>,
    /// himeno: parts of a grid along x, y and z, a node for each; 1x1xN unless set
    #[arg(long, value_name = "PxQxR")]
    split: Option<Split>,
    /// Threads per block, a list
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    threads: Vec<u32>,
    /// Blocks per node, a list
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    blocks: Vec<u32>,
    /// hpe-stencil, hpe-fft, hpe-sort: devices that a program runs on, a list; of each process, if there are several
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    devices: Vec<u32>,
    /// Timed operations per row, at most 4294967296
    #[arg(long, value_name = "N")]
    iterations: Option<u64>,
    /// One of the benchmark's methods; all of them otherwise
    #[arg(long, visible_alias = "form", value_name = "NAME")]
    method: Option<String>,
    /// Seed of all data
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// How descriptors reach the requester: card (requester pages) or slots
    #[arg(long, value_name = "PATH")]
    path: Option<Path>,
    /// Slots per ring, a power of two
    #[arg(long, value_name = "N")]
    slots: Option<u32>,
    /// Warps of an RMA engine that serve its ports (--via nvlink)
    #[arg(long, value_name = "N")]
    requesters: Option<u32>,
    /// Warps of an RMA engine that help with large packets, each way (--via nvlink)
    #[arg(long, value_name = "N")]
    helpers: Option<u32>,
    /// Who drives the software EXTOLL: inline (the caller's posts and polls) or threads
    #[arg(long, value_name = "WHO")]
    progress: Option<NicProgress>,
    /// GPUs that the nodes are spread over
    #[arg(long, value_name = "N")]
    gpus: Option<u32>,
    /// Bound of every wait, in seconds; processes wait 12 times as long for each other, at least 20 s: one may run a
    /// whole row while the others have no part in it
    #[arg(long, value_name = "S", value_parser = values::seconds)]
    timeout: Option<Duration>,
    /// Write the result as JSON; `-`: to standard output, and everything else to standard error
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Put other libraries' figures beside the rows: a file of them, or a program that prints them, such as
    /// benches/peers/run.sh; several may be given
    #[arg(long, value_name = "FILE")]
    peer: Vec<PathBuf>,
    /// Run each row again for at least this many seconds (10), and count its energy
    #[arg(long, value_name = "S", num_args = 0..=1, require_equals = true, default_missing_value = "10",
          value_parser = values::seconds)]
    energy: Option<Duration>,
    /// Draw the result as SVG
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

/// What such a process measures, in the words of the benchmark.
#[derive(clap::Args)]
pub struct BenchPartArgs {
    words: Vec<String>,
}

pub fn part(args: &BenchPartArgs) -> Result<(), Failure> {
    let job = ggas_benches::job::Job::of(&args.words);
    let job = job.ok_or_else(|| Failure::Usage("benchmarks start this by themselves".to_owned()))?;
    Ok(ggas_benches::job::part(&job)?)
}

pub fn run(args: &BenchArgs) -> Result<(), Failure> {
    if args.name == "list" {
        return list(args);
    }
    let bench = ggas_benches::find(&args.name)?;
    let via = info::via(args.via, args.device, None)?;
    if let Some(fabric) = args.fabric.filter(|_| bench.has_own_processes()) {
        let why = format!("--fabric {fabric}: {} starts processes by itself; leave it out", bench.name());
        return Err(Failure::Usage(why));
    }
    if let Some(peer) = args.machine {
        return with_machine(args, via, bench, peer);
    }
    match (args.fabric, Team::is_launched()) {
        (Some(Fabric::InProcess), true) => {
            let why = "--fabric in-process: a launcher started this process as one of several; leave one of both out";
            Err(Failure::Usage(why.to_owned()))
        }
        (_, true) => one_of_several(args, via, bench),
        (Some(Fabric::Process), false) => {
            let options = options(args, via, None)?;
            options.validate(bench)?;
            // Where the result goes is tried here: afterwards several would complain.
            outputs(args)?;
            match ggas_benches::launch(options.nodes, args.pin, options.timeout)? {
                0 => Ok(()),
                code => Err(Failure::Said(code)),
            }
        }
        (_, false) => {
            if args.pin == Some(true) {
                return Err(Failure::Usage(
                    "--pin: processes are kept to cores with --fabric process".to_owned(),
                ));
            }
            by_team(args, via, bench, &Team::alone())
        }
    }
}

/// Takes part as one of two machines. Both know how it went; the lower node id speaks.
fn with_machine(args: &BenchArgs, via: Via, bench: &dyn Bench, peer: u16) -> Result<(), Failure> {
    if via != Via::Hw {
        return Err(Failure::Usage(format!("--machine {peer}: machines are joined by cards; use --via hw")));
    }
    options(args, via, None)?.validate(bench)?;
    by_team(args, via, bench, &Team::across_cards(peer)?)
}

/// Takes part as one process of a job. The first one speaks for all, the others of their own troubles only.
fn one_of_several(args: &BenchArgs, via: Via, bench: &dyn Bench) -> Result<(), Failure> {
    let team = Team::join(args.pin)?;
    by_team(args, via, bench, &team).map_err(|failure| match failure {
        failure if team.is_first() => failure,
        Failure::Usage(_) => Failure::Said(2),
        Failure::Failed(text) => Failure::Failed(format!("rank {}: {text}", team.rank())),
        other => other,
    })
}

fn by_team(args: &BenchArgs, via: Via, bench: &dyn Bench, team: &Team) -> Result<(), Failure> {
    let options = options(args, via, Some(team))?;
    if !team.is_first() {
        run_bench(args, bench, team, &options, &mut Progress::silent())?;
        return Ok(());
    }
    let outputs = outputs(args)?;
    if let Some(missing) = args.peer.iter().find(|path| !path.is_file()) {
        return Err(Failure::Usage(format!("--peer {}: there is no such file", missing.display())));
    }
    let mut report = measure(args, bench, team, &options)?;
    let mut peers = Peers::default();
    for path in &args.peer {
        // What was measured is not lost when a peer fails.
        if let Err(error) = peers.add(path, bench.name(), options.nodes) {
            report.notes.push(error.to_string());
        }
    }
    if !args.peer.is_empty() {
        peers.join(&mut report);
    }
    let svg = outputs.has_plot().then(|| report.svg()).transpose()?;
    outputs.give(&report.table(), &report.json(), svg.as_deref())?;
    Ok(report.check()?)
}

/// Runs a benchmark with a progress bar on standard error.
fn measure(args: &BenchArgs, bench: &dyn Bench, team: &Team, options: &Options) -> Result<Report, Failure> {
    options.validate(bench)?;
    if options.nodes >= MANY && team.size() == 1 {
        let nodes = options.nodes;
        out::note(&format!(
            "ggas: {nodes} nodes share the cores of this machine: each row can take minutes\n"
        ));
    }
    let mut progress = Progress::bar();
    let report = run_bench(args, bench, team, options, &mut progress);
    progress.finish();
    Ok(report?)
}

/// Runs it, with counters of energy where they were asked for.
fn run_bench(
    args: &BenchArgs,
    bench: &dyn Bench,
    team: &Team,
    options: &Options,
    progress: &mut Progress,
) -> Result<Report, BenchError> {
    match args.energy {
        Some(time) => energy::measure(bench, team, options, time.as_secs_f64(), progress),
        None => bench.run(team, options, progress),
    }
}

/// How many nodes are asked for: as many as parts, if nothing else is said.
fn nodes(args: &BenchArgs) -> Option<u32> {
    args.nodes.or(args.split.map(Split::nodes))
}

/// The options for `team`; `None`: for processes still to be started.
fn options(args: &BenchArgs, via: Via, team: Option<&Team>) -> Result<Options, Failure> {
    let default = Options::default();
    let (device, why) = info::choose(args.device)?;
    if let Some(why) = why.filter(|_| team.is_some_and(Team::is_first)) {
        out::note(&format!("{}\n", info::fallback(&why)));
    }
    if let Some(gpus) = args.gpus.filter(|_| device == Device::Cpu) {
        let why =
            format!("--gpus {gpus}: kernels run on the CPU executor; leave it out, or use --device gpu");
        return Err(Failure::Usage(why));
    }
    if let Some(scaling) = args.scaling.filter(|_| args.name != "himeno") {
        let why = format!("--scaling {scaling}: only himeno has grids that nodes share; leave it out");
        return Err(Failure::Usage(why));
    }
    if let Some(split) = args.split.filter(|_| !["himeno", "gmpi-himeno"].contains(&&args.name[..])) {
        let why =
            format!("--split {split}: only himeno and gmpi-himeno have grids that nodes share; leave it out");
        return Err(Failure::Usage(why));
    }
    if let Some(slots) = args.slots.filter(|_| args.path == Some(Path::Card)) {
        let why = format!("--slots {slots}: a card's pages have no slots; leave it out, or use --path slots");
        return Err(Failure::Usage(why));
    }
    let processes = team.map(Team::size).filter(|size| *size > 1);
    let nodes = nodes(args).or(processes).unwrap_or(default.nodes);
    Ok(Options {
        nodes,
        device,
        via,
        memory: args.memory.unwrap_or(default.memory),
        sizes: args.sizes.iter().flat_map(|list| list.0.iter().copied()).collect(),
        grids: args.grid.clone(),
        grid_of_row: None,
        scaling: args.scaling.unwrap_or(default.scaling),
        split: args.split,
        iterations: args.iterations,
        method: args.method.clone(),
        threads: args.threads.clone(),
        blocks: args.blocks.clone(),
        devices: args.devices.clone(),
        seed: args.seed.unwrap_or(default.seed),
        path: args.path,
        slots: args.slots.unwrap_or(default.slots),
        requesters: args.requesters,
        helpers: args.helpers,
        progress: args.progress,
        gpus: args.gpus.unwrap_or(processes.unwrap_or(default.gpus)),
        timeout: args.timeout.unwrap_or(default.timeout),
    })
}

/// Names of all benchmarks; as JSON: an array of objects with `name`, `about` and `methods`.
fn list(args: &BenchArgs) -> Result<(), Failure> {
    let mut text = String::new();
    let mut json = Vec::new();
    let width = ggas_benches::all().iter().map(|bench| bench.name().len()).max().unwrap_or_default();
    for bench in ggas_benches::all() {
        let (name, about, methods) = (bench.name(), bench.about(), bench.methods());
        json.push(serde_json::json!({ "name": name, "about": about, "methods": methods }));
        let _ = writeln!(text, "  {name:<width$} {about}");
        if !methods.is_empty() {
            let _ = writeln!(text, "  {:<width$} methods: {}", "", methods.join(", "));
        }
    }
    outputs(args)?.give(&text, &format!("{:#}\n", serde_json::Value::from(json)), None)
}

/// Where the result goes.
fn outputs(args: &BenchArgs) -> Result<Outputs, Failure> {
    Outputs::open(args.json.as_deref(), args.plot.as_deref())
}

//! `ggas tune`: measures the choices that groups of nodes, and GASPI's processes, have on this host, and writes them down.

use crate::failure::Failure;
use crate::values::{self, Sizes};
use crate::{info, out};
use ggas_benches::{Device, Options, Progress, Report, Team, Via};
use ggas_coll::{GaspiLimits, GroupError, Tuning};
use ggas_shared_gpu::{HostChoice, HostChoices, Through};
use ggas_table::Column;
use std::fmt::Write as _;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub struct TuneArgs {
    /// Nodes, in one process; with --shared-gpu processes, at most 256
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..=1024))]
    nodes: u32,
    /// Where kernels run: cpu or gpu; a GPU if there is one
    #[arg(long, value_name = "WHERE")]
    device: Option<Device>,
    /// What carries the traffic: sim (the software EXTOLL) or nvlink; else GGAS_DEVICE says it, else it is nvlink for
    /// kernels on GPUs
    #[arg(long, value_name = "KIND")]
    via: Option<Via>,
    /// Collectives of processes that share one GPU, or several, instead of groups and GASPI; takes about a minute
    #[arg(long, conflicts_with = "via")]
    shared_gpu: bool,
    /// GPUs of this host that the processes of --shared-gpu are on, by turns; what the table has for one stays
    #[arg(long, value_name = "N", default_value_t = 1, requires = "shared_gpu",
          value_parser = clap::value_parser!(u32).range(1..=64))]
    gpus: u32,
    /// How they go between hosts: in each process of a job on several hosts, such as `ggas run --host h1:4,h2:4 -- ggas tune --shared-gpu
    /// --between-hosts`, or by mpirun. Each host keeps what is found in its table
    #[arg(long, requires = "shared_gpu", conflicts_with_all = ["nodes", "gpus"])]
    between_hosts: bool,
    /// Runs of each size and algorithm with --shared-gpu
    #[arg(long, value_name = "N", default_value_t = 100, requires = "shared_gpu",
          value_parser = clap::value_parser!(u32).range(10..=100_000))]
    runs: u32,
    /// Bytes to measure with --shared-gpu: 8,64,4K or a range of doublings 8..1M
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = values::sizes, requires = "shared_gpu")]
    sizes: Vec<Sizes>,
    /// The table: what it has for other devices and numbers of nodes stays. Default: where groups look (GGAS_TUNING, or
    /// ggas/tuning.json in XDG_CONFIG_HOME or ~/.config)
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub fn run(args: &TuneArgs) -> Result<(), Failure> {
    let path = args.output.clone().or_else(Tuning::host_path);
    let path = path.ok_or_else(|| {
        Failure::Usage(
            "no place for the table: name one with --output, or set GGAS_TUNING or HOME".to_owned(),
        )
    })?;
    let (device, why) = info::choose(args.device)?;
    if let Some(why) = why {
        out::note(&format!("{}\n", info::fallback(&why)));
    }
    if args.between_hosts {
        return between_hosts(args, device, &path);
    }
    if args.shared_gpu {
        return shared(args, device, &path);
    }
    let usual = if device == Device::Gpu { Via::Nvlink } else { Via::Sim };
    let via = info::via(args.via, args.device, Some(usual))?;
    // What cannot be written, or read for what else is in it, must not cost a measurement.
    Tuning::can_write(&path).map_err(failed)?;
    let mut table = so_far(&path)?;
    let gpus = if device == Device::Gpu { args.nodes } else { 1 };
    let options = Options { nodes: args.nodes, device, via, gpus, ..Options::default() };
    let mut progress = Progress::bar();
    let tuned = ggas_benches::tune(&Team::alone(), &options, &mut progress);
    progress.finish();
    let tuned = tuned?;
    let mut text = String::new();
    for report in &tuned.reports {
        text += &report.table();
    }
    let choices = &tuned.choices;
    let _ = writeln!(text, "{} nodes on {}:", choices.nodes, choices.device);
    if choices.nodes > 2 {
        let _ = writeln!(text, "  allreduce by packets in one step up to {} bytes", choices.one_shot_bytes);
    }
    for sum in &choices.sums {
        let shape = sum.shape;
        let how = match shape.chunks {
            0 => "by reads".to_owned(),
            chunks => format!("by writes in {chunks} chunks"),
        };
        let (from, blocks, threads) = (sum.from_bytes, shape.blocks, shape.threads);
        let _ =
            writeln!(text, "  sums of {from} bytes and more: {blocks} blocks of {threads} threads, {how}");
    }
    if let Some(limits) = tuned.gaspi {
        text += &gaspi_limits(&limits);
        table.insert_gaspi(limits);
    }
    table.insert(tuned.choices).map_err(failed)?;
    table.write(&path).map_err(failed)?;
    let _ = writeln!(text, "written to {}", path.display());
    out::print(&text)
}

/// Processes that share a GPU.
fn shared(args: &TuneArgs, device: Device, path: &Path) -> Result<(), Failure> {
    if args.nodes > 256 {
        return Err(Failure::Usage(format!("--nodes {}: use at most 256 processes for a GPU", args.nodes)));
    }
    if args.gpus > args.nodes {
        let TuneArgs { nodes, gpus, .. } = args;
        return Err(Failure::Usage(format!("--gpus {gpus}: {nodes} processes are on at most as many")));
    }
    Tuning::can_write(path).map_err(failed)?;
    let mut table = so_far(path)?;
    let sizes = args.sizes.iter().flat_map(|list| list.0.iter().copied()).collect();
    let options = Options { nodes: args.nodes, gpus: args.gpus, device, sizes, ..Options::default() };
    let mut progress = Progress::bar();
    let tuned = ggas_benches::tune_shared(&options, args.runs, &mut progress);
    progress.finish();
    let tuned = tuned?;
    let mut text: String = tuned.reports.iter().map(Report::table).collect();
    for choices in tuned.choices {
        let mps = if choices.mps { "with" } else { "without" };
        let gpus = if choices.gpus.is_empty() { String::new() } else { format!(" {:?} x", choices.gpus) };
        let _ = write!(
            text,
            "{} of {} processes on{gpus} {}, {mps} MPS:",
            choices.collective, choices.ranks, choices.device
        );
        for choice in &choices.by_size {
            let _ = write!(text, " from {} bytes {:?}", choice.from_bytes, choice.algorithm);
            let _ = match choice.between {
                Some(between) => write!(text, ", between GPUs {between:?};"),
                None => write!(text, ";"),
            };
        }
        text.push('\n');
        table.shared_gpu.insert(choices).map_err(Failure::Failed)?;
    }
    table.write(path).map_err(failed)?;
    let _ = writeln!(text, "written to {}", path.display());
    out::print(&text)
}

/// Processes that share GPUs of several hosts, of which this is one.
fn between_hosts(args: &TuneArgs, device: Device, path: &Path) -> Result<(), Failure> {
    Tuning::can_write(path).map_err(failed)?;
    let mut table = so_far(path)?;
    let sizes = args.sizes.iter().flat_map(|list| list.0.iter().copied()).collect();
    let tuned = ggas_benches::tune_hosts(&Options { device, sizes, ..Options::default() }, args.runs)?;
    let columns = [
        Column::text("collective"),
        Column::number("bytes"),
        Column::text("way"),
        Column::number("us"),
        Column::number("runs"),
    ];
    let rows = tuned.rows.iter().map(|(collective, bytes, method, us, runs)| {
        [collective.to_string(), bytes.to_string(), method.clone(), format!("{us:.2}"), runs.to_string()]
    });
    let mut text = ggas_table::table(&columns, rows) + "\n";
    for choices in tuned.choices {
        let HostChoices { collective, hosts, device, by_size, .. } = &choices;
        let _ = write!(text, "{collective} between {hosts} hosts of {device}:");
        for HostChoice { from_bytes, across } in by_size {
            let whole = if across.whole { ", whole" } else { "" };
            let memory = if across.through == Through::Gpu { "GPU" } else { "host" };
            let _ = write!(text, " from {from_bytes} bytes through {memory} memory{whole};");
        }
        text.push('\n');
        table.between_hosts.insert(choices).map_err(Failure::Failed)?;
    }
    if tuned.keeps {
        table.write(path).map_err(failed)?;
    }
    if !tuned.tells {
        return Ok(());
    }
    let _ = writeln!(text, "written to {} on each host", path.display());
    out::print(&text)
}

fn gaspi_limits(limits: &GaspiLimits) -> String {
    let GaspiLimits { standby_max, engine_max, stores_max, piece, staged_min, staged_piece, .. } = limits;
    format!(
        "  GASPI's writes between GPUs: by a kernel on standby up to {standby_max} bytes, a copy engine up to {engine_max}, stores up to \
         {stores_max}, above in pieces of {piece}; through a network device straight up to {staged_min}, above in pieces of \
         {staged_piece} through host memory\n"
    )
}

/// What the table has already. A damaged one is overwritten.
fn so_far(path: &Path) -> Result<Tuning, Failure> {
    match Tuning::read(path) {
        Err(GroupError::Tuning { reason, .. }) => {
            out::note(&format!("{} is damaged ({reason}): it is written anew\n", path.display()));
            Ok(Tuning::default())
        }
        Err(GroupError::TuningUnread { source, .. }) if source.kind() == ErrorKind::NotFound => {
            Ok(Tuning::default())
        }
        read => read.map_err(failed),
    }
}

fn failed(error: GroupError) -> Failure {
    Failure::Failed(error.to_string())
}

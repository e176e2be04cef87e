//! `ggas map`: which rank should have which GPU.

mod cluster;
mod measure;
mod report;

use crate::failure::{Failure, chain};
use crate::out;
use crate::outputs::Outputs;
use ggas_mapping::{MapError, Mapping, Metric, Pattern, Search, Topology, files, map};
use report::{Report, Row};
use std::path::{Path, PathBuf};

const FILES: &str = "\
The pattern is a matrix of whole numbers: a line for each rank that sends, in it the bytes for each rank that receives,
separated by spaces or commas. Empty lines, what follows a #, and a byte order mark do not count.

A run of any MPI program is traced by Open MPI; `ggas map traced:PREFIX` reads what it writes, a file for each rank:
  mpirun --mca pml_monitoring_enable 2 --mca pml_monitoring_enable_output 3 --mca pml_monitoring_filename PREFIX ./program
What hosts and kernels move by this suite, and GMPI's own messages, are traced into the same files:
  GGAS_TRACE=PREFIX ggas run -n N ./program
Of several runs of one prefix the last one counts, and files of others are named.

The topology is TOML, with levels from the nearest on:
  name = \"my node\"
  groups = [2, 4]        # pairs of GPUs, four pairs; or levels = [[0, 1], [1, 0]], the level between each two GPUs
  devices = [\"0\", \"1\"]   # names, if they are not 0, 1, ...
  [[channel]]            # one for each level
  name = \"switch\"
  latency_us = 10        # of short messages, if it was measured
  gbytes_per_s = 20      # of long ones, if it was measured";

#[derive(clap::Args)]
#[command(after_help = FILES)]
pub struct MapArgs {
    /// Who sends how much to whom: a file, `traced:PREFIX` (the files that Open MPI or this suite wrote of a run: see below), `2d:4x4`,
    /// `3d:2x2x4` (neighbours in a grid; `+wrap`, `+weight` behind it) or `coll:4x2x2` (all to all along the first dimension)
    #[arg(required_unless_present = "show_topology")]
    pattern: Option<String>,
    /// The GPUs and what joins them: a file, or `helios`, `pascal` (the thesis' nodes), `nvml`, `sysfs` (those of this host;
    /// distances only) [default: nvml, else sysfs]
    #[arg(long, value_name = "NAME")]
    topology: Option<String>,
    /// Only these devices of it, a list
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    devices: Vec<String>,
    /// What counts: latency, bandwidth or distance [default: bandwidth where it was measured, else distance]
    #[arg(long)]
    metric: Option<Metric>,
    /// Of the choices at random
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Measure how quick copies between the GPUs of this host are, by CUDA; with --show-topology to keep it
    #[arg(long)]
    measure: bool,
    /// Print the topology as a file, and map nothing
    #[arg(long, conflicts_with = "pattern")]
    show_topology: bool,
    /// Write the result as JSON; `-`: to standard output, and everything else to standard error
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw how loaded the links are, as SVG
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    #[command(flatten)]
    nodes: cluster::NodeArgs,
}

pub fn run(args: &MapArgs) -> Result<(), Failure> {
    let topology = match &args.topology {
        Some(name) if args.measure && !["nvml", "sysfs"].contains(&name.as_str()) => {
            let message = format!("--measure is of the GPUs of this host: --topology {name} is another");
            return Err(Failure::Usage(message));
        }
        name => topology(name.as_deref())?,
    };
    let topology = if args.measure { measure::measure(&topology)? } else { topology };
    let topology = if args.devices.is_empty() { topology } else { topology.only(&args.devices)? };
    let Some(pattern) = args.pattern.as_deref().filter(|_| !args.show_topology) else {
        return out::print(&topology.text());
    };
    let pattern = self::pattern(pattern)?;
    let metric = args.metric.unwrap_or_else(|| usual(&topology));
    let search = Search { seed: args.seed, ..Search::default() };
    if !args.nodes.hosts.is_empty() {
        return cluster::run(
            &args.nodes,
            topology,
            &pattern,
            metric,
            search,
            args.json.is_some() || args.plot.is_some(),
        );
    }
    args.nodes.must_be_unused()?;
    let outputs = Outputs::open(args.json.as_deref(), args.plot.as_deref())?;
    let ours = map(&topology, &pattern, metric, search)?;
    let mut rows = vec![
        Row::of("default", &topology, &pattern, &Mapping::default_of(&topology, &pattern)?)?,
        Row::of("mapped", &topology, &pattern, &ours)?,
    ];
    for (number, random) in (1..).zip(Mapping::randoms(&topology, &pattern, args.seed, RANDOM)?) {
        rows.push(Row::of(&format!("random {number}"), &topology, &pattern, &random)?);
    }
    let report = Report { topology: &topology, pattern: &pattern, metric, rows, search };
    let svg = outputs.has_plot().then(|| report.svg()).transpose()?;
    let gpus = files::visible_devices(&topology, &ours);
    let start =
        format!("start it with: ggas run -n {} --per-node {0} --gpus {gpus} -- PROGRAM\n", pattern.ranks());
    outputs.give(&(report.table() + &start), &report.json(&gpus), svg.as_deref())
}

/// The best that can be judged by.
fn usual(topology: &Topology) -> Metric {
    Metric::Bandwidth.weights(topology).map_or(Metric::Distance, |_| Metric::Bandwidth)
}

fn topology(name: Option<&str>) -> Result<Topology, Failure> {
    let sys = Path::new("/sys");
    let found = match name {
        None => {
            let found = ggas_mapping::nvml().or_else(|_| ggas_mapping::sysfs(sys));
            return found.map_err(|error| {
                Failure::Failed(format!("no GPU of this host is found ({error}): use --topology"))
            });
        }
        Some("nvml") => return ggas_mapping::nvml().map_err(|error| Failure::Failed(chain(&error))),
        Some("sysfs") => return ggas_mapping::sysfs(sys).map_err(|error| Failure::Failed(chain(&error))),
        Some(name) if Topology::NAMES.contains(&name) => Topology::named(name)?,
        Some(name) if is_file_name(name) => Topology::load(Path::new(name))?,
        Some(name) => {
            let known = Topology::NAMES.join(", ");
            return Err(Failure::Usage(format!(
                "there is no file `{name}`, and no topology of this name: built in are {known}, nvml and sysfs"
            )));
        }
    };
    Ok(found)
}

/// Something is there, or it is no mere word.
fn is_file_name(name: &str) -> bool {
    Path::new(name).exists() || name.contains(['/', '.'])
}

fn pattern(name: &str) -> Result<Pattern, Failure> {
    if let Some(prefix) = name.strip_prefix("traced:") {
        if prefix.is_empty() {
            return Err(Failure::Usage(
                "traced: has no prefix: write what GGAS_TRACE was behind it".to_owned(),
            ));
        }
        let pattern = Pattern::traced(Path::new(prefix))?;
        tell_left_out(pattern.left_out());
        return Ok(pattern);
    }
    let Some((kind, rest)) = name.split_once(':').filter(|(kind, _)| ["2d", "3d", "coll"].contains(kind))
    else {
        return Ok(Pattern::load(Path::new(name))?);
    };
    let wrong = || {
        Failure::Usage(format!(
            "`{name}` is no pattern: write such as 2d:4x4, 3d:2x2x4+wrap+weight, coll:4x2x2"
        ))
    };
    let mut parts = rest.split('+');
    let grid =
        parts.next().unwrap_or_default().split('x').map(|size| size.parse().ok().filter(|size| *size > 0));
    let grid: Vec<usize> = grid.collect::<Option<_>>().ok_or_else(wrong)?;
    let (mut wrap, mut weight) = (false, 1);
    for part in parts {
        match part {
            "wrap" if kind != "coll" => wrap = true,
            "weight" if kind != "coll" => weight = 3,
            _ => return Err(wrong()),
        }
    }
    match (kind, grid.len()) {
        ("2d", 2) | ("3d", 3) => Ok(Pattern::stencil(&grid, wrap, weight, MESSAGE)?),
        ("coll", 3) => Ok(Pattern::all_to_all(&grid, MESSAGE)?),
        _ => Err(wrong()),
    }
}

/// Which files of a prefix do not count.
fn tell_left_out(files: &[PathBuf]) {
    const NAMED: usize = 5;
    if !files.is_empty() {
        let names: Vec<String> = files.iter().take(NAMED).map(|file| file.display().to_string()).collect();
        let more = files.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        out::note(&format!("ggas map: left out, of other runs: {}{more}\n", names.join(", ")));
    }
}

/// Mappings at random that ours stands beside.
const RANDOM: usize = 4;

/// Bytes of a message of a pattern that is named, not read.
const MESSAGE: u64 = 1 << 20;

impl From<MapError> for Failure {
    fn from(error: MapError) -> Failure {
        Failure::Usage(chain(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_have_names() {
        let ranks = |name: &str| pattern(name).map(|pattern| (pattern.ranks(), pattern.bytes(0, 4)));
        assert_eq!(ranks("2d:4x4+weight").unwrap(), (16, 3 << 20));
        assert_eq!(ranks("3d:2x2x4+wrap").unwrap(), (16, 2 << 20));
        assert_eq!(ranks("coll:4x2x2").unwrap(), (16, 1 << 20));
        for name in ["2d:4", "2d:4x4+x", "2d:0x4", "3d:4x4", "coll:4x2x2+wrap", "2d:", "2d:99999999999x9"] {
            assert!(matches!(ranks(name), Err(Failure::Usage(_))), "{name}");
        }
        assert!(ranks("nothing.txt").unwrap_err().to_string().contains("nothing.txt"));
    }
}

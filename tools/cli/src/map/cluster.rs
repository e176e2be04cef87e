//! Several nodes: `ggas map --hosts`.

use super::pattern;
use crate::failure::Failure;
use crate::out;
use crate::outputs::{is_stdout, written};
use ggas_benches::WholeFile;
use ggas_mapping::{Cluster, Metric, Pattern, Search, Topology, counted, files};
use ggas_table::Column;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub struct NodeArgs {
    /// Nodes, all alike: names of hosts, a list, of which each gets as many ranks; name fewer for ranks to be closer together. First the
    /// node of each rank is chosen, then its core, then its GPU
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub hosts: Vec<String>,
    /// What the CPUs of the ranks send each other, as the pattern [default: nothing]
    #[arg(long, value_name = "PATTERN")]
    cpu_pattern: Option<String>,
    /// The cores of a node, a topology's file whose devices are numbers of cores [default: as many as GPUs, all alike]
    #[arg(long, value_name = "FILE")]
    cores: Option<PathBuf>,
    /// What joins the nodes, a topology's file [default: one switch]
    #[arg(long, value_name = "FILE")]
    network: Option<PathBuf>,
    /// Write for `mpirun --rankfile`: host and core of each rank. This, or one of the next two, may be `-`: standard output, and
    /// everything else to standard error
    #[arg(long, value_name = "FILE")]
    rankfile: Option<PathBuf>,
    /// Write for SLURM_HOSTFILE and `srun --distribution=arbitrary`: the host of each rank
    #[arg(long, value_name = "FILE")]
    hostfile: Option<PathBuf>,
    /// Write a script that stands before the program (`mpirun ... sh FILE ./program`): it chooses the GPUs of a rank
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
}

impl NodeArgs {
    /// Whether a file goes to standard output, where only one has a place.
    fn to_stdout(&self) -> Result<bool, Failure> {
        let files =
            [("--rankfile", &self.rankfile), ("--hostfile", &self.hostfile), ("--script", &self.script)];
        let asked = files.into_iter().filter(|(_, path)| path.as_deref().is_some_and(is_stdout));
        let asked: Vec<_> = asked.map(|(name, _)| name).collect();
        match asked.len() {
            0 | 1 => Ok(!asked.is_empty()),
            _ => Err(Failure::Usage(format!(
                "{}: standard output takes one of them; name a file (./- for one of this name)",
                asked.join(" and ")
            ))),
        }
    }

    pub fn must_be_unused(&self) -> Result<(), Failure> {
        let asked = [
            ("--cpu-pattern", self.cpu_pattern.is_some()),
            ("--cores", self.cores.is_some()),
            ("--network", self.network.is_some()),
            ("--rankfile", self.rankfile.is_some()),
            ("--hostfile", self.hostfile.is_some()),
            ("--script", self.script.is_some()),
        ];
        match asked.into_iter().find(|(_, is_asked)| *is_asked) {
            Some((name, _)) => {
                Err(Failure::Usage(format!("{name} needs --hosts, such as --hosts localhost")))
            }
            None => Ok(()),
        }
    }
}

/// Places that are all alike.
fn flat(name: &str, places: usize) -> Result<Topology, Failure> {
    let text = format!("name = '{name}'\ngroups = [{places}]\n[[channel]]\nname = '{name}'\n");
    Ok(Topology::parse(&text, name)?)
}

fn load(path: Option<&Path>, name: &str, places: usize) -> Result<Topology, Failure> {
    path.map_or_else(|| flat(name, places), |path| Ok(Topology::load(path)?))
}

pub fn run(
    args: &NodeArgs,
    gpus: Topology,
    gpu: &Pattern,
    metric: Metric,
    search: Search,
    is_single: bool,
) -> Result<(), Failure> {
    if is_single {
        return Err(Failure::Usage("--json and --plot are for one node: leave --hosts out".to_owned()));
    }
    let to_stdout = args.to_stdout()?;
    let cores = load(args.cores.as_deref(), "cores", gpus.places())?;
    let network = load(args.network.as_deref(), "switch", args.hosts.len())?;
    let cluster = Cluster { network, cores, gpus };
    files::check(&cluster, &args.hosts)?;
    let (hosts, room) = (cluster.network.places(), cluster.room());
    if gpu.ranks() > hosts * room {
        return Err(Failure::Usage(format!(
            "{} do not fit {} with room for {room} each (a GPU and a core for each rank): name more hosts, or use fewer ranks",
            counted(gpu.ranks(), "rank"),
            counted(hosts, "host")
        )));
    }
    let cpu = args.cpu_pattern.as_deref().map_or_else(|| Ok(Pattern::new(gpu.ranks())?), pattern)?;
    let ours = cluster.map(&cpu, gpu, metric, search)?;
    let default = cluster.default_of(&cpu, gpu)?;
    let rankfile = files::rankfile(&cluster, &ours, &args.hosts)?;
    let columns =
        [Column::number("rank"), Column::text("host"), Column::number("core"), Column::number("GPU")];
    let rows = (0..gpu.ranks()).map(|rank| {
        let host = args.hosts[ours.node[rank]].clone();
        [
            rank.to_string(),
            host,
            cluster.cores.device(ours.core[rank]).to_owned(),
            cluster.gpus.device(ours.gpu[rank]).to_owned(),
        ]
    });
    let table = ggas_table::table(&columns, rows);
    let both = cpu.plus(gpu)?;
    let between = |node: &[usize]| {
        let far = both.messages().filter(|(from, to, _)| node[*from] != node[*to]);
        far.fold(0.0, |sum, (.., bytes)| sum + bytes as f64)
    };
    let (before, after) = (between(&default.node), between(&ours.node));
    let said = format!("{table}\nbetween nodes: {} by default, {} mapped\n", volume(before), volume(after));
    if to_stdout {
        out::note(&said);
    } else {
        out::print(&said)?;
    }
    let hostfile = files::hostfile(&cluster, &ours, &args.hosts)?;
    let script = files::script(&cluster, &ours);
    for (path, text) in [(&args.rankfile, rankfile), (&args.hostfile, hostfile), (&args.script, script)] {
        if let Some(path) = path {
            write(path, &text)?;
        }
    }
    Ok(())
}

/// Bytes as people read them; few are not rounded to nothing.
fn volume(bytes: f64) -> String {
    if bytes < 1e5 { format!("{bytes} B") } else { format!("{:.1} MB", bytes / 1e6) }
}

/// Writes a file whole, and says where it is; or to standard output.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    if is_stdout(path) {
        return out::print(text);
    }
    written(WholeFile::create(path).map_err(|error| Failure::Usage(error.to_string()))?, text)
}

//! `gaspi-*`: what GASPI costs between processes of this host, in turn with our own puts and with Open MPI.

use std::collections::BTreeMap;

use crate::job::{Job, Line};
use crate::mpi::{self, OpenMpi};
use crate::team::Task;
use crate::{Bench, BenchError, Check, Device, Memory, Options, Progress, Report, Row, Samples, Team, Via};

/// All are measured this often, in turn.
const TURNS: u64 = 5;

/// One of them.
pub(crate) struct GaspiBench {
    name: &'static str,
    about: &'static str,
    sizes: &'static [u64],
    /// Most bytes or elements.
    most: u64,
    unit: Unit,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Bytes,
    Rate,
    Bandwidth,
    Elements,
    None,
}

pub(crate) const PINGPONG: GaspiBench = GaspiBench {
    name: "gaspi-pingpong",
    about: "half a round trip of gaspi_write_notify and gaspi_notify_waitsome between processes",
    sizes: &[8, 1024, 4096, 65_536],
    most: 64 << 20,
    unit: Unit::Bytes,
};
pub(crate) const BANDWIDTH: GaspiBench = GaspiBench {
    name: "gaspi-bandwidth",
    about: "gaspi_write, eight under way, until all have arrived",
    sizes: &[65_536, 1 << 20, 4 << 20],
    most: 64 << 20,
    unit: Unit::Bandwidth,
};
pub(crate) const RATE: GaspiBench = GaspiBench {
    name: "gaspi-rate",
    about: "gaspi_notify, each taken by its receiver, 256 under way",
    sizes: &[8],
    most: 8,
    unit: Unit::Rate,
};
pub(crate) const POST: GaspiBench = GaspiBench {
    name: "gaspi-post",
    about: "how long a call takes that posts a write, without what completes it",
    sizes: &[8, 1024, 4096, 65_536, 1 << 20],
    most: 64 << 20,
    unit: Unit::Bytes,
};
pub(crate) const POST_WORK_WAIT: GaspiBench = GaspiBench {
    name: "gaspi-post-work-wait",
    about: "a write is posted, the program works as long as one takes, and waits for it",
    sizes: &[65_536, 1 << 20],
    most: 64 << 20,
    unit: Unit::Bytes,
};
pub(crate) const ALLREDUCE: GaspiBench = GaspiBench {
    name: "gaspi-allreduce",
    about: "gaspi_allreduce of doubles, a sum",
    sizes: &[1, 4, 16, 64, 255],
    most: 255,
    unit: Unit::Elements,
};
pub(crate) const BARRIER: GaspiBench = GaspiBench {
    name: "gaspi-barrier",
    about: "gaspi_barrier of all processes",
    sizes: &[0],
    most: 0,
    unit: Unit::None,
};
pub(crate) const PASSIVE: GaspiBench = GaspiBench {
    name: "gaspi-passive",
    about: "half a round trip of gaspi_passive_send and gaspi_passive_receive",
    sizes: &[8, 4096],
    most: 65_535,
    unit: Unit::Bytes,
};

impl Bench for GaspiBench {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn has_own_processes(&self) -> bool {
        true
    }

    fn check(&self, options: &Options) -> Result<(), BenchError> {
        if options.nodes > 2 && !matches!(self.unit, Unit::Elements | Unit::None) {
            return Err(BenchError::option("nodes", options.nodes, "two processes do all of it; use 2"));
        }
        for (option, list) in [("threads", &options.threads), ("blocks", &options.blocks)] {
            if let Some(given) = list.first() {
                let advice = format!("{} has no kernels; leave --{option} out", self.name);
                return Err(BenchError::option(option, given, advice));
            }
        }
        if let Some(size) = options.sizes.first().filter(|_| self.unit == Unit::None) {
            let advice = format!("{} has no sizes; leave --sizes out", self.name);
            return Err(BenchError::option("sizes", size, advice));
        }
        self.sizes(options).map(drop)
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        if team.size() > 1 || options.memory == Memory::Gpu || options.via != Via::Sim {
            let why = "it starts processes by itself, on the model and over host memory: leave --fabric, --via and \
                       --memory out";
            return Err(BenchError::Unsupported(why.to_owned()));
        }
        let sizes = self.sizes(options)?;
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        let fits = options.nodes as usize <= cores;
        let mut report = task.report();
        report.fabric = "process".to_owned();
        report.settings.insert("processes", options.nodes.into());
        report.settings.insert("pinned", fits.into());
        report.settings.insert("turns", TURNS.into());
        let mut figures = Figures::default();
        let mpi = OpenMpi::find(&mpi::GASPI)?;
        if mpi.is_none() {
            report.notes.push(OpenMpi::INSTALL.to_owned());
        }
        progress.begin(self.name, TURNS * sizes.len() as u64);
        let mut failed = Vec::new();
        for turn in 1..=TURNS {
            for &size in &sizes {
                progress.now(format!("{size}, turn {turn} of {TURNS}"));
                let job = self.job(options, size, fits);
                figures.add(job.run(options.nodes)?);
                for lines in mpi.iter().flat_map(|mpi| mpi.run(&job, options.nodes, Device::Cpu)) {
                    match lines {
                        Ok(lines) => figures.add(lines),
                        Err(error) => failed.push(error.to_string()),
                    }
                }
                progress.step();
            }
        }
        failed.sort_unstable();
        failed.dedup();
        report.notes.append(&mut failed);
        report.notes.push(format!(
            "{TURNS} turns of each; min: the fastest round of all turns; median: of the turns' medians; load average at the \
             end: {}",
            load()
        ));
        self.rows(figures, &mut report);
        Ok(report)
    }
}

impl GaspiBench {
    fn sizes(&self, options: &Options) -> Result<Vec<u64>, BenchError> {
        let least = match self.unit {
            Unit::None => 0,
            Unit::Elements => 1,
            Unit::Bytes | Unit::Rate | Unit::Bandwidth => 8,
        };
        options.sizes_or(self.sizes, least..=self.most, 1)
    }

    fn job(&self, options: &Options, size: u64, fits: bool) -> Job {
        // About as much time whatever the size; where processes share cores, each meeting takes time slices.
        let (rounds, small) = if fits { (60, 100) } else { (20, 10) };
        let trips = options.iterations.unwrap_or((small * 8192 / size.max(8192)).max(2));
        let trips = trips.min(u64::from(u32::MAX)) as u32;
        let bench = self.name.to_owned();
        Job { bench, rounds, trips, seed: options.seed, sizes: vec![size] }
    }

    fn rows(&self, figures: Figures, report: &mut Report) {
        for ((size, _, method), lines) in figures.0 {
            let medians = lines.iter().map(|line| line.value * 1e3).collect();
            let mut row = Row::new(&Samples::new(medians, 1)).method(&method);
            row.latency_us.min = lines.iter().map(|line| line.min).fold(f64::INFINITY, f64::min);
            row.elements = (self.unit == Unit::Elements).then_some(size);
            row.bytes = matches!(self.unit, Unit::Bytes | Unit::Rate | Unit::Bandwidth).then_some(size);
            match self.unit {
                Unit::Bandwidth => row = row.bandwidth_of(size),
                Unit::Rate => row.rate_per_s = Some(1e6 / row.latency_us.median.max(1e-9)),
                _ => {}
            }
            let alone: Vec<f64> = lines.iter().filter_map(|line| line.alone).collect();
            if !alone.is_empty() {
                let alone = Samples::new(alone.iter().map(|us| us * 1e3).collect(), 1).latency().median;
                let overlap = 100.0 * (2.0 * alone - row.latency_us.median) / alone.max(1e-9);
                row = row.with("communication_us", alone).with("computation_us", alone);
                row = row.with("overlap_percent", overlap);
            }
            let errors = lines.iter().map(|line| line.errors).sum();
            let first = (errors > 0).then(|| format!("{method}, size {size}"));
            report.push(row, Check { errors, first });
        }
    }
}

/// By size, in the order of their first line, by method.
#[derive(Default)]
struct Figures(BTreeMap<(u64, usize, String), Vec<Line>>);

impl Figures {
    fn add(&mut self, lines: Vec<Line>) {
        for line in lines {
            let size = line.bytes.or(line.elements).unwrap_or(0);
            let known = self.0.keys().find(|(of, _, method)| *of == size && *method == line.peer).cloned();
            let key = known.unwrap_or_else(|| (size, self.0.len(), line.peer.clone()));
            self.0.entry(key).or_default().push(line);
        }
    }
}

/// Of one minute, five and fifteen.
fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

//! `shared-gpu-*`: collectives of processes that share a GPU, by each algorithm, in turn with Open MPI.

use std::collections::BTreeMap;

use ggas_shared_gpu::{Collective, LEARNING_CALLS, Mps};

use crate::job::{Job, Line};
use crate::mpi::{self, OpenMpi};
use crate::shared_gpu;
use crate::shared_methods;
use crate::team::Task;
use crate::{Bench, BenchError, Check, Device, Memory, Options, Progress, Report, Row, Samples, Team, Via};

/// All are measured this often, in turn.
const TURNS: usize = 3;
const SIZES: [u64; 12] =
    [8, 64, 512, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 32 << 20, 64 << 20];

pub(crate) struct SharedGpuBench {
    collective: Collective,
    about: &'static str,
    methods: &'static [&'static str],
}

pub(crate) const ALLREDUCE: SharedGpuBench = SharedGpuBench {
    collective: Collective::Allreduce,
    about: "a sum of floats in GPU memory of processes that share the GPU, beside Open MPI",
    methods: REDUCTIONS,
};
pub(crate) const REDUCE: SharedGpuBench = SharedGpuBench {
    collective: Collective::Reduce,
    about: "the same sum at one of the processes",
    methods: REDUCTIONS,
};
pub(crate) const BROADCAST: SharedGpuBench = SharedGpuBench {
    collective: Collective::Broadcast,
    about: "floats in GPU memory of one process to all that share the GPU, beside Open MPI",
    methods: &[
        "chosen",
        "host",
        "gsb",
        "btb",
        "direct",
        "flat-host",
        "flat-gsb",
        "flat-btb",
        "gsb-gsb",
        "btb-gsb",
        "btb-btb",
        "gsb-btb",
    ],
};
pub(crate) const ALLGATHER: SharedGpuBench = SharedGpuBench {
    collective: Collective::Allgather,
    about: "floats in GPU memory of each process, beside each other at all that share the GPU, beside Open MPI",
    methods: &[
        "chosen",
        "host",
        "gsb",
        "dynamic",
        "static-direct",
        "static-half",
        "static-staged",
        "static-stores",
        "static-bulk",
        "flat-host",
        "flat-gsb",
    ],
};
pub(crate) const ALLTOALL: SharedGpuBench = SharedGpuBench {
    collective: Collective::Alltoall,
    about: "floats in GPU memory from each process to each that shares the GPU, beside Open MPI",
    methods: PARTS,
};
pub(crate) const REDUCE_SCATTER: SharedGpuBench = SharedGpuBench {
    collective: Collective::ReduceScatter,
    about: "the same sum as of an allreduce, of which each process has a part",
    methods: PARTS,
};
const PARTS: &[&str] = &["chosen", "host", "gsb", "flat-host", "flat-gsb"];
const REDUCTIONS: &[&str] = &[
    "chosen",
    "host",
    "gsb",
    "btb",
    "dynamic",
    "static-direct",
    "static-half",
    "static-staged",
    "static-stores",
    "static-bulk",
    "flat-host",
    "flat-gsb",
    "flat-btb",
    "gsb-gsb",
    "btb-gsb",
    "btb-btb",
    "gsb-btb",
];

/// Whether a method is one of processes on so many GPUs.
fn suits(method: &str, gpus: u32) -> bool {
    method == "chosen" || shared_methods::forced(method).is_some() == (gpus > 1)
}

impl Bench for SharedGpuBench {
    fn name(&self) -> &'static str {
        shared_gpu::bench(self.collective)
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn methods(&self) -> &'static [&'static str] {
        self.methods
    }

    fn has_own_processes(&self) -> bool {
        true
    }

    fn check(&self, options: &Options) -> Result<(), BenchError> {
        if options.nodes > 256 {
            return Err(BenchError::option("nodes", options.nodes, "use at most 256 processes for a GPU"));
        }
        if options.gpus > options.nodes {
            let advice = format!("{} processes are on at most as many", options.nodes);
            return Err(BenchError::option("gpus", options.gpus, advice));
        }
        if let Some(method) = options.method.as_deref().filter(|method| !suits(method, options.gpus)) {
            let advice = match options.gpus {
                1 => "that is one of processes on several GPUs: say how many by --gpus",
                _ => {
                    "on several GPUs use chosen, flat-host, -gsb or -btb, gsb-gsb, btb-gsb, btb-btb or gsb-btb"
                }
            };
            return Err(BenchError::option("method", method, advice));
        }
        for (option, list) in [("threads", &options.threads), ("blocks", &options.blocks)] {
            if let Some(given) = list.first() {
                let advice = format!("{} has no such choice; leave --{option} out", self.name());
                return Err(BenchError::option(option, given, advice));
            }
        }
        sizes(options).map(drop)
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        if team.size() > 1 || options.memory == Memory::Gpu || options.via != Via::Sim {
            let why = "it starts processes by itself, with vectors in memory of their kernels: leave --fabric and --memory \
                       out, and use --via sim";
            return Err(BenchError::Unsupported(why.to_owned()));
        }
        let mut methods = task.methods();
        methods.retain(|method| suits(method, options.gpus));
        let mut report = task.report();
        report.fabric = "process".to_owned();
        report.settings.insert("processes", options.nodes.into());
        report.settings.insert("gpus", options.gpus.into());
        report.settings.insert("turns", TURNS.into());
        let mpi = OpenMpi::find(&mpi::SHARED_GPU)?;
        if mpi.is_none() {
            report.notes.push(OpenMpi::INSTALL.to_owned());
        }
        notes(options.device, methods.contains(&"dynamic"), &mut report);
        let (mut figures, mut failed) = (Figures::default(), Vec::new());
        let third = methods.len().div_ceil(TURNS);
        progress.begin(self.name(), 2 * TURNS as u64);
        for turn in 1..=TURNS {
            progress.now(format!("{}, turn {turn} of {TURNS}", methods.join(", ")));
            // What comes first finds GPUs that have rested: another method in each turn.
            if turn > 1 {
                methods.rotate_left(third);
            }
            figures.add(self.job(&methods, options)?.run(options.nodes)?);
            progress.step();
            progress.now(format!("Open MPI, turn {turn} of {TURNS}"));
            let job = self.job(&[], options)?;
            for lines in mpi.iter().flat_map(|mpi| mpi.run(&job, options.nodes, options.device)) {
                match lines {
                    Ok(lines) => figures.add(lines),
                    Err(error) => failed.push(error.to_string()),
                }
            }
            progress.step();
        }
        failed.sort_unstable();
        failed.dedup();
        report.notes.append(&mut failed);
        figures.rows(&mut report);
        Ok(report)
    }
}

fn sizes(options: &Options) -> Result<Vec<u64>, BenchError> {
    options.sizes_or(&SIZES, 4..=1 << 30, 4)
}

/// What a reader of the figures has to know of the machine.
pub(crate) fn notes(device: Device, is_dynamic: bool, report: &mut Report) {
    report.notes.push("a round takes as long as it takes the slowest process".to_owned());
    if is_dynamic {
        report
            .notes
            .push(format!("dynamic is timed behind the {LEARNING_CALLS} calls of a size that try its ways"));
    }
    match device {
        Device::Cpu => {
            let note = "the executor stands in for a GPU: its memory is memory that all processes map, and each copy is the \
                        processor's";
            report.notes.push(note.to_owned());
        }
        Device::Gpu => {
            let mps = Mps::find();
            report.settings.insert("mps", mps.is_on().into());
            report.notes.push(mps.to_string());
        }
    }
}

impl SharedGpuBench {
    fn job(&self, methods: &[&str], options: &Options) -> Result<Job, BenchError> {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        // Where the executor's processes share cores, each copy and each meeting takes time slices.
        let is_slow = options.device == Device::Cpu && options.nodes as usize > cores;
        let (rounds, usual) = if is_slow { (5, 20) } else { (20, 200) };
        let trips = options.iterations.unwrap_or(usual).min(u64::from(u32::MAX)) as u32;
        let methods: Vec<String> = methods.iter().map(ToString::to_string).collect();
        let sizes = (sizes(options)?, None);
        Ok(shared_gpu::job(self.collective, &methods, options, (rounds, trips), sizes))
    }
}

/// By size, in the order of their first line, by method.
#[derive(Default)]
pub(crate) struct Figures(pub(crate) BTreeMap<u64, Vec<(String, Vec<Line>)>>);

impl Figures {
    pub(crate) fn add(&mut self, lines: Vec<Line>) {
        for line in lines {
            let methods = self.0.entry(line.bytes.unwrap_or(0)).or_default();
            match methods.iter_mut().find(|(method, _)| *method == line.peer) {
                Some((_, known)) => known.push(line),
                None => methods.push((line.peer.clone(), vec![line])),
            }
        }
    }

    pub(crate) fn rows(self, report: &mut Report) {
        for (bytes, methods) in self.0 {
            // The best of the peers is what ours is compared with.
            let is_peer = |method: &str| method.starts_with(OpenMpi::NAME);
            let median = |lines: &[Line]| {
                Samples::new(lines.iter().map(|line| line.value * 1e3).collect(), 1).latency().median
            };
            let peers = methods.iter().filter(|(method, _)| is_peer(method));
            let peer = peers.map(|(_, lines)| median(lines)).reduce(f64::min);
            for (method, lines) in &methods {
                let medians = lines.iter().map(|line| line.value * 1e3).collect();
                let mut row = Row::new(&Samples::new(medians, 1)).method(method).bytes(bytes);
                row.latency_us.min = lines.iter().map(|line| line.min).fold(f64::INFINITY, f64::min);
                let mut row = row.bandwidth_of(bytes);
                if let Some(runs) = lines.iter().map(|line| line.runs).sum::<Option<u64>>() {
                    row = row.with("runs", runs);
                }
                if let Some(copies) = lines.iter().rev().find_map(|line| line.copies.clone()) {
                    row = row.with("copies", copies);
                }
                if let Some(peer) = peer.filter(|_| !is_peer(method)) {
                    let ratio = peer / row.latency_us.median.max(1e-9);
                    row = row.with("peer_over_ours", ratio);
                }
                let errors = lines.iter().map(|line| line.errors).sum();
                let first = (errors > 0).then(|| format!("{method}, {bytes} bytes"));
                report.push(row, Check { errors, first });
            }
        }
    }
}

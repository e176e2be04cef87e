mod values;

use std::time::Duration;

pub use self::values::{Device, Fabric, Memory, NicProgress, Path, Scaling, Via};
use crate::BenchError;
use crate::himeno::{Grid, Split};

/// The most timed operations of a row: samples take 8 bytes of memory each, and times are sums in 64 bits.
pub const ITERATIONS_MAX: u64 = 1 << 32;

/// The most blocks per node, and threads per block, that can be asked for.
pub(crate) const GRID_MAX: u32 = 1024;

/// What to run and how. The default suits a quick look on two cores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Nodes that take part: at least 2, but where a benchmark is one of computation, too.
    pub nodes: u32,
    /// Where kernels run.
    pub device: Device,
    /// Which device of the library carries the traffic.
    pub via: Via,
    /// Where the payload lies; GPU memory needs `device` gpu.
    pub memory: Memory,
    /// Payload sizes in bytes (collectives: elements); empty: the benchmark's own list.
    pub sizes: Vec<u64>,
    /// Grids, of benchmarks that have such; empty: the benchmark's own list.
    pub grids: Vec<Grid>,
    /// Of these only the one that rows call so: a row is run again.
    pub grid_of_row: Option<String>,
    /// Whether a grid is a node's or that of all.
    pub scaling: Scaling,
    /// Parts of a grid in three directions, as many as nodes; `None`: slices of planes.
    pub split: Option<Split>,
    /// Timed operations per row, 1 to [`ITERATIONS_MAX`]; `None`: the benchmark's own number.
    pub iterations: Option<u64>,
    /// One of [`crate::Bench::methods`]; `None`: all of them.
    pub method: Option<String>,
    /// Threads per block; empty: the benchmark's own list.
    pub threads: Vec<u32>,
    /// Blocks per node; empty: the benchmark's own list.
    pub blocks: Vec<u32>,
    /// Numbers of devices of a process, of benchmarks that have such; empty: the benchmark's own list.
    pub devices: Vec<u32>,
    /// Seed of all data.
    pub seed: u64,
    /// How descriptors reach the requester; `None`: slots, on a card its pages.
    pub path: Option<Path>,
    /// Requester warps of RMA engines; `None`: the library's own number.
    pub requesters: Option<u32>,
    /// Helping warps of RMA engines, each way; `None`: the library's own number.
    pub helpers: Option<u32>,
    /// Slots per ring, a power of two.
    pub slots: u32,
    /// Who drives the model; `None`: threads for kernels on a GPU, else inline.
    pub progress: Option<NicProgress>,
    /// GPUs that the nodes are spread over in turn; between processes, each has its own node's.
    pub gpus: u32,
    /// Bound of every wait, on the host and in kernels. Processes wait for each other 12 times as long, at least
    /// 20 s.
    pub timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            nodes: 2,
            device: Device::Cpu,
            via: Via::Sim,
            memory: Memory::Host,
            sizes: Vec::new(),
            grids: Vec::new(),
            grid_of_row: None,
            scaling: Scaling::Weak,
            split: None,
            iterations: None,
            method: None,
            threads: Vec::new(),
            blocks: Vec::new(),
            devices: Vec::new(),
            seed: 1,
            path: None,
            requesters: None,
            helpers: None,
            slots: 256,
            progress: None,
            gpus: 1,
            timeout: Duration::from_secs(10),
        }
    }
}

impl Options {
    /// Checks what holds for every benchmark, and what this one adds.
    ///
    /// # Errors
    /// [`BenchError::Option`] names the option and what would fit.
    pub fn validate(&self, bench: &dyn crate::Bench) -> Result<(), BenchError> {
        self.validate_via(bench)?;
        let least = if bench.has_grids() { 1 } else { 2 };
        if !(least..=1024).contains(&self.nodes) {
            return Err(BenchError::option("nodes", self.nodes, format!("use {least} to 1024 nodes")));
        }
        if let Some(grid) = self.grids.first().filter(|_| !bench.has_grids()) {
            return Err(BenchError::option(
                "grid",
                grid,
                format!("{} has no grids; use --sizes", bench.name()),
            ));
        }
        if let Some(devices) = self.devices.first().filter(|_| !bench.has_devices()) {
            let names: Vec<_> = crate::all().iter().filter(|b| b.has_devices()).map(|b| b.name()).collect();
            let advice = format!("for {} only; leave it out", names.join(", "));
            return Err(BenchError::option("devices", devices, advice));
        }
        if let Some(split) = self.split.filter(|split| split.nodes() != self.nodes) {
            let advice =
                format!("these are {} parts; a node has one each, so use --nodes {0}", split.nodes());
            return Err(BenchError::option("split", split, advice));
        }
        if !self.slots.is_power_of_two() || self.slots > 1 << 16 {
            return Err(BenchError::option("slots", self.slots, "use a power of two up to 65536"));
        }
        if let Some(bad) = self.iterations.filter(|count| !(1..=ITERATIONS_MAX).contains(count)) {
            return Err(BenchError::option("iterations", bad, format!("use 1 to {ITERATIONS_MAX}")));
        }
        if self.gpus == 0 {
            return Err(BenchError::option("gpus", 0, "use at least 1"));
        }
        if self.timeout < Duration::from_millis(1) {
            return Err(BenchError::option("timeout", "0", "waits need at least one millisecond"));
        }
        if self.memory == Memory::Gpu && self.device != Device::Gpu {
            return Err(BenchError::option("memory", "gpu", "payload in GPU memory needs --device gpu"));
        }
        for (option, warps) in [("requesters", self.requesters), ("helpers", self.helpers)] {
            if let Some(warps) = warps.filter(|_| !self.engines(bench)) {
                let advice =
                    "only RMA engines have such warps; use rma-pingpong and the like with --via nvlink";
                return Err(BenchError::option(option, warps, advice));
            }
        }
        for (option, list) in [("threads", &self.threads), ("blocks", &self.blocks)] {
            if let Some(bad) = list.iter().find(|n| !(1..=GRID_MAX).contains(*n)) {
                return Err(BenchError::option(option, bad, format!("use 1 to {GRID_MAX}")));
            }
        }
        match &self.method {
            Some(method) if !bench.methods().contains(&method.as_str()) => {
                let advice = match bench.methods() {
                    [] => format!("{} has no methods to choose from", bench.name()),
                    names => format!("{} knows: {}", bench.name(), names.join(", ")),
                };
                Err(BenchError::option("method", method, advice))
            }
            _ => bench.check(self),
        }
    }

    /// How nodes share a grid.
    pub(crate) fn split_of_nodes(&self) -> Split {
        self.split.unwrap_or(Split::slices(self.nodes))
    }

    /// How long processes wait for each other between timed parts: one may run a whole row, with many waits, while
    /// the others have no part in it.
    pub(crate) fn patience(&self) -> Duration {
        self.timeout.saturating_mul(12).max(Duration::from_secs(20))
    }

    /// What carries the traffic: the software EXTOLL anything, peer memory what needs windows only.
    fn validate_via(&self, bench: &dyn crate::Bench) -> Result<(), BenchError> {
        let refuse = |advice: String| Err(BenchError::option("via", self.via, advice));
        match self.via {
            Via::Sim => Ok(()),
            Via::Hw => self.validate_cards(bench),
            Via::Nvlink if self.engines(bench) => self.validate_engines(bench),
            Via::Nvlink if !bench.by_windows() => {
                let names: Vec<_> = crate::all()
                    .iter()
                    .filter(|b| b.by_windows() || !b.by_engines().is_empty())
                    .map(|b| b.name())
                    .collect();
                refuse(format!("{} needs a NIC; by peer memory go: {}", bench.name(), names.join(", ")))
            }
            Via::Nvlink if self.device != Device::Gpu => {
                refuse("kernels on the CPU have no NVLink; use --device gpu, or sim".into())
            }
            Via::Nvlink if self.gpus < self.nodes => {
                let (nodes, gpus) = (self.nodes, self.gpus);
                refuse(format!(
                    "{nodes} nodes on {gpus} GPUs; give each a GPU of its own with --gpus {nodes}"
                ))
            }
            Via::Nvlink => Ok(()),
        }
    }

    /// Cards serve the host and the CPU executor, by requester pages, from host memory, two ends.
    fn validate_cards(&self, bench: &dyn crate::Bench) -> Result<(), BenchError> {
        let methods = bench.by_cards();
        if methods.is_empty() {
            let names: Vec<_> =
                crate::all().iter().filter(|b| !b.by_cards().is_empty()).map(|b| b.name()).collect();
            let advice = format!(
                "{} is not made for cards; by a card go: {}; or use sim",
                bench.name(),
                names.join(", ")
            );
            return Err(BenchError::option("via", self.via, advice));
        }
        if let Some(method) = &self.method
            && bench.methods().contains(&method.as_str())
            && !methods.contains(&method.as_str())
        {
            let advice = format!("with --via hw use: {}", methods.join(", "));
            return Err(BenchError::option("method", method, advice));
        }
        if self.device == Device::Gpu {
            let advice = "kernels on a GPU do not reach a card yet; use --device cpu";
            return Err(BenchError::option("device", self.device, advice));
        }
        if self.path == Some(Path::Slots) {
            return Err(BenchError::option("path", Path::Slots, "a card has requester pages; use card"));
        }
        match self.progress {
            Some(progress) => {
                Err(BenchError::option("progress", progress, "a card drives itself; leave it out"))
            }
            None if self.nodes != 2 => {
                Err(BenchError::option("nodes", self.nodes, "on cards there are two ends; use 2"))
            }
            None => Ok(()),
        }
    }

    /// How descriptors reach the requester, unless the user says: slots, and on a card its pages.
    pub(crate) fn path(&self) -> Path {
        self.path.unwrap_or(if self.via == Via::Hw { Path::Card } else { Path::Slots })
    }

    /// Engines serve kernels, and rings of slots only.
    fn validate_engines(&self, bench: &dyn crate::Bench) -> Result<(), BenchError> {
        let methods = bench.by_engines();
        match (self.path, &self.method) {
            (Some(Path::Card), _) => {
                Err(BenchError::option("path", Path::Card, "engines take slots; use slots"))
            }
            (_, Some(method)) if !methods.contains(&method.as_str()) => {
                let advice = format!("engines serve kernels; with --via nvlink use: {}", methods.join(", "));
                Err(BenchError::option("method", method, advice))
            }
            _ => Ok(()),
        }
    }

    /// Whether engines carry the traffic of this benchmark; of one that windows carry, too, only if a method of theirs
    /// is asked for, since engines beside it would take multiprocessors from the others.
    pub(crate) fn engines(&self, bench: &dyn crate::Bench) -> bool {
        let asked = |method: &String| bench.by_engines().contains(&method.as_str());
        let wanted = match bench.by_windows() {
            true => self.method.as_ref().is_some_and(asked),
            false => !bench.by_engines().is_empty(),
        };
        self.via == Via::Nvlink && wanted
    }

    /// Whether rows of this method are wanted.
    pub(crate) fn wants(&self, method: &str) -> bool {
        self.method.as_deref().is_none_or(|wanted| wanted == method)
    }

    /// The sizes asked for or `default`, each within `range` and a multiple of `unit`.
    pub(crate) fn sizes_or(
        &self,
        default: &[u64],
        range: std::ops::RangeInclusive<u64>,
        unit: u64,
    ) -> Result<Vec<u64>, BenchError> {
        let sizes = if self.sizes.is_empty() { default } else { &self.sizes };
        match sizes.iter().find(|size| !range.contains(size) || !size.is_multiple_of(unit)) {
            Some(bad) => {
                let advice = format!("use {} to {}, in multiples of {unit}", range.start(), range.end());
                Err(BenchError::option("sizes", bad, advice))
            }
            None => Ok(sizes.to_vec()),
        }
    }

    /// The threads per block asked for, or `default`.
    pub(crate) fn threads_or(&self, default: &[u32]) -> Vec<u32> {
        if self.threads.is_empty() { default.to_vec() } else { self.threads.clone() }
    }

    /// The blocks asked for, or `default`.
    pub(crate) fn blocks_or(&self, default: &[u32]) -> Vec<u32> {
        if self.blocks.is_empty() { default.to_vec() } else { self.blocks.clone() }
    }
}

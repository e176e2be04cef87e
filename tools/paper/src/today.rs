//! What was measured on GPUs of today, read from the files of `benches/results` that the page of results cites.

use serde_json::Value;

use crate::claim::short;

/// A file of `benches/results`.
pub(crate) struct Kept {
    name: &'static str,
    json: &'static str,
}

macro_rules! kept {
    ($name:literal) => {
        Kept { name: $name, json: include_str!(concat!("../../../benches/results/", $name)) }
    };
}

const BARRIER: Kept = kept!("two-gpus/barrier.json");
const BARRIER_ONE_GPU: Kept = kept!("one-gpu/barrier.json");
const PINGPONG: Kept = kept!("one-gpu/rma-pingpong-host-memory.json");
pub(crate) const GGAS: Kept = kept!("two-gpus/ggas-pingpong.json");
pub(crate) const PUT_SIGNAL: Kept = kept!("two-gpus/put-signal.json");
pub(crate) const GGAS_BANDWIDTH: Kept = kept!("two-gpus/ggas-bandwidth.json");
const IN_KERNEL: Kept = kept!("two-gpus/allreduce.json");
const BY_HOST: Kept = kept!("two-gpus/allreduce-stream.json");
const ALLREDUCE: Kept = kept!("one-gpu/allreduce-4-nodes.json");

impl Kept {
    /// Its name in `benches/results`.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// The median of the first row of this method (and number of nodes, blocks, or elements), in us.
    pub(crate) fn median(&self, method: &str, also: &[(&str, u64)]) -> Option<f64> {
        let report: Value = serde_json::from_str(self.json).ok()?;
        let rows = report["rows"].as_array()?;
        let is_it = |row: &&Value| {
            row["method"] == method && also.iter().all(|(key, value)| row[*key].as_u64() == Some(*value))
        };
        rows.iter().find(is_it)?["latency_us"]["median"].as_f64()
    }
}

/// "1.62 us (two-gpus/barrier.json)".
fn shown(kept: &Kept, us: Option<f64>) -> String {
    us.map_or_else(String::new, |us| format!("{} us ({})", short(us), kept.name))
}

/// Kernels of two GPUs end, and the host begins the next, in us.
pub(crate) fn relaunch_by_host_us() -> Option<f64> {
    BARRIER.median("relaunch", &[("blocks", 1)])
}

/// What ending and beginning a kernel takes on two H200.
pub(crate) fn relaunch() -> String {
    let graph = shown(&BARRIER, BARRIER.median("graph", &[("blocks", 1)]));
    format!("begun by a graph {graph}, by the host {}", shown(&BARRIER, relaunch_by_host_us()))
}

/// A message from within a kernel against one that leaves at a kernel's end, on two H200.
pub(crate) fn message() -> String {
    let inside = shown(&PUT_SIGNAL, PUT_SIGNAL.median("thread", &[("bytes", 8)]));
    let graph = shown(&BARRIER, BARRIER.median("graph", &[("blocks", 1)]));
    format!("8 B from within a kernel {inside}; kernels end and a graph begins the next {graph}")
}

/// An allreduce of 1 MiB within a kernel against one that the host starts, on two H200.
pub(crate) fn allreduce_by_kernel() -> String {
    let floats = [("elements", 262_144)];
    let inside = shown(&IN_KERNEL, IN_KERNEL.median("shared", &floats));
    let by_host = shown(&BY_HOST, BY_HOST.median("out-of-place", &floats));
    format!("1 MiB on 2 GPUs within a kernel {inside}, started by the host {by_host}")
}

/// A put ping-pong of 8 bytes on an H200 through the model in software.
pub(crate) fn put(method: &str) -> String {
    shown(&PINGPONG, PINGPONG.median(method, &[("bytes", 8)]))
}

/// A remote store of 8 bytes between two H200.
pub(crate) fn store() -> String {
    shown(&GGAS, GGAS.median("write", &[("bytes", 8)]))
}

/// A remote load of 8 bytes between two H200.
pub(crate) fn load() -> String {
    shown(&GGAS, GGAS.median("read", &[("bytes", 8)]))
}

/// The same barrier of some nodes on one H200.
pub(crate) fn barrier(nodes: u64) -> String {
    shown(&BARRIER_ONE_GPU, BARRIER_ONE_GPU.median("master", &[("nodes", nodes), ("blocks", 1)]))
}

/// Which of the two methods is quicker for 16 Ki and 256 Ki floats of 4 nodes on one H200.
pub(crate) fn allreduce() -> String {
    let times = |elements: u64| {
        let us = |method: &str| ALLREDUCE.median(method, &[("elements", elements)]);
        Some(format!(
            "{elements} floats: all-gather {} us, all-to-all {} us",
            short(us("all-gather")?),
            short(us("all-to-all")?)
        ))
    };
    let [Some(few), Some(many)] = [16_384, 262_144].map(times) else { return String::new() };
    format!("{few}; {many} ({})", ALLREDUCE.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_is_there() {
        assert!((3.0..20.0).contains(&relaunch_by_host_us().unwrap()));
        let texts = [
            relaunch(),
            message(),
            store(),
            load(),
            barrier(2),
            barrier(8),
            allreduce(),
            allreduce_by_kernel(),
        ];
        let puts = ["notification", "poll", "host-assisted", "host-driven"].map(put);
        for text in texts.iter().chain(&puts) {
            assert!(text.contains(" us") && text.contains(".json"), "{text:?}");
        }
    }
}

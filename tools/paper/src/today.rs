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

const HOST_SYNC: Kept = kept!("two-h100/host-sync.json");
const DIRECTIONS: Kept = kept!("two-h100/directions-nvlink.json");
const STAGED: Kept = kept!("two-h100/staged-nvlink.json");
const POST_WORK_WAIT: Kept = kept!("two-h100/post-work-wait-nvlink.json");
const COALESCING: Kept = kept!("two-h100/ggas-coalescing.json");
const DEVICE_COPY: Kept = kept!("two-h100/device-copy.json");
const GMPI_CALLS: Kept = kept!("two-gpus/gmpi-calls.json");
const GMPI_PINGPONG: Kept = kept!("two-gpus/gmpi-pingpong.json");
const HPE_COPY: Kept = kept!("two-h100/hpe-copy.json");
const HPE_SHARING: Kept = kept!("two-h100/hpe-sharing.json");
const HPE_STENCIL: Kept = kept!("two-h100/hpe-stencil-128.json");
const HPE_FFT: Kept = kept!("two-h100/hpe-fft.json");
const VERBS: Kept = kept!("cpu/verbs-ladder.json");
const VERBS_INSTRUCTIONS: Kept = kept!("cpu/verbs-instructions.json");
const WIDE: Kept = kept!("two-h100/ggas-pingpong-8192.json");

impl Kept {
    /// Its name in `benches/results`.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// The median of the first row of this method (and number of nodes, blocks, or elements), in us.
    pub(crate) fn median(&self, method: &str, also: &[(&str, u64)]) -> Option<f64> {
        self.row(method, also)?["latency_us"]["median"].as_f64()
    }

    /// Another column of that row.
    fn column(&self, column: &str, method: &str, also: &[(&str, u64)]) -> Option<f64> {
        self.row(method, also)?[column].as_f64()
    }

    /// The shortest median of all rows of this method, in us.
    fn quickest(&self, method: &str, also: &[(&str, u64)]) -> Option<f64> {
        let medians = self.rows(method, also).into_iter().map(|row| row["latency_us"]["median"].as_f64());
        medians.flatten().min_by(f64::total_cmp)
    }

    fn row(&self, method: &str, also: &[(&str, u64)]) -> Option<Value> {
        self.rows(method, also).into_iter().next()
    }

    fn rows(&self, method: &str, also: &[(&str, u64)]) -> Vec<Value> {
        let report: Value = serde_json::from_str(self.json).unwrap_or_default();
        let rows = report["rows"].as_array().cloned().unwrap_or_default();
        let is_it = |row: &Value| {
            row["method"] == method && also.iter().all(|(key, value)| row[*key].as_u64() == Some(*value))
        };
        rows.into_iter().filter(is_it).collect()
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

/// What a host pays on an H100 to know of a kernel's end, by the thesis's ways and by a word.
pub(crate) fn synchronization() -> String {
    let ways = ["device", "stream", "event", "event-sleeping", "word"];
    let shown = ways
        .map(|way| HOST_SYNC.median(way, &[]).map_or_else(String::new, |us| format!("{way} {}", short(us))));
    format!("{} us ({})", shown.join(", "), HOST_SYNC.name)
}

/// A copy by an H100's copy engine, in MB/s of 8 MiB.
pub(crate) fn direction(method: &str) -> String {
    let rate = DIRECTIONS.column("bandwidth_mbps", method, &[("bytes", 8 << 20)]);
    rate.map_or_else(String::new, |rate| format!("{} MB/s ({})", short(rate), DIRECTIONS.name))
}

/// Kernel memory to the other H100's, in one copy and through the host.
pub(crate) fn staged(bytes: u64) -> String {
    let us = |method: &str| STAGED.quickest(method, &[("bytes", bytes)]).unwrap_or(f64::INFINITY);
    let through = us("staged").min(us("pipelined"));
    format!(
        "{bytes} B directly {} us, through the host {} us ({})",
        short(us("direct")),
        short(through),
        STAGED.name
    )
}

/// What a transfer of 1 MiB takes from its host's work.
pub(crate) fn overhead(method: &str) -> String {
    let us = POST_WORK_WAIT.column("overhead_us", method, &[("bytes", 1 << 20)]);
    us.map_or_else(String::new, |us| format!("{method} {} us ({})", short(us), POST_WORK_WAIT.name))
}

/// How much quicker neighbouring values are than every second one, of 16 MiB on two H100.
pub(crate) fn coalescing(method: &str) -> String {
    let rate = |method: &str| COALESCING.column("bandwidth_mbps", method, &[("bytes", 16 << 20)]);
    let ratio = rate(method).zip(rate(&format!("{method}-second")));
    ratio.map_or_else(String::new, |(near, second)| {
        format!("{} times ({})", short(near / second), COALESCING.name)
    })
}

/// Copies of 16 MiB by a kernel's own accesses and by the copy engine for it, on two H100.
pub(crate) fn device_copy(own: &str, engine: &str) -> String {
    let us = |method: &str| DEVICE_COPY.quickest(method, &[("bytes", 16 << 20)]).unwrap_or(f64::INFINITY);
    format!(
        "16 MiB by itself {} us, by the engine {} us ({})",
        short(us(own)),
        short(us(engine)),
        DEVICE_COPY.name
    )
}

/// Stores or loads of 8 B by 512 threads, on two H100.
pub(crate) fn by_threads(method: &str) -> String {
    shown(&WIDE, WIDE.median(method, &[("bytes", 4096)]))
}

/// A call of so many elements to GMPI's daemon and its answer, on an H200.
pub(crate) fn gmpi_call(rings: &str, elements: u64) -> String {
    shown(&GMPI_CALLS, GMPI_CALLS.median(rings, &[("elements", elements)]))
}

/// Half a round trip of so many bytes between two H200, by the daemons and by kernels that end.
pub(crate) fn gmpi_pingpong(bytes: u64) -> String {
    let us = |method: &str| GMPI_PINGPONG.median(method, &[("bytes", bytes)]).map_or_else(String::new, short);
    let (calls, ends) = (us("kernels"), us("kernel-ends"));
    format!("{bytes} B by calls {calls} us, by kernels that end {ends} us ({})", GMPI_PINGPONG.name)
}

/// A copy of 64 MiB between two H100 through the host, and by peer access.
pub(crate) fn hpe_copy(method: &str) -> String {
    let rate = |method: &str| HPE_COPY.column("bandwidth_mbps", method, &[("bytes", 64 << 20)]);
    let both = rate(method).zip(rate("peer"));
    both.map_or_else(String::new, |(rate, peer)| {
        format!("64 MiB {method} {} MB/s, peer one way {} MB/s ({})", short(rate), short(peer), HPE_COPY.name)
    })
}

/// Copies of 1 MiB by 1 and 16 threads on one H100.
pub(crate) fn hpe_threads() -> String {
    let rate = |threads: u64| {
        HPE_SHARING.column("rate_per_s", "short-poll", &[("bytes", 1 << 20), ("threads", threads)])
    };
    let both = rate(1).zip(rate(16));
    both.map_or_else(String::new, |(one, all)| {
        format!("copies of 1 MiB: 1 thread {} a second, 16 {} ({})", short(one), short(all), HPE_SHARING.name)
    })
}

/// What a copy of 4 KiB by 16 threads on one H100 waits for locks, and with one lock around whole copies.
pub(crate) fn hpe_lock() -> String {
    let wait =
        |method: &str| HPE_SHARING.column("lock wait us", method, &[("bytes", 1 << 20), ("threads", 16)]);
    let both = wait("short-poll").zip(wait("coarse"));
    both.map_or_else(String::new, |(fine, coarse)| {
        format!(
            "16 threads, 1 MiB: waits of {} us, {} us with one coarse lock ({})",
            short(fine),
            short(coarse),
            HPE_SHARING.name
        )
    })
}

/// A step of the stencil on two H100, through the host and by one call.
pub(crate) fn hpe_stencil() -> String {
    let us = |method: &str| HPE_STENCIL.median(method, &[("devices", 2)]).unwrap_or(f64::INFINITY);
    format!(
        "128 along a side, 2 GPUs: proxy {} us, sharing {} us, remote {} us ({})",
        short(us("proxy")),
        short(us("sharing")),
        short(us("remote")),
        HPE_STENCIL.name
    )
}

/// The exchange's share of the transform on two H100, through the host and by one call.
pub(crate) fn hpe_fft() -> String {
    let share =
        |method: &str| HPE_FFT.column("exchange_percent", method, &[("devices", 2), ("elements", 1 << 24)]);
    let both = share("staged").zip(share("copies"));
    both.map_or_else(String::new, |(staged, copies)| {
        format!("16 Mi numbers: staged {}%, copies {}% ({})", short(staged), short(copies), HPE_FFT.name)
    })
}

/// What a call of verbs accesses, by a block, and what it takes the CPU executor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accesses {
    /// Of queues and their records.
    pub queue_reads: f64,
    pub queue_writes: f64,
    pub doorbells: f64,
    /// Of the library's tables.
    pub table_reads: f64,
    pub us: f64,
}

/// Those of one call of a step of Table 5.4.
pub(crate) fn verbs_accesses(method: &str, queues: &str, call: &str) -> Option<Accesses> {
    let rows = VERBS.rows(method, &[("threads", 64)]);
    let row = rows.into_iter().find(|row| row["queues"] == queues && row["call"] == call)?;
    // The counts are of 100 calls.
    let count = |column: &str| row[column].as_f64().map(|count| count / 100.0);
    Some(Accesses {
        queue_reads: count("queue_reads")?,
        queue_writes: count("queue_writes")?,
        doorbells: count("doorbells")?,
        table_reads: count("table_reads")?,
        us: row["latency_us"]["median"].as_f64()?,
    })
}

/// Instructions of one call, in PTX.
pub(crate) fn verbs_instructions(method: &str, threads: u64, call: &str) -> Option<f64> {
    let rows = VERBS_INSTRUCTIONS.rows(method, &[("threads", threads)]);
    let row = rows.into_iter().find(|row| row["call"] == call)?;
    row["instructions"].as_f64()
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
        let transfers = [
            synchronization(),
            staged(1024),
            overhead("copy"),
            device_copy("store", "engine-write"),
            by_threads("read"),
            gmpi_call("mapped", 7),
            gmpi_call("mapped", 23),
            gmpi_call("copied", 7),
            gmpi_pingpong(8),
            gmpi_pingpong(65_536),
        ];
        let hpe =
            [hpe_copy("staged"), hpe_copy("both-ways"), hpe_threads(), hpe_lock(), hpe_stencil(), hpe_fft()];
        for text in [direction("gpu-gpu"), coalescing("load")].iter().chain(&hpe) {
            assert!(!text.contains("inf"), "{text:?}");
            assert!(text.contains(".json"), "{text:?}");
        }
        for text in texts.iter().chain(&puts).chain(&transfers) {
            assert!(!text.contains("inf"), "{text:?}");
            assert!(text.contains(" us") && text.contains(".json"), "{text:?}");
        }
    }
}

use std::fs;

use serde::Serialize;

use crate::BenchError;

/// The machine and the build that a report comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HostFacts {
    /// Processor model.
    pub cpu: String,
    /// Cores this process may use.
    pub cores: usize,
    /// Release of the running kernel.
    pub kernel: String,
    /// Names of the GPUs that took part.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<String>,
    /// CUDA driver API version, such as `13.0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// CUDA compiler that made the embedded kernels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cuda: Option<&'static str>,
    /// Version of this suite.
    pub version: &'static str,
    /// Commit that it was built from, by `git describe`, where that was a checkout; with `-dirty` if sources differed from
    /// the commit's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git: Option<&'static str>,
    /// `release` or `debug`.
    pub build: &'static str,
}

impl HostFacts {
    /// Adds the first `count` GPUs, the driver, and the compiler of the kernels.
    pub(crate) fn add_gpus(&mut self, count: u32) {
        let found = ggas_gpu::probe().unwrap_or_default();
        self.driver = found.first().map(|gpu| format!("{}.{}", gpu.driver.0, gpu.driver.1));
        self.gpus = found.into_iter().take(count as usize).map(|gpu| gpu.name).collect();
        self.cuda = ggas_kernels::NVCC_RELEASE;
    }

    /// What this process can find out by itself.
    pub fn collect() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        Self {
            cpu: cpu_model(&cpuinfo).unwrap_or(std::env::consts::ARCH).to_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
            version: env!("CARGO_PKG_VERSION"),
            git: ggas_source::DESCRIBED,
            build: if cfg!(debug_assertions) { "debug" } else { "release" },
            ..Self::default()
        }
    }
}

/// Refuses a size that needs more host memory than there is, before the system kills somebody for it.
pub(crate) fn require_memory(size: u64, bytes: u64) -> Result<(), BenchError> {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    match available_bytes(&meminfo) {
        Some(available) if bytes > available => {
            let (needed, there) = (bytes >> 20, available >> 20);
            Err(BenchError::option(
                "sizes",
                size,
                format!("needs about {needed} MiB of memory, {there} are free"),
            ))
        }
        _ => Ok(()),
    }
}

fn available_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find(|line| line.starts_with("MemAvailable:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok()?.checked_mul(1024)
}

fn cpu_model(cpuinfo: &str) -> Option<&str> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_model_name() {
        let text = "processor\t: 0\nmodel name\t: A CPU @ 2 GHz\nprocessor\t: 1\nmodel name\t: B\n";
        assert_eq!(cpu_model(text), Some("A CPU @ 2 GHz"));
        assert_eq!(cpu_model("hart : 0\n"), None);
    }

    #[test]
    fn memory_that_is_not_there_is_refused() {
        assert_eq!(available_bytes("MemTotal: 9 kB\nMemAvailable:  2048 kB\n"), Some(2 << 20));
        assert_eq!(available_bytes("MemTotal: 9 kB\n"), None);
        assert!(require_memory(1, 4096).is_ok());
        assert!(require_memory(1, 1 << 60).unwrap_err().to_string().contains("MiB"));
    }

    #[test]
    fn collects_something_everywhere() {
        let facts = HostFacts::collect();
        assert!(!facts.cpu.is_empty() && !facts.kernel.is_empty() && facts.cores > 0);
    }
}

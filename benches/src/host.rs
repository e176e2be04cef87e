use std::fs;

use serde::Serialize;

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
    /// `git describe` of its source, where it was built from a checkout.
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
            git: option_env!("GGAS_GIT_DESCRIBE"),
            build: if cfg!(debug_assertions) { "debug" } else { "release" },
            ..Self::default()
        }
    }
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
    fn collects_something_everywhere() {
        let facts = HostFacts::collect();
        assert!(!facts.cpu.is_empty() && !facts.kernel.is_empty() && facts.cores > 0);
    }
}

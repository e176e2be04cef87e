//! How ranks share a GPU.

use std::fmt;
use std::time::Duration;

use crate::{Algorithm, Table};

/// Where the directory is, by which ranks follow each other (3.2.2, "Other Design Considerations").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Directory {
    /// In host memory, as the text chose.
    #[default]
    Host,
    /// In GPU memory, polled by a kernel, which gives the GPU back after a number of looks.
    GpuKernel,
    /// In GPU memory, polled by copies, each waited for.
    GpuCopies,
}

impl fmt::Display for Directory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Directory::Host => "on the host",
            Directory::GpuKernel => "on the GPU, by a kernel",
            Directory::GpuCopies => "on the GPU, by copies",
        })
    }
}

/// How ranks share a GPU; alike on all of them, but for the time-out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Bytes of the shared buffer. Longer vectors go through it in chunks. Default 64 MiB (the text has 256 MB).
    pub buffer: usize,
    /// Where the directory is.
    pub directory: Directory,
    /// Which algorithm; `None`: as [`SharedGpu::choice`](crate::SharedGpu::choice) says.
    pub algorithm: Option<Algorithm>,
    /// What was measured; `ggas_coll::Tuning::of_host().shared_gpu` is this host's. Default: nothing.
    pub table: Table,
    /// Bound of the set-up, and of each wait for another rank. Default 30 s.
    pub timeout: Duration,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            buffer: 64 << 20,
            directory: Directory::Host,
            algorithm: None,
            table: Table::default(),
            timeout: Duration::from_secs(30),
        }
    }
}

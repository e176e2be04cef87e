//! Why there is no adapter, or what it refuses.

use ggas_gpu::GpuError;

/// Why a call failed; texts say what to do.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum RdmaError {
    /// Built where rdma-core's headers were missing.
    #[error(
        "this build knows no RDMA: rdma-core's headers (infiniband/mlx5dv.h) were not installed. Install them \
         (`apt-get install libibverbs-dev`) and build again"
    )]
    NotBuilt,
    /// rdma-core is not installed.
    #[error(
        "no RDMA device found: {0}. To install rdma-core: `apt-get install libibverbs1 ibverbs-providers`"
    )]
    Missing(String),
    /// There is no adapter, or its driver is not loaded.
    #[error(
        "no RDMA device found: /sys/class/infiniband lists none. An adapter needs its kernel driver (mlx5_ib) and \
         ib_uverbs; `ibv_devices` lists what rdma-core sees"
    )]
    NoDevice,
    /// There are adapters, but none of them has this name.
    #[error("no RDMA device is called {name}: there are {there}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// The names of those that are there.
        there: String,
    },
    /// An adapter whose rings rdma-core does not show.
    #[error(
        "RDMA device {0} is no mlx5 adapter: its rings are not shown to kernels. ConnectX-4 or newer are"
    )]
    Indirect(String),
    /// A number that no adapter takes.
    #[error("{what} is {value}: it has to be {least} to {most}")]
    Range {
        /// Which.
        what: &'static str,
        /// As given.
        value: u64,
        /// The least that is taken.
        least: u64,
        /// The most.
        most: u64,
    },
    /// A call of rdma-core failed.
    #[error("{call} failed on RDMA device {device}: {why}{}", hint(why))]
    Call {
        /// The device.
        device: String,
        /// rdma-core's function.
        call: String,
        /// What the system says.
        why: std::io::Error,
    },
    /// The GPU's driver refuses to map rings, registers or memory.
    #[error(transparent)]
    Gpu(#[from] GpuError),
}

ggas_errors::debug_as_display!(RdmaError);

/// What to do about it.
fn hint(why: &std::io::Error) -> &'static str {
    match why.raw_os_error() {
        // ENOMEM
        Some(12) => ". Memory for adapters is limited: `ulimit -l`, or fewer entries",
        // EOPNOTSUPP
        Some(95) => ". The adapter, or its driver, cannot do that",
        // EACCES
        Some(13) => ". Who uses /dev/infiniband/uverbs* needs rights to it",
        _ => "",
    }
}

//! Queue pairs of real InfiniBand adapters for GPU kernels (thesis 5.3, 5.4): rdma-core makes them, and says through `mlx5dv` where
//! their rings, doorbell records and doorbell registers lie; the GPU's driver maps these for kernels.
//!
//! **No HCA has seen any of this.** It compiles against Debian 12's rdma-core, and what it says where no adapter is was tried.
//!
//! ```
//! match ggas_rdma::devices() {
//!     Ok(devices) => println!("{devices:?}"),
//!     Err(error) => println!("{error}"), // no RDMA device found: ...
//! }
//! ```

mod device;
mod endpoint;
mod error;
#[cfg(rdma_core)]
mod raw;

pub use device::{Device, devices};
pub use endpoint::{Address, Endpoint, Mapped, Options, Peer, Queues, Region};
pub use error::RdmaError;

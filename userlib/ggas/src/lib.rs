//! Communication for GPUs that GPU kernels start themselves.
//!
//! Nodes of an EXTOLL network exchange data by remote memory access ([`Port`], [`Connection`], [`Region`]) and by
//! plain loads and stores through a global address space ([`Window`]), from the CPU and from kernels. Processes of a
//! host have nodes of the same device, which is chosen at run time ([`device::choose`]: the software model, the card, or
//! engines on GPUs), when they begin together ([`Job`]) or come and go ([`Network`]). A [`Cluster`] is nodes of the model in
//! this process.
//!
//! ```
//! use ggas::{Cluster, HostBuffer, PortConfig, Spec};
//! use std::time::Duration;
//!
//! let cluster = Cluster::builder().nodes(2).build()?;
//! let origin = cluster.node(0)?.open_port(PortConfig::default())?;
//! let target = cluster.node(1)?.open_port(PortConfig::default())?;
//!
//! // Memory is registered before the network may reach it; the peer learns its network logical address.
//! let source = origin.register(HostBuffer::zeroed(4096)?)?;
//! let destination = target.register(HostBuffer::zeroed(4096)?)?;
//! source.write(0, b"hello")?;
//!
//! // One put, and the notification that says it has arrived.
//! let connection = origin.connect(target.address());
//! connection.put(&source, 0, 5, destination.nla(0)?, Spec::COMPLETER)?;
//! let arrived = target.wait(Duration::from_secs(10))?;
//! assert_eq!(arrived.remote(), origin.address());
//!
//! let mut text = [0; 5];
//! destination.read(0, &mut text)?;
//! assert_eq!(&text, b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod carrier;
mod cluster;
mod job;
mod network;
mod remote;

pub use carrier::JoinError;
pub use cluster::{Cluster, ClusterBuilder};
pub use ggas_coll::{self as coll, Group, GroupConfig, GroupError, GroupMember};
pub use ggas_device::sim::{BuildError, FabricKind, Faults, Progress, Simulation, Torus};
pub use ggas_device::{self as device, ChoiceError, Device, Kind as DeviceKind, LockedMemory, PAGE};
pub use ggas_kernels::{self as kernels, Launch, LaunchError, Processor, Running};
pub use ggas_members as members;
pub use ggas_queues::{self as queues, Memory, Queues, QueuesConfig, QueuesError, Shared, Way};
pub use ggas_rma::*;
pub use ggas_tn::{self as tn, Triggers, WindowTriggers};
pub use ggas_velo::{self as velo, VeloConfig, VeloConnection, VeloHandle, VeloPort};
pub use ggas_window::{self as window, Atomic, Mapping, Member, Window, WindowError, WindowInfo};
pub use job::{ExchangeError, Job, JobBuilder, JobError};
pub use network::{Network, NetworkBuilder};
pub use remote::RemoteRegion;

//! What can go wrong on the host.

use std::time::Duration;

use ggas::kernels::MemoryError;
use ggas::{
    DeviceError, ExchangeError, JobError, KernelReport, PortError, PostError, RegionError, ReportError,
};

use crate::Class;

/// Errors of setting up and of what kernels left behind.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum GmpiError {
    /// A number of the configuration.
    #[error("{what} is {value}: it has to be {allowed}")]
    Config {
        /// Which.
        what: &'static str,
        /// What it is.
        value: u64,
        /// What it may be.
        allowed: &'static str,
    },
    /// Kernel memory.
    #[error("{0}")]
    Memory(Box<MemoryError>),
    /// Host memory.
    #[error("{0}")]
    Device(Box<DeviceError>),
    /// The report of kernels.
    #[error("{0}")]
    Report(Box<ReportError>),
    /// A port of the network.
    #[error("{0}")]
    Port(Box<PortError>),
    /// A post.
    #[error("{0}")]
    Post(Box<PostError>),
    /// Memory could not be registered.
    #[error("{0}")]
    Region(Box<RegionError>),
    /// The processes did not come together.
    #[error("{0}")]
    Job(Box<JobError>),
    /// The same, while values were exchanged.
    #[error("{0}")]
    Exchange(Box<ExchangeError>),
    /// Memory that is attached already, in part or as a whole.
    #[error("{bytes} bytes at {address:#x} overlap memory that is attached already: attach each memory once")]
    Overlap {
        /// First byte.
        address: u64,
        /// How many.
        bytes: u64,
    },
    /// The system gave no thread.
    #[error("the daemon's thread could not be started: {0}")]
    Thread(std::io::Error),
    /// The daemon ended early.
    #[error("the daemon is gone: {0}")]
    Gone(String),
    /// A call of the host that all members take part in failed.
    #[error("{what} failed: {class}")]
    Failed {
        /// The call.
        what: &'static str,
        /// How.
        class: Class,
    },
    /// A communicator that was there before the program's.
    #[error(
        "GMPI_COMM_WORLD and GMPI_COMM_SELF cannot be freed: they stay to the end. Free what gmpi_comm_dup, _split and _direct made"
    )]
    Kept,
    /// The job could not be joined.
    #[error("{0}")]
    Join(Box<ggas::JoinError>),
    /// Where kernels run.
    #[error("{0}")]
    Choice(Box<ggas::ChoiceError>),
    /// Members did not come in time.
    #[error("{what}: the other members did not call it within {waited:?}")]
    Timeout {
        /// The call.
        what: &'static str,
        /// How long was waited.
        waited: Duration,
    },
    /// The daemon does not answer the host.
    #[error(
        "{what}: the daemon has not answered for {waited:?}; it is in {doing}. Another process is dead, or does not take part in that \
         call: end this one. The daemon's thread and what it holds are left behind"
    )]
    Stuck {
        /// What the host asked for.
        what: &'static str,
        /// What the daemon is in.
        doing: String,
        /// How long was waited.
        waited: Duration,
    },
    /// Kernels ended with messages of a direct communicator under way.
    #[error(
        "kernels ended with {count} messages of the direct communicator under way, the first a {what} of block {port}, with member \
         {peer}: wait for each request before the kernel ends. They go on in the next kernel that calls on that communicator"
    )]
    OpenMessages {
        /// How many.
        count: u64,
        /// What the first one is.
        what: &'static str,
        /// Its block.
        port: usize,
        /// The other end.
        peer: usize,
    },
    /// A window that kernels cannot exchange messages by.
    #[error("this window cannot carry messages from kernel to kernel: {0}")]
    Window(String),
    /// gdrcopy cannot be used.
    #[error("{0}")]
    Gdrcopy(String),
    /// An MPI library cannot be used.
    #[error("{0}")]
    Mpi(String),
    /// A kernel failed.
    #[error("{0}")]
    Kernel(Box<KernelReport>),
    /// A block called that has no port.
    #[error(
        "block {block} called GMPI, but only {ports} ports are open: set `ports` of the configuration to the blocks that \
         call, or `single` for one context"
    )]
    NoPort {
        /// The first such block.
        block: u64,
        /// Ports that there are.
        ports: u64,
    },
    /// Kernels ended with requests under way.
    #[error(
        "kernels ended with {count} open requests, the first a {what} of port {port}: wait for each request before the \
         kernel ends. They were given up"
    )]
    OpenRequests {
        /// How many.
        count: usize,
        /// What the first one is.
        what: &'static str,
        /// Its port.
        port: u32,
    },
}

ggas_errors::debug_as_display!(GmpiError);

macro_rules! boxed {
    ($($variant:ident($error:ty);)*) => {
        $(impl From<$error> for GmpiError {
            fn from(error: $error) -> GmpiError {
                GmpiError::$variant(Box::new(error))
            }
        })*
    };
}

boxed! {
    Memory(MemoryError);
    Device(DeviceError);
    Report(ReportError);
    Port(PortError);
    Post(PostError);
    Region(RegionError);
    Job(JobError);
    Exchange(ExchangeError);
    Join(ggas::JoinError);
    Choice(ggas::ChoiceError);
}

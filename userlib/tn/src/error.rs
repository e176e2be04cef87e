//! What can go wrong when operations are registered and waited for.

use std::time::Duration;

use extoll_abi::{EncodeError, ErrorUnits};
use ggas_device::{DeviceError, LostPeer, TriggerError};
use ggas_kernels::{LaunchError, MemoryError, mmio};
use ggas_rma::{PortError, RegionError, ReportError};
use ggas_window::WindowError;

use crate::Status;

/// Errors of triggered operations.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum TnError {
    /// The unit, or the thread in its place, refused.
    #[error(transparent)]
    Trigger(#[from] TriggerError),
    /// The device refused a port, memory or a ring.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The port could not be opened.
    #[error(transparent)]
    Port(Box<PortError>),
    /// The local side is not inside a region of this port.
    #[error(transparent)]
    Region(Box<RegionError>),
    /// No card can carry the operation out.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// Memory for kernels.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The executor refused the trigger page.
    #[error(transparent)]
    Pages(#[from] mmio::Overlap),
    /// The window's memory cannot be reached.
    #[error(transparent)]
    Window(Box<WindowError>),
    /// The kernel that registers could not run.
    #[error(transparent)]
    Launch(Box<LaunchError>),
    /// The device has no unit for triggers.
    #[error(
        "this device has no unit for triggered operations: leave Config::way out, and a thread of the host counts"
    )]
    NoUnit,
    /// The window is not mapped for kernels of this processor, which could not carry anything out.
    #[error("the window is not mapped for kernels here: use Triggers on a node, or a window that is mapped")]
    NotMapped,
    /// A tag that the table has no entry for.
    #[error("tag {tag} is beyond the table: tags of a window are below {tags}")]
    Tag {
        /// The tag.
        tag: u64,
        /// Tags that it has entries for.
        tags: u32,
    },
    /// A threshold beyond what the table of a window counts.
    #[error(
        "a threshold of {threshold} for tag {tag}: tags of a window count to {most}; trigger by warps or blocks"
    )]
    HighThreshold {
        /// The tag.
        tag: u64,
        /// What was asked for.
        threshold: u32,
        /// The highest that there is.
        most: u32,
    },
    /// What no port is triggered by.
    #[error("Way::Poster is of windows: open WindowTriggers, or leave Config::way out")]
    Poster,
    /// The kernel that registers, re-arms or cancels did not begin: nothing was changed. It has its place on the GPU until it
    /// can: after some hundred of these, kernels are refused until those that run have ended.
    #[error(
        "the kernel that changes tag {tag} did not begin (waited {waited:?}): those that run leave no room for it. Register \
         before they are launched, or launch fewer blocks"
    )]
    NoRoom {
        /// The tag.
        tag: u64,
        /// How long was waited, at most [`WindowConfig::timeout`](crate::WindowConfig::timeout); not at all where the kernels of
        /// this process alone leave no room.
        waited: Duration,
    },
    /// The kernel that registers began, and did not end: it may be carrying out what was triggered before.
    #[error(
        "the kernel that changes tag {tag} did not end within {waited:?}: its operation may be registered, and be carried out. \
         Open another table; give registering more time (WindowConfig::timeout)"
    )]
    CutOff {
        /// The tag.
        tag: u64,
        /// How long was waited.
        waited: Duration,
    },
    /// A node that the window does not have.
    #[error("the window has no node {node}: its {nodes} are numbered from 0")]
    NoSuchNode {
        /// Node.
        node: usize,
        /// Nodes there are.
        nodes: usize,
    },
    /// Bytes that the window does not have.
    #[error(
        "{bytes} bytes at offset {offset:#x} of node {node} are not in the window: a node has {size} bytes"
    )]
    NoSuchPlace {
        /// Node.
        node: usize,
        /// First byte.
        offset: usize,
        /// Bytes.
        bytes: usize,
        /// Bytes of every node.
        size: usize,
    },
    /// A word to be signalled that is not aligned.
    #[error("the word to be signalled at offset {offset:#x} of node {node} is not aligned to 8")]
    Unaligned {
        /// Node.
        node: usize,
        /// Where it is.
        offset: usize,
    },
    /// The process that serves the target is gone.
    #[error("{0}")]
    PeerLost(LostPeer),
    /// The operation is not complete.
    #[error("the operation of tag {tag} was not completed {times} times in {waited:?}: {counted}{lost}")]
    Timeout {
        /// Its tag.
        tag: u64,
        /// Completions that were waited for.
        times: u32,
        /// How long was waited.
        waited: Duration,
        /// What its tag has counted, in words.
        counted: String,
        /// Triggers that were not counted.
        lost: Box<TriggersLost>,
    },
    /// The operation completed with an error.
    #[error(
        "the operation of tag {tag} failed ({units:?}): look at the regions that it names, and at the target"
    )]
    Failed {
        /// Its tag.
        tag: u64,
        /// Units of the card that met the error.
        units: ErrorUnits,
    },
}

ggas_errors::debug_as_display!(TnError);

impl From<PortError> for TnError {
    fn from(error: PortError) -> TnError {
        TnError::Port(error.into())
    }
}

impl From<RegionError> for TnError {
    fn from(error: RegionError) -> TnError {
        TnError::Region(error.into())
    }
}

impl From<WindowError> for TnError {
    fn from(error: WindowError) -> TnError {
        TnError::Window(error.into())
    }
}

impl From<LaunchError> for TnError {
    fn from(error: LaunchError) -> TnError {
        TnError::Launch(error.into())
    }
}

impl From<ReportError> for TnError {
    fn from(error: ReportError) -> TnError {
        match error {
            ReportError::Host(error) => error.into(),
            ReportError::Processor(error) => error.into(),
        }
    }
}

/// Triggers that were not counted, as the end of a sentence; nothing if there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TriggersLost(pub Status);

impl std::fmt::Display for TriggersLost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Status { refused, refused_tag, failed, failed_tag, .. } = self.0;
        if refused > 0 {
            write!(f, "; {refused} triggers found the table full, the last with tag {refused_tag}")?;
        }
        if failed > 0 {
            write!(f, "; {failed} triggers could not be carried out, the last with tag {failed_tag}")?;
        }
        Ok(())
    }
}

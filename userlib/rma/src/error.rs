//! What can go wrong when posting, registering and waiting, and what to do about it.

use std::time::Duration;

use extoll_abi::{Address, EncodeError, PageOption};
use ggas_device::{DeviceError, LostPeer, Path};

use crate::Match;
use crate::posted::{Advice, Posted};

/// Errors of posting a descriptor.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum PostError {
    /// A `try_` form found no room.
    #[error("the port has no room for another descriptor now: poll for notifications and try again")]
    WouldBlock,
    /// A blocking form found no room within the port's post timeout.
    #[error(
        "no room on the {path} path of port {port} in {waited:?} ({outstanding} descriptors outstanding): the card \
         does not consume them; look at the target's error counters and at the network state"
    )]
    Timeout {
        /// The port.
        port: Address,
        /// Its path.
        path: Path,
        /// Descriptors that the card has not taken yet.
        outstanding: u64,
        /// How long was waited.
        waited: Duration,
    },
    /// The words cannot be encoded.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The local side is not inside the region.
    #[error(transparent)]
    Region(#[from] RegionError),
    /// A slot ring issues every descriptor with the option it was set up with.
    #[error(
        "the slot ring of this port posts with {ring:?}, the connection wants {asked:?}: open the port with \
         PortConfig::slot_option, or use the card path"
    )]
    SlotOption {
        /// Option of the ring.
        ring: PageOption,
        /// Option of the connection.
        asked: PageOption,
    },
    /// The port may not post with this option.
    #[error(
        "posting with {option:?} is for the privileged (physical addresses, remote registers): run with CAP_SYS_RAWIO, \
         or use translated addresses"
    )]
    OptionDenied {
        /// Option of the connection.
        option: PageOption,
    },
    /// The process that served the target is gone.
    #[error("{0}")]
    PeerLost(LostPeer),
    /// The port was closed.
    #[error("the port is closed: open a new one")]
    Closed,
}

ggas_errors::debug_as_display!(PostError);

/// Errors of regions and of access to them.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum RegionError {
    /// Registering or unregistering failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A range outside the region.
    #[error("{len} bytes at offset {offset} leave the region of {region} bytes")]
    Range {
        /// First byte.
        offset: usize,
        /// Bytes.
        len: usize,
        /// Size of the region.
        region: usize,
    },
    /// A word access that is not aligned to 8 bytes.
    #[error("a word at offset {offset} (address {address:#x}) is not aligned to 8 bytes: use read and write")]
    Unaligned {
        /// Offset in the region.
        offset: usize,
        /// Its address.
        address: u64,
    },
    /// A region of another port: its translations serve that port's VPID only (spec 4.1).
    #[error("the region belongs to port {owner}, not to {port}: register the memory on this port too")]
    OtherPort {
        /// Port that it is registered on.
        owner: Address,
        /// Port that wants to use it.
        port: Address,
    },
    /// GPU memory could not be reached.
    #[error(transparent)]
    Gpu(#[from] ggas_kernels::MemoryError),
}

ggas_errors::debug_as_display!(RegionError);

/// Errors of opening and closing ports.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum PortError {
    /// The device refused.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The device lacks the path that was asked for.
    #[error("the {kind} device has no {path} path: use {available}")]
    NoPath {
        /// Kind of the device.
        kind: ggas_device::Kind,
        /// Asked path.
        path: Path,
        /// What there is.
        available: Path,
    },
    /// The port was closed with posts that the card had not taken.
    #[error(
        "port {port} closed, but the card had not taken {outstanding} descriptors after {waited:?}: they are lost; \
         look at the network state and at the target's error counters"
    )]
    Undrained {
        /// The port.
        port: Address,
        /// Descriptors that were lost.
        outstanding: u64,
        /// How long was waited.
        waited: Duration,
    },
}

ggas_errors::debug_as_display!(PortError);

/// Errors of waiting for notifications.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// Nothing that matches arrived in time.
    #[error(
        "waited {waited:?} at port {port} for {wanted}: nothing; {others} other notifications are in the queue. {}",
        Advice { wanted, posted: *posted }
    )]
    Timeout {
        /// The port.
        port: Address,
        /// What was waited for.
        wanted: Box<Match>,
        /// How long.
        waited: Duration,
        /// Notifications in the queue that do not match.
        others: u32,
        /// What the waiting port has posted.
        posted: Posted,
    },
    /// What was waited for can only come from a process that is gone; all that it had sent was looked at.
    #[error("waited at port {port} for {wanted}: {peer}")]
    PeerLost {
        /// The waiting port.
        port: Address,
        /// What was waited for.
        wanted: Box<Match>,
        /// Who is gone.
        peer: LostPeer,
    },
    /// The port was closed.
    #[error("the port is closed: open a new one")]
    Closed,
}

ggas_errors::debug_as_display!(WaitError);

/// Errors of a lock operation that was posted and waited for.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Posting failed.
    #[error(transparent)]
    Post(#[from] PostError),
    /// The answer did not come.
    #[error(transparent)]
    Wait(#[from] WaitError),
    /// The target refused: its port is closed by now, or has no such lock.
    #[error(
        "lock {number} at {target} was refused: the port is closed, or has no lock of this number (spec 5: 16 each)"
    )]
    Refused {
        /// Lock number.
        number: u32,
        /// Target port.
        target: Address,
    },
}

ggas_errors::debug_as_display!(LockError);

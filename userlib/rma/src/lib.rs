//! RMA: puts, gets, immediate and notification puts and locks between ports of an EXTOLL network (thesis 5.6).
//!
//! A [`Node`] opens [`Port`]s; a port registers [`Region`]s and makes [`Connection`]s; a connection posts
//! descriptors; the port's notifications say what was done. Posting goes over the card path or a slot ring, as
//! [`PortConfig::path`] says. Nothing on the way of posting and polling allocates memory or enters the system.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod card;
mod connection;
mod core;
mod error;
#[cfg(test)]
mod fake;
mod in_place;
mod kernel;
mod lock;
mod matching;
mod node;
mod notifications;
mod pages;
mod port;
mod post;
mod posted;
mod queue;
mod region;
mod report;
mod slots;

pub use connection::{Connection, Lock};
pub use error::{LockError, PortError, PostError, RegionError, WaitError};
pub use extoll_abi::{
    Access, Address, Body, Command, ErrorUnits, Kind, Mode, Modifier, Notification, NotificationHeader,
    PageOption, Request, Spec,
};
pub use ggas_device::Path as KernelPath;
pub use ggas_device::{DeviceError, DeviceInfo, HostBuffer, Path};
pub use kernel::{Armed, KernelPort, KernelPortError, PageStores};
pub use lock::LockOutcome;
pub use matching::Match;
pub use node::Node;
pub use notifications::Notifications;
pub use pages::OptionPages;
pub use port::{Port, PortBase, PortConfig, PortHandle};
pub use posted::{KernelPortState, Posted};
pub use region::Region;
pub use report::{KernelReport, ReportCell, ReportError};

//! Devices of the suite: what a kernel driver hands to users of the card, behind two traits.
//!
//! [`Device`] is one card or modelled node, [`PortDevice`] an open VPID on it with its notification queue, option
//! pages, slot ring and registered memory. Kind [`sim`] plays the kernel driver's role against the register
//! interface of the software card in this process (spec 3.2, 4.2, 9.2); kind [`hw`] is for cards; kind nvlink are
//! [`engine`]s on GPUs. Which of them a program uses is chosen at run time, by [`choose`].
//!
//! Most programs use the `ggas` crate on top of this one.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod buffer;
mod choice;
mod device;
pub mod engine;
mod error;
pub mod hw;
mod limit;
mod peer;
mod port;
mod ranges;
mod read_side;
mod sent;
pub mod sim;
pub mod tree;
mod trigger;
mod unit;
mod velo;
mod watch;
mod wcb;
mod writer;

pub use buffer::{HostBuffer, PAGE, SharedMemory, copy_in, copy_out};
pub use choice::{Choice, ChoiceError, ProcessorKind, Reason, available, choose, choose_or, processor_kind};
pub use device::{Device, DeviceInfo, DmaBuf, Kind, Path, Place, SmfuMap, SmfuWindow, Span};
pub use error::DeviceError;
pub use extoll_abi::{Access, Address, PageOption};
pub use limit::{LimitSource, LockedMemory};
pub use peer::{Departures, LostPeer, PeerEnd};
pub use port::{KernelRings, PortDevice, PortSetup, QueueMap, RegisterMap, Slot, SlotMap};
pub use read_side::ReadSide;
pub use sent::{Sent, trace_of};
pub use trigger::{
    TriggerCounts, TriggerDevice, TriggerError, TriggerLookup, TriggerRegistration, TriggerSetup,
};
pub use unit::UnitDevice;
pub use velo::{MailboxMap, MailboxSlots, VeloDevice, VeloSetup, VeloSlotMap};
pub use watch::Watch;
pub use writer::{NotNow, REPLAY_RING, WcbLine, WcbWriter};

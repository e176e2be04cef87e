//! Triggered operations (GPU-TN): what a device offers that has a unit for them, as the model does.

use std::fmt::Debug;

use extoll_abi::{Descriptor, PageOption};
pub use extoll_sim::units::trigger::{Counts as TriggerCounts, Lookup as TriggerLookup};

use crate::{DeviceError, SlotMap};

/// Shape of a port's table of triggered operations.
#[derive(Clone, Copy, Debug)]
pub struct TriggerSetup {
    /// How tags are looked up.
    pub lookup: TriggerLookup,
    /// Tags at once, at most what the lookup [can](TriggerLookup::most).
    pub tags: u32,
    /// Where the unit keeps its status for kernels: NLA of `EXTOLL_TRIGGER_STATUS_WORDS` words on this port.
    pub status: u64,
}

/// An operation to register with the unit.
#[derive(Clone, Copy, Debug)]
pub struct TriggerRegistration {
    /// What triggers name.
    pub tag: u64,
    /// Triggers that start it; not 0.
    pub threshold: u32,
    /// Whether triggers may bring fields.
    pub takes_fields: bool,
    /// Page option that it is posted with.
    pub option: PageOption,
    /// The operation.
    pub descriptor: Descriptor,
    /// NLA of its completion word, a multiple of 8.
    pub done: Option<u64>,
}

/// Why the unit did not do what was asked.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TriggerError {
    /// No room for another tag.
    #[error("the table of {tags} tags is full: open it with more, or cancel what was started")]
    Full {
        /// Tags that it has room for.
        tags: u32,
    },
    /// The tag waits for its threshold.
    #[error("tag {tag} is registered, and was not started yet: cancel it first, or take another tag")]
    Taken {
        /// The tag.
        tag: u64,
    },
    /// The operation of the tag is being carried out.
    #[error("the operation of tag {tag} was started and is not complete: wait for its completion first")]
    Incomplete {
        /// The tag.
        tag: u64,
    },
    /// Nothing is registered for the tag.
    #[error("nothing is registered for tag {tag}")]
    Unknown {
        /// The tag.
        tag: u64,
    },
    /// Re-armed before it was started.
    #[error("the operation of tag {tag} was not started yet: its triggers have not reached its threshold")]
    Waits {
        /// The tag.
        tag: u64,
    },
    /// Too many operations wait for the network.
    #[error("too many operations that were started wait for the network: try again when it has taken some")]
    Busy,
    /// A threshold of 0.
    #[error("a threshold of 0 would start the operation of tag {tag} before any trigger: use 1 or more")]
    Threshold {
        /// The tag.
        tag: u64,
    },
}

ggas_errors::debug_as_display!(TriggerError);

/// A port's table of triggered operations in its device. Dropping it forgets them; the memory of completion and status
/// words may be unregistered then. Callable from any thread.
pub trait TriggerDevice: Debug + Send + Sync {
    /// Registers an operation; it is started at once where its tag has counted enough.
    ///
    /// # Errors
    /// [`TriggerError`].
    fn register(&self, registration: &TriggerRegistration) -> Result<(), TriggerError>;

    /// Forgets a tag; returns what it had counted.
    ///
    /// # Errors
    /// [`TriggerError::Unknown`].
    fn cancel(&self, tag: u64) -> Result<u32, TriggerError>;

    /// Takes the threshold off the count of a tag whose operation was started, and waits for it again.
    ///
    /// # Errors
    /// [`TriggerError::Unknown`], [`TriggerError::Waits`], [`TriggerError::Busy`].
    fn rearm(&self, tag: u64) -> Result<(), TriggerError>;

    /// What a tag has counted; `None` for one that nothing is known of.
    fn counted(&self, tag: u64) -> Option<u32>;

    /// What the table has seen.
    fn counts(&self) -> TriggerCounts;

    /// Stores a word to the trigger page, as kernels do: `EXTOLL_TRIGGER_FIRE` and so on.
    fn store(&self, offset: u64, value: u64);

    /// Does what can be done on the caller's thread; says whether there was something.
    fn progress(&self) -> bool {
        false
    }

    /// Attaches a ring of slots for kernels whose stores the device cannot see, and keeps the device looking at it until
    /// this is dropped.
    ///
    /// # Errors
    /// [`DeviceError::SlotsAttached`], [`DeviceError::SlotCount`], the system's refusal of memory.
    fn attach_slots(&self, slots: u32) -> Result<SlotMap, DeviceError>;
}

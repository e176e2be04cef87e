//! What is asked for: the shape of a table, and when an operation is started.

use std::fmt;

use ggas_device::TriggerLookup;
use ggas_rma::PortConfig;

/// Who counts triggers and carries out what they start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// A unit of the device; the model's card has one.
    Unit,
    /// A thread of the host, which posts through an ordinary port: on devices without the unit.
    Host,
    /// The threads that reach the threshold, through a mapped window: always of [`WindowTriggers`](crate::WindowTriggers),
    /// never of [`Triggers`](crate::Triggers).
    Poster,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Way::Unit => "a unit of the card",
            Way::Host => "a thread of the host",
            Way::Poster => "whoever reaches the threshold",
        })
    }
}

/// Shape and limits of [`Triggers`](crate::Triggers).
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// How tags are looked up. By hash if not set.
    pub lookup: TriggerLookup,
    /// Tags at once, with an operation or without; at most what the lookup [can](TriggerLookup::most). A completion word
    /// each. 1,024 if not set.
    pub tags: u32,
    /// `None`: the device's unit if it has one, else a thread of the host.
    pub way: Option<Way>,
    /// Kernels on the CPU executor put tags into a ring, as those on a GPU do where the device cannot see their stores. Not
    /// so if not set.
    pub kernel_slots: bool,
    /// The port whose memory is sent and fetched into. [`PortConfig::slots`] is also the size of the ring of tags, and
    /// [`PortConfig::kernel_timeout`] the bound of kernels' waits.
    pub port: PortConfig,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            lookup: TriggerLookup::Hash,
            tags: 1024,
            way: None,
            kernel_slots: false,
            port: PortConfig::default(),
        }
    }
}

/// When an operation is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct When {
    pub(crate) tag: u64,
    pub(crate) threshold: u32,
    pub(crate) fields: bool,
}

impl When {
    /// With the first trigger of a tag.
    pub const fn tag(tag: u64) -> When {
        When { tag, threshold: 1, fields: false }
    }

    /// With the `threshold`th: the threads, warps or blocks that have a part in it.
    pub const fn after(self, threshold: u32) -> When {
        When { threshold, ..self }
    }

    /// Its triggers may say what is moved: offsets, size, target (`ggas_tn_trigger_fields_*`).
    pub const fn with_fields(self) -> When {
        When { fields: true, ..self }
    }
}

//! Values of options that have names on the command line and in the JSON.

use std::fmt;
use std::str::FromStr;

use ggas_device::ProcessorKind;

use crate::BenchError;

/// Declares an enum whose values have names on the command line and in the JSON.
macro_rules! named {
    ($(#[$meta:meta])* $name:ident ($option:literal) { $($(#[$doc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$doc])* $variant),+ }

        impl $name {
            /// Names of all values.
            pub const NAMES: &'static [&'static str] = &[$($text),+];

            /// The name of this value.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }

        impl FromStr for $name {
            type Err = BenchError;
            fn from_str(text: &str) -> Result<Self, BenchError> {
                match text {
                    $($text => Ok(Self::$variant),)+
                    _ => Err(BenchError::option($option, text, format!("use one of: {}", Self::NAMES.join(", ")))),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }
    };
}

named! {
    /// Where kernels run.
    Device("device") {
        /// The CPU executor.
        Cpu = "cpu",
        /// NVIDIA GPUs.
        Gpu = "gpu",
    }
}

/// Which device of the library carries the traffic; callers [choose](ggas_device::choose) it.
pub use ggas_device::Kind as Via;

impl Device {
    /// As the library calls it.
    pub fn kind(self) -> ProcessorKind {
        match self {
            Device::Cpu => ProcessorKind::Cpu,
            Device::Gpu => ProcessorKind::Gpu,
        }
    }
}

named! {
    /// What joins the nodes.
    Fabric("fabric") {
        /// A torus between the nodes of one process.
        InProcess = "in-process",
        /// Shared memory between processes with a node each.
        Process = "process",
    }
}

named! {
    /// Where the payload lies.
    Memory("memory") {
        /// Host memory.
        Host = "host",
        /// GPU memory.
        Gpu = "gpu",
    }
}

named! {
    /// How descriptors reach the requester (design 3).
    Path("path") {
        /// The requester pages, as on the card (spec 2.4).
        Card = "card",
        /// A ring of slots, on the model only.
        Slots = "slots",
    }
}

named! {
    /// Who drives the model's units.
    NicProgress("progress") {
        /// The caller's own posts and polls.
        Inline = "inline",
        /// NIC threads.
        Threads = "threads",
    }
}

named! {
    /// What a grid's size is the size of.
    Scaling("scaling") {
        /// Each node's part: more nodes have more together.
        Weak = "weak",
        /// The whole: more nodes have less each.
        Strong = "strong",
    }
}

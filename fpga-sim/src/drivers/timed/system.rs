//! What things cost in one system: a parameter file, read and checked.
//!
//! A file is TOML with the tables below. Every entry has its unit in its name and must be there: a cost that nobody
//! wrote down would be a guess. Times are nanoseconds, rates bytes (or elements) in a nanosecond, which is GB/s.

use std::path::{Path, PathBuf};

use super::parameters::{Allowed, parameters};

/// How nodes are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Topology {
    /// Cards are the switches of a 3-d torus; dimension order.
    Torus,
    /// Each node has a link each way to one switch.
    Star,
    /// Each node has one way out and one way in, and nothing between them is shared.
    Direct,
}

/// When a packet leaves a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Switching {
    /// As soon as its head is there.
    CutThrough,
    /// Once all of it is there.
    StoreAndForward,
}

parameters! {
    /// Links and switches.
    Network = "network", plus {
        /// How nodes are joined.
        topology: Topology,
        /// When a packet leaves a switch.
        switching: Switching,
    } {
        /// Rate of a link, one way, headers included.
        rate link_bytes_per_ns,
        /// From one end of a link to the other.
        time link_ns,
        /// Through the switch of a star, or the crossbar of each card that sends the packet on over a link.
        time switch_ns,
        /// Header and checksum of a packet.
        bytes header_bytes,
        /// Most payload of a packet.
        count packet_bytes,
        /// Most payload that holds a link at a stretch: packets of longer commands mix with others there.
        count train_bytes,
        /// Packets of each virtual channel that the end of a link holds.
        count credits,
    }
}

parameters! {
    /// The bus that joins host, GPU and card.
    Bus = "bus" {
        /// A posted write, until it is visible at the other end.
        time write_ns,
        /// A read, there and back.
        time read_ns,
        /// Rate of the card's writes to host memory.
        rate write_bytes_per_ns,
        /// Rate of the card's reads of host memory.
        rate read_bytes_per_ns,
        /// Rate of the card's writes to GPU memory.
        rate gpu_write_bytes_per_ns,
        /// Rate of the card's reads of GPU memory.
        rate gpu_read_bytes_per_ns,
    }
}

parameters! {
    /// Units of the card. `..._ns` is how long a packet takes through a unit, `..._busy_ns` how long the unit takes no other.
    Card = "card" {
        /// Requester: from a whole descriptor to a packet.
        time requester_ns,
        /// The same, for each packet of the command.
        time requester_busy_ns,
        /// Translation of an address that the card holds.
        time translate_ns,
        /// Responder: from a get to its answer.
        time responder_ns,
        /// The same, for each get.
        time responder_busy_ns,
        /// Completer: from a packet to the write.
        time completer_ns,
        /// The same, for each packet.
        time completer_busy_ns,
        /// A notification behind the data.
        time notify_ns,
        /// From a store at the trigger address to the requester, for operations that were registered before.
        time trigger_ns,
        /// Window unit (SMFU): from an access to a packet, and from a packet to an access.
        time window_ns,
        /// The same, for each packet.
        time window_busy_ns,
        /// Commands and packets that may wait for the network; who has more waits for room.
        count queue,
    }
}

parameters! {
    /// Threads of the host.
    Host = "host" {
        /// Threads that compute or poll at the same time.
        count cores,
        /// How long a thread that polls keeps its core from one that wants it.
        time slice_ns,
        /// Making a descriptor and storing it.
        time post_ns,
        /// Period of polls.
        period poll_ns,
        /// The last look of a poll, the one that finds something, and what follows in the library.
        time look_ns,
        /// Software of a two-sided message at the sender.
        time send_ns,
        /// The same at the receiver.
        time receive_ns,
        /// Elements that a thread computes.
        rate elements_per_ns,
        /// Bytes of memory that a thread reads and writes.
        rate memory_bytes_per_ns,
    }
}

parameters! {
    /// The GPU.
    Gpu = "gpu" {
        /// Multiprocessors.
        count sms,
        /// Blocks that one of them holds at once.
        count blocks_per_sm,
        /// What a launch costs the thread that calls it.
        time launch_call_ns,
        /// From the head of the stream to the first block.
        time launch_ns,
        /// Behind the last block, until what follows in the stream begins and the host may see the end.
        time end_ns,
        /// Between the starts of two blocks.
        time block_start_ns,
        /// The front end's store to the card for a command that was posted before.
        time ring_ns,
        /// A store at system scope, until the thread may go on.
        time store_ns,
        /// A fence at system scope.
        time fence_ns,
        /// Making a descriptor in a kernel and storing it.
        time post_ns,
        /// A look at a word in the GPU's memory; a poll is one behind the other.
        period poll_ns,
        /// A look at a word in host memory.
        period poll_host_ns,
        /// Elements that a block computes.
        rate block_elements_per_ns,
        /// Bytes of the GPU's memory that a block reads and writes.
        rate block_memory_bytes_per_ns,
        /// Bytes that a block stores to a window.
        rate block_store_bytes_per_ns,
        /// What a copy between host and GPU costs the thread that calls it, bytes aside.
        time copy_call_ns,
        /// Rate of such copies.
        rate copy_bytes_per_ns,
    }
}

/// All parameters of a system. Who changes some, for a sweep, has them [checked](System::check) by
/// [`Timed::new`](super::Timed::new).
#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct System {
    /// What it is, and when.
    pub name: String,
    /// Links and switches.
    pub network: Network,
    /// The bus.
    pub bus: Bus,
    /// The card.
    pub card: Card,
    /// The host.
    pub host: Host,
    /// The GPU.
    pub gpu: Gpu,
}

/// A parameter file that cannot be used.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum SystemError {
    /// It cannot be read.
    #[error("the parameters in {path} cannot be read: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// It is not a file of parameters: not TOML, or an entry is missing, unknown, twice there, or not of its kind.
    #[error("{origin}: {message}")]
    Text {
        /// The file.
        origin: String,
        /// What is wrong, and where.
        message: String,
    },
    /// An entry has a value that makes no sense.
    #[error("{origin}: {entry} = {value}: it must be {allowed}")]
    Value {
        /// The file, or the system's name.
        origin: String,
        /// Table and entry.
        entry: &'static str,
        /// What it is.
        value: f64,
        /// What it may be.
        allowed: Allowed,
    },
    /// There is no such system.
    #[error("there is no system {name:?}; known ones: {}; or give a file", System::NAMES.join(", "))]
    NoSuchSystem {
        /// The name asked for.
        name: String,
    },
}

ggas_errors::debug_as_display!(SystemError);

/// Bytes of the largest file that is read: hundreds of times those of our systems.
const FILE_MAX: u64 = 1 << 20;

/// The files in `fpga-sim/systems`.
const BUILT_IN: [(&str, &str); 6] = [
    ("extoll-fpga", include_str!("../../../systems/extoll-fpga.toml")),
    ("gpu-tn", include_str!("../../../systems/gpu-tn.toml")),
    ("h200-nvlink", include_str!("../../../systems/h200-nvlink.toml")),
    ("ha-pacs", include_str!("../../../systems/ha-pacs.toml")),
    ("hpe", include_str!("../../../systems/hpe.toml")),
    ("infiniband", include_str!("../../../systems/infiniband.toml")),
];

impl System {
    /// Systems that are always there.
    pub const NAMES: [&str; BUILT_IN.len()] = {
        let mut names = [""; BUILT_IN.len()];
        let mut at = 0;
        while at < names.len() {
            names[at] = BUILT_IN[at].0;
            at += 1;
        }
        names
    };

    /// One of [`System::NAMES`].
    ///
    /// # Errors
    /// [`SystemError::NoSuchSystem`].
    pub fn named(name: &str) -> Result<System, SystemError> {
        System::parse(System::text(name)?, name)
    }

    /// The file of one of [`System::NAMES`], whose comments name the sources of its entries.
    ///
    /// # Errors
    /// [`SystemError::NoSuchSystem`].
    pub fn text(name: &str) -> Result<&'static str, SystemError> {
        let found = BUILT_IN.iter().find(|(known, _)| *known == name);
        found.map(|(_, text)| *text).ok_or_else(|| SystemError::NoSuchSystem { name: name.to_owned() })
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`SystemError`].
    pub fn load(path: &Path) -> Result<System, SystemError> {
        let text = ggas_files::read_to_string(path, FILE_MAX)
            .map_err(|source| SystemError::File { path: path.to_owned(), source })?;
        System::parse(&text, &path.display().to_string())
    }

    /// Reads the text of a file; `origin` names it in errors.
    ///
    /// # Errors
    /// [`SystemError::Text`], [`SystemError::Value`].
    pub fn parse(text: &str, origin: &str) -> Result<System, SystemError> {
        let system: System = toml::from_str(text).map_err(|error| SystemError::Text {
            origin: origin.to_owned(),
            message: error.to_string().trim_end().to_owned(),
        })?;
        system.check_as(origin)?;
        Ok(system)
    }

    /// Whether all values make sense.
    ///
    /// # Errors
    /// [`SystemError::Value`].
    pub fn check(&self) -> Result<(), SystemError> {
        self.check_as(&self.name)
    }

    fn check_as(&self, origin: &str) -> Result<(), SystemError> {
        let wrong = (self.network.wrong())
            .or_else(|| self.bus.wrong())
            .or_else(|| self.card.wrong())
            .or_else(|| self.host.wrong())
            .or_else(|| self.gpu.wrong());
        wrong.map_or(Ok(()), |(entry, value, allowed)| {
            Err(SystemError::Value { origin: origin.to_owned(), entry, value, allowed })
        })
    }
}

//! [`NodeMemory`]: a transport's state of a node, shared by all processes of the node.

use std::os::fd::{AsFd, BorrowedFd};

use crate::directory::{Directory, WHOLE};
use crate::memory::{File, FileError, Mapping};
use crate::place;

/// A transport's state of a node, or of the whole network, shared by all members: a file of the network's directory,
/// mapped as a whole.
pub struct NodeMemory(pub(crate) File);

impl NodeMemory {
    pub(crate) fn open_or_make(
        directory: BorrowedFd<'_>,
        node: u16,
        (bytes, reserved): (usize, usize),
        fill: impl FnOnce(&Mapping),
    ) -> std::io::Result<NodeMemory> {
        let (name, sizes) = (format!("node.{node}"), (bytes as u64, reserved as u64));
        File::open_or_make(directory, &name, sizes, fill).map(NodeMemory).map_err(io_error)
    }

    /// The file of [`Member::network_memory`](crate::Member::network_memory).
    pub(crate) fn of_network(directory: &Directory, bytes: usize) -> Result<NodeMemory, FileError> {
        let sizes = (bytes as u64, bytes as u64);
        File::open_or_make(directory.as_fd(), WHOLE, sizes, |_| {}).map(NodeMemory)
    }

    /// The whole memory, as atomics: other processes write it at any time.
    pub fn map(&self) -> &Mapping {
        &self.0.map
    }

    /// Allocates a part that was not reserved at first. Call it before you write the part.
    ///
    /// # Errors
    /// [`std::io::ErrorKind::StorageFull`] with what to do, or the system's.
    pub fn reserve(&self, offset: usize, bytes: usize) -> std::io::Result<()> {
        self.0.reserve(offset, bytes).map_err(io_error)
    }
}

pub(crate) fn io_error(error: FileError) -> std::io::Error {
    use std::io::{Error, ErrorKind};
    match error {
        FileError::Full { bytes } => {
            let what = if bytes == 0 { "more".to_owned() } else { format!("{bytes} bytes") };
            let place = place::runtime_dir();
            let text = format!(
                "no room for {what} of the network's files: make room in {}, or name another directory with \
                 GGAS_RUNTIME_DIR",
                place.display()
            );
            Error::new(ErrorKind::StorageFull, text)
        }
        FileError::Size => Error::new(
            ErrorKind::InvalidData,
            "another version of ggas made this file of the network, and programs of one network need the same: build ggas and the \
             programs from the same version; or end the programs that made the network; or name a network of its own for this \
             version with GGAS_NETWORK",
        ),
        FileError::Limit(error) => error,
        FileError::System(errno) => errno.into(),
    }
}

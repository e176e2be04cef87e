//! What happened at an endpoint.

use crate::endpoint::Peer;

/// What [`poll`](crate::Endpoint::poll) tells.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A message came.
    Message(&'a [u8]),
    /// A peer's [write](crate::Endpoint::write) with this immediate value is in our memory.
    Written(u32),
    /// A peer's [write](crate::Endpoint::write_behind) is there, and not in our memory yet. Who [takes](Led::take) it needs it nowhere else;
    /// otherwise [`Written`](Event::Written) follows. UCX tells of it, libfabric does not.
    Led(Led<'a>),
    /// A transfer is over: its source may be used again, its data are there.
    Done {
        /// The caller's.
        token: u64,
    },
    /// A transfer failed. Which of its bytes were moved is unknown.
    Failed {
        /// The caller's.
        token: u64,
        /// What the library said.
        why: String,
    },
    /// A message that was taken did not arrive. Not all that are lost are told of.
    Unsent {
        /// Where it should have gone; `None`: that was removed.
        peer: Option<Peer>,
        /// What the library said.
        why: String,
    },
    /// A peer is not reached any more, and will not be: what goes there is an error until it is
    /// [removed](crate::Endpoint::remove). UCX tells of it, libfabric does not.
    Gone {
        /// The peer.
        peer: Peer,
        /// What the library said.
        why: String,
    },
}

/// What a peer writes, while the library has it.
#[derive(Debug)]
pub struct Led<'a> {
    immediate: u32,
    head: &'a [u8],
    bytes: &'a [u8],
    taken: &'a mut bool,
}

impl<'a> Led<'a> {
    /// One that is offered: `taken` says whether it was.
    pub fn new(immediate: u32, head: &'a [u8], bytes: &'a [u8], taken: &'a mut bool) -> Led<'a> {
        Led { immediate, head, bytes, taken }
    }

    /// The peer's number for it.
    pub fn immediate(&self) -> u32 {
        self.immediate
    }

    /// What is in front, and what is behind it.
    pub fn parts(&self) -> (&'a [u8], &'a [u8]) {
        (self.head, self.bytes)
    }

    /// It goes to no memory, and nothing more is told of it.
    pub fn take(self) {
        *self.taken = true;
    }
}

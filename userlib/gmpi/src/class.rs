//! Error classes as kernels get them, and statuses.

use std::fmt;

use crate::layout;

/// An error class of MPI, or one of GMPI's own: what a call in a kernel returns. Never success.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Class(pub u32);

macro_rules! classes {
    ($($name:ident = $code:ident, $text:literal;)*) => {
        impl Class {
            $(#[doc = $text] pub const $name: Class = Class(layout::$code);)*

            /// What it means, in words.
            pub fn text(self) -> &'static str {
                match self {
                    $(Class::$name => $text,)*
                    _ => "an error class that this version does not know",
                }
            }
        }
    };
}

classes! {
    BUFFER = GMPI_ERR_BUFFER, "the buffer, or a part of it, is not in memory that the host has attached: attach it before the kernel starts, and look at the count";
    COUNT = GMPI_ERR_COUNT, "the count is below zero, or too large";
    TYPE = GMPI_ERR_TYPE, "no such datatype, or types that do not match";
    TAG = GMPI_ERR_TAG, "the tag is below zero, above what the MPI library takes, or, on a direct communicator, not that of the receive in its turn";
    COMM = GMPI_ERR_COMM, "no such communicator, or one that was freed";
    RANK = GMPI_ERR_RANK, "no such rank in the communicator, or MPI_ANY_SOURCE where it is not allowed: in a send, on a direct communicator";
    REQUEST = GMPI_ERR_REQUEST, "no such request: its place was overwritten or never written, it was freed, or is started while it is under way";
    ROOT = GMPI_ERR_ROOT, "no such root in the communicator";
    OP = GMPI_ERR_OP, "no such operation, or not for this type";
    ARG = GMPI_ERR_ARG, "an argument is out of range";
    UNKNOWN = GMPI_ERR_UNKNOWN, "an error that the MPI library does not name";
    TRUNCATE = GMPI_ERR_TRUNCATE, "the message is longer than the buffer: receive with a larger count, or probe first";
    OTHER = GMPI_ERR_OTHER, "an error that has no class of its own, of the MPI library or of the system";
    INTERN = GMPI_ERR_INTERN, "the daemon failed: its log says how";
    IN_STATUS = GMPI_ERR_IN_STATUS, "some requests failed: their statuses say how";
    PENDING = GMPI_ERR_PENDING, "neither failed nor over";
    NO_MEM = GMPI_ERR_NO_MEM, "too much is under way, and this was not begun: have the other process receive, or wait for requests";
    WIN = GMPI_ERR_WIN, "no such window, or one that was freed; or one that the MPI library has no way to write or read between these processes: Open MPI where OMPI_MCA_btl_vader_single_copy_mechanism=none is set, which wants OMPI_MCA_osc=pt2pt, too, or not to be set";
    DISP = GMPI_ERR_DISP, "the displacement leaves the window";
    TIMEOUT = GMPI_ERR_TIMEOUT, "the call was not over in time: the other process has not made the matching call, or needs a longer time-out; requests are still open";
    PORT = GMPI_ERR_PORT, "the block has no port: open as many as the grid has blocks";
    DAEMON = GMPI_ERR_DAEMON, "the daemon did not answer: the check after the kernel says what it was in";
    CALL = GMPI_ERR_CALL, "no such function, or the carrier does not have it";
    PROC_FAILED = GMPI_ERR_PROC_FAILED, "the other process is gone";
}

impl fmt::Debug for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "class {}: {}", self.0, self.text())
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// What is told of a message that came, or was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Rank in the communicator; [`ANY`](Self::ANY) where there was no message.
    pub source: i32,
    /// Its tag.
    pub tag: i32,
    /// Bytes that came.
    pub bytes: u64,
    /// Whether this request failed, though others did not.
    pub error: Option<Class>,
}

impl Status {
    /// `GMPI_ANY_SOURCE` and `GMPI_ANY_TAG`.
    pub const ANY: i32 = layout::GMPI_ANY_SOURCE;
    /// MPI's empty status.
    pub const EMPTY: Status = Status { source: Self::ANY, tag: Self::ANY, bytes: 0, error: None };
    /// Of a message from or to `MPI_PROC_NULL`.
    pub const NOBODY: Status = Status { source: layout::GMPI_PROC_NULL, ..Self::EMPTY };

    /// The two elements of an answer that stand for it.
    pub fn words(self) -> [u64; 2] {
        let where_from = u64::from(self.source as u32) | u64::from(self.tag as u32) << 32;
        let error = self.error.map_or(0, |class| u64::from(class.0));
        let bytes = self.bytes & ((1 << layout::GMPI_STATUS_BYTES_BITS) - 1);
        [where_from, bytes | error << layout::GMPI_STATUS_BYTES_BITS]
    }
}

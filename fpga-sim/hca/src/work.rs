//! What is posted to queue pairs, and what completes.

/// A piece of local memory of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sge {
    /// Virtual address.
    pub address: u64,
    /// Bytes.
    pub len: u32,
    /// Local key.
    pub lkey: u32,
}

/// The local memory of a request: pieces, one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sges {
    first: Option<Sge>,
    more: Vec<Sge>,
}

impl Sges {
    /// One piece.
    pub fn one(address: u64, len: u32, lkey: u32) -> Sges {
        Sges { first: Some(Sge { address, len, lkey }), more: Vec::new() }
    }

    /// Adds a piece at the end.
    pub fn push(&mut self, sge: Sge) {
        match self.first {
            None => self.first = Some(sge),
            Some(_) => self.more.push(sge),
        }
    }

    /// The pieces.
    pub fn iter(&self) -> impl Iterator<Item = &Sge> {
        self.first.iter().chain(&self.more)
    }

    /// Bytes of all pieces.
    pub fn len(&self) -> u64 {
        self.iter().map(|sge| u64::from(sge.len)).sum()
    }

    /// Whether there is not a byte.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl FromIterator<Sge> for Sges {
    fn from_iter<T: IntoIterator<Item = Sge>>(pieces: T) -> Sges {
        let mut sges = Sges::default();
        pieces.into_iter().for_each(|sge| sges.push(sge));
        sges
    }
}

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Sends bytes to a receive that the peer has posted.
    Send {
        /// A value for the receive's completion.
        immediate: Option<u32>,
    },
    /// Writes the peer's memory.
    Write {
        /// Where.
        address: u64,
        /// Remote key.
        rkey: u32,
        /// A value for a receive of the peer, which is used up.
        immediate: Option<u32>,
    },
    /// Reads the peer's memory.
    Read {
        /// Where.
        address: u64,
        /// Remote key.
        rkey: u32,
    },
    /// Stores `swap` if the word is `compare`; the word's value before comes back, 8 bytes of the host's order.
    CompareSwap {
        /// Where: 8 aligned bytes.
        address: u64,
        /// Remote key.
        rkey: u32,
        /// What the word is compared with.
        compare: u64,
        /// What is stored.
        swap: u64,
    },
    /// Adds to a word; its value before comes back.
    FetchAdd {
        /// Where: 8 aligned bytes.
        address: u64,
        /// Remote key.
        rkey: u32,
        /// What is added, wrapping.
        add: u64,
    },
}

impl Operation {
    /// Whether the peer answers with data: there may be few of these at a time.
    pub fn is_read_or_atomic(&self) -> bool {
        matches!(self, Operation::Read { .. } | Operation::CompareSwap { .. } | Operation::FetchAdd { .. })
    }

    /// Whether it uses up a receive of the peer.
    pub fn takes_a_receive(&self) -> bool {
        matches!(self, Operation::Send { .. } | Operation::Write { immediate: Some(_), .. })
    }

    fn kind(&self) -> Kind {
        match self {
            Operation::Send { .. } => Kind::Send,
            Operation::Write { .. } => Kind::Write,
            Operation::Read { .. } => Kind::Read,
            Operation::CompareSwap { .. } => Kind::CompareSwap,
            Operation::FetchAdd { .. } => Kind::FetchAdd,
        }
    }
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendWork {
    /// The poster's number for it, in its completion.
    pub id: u64,
    /// What it does.
    pub operation: Operation,
    /// Local memory: source of sends and writes, destination of answers.
    pub local: Sges,
    /// Whether its success shall be in the completion queue; failures always are.
    pub signaled: bool,
    /// Whether the peer's completion is a solicited event.
    pub solicited: bool,
    /// Whether it waits until all reads and atomic operations before it are done.
    pub fence: bool,
    /// Why it cannot be carried out: it fails so at its turn.
    pub bad: Option<Status>,
}

impl SendWork {
    /// A signaled request without further wishes.
    pub fn new(id: u64, operation: Operation, local: Sges) -> SendWork {
        SendWork { id, operation, local, signaled: true, solicited: false, fence: false, bad: None }
    }

    /// Its completion on queue pair `qp`.
    pub(crate) fn completion(&self, qp: u32, status: Status) -> Completion {
        let len = if status == Status::Success { self.local.len() as u32 } else { 0 };
        Completion {
            id: self.id,
            qp,
            status,
            kind: self.operation.kind(),
            len,
            immediate: None,
            solicited: false,
        }
    }
}

/// Memory for one incoming message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiveWork {
    /// The poster's number for it, in its completion.
    pub id: u64,
    /// Where the message goes.
    pub local: Sges,
}

/// What has completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A send request.
    Send,
    /// A write request.
    Write,
    /// A read request.
    Read,
    /// A compare-and-swap request.
    CompareSwap,
    /// A fetch-and-add request.
    FetchAdd,
    /// A receive, by a send.
    Receive,
    /// A receive, by a write with an immediate value.
    ReceiveWrite,
}

impl Kind {
    /// Whether it is a receive.
    pub fn is_receive(self) -> bool {
        matches!(self, Kind::Receive | Kind::ReceiveWrite)
    }
}

/// How a request or receive ended (IBTA 11.6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Well.
    Success,
    /// A message longer than its receive, or an answer of another length.
    LocalLength,
    /// The request makes no sense.
    LocalOperation,
    /// A local key does not allow it.
    LocalProtection,
    /// The queue pair failed before its turn.
    Flushed,
    /// An answer that does not fit the request.
    BadResponse,
    /// The peer calls the request invalid.
    RemoteInvalidRequest,
    /// A key of the peer does not allow it.
    RemoteAccess,
    /// The peer failed.
    RemoteOperation,
    /// No answer, however often repeated.
    RetryExceeded,
    /// The peer never posted a receive.
    NotReadyExceeded,
}

/// An entry of a completion queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The poster's number.
    pub id: u64,
    /// Number of the local queue pair.
    pub qp: u32,
    /// How it ended.
    pub status: Status,
    /// What it was.
    pub kind: Kind,
    /// Bytes received; for requests, bytes moved.
    pub len: u32,
    /// The immediate value that came along.
    pub immediate: Option<u32>,
    /// Whether the peer asked for an event.
    pub solicited: bool,
}

//! Notifications: what the card writes into a port's queue (spec 3.1).

use crate::bindings as facts;
use crate::bits::{Field, OutOfRange};
use crate::vocab::{Address, Command, CommandCode, ErrorUnits, Mode};

const SIZE: Field = Field::new(facts::EXTOLL_NOTI_SIZE_SHIFT, facts::EXTOLL_NOTI_SIZE_BITS);
const CLASS: Field = Field::new(facts::EXTOLL_NOTI_CLASS_SHIFT, facts::EXTOLL_NOTI_CLASS_BITS);
const COUNT: Field = Field::new(facts::EXTOLL_NOTI_COUNT_SHIFT, facts::EXTOLL_NOTI_COUNT_BITS);
const REMOTE_VPID: Field = Field::new(facts::EXTOLL_NOTI_VPID_SHIFT, facts::EXTOLL_NOTI_VPID_BITS);
const REMOTE_NODE: Field = Field::new(facts::EXTOLL_NOTI_NODE_SHIFT, facts::EXTOLL_NOTI_NODE_BITS);
const KIND: Field = Field::new(facts::EXTOLL_NOTI_KIND_SHIFT, facts::EXTOLL_NOTI_KIND_BITS);
const COMMAND: Field = Field::new(facts::EXTOLL_NOTI_COMMAND_SHIFT, facts::EXTOLL_NOTI_COMMAND_BITS);
const MODE: Field = Field::new(facts::EXTOLL_NOTI_MODE_SHIFT, facts::EXTOLL_NOTI_MODE_BITS);
const ERROR: Field = Field::new(facts::EXTOLL_NOTI_ERROR_SHIFT, facts::EXTOLL_NOTI_ERROR_BITS);
const LOCK_NUMBER: Field =
    Field::new(facts::EXTOLL_NOTI_LOCK_NUMBER_SHIFT, facts::EXTOLL_NOTI_LOCK_NUMBER_BITS);
const LOCK_RESULT: Field =
    Field::new(facts::EXTOLL_NOTI_LOCK_RESULT_SHIFT, facts::EXTOLL_NOTI_LOCK_RESULT_BITS);
const LOCK_VALUE: Field = Field::new(facts::EXTOLL_NOTI_LOCK_VALUE_SHIFT, facts::EXTOLL_NOTI_LOCK_VALUE_BITS);

/// An entry of a notification queue. Word 1 is written last and is never 0, so it is the valid flag too.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(C)]
pub struct Notification {
    /// Address, payload, value or lock, as the command says.
    pub word0: u64,
    /// Header; 0: the entry is free.
    pub word1: u64,
}

/// The unit that wrote a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// At the origin: the request has left.
    Requester = 1,
    /// At the target of a get or lock.
    Responder = 2,
    /// Where the data arrived.
    Completer = 4,
}

/// What every notification carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotificationHeader {
    /// Unit that wrote it.
    pub kind: Kind,
    /// Command; the completer of a get or lock sees the response.
    pub command: CommandCode,
    /// The other side: the target in requester notifications and of gets, else the origin.
    pub remote: Address,
    /// How the command ran.
    pub mode: Mode,
    /// Units that met an error.
    pub error: ErrorUnits,
}

/// What differs by command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// A put or get, or an immediate put at its target \[inferred for immediate puts\].
    Transfer {
        /// Bytes of the last fragment, 1 to 8 MiB.
        size: u32,
        /// Where the last fragment begins on this side: read address at the responder, write address at the
        /// completer \[inferred at the requester: read address of a put, write address of a get\].
        address: u64,
    },
    /// A notification put.
    Class {
        /// User's tag.
        class: u8,
        /// User's value.
        payload: u64,
    },
    /// An immediate put at its origin.
    Immediate {
        /// Bytes, 1 to 8 \[inferred: in the size field, less one\].
        count: u8,
        /// The value of the descriptor.
        value: u64,
    },
    /// A lock.
    Lock {
        /// Number, 24 bits.
        number: u32,
        /// 1: the addition took place; the requester's says 0.
        result: u8,
        /// Resulting value; at the requester the compare operand.
        value: i32,
    },
    /// A command without a meaning, reported with an error.
    Unknown {
        /// Bits \[22:0\] of word 1.
        field: u32,
        /// Word 0.
        word0: u64,
    },
}

/// Why two words are no notification.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotificationError {
    /// Word 1 is 0.
    #[error("the entry is free (word 1 is 0): poll until word 1 is not 0")]
    Free,
    /// Not exactly one unit named.
    #[error("kind {0} names no single unit: bits 50:48 of word 1 must be 1, 2 or 4")]
    Kind(u8),
    /// Body and command disagree.
    #[error("a notification of command {0} has another body: choose the one of its command")]
    Body(CommandCode),
    /// A field of the body is too large.
    #[error(transparent)]
    Field(#[from] OutOfRange),
    /// A transfer of no bytes, or an immediate put of none.
    #[error("a notified transfer has at least one byte: give its size")]
    SizeZero,
}

ggas_errors::debug_as_display!(NotificationError);

/// Which body a command's notification has.
#[derive(PartialEq, Eq)]
enum Shape {
    Transfer,
    Class,
    Immediate,
    Lock,
    Unknown,
}

#[inline]
const fn shape(kind: Kind, command: CommandCode) -> Shape {
    match command.command() {
        None => Shape::Unknown,
        Some(Command::NotificationPut) => Shape::Class,
        Some(Command::ImmediatePut) if matches!(kind, Kind::Requester) => Shape::Immediate,
        Some(Command::LockReq | Command::LockRsp) => Shape::Lock,
        Some(_) => Shape::Transfer,
    }
}

impl Kind {
    /// The kind with these bits.
    #[inline]
    pub const fn from_bits(bits: u8) -> Option<Kind> {
        Some(match bits {
            1 => Kind::Requester,
            2 => Kind::Responder,
            4 => Kind::Completer,
            _ => return None,
        })
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Kind::Requester => "requester",
            Kind::Responder => "responder",
            Kind::Completer => "completer",
        })
    }
}

impl Notification {
    /// The entry with this header and body.
    #[inline]
    pub fn encode(header: &NotificationHeader, body: &Body) -> Result<Notification, NotificationError> {
        let (field, word0, found) = match *body {
            Body::Transfer { size: 0, .. } | Body::Immediate { count: 0, .. } => {
                return Err(NotificationError::SizeZero);
            }
            Body::Transfer { size, address } => {
                (SIZE.check("transfer size - 1", size as u64 - 1)?, address, Shape::Transfer)
            }
            Body::Class { class, payload } => (CLASS.put(class as u64), payload, Shape::Class),
            Body::Immediate { count, value } => {
                (COUNT.check("immediate count - 1", count as u64 - 1)?, value, Shape::Immediate)
            }
            Body::Lock { number, result, value } => {
                let number = LOCK_NUMBER.check("lock number", number as u64)?;
                let word0 = number | LOCK_RESULT.put(result as u64) | LOCK_VALUE.put(value as u32 as u64);
                (0, word0, Shape::Lock)
            }
            Body::Unknown { field, word0 } => {
                (SIZE.check("notification field", field as u64)?, word0, Shape::Unknown)
            }
        };
        if found != shape(header.kind, header.command) {
            return Err(NotificationError::Body(header.command));
        }
        let word1 = field
            | REMOTE_VPID.put(header.remote.vpid as u64)
            | REMOTE_NODE.put(header.remote.node as u64)
            | KIND.put(header.kind as u64)
            | COMMAND.put(header.command.get() as u64)
            | MODE.put(header.mode.bits() as u64)
            | ERROR.put(header.error.bits() as u64);
        Ok(Notification { word0, word1 })
    }

    /// What the words say. Bit 31 of word 1 is ignored.
    #[inline]
    pub fn decode(&self) -> Result<(NotificationHeader, Body), NotificationError> {
        let header = self.header()?;
        let body = match shape(header.kind, header.command) {
            Shape::Transfer => Body::Transfer { size: self.size(), address: self.word0 },
            Shape::Class => Body::Class { class: self.class(), payload: self.word0 },
            Shape::Immediate => Body::Immediate { count: COUNT.get(self.word1) as u8 + 1, value: self.word0 },
            Shape::Lock => Body::Lock {
                number: self.lock_number(),
                result: self.lock_result(),
                value: self.lock_value(),
            },
            Shape::Unknown => Body::Unknown { field: SIZE.get(self.word1) as u32, word0: self.word0 },
        };
        Ok((header, body))
    }

    /// Header alone; fails as [`Notification::decode`] does.
    #[inline]
    pub const fn header(&self) -> Result<NotificationHeader, NotificationError> {
        if self.word1 == 0 {
            return Err(NotificationError::Free);
        }
        let bits = KIND.get(self.word1) as u8;
        let Some(kind) = Kind::from_bits(bits) else {
            return Err(NotificationError::Kind(bits));
        };
        Ok(NotificationHeader {
            kind,
            command: self.command(),
            remote: self.remote(),
            mode: self.mode(),
            error: self.error(),
        })
    }

    /// Whether the card has written this entry since it was freed.
    #[inline]
    pub const fn is_new(&self) -> bool {
        self.word1 != 0
    }

    /// Unit that wrote it, if the bits name one.
    #[inline]
    pub const fn kind(&self) -> Option<Kind> {
        Kind::from_bits(KIND.get(self.word1) as u8)
    }

    /// Command code.
    #[inline]
    pub const fn command(&self) -> CommandCode {
        CommandCode::truncate(COMMAND.get(self.word1))
    }

    /// The other side.
    #[inline]
    pub const fn remote(&self) -> Address {
        Address { node: REMOTE_NODE.get(self.word1) as u16, vpid: REMOTE_VPID.get(self.word1) as u8 }
    }

    /// How the command ran.
    #[inline]
    pub const fn mode(&self) -> Mode {
        Mode::from_bits_truncate(MODE.get(self.word1) as u8)
    }

    /// Units that met an error.
    #[inline]
    pub const fn error(&self) -> ErrorUnits {
        ErrorUnits::from_bits_truncate(ERROR.get(self.word1) as u8)
    }

    /// The entry with `units` among those that met an error.
    #[inline]
    pub const fn with_error(self, units: ErrorUnits) -> Notification {
        Notification { word0: self.word0, word1: self.word1 | ERROR.put(units.bits() as u64) }
    }

    /// Bytes of the last fragment of a put or get.
    #[inline]
    pub const fn size(&self) -> u32 {
        SIZE.get(self.word1) as u32 + 1
    }

    /// Class of a notification put.
    #[inline]
    pub const fn class(&self) -> u8 {
        CLASS.get(self.word1) as u8
    }

    /// Number of a lock.
    #[inline]
    pub const fn lock_number(&self) -> u32 {
        LOCK_NUMBER.get(self.word0) as u32
    }

    /// Result of a lock: 1 if the addition took place.
    #[inline]
    pub const fn lock_result(&self) -> u8 {
        LOCK_RESULT.get(self.word0) as u8
    }

    /// Payload of a notification put.
    #[inline]
    pub const fn payload(&self) -> u64 {
        self.word0
    }

    /// Value of a lock.
    #[inline]
    pub const fn lock_value(&self) -> i32 {
        LOCK_VALUE.get(self.word0) as u32 as i32
    }

    /// Bytes of the whole transfer that began at `start` on this side (spec 3.1).
    #[inline]
    pub const fn total_size(&self, start: u64) -> u64 {
        self.word0.wrapping_sub(start).wrapping_add(self.size() as u64)
    }
}

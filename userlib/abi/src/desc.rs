//! Requester descriptors (spec 2.2).

use crate::bindings as facts;
use crate::bits::Field;
use crate::vocab::{Address, Command, CommandCode, Modifier, Spec};

/// Most bytes of one put or get (spec 2.2).
pub const MAX_TRANSFER: u32 = facts::EXTOLL_MAX_TRANSFER as u32;

const QUADWORDS: Field = Field::new(facts::EXTOLL_DESC_QUADWORDS_SHIFT, facts::EXTOLL_DESC_QUADWORDS_BITS);
const COMMAND: Field = Field::new(facts::EXTOLL_DESC_COMMAND_SHIFT, facts::EXTOLL_DESC_COMMAND_BITS);
const DST_VPID: Field = Field::new(facts::EXTOLL_DESC_VPID_SHIFT, facts::EXTOLL_DESC_VPID_BITS);
const DST_NODE: Field = Field::new(facts::EXTOLL_DESC_NODE_SHIFT, facts::EXTOLL_DESC_NODE_BITS);
const SPEC: Field = Field::new(facts::EXTOLL_DESC_SPEC_SHIFT, facts::EXTOLL_DESC_SPEC_BITS);
const MODIFIER: Field = Field::new(facts::EXTOLL_DESC_MODIFIER_SHIFT, facts::EXTOLL_DESC_MODIFIER_BITS);
const SIZE: Field = Field::new(facts::EXTOLL_DESC_SIZE_SHIFT, facts::EXTOLL_DESC_SIZE_BITS);
const CLASS: Field = Field::new(facts::EXTOLL_DESC_CLASS_SHIFT, facts::EXTOLL_DESC_CLASS_BITS);
const COUNT: Field = Field::new(facts::EXTOLL_DESC_COUNT_SHIFT, facts::EXTOLL_DESC_COUNT_BITS);
const LOCK_TARGET: Field =
    Field::new(facts::EXTOLL_DESC_LOCK_TARGET_SHIFT, facts::EXTOLL_DESC_LOCK_TARGET_BITS);
const LOCK_NUMBER: Field =
    Field::new(facts::EXTOLL_DESC_LOCK_NUMBER_SHIFT, facts::EXTOLL_DESC_LOCK_NUMBER_BITS);
const LOCK_COMPARE: Field =
    Field::new(facts::EXTOLL_DESC_LOCK_COMPARE_SHIFT, facts::EXTOLL_DESC_LOCK_COMPARE_BITS);
const LOCK_ADD: Field = Field::new(facts::EXTOLL_DESC_LOCK_ADD_SHIFT, facts::EXTOLL_DESC_LOCK_ADD_BITS);
/// Every descriptor says three quadwords \[inferred meaning\].
const THREE_QUADWORDS: u64 = facts::EXTOLL_DESC_QUADWORDS;

/// A command as three words are written to a requester page (spec 2.2, 2.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(C)]
pub struct Descriptor {
    /// Words 0, 1 and 2.
    pub word: [u64; 3],
}

impl From<[u64; 3]> for Descriptor {
    #[inline]
    fn from(word: [u64; 3]) -> Descriptor {
        Descriptor { word }
    }
}

/// What every command carries, legal or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The command's four bits.
    pub command: CommandCode,
    /// Destination port; with [`Modifier::MC`] the node is a multicast group.
    pub dst: Address,
    /// Notifications asked for.
    pub spec: Spec,
    /// Modifiers.
    pub modifier: Modifier,
}

/// What a command does. Sizes are in bytes, addresses as the requester page says (NLA, physical address or
/// register offset).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// Copy `size` bytes from local `read` to remote `write`; `qw`: all three are multiples of 8.
    Put {
        /// Quadword command.
        qw: bool,
        /// Local address.
        read: u64,
        /// Remote address.
        write: u64,
        /// Bytes, 1 to [`MAX_TRANSFER`].
        size: u32,
    },
    /// Copy `size` bytes from remote `read` to local `write`; `qw`: all three are multiples of 8.
    Get {
        /// Quadword command.
        qw: bool,
        /// Remote address.
        read: u64,
        /// Local address.
        write: u64,
        /// Bytes, 1 to [`MAX_TRANSFER`].
        size: u32,
    },
    /// Send `class` and `payload` as a notification; needs [`Spec::COMPLETER`] to have an effect.
    NotificationPut {
        /// User's tag.
        class: u8,
        /// User's value.
        payload: u64,
    },
    /// Write the low `count` bytes of `value` to remote `write`.
    ImmediatePut {
        /// Bytes, 1 to 8.
        count: u8,
        /// Remote address.
        write: u64,
        /// Value, low bytes used.
        value: u64,
    },
    /// Atomically at the target: if lock <= compare, lock += add (spec 5).
    Lock {
        /// Bit 40: the lock belongs to the responder, not the completer.
        to_responder: bool,
        /// Number of the lock, 24 bits.
        number: u32,
        /// Compare operand.
        compare: i32,
        /// Addend.
        add: i32,
    },
}

/// Why a request cannot be put into a descriptor.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// Size 0.
    #[error("a put or get of 0 bytes does not exist: skip it, or use a notification put")]
    SizeZero,
    /// More than [`MAX_TRANSFER`].
    #[error("{0} bytes exceed the 8388608 of one command: split the transfer")]
    SizeTooLarge(u32),
    /// A quadword command whose size is not a multiple of 8.
    #[error("{0} bytes are no multiple of 8, as a quadword command needs: use the byte command")]
    SizeUnaligned(u32),
    /// A quadword command with an address that is not a multiple of 8.
    #[error("address {0:#x} is no multiple of 8, as a quadword command needs: use the byte command")]
    AddressUnaligned(u64),
    /// An immediate put of no bytes or more than 8.
    #[error("an immediate put writes 1 to 8 bytes, not {0}: use a put for more")]
    ImmediateCount(u8),
    /// A lock number of more than 24 bits.
    #[error("lock number {0:#x} exceeds 24 bits: choose one within the locks of the VPID")]
    LockNumber(u32),
}

ggas_errors::debug_as_display!(EncodeError);

/// Why three words are no command that the card carries out. [`Descriptor::header`] is valid all the same.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// A code without a command (4, 7 to 9, 14, 15).
    #[error("command {0} is illegal: use 0 to 3, 5, 6 or 12")]
    IllegalCommand(u8),
    /// A command that only the hardware makes.
    #[error("{0} is made by the hardware only: post the request instead")]
    HardwareOnly(Command),
    /// Bits \[1:0\] of word 0 are not 3 \[inferred: an error\].
    #[error("a descriptor has three quadwords, this one says {0}: set bits 1:0 of word 0")]
    QuadwordCount(u8),
    /// A quadword command with an odd address or size \[inferred: an error\].
    #[error("a quadword command needs addresses and a size that are multiples of 8: use the byte command")]
    Unaligned,
}

ggas_errors::debug_as_display!(DecodeError);

impl Descriptor {
    /// The descriptor of `request` to `dst`.
    #[inline]
    pub fn encode(
        dst: Address,
        spec: Spec,
        modifier: Modifier,
        request: &Request,
    ) -> Result<Descriptor, EncodeError> {
        let (command, parameter, word1, word2) = match *request {
            Request::Put { qw, read, write, size } => {
                let command = if qw { Command::QwPut } else { Command::BtPut };
                (command, size_field(qw, read, write, size)?, read, write)
            }
            Request::Get { qw, read, write, size } => {
                let command = if qw { Command::QwGet } else { Command::BtGet };
                (command, size_field(qw, read, write, size)?, read, write)
            }
            Request::NotificationPut { class, payload } => {
                (Command::NotificationPut, CLASS.put(class as u64), payload, 0)
            }
            Request::ImmediatePut { count, write, value } => {
                if !(1..=8).contains(&count) {
                    return Err(EncodeError::ImmediateCount(count));
                }
                (Command::ImmediatePut, COUNT.put(count as u64 - 1), write, value)
            }
            Request::Lock { to_responder, number, compare, add } => {
                if number as u64 > LOCK_NUMBER.max() {
                    return Err(EncodeError::LockNumber(number));
                }
                let word1 = LOCK_COMPARE.put(compare as u32 as u64) | LOCK_NUMBER.put(number as u64);
                (
                    Command::LockReq,
                    LOCK_TARGET.put(to_responder as u64),
                    word1,
                    LOCK_ADD.put(add as u32 as u64),
                )
            }
        };
        let word0 = QUADWORDS.put(THREE_QUADWORDS)
            | COMMAND.put(command as u64)
            | DST_VPID.put(dst.vpid as u64)
            | DST_NODE.put(dst.node as u64)
            | SPEC.put(spec.bits() as u64)
            | MODIFIER.put(modifier.bits() as u64)
            | parameter;
        Ok(Descriptor { word: [word0, word1, word2] })
    }

    /// What the words say. Bits that the specification leaves at 0 are ignored \[inferred\]; see
    /// [`Descriptor::reserved_bits`].
    #[inline]
    pub fn decode(&self) -> Result<(Header, Request), DecodeError> {
        let header = self.header();
        let [word0, word1, word2] = self.word;
        let quadwords = QUADWORDS.get(word0);
        if quadwords != THREE_QUADWORDS {
            return Err(DecodeError::QuadwordCount(quadwords as u8));
        }
        let Some(command) = header.command.command() else {
            return Err(DecodeError::IllegalCommand(header.command.get()));
        };
        let qw = command.is_quadword();
        let size = SIZE.get(word0) as u32 + 1;
        let request = match command {
            Command::BtPut | Command::QwPut => Request::Put { qw, read: word1, write: word2, size },
            Command::BtGet | Command::QwGet => Request::Get { qw, read: word1, write: word2, size },
            Command::NotificationPut => {
                Request::NotificationPut { class: CLASS.get(word0) as u8, payload: word1 }
            }
            Command::ImmediatePut => {
                Request::ImmediatePut { count: COUNT.get(word0) as u8 + 1, write: word1, value: word2 }
            }
            Command::LockReq => Request::Lock {
                to_responder: LOCK_TARGET.is_set(word0),
                number: LOCK_NUMBER.get(word1) as u32,
                compare: LOCK_COMPARE.get(word1) as u32 as i32,
                add: LOCK_ADD.get(word2) as u32 as i32,
            },
            Command::GetBtRsp | Command::GetQwRsp | Command::LockRsp => {
                return Err(DecodeError::HardwareOnly(command));
            }
        };
        if qw && (word1 | word2 | size as u64) & 7 != 0 {
            return Err(DecodeError::Unaligned);
        }
        Ok((header, request))
    }

    /// Command code, destination, notifications and modifiers: in the same bits of every descriptor.
    #[inline]
    pub const fn header(&self) -> Header {
        let word0 = self.word[0];
        Header {
            command: CommandCode::truncate(COMMAND.get(word0)),
            dst: Address { node: DST_NODE.get(word0) as u16, vpid: DST_VPID.get(word0) as u8 },
            spec: Spec::from_bits_truncate(SPEC.get(word0) as u8),
            modifier: Modifier::from_bits_truncate(MODIFIER.get(word0) as u8),
        }
    }

    /// Bits that are set although the specification leaves them at 0 for this command; all of an illegal
    /// command's parameters count as defined. Nothing set: `encode` can make these words.
    pub fn reserved_bits(&self) -> [u64; 3] {
        const HEADER: u64 = QUADWORDS.mask()
            | COMMAND.mask()
            | DST_VPID.mask()
            | DST_NODE.mask()
            | SPEC.mask()
            | MODIFIER.mask();
        let (parameter, word1, word2) = match self.header().command.command() {
            Some(Command::NotificationPut) => (CLASS, u64::MAX, 0),
            Some(Command::ImmediatePut) => (COUNT, u64::MAX, u64::MAX),
            Some(Command::LockReq) => {
                (LOCK_TARGET, LOCK_COMPARE.mask() | LOCK_NUMBER.mask(), LOCK_ADD.mask())
            }
            _ => (SIZE, u64::MAX, u64::MAX),
        };
        let defined = [HEADER | parameter.mask(), word1, word2];
        [0, 1, 2].map(|i| self.word[i] & !defined[i])
    }
}

#[inline]
fn size_field(qw: bool, read: u64, write: u64, size: u32) -> Result<u64, EncodeError> {
    if size == 0 {
        return Err(EncodeError::SizeZero);
    }
    if size > MAX_TRANSFER {
        return Err(EncodeError::SizeTooLarge(size));
    }
    if qw {
        if size & 7 != 0 {
            return Err(EncodeError::SizeUnaligned(size));
        }
        if let Some(odd) = [read, write].into_iter().find(|address| address & 7 != 0) {
            return Err(EncodeError::AddressUnaligned(odd));
        }
    }
    Ok(SIZE.put(size as u64 - 1))
}

//! VELO: message headers, mailbox slots, requester pages (spec 7).

use crate::bindings as facts;
use crate::bits::Field;
use crate::vocab::Address;
use crate::{OutOfRange, SlotSize};

/// Most bytes of a message.
pub const VELO_MAX_BYTES: usize = facts::EXTOLL_VELO_MAX_BYTES as usize;
/// Words of a message with its header, at most.
pub const VELO_LINE_WORDS: usize = facts::EXTOLL_VELO_LINE_WORDS as usize;

const NODE: Field = Field::new(facts::EXTOLL_VELO_NODE_SHIFT, facts::EXTOLL_VELO_NODE_BITS);
const VPID: Field = Field::new(facts::EXTOLL_VELO_VPID_SHIFT, facts::EXTOLL_VELO_VPID_BITS);
const MULTICAST: Field = Field::new(facts::EXTOLL_VELO_MULTICAST_SHIFT, facts::EXTOLL_VELO_MULTICAST_BITS);
const MULTICAST_USER: Field =
    Field::new(facts::EXTOLL_VELO_MULTICAST_USER_SHIFT, facts::EXTOLL_VELO_MULTICAST_USER_BITS);
const MTT: Field = Field::new(facts::EXTOLL_VELO_MTT_SHIFT, facts::EXTOLL_VELO_MTT_BITS);
const INTERRUPT: Field = Field::new(facts::EXTOLL_VELO_INTERRUPT_SHIFT, facts::EXTOLL_VELO_INTERRUPT_BITS);
const TAG: Field = Field::new(facts::EXTOLL_VELO_TAG_SHIFT, facts::EXTOLL_VELO_TAG_BITS);
const LENGTH: Field = Field::new(facts::EXTOLL_VELO_LENGTH_SHIFT, facts::EXTOLL_VELO_LENGTH_BITS);
const PAGE_VPID: Field = Field::new(facts::EXTOLL_VELO_PAGE_VPID_SHIFT, facts::EXTOLL_VELO_PAGE_VPID_BITS);
const PAGE_TC: Field = Field::new(facts::EXTOLL_VELO_PAGE_TC_SHIFT, facts::EXTOLL_VELO_PAGE_TC_BITS);

const S_NODE: Field = Field::new(facts::EXTOLL_VELO_STATUS_NODE_SHIFT, facts::EXTOLL_VELO_STATUS_NODE_BITS);
const S_VPID: Field = Field::new(facts::EXTOLL_VELO_STATUS_VPID_SHIFT, facts::EXTOLL_VELO_STATUS_VPID_BITS);
const S_MTT: Field = Field::new(facts::EXTOLL_VELO_STATUS_MTT_SHIFT, facts::EXTOLL_VELO_STATUS_MTT_BITS);
const S_END: Field = Field::new(facts::EXTOLL_VELO_STATUS_END_SHIFT, facts::EXTOLL_VELO_STATUS_END_BITS);
const S_ERROR: Field =
    Field::new(facts::EXTOLL_VELO_STATUS_ERROR_SHIFT, facts::EXTOLL_VELO_STATUS_ERROR_BITS);
const S_TAG: Field = Field::new(facts::EXTOLL_VELO_STATUS_TAG_SHIFT, facts::EXTOLL_VELO_STATUS_TAG_BITS);
const S_LENGTH: Field =
    Field::new(facts::EXTOLL_VELO_STATUS_LENGTH_SHIFT, facts::EXTOLL_VELO_STATUS_LENGTH_BITS);

/// Why a header cannot be made, or is not carried out.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum VeloError {
    /// More payload than a message has.
    #[error("a message has at most 120 bytes, not {0}: send more messages, or use RMA")]
    Length(usize),
    /// The message type has two bits.
    #[error("a message type (MTT) is 0 to 3, not {0}")]
    Mtt(u8),
    /// A VPID beyond those of the card.
    #[error(transparent)]
    Vpid(#[from] OutOfRange),
}

ggas_errors::debug_as_display!(VeloError);

/// Header of a message to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct VeloHeader {
    /// Receiver; with `multicast` its node is a group.
    pub destination: Address,
    /// To this VPID on every node of a group.
    pub multicast: bool,
    /// Message type: the user's two bits.
    pub mtt: u8,
    /// Raise the receiver's interrupt.
    pub interrupt: bool,
    /// The user's eight bits.
    pub tag: u8,
    /// Bytes of payload.
    pub length: u8,
}

impl VeloHeader {
    /// The header word.
    #[inline]
    pub const fn encode(self) -> Result<u64, VeloError> {
        if self.length as usize > VELO_MAX_BYTES {
            return Err(VeloError::Length(self.length as usize));
        }
        if self.mtt as u64 > MTT.max() {
            return Err(VeloError::Mtt(self.mtt));
        }
        Ok(NODE.put(self.destination.node as u64)
            | VPID.put(self.destination.vpid as u64)
            | MULTICAST.put(self.multicast as u64)
            | MTT.put(self.mtt as u64)
            | INTERRUPT.put(self.interrupt as u64)
            | TAG.put(self.tag as u64)
            | LENGTH.put(self.length as u64))
    }

    /// The header of any word.
    ///
    /// # Errors
    /// [`VeloError::Length`] above 120 bytes, [`VeloError::Vpid`] above 255.
    #[inline]
    pub const fn decode(word: u64) -> Result<VeloHeader, VeloError> {
        let (length, vpid) = (LENGTH.get(word), VPID.get(word));
        if length > VELO_MAX_BYTES as u64 {
            return Err(VeloError::Length(length as usize));
        }
        if vpid >= facts::EXTOLL_VPIDS {
            let max = facts::EXTOLL_VPIDS - 1;
            return Err(VeloError::Vpid(OutOfRange { what: "a destination VPID", value: vpid, max }));
        }
        Ok(VeloHeader {
            destination: Address { node: NODE.get(word) as u16, vpid: vpid as u8 },
            multicast: MULTICAST.is_set(word) || MULTICAST_USER.is_set(word),
            mtt: MTT.get(word) as u8,
            interrupt: INTERRUPT.is_set(word),
            tag: TAG.get(word) as u8,
            length: length as u8,
        })
    }

    /// Words that a sender stores for a message with this header word, itself included. A length that is too
    /// large counts as the whole line, so that whoever collects the words knows when it ends.
    #[inline]
    pub const fn line_words(word: u64) -> usize {
        let length = LENGTH.get(word) as usize;
        1 + if length > VELO_MAX_BYTES { VELO_LINE_WORDS - 1 } else { length.div_ceil(8) }
    }
}

/// Status word of a mailbox slot; 0 in a free one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(transparent)]
pub struct VeloStatus(pub u64);

impl VeloStatus {
    /// Status of a message's last slot.
    #[inline]
    pub const fn new(source: Address, mtt: u8, tag: u8, length: u8) -> VeloStatus {
        VeloStatus(
            S_NODE.put(source.node as u64)
                | S_VPID.put(source.vpid as u64)
                | S_MTT.put(mtt as u64)
                | S_END.put(1)
                | S_TAG.put(tag as u64)
                | S_LENGTH.put(length as u64),
        )
    }

    /// With the end-of-message bit so.
    #[inline]
    pub const fn with_end(self, end: bool) -> VeloStatus {
        VeloStatus(S_END.with(self.0, end as u64))
    }

    /// With the error bit so.
    #[inline]
    pub const fn with_error(self, error: bool) -> VeloStatus {
        VeloStatus(S_ERROR.with(self.0, error as u64))
    }

    /// Something is in the slot.
    #[inline]
    pub const fn is_new(self) -> bool {
        self.0 != 0
    }

    /// Sender.
    #[inline]
    pub const fn source(self) -> Address {
        Address { node: S_NODE.get(self.0) as u16, vpid: S_VPID.get(self.0) as u8 }
    }

    /// Message type.
    #[inline]
    pub const fn mtt(self) -> u8 {
        S_MTT.get(self.0) as u8
    }

    /// The message ends in this slot.
    #[inline]
    pub const fn is_end(self) -> bool {
        S_END.is_set(self.0)
    }

    /// The message was damaged on its way.
    #[inline]
    pub const fn is_error(self) -> bool {
        S_ERROR.is_set(self.0)
    }

    /// Tag.
    #[inline]
    pub const fn tag(self) -> u8 {
        S_TAG.get(self.0) as u8
    }

    /// Bytes of the message; the field holds up to 4095, messages have at most 120.
    #[inline]
    pub const fn length(self) -> usize {
        S_LENGTH.get(self.0) as usize
    }
}

/// Slots of this size (64 or 128 bytes) that a message of `length` bytes takes.
#[inline]
pub const fn velo_slots(slot: SlotSize, length: usize) -> u32 {
    let each = slot.bytes() as usize - 8;
    if length <= each { 1 } else { length.div_ceil(each) as u32 }
}

/// Offset of a requester page in the VELO part of BAR 0: traffic class (0 to 3) and source VPID.
#[inline]
pub const fn velo_page(tc: u8, vpid: u8) -> u64 {
    PAGE_TC.put(tc as u64) | PAGE_VPID.put(vpid as u64)
}

/// Traffic class, VPID, and offset in the page.
#[inline]
pub const fn velo_page_at(offset: u64) -> (u8, u8, u16) {
    (PAGE_TC.get(offset) as u8, PAGE_VPID.get(offset) as u8, (offset & 0xfff) as u16)
}

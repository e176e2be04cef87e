//! The payload of a packet, while it is read.

use super::board::Board;
use crate::memory::Lent;
use crate::packet::{INLINE_MAX, Payload};

/// A payload that is being read.
pub(super) struct Part {
    pub(super) buffer: Buffer,
    pub(super) filled: usize,
}

pub(super) enum Buffer {
    Own(Vec<u8>),
    /// One of the fabric's, once it gave one.
    Staged(Option<Lent>),
}

impl Part {
    /// Room for a payload of `len` bytes; `None` where the fabric has none now.
    pub(super) fn room(&mut self, board: &Board, len: usize) -> Option<&mut [u8]> {
        match &mut self.buffer {
            Buffer::Own(bytes) => {
                bytes.resize(len, 0);
                Some(bytes)
            }
            Buffer::Staged(staged) => {
                if staged.is_none() {
                    *staged = board.fabric.stage(len);
                }
                staged.as_mut().map(Lent::bytes_mut).filter(|bytes| bytes.len() == len)
            }
        }
    }

    /// The payload, which is complete.
    pub(super) fn take(&mut self) -> Payload {
        self.filled = 0;
        match &mut self.buffer {
            Buffer::Own(bytes) if bytes.len() <= INLINE_MAX => Payload::copy_of(bytes),
            Buffer::Own(bytes) => Payload::Bytes(std::mem::take(bytes).into_boxed_slice()),
            Buffer::Staged(staged) => staged.take().map_or(Payload::None, Payload::Lent),
        }
    }
}

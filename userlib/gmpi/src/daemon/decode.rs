//! Arguments of calls, checked: what a kernel wrote may be anything.

use crate::carrier::{Comm, Operation, Place, Type};
use crate::layout::{self, GMPI_PROC_NULL};
use crate::memory::{Shape, Span};
use crate::rings::Attribute;
use crate::{Class, Status};

use super::Daemon;
use super::short::Message;

/// An `int` of a kernel.
fn int(element: u64) -> i32 {
    element as i32
}

pub(super) fn type_of(element: u64) -> Result<Type, Class> {
    const LAST: u32 = layout::GMPI_DOUBLE >> 8;
    let code = u32::try_from(element).map_err(|_| Class::TYPE)?;
    let size = [1, 1, 1, 1, 2, 2, 4, 4, 8, 8, 8, 8, 4, 8];
    let number = (code >> 8) as usize;
    match code >> 8 {
        0..=LAST if size[number] == code & layout::GMPI_TYPE_SIZE_MASK => Ok(Type(code)),
        _ => Err(Class::TYPE),
    }
}

/// Whether a type comes with a shape.
pub(super) fn is_shaped(element: u64) -> bool {
    element & u64::from(layout::GMPI_TYPE_SHAPED) != 0
}

/// Bytes of `count` elements.
pub(super) fn bytes(count: u64, of: Type) -> Result<u64, Class> {
    u64::try_from(int(count)).map(|count| count * of.size() as u64).map_err(|_| Class::COUNT)
}

impl Daemon {
    pub(super) fn comm(&self, handle: u64) -> Result<(Comm, Place), Class> {
        let comm = self.comms.get(handle).ok_or(Class::COMM)?;
        self.carrier.place(comm).map(|place| (comm, place)).ok_or(Class::COMM)
    }

    /// The bytes of `count` elements at an address.
    pub(super) fn span(&self, at: u64, count: u64, of: Type) -> Result<Span, Class> {
        self.attached.span(at, bytes(count, of)?)
    }

    /// `None`: with nobody (`MPI_PROC_NULL`). `carried`: its bytes, or the shape of its type, if its call has one of them.
    pub(super) fn message(
        &self,
        words: [u64; 6],
        carried: Option<Vec<u8>>,
        receives: bool,
    ) -> Result<Option<Message>, Class> {
        let [at, count, of, rank, tag, comm] = words;
        let (comm, place) = self.comm(comm)?;
        let shaped = is_shaped(of);
        let of = type_of(of & !u64::from(layout::GMPI_TYPE_SHAPED))?;
        let (at, carried) = match (shaped, carried) {
            (true, Some(words)) => (self.shaped(at, count, of, &words)?, None),
            (true, None) => return Err(Class::TYPE),
            // Shapes are no message.
            (false, Some(_)) if receives => return Err(Class::CALL),
            (false, carried) => (self.span(at, count, of)?, carried),
        };
        let (from, tag) = source(rank, tag, place, receives)?;
        if int(rank) == GMPI_PROC_NULL {
            return Ok(None);
        }
        let operation = match (receives, from, tag) {
            (false, Some(to), Some(tag)) => Operation::Send { at, of, to, tag, comm },
            _ => Operation::Recv { at, of, from, tag, comm },
        };
        self.carry(operation, carried).map(Some)
    }

    /// The same of elements that do not lie together.
    fn shaped(&self, at: u64, count: u64, of: Type, words: &[u8]) -> Result<Span, Class> {
        let words: Vec<u64> =
            words.chunks_exact(8).filter_map(|word| word.try_into().ok().map(u64::from_le_bytes)).collect();
        let shape = Shape::of(words.try_into().map_err(|_| Class::TYPE)?);
        if shape.bytes() != Some(bytes(count, of)?) {
            return Err(Class::TYPE);
        }
        self.attached.shaped(at, shape)
    }

    pub(super) fn wanted(&self, call: &Attribute) -> Result<(Comm, Option<u32>, Option<i32>), Class> {
        let [_, rank, tag, comm, ..] = call.elements;
        let (comm, place) = self.comm(comm)?;
        let (from, tag) = source(rank, tag, place, true)?;
        Ok((comm, from, tag))
    }

    /// A put or get; `None`: with nobody.
    pub(super) fn one_sided(&self, call: &Attribute) -> Result<Option<Operation>, Class> {
        let [_, at, count, of, rank, displacement, there, there_of, win, ..] = call.elements;
        let win = self.wins.get(win).ok_or(Class::WIN)?;
        let of = type_of(of)?;
        let at = self.span(at, count, of)?;
        if bytes(there, type_of(there_of)?)? != at.len as u64 {
            return Err(Class::COUNT);
        }
        if int(rank) == GMPI_PROC_NULL {
            return Ok(None);
        }
        let rank = u32::try_from(int(rank)).map_err(|_| Class::RANK)?;
        let size = self.carrier.window(win, rank).ok_or(Class::RANK)?;
        if displacement.checked_add(at.len as u64).is_none_or(|end| end > size) {
            return Err(Class::DISP);
        }
        Ok(Some(match call.function() == layout::GMPI_CALL_PUT {
            true => Operation::Put { at, rank, displacement, win },
            false => Operation::Get { at, rank, displacement, win },
        }))
    }

    pub(super) fn flush(&self, rank: u64, win: u64) -> Result<Operation, Class> {
        let win = self.wins.get(win).ok_or(Class::WIN)?;
        let rank = match rank {
            all if all == u64::from(layout::GMPI_ALL_RANKS) => None,
            rank => Some(u32::try_from(rank).map_err(|_| Class::RANK)?),
        };
        if rank.is_some_and(|rank| self.carrier.window(win, rank).is_none()) {
            return Err(Class::RANK);
        }
        Ok(Operation::Flush { rank, win })
    }
}

pub(super) fn root_of(element: u64, place: Place) -> Result<u32, Class> {
    u32::try_from(int(element)).ok().filter(|root| *root < place.size).ok_or(Class::ROOT)
}

/// Rank and tag of a message; `None`: any.
fn source(rank: u64, tag: u64, place: Place, receives: bool) -> Result<(Option<u32>, Option<i32>), Class> {
    let from = match int(rank) {
        GMPI_PROC_NULL => Some(0),
        Status::ANY if receives => None,
        rank => Some(u32::try_from(rank).ok().filter(|rank| *rank < place.size).ok_or(Class::RANK)?),
    };
    let tag = match int(tag) {
        Status::ANY if receives => None,
        tag if tag < 0 => return Err(Class::TAG),
        tag => Some(tag),
    };
    Ok((from, tag))
}

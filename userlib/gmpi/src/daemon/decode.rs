//! Arguments of calls, checked: what a kernel wrote may be anything.

use crate::carrier::{Comm, Operation, Place, Type};
use crate::layout::{self, GMPI_IN_PLACE_ADDRESS, GMPI_PROC_NULL};
use crate::memory::Span;
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

/// Bytes of `count` elements.
fn bytes(count: u64, of: Type) -> Result<u64, Class> {
    u64::try_from(int(count)).map(|count| count * of.size() as u64).map_err(|_| Class::COUNT)
}

impl Daemon {
    pub(super) fn comm(&self, handle: u64) -> Result<(Comm, Place), Class> {
        let comm = self.comms.get(handle).ok_or(Class::COMM)?;
        self.carrier.place(comm).map(|place| (comm, place)).ok_or(Class::COMM)
    }

    /// The bytes of `count` elements at an address.
    fn span(&self, at: u64, count: u64, of: Type) -> Result<Span, Class> {
        self.attached.span(at, bytes(count, of)?)
    }

    /// `None`: with nobody (`MPI_PROC_NULL`).
    pub(super) fn message(
        &self,
        words: [u64; 6],
        carried: Option<Vec<u8>>,
        receives: bool,
    ) -> Result<Option<Message>, Class> {
        let [at, count, of, rank, tag, comm] = words;
        let (comm, place) = self.comm(comm)?;
        let of = type_of(of)?;
        let at = self.span(at, count, of)?;
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

    pub(super) fn wanted(&self, call: &Attribute) -> Result<(Comm, Option<u32>, Option<i32>), Class> {
        let [_, rank, tag, comm, ..] = call.elements;
        let (comm, place) = self.comm(comm)?;
        let (from, tag) = source(rank, tag, place, true)?;
        Ok((comm, from, tag))
    }

    /// By the function that waits for it.
    pub(super) fn collective(&self, call: &Attribute, function: u32) -> Result<Operation, Class> {
        match function {
            layout::GMPI_CALL_BARRIER => {
                self.comm(call.elements[1]).map(|(comm, _)| Operation::Barrier { comm })
            }
            layout::GMPI_CALL_BCAST => self.broadcast(call),
            layout::GMPI_CALL_REDUCE => self.reduction(call, false),
            layout::GMPI_CALL_ALLREDUCE => self.reduction(call, true),
            layout::GMPI_CALL_ALLGATHER => self.gather(call, false),
            layout::GMPI_CALL_ALLTOALL => self.gather(call, true),
            _ => Err(Class::CALL),
        }
    }

    fn broadcast(&self, call: &Attribute) -> Result<Operation, Class> {
        let [_, at, count, of, root, comm, ..] = call.elements;
        let (comm, place) = self.comm(comm)?;
        let of = type_of(of)?;
        Ok(Operation::Bcast { at: self.span(at, count, of)?, of, root: root_of(root, place)?, comm })
    }

    fn reduction(&self, call: &Attribute, everywhere: bool) -> Result<Operation, Class> {
        let [_, from, to, count, of, op, root, comm, ..] = call.elements;
        let (root, comm) = if everywhere { (0, root) } else { (root, comm) };
        let (comm, place) = self.comm(comm)?;
        let of = type_of(of)?;
        let op = u32::try_from(op).map_err(|_| Class::OP)?;
        if !crate::carrier::own::allows(op, of) {
            return Err(Class::OP);
        }
        let root = root_of(root, place)?;
        let receives = everywhere || root == place.rank;
        let in_place = from == u64::from(GMPI_IN_PLACE_ADDRESS);
        if in_place && !receives {
            return Err(Class::BUFFER);
        }
        let from = self.span(if in_place { to } else { from }, count, of)?;
        // Only the root's buffer for the result is looked at.
        let to = if receives { self.span(to, count, of)? } else { from.clone() };
        Ok(match everywhere {
            true => Operation::Allreduce { from, to, of, op, comm },
            false => Operation::Reduce { from, to, of, op, root, comm },
        })
    }

    fn gather(&self, call: &Attribute, all_to_all: bool) -> Result<Operation, Class> {
        let [_, from, count, of, to, to_count, to_of, comm, ..] = call.elements;
        let (comm, place) = self.comm(comm)?;
        let to_of = type_of(to_of)?;
        let block = bytes(to_count, to_of)?;
        let to = self.attached.span(to, block.checked_mul(place.size.into()).ok_or(Class::COUNT)?)?;
        let in_place = from == u64::from(GMPI_IN_PLACE_ADDRESS);
        if in_place && all_to_all {
            return Err(Class::ARG);
        }
        if in_place {
            let offset = to.offset + place.rank as usize * block as usize;
            let from = Span { offset, len: block as usize, ..to.clone() };
            return Ok(Operation::Allgather { from, to, of: to_of, comm });
        }
        let of = type_of(of)?;
        if bytes(count, of)? != block {
            return Err(Class::COUNT);
        }
        let all = if all_to_all { place.size.into() } else { 1 };
        let from = self.attached.span(from, block * all)?;
        Ok(match all_to_all {
            true => Operation::Alltoall { from, to, of, comm },
            false => Operation::Allgather { from, to, of, comm },
        })
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

fn root_of(element: u64, place: Place) -> Result<u32, Class> {
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

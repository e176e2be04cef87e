//! Collectives of kernels: their arguments, and those that a request stands for.

use super::decode::{bytes, root_of, type_of};
use super::{Daemon, Outcome, done};
use crate::Class;
use crate::carrier::Operation;
use crate::layout::{self, GMPI_IN_PLACE_ADDRESS};
use crate::memory::Span;
use crate::rings::Attribute;

impl Daemon {
    /// A collective that a request stands for; its place comes behind the arguments.
    pub(super) fn begin_collective(
        &mut self,
        call: &Attribute,
        function: u32,
        handle: u64,
    ) -> Result<Outcome, Class> {
        let (waits, arguments, what) = match function {
            layout::GMPI_CALL_IBARRIER => (layout::GMPI_CALL_BARRIER, 1, "barrier"),
            layout::GMPI_CALL_IBCAST => (layout::GMPI_CALL_BCAST, 5, "broadcast"),
            layout::GMPI_CALL_IREDUCE => (layout::GMPI_CALL_REDUCE, 7, "reduction"),
            layout::GMPI_CALL_IALLREDUCE => (layout::GMPI_CALL_ALLREDUCE, 6, "reduction"),
            layout::GMPI_CALL_IALLGATHER => (layout::GMPI_CALL_ALLGATHER, 7, "allgather"),
            layout::GMPI_CALL_IALLTOALL => (layout::GMPI_CALL_ALLTOALL, 7, "alltoall"),
            layout::GMPI_CALL_IGATHER => (layout::GMPI_CALL_GATHER, 7, "gather"),
            _ => (layout::GMPI_CALL_SCATTER, 7, "scatter"),
        };
        if self.requests.is_full() {
            self.requests.refuse(handle);
            return Err(Class::NO_MEM);
        }
        let started = self.collective(call, waits).and_then(|operation| self.carrier.start(&operation));
        self.requests.add(handle, call.elements[1 + arguments], what, started);
        started.map(|_| done())
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
            layout::GMPI_CALL_GATHER => self.rooted(call, true),
            layout::GMPI_CALL_SCATTER => self.rooted(call, false),
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

    /// A gather, or a scatter: of members that are not the root only the block is looked at.
    fn rooted(&self, call: &Attribute, gathers: bool) -> Result<Operation, Class> {
        let [_, from, count, to, to_count, types, root, comm, ..] = call.elements;
        let (comm, place) = self.comm(comm)?;
        let root = root_of(root, place)?;
        let (from, to) = ((from, count, types & 0xffff_ffff), (to, to_count, types >> 32));
        let (one, all) = if gathers { (from, to) } else { (to, from) };
        let in_place = one.0 == u64::from(GMPI_IN_PLACE_ADDRESS);
        if root != place.rank {
            let of = type_of(one.2)?;
            let at = if in_place { Err(Class::BUFFER) } else { self.span(one.0, one.1, of) }?;
            let (from, to) = (at.clone(), at);
            return Ok(match gathers {
                true => Operation::Gather { from, to, of, root, comm },
                false => Operation::Scatter { from, to, of, root, comm },
            });
        }
        let of = type_of(all.2)?;
        let block = bytes(all.1, of)?;
        let whole = self.attached.span(all.0, block.checked_mul(place.size.into()).ok_or(Class::COUNT)?)?;
        let own = if in_place {
            let offset = whole.offset + place.rank as usize * block as usize;
            Span { offset, len: block as usize, ..whole.clone() }
        } else {
            let of = type_of(one.2)?;
            if bytes(one.1, of)? != block {
                return Err(Class::COUNT);
            }
            self.span(one.0, one.1, of)?
        };
        Ok(match gathers {
            true => Operation::Gather { from: own, to: whole, of, root, comm },
            false => Operation::Scatter { from: whole, to: own, of, root, comm },
        })
    }
}

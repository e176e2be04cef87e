//! How an operation becomes a call of the library: which buffers it gets, and which copies stand for the kernels' memory.

use std::ptr::{null, null_mut};

use super::shim::{self, Call};
use super::stage::Copied;
use super::{Mpi, Staging, Started, class, count, say_why};
use crate::carrier::{Carrier, Comm, Operation, Token, Type};
use crate::memory::Span;
use crate::{Class, Status, layout};

impl Mpi {
    /// Whether the library may not have the address of this memory, or its bytes do not lie together there. Reductions that do not wait are added up by the host's instructions,
    /// also in libraries that take GPU memory elsewhere: Open MPI 4.1.4 ended by SIGSEGV.
    fn stages(&self, span: &Span, operation: &Operation) -> bool {
        let gpu = span.memory.device_buffer().is_some();
        let adds = matches!(operation, Operation::Reduce { .. } | Operation::Allreduce { .. });
        let shut = adds || self.unshareable.get(span.index).is_some_and(|shut| *shut);
        self.staging == Staging::Always || span.shape.is_some() || (gpu && (shut || !self.takes_gpu))
    }

    /// The call of an operation, without its buffers; what is sent, and what is received into.
    fn call<'a>(
        &self,
        operation: &'a Operation,
    ) -> Result<(Call, Option<&'a Span>, Option<&'a Span>), Class> {
        let mut call = Call {
            from: null(),
            to: null_mut(),
            displacement: 0,
            kind: 0,
            comm: 0,
            count: 0,
            of: layout::GMPI_BYTE as i32,
            rank: 0,
            tag: 0,
            op: 0,
            reserved: 0,
        };
        let typed = |call: &mut Call, kind, comm: Comm, bytes, of: Type| -> Result<(), Class> {
            self.place_of(comm)?;
            (call.kind, call.comm, call.count, call.of) = (kind, comm as i32, count(bytes, of)?, of.0 as i32);
            Ok(())
        };
        let rank = |rank: &u32| *rank as i32;
        Ok(match operation {
            Operation::Send { at, of, to, tag, comm } => {
                typed(&mut call, shim::SEND, *comm, at.len, *of)?;
                (call.rank, call.tag) = (rank(to), *tag);
                (call, Some(at), None)
            }
            Operation::Recv { at, of, from, tag, comm } => {
                typed(&mut call, shim::RECV, *comm, at.len, *of)?;
                call.rank = from.as_ref().map_or(layout::GMPI_ANY_SOURCE, rank);
                call.tag = tag.unwrap_or(layout::GMPI_ANY_TAG);
                (call, None, Some(at))
            }
            Operation::Barrier { comm } => {
                typed(&mut call, shim::BARRIER, *comm, 0, Type(layout::GMPI_BYTE))?;
                (call, None, None)
            }
            Operation::Bcast { at, of, root, comm } => {
                typed(&mut call, shim::BCAST, *comm, at.len, *of)?;
                call.rank = rank(root);
                (call, None, Some(at))
            }
            Operation::Reduce { from, to, of, op, root, comm } => {
                typed(&mut call, shim::REDUCE, *comm, from.len, *of)?;
                (call.rank, call.op) = (rank(root), *op as i32);
                let receives = self.place_of(*comm)?.rank == *root;
                (call, Some(from), receives.then_some(to))
            }
            Operation::Allreduce { from, to, of, op, comm } => {
                typed(&mut call, shim::ALLREDUCE, *comm, from.len, *of)?;
                call.op = *op as i32;
                (call, Some(from), Some(to))
            }
            Operation::Allgather { from, to, of, comm } => {
                typed(&mut call, shim::ALLGATHER, *comm, from.len, *of)?;
                (call, Some(from), Some(to))
            }
            Operation::Alltoall { from, to, of, comm } => {
                let size = self.place_of(*comm)?.size as usize;
                typed(&mut call, shim::ALLTOALL, *comm, from.len / size, *of)?;
                (call, Some(from), Some(to))
            }
            Operation::Gather { from, to, of, root, comm } => {
                typed(&mut call, shim::GATHER, *comm, from.len, *of)?;
                call.rank = rank(root);
                let receives = self.place_of(*comm)?.rank == *root;
                (call, Some(from), receives.then_some(to))
            }
            Operation::Scatter { from, to, of, root, comm } => {
                typed(&mut call, shim::SCATTER, *comm, to.len, *of)?;
                call.rank = rank(root);
                let place = self.place_of(*comm)?;
                let sends = place.rank == *root;
                let own = from.address() + u64::from(place.rank) * to.len as u64;
                let stays = sends && to.address() == own;
                (call, sends.then_some(from), (!stays).then_some(to))
            }
            Operation::Put { at, rank, displacement, win }
            | Operation::Get { at, rank, displacement, win } => {
                let puts = matches!(operation, Operation::Put { .. });
                self.windows.get(*win).and_then(Option::as_ref).ok_or(Class::WIN)?;
                (call.kind, call.comm) = (if puts { shim::PUT } else { shim::GET }, *win as i32);
                call.count = count(at.len, Type(layout::GMPI_BYTE))?;
                (call.rank, call.displacement) = (*rank as i32, *displacement);
                if puts { (call, Some(at), None) } else { (call, None, Some(at)) }
            }
            Operation::Flush { .. } => return Err(Class::CALL),
        })
    }

    /// Begins; with `short`, a message that keeps clear of its span's memory.
    pub(super) fn begin(&mut self, operation: &Operation, short: Option<&[u8]>) -> Result<Token, Class> {
        self.reap();
        let (mut call, from, to) = self.call(operation)?;
        let status = Status { source: call.rank, tag: call.tag, ..Status::EMPTY };
        let receives = call.kind == shim::RECV;
        let keeps = short.is_some() && to.is_some_and(|to| to.len <= layout::GMPI_ANSWER_MESSAGE as usize);
        let (from_copy, to_copy) = (Copied::none(), Copied::none());
        let mut started = Started {
            receives,
            // All that comes is stored and nothing else, so that what was there need not be copied: across a bus that takes as long
            // as the message.
            fills: receives || call.kind == shim::GET,
            room: to.map_or(0, |to| to.len as u64),
            to: None,
            from_copy,
            to_copy,
            keeps,
            status,
        };
        let begun = self.copy(operation, (from, to), short, &mut call, &mut started).and_then(|()| {
            let mut token = 0;
            // SAFETY: communicator and window are ones; the buffers are as long as the counts say, and live until the operation is
            // over: attached memory as long as the daemon, copies as long as the entry below.
            class(unsafe { (self.shim.start)(&call, &mut token) }).map(|()| token)
        });
        let token = match begun {
            Ok(token) => token,
            Err(class) => {
                self.stage.give_back(started.from_copy);
                self.stage.give_back(started.to_copy);
                if matches!(operation, Operation::Put { .. } | Operation::Get { .. }) {
                    say_why(class);
                }
                return Err(class);
            }
        };
        self.started.insert(token, started);
        if let Operation::Put { rank, win, .. } | Operation::Get { rank, win, .. } = operation {
            self.one_sided.push((*win, *rank, token));
        }
        Ok(token)
    }

    /// What the library gets in place of spans' memory.
    fn copy(
        &mut self,
        operation: &Operation,
        (from, to): (Option<&Span>, Option<&Span>),
        short: Option<&[u8]>,
        call: &mut Call,
        started: &mut Started,
    ) -> Result<(), Class> {
        // What is sent from where it arrives is sent in place; what lies across that is copied, as MPI forbids it.
        let place = |from: &Span, to: &Span| Some(to.address() + self.offset_in_place(operation, from)?);
        let in_place = from.zip(to).is_some_and(|(from, to)| Some(from.address()) == place(from, to));
        let across = from.zip(to).is_some_and(|(from, to)| {
            from.address() < to.address() + to.len as u64 && to.address() < from.address() + from.len as u64
        });
        if let Some(to) = to {
            call.to = to.address() as *mut _;
            // The address of a copy of nothing may be what a library calls MPI_IN_PLACE.
            if to.len > 0 && (started.keeps || self.stages(to, operation)) {
                started.to_copy = match (started.keeps, started.fills) {
                    (true, _) => Copied::Own(vec![0; to.len]),
                    (_, true) => self.stage.room(to.len),
                    _ => self.stage.read(to).map_err(|_| Class::INTERN)?,
                };
                call.to = self.stage.address(&mut started.to_copy).cast();
                started.to = Some(to.clone());
            }
        }
        if let Some(from) = from.filter(|_| !in_place || started.keeps) {
            call.from = from.address() as *const _;
            let short = short.filter(|bytes| bytes.len() == from.len);
            if from.len > 0 && (short.is_some() || across || self.stages(from, operation)) {
                started.from_copy = match short {
                    Some(bytes) => Copied::Own(bytes.to_vec()),
                    None => self.stage.read(from).map_err(|_| Class::INTERN)?,
                };
                call.from = self.stage.address(&mut started.from_copy).cast_const().cast();
            }
        }
        Ok(())
    }

    /// Where the own part is in what arrives; `None`: that is not all of what is sent.
    fn offset_in_place(&self, operation: &Operation, from: &Span) -> Option<u64> {
        match operation {
            Operation::Allgather { comm, .. } | Operation::Gather { comm, .. } => {
                self.place(*comm).map(|place| u64::from(place.rank) * from.len as u64)
            }
            Operation::Scatter { .. } => None,
            _ => Some(0),
        }
    }

    /// Looks at one of the sends that were forgotten: as many are looked at as can be added.
    pub(super) fn reap(&mut self) {
        if let Some(token) = self.forgotten.pop_front()
            && self.test(token).is_none()
        {
            self.forgotten.push_back(token);
        }
    }
}

//! The calls of the own carrier.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use ggas::kernels::KernelMem;

use super::super::{Carrier, Comm, Operation, Place, Token, Type, Win};
use super::schedule::{self, Round};
use super::*;
use crate::layout;

/// Longest piece of a collective: a whole number of elements of any type.
const PIECE: usize = PAYLOAD & !7;

/// What a collective begins with.
pub(super) struct Begin {
    pub rounds: Vec<Round>,
    pub data: Vec<u8>,
    pub combine: Option<(u32, Type)>,
    pub result: Option<(Range<usize>, Span)>,
    /// The result is kept for whoever asks what has landed.
    pub keeps: bool,
}

impl Own {
    /// Sends what is at a place, or these bytes.
    fn send(
        &mut self,
        at: &Span,
        short: Option<&[u8]>,
        to: u32,
        tag: i32,
        comm: Comm,
    ) -> Result<Token, Class> {
        let group = self.group(comm)?;
        let (context, rank, to) = (group.context, group.rank, self.world(comm, to)?);
        if self.known[to as usize] {
            return Err(Class::PROC_FAILED);
        }
        let token = self.token();
        let status = Status { source: rank as i32, tag, bytes: at.len as u64, error: None };
        if (to == self.rank || at.len <= PAYLOAD) && self.net.takes_credit(to as usize) {
            let bytes = match short {
                Some(bytes) => bytes.to_vec(),
                None => at.read().map_err(|_| Class::INTERN)?,
            };
            if to == self.rank {
                let envelope = Envelope { context, source: to, tag };
                self.arrived(Message { envelope, body: Body::Bytes(bytes) });
                self.end(token, Ok(status));
                return Ok(token);
            }
            self.pending.insert(token, Pending::Send { at: at.clone(), bytes: None, status, to });
            self.frame(to, kind::EAGER, [context, tag as u32 as u64, 0, 0, 0], bytes, Then::Sent(token));
        } else {
            let bytes = short.map(<[u8]>::to_vec);
            self.pending.insert(token, Pending::Send { at: at.clone(), bytes, status, to });
            self.offer(to, context, tag, at.len as u64, token);
        }
        Ok(token)
    }

    fn receive(
        &mut self,
        at: Target,
        from: Option<u32>,
        tag: Option<i32>,
        comm: Comm,
    ) -> Result<Token, Class> {
        let wanted = self.wanted(comm, from, tag)?;
        let token = self.token();
        self.pending.insert(token, Pending::Receive { at, comm });
        match self.matching.post(wanted, token) {
            Some(message) => self.matched(token, message),
            None if self.is_hopeless(&wanted) => {
                self.matching.cancel(token);
                self.pending.remove(&token);
                return Err(Class::PROC_FAILED);
            }
            None => {}
        }
        Ok(token)
    }

    pub(super) fn collective(&mut self, comm: Comm, begin: Begin) -> Result<Token, Class> {
        let group = self.groups.get_mut(comm).and_then(Option::as_mut).ok_or(Class::COMM)?;
        if group.members.iter().any(|member| self.known[*member as usize]) {
            return Err(Class::PROC_FAILED);
        }
        group.collectives = group.collectives.wrapping_add(1);
        let tag = (group.collectives & layout::GMPI_TAG_MAX) as i32;
        let Begin { rounds, data, combine, result, keeps } = begin;
        let token = self.token();
        let rounds = VecDeque::from(rounds);
        let running = Running { comm, tag, rounds, data, combine, result, keeps, ..Running::default() };
        self.pending.insert(token, Pending::Collective(Box::new(running)));
        self.stirred.push(token);
        self.advance();
        Ok(token)
    }

    /// Goes on with collectives whose receives have come.
    pub(super) fn advance(&mut self) {
        'next: while let Some(token) = self.stirred.pop() {
            let Some(Pending::Collective(mut running)) = self.pending.remove(&token) else { continue };
            while running.is_idle() {
                if running.begun {
                    running.rounds.pop_front();
                }
                let Some(round) = running.rounds.front().cloned() else { break };
                running.begun = true;
                if self.begin_round(token, &mut running, &round).is_err() {
                    self.end(token, Err(Class::COMM));
                    continue 'next;
                }
            }
            if running.is_idle() {
                if let Some(class) = running.error {
                    self.end(token, Err(class));
                    continue 'next;
                }
                let written = match &running.result {
                    Some((range, span)) if running.keeps => {
                        let (at, bytes) = (span.clone(), running.data[range.clone()].to_vec());
                        if !self.forgotten.contains(&token) {
                            self.landed.insert(token, Landed { at, bytes });
                        }
                        Ok(())
                    }
                    Some((range, span)) => span.write(0, &running.data[range.clone()]),
                    None => Ok(()),
                };
                self.end(token, written.map(|()| Status::EMPTY).map_err(|_| Class::INTERN));
                if running.result.is_none() && !running.data.is_empty() {
                    self.gathered = Some((token, running.data));
                }
            } else {
                self.pending.insert(token, Pending::Collective(running));
            }
        }
    }

    /// Messages are at most a frame long, so longer ones are several, which come in their order: behind one for which no credit is left
    /// the others to that process are held, too.
    fn begin_round(&mut self, of: Token, running: &mut Running, round: &Round) -> Result<(), Class> {
        let context = self.group(running.comm)?.context + 1;
        let pieces = |range: &Range<usize>| {
            let (start, end) = (range.start, range.end);
            let count = range.len().div_ceil(PIECE).max(1);
            (0..count).map(move |i| start + i * PIECE..(start + (i + 1) * PIECE).min(end))
        };
        for (to, range) in &round.sends {
            let to = self.world(running.comm, *to)?;
            for piece in pieces(range) {
                let bytes = running.data[piece].to_vec();
                if running.held.iter().any(|(held, _)| *held == to) || !self.net.takes_credit(to as usize) {
                    running.held.push_back((to, bytes));
                    continue;
                }
                let words = [context, running.tag as u64, 0, 0, 0];
                self.frame(to, kind::EAGER, words, bytes, Then::Nothing);
            }
            self.offer_piece(of, running, to);
        }
        for (from, range, take) in &round.receives {
            let source = Some(self.world(running.comm, *from)?);
            for piece in pieces(range) {
                let token = self.token();
                running.receives.push((token, piece, *take));
                match self.matching.post(Wanted { context, source, tag: Some(running.tag) }, token) {
                    Some(Message { body: Body::Bytes(bytes), envelope }) => {
                        self.net.received(envelope.source as usize);
                        running.take(token, &bytes);
                    }
                    Some(Message { body: Body::Asks { len, send }, envelope }) => {
                        self.accept_piece(of, token, envelope.source, len, send);
                    }
                    None => {
                        self.pending.insert(token, Pending::Part { of });
                    }
                }
            }
        }
        Ok(())
    }

    /// With the bytes that an allreduce begins with, which then keeps its result.
    fn start_collective(&mut self, operation: &Operation, short: Option<&[u8]>) -> Result<Token, Class> {
        let read = |span: &Span| span.read().map_err(|_| Class::INTERN);
        let keeps = false;
        let place = |comm: Comm| self.place(comm).ok_or(Class::COMM);
        let (comm, begin) = match operation {
            Operation::Bcast { at, root, comm, .. } => {
                let Place { rank, size } = place(*comm)?;
                let rounds = schedule::broadcast(rank, size, *root, at.len);
                let result = (rank != *root).then(|| (0..at.len, at.clone()));
                let result = result.or_else(|| Some((0..0, at.clone())));
                (*comm, Begin { rounds, data: read(at)?, combine: None, result, keeps })
            }
            Operation::Reduce { from, to, of, op, root, comm } => {
                let Place { rank, size } = place(*comm)?;
                let len = if rank == *root { from.len } else { 0 };
                let rounds = schedule::reduce(rank, size, *root, from.len);
                let result = Some((0..len, to.clone()));
                (*comm, Begin { rounds, data: read(from)?, combine: Some((*op, *of)), result, keeps })
            }
            Operation::Allreduce { from, to, of, op, comm } => {
                let Place { rank, size } = place(*comm)?;
                let rounds = schedule::allreduce(rank, size, from.len);
                let result = Some((0..from.len, to.clone()));
                let (data, keeps) =
                    short.map_or_else(|| Ok((read(from)?, false)), |bytes| Ok((bytes.to_vec(), true)))?;
                (*comm, Begin { rounds, data, combine: Some((*op, *of)), result, keeps })
            }
            Operation::Allgather { from, to, comm, .. } => {
                let Place { rank, size } = place(*comm)?;
                let block = to.len / size as usize;
                let mut data = vec![0; to.len];
                data[rank as usize * block..][..block].copy_from_slice(&read(from)?[..block]);
                let rounds = schedule::allgather(rank, size, block);
                (*comm, Begin { rounds, data, combine: None, result: Some((0..to.len, to.clone())), keeps })
            }
            Operation::Alltoall { from, to, comm, .. } => {
                let Place { rank, size } = place(*comm)?;
                let (block, whole) = (to.len / size as usize, to.len);
                let mut data = read(from)?;
                data.resize(2 * whole, 0);
                let own = rank as usize * block..(rank as usize + 1) * block;
                data.copy_within(own, whole + rank as usize * block);
                let rounds = schedule::alltoall(rank, size, block);
                (
                    *comm,
                    Begin {
                        rounds,
                        data,
                        combine: None,
                        result: Some((whole..2 * whole, to.clone())),
                        keeps,
                    },
                )
            }
            Operation::Barrier { comm } => {
                let Place { rank, size } = place(*comm)?;
                let rounds = schedule::barrier(rank, size);
                (*comm, Begin { rounds, data: Vec::new(), combine: None, result: None, keeps })
            }
            _ => return Err(Class::CALL),
        };
        self.collective(comm, begin)
    }

    /// One-sided operations; those with this process itself are copies.
    fn one_sided(&mut self, operation: &Operation) -> Result<Token, Class> {
        let token = self.token();
        match operation {
            Operation::Put { at, rank, displacement, win }
            | Operation::Get { at, rank, displacement, win } => {
                let puts = matches!(operation, Operation::Put { .. });
                let window = self.windows.get(*win).and_then(Option::as_ref).ok_or(Class::WIN)?;
                let part = *window.parts.get(*rank as usize).ok_or(Class::RANK)?;
                let to = self.world(window.comm, *rank)?;
                if to == self.rank {
                    let own = window.own.clone();
                    let there = Span { offset: own.offset + *displacement as usize, len: at.len, ..own };
                    let (from, into) = if puts { (at, &there) } else { (&there, at) };
                    let copied = from.read().and_then(|bytes| into.write(0, &bytes));
                    self.end(token, copied.map(|()| Status::EMPTY).map_err(|_| Class::INTERN));
                } else if self.known[to as usize] {
                    return Err(Class::PROC_FAILED);
                } else if puts {
                    let (region, offset, nla) = (at.index, at.offset, part.nla + displacement);
                    self.flow.push(to as usize, Item::Put { region, offset, len: at.len, nla });
                    self.end(token, Ok(Status::EMPTY));
                } else {
                    let nla = self.regions.get(at.index).and_then(|region| region.nla(at.offset).ok());
                    let nla = nla.ok_or(Class::BUFFER)?;
                    self.pending.insert(token, Pending::Fetch { from: to });
                    self.limits.fetches(to);
                    let words = [*win as u64, *displacement, at.len as u64, nla, token];
                    self.frame(to, kind::FETCH, words, Vec::new(), Then::Nothing);
                }
            }
            Operation::Flush { rank, win } => {
                let window = self.windows.get(*win).and_then(Option::as_ref).ok_or(Class::WIN)?;
                let members = self.group(window.comm)?.members.clone();
                let ranks = rank.map_or_else(|| members.clone(), |rank| vec![members[rank as usize]]);
                let others: Vec<u32> = ranks.into_iter().filter(|to| *to != self.rank).collect();
                if others.iter().any(|to| self.known[*to as usize]) {
                    return Err(Class::PROC_FAILED);
                }
                if others.is_empty() {
                    self.end(token, Ok(Status::EMPTY));
                } else {
                    self.pending.insert(token, Pending::Flush { waits: others.clone() });
                }
                for to in others {
                    self.frame(to, kind::PING, [token, 0, 0, 0, 0], Vec::new(), Then::Nothing);
                }
            }
            _ => return Err(Class::CALL),
        }
        Ok(token)
    }
}

impl Carrier for Own {
    fn name(&self) -> String {
        "own messages".to_owned()
    }

    fn place(&self, comm: Comm) -> Option<Place> {
        let group = self.groups.get(comm)?.as_ref()?;
        Some(Place { rank: group.rank, size: group.members.len() as u32 })
    }

    fn window(&self, win: Win, rank: u32) -> Option<u64> {
        Some(self.windows.get(win)?.as_ref()?.parts.get(rank as usize)?.bytes)
    }

    fn window_comm(&self, win: Win) -> Option<Comm> {
        Some(self.windows.get(win)?.as_ref()?.comm)
    }

    fn attach(&mut self, index: usize, memory: Arc<KernelMem>) -> Result<(), GmpiError> {
        debug_assert_eq!(index, self.regions.len());
        self.regions.push(self.net.port().register_kernel_memory(memory)?);
        Ok(())
    }

    fn has_room(&self, operation: &Operation) -> bool {
        self.failed || self.room(operation)
    }

    fn start(&mut self, operation: &Operation) -> Result<Token, Class> {
        if self.failed {
            return Err(Class::INTERN);
        }
        match operation {
            Operation::Send { at, to, tag, comm, .. } => self.send(at, None, *to, *tag, *comm),
            Operation::Recv { at, from, tag, comm, .. } => {
                let at = Target { span: at.clone(), keeps: false };
                self.receive(at, *from, *tag, *comm)
            }
            Operation::Put { .. } | Operation::Get { .. } | Operation::Flush { .. } => {
                self.one_sided(operation)
            }
            _ => self.start_collective(operation, None),
        }
    }

    fn start_short(&mut self, operation: &Operation, bytes: &[u8]) -> Result<Token, Class> {
        match operation {
            Operation::Send { at, to, tag, comm, .. } if !self.failed => {
                self.send(at, Some(bytes), *to, *tag, *comm)
            }
            Operation::Recv { at, from, tag, comm, .. } if !self.failed => {
                let at = Target { span: at.clone(), keeps: true };
                self.receive(at, *from, *tag, *comm)
            }
            Operation::Allreduce { .. } if !self.failed => self.start_collective(operation, Some(bytes)),
            _ => self.start(operation),
        }
    }

    fn landed(&mut self, token: Token) -> Option<Landed> {
        self.landed.remove(&token)
    }

    fn test(&mut self, token: Token) -> Option<Result<Status, Class>> {
        if self.failed && !self.done.contains_key(&token) {
            self.pending.remove(&token);
            return Some(Err(Class::INTERN));
        }
        self.done.remove(&token)
    }

    fn forget(&mut self, token: Token) {
        self.done.remove(&token);
        self.landed.remove(&token);
        match self.pending.get(&token) {
            Some(Pending::Receive { .. }) => {
                self.matching.cancel(token);
                self.pending.remove(&token);
            }
            Some(_) => {
                self.forgotten.insert(token);
            }
            None => {}
        }
    }

    fn probe(&mut self, comm: Comm, from: Option<u32>, tag: Option<i32>) -> Result<Option<Status>, Class> {
        let wanted = self.wanted(comm, from, tag)?;
        if let Some(message) = self.matching.probe(&wanted) {
            let Envelope { source, tag, .. } = message.envelope;
            let bytes = match &message.body {
                Body::Bytes(bytes) => bytes.len() as u64,
                Body::Asks { len, .. } => *len,
            };
            let source = self.group(comm)?.rank_of(source).map_or(-1, |rank| rank as i32);
            return Ok(Some(Status { source, tag, bytes, error: None }));
        }
        if self.is_hopeless(&wanted) { Err(Class::PROC_FAILED) } else { Ok(None) }
    }

    fn losses(&self) -> usize {
        self.losses
    }

    fn is_gone(&self, comm: Comm, rank: u32) -> bool {
        self.world(comm, rank).is_ok_and(|rank| self.known[rank as usize])
    }

    fn progress(&mut self) -> bool {
        if self.failed {
            return false;
        }
        match self.step() {
            Ok(moved) => moved,
            Err(error) => {
                tracing::error!("the messages of GMPI end here: {error}");
                self.failed = true;
                true
            }
        }
    }

    fn split(&mut self, of: Comm, color: Option<u32>, key: i32) -> Result<Option<Comm>, GmpiError> {
        self.split_group(of, color, key)
    }

    fn free(&mut self, comm: Comm) {
        if let Some(group) = self.groups.get_mut(comm).filter(|_| comm > 1).and_then(Option::take) {
            // What nobody can receive any more gives its credits back.
            for message in self.matching.drop_context(group.context) {
                if matches!(message.body, Body::Bytes(_)) {
                    self.net.received(message.envelope.source as usize);
                }
            }
            // Nothing that comes is for them, and nobody could say from whom it is.
            let waits =
                |pending: &Pending| matches!(pending, Pending::Receive { comm: of, .. } if *of == comm);
            let tokens = self.pending.iter().filter(|(_, pending)| waits(pending)).map(|(token, _)| *token);
            for token in tokens.collect::<Vec<_>>() {
                self.matching.cancel(token);
                self.pending.remove(&token);
                self.end(token, Err(Class::COMM));
            }
        }
    }

    fn make_window(&mut self, comm: Comm, span: Span) -> Result<Win, GmpiError> {
        self.make_window_of(comm, span)
    }

    fn free_window(&mut self, win: Win) {
        if let Some(window) = self.windows.get_mut(win).and_then(Option::take) {
            self.free(window.comm);
        }
    }

    fn finish(&mut self) -> Result<(), GmpiError> {
        self.leave()
    }
}

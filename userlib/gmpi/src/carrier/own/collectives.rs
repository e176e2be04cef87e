//! Collectives of the own carrier: rounds of messages (`schedule`).

use std::collections::VecDeque;
use std::ops::Range;

use super::super::{Comm, Operation, Place, Token, Type};
use super::schedule::{self, Round};
use super::*;
use crate::carrier::Carrier;
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
    pub(super) fn collective(&mut self, comm: Comm, begin: Begin) -> Result<Token, Class> {
        self.group(comm)?;
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
        let context = self.group_of(running.comm)?.context + 1;
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
    pub(super) fn start_collective(
        &mut self,
        operation: &Operation,
        short: Option<&[u8]>,
    ) -> Result<Token, Class> {
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
            Operation::Gather { from, to, root, comm, .. } => {
                let Place { rank, size } = place(*comm)?;
                let (block, is_root) = (from.len, rank == *root);
                let (len, own) = if is_root { (to.len, rank as usize * block) } else { (block, 0) };
                let mut data = vec![0; len];
                data[own..own + block].copy_from_slice(&read(from)?);
                let rounds = schedule::gather(rank, size, *root, block);
                let result = Some((0..if is_root { len } else { 0 }, to.clone()));
                (*comm, Begin { rounds, data, combine: None, result, keeps })
            }
            Operation::Scatter { from, to, root, comm, .. } => {
                let Place { rank, size } = place(*comm)?;
                let (block, is_root) = (to.len, rank == *root);
                let (data, own) =
                    if is_root { (read(from)?, rank as usize * block) } else { (vec![0; block], 0) };
                let rounds = schedule::scatter(rank, size, *root, block);
                let result = Some((own..own + block, to.clone()));
                (*comm, Begin { rounds, data, combine: None, result, keeps })
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

    /// A member does not take its part: who waits is told.
    pub(super) fn fail_collective(&mut self, token: Token, class: Class) {
        let Some(Pending::Collective(running)) = self.pending.remove(&token) else { return };
        for (part, ..) in running.receives {
            self.matching.cancel(part);
            self.pending.remove(&part);
        }
        self.end(token, Err(class));
    }
}

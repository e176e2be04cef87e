//! The calls of the own carrier.

use std::sync::Arc;

use ggas::kernels::KernelMem;

use super::super::{Carrier, Comm, Operation, Place, Token, Win};
use super::*;

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
        let group = self.group(comm).ok()?;
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

    fn traces(&self) -> bool {
        self.net.traces()
    }

    fn add_sent(&mut self, comm: Comm, sent: &[[u64; 2]]) {
        for (rank, sent) in (0..).zip(sent) {
            if let Ok(to) = self.world(comm, rank) {
                self.net.add_sent(to as usize, *sent);
            }
        }
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
        self.free_group(comm);
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

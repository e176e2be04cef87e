//! Requests of kernels, by their handles.

use std::collections::{HashMap, VecDeque};

use super::short::Message;
use crate::carrier::{Carrier, Token};
use crate::layout::{GMPI_REQUEST_AFTER_SHIFT, GMPI_REQUEST_PERSISTENT_SHIFT, GMPI_REQUEST_PORT_SHIFT};
use crate::memory::Landed;
use crate::{Class, Status};

/// One request.
#[derive(Debug)]
struct Request {
    what: &'static str,
    /// Where its handle lies, by port; `None`: of persistent ones, which are started anywhere.
    place: Option<(usize, u64)>,
    /// The one that was started in the same place before, and not waited for: whoever waits for this waits for that, too (Fig. 6).
    prior: Option<u64>,
    /// Of persistent ones: what is started.
    persistent: Option<Result<Message, Class>>,
    token: Option<Token>,
    ended: Option<Result<Status, Class>>,
    /// What it brought, until a call that completes it takes it along.
    landed: Option<Landed>,
}

impl Request {
    /// Looks whether it is over.
    fn step(&mut self, carrier: &mut dyn Carrier) {
        let Some(token) = self.token else { return };
        if let Some(ended) = carrier.test(token) {
            self.landed = carrier.landed(token);
            (self.token, self.ended) = (None, Some(ended));
        }
    }

    /// Nobody asks for it: what came goes to its place.
    fn settle(self) {
        // A failure is logged, and nobody is left to hear of it.
        self.landed.map(|landed| landed.store());
    }
}

/// All that were made and not waited for.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    all: HashMap<u64, Request>,
    /// The last open one that was started in each place, by port: what is shared by a block has the same address in all blocks.
    places: HashMap<(usize, u64), u64>,
    /// Under way, and nobody will wait for them.
    freed: VecDeque<Request>,
    /// First and last number of those of a port that were refused, as there were too many. A handle in between that was waited for
    /// counts as refused, too.
    refused: HashMap<usize, (u64, u64)>,
}

/// How far a request is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// There is none of this handle now.
    Unknown,
    /// A persistent one that was not started.
    Idle,
    Open,
    Over(Status),
}

/// Port and number of a handle.
pub(crate) fn parts(handle: u64) -> (usize, u64) {
    let port = key(handle) >> GMPI_REQUEST_PORT_SHIFT;
    (port as usize, handle & ((1 << GMPI_REQUEST_PORT_SHIFT) - 1))
}

pub(crate) fn handle(port: usize, number: u64) -> u64 {
    (port as u64) << GMPI_REQUEST_PORT_SHIFT | (number + 1)
}

/// Without the bits that are for kernels alone.
fn key(handle: u64) -> u64 {
    handle & !(1 << GMPI_REQUEST_PERSISTENT_SHIFT | 1 << GMPI_REQUEST_AFTER_SHIFT)
}

impl Requests {
    /// Most that are open.
    const MOST: usize = 65_536;
    /// Freed ones that are looked at in a round, at least; rounds in which all of them are.
    const LOOKS: usize = 4;
    const ROUNDS: usize = 16;

    pub fn is_full(&self) -> bool {
        self.all.len() + self.freed.len() >= Self::MOST
    }

    /// One that is not begun, as there are too many: whoever waits for it is told.
    pub fn refuse(&mut self, handle: u64) {
        let (port, number) = parts(handle);
        let (_, last) = self.refused.entry(port).or_insert((number, number));
        *last = number;
    }

    fn was_refused(&self, handle: u64) -> bool {
        let (port, number) = parts(handle);
        self.refused.get(&port).is_some_and(|(first, last)| (*first..=*last).contains(&number))
    }

    /// A request that was started, or failed to.
    pub fn add(&mut self, handle: u64, place: u64, what: &'static str, started: Result<Token, Class>) {
        let place = (parts(handle).0, place);
        let prior = self.places.insert(place, handle).filter(|prior| self.all.contains_key(prior));
        let (token, ended) = match started {
            Ok(token) => (Some(token), None),
            Err(class) => (None, Some(Err(class))),
        };
        let (persistent, landed) = (None, None);
        let place = Some(place);
        self.all.insert(handle, Request { what, place, prior, persistent, token, ended, landed });
    }

    /// One that is over as it begins: with nobody.
    pub fn add_over(&mut self, handle: u64, place: u64, what: &'static str) {
        self.add(handle, place, what, Err(Class::OTHER));
        if let Some(request) = self.all.get_mut(&handle) {
            request.ended = Some(Ok(Status::NOBODY));
        }
    }

    /// One that is started later, perhaps several times.
    pub fn add_persistent(&mut self, handle: u64, what: &'static str, message: Result<Message, Class>) {
        let (place, prior, persistent) = (None, None, Some(message));
        let (token, ended, landed) = (None, None, None);
        self.all.insert(handle, Request { what, place, prior, persistent, token, ended, landed });
    }

    /// Whether the carrier has room for what a persistent one starts.
    pub fn has_room(&self, handle: u64, carrier: &dyn Carrier) -> bool {
        let persistent = self.all.get(&key(handle)).and_then(|request| request.persistent.as_ref());
        !matches!(persistent, Some(Ok(message)) if !carrier.has_room(&message.operation))
    }

    /// A persistent one was to be started, and was not: whoever waits for it is told.
    pub fn fail(&mut self, handle: u64, class: Class) {
        let idle = |request: &&mut Request| request.token.is_none() && request.ended.is_none();
        if let Some(request) = self.all.get_mut(&key(handle)).filter(idle) {
            request.ended = Some(Err(class));
        }
    }

    /// Starts a persistent one. One that is under way is not started again.
    pub fn start(&mut self, handle: u64, carrier: &mut dyn Carrier) -> Result<(), Class> {
        let request = self.all.get_mut(&key(handle)).ok_or(Class::REQUEST)?;
        if request.token.is_some() || request.ended.is_some() {
            return Err(Class::REQUEST);
        }
        let started = match request.persistent.as_ref().ok_or(Class::REQUEST)? {
            Ok(message) => message.start(carrier),
            // PROC_NULL.
            Err(Class::OTHER) => {
                request.ended = Some(Ok(Status::NOBODY));
                return Ok(());
            }
            Err(class) => Err(*class),
        };
        request.ended = started.err().map(Err);
        request.token = started.ok();
        started.map(drop)
    }

    /// How far it is, with those that were started in its place before. Nothing is forgotten by asking.
    pub fn look(&mut self, handle: u64, carrier: &mut dyn Carrier) -> Progress {
        let mut next = Some(key(handle));
        let idle = |request: &Request| request.token.is_none() && request.ended.is_none();
        if self.all.get(&key(handle)).is_some_and(idle) {
            return Progress::Idle;
        }
        let mut open = false;
        let mut first: Option<Status> = None;
        while let Some(request) = next.and_then(|handle| self.all.get_mut(&handle)) {
            request.step(carrier);
            open |= request.token.is_some();
            let status = match request.ended {
                Some(Ok(status)) => status,
                Some(Err(class)) => Status { error: Some(class), ..Status::EMPTY },
                None => Status::EMPTY,
            };
            match &mut first {
                None => first = Some(status),
                // The status is that of the one that was asked for; an error of another is not lost.
                Some(first) => first.error = first.error.or(status.error),
            }
            next = request.prior;
        }
        match first {
            None if self.was_refused(handle) => {
                Progress::Over(Status { error: Some(Class::NO_MEM), ..Status::EMPTY })
            }
            None => Progress::Unknown,
            Some(_) if open => Progress::Open,
            Some(status) => Progress::Over(status),
        }
    }

    /// What it has brought, and those before it.
    pub fn take_landed(&mut self, handle: u64, landed: &mut Vec<Landed>) {
        let mut next = Some(key(handle));
        while let Some(request) = next.and_then(|handle| self.all.get_mut(&handle)) {
            landed.extend(request.landed.take());
            next = request.prior;
        }
    }

    /// It was waited for, and so were those before it. Persistent ones are idle again.
    pub fn close(&mut self, handle: u64) {
        let mut next = Some(key(handle));
        while let Some(handle) = next {
            let Some(request) = self.all.get_mut(&handle) else { return };
            next = request.prior.take();
            if request.persistent.is_some() {
                request.ended = None;
            } else {
                self.remove(handle);
            }
        }
    }

    /// Takes one out. Its place is nobody's then, unless a later one has it.
    fn remove(&mut self, handle: u64) -> Option<Request> {
        let request = self.all.remove(&handle)?;
        if let Some(place) = request.place
            && self.places.get(&place) == Some(&handle)
        {
            self.places.remove(&place);
        }
        Some(request)
    }

    /// Nobody will wait for it: what is under way goes on.
    pub fn free(&mut self, handle: u64) -> Result<(), Class> {
        let request = self.remove(key(handle)).ok_or(Class::REQUEST)?;
        if request.token.is_some() {
            self.freed.push_back(request);
        } else {
            request.settle();
        }
        Ok(())
    }

    /// Goes on with some of those that nobody waits for, and with all of them within some rounds: a library takes its time for each.
    pub fn step_freed(&mut self, carrier: &mut dyn Carrier) {
        let looks = Self::LOOKS.max(self.freed.len().div_ceil(Self::ROUNDS)).min(self.freed.len());
        for _ in 0..looks {
            let Some(mut request) = self.freed.pop_front() else { break };
            request.step(carrier);
            match request.token {
                Some(_) => self.freed.push_back(request),
                None => request.settle(),
            }
        }
    }

    /// Those that are under way, given up: how many, and the first one by its number. What is over is forgotten, too, but not
    /// persistent ones that are idle.
    pub fn give_up(&mut self, carrier: &mut dyn Carrier) -> (usize, Option<(&'static str, u32)>) {
        let mut handles: Vec<u64> = self.all.keys().copied().collect();
        handles.sort_unstable();
        let (mut count, mut first) = (0, None);
        for mut request in self.freed.drain(..) {
            request.step(carrier);
            match request.token {
                Some(token) => carrier.forget(token),
                None => request.settle(),
            }
        }
        for handle in handles {
            let Some(request) = self.all.get_mut(&handle) else { continue };
            request.step(carrier);
            if let Some(token) = request.token.take() {
                carrier.forget(token);
                first = first.or(Some((request.what, parts(handle).0 as u32)));
                count += 1;
            }
        }
        for (_, request) in self.all.extract_if(|_, request| request.persistent.is_none()) {
            request.settle();
        }
        self.places.clear();
        self.refused.clear();
        (count, first)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ggas::device::sim::SimNetwork;
    use ggas::{Node, Processor};

    use super::*;
    use crate::carrier::own::Own;
    use crate::carrier::{Operation, Type};
    use crate::layout::GMPI_BYTE;
    use crate::memory::Span;

    #[test]
    fn the_same_address_in_another_block_is_another_place() {
        let network = SimNetwork::builder().nodes(1).build().expect("a network");
        let node = Node::new(network.device(0).expect("a node"));
        let mut own = Own::local(&[node]).expect("a carrier").remove(0);
        let memory = Arc::new(Processor::cpu().alloc(8).expect("memory"));
        own.attach(0, memory.clone()).expect("attached");
        let at = Span { index: 0, memory, offset: 0, len: 8, shape: None };
        let receive = Operation::Recv { at, of: Type(GMPI_BYTE), from: None, tag: None, comm: 0 };
        let token = own.start(&receive).expect("it begins");
        let mut requests = Requests::default();
        requests.add(handle(0, 0), 64, "receive", Ok(token));
        requests.add_over(handle(1, 0), 64, "send");
        assert_eq!(requests.look(handle(1, 0), &mut own), Progress::Over(Status::NOBODY));
        requests.close(handle(1, 0));
        assert_eq!(requests.look(handle(0, 0), &mut own), Progress::Open);
        requests.add_over(handle(0, 1), 64, "send");
        assert_eq!(requests.look(handle(0, 1), &mut own), Progress::Open, "in its own block");
    }

    #[test]
    fn places_are_forgotten_with_their_requests() {
        let mut requests = Requests::default();
        for number in 0..100 {
            let handle = handle(0, number);
            requests.add_over(handle, 64 * number, "send");
            match number % 2 {
                0 => requests.close(handle),
                _ => requests.free(handle).expect("there is one"),
            }
        }
        assert!(requests.places.is_empty(), "{} places", requests.places.len());
        // Of two in one place the earlier one takes nothing from the later one.
        requests.add_over(handle(0, 100), 64, "send");
        requests.add_over(handle(0, 101), 64, "send");
        requests.close(handle(0, 100));
        assert_eq!(requests.places.len(), 1);
        requests.close(handle(0, 101));
        assert!(requests.all.is_empty() && requests.places.is_empty());
    }
}

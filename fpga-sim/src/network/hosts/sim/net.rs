//! What carries things in a simulation: connections, and the wire. Both keep order and lose nothing while the way is open; what
//! is on a way that is cut waits for the cut to heal.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::os::fd::RawFd;
use std::rc::Rc;
use std::time::Duration;

use ggas_wire::{Event, Key, Taken, WireError};

use crate::network::hosts::events::Connection;
use crate::network::hosts::wire::{Piece, Wire};

/// A read of what a process granted.
#[derive(Clone, Debug)]
pub struct Read {
    pub by: usize,
    pub of: usize,
    pub grant: u64,
    pub piece: Piece,
    pub token: u64,
}

/// Messages on their way, and those that are there.
#[derive(Default)]
pub struct Messages {
    pub gone: Vec<(usize, usize, Vec<u8>)>,
    pub come: HashMap<usize, VecDeque<Vec<u8>>>,
    /// Of so many messages, one is not taken at once; 0: all are.
    pub later: u8,
    pub refused: bool,
    /// Memory that others may read: whose, and where.
    pub grants: HashMap<u64, (usize, u64, usize)>,
    pub last: u64,
    /// Reads that begin.
    pub begun: Vec<u64>,
    /// Reads that are not over, by number.
    pub reads: BTreeMap<u64, Read>,
    /// What became of reads: by whom, token.
    pub ended: Vec<(usize, u64, bool)>,
    pub random: fastrand::Rng,
}

/// A process's end of the wire.
pub struct SimWire {
    pub me: usize,
    pub messages: Rc<RefCell<Messages>>,
}

impl Messages {
    /// Whether the wire has no room now.
    fn refuses(&mut self) -> bool {
        let refuses = self.later > 0 && self.random.u8(..self.later) == 0;
        self.refused |= refuses;
        refuses
    }

    /// A read gets no bytes.
    pub fn fail(&mut self, number: u64) {
        if let Some(read) = self.reads.remove(&number) {
            self.ended.push((read.by, read.token, false));
        }
    }
}

impl Wire for SimWire {
    type Peer = usize;
    type Grant = u64;

    fn insert(&mut self, address: &[u8]) -> Result<usize, WireError> {
        Ok(usize::from_le_bytes(address.try_into().expect("an address of the simulation")))
    }

    fn remove(&mut self, peer: usize) -> Result<(), WireError> {
        let messages = &mut *self.messages.borrow_mut();
        let of_peer =
            |(number, read): (&u64, &Read)| ((read.by, read.of) == (self.me, peer)).then_some(*number);
        let numbers: Vec<u64> = messages.reads.iter().filter_map(of_peer).collect();
        numbers.into_iter().for_each(|number| messages.fail(number));
        Ok(())
    }

    unsafe fn grant(&mut self, address: u64, len: usize) -> Result<(u64, Key), WireError> {
        let messages = &mut *self.messages.borrow_mut();
        messages.last += 1;
        messages.grants.insert(messages.last, (self.me, address, len));
        let key = [(len as u64).to_le_bytes(), messages.last.to_le_bytes()].concat();
        Ok((messages.last, Key::try_from(&key[..])?))
    }

    fn revoke(&mut self, grant: u64) {
        let gone = self.messages.borrow_mut().grants.remove(&grant);
        assert_eq!(gone.map(|gone| gone.0), Some(self.me), "taken back once, by who granted it");
    }

    fn most(&self) -> usize {
        10_000
    }

    unsafe fn fetch(&mut self, of: usize, key: &Key, piece: Piece, token: u64) -> Result<Taken, WireError> {
        let messages = &mut *self.messages.borrow_mut();
        if messages.refuses() {
            return Ok(Taken::Later);
        }
        let grant = key.bytes()[8..].try_into().map(u64::from_le_bytes).expect("a key of the simulation");
        messages.last += 1;
        messages.begun.push(messages.last);
        messages.reads.insert(messages.last, Read { by: self.me, of, grant, piece, token });
        Ok(Taken::Yes)
    }

    fn send(&mut self, peer: usize, bytes: &[u8]) -> Result<Taken, WireError> {
        let messages = &mut *self.messages.borrow_mut();
        if messages.refuses() {
            return Ok(Taken::Later);
        }
        messages.gone.push((self.me, peer, bytes.to_vec()));
        Ok(Taken::Yes)
    }

    fn poll(&mut self, mut each: impl FnMut(Event<'_>)) -> Result<usize, WireError> {
        let messages = &mut *self.messages.borrow_mut();
        let come = messages.come.remove(&self.me).unwrap_or_default();
        let ours = |ended: &mut (usize, u64, bool)| ended.0 == self.me;
        let ended: Vec<_> = messages.ended.extract_if(.., ours).collect();
        let first = messages.random.bool();
        let mut tell = |now: bool| {
            for (_, token, done) in ended.iter().filter(|_| now) {
                match done {
                    true => each(Event::Done { token: *token }),
                    false => each(Event::Failed { token: *token, why: "its process is gone".to_owned() }),
                }
            }
            come.iter().filter(|_| !now).for_each(|bytes| each(Event::Message(bytes)));
        };
        tell(first);
        tell(!first);
        Ok(come.len() + ended.len())
    }

    fn arm(&mut self) -> Option<(RawFd, bool)> {
        None
    }
}

/// What travels on a connection.
#[derive(Debug)]
pub enum Item {
    Accept,
    Frame(Vec<u8>),
    Fin,
}

/// A connection between two processes: the first one called.
pub struct Tcp {
    pub ends: [usize; 2],
    pub names: [Option<Connection>; 2],
    /// To each end.
    pub on_way: [VecDeque<Item>; 2],
}

/// Which hosts cannot reach each other, and until when.
#[derive(Default)]
pub struct Cuts(BTreeMap<(u16, u16), Duration>);

impl Cuts {
    fn key(a: u16, b: u16) -> (u16, u16) {
        (a.min(b), a.max(b))
    }

    pub fn cut(&mut self, a: u16, b: u16, until: Duration) {
        let end = self.0.entry(Cuts::key(a, b)).or_default();
        *end = (*end).max(until);
    }

    /// When the way is open again; `None`: it is open.
    pub fn heals(&self, a: u16, b: u16, now: Duration) -> Option<Duration> {
        self.0.get(&Cuts::key(a, b)).copied().filter(|until| *until > now)
    }

    /// Whether the way was cut at some time since then.
    pub fn was_cut(&self, a: u16, b: u16, since: Duration) -> bool {
        self.0.get(&Cuts::key(a, b)).is_some_and(|until| *until > since)
    }

    pub fn heal_all(&mut self, now: Duration) {
        self.0.values_mut().for_each(|until| *until = (*until).min(now));
    }
}

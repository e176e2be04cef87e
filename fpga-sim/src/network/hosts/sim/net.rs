//! What carries things in a simulation: connections, and the wire. Both keep order and lose nothing while the way is open; what
//! is on a way that is cut waits for the cut to heal.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::os::fd::RawFd;
use std::rc::Rc;
use std::time::Duration;

use ggas_wire::{Taken, WireError};

use crate::network::hosts::events::Connection;
use crate::network::hosts::wire::Wire;

/// Messages on their way, and those that are there.
#[derive(Default)]
pub struct Messages {
    pub gone: Vec<(usize, usize, Vec<u8>)>,
    pub come: HashMap<usize, VecDeque<Vec<u8>>>,
    /// Of so many messages, one is not taken at once; 0: all are.
    pub later: u8,
    pub refused: bool,
    pub random: fastrand::Rng,
}

/// A process's end of the wire.
pub struct SimWire {
    pub me: usize,
    pub messages: Rc<RefCell<Messages>>,
}

impl Wire for SimWire {
    type Peer = usize;

    fn insert(&mut self, address: &[u8]) -> Result<usize, WireError> {
        Ok(usize::from_le_bytes(address.try_into().expect("an address of the simulation")))
    }

    fn remove(&mut self, _peer: usize) -> Result<(), WireError> {
        Ok(())
    }

    fn send(&mut self, peer: usize, bytes: &[u8]) -> Result<Taken, WireError> {
        let messages = &mut *self.messages.borrow_mut();
        if messages.later > 0 && messages.random.u8(..messages.later) == 0 {
            messages.refused = true;
            return Ok(Taken::Later);
        }
        messages.gone.push((self.me, peer, bytes.to_vec()));
        Ok(Taken::Yes)
    }

    fn poll(&mut self, mut message: impl FnMut(&[u8])) -> Result<usize, WireError> {
        let come = self.messages.borrow_mut().come.remove(&self.me).unwrap_or_default();
        come.iter().for_each(|bytes| message(bytes));
        Ok(come.len())
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

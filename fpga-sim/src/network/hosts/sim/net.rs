//! What carries things in a simulation: connections, and the wire. Both keep order and lose nothing while the way is open; what
//! is on a way that is cut waits for the cut to heal.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::os::fd::RawFd;
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use ggas_wire::{Event, Key, Led, Place, Taken, WireError};

use crate::network::hosts::events::Connection;
use crate::network::hosts::wire::{Piece, Wire, Write};

/// A read of what a process granted.
#[derive(Clone, Debug)]
pub struct Read {
    pub by: usize,
    pub of: usize,
    pub grant: u64,
    pub piece: Piece,
    pub token: u64,
}

/// Of these bytes is memory that was given back.
pub const REUSED: u8 = 255;

/// A write into a landing. Its source is read when it comes.
#[derive(Clone, Debug)]
pub struct Landed {
    pub grant: u64,
    pub at: u64,
    pub head: Vec<u8>,
    pub from: (u64, usize),
    /// What was read there, if that was before: its process is gone, or has waited long enough.
    pub bytes: Option<Vec<u8>>,
    pub immediate: u32,
    pub token: u64,
}

/// What goes from one process to another, in order.
#[derive(Clone, Debug)]
pub enum Goes {
    Message(Vec<u8>),
    Write(Landed),
}

impl Landed {
    /// Its source is read now at the latest.
    pub fn read(&mut self) -> &[u8] {
        let (from, len) = self.from;
        self.bytes.get_or_insert_with(|| {
            // SAFETY: a source, which lives as long as the world.
            let bytes = unsafe { std::slice::from_raw_parts(from as *const u8, len) }.to_vec();
            assert!(!bytes.contains(&REUSED), "memory is read that was given back: write {}", self.token);
            bytes
        })
    }
}

/// What came.
#[derive(Debug)]
pub enum Came {
    Message(Vec<u8>),
    Written(u32),
    Led(Coming),
}

/// What goes to a landing once its owner has not taken it before.
#[derive(Debug)]
pub struct Coming {
    grant: u64,
    immediate: u32,
    head: Vec<u8>,
    bytes: Vec<u8>,
    to: u64,
}

impl Coming {
    fn land(&self) {
        let bytes = [&self.head[..], &self.bytes].concat();
        // SAFETY: inside of a landing that is open.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.to as *mut u8, bytes.len()) };
    }
}

/// Messages on their way, and those that are there.
#[derive(Default)]
pub struct Messages {
    pub gone: Vec<(usize, usize, Goes)>,
    pub come: HashMap<usize, VecDeque<Came>>,
    /// Between processes, in order.
    pub on_wire: HashMap<(usize, usize), VecDeque<Goes>>,
    /// Memory that others may write: whose, and where.
    pub open: HashMap<u64, (usize, u64, usize)>,
    /// The same, of all times.
    pub opened: Vec<(usize, u64)>,
    /// Ways from processes to others that they removed.
    pub removed: Vec<(usize, usize)>,
    /// Of so many writes, one finds that the way has broken; 0: none does.
    pub breaks: u8,
    /// Ways that broke, until their process has been told of it: as behind a connection that is closed, nothing comes that is sent there.
    pub broken: HashSet<(usize, usize)>,
    /// Of so many messages, one is not taken at once; 0: all are.
    pub later: u8,
    pub refused: bool,
    /// The wire says that it reaches nobody; and from then on not whom it did not reach, until that one is removed.
    pub unreached: bool,
    pub failed: HashSet<(usize, usize)>,
    /// Ways of which it is to be told that they have failed; that it is.
    pub fails: HashSet<(usize, usize)>,
    pub told_failed: HashSet<(usize, usize)>,
    /// Processes that are stopped: the wire has no room for what is to go there.
    pub full: HashSet<usize>,
    /// The wire takes what it is given, and none of it comes, as behind a firewall.
    pub swallows: bool,
    /// Memory that others may read: whose, and where.
    pub grants: HashMap<u64, (usize, u64, usize)>,
    /// The same, which was taken back while the wire was still reading there.
    pub still_read: HashMap<u64, (usize, u64, usize)>,
    /// The wire never ends what it sends of memory that was taken back.
    pub reads_on: bool,
    pub last: u64,
    /// Reads that begin.
    pub begun: Vec<u64>,
    /// Reads that are not over, by number.
    pub reads: BTreeMap<u64, Read>,
    /// What became of reads: by whom, token.
    pub ended: Vec<(usize, u64, bool)>,
    pub random: fastrand::Rng,
    /// Messages that the wire took so far, and how many these were whenever a process moved the wire on.
    pub taken: usize,
    pub taken_when_moved: Vec<(usize, usize)>,
}

/// The messages of all. On one thread, though cards ask for what could go to others.
#[derive(Clone, Default)]
pub struct Post(Arc<RwLock<Messages>>);

impl Post {
    pub fn new(messages: Messages) -> Post {
        Post(Arc::new(RwLock::new(messages)))
    }

    pub fn borrow(&self) -> RwLockReadGuard<'_, Messages> {
        self.0.try_read().expect("nobody changes them now")
    }

    pub fn borrow_mut(&self) -> RwLockWriteGuard<'_, Messages> {
        self.0.try_write().expect("nobody has them now")
    }
}

/// A process's end of the wire.
pub struct SimWire {
    pub me: usize,
    pub messages: Post,
    /// Where long messages are written before they are sent, if there is such a place.
    pub room: Vec<u8>,
}

impl Messages {
    /// Whether the wire has no room now.
    fn refuses(&mut self) -> bool {
        let refuses = self.later > 0 && self.random.u8(..self.later) == 0;
        self.refused |= refuses;
        refuses
    }

    /// Sources of writes on these ways are read now.
    pub fn read_sources(&mut self, ways: impl Fn(usize, usize) -> bool) {
        for (from, to, goes) in &mut self.gone {
            if let (Goes::Write(landed), true) = (goes, ways(*from, *to)) {
                landed.read();
            }
        }
        for ((from, to), on_way) in &mut self.on_wire {
            if ways(*from, *to) {
                for goes in on_way {
                    if let Goes::Write(landed) = goes {
                        landed.read();
                    }
                }
            }
        }
    }

    /// Whether the wire has something to tell a process.
    pub fn has_come(&self, who: usize) -> bool {
        self.come.get(&who).is_some_and(|come| !come.is_empty())
            || self.ended.iter().any(|(by, ..)| *by == who)
    }

    /// Whether a way breaks now.
    pub fn breaks(&mut self) -> bool {
        self.breaks > 0 && self.random.u8(..self.breaks) == 0
    }

    /// What a process gives the wire for another one.
    fn go(&mut self, from: usize, to: usize, goes: Goes) {
        if !self.broken.contains(&(from, to)) {
            self.gone.push((from, to, goes));
        } else if let Goes::Write(Landed { token, .. }) = goes {
            self.ended.push((from, token, false));
        }
    }

    /// A write does not come, nor does what is behind it on its way.
    pub fn lose(&mut self, way: (usize, usize), write: Landed) {
        self.broken.insert(way);
        let behind = self.on_wire.remove(&way).unwrap_or_default();
        for goes in [Goes::Write(write)].into_iter().chain(behind) {
            if let Goes::Write(Landed { token, .. }) = goes {
                self.ended.push((way.0, token, false));
            }
        }
    }

    /// A write comes, where its landing is still open; who wrote hears of it.
    pub fn land(&mut self, (from, to): (usize, usize), mut landed: Landed) {
        let (at, head, token) = (landed.at as usize, landed.head.clone(), landed.token);
        let bytes = landed.read().to_vec();
        self.ended.push((from, token, true));
        let Some((of, address, len)) = self.open.get(&landed.grant).copied() else { return };
        let fits = at + head.len() + bytes.len() <= len;
        assert!(of == to && fits, "{from} writes beyond what {of} opened");
        let (grant, immediate) = (landed.grant, landed.immediate);
        let coming = Coming { grant, immediate, head, bytes, to: address + at as u64 };
        // Some wires write by themselves, others when the owner moves them on.
        let came = match self.random.bool() {
            true => {
                coming.land();
                Came::Written(immediate)
            }
            false => Came::Led(coming),
        };
        self.come.entry(to).or_default().push_back(came);
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

    fn message_max(&self) -> usize {
        self.room.len()
    }

    fn insert(&mut self, address: &[u8]) -> Result<usize, WireError> {
        Ok(usize::from_le_bytes(address.try_into().expect("an address of the simulation")))
    }

    fn remove(&mut self, peer: usize) -> Result<(), WireError> {
        let messages = &mut *self.messages.borrow_mut();
        let of_peer =
            |(number, read): (&u64, &Read)| ((read.by, read.of) == (self.me, peer)).then_some(*number);
        let numbers: Vec<u64> = messages.reads.iter().filter_map(of_peer).collect();
        numbers.into_iter().for_each(|number| messages.fail(number));
        messages.removed.push((self.me, peer));
        messages.failed.remove(&(self.me, peer));
        Ok(())
    }

    fn renew(&mut self, peer: usize, address: &[u8]) -> Result<usize, WireError> {
        self.messages.borrow_mut().failed.remove(&(self.me, peer));
        self.insert(address)
    }

    unsafe fn grant(&mut self, address: u64, len: usize, _: Place) -> Result<(u64, Key), WireError> {
        let messages = &mut *self.messages.borrow_mut();
        messages.last += 1;
        messages.grants.insert(messages.last, (self.me, address, len));
        let key = [(len as u64).to_le_bytes(), messages.last.to_le_bytes()].concat();
        Ok((messages.last, Key::try_from(&key[..])?))
    }

    fn revoke(&mut self, grant: u64) -> bool {
        let messages = &mut *self.messages.borrow_mut();
        let opened = messages.open.remove(&grant);
        let granted = messages.grants.remove(&grant).or_else(|| messages.still_read.remove(&grant));
        let gone = granted.or(opened).expect("taken back once");
        assert_eq!(gone.0, self.me, "by who granted it");
        if let Some((_, address, len)) = granted {
            // SAFETY: a source, which lives as long as the world.
            let bytes = unsafe { std::slice::from_raw_parts(address as *const u8, len) };
            assert!(!bytes.contains(&REUSED), "memory was given back that is still read");
            if messages.reads_on || messages.later > 0 && messages.random.bool() {
                messages.still_read.insert(grant, gone);
                return false;
            }
        }
        true
    }

    fn reaches_gpus(&self) -> bool {
        false
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
        if messages.unreached {
            messages.failed.insert((self.me, peer));
        }
        if messages.failed.contains(&(self.me, peer)) {
            return Err(WireError::Word { value: "nobody".to_owned() });
        }
        if messages.refuses() || messages.full.contains(&peer) {
            return Ok(Taken::Later);
        }
        messages.taken += 1;
        messages.go(self.me, peer, Goes::Message(bytes.to_vec()));
        Ok(Taken::Yes)
    }

    fn room(&mut self) -> Option<&mut [u8]> {
        let messages = &mut *self.messages.borrow_mut();
        let none = messages.later > 0 && messages.random.bool();
        self.room.fill(0xee); // what was sent before is nobody's any more
        Some(&mut self.room[..]).filter(|_| !none)
    }

    fn send_room(&mut self, peer: usize, len: usize) -> Result<Taken, WireError> {
        let bytes = self.room[..len].to_vec();
        self.send(peer, &bytes)
    }

    fn writes(&self) -> bool {
        true
    }

    unsafe fn open(&mut self, address: u64, len: usize) -> Result<(u64, Key), WireError> {
        let messages = &mut *self.messages.borrow_mut();
        messages.last += 1;
        messages.open.insert(messages.last, (self.me, address, len));
        messages.opened.push((self.me, address));
        let key = [(len as u64).to_le_bytes(), messages.last.to_le_bytes()].concat();
        Ok((messages.last, Key::try_from(&key[..])?))
    }

    unsafe fn write(&mut self, peer: usize, write: &Write<'_>) -> Result<Taken, WireError> {
        let messages = &mut *self.messages.borrow_mut();
        if messages.refuses() {
            return Ok(Taken::Later);
        }
        let Write { key, at, head, from, len, immediate, token } = *write;
        let grant = key.bytes()[8..].try_into().map(u64::from_le_bytes).expect("a key of the simulation");
        let (head, from) = (head.to_vec(), (from, len));
        let landed = Landed { grant, at, head, from, bytes: None, immediate, token };
        messages.go(self.me, peer, Goes::Write(landed));
        Ok(Taken::Yes)
    }

    fn has_failed(&mut self, peer: usize) -> bool {
        self.messages.borrow_mut().told_failed.remove(&(self.me, peer))
    }

    fn poll(&mut self, mut each: impl FnMut(Event<'_>)) -> Result<usize, WireError> {
        let messages = &mut *self.messages.borrow_mut();
        for way in messages.fails.extract_if(|(from, _)| *from == self.me) {
            messages.told_failed.insert(way);
            each(Event::Unsent { peer: None, why: "of a test".to_owned() });
        }
        messages.taken_when_moved.push((self.me, messages.taken));
        let come = messages.come.remove(&self.me).unwrap_or_default();
        let ours = |ended: &mut (usize, u64, bool)| ended.0 == self.me;
        let ended: Vec<_> = messages.ended.extract_if(.., ours).collect();
        if ended.iter().any(|(_, _, done)| !done) {
            messages.broken.retain(|(from, _)| *from != self.me);
        }
        let (first, open) = (messages.random.bool(), &messages.open);
        let mut tell = |now: bool| {
            for (_, token, done) in ended.iter().filter(|_| now) {
                match done {
                    true => each(Event::Done { token: *token }),
                    false => each(Event::Failed { token: *token, why: "its process is gone".to_owned() }),
                }
            }
            for came in come.iter().filter(|_| !now) {
                match came {
                    Came::Message(bytes) => each(Event::Message(bytes)),
                    Came::Written(immediate) => each(Event::Written(*immediate)),
                    Came::Led(coming) if !open.contains_key(&coming.grant) => {}
                    Came::Led(coming) => {
                        let mut taken = false;
                        let Coming { immediate, head, bytes, .. } = coming;
                        each(Event::Led(Led::new(*immediate, head, bytes, &mut taken)));
                        if !taken {
                            coming.land();
                            each(Event::Written(*immediate));
                        }
                    }
                }
            }
        };
        tell(first);
        tell(!first);
        Ok(come.len() + ended.len())
    }

    /// There is no descriptor: who sleeps is woken when something comes.
    fn arm(&mut self) -> Option<(RawFd, bool)> {
        Some((-1, !self.messages.borrow().has_come(self.me)))
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

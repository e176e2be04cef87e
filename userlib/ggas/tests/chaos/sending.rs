//! What a member sends: to a few others at a time, one burst to each until that is answered.

use std::sync::atomic::Ordering::SeqCst;

use ggas::device::Path;
use ggas::{Address, HostBuffer, Notification, Port, PostError, Region, Spec};

use crate::board::{Board, State};
use crate::burst::{Burst, NUMBERS, SOURCE, What};
use crate::receiving::Note;

/// Others that a member sends to at a time.
pub const LANES: usize = 5;

/// Classes of notification puts: may I send, you may, an item of a burst, all of it is here, and is anyone there.
pub const ASK: u8 = 1;
pub const WELCOME: u8 = 2;
pub const ITEM: u8 = 3;
pub const THANKS: u8 = 4;
pub const PROBE: u8 = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    /// For nothing: nothing is sent.
    Idle,
    Welcome,
    Thanks(u32),
    /// For the requester's notifications only.
    Confirmed,
}

/// The way to one other.
pub struct Lane {
    to: u32,
    remote: Address,
    waits: Waits,
    /// Notifications that the requester owes.
    owed: u32,
    source: Option<Region>,
}

pub struct Sender {
    board: &'static Board,
    me: u32,
    pub lanes: [Lane; LANES],
    /// Who has welcomed this member.
    met: Vec<u32>,
    next: u32,
}

impl Sender {
    pub fn new(board: &'static Board, me: u32) -> Sender {
        let (remote, waits) = (Address::new(0, 0), Waits::Idle);
        let lanes = [(); LANES].map(|()| Lane { to: me, remote, waits, owed: 0, source: None });
        Sender { board, me, lanes, met: Vec::new(), next: 0 }
    }

    pub fn is_idle(&self) -> bool {
        self.lanes.iter().all(|lane| lane.waits == Waits::Idle)
    }

    /// Whom it has sent to.
    pub fn met(&self) -> &[u32] {
        &self.met
    }

    /// What it does, for who looks at one that hangs.
    pub fn state(&self) -> String {
        let busy = self.lanes.iter().filter(|lane| lane.waits != Waits::Idle);
        let said = busy.map(|lane| {
            let (to, state) = (lane.to, self.board.state(lane.to));
            format!("to {to} ({state:?}) {:?}, {} owed", lane.waits, lane.owed)
        });
        said.collect::<Vec<_>>().join("; ")
    }

    /// Sends a burst to someone, or asks first whether it may. `false`: not now.
    pub fn begin(&mut self, port: &Port, to: u32, random: &mut fastrand::Rng) -> bool {
        let remote = self.board.address(to);
        let is_free = |lane: &Lane| lane.waits == Waits::Idle;
        if self.lanes.iter().any(|lane| !is_free(lane) && lane.remote == remote) {
            return false;
        }
        let Some(at) = self.lanes.iter().position(is_free) else { return false };
        if random.u8(0..4) == 0 {
            // The memory goes while its next user may be quick.
            self.lanes[at].source.take().map_or(Ok(()), Region::unregister).unwrap();
        }
        let lane = &mut self.lanes[at];
        (lane.to, lane.remote, lane.owed) = (to, remote, 0);
        lane.source.get_or_insert_with(|| {
            let buffer =
                if random.bool() { HostBuffer::zeroed(SOURCE) } else { HostBuffer::unshared(SOURCE) };
            port.register(buffer.unwrap()).unwrap()
        });
        if self.met.contains(&to) {
            self.send(port, at);
        } else {
            self.lanes[at].waits = Waits::Welcome;
            self.say(port, to, ASK, 0);
        }
        true
    }

    /// Says something to a member; one that is gone need not hear it.
    pub fn say(&self, port: &Port, to: u32, class: u8, number: u32) {
        if self.board.state(to) != State::Here {
            return;
        }
        let word = Note { from: self.me, to, number, index: 0 }.encode();
        let said = port.connect(self.board.address(to)).notification_put(class, word, Spec::COMPLETER);
        self.posted(to, said);
    }

    /// A post that fails says that the other one is gone, which is true.
    fn posted(&self, to: u32, posted: Result<(), PostError>) -> bool {
        match posted {
            Ok(()) => true,
            Err(error @ PostError::PeerLost(_)) => {
                assert_ne!(self.board.state(to), State::Here, "{} to {to}, which lives: {error}", self.me);
                false
            }
            Err(error) => panic!("{} to {to}: {error}", self.me),
        }
    }

    fn send(&mut self, port: &Port, at: usize) {
        let (to, number) = (self.lanes[at].to, self.next);
        self.next += 1;
        assert!(self.next < NUMBERS);
        let burst = Burst::of(self.board.seed.load(SeqCst), self.me, to, number);
        let source = self.lanes[at].source.as_ref().expect("it was made");
        for (index, item) in burst.items.iter().enumerate().filter(|(_, item)| item.what == What::Put) {
            source.write(item.source, &burst.bytes(index)).unwrap();
        }
        let sent = self.board.entry(self.me).begin(number, to);
        // The state is looked at after the time is noted: an end comes later.
        let posted = self.board.state(to) == State::Here && self.post(port, at, &burst, number);
        if port.outstanding() == 0 {
            sent.is_taken();
        }
        self.lanes[at].waits = if posted { Waits::Thanks(number) } else { Waits::Confirmed };
    }

    /// Posts all of a burst; `false`: its receiver is gone.
    fn post(&mut self, port: &Port, at: usize, burst: &Burst, number: u32) -> bool {
        let (to, area) = (self.lanes[at].to, self.board.entry(self.me).area.load(SeqCst) as usize);
        let connection = port.connect(self.lanes[at].remote);
        let first = self.board.entry(to).inbox.load(SeqCst) + (area * crate::burst::AREA) as u64;
        for (index, item) in burst.items.iter().enumerate() {
            let mut spec = if item.is_told { Spec::COMPLETER } else { Spec::NONE };
            if item.is_confirmed {
                spec |= Spec::REQUESTER;
            }
            let write = first + item.at as u64;
            let posted = match item.what {
                What::Note => {
                    let note = Note { from: self.me, to, number, index: index as u32 };
                    connection.notification_put(ITEM, note.encode(), spec)
                }
                What::Immediate => {
                    let mut word = [0; 8];
                    word[..item.len].copy_from_slice(&burst.bytes(index));
                    connection.immediate_put(u64::from_le_bytes(word), item.len as u8, write, spec)
                }
                What::Put => {
                    let source = self.lanes[at].source.as_ref().expect("it was made");
                    connection.put(source, item.source, item.len, write, spec)
                }
            };
            if !self.posted(to, posted) {
                return false;
            }
            self.lanes[at].owed += u32::from(item.is_confirmed);
        }
        true
    }

    /// A member lets this one send to it.
    pub fn welcomed(&mut self, port: &Port, by: u32) {
        let asked = |lane: &Lane| lane.to == by && lane.waits == Waits::Welcome;
        let Some(at) = self.lanes.iter().position(asked) else { return self.is_late(by, "welcomes") };
        self.met.push(by);
        self.send(port, at);
    }

    /// A burst has arrived.
    pub fn thanked(&mut self, by: u32, number: u32) {
        let sent = |lane: &&mut Lane| lane.to == by && lane.waits == Waits::Thanks(number);
        match self.lanes.iter_mut().find(sent) {
            Some(lane) => lane.waits = Waits::Confirmed,
            None => self.is_late(by, "thanks"),
        }
    }

    /// An answer that nobody waits for any more: its sender is gone meanwhile.
    fn is_late(&self, by: u32, says: &str) {
        assert_ne!(self.board.state(by), State::Here, "{by} {says}, and {} waits for no such thing", self.me);
    }

    /// The requester is done with a put.
    pub fn confirmed(&mut self, told: &Notification) {
        let is_it = |lane: &&mut Lane| lane.owed > 0 && lane.remote == told.remote();
        let lane = self.lanes.iter_mut().find(is_it).unwrap_or_else(|| panic!("nobody asked for {told}"));
        let is_here = self.board.state(lane.to) == State::Here;
        assert!(told.error().is_empty() || !is_here, "an error of a put to one that lives: {told}");
        lane.owed -= 1;
    }

    /// Ends what is over; what was sent to one that is gone needs no answer, but the source is to be free.
    pub fn settle(&mut self) {
        for lane in &mut self.lanes {
            let is_gone = self.board.state(lane.to) != State::Here;
            let is_answered = lane.waits == Waits::Confirmed || is_gone;
            if lane.waits != Waits::Idle && is_answered && lane.owed == 0 {
                lane.waits = Waits::Idle;
            }
        }
    }

    pub fn unregister(self) {
        self.lanes.into_iter().filter_map(|lane| lane.source).for_each(|source| source.unregister().unwrap());
    }
}

/// How a member posts, which is all the same to the others.
pub fn path(random: &mut fastrand::Rng) -> Path {
    if random.bool() { Path::Card } else { Path::Slots }
}

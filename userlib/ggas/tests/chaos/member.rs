//! A member: serves its port, sends to random others, gets from them, and looks what becomes of those that are gone.

use std::collections::HashSet;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use ggas::{
    Access, Address, Command, DeviceKind, HostBuffer, Kind, LockedMemory, Match, Network, Notification, Port,
    PortConfig, PostError, Progress, Region, Spec, WaitError,
};

use crate::SOON;
use crate::board::{Board, State, Tally, now};
use crate::burst::{FILL, LIBRARY, explain, library};
use crate::receiving::{Inbox, Note};
use crate::sending::{ASK, ITEM, PROBE, Sender, THANKS, WELCOME, path};

/// Room for what all others send at a time, and more: notifications are never dropped for want of it.
const QUEUE: usize = 64 << 10;
/// Bytes around those that are got, which stay as they are.
const MARGIN: usize = 64;
/// Most bytes of a get.
const GET: usize = 100 << 10;

pub struct Member {
    board: &'static Board,
    me: u32,
    port: Port,
    inbox: Inbox,
    library: Region,
    landing: Region,
    sender: Sender,
    random: fastrand::Rng,
    /// Addresses at which gets ended without an answer, which may come late.
    unanswered: HashSet<Address>,
    epoch: u64,
    /// Whom it is to send to in this epoch.
    todo: Vec<u32>,
}

/// The life of a member.
pub fn live(board: &'static Board, me: u32) {
    let mut random = fastrand::Rng::with_seed(board.seed.load(SeqCst) ^ u64::from(me) << 32);
    let progress = if random.u8(0..4) == 0 { Progress::Threads(1) } else { Progress::Inline };
    let network = Network::builder()
        .device(DeviceKind::Sim)
        .progress(progress)
        .locked_memory(LockedMemory::Unlimited)
        .release_timeout(SOON)
        .join()
        .unwrap();
    let mut member = Member::open(board, me, &network, random);
    board.entry(me).set_state(State::Here);
    while board.entry(me).asked_to_leave.load(SeqCst) == 0 {
        member.listen();
        member.act();
    }
    member.leave();
    drop(network);
    board.entry(me).set_state(State::Gone);
}

impl Member {
    fn open(board: &'static Board, me: u32, network: &Network, mut random: fastrand::Rng) -> Member {
        let entry = board.entry(me);
        let path = Some(path(&mut random));
        let config = PortConfig { queue_bytes: QUEUE, path, post_timeout: SOON, ..PortConfig::default() };
        entry.opening.store(now(), SeqCst);
        let port = network.node().open_port(config).unwrap();
        let opened = now();
        entry.set_address(port.address());
        entry.opened.store(opened, SeqCst);
        board.check_rest(me);
        let inbox = Inbox::new(board, me, &port);
        let library_of_all = HostBuffer::zeroed(LIBRARY).unwrap();
        library_of_all.write(0, &library(me, 0, LIBRARY));
        let library = port.register_with(library_of_all, Access::READ).unwrap();
        let landing = port.register(HostBuffer::zeroed(GET + 2 * MARGIN).unwrap()).unwrap();
        entry.inbox.store(inbox.nla(), SeqCst);
        entry.library.store(library.nla(0).unwrap(), SeqCst);
        let (sender, unanswered) = (Sender::new(board, me), HashSet::new());
        let (epoch, todo) = (0, Vec::new());
        Member { board, me, port, inbox, library, landing, sender, random, unanswered, epoch, todo }
    }

    /// Takes what came, and waits a moment where nothing did.
    fn listen(&mut self) {
        match self.port.wait(Duration::from_millis(1)) {
            Ok(first) => {
                self.hear(&first);
                while let Some(next) = self.port.poll() {
                    self.hear(&next);
                }
            }
            Err(WaitError::Timeout { .. }) => {}
            Err(error) => panic!("{}: {error}", self.me),
        }
        self.sender.settle();
    }

    fn hear(&mut self, told: &Notification) {
        let command = told.command().command();
        match (told.kind(), command) {
            (Some(Kind::Requester), _) => self.sender.confirmed(told),
            (Some(Kind::Completer), Some(Command::NotificationPut)) => {
                assert!(told.error().is_empty(), "{told}");
                self.heard(told);
            }
            (Some(Kind::Completer), Some(Command::BtPut | Command::ImmediatePut)) => self.inbox.landed(told),
            (Some(Kind::Completer), _) if self.unanswered.contains(&told.remote()) => {}
            _ => panic!("{} asked for nothing like {told}", self.me),
        }
    }

    fn heard(&mut self, told: &Notification) {
        let note @ Note { from, to, number, .. } = Note::decode(told.word0);
        assert_eq!(told.remote(), self.board.address(from), "{note:?} comes from another");
        match told.class() {
            ITEM => {
                if let Some(number) = self.inbox.noted(note) {
                    self.sender.say(&self.port, from, THANKS, number);
                }
            }
            // What brings no bytes may be late for one that had this VPID before.
            _ if to != self.me => {}
            ASK => {
                self.inbox.welcome(from);
                self.sender.say(&self.port, from, WELCOME, 0);
            }
            WELCOME => self.sender.welcomed(&self.port, from),
            THANKS => self.sender.thanked(from, number),
            PROBE => {}
            class => panic!("{note:?} of class {class}"),
        }
    }

    fn act(&mut self) {
        self.see_to_epoch();
        match self.random.u8(0..32) {
            0..4 => self.get(),
            4 => self.look_after_the_dead(),
            5..30 => {
                let here = self.board.here();
                if let Some(to) = self.random.choice(here) {
                    self.sender.begin(&self.port, to, &mut self.random);
                }
            }
            _ => {}
        }
    }

    /// Sends to everyone who is there when an epoch begins, and says when all of them have got it.
    fn see_to_epoch(&mut self) {
        let epoch = self.board.epoch.load(SeqCst);
        if epoch != self.epoch {
            (self.epoch, self.todo) = (epoch, self.board.here());
        }
        let (board, sender, port, random) = (self.board, &mut self.sender, &self.port, &mut self.random);
        self.todo.retain(|to| board.state(*to) == State::Here && !sender.begin(port, *to, random));
        if self.todo.is_empty() && self.sender.is_idle() && board.entry(self.me).epoch.load(SeqCst) != epoch {
            self.inbox.check();
            board.entry(self.me).epoch.store(epoch, SeqCst);
        }
    }

    /// Gets some bytes from someone's library: the card there answers, whatever its process does.
    fn get(&mut self) {
        let here = self.board.here();
        let Some(of) = self.random.choice(here) else { return };
        let remote = self.board.address(of);
        if self.unanswered.contains(&remote) {
            return;
        }
        let most = if self.random.u8(0..4) == 0 { GET } else { 1000 };
        let (len, at) = (self.random.usize(1..=most), MARGIN + self.random.usize(0..MARGIN));
        let len = len.min(GET - MARGIN);
        let offset = self.random.usize(0..=LIBRARY - len);
        self.landing.write(0, &[FILL; GET + 2 * MARGIN]).unwrap();
        let looked = now();
        if self.board.state(of) != State::Here {
            return;
        }
        let nla = self.board.entry(of).library.load(SeqCst) + offset as u64;
        let asked = self.port.connect(remote).get(&self.landing, at, len, nla, Spec::COMPLETER);
        let times = (looked, if self.port.outstanding() == 0 { now() } else { 0 });
        let failed = |error: &dyn std::fmt::Display| {
            assert_ne!(self.board.state(of), State::Here, "{} gets from {of}, which lives: {error}", self.me);
            self.board.entry(self.me).count(Tally::Errors);
        };
        if let Err(error) = asked {
            assert!(matches!(error, PostError::PeerLost(_)), "{error}");
            return failed(&error);
        }
        let wanted = Match::any().kind(Kind::Completer).gets().from(remote);
        match self.port.wait_match(&wanted, SOON) {
            Ok(told) if told.error().is_empty() => self.got(of, (offset, len, at), times),
            Ok(told) => failed(&told),
            Err(error @ WaitError::PeerLost { .. }) => {
                failed(&error);
                self.unanswered.insert(remote);
            }
            // Where another has its VPID, nobody knows that the answer will not come.
            Err(error) => {
                assert!(self.board.successors(of).next().is_some(), "{} gets from {of}: {error}", self.me);
                self.unanswered.insert(remote);
            }
        }
    }

    /// What was got is what is there, and nothing beside it was written.
    fn got(&self, of: u32, (offset, len, at): (usize, usize, usize), (looked, taken): (u64, u64)) {
        let mut found = vec![0; GET + 2 * MARGIN];
        self.landing.read(0, &mut found).unwrap();
        let is_of = |of: u32| found[at..at + len] == library(of, offset, len);
        let is_late = |other: u32| is_of(other) && self.board.may_stray(looked, taken, other);
        assert!(
            is_of(of) || self.board.successors(of).any(is_late),
            "{} got {len} bytes at {offset} of {of}: {}",
            self.me,
            explain(&found[at..at + len])
        );
        let beside = found[..at].iter().chain(&found[at + len..]);
        assert!(beside.copied().all(|byte| byte == FILL), "{} was written beside {len} bytes", self.me);
        self.board.entry(self.me).count(Tally::Gets);
    }

    /// Whoever has had to do with one that is gone is told so, unless another has its VPID.
    fn look_after_the_dead(&mut self) {
        let gone = self.sender.met().iter().copied();
        let gone: Vec<u32> = gone.filter(|of| self.board.state(*of) == State::Gone).collect();
        let Some(of) = self.random.choice(gone) else { return };
        let connection = self.port.connect(self.board.address(of));
        let word = Note { from: self.me, to: of, number: 0, index: 0 }.encode();
        let began = Instant::now();
        while self.board.successors(of).next().is_none() {
            match connection.notification_put(PROBE, word, Spec::COMPLETER) {
                Ok(()) => {}
                Err(PostError::PeerLost(_)) => return self.board.entry(self.me).count(Tally::Errors),
                Err(error) => panic!("{} to {of}: {error}", self.me),
            }
            assert!(began.elapsed() < SOON, "{} is not told that {of} is gone", self.me);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Leaves in good order, once what it sent is answered.
    fn leave(mut self) {
        let began = Instant::now();
        while !self.sender.is_idle() {
            self.listen();
            assert!(began.elapsed() < SOON, "{} cannot leave: {}", self.me, self.sender.state());
        }
        self.inbox.check();
        self.board.entry(self.me).set_state(State::Leaves);
        self.inbox.unregister();
        self.sender.unregister();
        self.library.unregister().unwrap();
        self.landing.unregister().unwrap();
        self.port.close().unwrap();
    }
}

//! Random commands between four nodes against a model of what they must do: every byte and every notification.

use std::collections::VecDeque;

use ggas::{
    Cluster, Command, Connection, Kind, Lock, Notification, Path, Port, PortConfig, PostError, Progress, Spec,
};
use ggas_tests::{Area, Trouble, until};

const NODES: usize = 4;
/// Bytes of each inbox and outbox.
const BYTES: usize = 1 << 20;

/// What a notification must say; `None`: left open by the specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Expected {
    kind: Kind,
    command: Command,
    word0: Option<u64>,
    /// Bits [22:0] of word 1.
    field: Option<u32>,
}

/// One node: its port, what others put to it, and what they get from it.
struct Member {
    port: Port,
    /// One for each origin, so that order among origins does not matter.
    inbox: Vec<Area>,
    /// Never changes: what it puts, and what others get.
    outbox: Area,
    /// One for each target that it gets from.
    fetched: Vec<Area>,
    connections: Vec<Connection>,
    /// What must come, in order, by the other node and the unit that tells.
    expected: Vec<[VecDeque<Expected>; 4]>,
    /// Values of its locks, one for each origin.
    locks: Vec<i32>,
}

struct Soak {
    members: Vec<Member>,
    random: fastrand::Rng,
    largest: usize,
    _cluster: Cluster,
}

/// Notifications of one stream keep their order; the completer has one for what comes and one for answers.
fn stream(kind: Kind, command: Command) -> usize {
    match kind {
        Kind::Requester => 0,
        Kind::Responder => 1,
        Kind::Completer => 2 + usize::from(command.is_response()),
    }
}

/// Start of the last fragment of a transfer, and the size field for it.
fn last_fragment(start: u64, len: usize) -> (Option<u64>, Option<u32>) {
    let offset = (len - 1) / 496 * 496;
    (Some(start + offset as u64), Some((len - offset - 1) as u32))
}

impl Soak {
    fn new(config: PortConfig, progress: Progress, trouble: Trouble, largest: usize, seed: u64) -> Soak {
        let cluster =
            Cluster::builder().nodes(NODES).progress(progress).faults(trouble.faults()).build().unwrap();
        let open = |node| cluster.node(node).unwrap().open_port(config).unwrap();
        let ports: Vec<Port> = (0..NODES).map(open).collect();
        let addresses: Vec<_> = ports.iter().map(|port| port.address()).collect();
        let areas =
            |port: &Port, first: u64| (0..NODES as u64).map(|i| Area::new(port, BYTES, first + i)).collect();
        let member = |(i, port): (usize, Port)| {
            let first = 100 * i as u64 + seed;
            Member {
                inbox: areas(&port, first),
                outbox: Area::new(&port, BYTES, first + 50),
                fetched: areas(&port, first + 60),
                connections: addresses.iter().map(|to| port.connect(*to)).collect(),
                expected: (0..NODES).map(|_| Default::default()).collect(),
                locks: vec![0; NODES],
                port,
            }
        };
        let members = ports.into_iter().enumerate().map(member).collect();
        Soak { members, random: fastrand::Rng::with_seed(seed), largest, _cluster: cluster }
    }

    /// A length: every order of magnitude is as likely as the others.
    fn length(&mut self) -> usize {
        let bits = self.random.u32(0..=self.largest.ilog2());
        self.random.usize(1 << bits..=(2 << bits) - 1).min(self.largest)
    }

    fn expect(
        &mut self,
        at: usize,
        other: usize,
        kind: Kind,
        command: Command,
        said: (Option<u64>, Option<u32>),
    ) {
        let (word0, field) = said;
        self.members[at].expected[other][stream(kind, command)].push_back(Expected {
            kind,
            command,
            word0,
            field,
        });
    }

    /// One random command of one random node to another, or to itself.
    fn step(&mut self) {
        let (from, to) = (self.random.usize(..NODES), self.random.usize(..NODES));
        let spec = Spec::from_bits_truncate(self.random.u8(..8));
        match self.random.u8(..10) {
            0..4 => self.put(from, to, spec),
            4..6 => self.get(from, to, spec),
            6..8 => self.immediate(from, to, spec),
            8 => self.notification(from, to, spec),
            _ => self.lock(from, to, spec),
        }
    }

    fn put(&mut self, from: usize, to: usize, spec: Spec) {
        let len = self.length();
        let (read, write) = (self.random.usize(..=BYTES - len), self.random.usize(..=BYTES - len));
        let (origin, target) = (&self.members[from], &self.members[to]);
        let nla = target.inbox[from].nla(write);
        let data = origin.outbox.expected(read, len);
        self.post(from, |m| m.connections[to].try_put(&m.outbox.region, read, len, nla, spec));
        self.members[to].inbox[from].expect(write, &data);
        if spec.contains(Spec::REQUESTER) {
            let field = last_fragment(0, len).1;
            self.expect(from, to, Kind::Requester, Command::BtPut, (None, field));
        }
        if spec.contains(Spec::COMPLETER) {
            self.expect(to, from, Kind::Completer, Command::BtPut, last_fragment(nla, len));
        }
    }

    fn get(&mut self, from: usize, to: usize, spec: Spec) {
        let len = self.length();
        let (read, write) = (self.random.usize(..=BYTES - len), self.random.usize(..=BYTES - len));
        let (origin, target) = (&self.members[from], &self.members[to]);
        let nla = target.outbox.nla(read);
        let here = origin.fetched[to].nla(write);
        let data = target.outbox.expected(read, len);
        self.post(from, |m| m.connections[to].try_get(&m.fetched[to].region, write, len, nla, spec));
        self.members[from].fetched[to].expect(write, &data);
        if spec.contains(Spec::REQUESTER) {
            self.expect(from, to, Kind::Requester, Command::BtGet, (None, None));
        }
        if spec.contains(Spec::RESPONDER) {
            self.expect(to, from, Kind::Responder, Command::BtGet, last_fragment(nla, len));
        }
        if spec.contains(Spec::COMPLETER) {
            self.expect(from, to, Kind::Completer, Command::GetBtRsp, last_fragment(here, len));
        }
    }

    fn immediate(&mut self, from: usize, to: usize, spec: Spec) {
        let count = self.random.u8(1..=8);
        let value = self.random.u64(..);
        let write = self.random.usize(..=BYTES - 8);
        let nla = self.members[to].inbox[from].nla(write);
        self.post(from, |m| m.connections[to].try_immediate_put(value, count, nla, spec));
        self.members[to].inbox[from].expect(write, &value.to_le_bytes()[..count.into()]);
        if spec.contains(Spec::REQUESTER) {
            self.expect(from, to, Kind::Requester, Command::ImmediatePut, (Some(value), None));
        }
        if spec.contains(Spec::COMPLETER) {
            self.expect(
                to,
                from,
                Kind::Completer,
                Command::ImmediatePut,
                (Some(nla), Some(u32::from(count) - 1)),
            );
        }
    }

    fn notification(&mut self, from: usize, to: usize, spec: Spec) {
        let (class, payload) = (self.random.u8(..), self.random.u64(..));
        self.post(from, |m| m.connections[to].try_notification_put(class, payload, spec));
        let said = (Some(payload), Some(u32::from(class)));
        if spec.contains(Spec::REQUESTER) {
            self.expect(from, to, Kind::Requester, Command::NotificationPut, said);
        }
        if spec.contains(Spec::COMPLETER) {
            self.expect(to, from, Kind::Completer, Command::NotificationPut, said);
        }
    }

    /// Each origin has a lock of its own at each target.
    fn lock(&mut self, from: usize, to: usize, spec: Spec) {
        let number = from as u32;
        let (compare, add) = (self.random.i32(-100..100), self.random.i32(-20..20));
        self.post(from, |m| m.connections[to].try_lock(Lock { number, compare, add }, spec));
        let value = &mut self.members[to].locks[from];
        let taken = *value <= compare;
        if taken {
            *value += add;
        }
        let word = |result: bool, value: i32| {
            Some(u64::from(number) | u64::from(result) << 24 | u64::from(value as u32) << 32)
        };
        let (asked, answer) = (word(false, compare), word(taken, *value));
        if spec.contains(Spec::REQUESTER) {
            self.expect(from, to, Kind::Requester, Command::LockReq, (asked, None));
        }
        if spec.contains(Spec::RESPONDER) {
            self.expect(to, from, Kind::Responder, Command::LockReq, (answer, None));
        }
        if spec.contains(Spec::COMPLETER) {
            self.expect(from, to, Kind::Completer, Command::LockRsp, (answer, None));
        }
    }

    /// Posts, and lets all nodes read their notifications while there is no room.
    fn post(&mut self, from: usize, post: impl Fn(&Member) -> Result<(), PostError>) {
        // What was expected before comes while waiting; this command's own notifications come after.
        let mut early = Vec::new();
        until(
            || format!("room to post at node {from}"),
            || match post(&self.members[from]) {
                Ok(()) => Some(()),
                Err(PostError::WouldBlock) => {
                    self.collect(&mut early);
                    None
                }
                Err(error) => panic!("{error}"),
            },
        );
        early.into_iter().for_each(|(at, n)| self.check(at, n));
    }

    fn collect(&self, into: &mut Vec<(usize, Notification)>) {
        for (i, member) in self.members.iter().enumerate() {
            into.extend(member.port.notifications().map(|n| (i, n)));
        }
    }

    fn drain(&mut self) {
        let mut all = Vec::new();
        self.collect(&mut all);
        all.into_iter().for_each(|(at, n)| self.check(at, n));
    }

    fn check(&mut self, at: usize, n: Notification) {
        let other = usize::from(n.remote().node);
        let (Some(kind), Some(command)) = (n.kind(), n.command().command()) else { panic!("{n:x?}") };
        assert!(n.error().is_empty(), "node {at}: {n:x?}");
        let next = self.members[at].expected[other][stream(kind, command)].pop_front();
        let Some(expected) = next else { panic!("node {at} was not to get {n:x?}") };
        let found = Expected {
            kind,
            command,
            word0: expected.word0.map(|_| n.word0),
            field: expected.field.map(|_| (n.word1 & 0x7f_ffff) as u32),
        };
        assert_eq!(found, expected, "node {at}, about node {other}");
    }

    fn missing(&self) -> usize {
        self.members.iter().flat_map(|m| m.expected.iter().flatten()).map(VecDeque::len).sum()
    }

    fn finish(mut self, what: &str) {
        let mut left = self.missing();
        until(
            || format!("the last notifications of {what}"),
            || {
                self.drain();
                left = self.missing();
                (left == 0).then_some(())
            },
        );
        // Commands without notifications may still be under way: a fence on every way.
        for from in 0..NODES {
            for to in 0..NODES {
                let (here, there) = (self.members[from].fetched[to].nla(0), self.members[to].outbox.nla(0));
                let data = self.members[to].outbox.expected(0, 1);
                self.post(from, |m| {
                    m.connections[to].try_get(&m.fetched[to].region, 0, 1, there, Spec::COMPLETER)
                });
                self.members[from].fetched[to].expect(0, &data);
                self.expect(from, to, Kind::Completer, Command::GetBtRsp, last_fragment(here, 1));
                self.post(from, |m| m.connections[to].try_notification_put(0, 0, Spec::COMPLETER));
                self.expect(to, from, Kind::Completer, Command::NotificationPut, (Some(0), Some(0)));
            }
        }
        until(
            || format!("the fences of {what}"),
            || {
                self.drain();
                (self.missing() == 0).then_some(())
            },
        );
        self.drain();
        for (i, member) in self.members.iter().enumerate() {
            for other in 0..NODES {
                member.inbox[other].verify(&format!("{what}: what node {other} put to node {i}"));
                member.fetched[other].verify(&format!("{what}: what node {i} got from node {other}"));
            }
            member.outbox.verify(&format!("{what}: what node {i} puts"));
        }
    }
}

fn soak(
    path: Path,
    slots: u32,
    progress: Progress,
    trouble: Trouble,
    largest: usize,
    steps: usize,
    seed: u64,
) {
    let config = PortConfig { path: Some(path), slots, ..PortConfig::default() };
    let what = format!("seed {seed}, {path} path of {slots}, {progress:?}, {trouble:?}");
    let mut soak = Soak::new(config, progress, trouble, largest, seed);
    for step in 0..steps {
        soak.step();
        if step % 16 == 0 {
            soak.drain();
        }
    }
    soak.finish(&what);
}

const MIB: usize = 1 << 20;

#[test]
fn random_commands_do_what_the_model_says_on_the_card_path() {
    for seed in 0..3 {
        soak(Path::Card, 0, Progress::Inline, Trouble::None, MIB, 1500, seed);
    }
    soak(Path::Card, 0, Progress::Threads(2), Trouble::None, MIB, 1500, 10);
}

#[test]
fn random_commands_do_what_the_model_says_on_the_slot_path() {
    for (slots, seed) in [(1, 20), (256, 21), (4, 22)] {
        soak(Path::Slots, slots, Progress::Inline, Trouble::None, MIB, 1500, seed);
    }
    soak(Path::Slots, 64, Progress::Threads(2), Trouble::None, MIB, 1500, 30);
}

#[test]
fn random_commands_do_what_the_model_says_over_faulty_links() {
    for (i, trouble) in
        [Trouble::Lossy(40), Trouble::Shuffled(41), Trouble::Everything(42)].into_iter().enumerate()
    {
        soak(Path::Card, 0, Progress::Inline, trouble, 16 << 10, 600, 50 + i as u64);
        soak(Path::Slots, 16, Progress::Threads(1), trouble, 16 << 10, 600, 60 + i as u64);
    }
}

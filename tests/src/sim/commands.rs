//! Random commands, and what follows from them for both sides.

use std::rc::Rc;

use ggas::{Command, Kind, Lock, PostError, Spec};

use super::member::{Member, Pair};
use super::program::{Dead, Program};
use super::streams::Expected;

/// Start of the last fragment of a transfer, and the size field for it.
fn last_fragment(start: u64, len: usize) -> (Option<u64>, Option<u32>) {
    let offset = (len - 1) / 496 * 496;
    (Some(start + offset as u64), Some((len - offset - 1) as u32))
}

fn expect(at: &Member, other: &Member, kind: Kind, command: Command, said: (Option<u64>, Option<u32>)) {
    let (word0, field) = said;
    at.streams.borrow_mut()[other.node].push(Expected { kind, command, word0, field });
}

/// From whom to whom: the sender's half of the pair, and the target's.
struct Way {
    me: Rc<Member>,
    other: Rc<Member>,
    here: Rc<Pair>,
    there: Rc<Pair>,
}

impl Program<'_> {
    /// One random command to `other`, which has met this node.
    pub fn command(&mut self, other: Rc<Member>) -> Result<(), Dead> {
        let spec = Spec::from_bits_truncate(self.random.u8(..8));
        let Some(way) = self.way(other) else { return Ok(()) };
        self.world.count_command();
        match self.random.u8(..10) {
            0..4 => self.put(&way, spec),
            4..6 => self.get(&way, spec),
            6..8 => self.immediate(&way, spec),
            8 => {
                let (class, payload) = (self.random.u8(..), self.random.u64(..));
                self.notification(&way, class, payload, spec)
            }
            _ => self.lock(&way, spec),
        }
    }

    /// Behind these two all that was posted to `other` before is done, and has told both sides (spec 2.3, 3.1).
    pub fn fence(&mut self, other: Rc<Member>) -> Result<(), Dead> {
        let Some(way) = self.way(other) else { return Ok(()) };
        self.get_part(&way, (0, 0, 1), Spec::COMPLETER)?;
        let payload = self.random.u64(..);
        self.notification(&way, 0, payload, Spec::COMPLETER)
    }

    fn way(&self, other: Rc<Member>) -> Option<Way> {
        let (here, there) = (self.me.pair(&other)?, other.pair(&self.me)?);
        Some(Way { me: self.me.clone(), other, here, there })
    }

    /// Where in two areas, and how long: every order of magnitude is as likely as the others.
    fn part(&mut self) -> (usize, usize, usize) {
        let (largest, bytes) = (self.world.plan.largest, self.world.plan.bytes());
        let bits = self.random.u32(0..=largest.ilog2());
        let len = self.random.usize(1 << bits..=(2 << bits) - 1).min(largest);
        (self.random.usize(..=bytes - len), self.random.usize(..=bytes - len), len)
    }

    fn put(&mut self, way: &Way, spec: Spec) -> Result<(), Dead> {
        let (read, write, len) = self.part();
        let Way { me, other, here, there } = way;
        let nla = there.inbox.nla(write);
        self.post(|| here.connection.try_put(&me.outbox.region, read, len, nla, spec))?;
        there.inbox.expect(write, me.outbox.data(read, len));
        if spec.contains(Spec::REQUESTER) {
            expect(me, other, Kind::Requester, Command::BtPut, (None, last_fragment(0, len).1));
        }
        if spec.contains(Spec::COMPLETER) {
            expect(other, me, Kind::Completer, Command::BtPut, last_fragment(nla, len));
        }
        Ok(())
    }

    fn get(&mut self, way: &Way, spec: Spec) -> Result<(), Dead> {
        let part = self.part();
        self.get_part(way, part, spec)
    }

    fn get_part(&mut self, way: &Way, part: (usize, usize, usize), spec: Spec) -> Result<(), Dead> {
        let ((read, write, len), Way { me, other, here, .. }) = (part, way);
        let (from, to) = (other.outbox.nla(read), here.fetched.nla(write));
        self.post(|| here.connection.try_get(&here.fetched.region, write, len, from, spec))?;
        here.fetched.expect(write, other.outbox.data(read, len));
        if spec.contains(Spec::REQUESTER) {
            expect(me, other, Kind::Requester, Command::BtGet, (None, None));
        }
        if spec.contains(Spec::RESPONDER) {
            expect(other, me, Kind::Responder, Command::BtGet, last_fragment(from, len));
        }
        if spec.contains(Spec::COMPLETER) {
            expect(me, other, Kind::Completer, Command::GetBtRsp, last_fragment(to, len));
        }
        Ok(())
    }

    fn immediate(&mut self, way: &Way, spec: Spec) -> Result<(), Dead> {
        let (count, value) = (self.random.u8(1..=8), self.random.u64(..));
        let write = self.random.usize(..=self.world.plan.bytes() - 8);
        let Way { me, other, here, there } = way;
        let nla = there.inbox.nla(write);
        self.post(|| here.connection.try_immediate_put(value, count, nla, spec))?;
        there.inbox.expect(write, value.to_le_bytes()[..count.into()].to_vec());
        if spec.contains(Spec::REQUESTER) {
            expect(me, other, Kind::Requester, Command::ImmediatePut, (Some(value), None));
        }
        if spec.contains(Spec::COMPLETER) {
            let said = (Some(nla), Some(u32::from(count) - 1));
            expect(other, me, Kind::Completer, Command::ImmediatePut, said);
        }
        Ok(())
    }

    fn notification(&mut self, way: &Way, class: u8, payload: u64, spec: Spec) -> Result<(), Dead> {
        let Way { me, other, here, .. } = way;
        self.post(|| here.connection.try_notification_put(class, payload, spec))?;
        let said = (Some(payload), Some(u32::from(class)));
        if spec.contains(Spec::REQUESTER) {
            expect(me, other, Kind::Requester, Command::NotificationPut, said);
        }
        if spec.contains(Spec::COMPLETER) {
            expect(other, me, Kind::Completer, Command::NotificationPut, said);
        }
        Ok(())
    }

    /// Each origin has a lock of its own at each target.
    fn lock(&mut self, way: &Way, spec: Spec) -> Result<(), Dead> {
        let Way { me, other, here, there } = way;
        if me.start > 0 {
            return Ok(()); // the target kept the value of an earlier start
        }
        let number = me.node as u32;
        let (compare, add) = (self.random.i32(-100..100), self.random.i32(-20..20));
        self.post(|| here.connection.try_lock(Lock { number, compare, add }, spec))?;
        let taken = there.lock.get() <= compare;
        if taken {
            there.lock.set(there.lock.get() + add);
        }
        let word = |result: bool, value: i32| {
            Some(u64::from(number) | u64::from(result) << 24 | u64::from(value as u32) << 32)
        };
        let (asked, answer) = (word(false, compare), word(taken, there.lock.get()));
        if spec.contains(Spec::REQUESTER) {
            expect(me, other, Kind::Requester, Command::LockReq, (asked, None));
        }
        if spec.contains(Spec::RESPONDER) {
            expect(other, me, Kind::Responder, Command::LockReq, (answer, None));
        }
        if spec.contains(Spec::COMPLETER) {
            expect(me, other, Kind::Completer, Command::LockRsp, (answer, None));
        }
        Ok(())
    }

    /// Posts, and reads notifications while there is no room.
    pub fn post(&mut self, mut post: impl FnMut() -> Result<(), PostError>) -> Result<(), Dead> {
        let node = self.me.node;
        let world = self.world;
        world.until(
            || format!("room to post at node {node}"),
            || {
                if self.me.over.get() {
                    return Some(Err(Dead));
                }
                match post() {
                    Ok(()) => Some(Ok(())),
                    Err(PostError::WouldBlock) => {
                        self.drain();
                        None
                    }
                    Err(error) => panic!("node {node} cannot post: {error}"),
                }
            },
        )
    }
}

//! What runs on a node: opens a port when it likes, sends random commands to those that are there, reads notifications now
//! and then, stands still, dies and starts again.

use std::rc::Rc;
use std::time::Duration;

use super::member::Member;
use super::world::World;

/// The node is dead, and its program with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dead;

/// One start of a node's program.
pub struct Program<'a> {
    pub world: &'a World<'a>,
    pub me: Rc<Member>,
    pub random: fastrand::Rng,
}

/// The program of a node, with all of its starts.
pub fn run(world: &World<'_>, node: usize) {
    let plan = world.plan;
    let mut random = fastrand::Rng::with_seed(plan.seed.wrapping_mul(31).wrapping_add(node as u64));
    let late = if random.u8(..4) == 0 { 1_000_000 } else { 20 };
    world.sleep(Duration::from_micros(random.u64(..late)));
    let (mut left, mut posting) = (plan.commands, true);
    for start in 0.. {
        let me = world.open(node, start);
        me.acknowledged.set(world.deaths.get());
        let mut program = Program { world, me, random: random.fork() };
        let posted = program.post_all(&mut left);
        let returns = posted.is_err() && random.u8(..4) != 0;
        if std::mem::take(&mut posting) && !returns {
            world.posting.set(world.posting.get() - 1);
        } else {
            posting = returns;
        }
        if posted.and_then(|()| program.wait_for_all()).is_ok() {
            return;
        }
        if !returns {
            return world.waiting.set(world.waiting.get() - 1);
        }
        world.until(|| format!("all to know that node {node} is dead"), || world.all_know().then_some(()));
        world.sleep(Duration::from_millis(random.u64(1..200)));
        world.restart(node);
    }
}

impl Program<'_> {
    /// Posts the commands that are left.
    fn post_all(&mut self, left: &mut usize) -> Result<(), Dead> {
        let mut stands = if self.world.plan.stands { 4 } else { 0 };
        while *left > 0 {
            self.look_around()?;
            match self.random.u8(..20) {
                0..12 => {
                    *left -= 1;
                    if let Some(other) = self.peer() {
                        self.use_a_unit(other)?;
                    }
                }
                12..15 if self.world.plan.floods => {}
                12..15 if self.world.plan.mailboxes.is_some() && self.random.bool() => self.pick_message(),
                12..15 => self.drain(),
                15..19 => self.sleep(50_000),
                _ => {
                    let still = stands > 0 && self.random.bool();
                    stands -= u32::from(still);
                    self.sleep(if still { 300_000_000_000 } else { 5_000_000 });
                }
            }
        }
        Ok(())
    }

    /// Something for `other` to do, by one of the units that this network uses.
    fn use_a_unit(&mut self, other: Rc<Member>) -> Result<(), Dead> {
        let plan = self.world.plan;
        if plan.mailboxes.is_some() && self.random.bool() {
            self.message(&other)
        } else if plan.windows.is_some() && self.random.bool() {
            self.access(&other)
        } else {
            self.command(other)
        }
    }

    /// Until everything is mended, everything that was begun is done, and everybody has seen so.
    fn wait_for_all(&mut self) -> Result<(), Dead> {
        let (world, node) = (self.world, self.me.node);
        self.until(|| format!("node {node}: all to be mended"), |_| world.mended.get())?;
        for other in 0..world.plan.nodes {
            if let Some(other) = world.member(other) {
                self.store_fence(&other)?;
                self.fence(other)?;
            }
        }
        let missing =
            |me: &Member| format!("{} of node {node}, the first {:x?}", me.missing(), me.first_missing());
        let me = self.me.clone();
        self.until(
            || format!("notifications: {}", missing(&me)),
            |program| program.me.gaps.get() + program.me.missing() == program.dropped(),
        )?;
        if let Some(mail) = &me.mail {
            let what = || {
                format!("messages: node {node} is owed {}, its card dropped {}", mail.owed(), mail.dropped())
            };
            self.until(what, |_| mail.owed() == mail.dropped())?;
        }
        world.waiting.set(world.waiting.get() - 1);
        self.until(|| format!("node {node}: the others to have seen all"), |_| world.waiting.get() == 0)?;
        me.mail.iter().for_each(|mail| mail.verify(&world.node(node)));
        Ok(())
    }

    fn dropped(&self) -> usize {
        if self.world.plan.drops { self.world.dropped(self.me.node) } else { 0 }
    }

    fn until(&mut self, what: impl Fn() -> String, mut done: impl FnMut(&Self) -> bool) -> Result<(), Dead> {
        let world = self.world;
        world.until(what, || match self.look_around() {
            Err(dead) => Some(Err(dead)),
            Ok(()) => {
                self.drain();
                done(self).then_some(Ok(()))
            }
        })
    }

    fn sleep(&mut self, most_nanoseconds: u64) {
        let time = Duration::from_nanos(self.random.u64(..most_nanoseconds));
        self.world.sleep(time);
    }

    /// Meets who is new, and notices who has died.
    fn look_around(&mut self) -> Result<(), Dead> {
        if self.me.over.get() {
            return Err(Dead);
        }
        let world = self.world;
        if self.me.acknowledged.get() != world.deaths.get() {
            self.acknowledge()?;
        }
        for node in 0..world.plan.nodes {
            let Some(other) = world.member(node).filter(|other| self.me.pair(other).is_none()) else {
                continue;
            };
            if other.start > 0 {
                // What was owed to or by its last start has come, or never will.
                self.drain();
                self.me.streams.borrow_mut()[node].forget();
                self.me.mail.iter().for_each(|mail| mail.forget(node));
            }
            world.meet(&self.me, &other);
        }
        Ok(())
    }

    /// Sends nothing more to nodes that are dead: all that was posted to them has left.
    fn acknowledge(&mut self) -> Result<(), Dead> {
        let (world, node) = (self.world, self.me.node);
        let deaths = world.deaths.get();
        let me = self.me.clone();
        world.meet(&me, &me);
        self.fence(me.clone())?;
        self.message_to_itself()?;
        let done = |me: &Member| {
            let messages = me.mail.as_ref().map_or(0, |mail| mail.missing_of(node));
            me.streams.borrow()[node].missing() + messages == 0
        };
        world.until(
            || format!("node {node}: what it sent to itself"),
            || {
                self.drain();
                (done(&me) || me.over.get()).then_some(())
            },
        );
        self.world.sleep(Duration::from_millis(10));
        self.drain();
        me.acknowledged.set(deaths);
        Ok(())
    }

    /// Someone to send to: there and met, or dead and not known to be.
    pub fn peer(&mut self) -> Option<Rc<Member>> {
        let there = |node: usize| self.world.member(node).filter(|other| other.pair(&self.me).is_some());
        let peers: Vec<_> = (0..self.world.plan.nodes).filter_map(there).collect();
        self.random.choice(peers)
    }

    /// Reads all notifications and messages that are there.
    pub fn drain(&mut self) {
        let me = self.me.clone();
        me.mail.iter().for_each(|mail| mail.drain(self.world.plan.drops));
        for n in me.port.notifications() {
            let (Some(kind), Some(command)) = (n.kind(), n.command().command()) else {
                panic!("node {}: {n:x?}", me.node)
            };
            assert!(n.error().is_empty(), "node {}: {n:x?}", me.node);
            let other = usize::from(n.remote().node);
            let gaps = me.streams.borrow_mut()[other].take(kind, command, &n, self.world.plan.drops);
            me.gaps.set(me.gaps.get() + gaps);
        }
    }
}

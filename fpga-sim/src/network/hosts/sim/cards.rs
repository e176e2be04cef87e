//! Networks of hosts with their real cards, each from a seed: programs post commands through several VPIDs, look late at small queues, close
//! VPIDs and open others, while what [happens to hosts](super) happens. Each card is run by those who run it for real, and is told no more
//! than they are. What has to hold:
//!
//! * notifications come once, in the order of the commands of a pair of VPIDs, to nobody else, and behind the bytes;
//! * the bytes of a payload are those that were there before its requester reported it, which then become others;
//! * a command fails only where its VPID is gone;
//! * when all is quiet, all is reported that was asked for, but between those who lost each other; nothing waits or is kept.
//!
//! Half of the networks are calm: nobody is cut off or dies, but what is sent is late and overtakes, VPIDs come and go, and all of it is
//! asked for again and again when nothing else is under way. There nothing comes that could bring along what was forgotten.
//!
//! `GGAS_HOSTS_SEEDS` and `GGAS_HOSTS_SEED` as there.

mod drive;
mod host;
mod ledger;
mod port;
mod work;

use std::time::Duration;

use super::world::{Event, World};
use super::{Act, Named, SECOND, number};
pub use host::Host;
pub use ledger::Ledger;

/// So long a program looks at no notification, at most.
const LATE: Duration = Duration::from_millis(100);

impl World {
    /// A program begins with some VPIDs.
    pub(super) fn begin_program(&mut self, who: usize) {
        (0..self.random.u32(1..4)).for_each(|_| self.open_port(who));
        self.rouse(who);
    }

    /// A program has something to do.
    pub(super) fn command(&mut self, who: usize) {
        let most = if self.hot.is_some() || self.random.u8(..4) == 0 { 150 } else { 20 };
        self.processes[who].host.as_mut().expect("a card").to_post += self.random.u32(1..most);
        self.make_late(who);
        self.rouse(who);
    }

    fn make_late(&mut self, who: usize) {
        let World { processes, random, .. } = self;
        let until = self.clock.since(self.clock.origin()) + LATE.mul_f64(random.f64());
        let host = processes[who].host.as_mut().expect("a card");
        for port in host.ports.iter_mut().filter(|_| random.u8(..4) == 0) {
            port.late = until;
        }
    }

    /// A VPID is closed, and another one is opened.
    pub(super) fn change_ports(&mut self, who: usize) {
        self.close_port(who);
        self.open_port(who);
        self.rouse(who);
    }

    /// Work again and again, each time until all is quiet.
    fn live_calmly(&mut self) {
        for _ in 0..self.random.u32(4..12) {
            let now = self.now();
            let nodes = self.at.len() as u16;
            self.hot = (self.random.u8(..4) == 0).then(|| self.random.u16(..nodes));
            for who in 0..self.processes.len() {
                if self.random.u8(..4) > 0 {
                    let at = now + Duration::from_millis(20).mul_f64(self.random.f64());
                    self.plan(at, Event::Plan(Act::Work(who)));
                }
                if self.random.u8(..8) == 0 {
                    let at = now + Duration::from_millis(40).mul_f64(self.random.f64());
                    self.plan(at, Event::Plan(Act::Ports(who)));
                }
            }
            self.run(now + 5 * LATE + 400 * self.slow);
            self.check_quiet();
            self.check_work();
        }
    }
}

fn simulate(seed: u64, told: bool) -> World {
    let named = Named(seed, "hosts::sim::cards");
    let mut random = fastrand::Rng::with_seed(seed ^ 0xca2d);
    let nodes = random.usize(2..5);
    let mut world = World::new(nodes, random.u64(..));
    (world.told, world.cards, world.trusts) = (told, true, random.bool());
    world.calm = random.bool();
    (0..nodes as u16).for_each(|node| world.start(node));
    if world.calm {
        world.live_calmly();
        assert!(world.lost.is_empty(), "{:?}", world.lost);
    } else {
        let gentle = random.bool();
        world.live(gentle);
        world.check_work();
        if gentle {
            world.check_losses();
        }
    }
    let alive: Vec<usize> = world.at.iter().filter_map(|at| *at).collect();
    alive.iter().for_each(|who| world.leave(*who));
    world.run(world.now() + 3 * SECOND);
    for who in alive {
        assert!(world.left.contains(&(who, who)), "{who} cannot leave");
    }
    drop(named);
    world
}

#[test]
fn cards_of_hosts_keep_their_promises() {
    if let Some(seed) = number("GGAS_HOSTS_SEED") {
        let world = simulate(seed, true);
        let (done, failed, losses) = (world.ledger.done, world.ledger.failed, world.lost.len());
        return eprintln!("{done} came, {failed} failed as they should, {losses} losses");
    }
    let first = number("GGAS_HOSTS_FIRST").unwrap_or(0);
    let (mut done, mut failed, mut lost) = (0, 0, 0);
    for seed in first..first + number("GGAS_HOSTS_SEEDS").unwrap_or(500) {
        let world = simulate(seed, false);
        done += world.ledger.done;
        failed += world.ledger.failed;
        lost += world.lost.len();
    }
    eprintln!("{done} came, {failed} failed as they should, {lost} times somebody was lost");
    assert!(done > 0 && failed > 0 && lost > 0);
}

#[test]
fn the_same_seed_is_the_same_work() {
    for seed in 0..5 {
        let [one, two] = [simulate(seed, false), simulate(seed, false)];
        assert_eq!(
            (one.ledger.done, one.lost.len(), one.now()),
            (two.ledger.done, two.lost.len(), two.now())
        );
    }
}

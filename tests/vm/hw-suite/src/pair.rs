//! Two machines that do the same at the same time, each with the memory of the other.

use extoll_abi::Spec;
use ggas_rma::{Connection, Kind, Lock, LockOutcome, Match, Node, Port, Region};
use ggas_velo::VeloPort;

use crate::meet::{meet, sync};
use crate::{Outcome, SOON, check, holds, kernels, part, patient, patient_velo, pattern, region, window};

/// Bytes of a region: a third to be read by the other side, one that it writes, one for what comes from there.
const PART: usize = 1 << 17;
/// Additions of each side to the lock that both use.
const ADDITIONS: i32 = 500;

pub fn all(node: &Node, peer: u16, more: bool) -> Outcome {
    let port = node.open_port(patient())?;
    let memory = region(&port, 3 * PART, node.id() as u8)?;
    let mut met = None;
    part("meeting", || {
        met = Some(meet(&port, peer, memory.nla(0)?)?);
        Ok(())
    })?;
    let (there, remote) = met.ok_or("nobody met")?;
    if more {
        part("a kernel on each machine", || kernels::across(node, &port, &there, node.id() < peer))?;
        window::across(node, &port, &there)?;
        sync(&port, &there, 9)?;
        port.close()?;
        return Ok(());
    }
    let side = Side { port: &port, there: &there, memory: &memory, remote, peer: peer as u8 };
    part("puts to the other node", || side.puts())?;
    part("gets from the other node", || side.gets())?;
    part("notifications to and fro", || side.ping_pong(node.id() < peer))?;
    part("one lock of both nodes", || side.locks(node.id() < peer))?;
    part("messages between nodes", || side.messages(node, peer))?;
    sync(&port, &there, 9)?;
    port.close()?;
    Ok(())
}

struct Side<'a> {
    port: &'a Port,
    there: &'a Connection,
    memory: &'a Region,
    remote: u64,
    peer: u8,
}

impl Side<'_> {
    fn puts(&self) -> Outcome {
        let whole = pattern(3 * PART, self.peer);
        for (round, len) in [1, 8, 64, 497, 4096, 40_003].into_iter().enumerate() {
            let target = self.remote + (PART + round) as u64;
            self.there.put(self.memory, round, len, target, Spec::REQUESTER | Spec::COMPLETER)?;
            for kind in [Kind::Requester, Kind::Completer] {
                let wanted = Match::any().kind(kind).puts().from(self.there.remote());
                let done = self.port.wait_match(&wanted, SOON)?;
                check(done.error().is_empty(), format!("{done:?}"))?;
            }
            holds(self.memory, PART + round, &whole[round..round + len])?;
            sync(self.port, self.there, 10 + round as u8)?;
        }
        Ok(())
    }

    fn gets(&self) -> Outcome {
        let whole = pattern(3 * PART, self.peer);
        for len in [1, 496, 5000, 100_003] {
            self.there.get(self.memory, 2 * PART, len, self.remote + 9, Spec::COMPLETER)?;
            let came = self.port.wait_match(&Match::any().gets(), SOON)?;
            check(came.error().is_empty(), format!("{came:?}"))?;
            holds(self.memory, 2 * PART, &whole[9..9 + len])?;
        }
        sync(self.port, self.there, 20)
    }

    /// Each answers the other's numbers; half of the rounds wait long enough to sleep.
    fn ping_pong(&self, first: bool) -> Outcome {
        let ball = Match::any().class(30).from(self.there.remote());
        for i in 0..1000 {
            if first {
                self.there.notification_put(30, i, Spec::COMPLETER)?;
            }
            let note = self.port.wait_match(&ball, SOON)?;
            check(note.word0 == i, format!("{i}: {note:?}"))?;
            if i % 100 == 0 {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            if !first {
                self.there.notification_put(30, i, Spec::COMPLETER)?;
            }
        }
        sync(self.port, self.there, 31)
    }

    /// Both add to a lock of the first one's port; no addition is lost.
    fn locks(&self, first: bool) -> Outcome {
        let here = self.port.connect(self.port.address());
        let at = if first { &here } else { self.there };
        let lock = |add| -> Result<i32, Box<dyn std::error::Error>> {
            at.lock(Lock { number: 1, compare: i32::MAX, add }, Spec::COMPLETER)?;
            let note = self.port.wait_match(&Match::any().lock(1), SOON)?;
            Ok(LockOutcome::of(&note).ok_or("no answer of a lock")?.value)
        };
        for _ in 0..ADDITIONS {
            lock(1)?;
        }
        sync(self.port, self.there, 40)?;
        let sum = lock(0)?;
        check(sum == 2 * ADDITIONS, format!("{sum} after {} additions", 2 * ADDITIONS))?;
        sync(self.port, self.there, 41)
    }

    fn messages(&self, node: &Node, peer: u16) -> Outcome {
        let velo = VeloPort::open(node.device(), patient_velo())?;
        sync(self.port, self.there, 50)?;
        let there = velo.connect(extoll_abi::Address::new(peer, velo.address().vpid));
        for i in 0..2000_usize {
            let bytes = pattern(i % 121, peer as u8);
            there.send(&bytes, i as u8)?;
            let message = velo.wait(SOON)?;
            let wanted = pattern(i % 121, node.id() as u8);
            let right = message.bytes() == wanted && message.tag() == i as u8;
            check(right && message.source().node == peer, format!("{i}: {message:?}"))?;
        }
        sync(self.port, self.there, 51)?;
        velo.close()?;
        Ok(())
    }
}

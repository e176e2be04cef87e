//! What cards were asked to do, and which command a notification is of.

use std::collections::{BTreeMap, HashMap};

use extoll_abi::{Address, Spec};

use super::host::LOCKS;
use super::port::{GIVEN, pattern};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Put,
    Immediate,
    Notify,
    Get,
    Lock,
}

/// Who a command is for, as the card saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    /// Nobody was met there: for whoever comes.
    Whoever,
    Target,
    /// One who is gone.
    Nobody,
}

/// A command. VPIDs are those of a list of all that were opened.
#[derive(Debug)]
pub struct Op {
    pub what: What,
    pub from: usize,
    pub to: usize,
    pub meant: For,
    /// It has to come, unless those two lose each other.
    pub sure: bool,
    pub len: u32,
    pub read: u64,
    pub write: u64,
    pub spec: Spec,
    /// Reports of the requester, and of the unit that has the last word.
    pub sent: u32,
    pub done: u32,
    pub failed: bool,
}

/// A VPID that was opened.
#[derive(Debug)]
pub struct Opened {
    pub who: usize,
    pub vpid: u8,
    pub first: u64,
    pub closed: bool,
    /// The last command that the requester reported; and that came, by who sent it.
    pub sent: Option<usize>,
    pub came: HashMap<usize, usize>,
}

#[derive(Default)]
pub struct Ledger {
    pub ops: Vec<Op>,
    pub opened: Vec<Opened>,
    /// Commands by the address that they write to, and by the one that a put reads.
    pub writes: BTreeMap<u64, usize>,
    pub reads: BTreeMap<u64, usize>,
    pub locks: Vec<usize>,
    /// What came as it should, and with the error that it should have.
    pub done: u64,
    pub failed: u64,
}

/// The command whose bytes lie at an address.
pub fn find(of: &BTreeMap<u64, usize>, ops: &[Op], address: u64) -> Option<usize> {
    let (start, number) = of.range(..=address).next_back()?;
    (address < start + u64::from(ops[*number].len)).then_some(*number)
}

impl Ledger {
    pub fn add(&mut self, op: Op) {
        let number = self.ops.len();
        match op.what {
            What::Put => {
                self.reads.insert(op.read, number);
                self.writes.insert(op.write, number);
            }
            What::Immediate | What::Get => drop(self.writes.insert(op.write, number)),
            What::Lock => self.locks.push(number),
            What::Notify => {}
        }
        self.ops.push(op);
    }

    /// The bytes that a command is to bring.
    pub fn bytes(&self, number: usize) -> Vec<u8> {
        let op = &self.ops[number];
        match op.what {
            What::Put => pattern(number, op.len as usize),
            What::Get => {
                let start = (op.read - self.opened[op.to].first) as usize;
                pattern(op.to, GIVEN as usize)[start..start + op.len as usize].to_vec()
            }
            _ => (number as u64).to_le_bytes().to_vec(),
        }
    }

    /// The lock that an answer is of: see [`Ledger::free_lock`].
    pub fn lock(&self, from: usize, lock: u32, of: Address, node: impl Fn(usize) -> u16) -> Option<usize> {
        let by = |port: usize| (self.opened[port].who, self.opened[port].vpid);
        let at = |port: usize| Address::new(node(self.opened[port].who), self.opened[port].vpid);
        let fits = |number: &&usize| {
            let op = &self.ops[**number];
            by(op.from) == by(from) && op.read == u64::from(lock) && op.done == 0 && at(op.to) == of
        };
        self.locks.iter().find(fits).copied()
    }

    /// A lock that nobody waits for: answers name only VPIDs and the lock, and those to a VPID that was closed may never come. So of two
    /// commands of one VPID for one lock, whoever had the VPID when, the second could not be told from the first.
    pub fn free_lock(&self, from: usize, of: Address, node: impl Fn(usize) -> u16) -> Option<u32> {
        let count = self.locks.len();
        let mut locks = (count..count + LOCKS).map(|lock| (lock % LOCKS) as u32);
        locks.find(|lock| self.lock(from, *lock, of, &node).is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_whose_answer_is_lost_is_not_asked_for_again() {
        let mut ledger = Ledger::default();
        let open =
            |who, vpid| Opened { who, vpid, first: 0, closed: false, sent: None, came: HashMap::new() };
        ledger.opened = vec![open(0, 0), open(1, 0), open(0, 0)];
        let (node, of) = (|who: usize| [7, 8][who], Address::new(8, 0));
        let mut ask = |from: usize, done| {
            let lock = ledger.free_lock(from, of, node)?;
            let number = ledger.ops.len();
            let op = Op {
                what: What::Lock,
                from,
                to: 1,
                meant: For::Target,
                sure: true,
                len: 0,
                read: lock.into(),
                write: 0,
                spec: Spec::COMPLETER,
                sent: 0,
                done: 0,
                failed: false,
            };
            ledger.add(op);
            assert_eq!(
                ledger.lock(from, lock, of, node),
                Some(number),
                "an answer is of the last that asked"
            );
            ledger.ops[number].done = done;
            Some(lock)
        };
        assert_eq!(ask(0, 0), Some(0));
        // Another one has the VPID, and asks for all of them.
        let locks: Vec<_> = (0..2 * LOCKS).map_while(|_| ask(2, 1)).collect();
        assert!(locks.len() == 2 * LOCKS && !locks.contains(&0));
        // All others are lost too.
        assert_eq!((0..).map_while(|_| ask(2, 0)).count(), LOCKS - 1);
    }
}

//! What windows do between hosts, by the cards alone: atomics, and barriers behind which stores are done.

use extoll_abi::Atomic;

use super::common::{Node, PATIENCE, Pages, window};
use super::{Ends, HEAD, TURNS, Wire, below, time};

const ROUNDS: usize = 10_000;

const PART: usize = 4096;
/// Words of a part: one that is added to, what a barrier is for, and how many barriers the other node has come to.
const SUM: u64 = 0;
const DATA: u64 = 64;
const CAME: u64 = 128;

/// Whole round trips of a word by the wire; atomics whose result comes back; barriers behind which stores are done.
pub fn trips(wire: &mut Wire, ends: &mut Ends<'_>, parts: &mut Parts<'_>) {
    let node = ends.port.node;
    let (first, message) = (ends.first, [7; 8 + HEAD]);
    let mut took = [const { Vec::new() }; 3];
    for turn in 0..=TURNS {
        if turn == 1 {
            took.iter_mut().for_each(Vec::clear);
        }
        let (rounds, before) = (ROUNDS / TURNS, parts.added());
        parts.barrier();
        time(rounds, &mut took[0], || wire.trip(first, |wire| wire.send(&message)));
        time(rounds, &mut took[2], || parts.barrier());
        if first {
            let mut sum = 0;
            time(rounds, &mut took[1], || sum = parts.fetch_add());
            assert!(sum + 1 == ((turn + 1) * rounds) as u64, "{sum} in turn {turn}");
        }
        while !first && parts.added() < before + rounds as u64 {
            node.nic.progress();
        }
        parts.barrier(); // the last answer has come
    }
    if !first {
        return;
    }
    println!("\n{:<24}  {:>10}  {:>10}", "round trip, us", "median", "tenth");
    for (what, took) in ["of the wire", "fetch and add", "fenced barrier"].into_iter().zip(&mut took) {
        let [median, tenth] = [2, 10].map(|share| 2.0 * below(took, share));
        println!("{what:<24}  {median:>10.2}  {tenth:>10.2}");
    }
}

/// A window of two nodes, with a part of each.
pub struct Parts<'a> {
    node: &'a Node,
    own: Pages,
    barriers: u64,
}

impl Parts<'_> {
    /// To be made before the two nodes meet: what comes earlier goes nowhere.
    pub fn new(node: &Node) -> Parts<'_> {
        let own = Pages::new(&node.memory, PART, PART);
        window::show(node, &own, PART, 2);
        Parts { node, own, barriers: 0 }
    }

    fn other(&self) -> u16 {
        1 - self.node.nic.node()
    }

    /// Adds to the other's word, and hears what it was.
    fn fetch_add(&self) -> u64 {
        self.node
            .nic
            .smfu_atomic(at(self.other(), SUM), Atomic::add(1), PATIENCE)
            .expect("the other is there")
    }

    /// What the other has added here.
    fn added(&self) -> u64 {
        self.own.load(SUM as usize / 8)
    }

    /// A store, and a barrier behind which it is there, as those of groups that release do it: a load comes back behind all stores,
    /// and then a flag goes to the other.
    fn barrier(&mut self) {
        self.barriers += 1;
        let (nic, other, number) = (&self.node.nic, self.other(), self.barriers.to_le_bytes());
        nic.smfu_store(at(other, DATA), &number).expect("the other is there");
        nic.smfu_load(at(other, CAME), &mut [0; 8], PATIENCE).expect("the other is there");
        nic.smfu_store(at(other, CAME), &number).expect("the other is there");
        while self.own.load(CAME as usize / 8) < self.barriers {
            nic.progress();
        }
        assert!(self.own.load(DATA as usize / 8) >= self.barriers, "a store came behind the barrier");
    }
}

/// Offset in the window.
fn at(part: u16, offset: u64) -> u64 {
    window::part(part, PART, offset)
}

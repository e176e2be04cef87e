//! RandomAccess (section 6.9.3): every node makes random numbers and sends each to the node that owns its entry of a
//! table, which xors it into the entry. Costs only: no table, but the same sequence of owners for all ways.
//!
//! In a round every node makes its look-ahead of numbers, sends each other node those that are for it, with their count,
//! and applies what came and its own. So no more updates wait than the benchmark allows, and who has all of a round may
//! overwrite the mailboxes of the one before: there are two of each.

mod figures;

pub(super) use self::figures::{energy, performance};

use std::ops::RangeInclusive;
use std::sync::Arc;

use extoll_sim::timed::{Block, Flag, Kernel, Node, Place, Ps, Put, System, Timed};

use crate::PaperError;
use crate::programs::{between_gpus, free_notification, on_all};
use crate::report::Parameter;

/// Numbers that a node makes before they are applied, and the threads of a block that makes or applies them.
const LOOK_AHEAD: u64 = 1024;
const WARP: usize = 32;
const WARPS: usize = LOOK_AHEAD as usize / WARP;
/// Threads that a multiprocessor of a K20 holds.
const THREADS_OF_SM: u64 = 2048;
/// Bytes of a number, and of a mailbox's count.
const WORD: u64 = 8;
/// Stores of a warp to consecutive addresses reach the card as requests of so many bytes (Table 6.1).
const REQUEST: u64 = 64;
/// Operations of a number: the next one (shift, test, xor), its owner and place (shift, count, address), its store.
const MAKE: u64 = 7;
/// Operations of an update: the entry's address (mask, sum), and xor.
const APPLY: u64 = 3;
/// Bytes of the GPU's memory that an update needs: the number, and the sector of 32 B around the entry, read and written.
const TOUCHED: u64 = WORD + 2 * 32;
/// Rounds that are timed, and that come before.
const ROUNDS: u64 = 3;

/// Who sends the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The host makes them and sends them to hosts, which copy them to their GPUs and launch a kernel.
    Mpi,
    /// A kernel of one block for each look-ahead: collects numbers for each node and puts them.
    Rma,
    /// One kernel for all: its threads store their numbers to the owners' mailboxes.
    Ggas,
}

impl Way {
    const ALL: [Way; 3] = [Way::Mpi, Way::Rma, Way::Ggas];

    fn name(self) -> &'static str {
        match self {
            Way::Mpi => "MPI",
            Way::Rma => "RMA",
            Way::Ggas => "GGAS",
        }
    }
}

/// What the ways rest on besides the system.
fn parameters() -> Vec<Parameter> {
    let parameter = |name: &str, value: u64, source: &str| Parameter {
        name: format!("random.{name}"),
        value: value.to_string(),
        source: source.to_owned(),
    };
    vec![
        parameter("look_ahead", LOOK_AHEAD, "thesis 6.9.3: at most 1,024 updates before they are applied"),
        parameter("threads", LOOK_AHEAD, "thesis 6.9.3: a block of 1,024 threads for RMA; taken for all"),
        parameter("threads_of_sm", THREADS_OF_SM, "K20 (Kepler): 2,048 threads for each multiprocessor"),
        parameter("request_bytes", REQUEST, "thesis Table 6.1: consecutive stores are packets of 64 B"),
        parameter("make_elements", MAKE, "counted: shift, test, xor; shift, count, address; store"),
        parameter("apply_elements", APPLY, "counted: mask, sum, xor"),
        parameter("apply_bytes", TOUCHED, "K20: sectors of 32 B, read and written, and the number of 8 B"),
    ]
}

/// Owners of all numbers, in the order in which each node makes them.
struct Sequence {
    nodes: usize,
    /// Of each node, round behind round.
    owners: Vec<Vec<usize>>,
}

impl Sequence {
    fn new(nodes: usize, rounds: u64, seed: u64) -> Sequence {
        let of_node = |node: usize| {
            let mut random = fastrand::Rng::with_seed(seed ^ (node as u64) << 32);
            (0..rounds * LOOK_AHEAD).map(|_| random.usize(..nodes)).collect()
        };
        Sequence { nodes, owners: (0..nodes).map(of_node).collect() }
    }

    fn of(&self, round: u64, node: usize) -> &[usize] {
        let first = (round * LOOK_AHEAD) as usize;
        &self.owners[node][first..first + LOOK_AHEAD as usize]
    }

    /// Numbers that a node makes for another one.
    fn count(&self, round: u64, from: usize, to: usize) -> u64 {
        count(self.of(round, from), to)
    }

    /// Bytes of the requests to the card in which a warp's numbers for another node leave. Each number goes behind those for
    /// the same node that were made before.
    fn requests(&self, round: u64, from: usize, warp: usize, to: usize) -> impl Iterator<Item = u64> + use<> {
        let (before, rest) = self.of(round, from).split_at(warp * WARP);
        requests(count(before, to), count(&rest[..WARP], to))
    }

    /// Updates of a node's entries.
    fn updates(&self, round: u64, node: usize) -> u64 {
        (0..self.nodes).map(|from| self.count(round, from, node)).sum()
    }
}

fn count(owners: &[usize], of: usize) -> u64 {
    owners.iter().filter(|owner| **owner == of).count() as u64
}

/// Bytes of the requests that stores of a warp to `words` words of a mailbox make, from word `first` on.
fn requests(first: u64, words: u64) -> impl Iterator<Item = u64> {
    let (mut at, end) = (first * WORD, (first + words) * WORD);
    std::iter::from_fn(move || {
        let next = end.min((at / REQUEST + 1) * REQUEST);
        let bytes = next - at;
        at = next;
        (bytes > 0).then_some(bytes)
    })
}

/// What the tasks of a node share.
#[derive(Clone)]
struct Member {
    me: usize,
    sequence: Arc<Sequence>,
    /// Blocks of the model that a block of 1,024 threads stands for.
    places: usize,
    /// Mailboxes that came to each node, in even rounds and in odd ones.
    came: [Vec<Flag>; 2],
    /// Own puts that have left.
    left: Flag,
    /// Places whose threads have stored, in even rounds and in odd ones.
    stored: [Flag; 2],
}

impl Member {
    /// The other nodes, each node's own next one first, so that not all send to the same.
    fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let (me, nodes) = (self.me, self.sequence.nodes);
        (1..nodes).map(move |step| (me + step) % nodes)
    }

    /// The word that counts mailboxes at a node.
    fn came(&self, round: u64, node: usize) -> &Flag {
        &self.came[(round % 2) as usize][node]
    }

    /// What that word says as the mailboxes of a round come.
    fn counts(&self, round: u64) -> RangeInclusive<u64> {
        let others = self.sequence.nodes as u64 - 1;
        let before = round / 2 * others;
        before + 1..=before + others
    }

    /// Bytes of a mailbox: a count and the numbers.
    fn bytes(&self, round: u64, to: usize) -> u64 {
        (1 + self.sequence.count(round, self.me, to)) * WORD
    }

    /// A block of 1,024 threads, at the rates of the places that it takes, or one of these places with its share.
    fn threads(&self, block: &Block<'_>, numbers: u64, operations: u64, bytes: u64) {
        let share = |all: u64| all.div_ceil(self.places as u64);
        block.compute(share(numbers * operations), share(numbers * bytes));
    }

    fn make(&self, block: &Block<'_>) {
        self.threads(block, LOOK_AHEAD, MAKE, WORD);
    }

    fn apply(&self, block: &Block<'_>, round: u64) {
        self.threads(block, self.sequence.updates(round, self.me), APPLY, TOUCHED);
    }

    /// The host makes numbers, sends and receives messages, copies all to the GPU and has a kernel apply them.
    fn by_mpi(&self, t: &Timed, node: Node<'_>, round: u64) {
        let host = &t.system().host;
        node.compute(LOOK_AHEAD * MAKE, LOOK_AHEAD * WORD);
        for to in self.others() {
            node.work(Ps::ns(host.send_ns));
            node.put(Put::new(to, self.bytes(round, to)).notified().arrived(self.came(round, to)));
        }
        for count in self.counts(round) {
            node.wait(self.came(round, self.me), count);
            node.work(Ps::ns(host.receive_ns));
        }
        node.copy(self.sequence.updates(round, self.me) * WORD);
        let member = self.clone();
        node.stream(0).launch(Kernel::new("update", 1), move |block| member.apply(&block, round));
        node.stream(0).synchronize();
    }

    /// A block of 1,024 threads makes numbers, puts them, takes those of the others and applies them. The card takes a put at
    /// once or not at all, so each is waited for before the next (section 5.6.3).
    fn by_rma(&self, block: &Block<'_>, round: u64) {
        self.make(block);
        block.fence();
        let mut left = round * (self.sequence.nodes as u64 - 1);
        for to in self.others() {
            let put = between_gpus(to, self.bytes(round, to)).notified();
            block.put(put.sent(&self.left).arrived(self.came(round, to)));
            left += 1;
            block.wait(&self.left, left, Place::Host);
            free_notification(block);
        }
        for count in self.counts(round) {
            block.wait(self.came(round, self.me), count, Place::Host);
            free_notification(block);
        }
        self.apply(block, round);
    }

    /// A place's threads make numbers and store them to mailboxes. The last place's tell the other nodes how many there are.
    fn by_ggas(&self, block: &Block<'_>, round: u64) {
        self.make(block);
        self.store(block, round);
        let stored = &self.stored[(round % 2) as usize];
        stored.add(1);
        if stored.value() == (round / 2 + 1) * self.places as u64 {
            block.fence();
            for to in self.others() {
                block.store(between_gpus(to, WORD).arrived(self.came(round, to)));
            }
        }
        block.wait(self.came(round, self.me), *self.counts(round).end(), Place::Gpu);
        self.apply(block, round);
    }

    /// The stores of a place's warps.
    fn store(&self, block: &Block<'_>, round: u64) {
        for warp in (block.index()..WARPS).step_by(block.blocks()) {
            for to in self.others() {
                for bytes in self.sequence.requests(round, self.me, warp, to) {
                    block.store(between_gpus(to, bytes));
                }
            }
        }
    }
}

/// The time of so many rounds, from the programs' begin to their end.
fn run(system: &System, way: Way, nodes: usize, rounds: u64, seed: u64) -> Result<Ps, PaperError> {
    let timed = Timed::new(system, nodes, seed)?;
    let flags = || (0..nodes).map(|_| timed.flag()).collect::<Vec<_>>();
    let (came, sequence) = ([flags(), flags()], Arc::new(Sequence::new(nodes, rounds, seed)));
    let places = (system.gpu.blocks_per_sm * LOOK_AHEAD / THREADS_OF_SM).max(1) as usize;
    on_all(&timed, nodes, |node| {
        let member = Member {
            me: node.index(),
            sequence: sequence.clone(),
            places,
            came: came.clone(),
            left: timed.flag(),
            stored: [timed.flag(), timed.flag()],
        };
        let stream = node.stream(0);
        match way {
            Way::Mpi => (0..rounds).for_each(|round| member.by_mpi(&timed, node, round)),
            Way::Rma => (0..rounds).for_each(|round| {
                let member = member.clone();
                stream.launch(Kernel::new("look-ahead", 1), move |block| member.by_rma(&block, round));
            }),
            Way::Ggas => {
                stream.launch(Kernel::new("random", places), move |block| {
                    (0..rounds).for_each(|round| member.by_ggas(&block, round));
                });
            }
        }
        stream.synchronize();
    });
    Ok(timed.now())
}

/// The time of a round, once all nodes are in step.
fn round(system: &System, way: Way, nodes: usize, seed: u64) -> Result<Ps, PaperError> {
    let short = run(system, way, nodes, ROUNDS, seed)?;
    let long = run(system, way, nodes, 2 * ROUNDS, seed)?;
    Ok(Ps((long - short).0 / ROUNDS))
}

/// Requests to its card that a node makes in a round by GGAS, besides those that tell how many numbers there are: the mean.
fn requests_of_round(nodes: usize, seed: u64) -> f64 {
    let sequence = Sequence::new(nodes, 1, seed);
    let of_warp = |node: usize, warp: usize| {
        let to_others = (0..nodes).filter(move |to| *to != node);
        to_others.map(|to| sequence.requests(0, node, warp, to).count()).sum::<usize>()
    };
    let all = (0..nodes).flat_map(|node| (0..WARPS).map(move |warp| (node, warp)));
    all.map(|(node, warp)| of_warp(node, warp)).sum::<usize>() as f64 / nodes as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_one_owner_and_longer_runs_begin_alike() {
        let (short, long) = (Sequence::new(12, 2, 7), Sequence::new(12, 4, 7));
        for (round, node) in (0..2).flat_map(|round| (0..12).map(move |node| (round, node))) {
            assert_eq!(short.of(round, node), long.of(round, node));
            assert_eq!((0..12).map(|to| short.count(round, node, to)).sum::<u64>(), LOOK_AHEAD);
            assert!((40..140).contains(&short.count(round, node, 3)), "about a twelfth of 1,024");
        }
        assert_eq!((0..12).map(|node| long.updates(3, node)).sum::<u64>(), 12 * LOOK_AHEAD);
        assert_ne!(long.of(0, 0), long.of(1, 0));
        assert_ne!(long.of(0, 0), long.of(0, 1));
        assert_ne!(long.of(0, 0), Sequence::new(12, 1, 8).of(0, 0));
    }

    #[test]
    fn stores_to_consecutive_words_share_a_request_of_64_bytes() {
        let of = |first, words| requests(first, words).collect::<Vec<_>>();
        assert_eq!(of(0, 16), [64, 64], "Table 6.1: consecutive");
        assert_eq!(of(6, 4), [16, 16], "over a boundary");
        assert_eq!(of(3, 1), [8]);
        assert!(of(5, 0).is_empty());
        let (two, twelve) = (requests_of_round(2, 1), requests_of_round(12, 1));
        assert!((64.0..128.0).contains(&two), "512 numbers to one node, {two} requests");
        assert!((300.0..480.0).contains(&twelve), "a warp's to eleven nodes, {twelve} requests");
    }

    #[test]
    fn every_way_ends_on_any_number_of_nodes_and_repeats() {
        let system = System::named("extoll-fpga").unwrap();
        for (way, nodes) in Way::ALL.into_iter().flat_map(|way| [2, 3, 12].map(|nodes| (way, nodes))) {
            let time = round(&system, way, nodes, 1).unwrap();
            assert!((1.0..1000.0).contains(&time.as_us()), "{way:?} on {nodes}: {time}");
            assert_eq!(time, round(&system, way, nodes, 1).unwrap(), "{way:?} on {nodes}");
        }
    }
}

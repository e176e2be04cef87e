//! MPI libraries on the machines: flat, to the host, an algorithm among hosts, and back (2.3.4); one or several nodes.

use ggas_shared_gpu::model::{Model, Nanos, Rank};
use ggas_shared_gpu::{Place, Station, Waiting, Word};

use super::machine::{Machine, us};
use super::rounds::{Host, Round, allgather, allreduce};

/// Bytes of a copy that is pipelined: the default of `MV2_CUDA_BLOCK_SIZE` in MVAPICH2's user guide.
const BLOCK: usize = 256 << 10;

/// Collectives that the text's figures have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Allreduce,
    /// Of so many bytes of each rank.
    Allgather,
}

/// How a library brings vectors to the host and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Library {
    /// By copies of all of it.
    Staged,
    /// Blocks of 256 KiB: copies of one block beside the hosts' work on another, as the text's FGP.
    Pipelined,
    /// By loads and stores of the processor, as gdrcopy.
    Mapped,
    /// By the network card, which reads and writes GPU memory of its own node for all processes of it.
    Loopback,
}

impl Machine {
    /// Microseconds of a flat collective of `ranks` processes on each of some nodes.
    pub(super) fn us_of_flat(
        &self,
        library: Library,
        call: Call,
        (nodes, ranks): (usize, usize),
        bytes: usize,
    ) -> Option<f64> {
        let all = nodes * ranks;
        let result = if call == Call::Allgather { all * bytes } else { bytes };
        let middle = |bytes: usize| self.host_ns(call, (nodes, ranks), bytes);
        match library {
            Library::Staged => self.us_of_staged(ranks, bytes, result, middle(bytes)),
            Library::Mapped => {
                // All processes' loads and stores share the lanes.
                let shared = |bytes: usize| (ranks * bytes) as f64 / self.number("pcie_gbytes_per_s");
                let alone = |bytes: usize, rate: &str| bytes as f64 / self.number(rate);
                let there =
                    self.number("load_us").max(alone(bytes, "load_gbytes_per_s").max(shared(bytes)) / 1e3);
                let back = alone(result, "store_gbytes_per_s").max(shared(result));
                let back = self.number("store_us") + back / 1e3;
                Some(there + middle(bytes) as f64 / 1e3 + back)
            }
            Library::Loopback => {
                let way = |bytes: usize| {
                    self.number("network_us")
                        + (ranks * bytes) as f64 / self.number("network_gbytes_per_s") / 1e3
                };
                Some(way(bytes) + middle(bytes) as f64 / 1e3 + way(result))
            }
            Library::Pipelined => {
                // What of a rank's bytes travels at a time; of an allgather, a block of the result.
                let block = (BLOCK * bytes / result).clamp(1, bytes);
                let part = result / bytes * block;
                let first = self.us_of_staged(ranks, block, part, middle(block))?;
                let slowest = [self.us_of_staged(ranks, block, 0, 0)?, self.us_of_staged(ranks, 0, part, 0)?]
                    .into_iter()
                    .fold(middle(block) as f64 / 1e3, f64::max);
                Some(first + (bytes.div_ceil(block) - 1) as f64 * slowest)
            }
        }
    }

    /// That among one process of each node, whose vectors are on their GPUs: the step between nodes, by the library (3.2.3, 4.2.2).
    /// What it gathers goes as is quicker.
    pub(super) fn us_between(&self, call: Call, nodes: usize, bytes: usize) -> Option<f64> {
        let staged = self.us_of_flat(Library::Staged, call, (nodes, 1), bytes)?;
        match call {
            Call::Allreduce => Some(staged),
            Call::Allgather => {
                Some(staged.min(self.us_of_flat(Library::Pipelined, call, (nodes, 1), bytes)?))
            }
        }
    }

    /// The hosts' part, by the quickest of the algorithms (2.3.3): a library that was tuned for the machine.
    fn host_ns(&self, call: Call, (nodes, ranks): (usize, usize), bytes: usize) -> Nanos {
        let all = nodes * ranks;
        let ways = Host::ALL.map(|host| match call {
            Call::Allreduce => Some(allreduce(host, all, bytes)),
            Call::Allgather => allgather(host, all, bytes),
        });
        let times = ways.into_iter().flatten().map(|rounds| self.ns_of(&rounds, ranks));
        times.min().unwrap_or_default()
    }

    /// Rounds one behind the other, of nodes with so many processes. A message goes by two copies through memory that processes share, or
    /// over the network; then it is added. A node's processes share its memory, and what it has of the network each way.
    pub(super) fn ns_of(&self, rounds: &[Round], ranks: usize) -> Nanos {
        rounds.iter().map(|round| self.ns_of_round(round, ranks)).sum()
    }

    fn ns_of_round(&self, round: &Round, ranks: usize) -> Nanos {
        let processes =
            round.messages.iter().map(|message| message.from.max(message.to) + 1).max().unwrap_or(0);
        let nodes = processes.div_ceil(ranks);
        let (mut copied, mut added) = (vec![0.0; processes], vec![0.0; processes]);
        let (mut out, mut into) = (vec![0.0; nodes], vec![0.0; nodes]);
        for message in &round.messages {
            let bytes = message.range.len() as f64;
            let (from, to) = (message.from / ranks, message.to / ranks);
            if from == to {
                copied[message.from] += 2.0 * bytes;
                copied[message.to] += 2.0 * bytes;
            } else {
                out[from] += bytes;
                into[to] += bytes;
            }
            if message.adds {
                added[message.to] += 3.0 * bytes;
            }
        }
        let most = |bytes: &[f64]| bytes.iter().copied().fold(0.0, f64::max);
        // Each by its own core, and all of a node by its memory.
        let touched = |bytes: &[f64]| {
            let of_nodes: Vec<f64> = bytes.chunks(ranks).map(|node| node.iter().sum()).collect();
            let alone = most(bytes) / self.number("core_gbytes_per_s");
            alone.max(most(&of_nodes) / self.number("host_gbytes_per_s"))
        };
        let far = most(&out).max(most(&into));
        let sent = if far > 0.0 { far / self.number("network_gbytes_per_s") } else { 0.0 };
        let is_far = round.messages.iter().any(|message| message.from / ranks != message.to / ranks);
        let start = match (round.meets, is_far) {
            (false, _) => "word_us",
            (true, false) => "message_us",
            (true, true) => "network_us",
        };
        self.us(start) + (touched(&copied).max(sent) + touched(&added)) as Nanos
    }

    /// To the host, what the hosts do meanwhile, and a result from there; of no bytes there is no copy.
    fn us_of_staged(&self, ranks: usize, bytes: usize, result: usize, middle: Nanos) -> Option<f64> {
        us(Model::new(ranks, self.clone()).run(|rank| flat(rank, bytes, result, middle)))
    }
}

async fn flat(rank: &Rank<Machine>, bytes: usize, result: usize, middle: Nanos) {
    let (me, ranks) = (Station::rank(rank), Station::ranks(rank));
    if bytes > 0 {
        rank.copy(Place::Staging(0), Place::Input(0), bytes).await;
        rank.drain().await;
        rank.store(Word::Flag(me), 1).await;
        let all = |rank: &Rank<Machine>| match (0..ranks).find(|one| rank.load(Word::Flag(*one)) == 0) {
            Some(rank) => Err(Waiting { what: "its data on the host", rank }),
            None => Ok(()),
        };
        rank.until(all).await;
    }
    rank.pass(middle).await;
    if result > 0 {
        rank.copy(Place::Output(0), Place::Staging(0), result).await;
        rank.drain().await;
    }
}

//! Processes that share a GPU, with the costs of a parameter file, and the text's baseline on them.

use std::collections::BTreeMap;

use ggas_shared_gpu::model::{Cost, Costs, Model, Nanos, Rank, Work};
use ggas_shared_gpu::{Algorithm, Lane, Layout, Place, Station, Waiting, Word, allreduce_on};

use crate::parameters::of_text;
use crate::report::Parameter;

const TEXT: &str = include_str!("k20.toml");
/// The text's shared buffer (3.2.1).
const BUFFER: usize = 256 << 20;

/// Numbers of the file by name.
#[derive(Clone, Debug)]
pub(super) struct Machine(BTreeMap<String, f64>);

/// How an allreduce is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Ours(Algorithm),
    /// Flat: to the host, reduced there by all, and back.
    Mpi,
}

pub(super) fn parameters() -> Vec<Parameter> {
    of_text(TEXT)
}

impl Machine {
    pub(super) fn k20() -> Machine {
        let number = |entry: Parameter| Some((entry.name, entry.value.parse().ok()?));
        Machine(parameters().into_iter().filter_map(number).collect())
    }

    fn number(&self, name: &str) -> f64 {
        self.0.get(name).copied().unwrap_or(f64::NAN)
    }

    fn us(&self, name: &str) -> Nanos {
        (self.number(name) * 1e3) as Nanos
    }

    fn moving(&self, bytes: usize, rate: &str) -> Nanos {
        (bytes as f64 / self.number(rate)) as Nanos
    }

    /// Microseconds from the first entering to the last leaving; `None`: it does not end.
    pub(super) fn us_of(&self, way: Way, ranks: usize, bytes: usize) -> Option<f64> {
        let layout = Layout::new(ranks, BUFFER)?;
        let model = Model::new(ranks, self.clone());
        let ends = match way {
            Way::Ours(algorithm) => model.run(|rank| allreduce_on(rank, algorithm, layout, bytes)),
            Way::Mpi => model.run(|rank| self.flat(rank, bytes)),
        };
        Some(ends.ok()?.into_iter().max()? as f64 / 1e3)
    }

    async fn flat(&self, rank: &Rank<Machine>, bytes: usize) {
        let (me, ranks) = (Station::rank(rank), Station::ranks(rank));
        rank.copy(Place::Staging(0), Place::Input(0), bytes).await;
        rank.drain().await;
        rank.store(Word::Flag(me), 1).await;
        let all = |rank: &Rank<Machine>| match (0..ranks).find(|one| rank.load(Word::Flag(*one)) == 0) {
            Some(rank) => Err(Waiting { what: "its data on the host", rank }),
            None => Ok(()),
        };
        rank.until(all).await;
        rank.pass(self.on_the_host(ranks, bytes)).await;
        rank.copy(Place::Output(0), Place::Staging(0), bytes).await;
        rank.drain().await;
    }

    /// Reduce-scatter and allgather (2.3.3): each rank sends and gets nearly twice its vector, by two copies through shared memory,
    /// and reduces one; all ranks share the host's memory.
    fn on_the_host(&self, ranks: usize, bytes: usize) -> Nanos {
        let steps = 2 * ranks.next_power_of_two().trailing_zeros();
        let touched = bytes as f64 * (2.0 * 4.0 + 3.0) * (ranks - 1) as f64;
        u64::from(steps) * self.us("message_us") + (touched / self.number("host_gbytes_per_s")) as Nanos
    }
}

impl Costs for Machine {
    fn of(&self, _: usize, work: &Work) -> Cost {
        // Without MPS the GPU serves one process at a time; copies to and from the host have an engine each.
        let (start, time, unit) = match *work {
            Work::Copy { to, from, bytes } if Lane::of(to, from) == Lane::Staged => {
                let unit = if matches!(to, Place::Staging(_)) { 1 } else { 2 };
                (self.us("staged_start_us"), self.moving(bytes, "pcie_gbytes_per_s"), unit)
            }
            Work::Copy { bytes, .. } => {
                let start = self.us("direct_start_us") + self.us("event_us");
                (start, self.moving(bytes, "gpu_gbytes_per_s"), 0)
            }
            // Each slot is read, and the result written.
            Work::Reduce { slots, bytes } => {
                (self.us("kernel_us"), self.moving((slots + 2) * bytes / 2, "gpu_gbytes_per_s"), 0)
            }
        };
        // Half of a start keeps the caller, half of it the unit.
        Cost { issue: start / 2, time: start / 2 + time, unit: Some(unit) }
    }

    fn word(&self) -> Nanos {
        self.us("word_us")
    }

    fn notice(&self) -> Nanos {
        self.us("word_us")
    }
}

//! Processes that share a GPU, with the costs of a parameter file, and the text's baseline on them.

use ggas_plot::Picture;
use ggas_shared_gpu::model::{Cost, Costs, Model, Nanos, Span, Stuck, Work};
use ggas_shared_gpu::{
    Algorithm, Collective, Copier, Lane, Layout, Place, Station, Waiting, Word, collective_on,
};

use super::flat::{Call, Library};
use crate::parameters::{Numbers, of_text};
use crate::{Checked, Figure, PaperError, Report, Settings, Verdict};

const K20: &str = include_str!("k20.toml");
const K80: &str = include_str!("k80.toml");
const ODIN: &str = include_str!("odin.toml");
/// The text's shared buffer (3.2.1).
const BUFFER: usize = 256 << 20;

/// Each case with each size, which is a power of two.
pub(super) fn by_size<C: Copy>(
    cases: impl IntoIterator<Item = C>,
    powers: impl Iterator<Item = u32> + Clone,
) -> impl Iterator<Item = (C, usize)> {
    cases.into_iter().flat_map(move |case| powers.clone().map(move |power| (case, 1 << power)))
}

/// Processes on one GPU, or on several.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    name: &'static str,
    text: &'static str,
    numbers: Numbers,
    /// Processes of each GPU.
    per_gpu: usize,
    /// Ranks have a GPU each, and their inboxes, of so many bytes, lie on them; 0: all copies go to or from one GPU.
    between: Option<usize>,
    /// Work of several processes is on the GPU at once.
    has_mps: bool,
}

/// How an allreduce is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Ours(Algorithm),
    /// Flat: to the host, reduced there by all, and back.
    Mpi,
}

impl Machine {
    pub(super) fn k20() -> Machine {
        Machine::of("k20", K20)
    }

    pub(super) fn k80() -> Machine {
        Machine::of("k80", K80)
    }

    /// With MPS and without.
    pub(super) fn odin(has_mps: bool) -> Machine {
        Machine { has_mps, ..Machine::of("odin", ODIN) }
    }

    fn of(name: &'static str, text: &'static str) -> Machine {
        Machine { name, text, numbers: Numbers::of(text), per_gpu: usize::MAX, between: None, has_mps: false }
    }

    /// A report of a figure on this machine, without rows.
    pub(super) fn report(
        &self,
        (figure, settings): (&Figure, &Settings),
        columns: &'static [&'static str],
        claims: Vec<Verdict>,
        picture: Picture,
    ) -> Result<Report, PaperError> {
        let mut report = Report {
            parameters: of_text(self.text),
            claims,
            checked: Checked::default(),
            ..Report::of("faraji", figure, settings, &settings.system("infiniband")?, columns, picture)
        };
        report.systems = vec![format!("faraji-{}", self.name)];
        report.notes.push(format!(
            "The text tells no times of copies and kernels: starts are assumed, rates are of data sheets ({}.toml).",
            self.name
        ));
        Ok(report)
    }

    pub(super) fn number(&self, name: &str) -> f64 {
        self.numbers.get(name)
    }

    pub(super) fn us(&self, name: &str) -> Nanos {
        (self.number(name) * 1e3) as Nanos
    }

    fn moving(&self, bytes: usize, rate: &str) -> Nanos {
        (bytes as f64 / self.number(rate)) as Nanos
    }

    /// Microseconds from the first entering to the last leaving; `None`: it does not end.
    pub(super) fn us_of(&self, way: Way, ranks: usize, bytes: usize) -> Option<f64> {
        match way {
            Way::Ours(algorithm) => self.part(Collective::Allreduce, algorithm, ranks, bytes),
            Way::Mpi => self.us_of_flat(Library::Staged, Call::Allreduce, (1, ranks), bytes),
        }
    }

    /// The same of an allgather of so many bytes of each.
    pub(super) fn us_of_gather(&self, way: Way, ranks: usize, bytes: usize) -> Option<f64> {
        match way {
            Way::Ours(algorithm) => self.part(Collective::Allgather, algorithm, ranks, bytes),
            Way::Mpi => self.us_of_flat(Library::Staged, Call::Allgather, (1, ranks), bytes),
        }
    }

    /// What a collective's copies were: served in this order.
    pub(super) fn spans_of(&self, algorithm: Algorithm, ranks: usize, bytes: usize) -> Vec<Span> {
        let model = Model::new(ranks, self.clone());
        let Some(layout) = Layout::new(ranks, BUFFER) else { return Vec::new() };
        let done = model.run(|rank| collective_on(rank, Collective::Allreduce, algorithm, layout, bytes));
        done.map(|_| model.spans()).unwrap_or_default()
    }

    /// Pairs that send at once, the first `direct` of them directly and the others through the host: from the first sending to the
    /// last having it.
    pub(super) fn us_of_pairs(&self, pairs: usize, direct: usize, bytes: usize) -> Option<f64> {
        us(Model::new(2 * pairs, self.clone()).run(|rank| async move {
            let me = Station::rank(rank);
            let (pair, sends) = (me / 2, me.is_multiple_of(2));
            let (shared, staging) = (Place::Shared(pair * bytes), Place::Staging(pair * bytes));
            if sends {
                let to = if pair < direct { shared } else { staging };
                rank.copy(to, Place::Input(0), bytes).await;
                rank.drain().await;
                rank.store(Word::Flag(me), 1).await;
                return;
            }
            let waiting = Waiting { what: "its message", rank: me - 1 };
            rank.until(|rank| if rank.load(Word::Flag(me - 1)) == 1 { Ok(()) } else { Err(waiting) }).await;
            if pair >= direct {
                rank.copy(Place::Output(0), staging, bytes).await;
                rank.drain().await;
            }
        }))
    }

    /// With another number of its file.
    pub(super) fn with(&self, name: &str, value: f64) -> Machine {
        Machine { numbers: self.numbers.with(name, value), ..self.clone() }
    }

    /// With ranks spread over the GPUs of a node, so many on each.
    pub(super) fn with_gpus_of(&self, per_gpu: usize) -> Machine {
        Machine { per_gpu, ..self.clone() }
    }

    /// Inside the GPUs of each node, between them, between nodes, and back; with one GPU or one node, without that step (3.2.3, 4.2).
    /// An allreduce.
    pub(super) fn us_of_levels(
        &self,
        (inside, between): (Algorithm, Algorithm),
        (nodes, gpus, per_gpu): (usize, usize, usize),
        bytes: usize,
    ) -> Option<f64> {
        let inbox = if between == Algorithm::Btb { Layout::new(gpus, BUFFER)?.chunk(between) } else { 0 };
        let leaders = Machine { between: Some(inbox), ..self.clone() };
        let both = |machine: &Machine, algorithm: Algorithm, ranks: usize| {
            let part = |collective| machine.part(collective, algorithm, ranks, bytes);
            Some(part(Collective::Reduce)? + part(Collective::Broadcast)?)
        };
        let between = match (nodes, gpus) {
            (_, 1) => 0.0,
            (1, _) => leaders.part(Collective::Allreduce, between, gpus, bytes)?,
            _ => both(&leaders, between, gpus)?,
        };
        let nodes = if nodes > 1 { self.us_between(Call::Allreduce, nodes, bytes)? } else { 0.0 };
        Some(both(self, inside, per_gpu)? + between + nodes)
    }

    /// A reduction to rank 0.
    pub(super) fn us_of_reduce(&self, way: Algorithm, ranks: usize, bytes: usize) -> Option<f64> {
        self.part(Collective::Reduce, way, ranks, bytes)
    }

    /// The same without its kernel, but with the start of a copy of the leader's: all vectors in the buffer.
    pub(super) fn us_of_gathering(&self, way: Algorithm, ranks: usize, bytes: usize) -> Option<f64> {
        let kernel = Costs::of(self, 0, &Work::Reduce { slots: ranks - 1, bytes });
        let own = Costs::of(
            self,
            0,
            &Work::Copy { to: Place::Shared(0), from: Place::Input(0), bytes, by: Copier::Engine },
        );
        let reduce = self.us_of_reduce(way, ranks, bytes)?;
        Some(reduce + (own.issue as f64 - (kernel.issue + kernel.time) as f64) / 1e3)
    }

    fn part(&self, collective: Collective, algorithm: Algorithm, ranks: usize, bytes: usize) -> Option<f64> {
        let layout = Layout::new(ranks, BUFFER)?;
        let act = |rank| collective_on(rank, collective, algorithm, layout, bytes);
        us(Model::new(ranks, self.clone()).run(act))
    }

    /// The GPU of a byte of the buffer.
    fn owner(&self, at: usize) -> usize {
        self.between.filter(|inbox| *inbox > 0).map_or(0, |inbox| 2 * (at / inbox))
    }

    /// Whether a copy goes from GPU to GPU.
    fn is_far(&self, rank: usize, to: Place, from: Place) -> bool {
        let is_other = |place| matches!(place, Place::Shared(at) if self.owner(at) != rank);
        self.between.is_some() && (is_other(to) || is_other(from))
    }
}

pub(super) fn us(ends: Result<Vec<Nanos>, Stuck>) -> Option<f64> {
    Some(ends.ok()?.into_iter().max()? as f64 / 1e3)
}

/// Units of the machine: GPUs, and the ways into and out of each.
fn unit(kind: usize, gpu: usize) -> u32 {
    (kind + 4 * gpu) as u32
}

impl Costs for Machine {
    fn of(&self, rank: usize, work: &Work) -> Cost {
        let gpu = if self.between.is_some() { rank } else { rank / self.per_gpu };
        // Without MPS the GPU serves one process at a time; copies to and from the host have an engine each.
        let (start, time, unit) = match *work {
            Work::Copy { to, from, bytes, .. } if Lane::of(to, from) == Lane::Staged => {
                let unit = unit(if matches!(to, Place::Staging(_)) { 1 } else { 2 }, gpu);
                (self.us("staged_start_us"), self.moving(bytes, "pcie_gbytes_per_s"), unit)
            }
            // The way into or out of the GPU that holds the buffer; rank 0 and who owns an inbox are there.
            Work::Copy { to, from, bytes, .. } if self.is_far(rank, to, from) => {
                let start = self.us("direct_start_us") + self.us("event_us");
                let unit = match (to, from) {
                    (Place::Shared(at), _) => unit(1, self.owner(at)),
                    (_, Place::Shared(at)) => unit(2, self.owner(at)),
                    _ => unit(0, gpu),
                };
                (start, self.moving(bytes, "peer_gbytes_per_s"), unit)
            }
            Work::Copy { bytes, .. } => {
                let start = self.us("direct_start_us") + self.us("event_us");
                (start, self.moving(bytes, "gpu_gbytes_per_s"), unit(0, gpu))
            }
            // Each slot is read, and the result written.
            Work::Reduce { slots, bytes } => {
                (self.us("kernel_us"), self.moving((slots + 2) * bytes / 2, "gpu_gbytes_per_s"), unit(0, gpu))
            }
        };
        if self.has_mps {
            // Starts overlap, but for the events behind direct copies.
            let is_direct =
                matches!(work, Work::Copy { to, from, .. } if Lane::of(*to, *from) == Lane::Direct);
            let event = if is_direct { self.us("event_us") } else { 0 };
            return Cost { issue: start - event, time: event + time, unit: Some(unit) };
        }
        // Half of a start keeps the caller, half of it the unit, which has gone from another process to this one before.
        let switch = if self.numbers.has("switch_us") { self.us("switch_us") } else { 0 };
        Cost { issue: start / 2, time: start / 2 + switch + time, unit: Some(unit) }
    }

    fn word(&self) -> Nanos {
        self.us("word_us")
    }

    fn notice(&self) -> Nanos {
        self.us("word_us")
    }
}

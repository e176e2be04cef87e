//! The calls.

use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

use ggas_clock::{Clock, Ladder};
use ggas_kernels::Processor;
use ggas_members::cores::{Cores, are_crowded};
use ggas_members::{Job, cores};

use crate::call::Call;
use crate::circle::{Circle, World};
use crate::host::{CROWDED_MIN, SHARED_MIN};
use crate::learning::Learning;
use crate::memory::Shared;
use crate::mps::Before;
use crate::peers::{self, Peers};
use crate::plan::{Cursor, Plan};
use crate::process::{Engine, HostWords, Process, Seen};
use crate::rules::{self, Sharing};
use crate::station::Word;
use crate::vector::check_apart;
use crate::{
    Algorithm, Choices, Collective, Config, Copier, Directory, Element, Layout, Mix, Op, SharedGpuError,
    Vector, kernel,
};

/// This process as one of several that share a GPU, and make collectives through memory on it.
///
/// All ranks make the same calls in the same order. The order of additions is that of ranks (GSB) or of a binomial tree (BTB), so
/// each run gives the same bits.
///
/// ```
/// use ggas_kernels::Processor;
/// use ggas_members::Job;
/// use ggas_shared_gpu::{Config, Element, Op, SharedGpu, Vector};
///
/// let (job, cpu) = (Job::join()?, Processor::cpu());
/// let mut shared = SharedGpu::new(&job, &cpu, &Config::default())?;
/// let numbers = cpu.alloc(8 * 1000)?;
/// let vector = Vector::at(&numbers, 0);
/// shared.allreduce(vector, vector, 1000, Element::Double, Op::Sum)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SharedGpu {
    process: Process,
    layout: Layout,
    algorithm: Option<Algorithm>,
    /// What the next calls take where none is forced.
    taken: Option<Algorithm>,
    /// Of the table, those for these ranks.
    choices: Vec<Choices>,
    sharing: Sharing,
    /// Ranks share cores.
    is_crowded: bool,
    cursor: Cursor,
    /// Of rank 0.
    learning: Learning,
    broken: bool,
}

impl SharedGpu {
    /// Sets up what the ranks of a job share. Collective: all call it, with the same `config` and GPU. On the CPU executor the
    /// "GPU's memory" is memory that all processes map.
    ///
    /// # Errors
    /// [`SharedGpuError::Unequal`], [`SharedGpuError::SmallBuffer`], [`SharedGpuError::LargeBuffer`], [`SharedGpuError::TooMany`],
    /// [`SharedGpuError::OtherHost`] on all ranks; [`SharedGpuError::Gpu`] where the GPU cannot share memory, [`SharedGpuError::Peer`] on the others;
    /// [`SharedGpuError::Job`] where a rank does not come; [`SharedGpuError::NoStates`] at once.
    pub fn new(job: &Job, processor: &Processor, config: &Config) -> Result<SharedGpu, SharedGpuError> {
        let all = Circle::all(World::all(job, config.timeout));
        SharedGpu::of(&all, processor, config, true)?.ok_or(SharedGpuError::Broken)
    }

    /// The same of some ranks, which may have a GPU each; `None` at the others, who take part in the set-up.
    pub(crate) fn of(
        circle: &Circle<'_>,
        processor: &Processor,
        config: &Config,
        is_one_gpu: bool,
    ) -> Result<Option<SharedGpu>, SharedGpuError> {
        if config.algorithm.is_some_and(Algorithm::has_states) && config.directory != Directory::Host {
            return Err(SharedGpuError::NoStates);
        }
        let ends = circle.world().watch();
        let shared = Shared::new(circle, processor, config, is_one_gpu)?;
        let is_crowded = share_cores(circle)?;
        let made = shared.zip(circle.rank()).map(|((shared, layout), rank)| {
            let mps = matches!(processor, Processor::Gpu(_)).then(Before::find);
            let with_mps = mps.as_ref().is_some_and(Before::is_on);
            let process = Process {
                rank,
                of_job: circle.members()[rank] as usize,
                members: circle.members().to_vec(),
                ranks: circle.ranks(),
                engine: engine(processor)?,
                seen: (config.directory != Directory::Host)
                    .then(|| seen(processor, circle.ranks()))
                    .transpose()?,
                partial: processor.alloc(layout.partial())?,
                peers: Peers::of(processor),
                reaches: false,
                shared,
                directory: config.directory,
                timeout: config.timeout,
                ladder: if is_crowded { Ladder::CROWDED } else { Ladder::SHORT },
                mps,
                ends,
                calls: AtomicU32::new(0),
            };
            let sharing = match processor {
                Processor::Gpu(_) if is_one_gpu && !with_mps => Sharing::Turns,
                Processor::Gpu(_) => Sharing::AtOnce,
                _ => Sharing::Cores,
            };
            Ok(SharedGpu {
                // Its entries are of ranks that share one GPU.
                choices: if is_one_gpu {
                    choices(config, processor, circle.ranks(), with_mps)
                } else {
                    Vec::new()
                },
                process,
                layout,
                algorithm: config.algorithm,
                taken: None,
                sharing,
                is_crowded,
                cursor: Cursor::default(),
                learning: Learning::default(),
                broken: false,
            })
        });
        let mut made = circle.agree(made.transpose())?;
        let mine = made.as_ref().filter(|made| made.may_be_direct());
        let reaches = peers::reach(circle, mine.map(|made| (&made.process.peers, &made.process.partial)))?;
        made.iter_mut().for_each(|made| made.process.reaches = reaches);
        Ok(made)
    }

    /// Whether its configuration has broadcasts from the root's own vector.
    fn may_be_direct(&self) -> bool {
        let by_size = self.choices.iter().flat_map(|choices| &choices.by_size);
        self.algorithm
            .into_iter()
            .chain(by_size.map(|choice| choice.algorithm))
            .any(|one| one == Algorithm::Direct)
    }

    /// This rank.
    pub fn rank(&self) -> usize {
        self.process.rank
    }

    /// All ranks.
    pub fn ranks(&self) -> usize {
        self.process.ranks
    }

    /// Bounds each wait of the next calls for another rank; ranks may differ.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.process.timeout = timeout;
    }

    /// The algorithm for results of so many bytes, of a call whose root, if it has one, is rank 0: what the configuration forces;
    /// else that of its table, if it has one for these ranks and MPS as it is; else what was measured on an H200, with MPS and
    /// without: short vectors through host memory; longer ones by GSB, which the text found never slower than BTB on one GPU
    /// (3.3.2), or without MPS by copies through the host.
    pub fn choice(&self, collective: Collective, bytes: usize) -> Algorithm {
        self.choice_at(collective, 0, bytes)
    }

    fn choice_at(&self, collective: Collective, root: usize, bytes: usize) -> Algorithm {
        let is_on_host = self.process.directory == Directory::Host;
        if collective == Collective::Barrier {
            return if is_on_host { Algorithm::Host } else { Algorithm::Gsb };
        }
        // Where processes do not reach each other's vectors.
        let possible = |algorithm| match algorithm {
            Algorithm::Direct if !self.process.reaches => Algorithm::Gsb,
            algorithm => algorithm,
        };
        if let Some(algorithm) = self.algorithm {
            return possible(algorithm);
        }
        let measured = || self.choices.iter().find(|choices| choices.collective == collective);
        let measured = self.taken.or_else(|| measured()?.algorithm(bytes));
        let built_in = || rules::built_in(self.sharing, collective, self.ranks(), root == 0, bytes);
        let algorithm = measured.map_or_else(built_in, possible);
        if is_on_host || !algorithm.has_states() { algorithm } else { Algorithm::Gsb }
    }

    /// `output` of all ranks: all ranks' `input`, reduced. `output` may be `input`.
    ///
    /// # Errors
    /// [`SharedGpuError::Range`], [`SharedGpuError::Overlap`], [`SharedGpuError::Bits`] before anything is done; [`SharedGpuError::Mismatch`],
    /// [`SharedGpuError::Timeout`], [`SharedGpuError::PeerLost`], [`SharedGpuError::Elsewhere`], [`SharedGpuError::Gpu`],
    /// [`SharedGpuError::MpsEnded`] end the use of `self`.
    pub fn allreduce(
        &mut self,
        input: Vector<'_>,
        output: Vector<'_>,
        count: usize,
        element: Element,
        op: Op,
    ) -> Result<(), SharedGpuError> {
        let places = (input.check(count, element)?, output.check(count, element)?);
        self.call((Collective::Allreduce, 0), places, count * element.size(), (element, Some(op)))
    }

    /// `output` of `root`: all ranks' `input`, reduced; the other ranks' `output` is not touched.
    ///
    /// # Errors
    /// As [`allreduce`](Self::allreduce); [`SharedGpuError::Root`].
    pub fn reduce(
        &mut self,
        root: usize,
        input: Vector<'_>,
        output: Vector<'_>,
        count: usize,
        element: Element,
        op: Op,
    ) -> Result<(), SharedGpuError> {
        let own = if self.rank() == root { output.check(count, element)? } else { 0 };
        let places = (input.check(count, element)?, own);
        self.call((Collective::Reduce, root), places, count * element.size(), (element, Some(op)))
    }

    /// `vector` of all ranks becomes that of `root`.
    ///
    /// # Errors
    /// As [`reduce`](Self::reduce).
    pub fn broadcast(
        &mut self,
        root: usize,
        vector: Vector<'_>,
        count: usize,
        element: Element,
    ) -> Result<(), SharedGpuError> {
        let place = vector.check(count, element)?;
        self.call((Collective::Broadcast, root), (place, place), count * element.size(), (element, None))
    }

    /// `output` of all ranks: the `count` elements at `input` of each, in the order of ranks. `input` may be this rank's part of it.
    ///
    /// # Errors
    /// As [`allreduce`](Self::allreduce).
    pub fn allgather(
        &mut self,
        input: Vector<'_>,
        output: Vector<'_>,
        count: usize,
        element: Element,
    ) -> Result<(), SharedGpuError> {
        let all = count.saturating_mul(self.ranks());
        let places = (input.check(count, element)?, output.check(all, element)?);
        self.call((Collective::Allgather, 0), places, count * element.size(), (element, None))
    }

    /// `output` of all ranks: from each rank, in their order, those `count` of the elements at its `input` that are for this one; they
    /// lie there in the order of ranks, too. `input` and `output` do not overlap.
    ///
    /// # Errors
    /// As [`allreduce`](Self::allreduce); [`SharedGpuError::SmallBuffer`] where not a word for each rank of each fits.
    pub fn alltoall(
        &mut self,
        input: Vector<'_>,
        output: Vector<'_>,
        count: usize,
        element: Element,
    ) -> Result<(), SharedGpuError> {
        let all = count.saturating_mul(self.ranks());
        let places = (input.check(all, element)?, output.check(all, element)?);
        self.call((Collective::Alltoall, 0), places, count * element.size(), (element, None))
    }

    /// `output` of all ranks: this rank's `count` elements of all ranks' `input`, reduced, which has as many for each rank. `input` and
    /// `output` do not overlap.
    ///
    /// # Errors
    /// As [`allreduce`](Self::allreduce).
    pub fn reduce_scatter(
        &mut self,
        input: Vector<'_>,
        output: Vector<'_>,
        count: usize,
        element: Element,
        op: Op,
    ) -> Result<(), SharedGpuError> {
        let all = count.saturating_mul(self.ranks());
        let places = (input.check(all, element)?, output.check(count, element)?);
        self.call((Collective::ReduceScatter, 0), places, all * element.size(), (element, Some(op)))
    }

    /// Ends once all ranks have called it. What their GPUs were given before need not be done.
    ///
    /// # Errors
    /// As [`allreduce`](Self::allreduce), but for the first three.
    pub fn barrier(&mut self) -> Result<(), SharedGpuError> {
        self.call((Collective::Barrier, 0), (0, 0), 0, (Element::Float, None))
    }

    /// The next calls take this where none is forced; `None`: as [`choice`](Self::choice) says.
    pub(crate) fn take(&mut self, algorithm: Option<Algorithm>) {
        self.taken = algorithm;
    }

    /// How the work of its ranks gets onto their processor; `None` where its directory is on the GPU, which not all algorithms can have.
    pub(crate) fn sharing(&self) -> Option<Sharing> {
        (self.process.directory == Directory::Host).then_some(self.sharing)
    }

    /// Whether MPS was on at the set-up.
    pub(crate) fn has_mps(&self) -> bool {
        self.process.mps.as_ref().is_some_and(Before::is_on)
    }

    /// Whether a call failed, here or by [`fail`](Self::fail): there are no more.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken
    }

    /// How this rank waits.
    pub(crate) fn ladder(&self) -> Ladder {
        self.process.ladder
    }

    /// How the copies of the last chunk of an allreduce were made, at rank 0, by the static and the dynamic algorithm.
    pub fn mix(&self) -> Mix {
        self.cursor.mix
    }

    /// Ends the use of this and of all other ranks': what they do together failed elsewhere, by this.
    pub(crate) fn fail(&mut self, error: &SharedGpuError) {
        self.process.fail(error);
        self.broken = true;
    }

    fn call(
        &mut self,
        (kind, root): (Collective, usize),
        places: (u64, u64),
        bytes: usize,
        (element, op): (Element, Option<Op>),
    ) -> Result<(), SharedGpuError> {
        if op.is_some_and(Op::is_bitwise) && !element.is_whole() {
            return Err(SharedGpuError::Bits);
        }
        let ranks = self.ranks();
        if root >= ranks {
            return Err(SharedGpuError::Root { root, ranks });
        }
        check_apart(kind, places, bytes, (self.rank(), ranks))?;
        if self.broken {
            return Err(SharedGpuError::Broken);
        }
        let result = if kind.gathers() { ranks * bytes } else { bytes };
        let plan = Plan {
            kind,
            algorithm: self.choice_at(kind, root, result),
            bytes,
            element,
            op,
            root,
            layout: self.layout,
            copiers: &Copier::ALL,
            shared_min: if self.is_crowded { CROWDED_MIN } else { SHARED_MIN },
            #[cfg(test)]
            defect: None,
        };
        let mut cursor = self.cursor;
        plan.check()?;
        // The ranks do what the leader, rank 0, assigns.
        let learns = self.rank() == 0 && plan.used() == Algorithm::Dynamic && ranks > 1;
        cursor.learned = if learns { self.learning.next(kind, bytes, ranks) } else { None };
        let began = Clock::REAL.now();
        let call = Call::new(&self.process, places, element, op.unwrap_or(Op::Sum));
        let done = call.block_on(plan.run(&call, &mut cursor));
        self.cursor = cursor;
        self.broken = done.is_err();
        if learns {
            self.learning.took(kind, bytes, Clock::REAL.now().saturating_duration_since(began));
        }
        done
    }
}

impl fmt::Debug for SharedGpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedGpu").field("rank", &self.rank()).field("ranks", &self.ranks()).finish()
    }
}

/// What copies and reduces for a rank.
fn engine(processor: &Processor) -> Result<Engine, SharedGpuError> {
    kernel::add()?;
    Ok(match processor {
        Processor::Gpu(gpu) => {
            let device = gpu.device();
            let lanes = [device.stream()?, device.stream()?, device.stream()?];
            Engine::Gpu { module: kernel::load(device)?, lanes, looks: device.stream()? }
        }
        _ => Engine::Cpu(processor.clone()),
    })
}

/// Of the table, those for these ranks.
fn choices(config: &Config, processor: &Processor, ranks: usize, with_mps: bool) -> Vec<Choices> {
    config.table.find(device(processor), ranks, with_mps).cloned().collect()
}

/// The kind of a processor, as tables name it.
pub(crate) fn device(processor: &Processor) -> &str {
    match processor {
        Processor::Gpu(gpu) => gpu.device().info().name.as_str(),
        _ => "cpu",
    }
}

/// Whether the ranks have fewer cores than they are: all are told the same.
fn share_cores(circle: &Circle<'_>) -> Result<bool, SharedGpuError> {
    let own: Vec<u8> = cores::own().into_iter().flat_map(u64::to_ne_bytes).collect();
    let all = circle.exchange(&own)?;
    Ok(are_crowded(all.iter().map(|said| {
        let mut cores = Cores::default();
        let words = said.as_chunks().0.iter().copied().map(u64::from_ne_bytes);
        cores.iter_mut().zip(words).for_each(|(core, word)| *core = word);
        cores
    })))
}

/// Host memory for what is seen of a directory on the GPU.
fn seen(processor: &Processor, ranks: usize) -> Result<Seen, SharedGpuError> {
    let number = Word::count(ranks);
    let words: Box<[AtomicU64]> = (0..number).map(|_| AtomicU64::new(0)).collect();
    // SAFETY: the box lives as long as the registration beside it, which is declared before; all use of it is atomic.
    let mapped = unsafe { processor.map_host(words.as_ptr() as *mut u8, 8 * number) }?;
    Ok(Seen { words: HostWords { mapped, words }, number })
}

//! Processes that share a GPU, and measure collectives of theirs: by one algorithm after another.

use std::collections::BTreeMap;
use std::hash::Hasher;
use std::time::{Duration, Instant};

use ggas_coll::Tuning;
use ggas_kernels::{KernelMem, Processor};
use ggas_members::Job as Ranks;
use ggas_shared_gpu::{
    Algorithm, Collective, Config, Element, Hierarchy, HierarchyConfig, LEARNING_CALLS, Levels, Op,
    SharedGpu, Table, Vector,
};

use crate::error::Doing;
use crate::job::{Job, Line};
use crate::shared_methods::{algorithm, forced, has_lost, text, time_left};
use crate::shared_vectors::Vectors;
use crate::stats::Samples;
use crate::{BenchError, Device, Options, cores};

/// How the names of these benchmarks begin.
pub(crate) const NAMES: &str = "shared-gpu-";
/// Bytes up to which a round has all of a job's operations, as of Open MPI's side.
const SMALL: u64 = 8192;
/// After so long a size has no more rounds, but it has so many; one less in a table that is late.
const ROUNDS: Duration = Duration::from_millis(200);
const ROUNDS_MIN: u32 = 3;
/// Each size is made for so long before it is timed; the same where there is a limit.
const WARM: Duration = Duration::from_millis(50);
const WARM_CELL: Duration = Duration::from_millis(10);
/// How the word begins that says so of a job whose cells have so long on average, in ms.
const LIMIT: &str = "within:";
/// How the word begins that says on how many GPUs processes are, by turns.
const GPUS: &str = "gpus:";
pub(crate) const WITHIN: Duration = Duration::from_secs(60);

type Outcome = Result<(), BenchError>;

/// Name of a collective's benchmark, where there is one.
pub(crate) fn bench(collective: Collective) -> &'static str {
    match collective {
        Collective::Allreduce => "shared-gpu-allreduce",
        Collective::Reduce => "shared-gpu-reduce",
        Collective::Broadcast => "shared-gpu-broadcast",
        Collective::Allgather => "shared-gpu-allgather",
        Collective::Alltoall => "shared-gpu-alltoall",
        Collective::ReduceScatter => "shared-gpu-reduce-scatter",
        Collective::Barrier => "shared-gpu-barrier",
    }
}

/// A job of processes that measure methods one behind the other, as a start of many on one GPU takes seconds. With `within`, each
/// size has as many operations, but no more than those of the first rounds once the cells so far took so long each.
pub(crate) fn job(
    collective: Collective,
    methods: &[String],
    options: &Options,
    (rounds, trips): (u32, u32),
    (sizes, within): (Vec<u64>, Option<Duration>),
) -> Job {
    let mut words = vec![bench(collective).to_owned(), options.device.to_string()];
    words.push(format!("{GPUS}{}", options.gpus));
    words.extend(within.map(|within| format!("{LIMIT}{}", within.as_millis())));
    words.extend_from_slice(methods);
    Job { bench: words.join(" "), rounds, trips, seed: options.seed, sizes }
}

/// Is a process of such a job.
pub(crate) fn part(job: &Job) -> Outcome {
    let none = || BenchError::Unsupported(format!("{} is none of the shared GPU's benchmarks", job.bench));
    let mut words = job.bench.split(' ').peekable();
    let own = words.next().unwrap_or_default();
    let collective = Collective::TUNED.into_iter().find(|one| bench(*one) == own).ok_or_else(none)?;
    let device: Device = words.next().unwrap_or_default().parse()?;
    let ranks = Ranks::join().doing("joining the job")?;
    cores::pin(ranks.rank() as usize, ranks.size() as usize, None)?;
    let gpus = words.next_if(|word| word.starts_with(GPUS));
    let gpus = gpus.and_then(|word| word[GPUS.len()..].parse().ok()).unwrap_or(1_u32).max(1);
    let gpu = ranks.rank() % gpus;
    let processor = match device {
        Device::Cpu => Processor::cpu(),
        Device::Gpu => Processor::gpu(gpu as usize).doing("opening the GPU")?,
    };
    let most = job.sizes.iter().copied().max().unwrap_or(0) as usize;
    // A part of a vector is a float at least.
    let least = 4 * ranks.size() as usize;
    let alloc = || processor.alloc(most.max(least)).doing("taking memory for vectors");
    let (input, output) = (alloc()?, alloc()?);
    let within = words.next_if(|word| word.starts_with(LIMIT));
    let within = within.and_then(|word| word[LIMIT.len()..].parse().ok()).map(Duration::from_millis);
    let mut best = BTreeMap::new();
    let (mut cell, first) = (0, Instant::now());
    for method in words {
        let shared = Shared::new(&ranks, &processor, method, (gpu, gpus))?;
        let mut side =
            Side { ranks: &ranks, job, within, collective, shared, input: &input, output: &output, best };
        for bytes in &job.sizes {
            // At rank 0, whose clock counts.
            side.within = within.map(|each| time_left(each, cell, first.elapsed()));
            cell += 1;
            if let Some(text) =
                side.measure(method, *bytes)?.and_then(|line| serde_json::to_string(&line).ok())
            {
                println!("{text}");
            }
        }
        best = side.best;
        ranks.barrier(WITHIN).doing("meeting the other processes")?;
    }
    Ok(())
}

/// Processes on one GPU, or on several, of one host or more.
pub(crate) enum Shared {
    One(Box<SharedGpu>),
    Several(Box<Hierarchy>),
}

impl Shared {
    fn new(
        ranks: &Ranks,
        processor: &Processor,
        method: &str,
        (gpu, gpus): (u32, u32),
    ) -> Result<Shared, BenchError> {
        let none = || BenchError::Unsupported(format!("{method} is no method on {gpus} GPUs"));
        let of = |algorithm, table| Config { algorithm, table, timeout: WITHIN, ..Config::default() };
        if gpus == 1 {
            let algorithm = algorithm(method, ranks.size() as usize).ok_or_else(none)?;
            let config = of(algorithm, Tuning::of_host().shared_gpu);
            let shared = SharedGpu::new(ranks, processor, &config).doing("beginning to share the GPU")?;
            return Ok(Shared::One(Box::new(shared)));
        }
        let forced = forced(method).ok_or_else(none)?;
        let config = HierarchyConfig {
            inside: of(forced.inside, Tuning::of_host().shared_gpu),
            between: of(forced.between, Table::default()),
            flat: forced.flat,
            gpu: Some(gpu),
            ..HierarchyConfig::default()
        };
        let all = Hierarchy::new(ranks, None, processor, &config).doing("beginning to share GPUs")?;
        Ok(Shared::Several(Box::new(all)))
    }
}

pub(crate) struct Side<'a> {
    pub(crate) ranks: &'a Ranks,
    pub(crate) job: &'a Job,
    pub(crate) within: Option<Duration>,
    pub(crate) collective: Collective,
    pub(crate) shared: Shared,
    pub(crate) input: &'a KernelMem,
    pub(crate) output: &'a KernelMem,
    /// This process's quickest round of all methods so far, by bytes, in ns.
    pub(crate) best: BTreeMap<u64, f64>,
}

/// Numbers whose sums round, so that the order of additions shows; or, between hosts, where a rank does not know in which order others
/// add, those of 256 ranks are exact.
fn value(is_exact: bool, seed: u64, rank: usize, at: usize) -> f32 {
    let mixed = (at as u32).wrapping_mul(0x9e37_79b1) ^ (seed as u32) ^ (rank as u32) << 16;
    if is_exact { (mixed >> 16) as f32 } else { (mixed >> 8) as f32 / (rank as f32 + 3.0) }
}

impl Side<'_> {
    /// At rank 0 the figures.
    pub(crate) fn measure(&mut self, method: &str, bytes: u64) -> Result<Option<Line>, BenchError> {
        let (me, ranks) = (self.ranks.rank() as usize, self.ranks.size() as usize);
        let vectors = Vectors::new(self.collective, me, ranks, bytes);
        let [input, _] = vectors.floats();
        let own: Vec<u8> = (0..input).flat_map(|at| self.value(me, at).to_ne_bytes()).collect();
        self.input.write(0, &own).doing("filling a vector")?;
        let first = self.checked(&own, &vectors)?;
        let learns = if method == "dynamic" { LEARNING_CALLS } else { 0 };
        (0..learns).try_for_each(|_| self.call(vectors.count))?;
        self.warm(vectors.count)?;
        let (trips, within) = match self.within {
            Some(within) => (self.job.trips.into(), within),
            None => ((u64::from(self.job.trips) * SMALL / bytes.max(SMALL)).max(2), ROUNDS),
        };
        let least = if within.is_zero() { ROUNDS_MIN - 1 } else { ROUNDS_MIN };
        let (mut times, start) = (Vec::new(), Instant::now());
        for round in 0..self.job.rounds {
            let is_late = round >= least && start.elapsed() > within
                || (self.within.is_some() && has_lost(self.best.get(&bytes), &times));
            let said =
                self.ranks.exchange(&[u8::from(is_late)], WITHIN).doing("meeting the other processes")?;
            if said[0] == [1] {
                break;
            }
            // An exchange lets its processes go one after the other, hundreds of microseconds apart where they share cores: a round
            // begins behind a barrier of the library's, as Open MPI's does.
            self.meet()?;
            let began = Instant::now();
            (0..trips).try_for_each(|_| self.call(vectors.count))?;
            times.push(began.elapsed().as_nanos() as f64 / trips as f64);
        }
        let quickest = times.iter().copied().fold(f64::INFINITY, f64::min);
        self.best.entry(bytes).and_modify(|best| *best = best.min(quickest)).or_insert(quickest);
        let copies = self.copies();
        // A table's cells are checked once: of long vectors that takes longer than their calls.
        let again = if self.within.is_some() { (first.0, 0) } else { self.checked(&own, &vectors)? };
        // What is right but for its bits is not the same sum.
        let unlike = u64::from(first.0 != again.0);
        let runs = trips * times.len() as u64;
        self.say(method, bytes, (times, runs, copies), first.1 + again.1 + unlike)
    }

    /// A GPU that has rested, and what is used for the first time, may be slow for a while: each size is timed behind that.
    fn warm(&mut self, count: usize) -> Outcome {
        let least = if self.within.is_some() { WARM_CELL } else { WARM };
        let (mut trips, start) = (1, Instant::now());
        loop {
            (0..trips).try_for_each(|_| self.call(count))?;
            let is_warm = [u8::from(start.elapsed() >= least)];
            let said = self.ranks.exchange(&is_warm, WITHIN).doing("meeting the other processes")?;
            if said[0] == [1] {
                return Ok(());
            }
            trips *= 2;
        }
    }

    fn call(&mut self, count: usize) -> Outcome {
        let (input, output) = (Vector::at(self.input, 0), Vector::at(self.output, 0));
        let (element, op) = (Element::Float, Op::Sum);
        let done = match (&mut self.shared, self.collective) {
            (Shared::One(one), Collective::Allreduce) => one.allreduce(input, output, count, element, op),
            (Shared::One(one), Collective::Reduce) => one.reduce(0, input, output, count, element, op),
            (Shared::One(one), Collective::Broadcast) => one.broadcast(0, output, count, element),
            (Shared::Several(all), Collective::Allreduce) => all.allreduce(input, output, count, element, op),
            (Shared::Several(all), Collective::Reduce) => all.reduce(0, input, output, count, element, op),
            (Shared::Several(all), Collective::Broadcast) => all.broadcast(0, output, count, element),
            (Shared::One(one), Collective::Allgather) => one.allgather(input, output, count, element),
            (Shared::One(one), Collective::Alltoall) => one.alltoall(input, output, count, element),
            (Shared::One(one), Collective::ReduceScatter) => {
                one.reduce_scatter(input, output, count, element, op)
            }
            (Shared::Several(all), Collective::Allgather) => all.allgather(input, output, count, element),
            (Shared::Several(all), Collective::Alltoall) => all.alltoall(input, output, count, element),
            (Shared::Several(all), Collective::ReduceScatter) => {
                all.reduce_scatter(input, output, count, element, op)
            }
            (_, Collective::Barrier) => return self.meet(),
        };
        done.doing("a collective")
    }

    /// Ends when all processes have come, and lets them go at once.
    fn meet(&mut self) -> Outcome {
        let done = match &mut self.shared {
            Shared::One(one) => one.barrier(),
            Shared::Several(all) => all.barrier(),
        };
        done.doing("meeting the other processes")
    }

    /// One operation into poisoned memory: what stands for the bits of the result, and elements of it that are wrong, of all
    /// ranks. Each rank compares its share of the result with what it should be, and the whole with that of others who have the same.
    fn checked(&mut self, own: &[u8], vectors: &Vectors) -> Result<(u64, u64), BenchError> {
        let sends = self.collective == Collective::Broadcast && self.ranks.rank() == 0;
        let [_, output] = vectors.floats();
        let before = if sends { own.to_vec() } else { vec![0xee; 4 * output] };
        self.output.write(0, &before).doing("filling a vector")?;
        self.ranks.barrier(WITHIN).doing("meeting the other processes")?;
        self.call(vectors.count)?;
        let mut got = vec![0; 4 * output];
        self.output.read(0, &mut got).doing("reading a result")?;
        let wrong = |at: &usize| got[4 * at..4 * at + 4] != self.expected(*at, vectors).to_ne_bytes();
        let errors = vectors.checked().filter(wrong).count() as u64;
        let mut hash = std::hash::DefaultHasher::new();
        hash.write(&got);
        let said = [hash.finish(), errors].map(u64::to_ne_bytes).concat();
        let all = self.ranks.exchange(&said, WITHIN).doing("comparing results")?;
        let words = |said: &Vec<u8>| said.as_chunks().0.iter().copied().map(u64::from_ne_bytes).collect();
        let all: Vec<Vec<u64>> = all.iter().map(words).collect();
        let unlike = all[..vectors.alike()].iter().filter(|said| said[0] != all[0][0]).count() as u64;
        Ok((all[0][0], all.iter().map(|said| said[1]).sum::<u64>() + unlike))
    }

    /// A float of a rank's input.
    fn value(&self, rank: usize, at: usize) -> f32 {
        let is_exact = matches!(&self.shared, Shared::Several(all) if all.hosts().len() > 1);
        value(is_exact, self.job.seed, rank, at)
    }

    /// What a float of the result is: one of a rank, or what ranks add, in the algorithm's order.
    fn expected(&self, at: usize, vectors: &Vectors) -> f32 {
        let at = match vectors.source(at) {
            (Some(rank), at) => return self.value(rank, at),
            (None, at) => at,
        };
        let number = |rank: &u32| self.value(*rank as usize, at);
        let of_all =
            |algorithm| sum(&(0..self.ranks.size()).map(|rank| number(&rank)).collect::<Vec<_>>(), algorithm);
        match &self.shared {
            Shared::One(one) => of_all(Some(one.choice(self.collective, vectors.bytes()))),
            Shared::Several(all) if all.hosts().len() > 1 => of_all(None),
            Shared::Several(all) => match all.choice(self.collective, vectors.bytes()) {
                Levels::Flat(algorithm) => of_all(algorithm),
                Levels::Steps { inside, between } => {
                    let of_gpu =
                        |ranks: &Vec<u32>| sum(&ranks.iter().map(number).collect::<Vec<_>>(), inside);
                    sum(&all.gpus().iter().map(of_gpu).collect::<Vec<_>>(), between)
                }
            },
        }
    }

    fn copies(&self) -> Option<String> {
        let Shared::One(one) = &self.shared else { return None };
        let mix = one.mix();
        (mix.gather.all() > 0).then(|| [mix.gather, mix.broadcast].map(text).join(", "))
    }

    /// A round takes as long as it takes the slowest rank.
    fn say(
        &self,
        method: &str,
        bytes: u64,
        (times, runs, copies): (Vec<f64>, u64, Option<String>),
        errors: u64,
    ) -> Result<Option<Line>, BenchError> {
        let said: Vec<u8> = times.iter().flat_map(|time| time.to_ne_bytes()).collect();
        let all = self.ranks.exchange(&said, WITHIN).doing("gathering times")?;
        if self.ranks.rank() > 0 {
            return Ok(None);
        }
        let mut slowest = times;
        for said in &all {
            let times = said.as_chunks().0.iter().copied().map(f64::from_ne_bytes);
            slowest.iter_mut().zip(times).for_each(|(slow, time)| *slow = slow.max(time));
        }
        let latency = Samples::new(slowest, 1).latency();
        Ok(Some(Line {
            peer: method.to_owned(),
            bench: bench(self.collective).to_owned(),
            nodes: self.ranks.size(),
            bytes: Some(bytes),
            elements: None,
            value: latency.median,
            min: latency.min,
            alone: None,
            copies,
            runs: Some(runs),
            errors,
        }))
    }
}

/// In their order, or in that of a binomial tree; `None`: what the library chooses by itself is no tree.
fn sum(parts: &[f32], algorithm: Option<Algorithm>) -> f32 {
    if algorithm != Some(Algorithm::Btb) || parts.len() < 2 {
        return parts.iter().copied().reduce(|sum, part| sum + part).unwrap_or_default();
    }
    let (left, right) = parts.split_at(parts.len().next_power_of_two() / 2);
    sum(left, algorithm) + sum(right, algorithm)
}

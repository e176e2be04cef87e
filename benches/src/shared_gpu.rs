//! Processes that share a GPU, and measure collectives of theirs: by one algorithm after another.

use std::hash::Hasher;
use std::time::{Duration, Instant};

use ggas_kernels::{KernelMem, Processor};
use ggas_members::Job as Ranks;
use ggas_shared_gpu::{Algorithm, Config, Element, Op, SharedGpu, Vector};

use crate::error::Doing;
use crate::job::{Job, Line};
use crate::stats::Samples;
use crate::{BenchError, Device, cores};

/// How the names of these benchmarks begin.
pub(crate) const NAMES: &str = "shared-gpu-";
/// Bytes up to which a round has all of a job's operations, as of Open MPI's side.
const SMALL: u64 = 8192;
/// After so long a size has no more rounds, but it has so many.
const ROUNDS: Duration = Duration::from_millis(200);
const ROUNDS_MIN: u32 = 3;
const WITHIN: Duration = Duration::from_secs(60);

type Outcome = Result<(), BenchError>;

/// A collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Collective {
    Allreduce,
    Reduce,
    Broadcast,
}

impl Collective {
    const ALL: [Collective; 3] = [Self::Allreduce, Self::Reduce, Self::Broadcast];

    /// Name of its benchmark.
    pub(crate) fn bench(self) -> &'static str {
        match self {
            Self::Allreduce => "shared-gpu-allreduce",
            Self::Reduce => "shared-gpu-reduce",
            Self::Broadcast => "shared-gpu-broadcast",
        }
    }
}

/// The algorithm that a method's name stands for, with so many ranks; `Some(None)`: as the library chooses.
pub(crate) fn algorithm(method: &str, ranks: usize) -> Option<Option<Algorithm>> {
    let others = ranks.saturating_sub(1);
    Some(Some(match method {
        "chosen" => return Some(None),
        "host" => Algorithm::Host,
        "gsb" => Algorithm::Gsb,
        "btb" => Algorithm::Btb,
        "dynamic" => Algorithm::Dynamic,
        "static-direct" => Algorithm::Static { staged: 0 },
        "static-half" => Algorithm::Static { staged: others / 2 },
        "static-staged" => Algorithm::Static { staged: others },
        _ => return None,
    }))
}

/// Is a process of such a job.
pub(crate) fn part(job: &Job) -> Outcome {
    let none = || BenchError::Unsupported(format!("{} is none of the shared GPU's benchmarks", job.bench));
    let mut words = job.bench.split(' ');
    let bench = words.next().unwrap_or_default();
    let collective = Collective::ALL.into_iter().find(|one| one.bench() == bench).ok_or_else(none)?;
    let device: Device = words.next().unwrap_or_default().parse()?;
    let ranks = Ranks::join().doing("joining the job")?;
    cores::pin(ranks.rank() as usize, ranks.size() as usize, None)?;
    let processor = match device {
        Device::Cpu => Processor::cpu(),
        Device::Gpu => Processor::gpu(0).doing("opening the GPU")?,
    };
    let most = job.sizes.iter().copied().max().unwrap_or(0) as usize;
    let alloc = || processor.alloc(most.max(8)).doing("taking memory for vectors");
    let (input, output) = (alloc()?, alloc()?);
    for method in words {
        let algorithm = algorithm(method, ranks.size() as usize).ok_or_else(none)?;
        let config = Config { algorithm, timeout: WITHIN, ..Config::default() };
        let shared = SharedGpu::new(&ranks, &processor, &config).doing("beginning to share the GPU")?;
        let mut side = Side { ranks: &ranks, job, collective, shared, input: &input, output: &output };
        job.sizes.iter().try_for_each(|bytes| side.measure(method, *bytes))?;
        ranks.barrier(WITHIN).doing("meeting the other processes")?;
    }
    Ok(())
}

struct Side<'a> {
    ranks: &'a Ranks,
    job: &'a Job,
    collective: Collective,
    shared: SharedGpu,
    input: &'a KernelMem,
    output: &'a KernelMem,
}

/// Numbers whose sums round, so that the order of additions shows.
fn value(seed: u64, rank: usize, at: usize) -> f32 {
    let mixed = (at as u32).wrapping_mul(0x9e37_79b1) ^ (seed as u32) ^ (rank as u32) << 16;
    (mixed >> 8) as f32 / (rank as f32 + 3.0)
}

impl Side<'_> {
    fn measure(&mut self, method: &str, bytes: u64) -> Outcome {
        let count = bytes as usize / 4;
        let me = self.shared.rank();
        let own: Vec<u8> = (0..count).flat_map(|at| value(self.job.seed, me, at).to_ne_bytes()).collect();
        self.input.write(0, &own).doing("filling a vector")?;
        let first = self.checked(&own, count)?;
        let trips = (u64::from(self.job.trips) * SMALL / bytes.max(SMALL)).max(2);
        let (mut times, start) = (Vec::new(), Instant::now());
        for round in 0..self.job.rounds {
            let is_late = round >= ROUNDS_MIN && start.elapsed() > ROUNDS;
            let said =
                self.ranks.exchange(&[u8::from(is_late)], WITHIN).doing("meeting the other processes")?;
            if said[0] == [1] {
                break;
            }
            let began = Instant::now();
            (0..trips).try_for_each(|_| self.call(count))?;
            times.push(began.elapsed().as_nanos() as f64 / trips as f64);
        }
        let copies = self.copies();
        let again = self.checked(&own, count)?;
        // What is right but for its bits is not the same sum.
        let unlike = u64::from(first.0 != again.0);
        self.say(method, bytes, (times, copies), first.1 + again.1 + unlike)
    }

    fn call(&mut self, count: usize) -> Outcome {
        let (input, output) = (Vector::at(self.input, 0), Vector::at(self.output, 0));
        let (element, op) = (Element::Float, Op::Sum);
        let done = match self.collective {
            Collective::Allreduce => self.shared.allreduce(input, output, count, element, op),
            Collective::Reduce => self.shared.reduce(0, input, output, count, element, op),
            Collective::Broadcast => self.shared.broadcast(0, output, count, element),
        };
        done.doing("a collective")
    }

    /// One operation into poisoned memory: what stands for the bits of the result, and elements of it that are wrong, of all
    /// ranks. Each rank compares its share of the result with the sum; the whole result with that of the others.
    fn checked(&mut self, own: &[u8], count: usize) -> Result<(u64, u64), BenchError> {
        let sends = self.collective == Collective::Broadcast && self.shared.rank() == 0;
        let before = if sends { own.to_vec() } else { vec![0xee; 4 * count] };
        self.output.write(0, &before).doing("filling a vector")?;
        self.ranks.barrier(WITHIN).doing("meeting the other processes")?;
        self.call(count)?;
        let mut got = vec![0; 4 * count];
        self.output.read(0, &mut got).doing("reading a result")?;
        let (me, ranks) = (self.shared.rank(), self.shared.ranks());
        let share = match self.collective {
            Collective::Reduce if me == 0 => 0..count,
            Collective::Reduce => 0..0,
            _ => me * count / ranks..(me + 1) * count / ranks,
        };
        let wrong = |at: &usize| got[4 * at..4 * at + 4] != self.expected(*at, 4 * count).to_ne_bytes();
        let errors = share.filter(wrong).count() as u64;
        let mut hash = std::hash::DefaultHasher::new();
        hash.write(&got);
        let said = [hash.finish(), errors].map(u64::to_ne_bytes).concat();
        let all = self.ranks.exchange(&said, WITHIN).doing("comparing results")?;
        let words = |said: &Vec<u8>| said.as_chunks().0.iter().copied().map(u64::from_ne_bytes).collect();
        let all: Vec<Vec<u64>> = all.iter().map(words).collect();
        let has_result = if self.collective == Collective::Reduce { 1 } else { ranks };
        let unlike = all[..has_result].iter().filter(|said| said[0] != all[0][0]).count() as u64;
        Ok((all[0][0], all.iter().map(|said| said[1]).sum::<u64>() + unlike))
    }

    /// What ranks add, in the algorithm's order.
    fn expected(&self, at: usize, bytes: usize) -> f32 {
        let seed = self.job.seed;
        if self.collective == Collective::Broadcast {
            return value(seed, 0, at);
        }
        let ranks = self.shared.ranks();
        let in_order = || (1..ranks).fold(value(seed, 0, at), |sum, rank| sum + value(seed, rank, at));
        match self.shared.choice(bytes) {
            Algorithm::Btb => tree(seed, at, 0, ranks.next_power_of_two(), ranks),
            _ => in_order(),
        }
    }

    fn copies(&self) -> Option<String> {
        let mix = self.shared.mix();
        let has_any = mix.gather != (0, 0);
        has_any.then(|| {
            let ((hs, ipc), (out_hs, out_ipc)) = (mix.gather, mix.broadcast);
            format!("{hs}+{ipc}, {out_hs}+{out_ipc}")
        })
    }

    /// A round takes as long as it takes the slowest rank.
    fn say(
        &self,
        method: &str,
        bytes: u64,
        (times, copies): (Vec<f64>, Option<String>),
        errors: u64,
    ) -> Outcome {
        let said: Vec<u8> = times.iter().flat_map(|time| time.to_ne_bytes()).collect();
        let all = self.ranks.exchange(&said, WITHIN).doing("gathering times")?;
        if self.ranks.rank() > 0 {
            return Ok(());
        }
        let mut slowest = times;
        for said in &all {
            let times = said.as_chunks().0.iter().copied().map(f64::from_ne_bytes);
            slowest.iter_mut().zip(times).for_each(|(slow, time)| *slow = slow.max(time));
        }
        let latency = Samples::new(slowest, 1).latency();
        let line = Line {
            peer: method.to_owned(),
            bench: self.collective.bench().to_owned(),
            nodes: self.ranks.size(),
            bytes: Some(bytes),
            elements: None,
            value: latency.median,
            min: latency.min,
            alone: None,
            copies,
            errors,
        };
        if let Ok(text) = serde_json::to_string(&line) {
            println!("{text}");
        }
        Ok(())
    }
}

/// The sum of a subtree: of the rank and those less than `distance` behind it.
fn tree(seed: u64, at: usize, rank: usize, distance: usize, ranks: usize) -> f32 {
    if distance == 1 {
        return value(seed, rank, at);
    }
    let half = distance / 2;
    let sum = tree(seed, at, rank, half, ranks);
    if rank + half < ranks { sum + tree(seed, at, rank + half, half, ranks) } else { sum }
}

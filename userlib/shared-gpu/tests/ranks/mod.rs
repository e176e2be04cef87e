//! Ranks of a job that share a GPU, or the executor.

#![allow(dead_code, reason = "not every test binary uses all of it")]

use std::sync::OnceLock;
use std::time::Duration;

use ggas_kernels::{KernelMem, Processor};
use ggas_members::Job;
use ggas_shared_gpu::{Algorithm, Config, Element, Op, SharedGpu, SharedGpuError, Vector};

/// Bound of waits that end well, on a machine that may stall.
pub const SOON: Duration = Duration::from_secs(60);
/// Bound of what a death ends before.
pub const LONG: Duration = Duration::from_secs(100);

/// What all ranks share.
pub fn processor() -> Processor {
    static OPEN: OnceLock<Processor> = OnceLock::new();
    let open = || if is_on_gpu() { Processor::gpu(0).expect("a GPU") } else { Processor::cpu() };
    OPEN.get_or_init(open).clone()
}

/// Where ranks take turns on several GPUs, or the executor.
pub fn by_turns(job: &Job) -> Processor {
    match std::env::var("GGAS_TEST_GPUS") {
        Ok(gpus) => {
            let gpus: u32 = gpus.parse().expect("a number of GPUs");
            Processor::gpu((job.rank() % gpus) as usize).expect("a GPU")
        }
        Err(_) => Processor::cpu(),
    }
}

pub fn is_on_gpu() -> bool {
    std::env::var_os("GGAS_TEST_GPUS").is_some()
}

/// Bound of waits that are in vain, and of a set-up before them.
pub fn short() -> Duration {
    Duration::from_millis(if is_on_gpu() { 5000 } else { 2000 })
}

pub fn config(algorithm: Algorithm) -> Config {
    Config { buffer: 1 << 20, algorithm: Some(algorithm), timeout: SOON, ..Config::default() }
}

/// Numbers whose sums round, so that the order of additions shows.
pub fn number(rank: usize, i: usize) -> f32 {
    (rank as f32 + 1.1) * 1e3 / (i as f32 + 3.3)
}

pub struct Rank {
    pub shared: SharedGpu,
    pub input: KernelMem,
    pub output: KernelMem,
}

impl Rank {
    pub fn new(job: &Job, config: &Config, count: usize) -> Rank {
        Rank::on(job, processor(), config, count)
    }

    pub fn on(job: &Job, processor: Processor, config: &Config, count: usize) -> Rank {
        let shared = SharedGpu::new(job, &processor, config).expect("set up");
        let (input, output) =
            (processor.alloc(4 * count).expect("memory"), processor.alloc(4 * count).expect("memory"));
        let rank = Rank { shared, input, output };
        rank.fill(count);
        rank
    }

    pub fn fill(&self, count: usize) {
        let bytes: Vec<u8> = (0..count).flat_map(|i| number(self.shared.rank(), i).to_ne_bytes()).collect();
        self.input.write(0, &bytes).expect("in range");
    }

    /// An allreduce whose result is read.
    pub fn allreduce(&mut self, count: usize) -> Result<Vec<f32>, SharedGpuError> {
        self.add(count)?;
        Ok(floats(&self.output, count))
    }

    /// An allreduce.
    pub fn add(&mut self, count: usize) -> Result<(), SharedGpuError> {
        let (input, output) = (Vector::at(&self.input, 0), Vector::at(&self.output, 0));
        self.shared.allreduce(input, output, count, Element::Float, Op::Sum)
    }
}

pub fn floats(memory: &KernelMem, count: usize) -> Vec<f32> {
    let mut bytes = vec![0; 4 * count];
    memory.read(0, &mut bytes).expect("in range");
    bytes.chunks_exact(4).map(|word| f32::from_ne_bytes(word.try_into().expect("four"))).collect()
}

/// What ranks add, in the order in which the algorithm does.
pub fn sum(ranks: usize, algorithm: Algorithm, i: usize) -> f32 {
    let mut parts: Vec<f32> = (0..ranks).map(|rank| number(rank, i)).collect();
    if algorithm != Algorithm::Btb {
        return parts.into_iter().reduce(|sum, part| sum + part).expect("a rank");
    }
    let mut distance = 1;
    while distance < ranks {
        for to in (0..ranks - distance).step_by(2 * distance) {
            parts[to] += parts[to + distance];
        }
        distance *= 2;
    }
    parts[0]
}

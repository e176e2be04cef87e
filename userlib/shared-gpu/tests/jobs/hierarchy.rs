//! Collectives of processes on several GPUs: inside and between them. The CPU executor takes ranks to be on the GPUs that they say; with
//! `GGAS_TEST_GPUS=N` they take turns on the first N.

use std::time::Duration;

use crate::common::{die, in_job, in_job_with_death, victim};
use crate::ranks::{LONG, SOON, by_turns as processor};
use ggas_kernels::{KernelMem, Processor};
use ggas_members::Job;
use ggas_shared_gpu::{
    Algorithm, Choice, Choices, Collective, Config, Element, Hierarchy, HierarchyConfig, Levels, Op,
    SharedGpuError, Table, Vector,
};

struct Rank {
    all: Hierarchy,
    input: KernelMem,
    output: KernelMem,
    me: usize,
}

impl Rank {
    /// On the executor, `gpus` of them by turns.
    fn new(job: &Job, gpus: u32, (inside, between): (Algorithm, Algorithm), timeout: Duration) -> Rank {
        let mut config = by_size(job, gpus, timeout);
        (config.inside.algorithm, config.between.algorithm) = (Some(inside), Some(between));
        Rank::of(job, &config)
    }

    fn of(job: &Job, config: &HierarchyConfig) -> Rank {
        let processor = processor(job);
        let all = Hierarchy::new(job, None, &processor, config).expect("set up");
        let memory = || processor.alloc(4 * COUNT).expect("memory");
        let rank = Rank { all, input: memory(), output: memory(), me: job.rank() as usize };
        let bytes: Vec<u8> = (0..COUNT).flat_map(|at| number(rank.me, at).to_ne_bytes()).collect();
        rank.input.write(0, &bytes).expect("in range");
        rank
    }

    fn allreduce(&mut self, count: usize) -> Result<Vec<f32>, SharedGpuError> {
        let (input, output) = (Vector::at(&self.input, 0), Vector::at(&self.output, 0));
        self.all.allreduce(input, output, count, Element::Float, Op::Sum)?;
        Ok(floats(&self.output, count))
    }
}

/// Nothing is forced.
fn by_size(job: &Job, gpus: u32, timeout: Duration) -> HierarchyConfig {
    let of = || Config { buffer: 64 << 10, timeout, ..Config::default() };
    HierarchyConfig {
        inside: of(),
        between: of(),
        flat: None,
        gpu: Some(job.rank() % gpus),
        ..HierarchyConfig::default()
    }
}

/// Several chunks.
const COUNT: usize = 50_000;

fn number(rank: usize, at: usize) -> f32 {
    (rank as f32 + 1.1) * 1e3 / (at as f32 + 3.3)
}

fn floats(memory: &KernelMem, count: usize) -> Vec<f32> {
    let mut bytes = vec![0; 4 * count];
    memory.read(0, &mut bytes).expect("in range");
    bytes.chunks_exact(4).map(|word| f32::from_ne_bytes(word.try_into().expect("four"))).collect()
}

fn sum(mut parts: Vec<f32>, algorithm: Algorithm) -> f32 {
    let mut distance = 1;
    if algorithm != Algorithm::Btb {
        return parts.into_iter().reduce(|sum, part| sum + part).expect("a part");
    }
    while distance < parts.len() {
        for to in (0..parts.len() - distance).step_by(2 * distance) {
            parts[to] += parts[to + distance];
        }
        distance *= 2;
    }
    parts[0]
}

/// A tree between GPUs begins with the root's.
fn expected(rank: &Rank, (inside, between): (Algorithm, Algorithm), root: usize, at: usize) -> f32 {
    let alone = rank.all.gpus().len() == 1;
    let of_gpu = |ranks: &Vec<u32>| {
        let mut parts: Vec<f32> = ranks.iter().map(|rank| number(*rank as usize, at)).collect();
        // The only tree there is.
        if alone && inside == Algorithm::Btb {
            parts.rotate_left(ranks.iter().position(|rank| *rank as usize == root).expect("a rank"));
        }
        sum(parts, inside)
    };
    let mut sums: Vec<f32> = rank.all.gpus().iter().map(of_gpu).collect();
    if between == Algorithm::Btb {
        let gpu = rank.all.gpus().iter().position(|ranks| ranks.contains(&(root as u32)));
        sums.rotate_left(gpu.expect("a rank"));
    }
    sum(sums, between)
}

const FOUR: [(Algorithm, Algorithm); 4] = [
    (Algorithm::Gsb, Algorithm::Gsb),
    (Algorithm::Btb, Algorithm::Gsb),
    (Algorithm::Btb, Algorithm::Btb),
    (Algorithm::Gsb, Algorithm::Btb),
];

fn all_calls(job: &Job, gpus: u32, pair: (Algorithm, Algorithm)) {
    let rank = Rank::new(job, gpus, pair, SOON);
    are_right(job, rank, &format!("{pair:?}"), &|rank, root, at| expected(rank, pair, root, at));
}

/// All ranks beside each other, as if they were on one GPU.
fn all_flat(job: &Job, gpus: u32, algorithm: Algorithm) {
    let config = HierarchyConfig { flat: Some(algorithm), ..by_size(job, gpus, SOON) };
    are_right(job, Rank::of(job, &config), &format!("flat, {algorithm:?}"), &|rank, root, at| {
        let mut parts: Vec<f32> = (0..rank.all.gpus().concat().len()).map(|rank| number(rank, at)).collect();
        if algorithm == Algorithm::Btb {
            parts.rotate_left(root);
        }
        sum(parts, algorithm)
    });
}

fn are_right(job: &Job, mut rank: Rank, pair: &str, expected: &dyn Fn(&Rank, usize, usize) -> f32) {
    let ranks = job.size() as usize;
    let poison = vec![0xee; 4 * COUNT];
    for (round, count) in [1, 1000, COUNT].into_iter().enumerate() {
        let all: Vec<f32> = (0..count).map(|at| expected(&rank, 0, at)).collect();
        for _ in 0..2 {
            assert!(rank.allreduce(count).expect("a sum") == all, "{pair}: {count} elements: other bits");
        }
        // Roots that lead the ranks on their GPU, and others.
        for root in [round % ranks, ranks - 1 - round % ranks] {
            rank.output.write(0, &poison).expect("in range");
            let (input, output) = (Vector::at(&rank.input, 0), Vector::at(&rank.output, 0));
            rank.all.reduce(root, input, output, count, Element::Float, Op::Sum).expect("a sum");
            let got = floats(&rank.output, COUNT);
            let untouched = f32::from_ne_bytes([0xee; 4]);
            let begin = if rank.me == root { count } else { 0 };
            let all: Vec<f32> = (0..begin).map(|at| expected(&rank, root, at)).collect();
            assert!(got[..begin] == all, "{pair}: {count} elements at root {root}");
            assert!(got[begin..].iter().all(|value| *value == untouched), "{pair}: not its memory");
            let own: Vec<u8> = (0..count).flat_map(|at| number(root, at).to_ne_bytes()).collect();
            if rank.me == root {
                rank.output.write(0, &own).expect("in range");
            }
            rank.all.broadcast(root, Vector::at(&rank.output, 0), count, Element::Float).expect("sent");
            let got = floats(&rank.output, count);
            assert!((0..count).all(|at| got[at] == number(root, at)), "{pair}: {count} elements from {root}");
        }
    }
    let error = rank.all.broadcast(ranks, Vector::at(&rank.output, 0), 1, Element::Float);
    assert!(matches!(error, Err(SharedGpuError::Root { .. })), "{error:?}");
    rank.allreduce(1).expect("that was no failure");
    job.barrier(SOON).expect("all are done");
}

/// What goes beside GPUs, in the order of the job's ranks.
fn gathered(job: &Job, gpus: u32) {
    let mut rank = Rank::new(job, gpus, (Algorithm::Gsb, Algorithm::Gsb), SOON);
    let (ranks, me) = (job.size() as usize, rank.me);
    for count in [1, 1000, COUNT / ranks] {
        let (input, output) = (Vector::at(&rank.input, 0), Vector::at(&rank.output, 0));
        let is_from = |from: &dyn Fn(usize, usize) -> f32| {
            let got = floats(&rank.output, ranks * count);
            (0..ranks * count).all(|at| got[at] == from(at / count, at % count))
        };
        rank.all.allgather(input, output, count, Element::Float).expect("all together");
        assert!(is_from(&number), "{count} of each");
        rank.all.alltoall(input, output, count, Element::Float).expect("all to all");
        assert!(is_from(&|from, at| number(from, me * count + at)), "{count} for each");
        rank.all.reduce_scatter(input, output, count, Element::Float, Op::Max).expect("parts");
        let most = |at: usize| (0..ranks).map(|from| number(from, me * count + at)).fold(0.0, f32::max);
        assert!(
            floats(&rank.output, count) == (0..count).map(most).collect::<Vec<f32>>(),
            "parts of {count}"
        );
        rank.all.barrier().expect("all meet");
        rank.allreduce(count).expect("beside steps of GPUs");
    }
    job.barrier(SOON).expect("all are done");
    if me == 1 {
        rank.all.set_timeout(Duration::from_millis(200));
        rank.all.barrier().expect_err("the others do not come");
        assert!(matches!(rank.allreduce(1), Err(SharedGpuError::Broken | SharedGpuError::Elsewhere { .. })));
    }
    job.barrier(SOON).expect("it has given up");
    if me != 1 {
        let error = rank.allreduce(1).expect_err("one has given up");
        assert!(matches!(error, SharedGpuError::Elsewhere { .. }), "{error}");
    }
    job.barrier(SOON).expect("all have seen it");
}

#[test]
fn five_processes_on_one_gpu_and_on_two_gather() {
    in_job("hierarchy::five_processes_on_one_gpu_and_on_two_gather", (5, 1), |job| {
        [1, 2].into_iter().for_each(|gpus| gathered(job, gpus));
    });
}

#[test]
fn a_rank_without_memory_for_a_sum_ends_the_call_on_all() {
    // The limit of a process is none of a GPU's memory.
    if std::env::var_os("GGAS_TEST_GPUS").is_some() {
        return;
    }
    in_job("hierarchy::a_rank_without_memory_for_a_sum_ends_the_call_on_all", (4, 1), |job| {
        const LARGE: usize = 4 << 20;
        let mut rank = Rank::new(job, 2, (Algorithm::Gsb, Algorithm::Gsb), LONG);
        let input = processor(job).alloc(LARGE).expect("memory");
        let (input, output) = (Vector::at(&input, 0), Vector::at(&rank.output, 0));
        if rank.me == 0 {
            let pages = std::fs::read_to_string("/proc/self/statm").expect("a file");
            // Memory that is written, as it is counted for the limit: the sixth number.
            let pages: u64 = pages.split(' ').nth(5).and_then(|data| data.parse().ok()).expect("a number");
            let rlim_cur = 4096 * pages + LARGE as u64 / 2;
            let most = libc::rlimit { rlim_cur, rlim_max: libc::RLIM_INFINITY };
            // SAFETY: a limit of this process.
            assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_DATA, &most) }, 0);
        }
        // Rank 0 leads its GPU, and has no use for the sum there.
        let error = if rank.me == 3 {
            let output = processor(job).alloc(LARGE).expect("memory");
            rank.all.reduce(3, input, Vector::at(&output, 0), LARGE / 4, Element::Float, Op::Sum)
        } else {
            rank.all.reduce(3, input, output, LARGE / 4, Element::Float, Op::Sum)
        };
        let error = error.expect_err("one has no memory");
        match error {
            SharedGpuError::Memory(_) if rank.me == 0 => {}
            SharedGpuError::Elsewhere { .. } if rank.me != 0 => {}
            error => panic!("{error}"),
        }
        assert!(rank.all.is_broken());
        job.barrier(SOON).expect("all have seen it");
    });
}

#[test]
fn four_processes_on_two_gpus() {
    in_job("hierarchy::four_processes_on_two_gpus", (4, 1), |job| {
        FOUR.into_iter().for_each(|pair| all_calls(job, 2, pair));
    });
}

#[test]
fn five_processes_on_two_gpus_beside_each_other() {
    in_job("hierarchy::five_processes_on_two_gpus_beside_each_other", (5, 1), |job| {
        [Algorithm::Host, Algorithm::Gsb, Algorithm::Btb].into_iter().for_each(|one| all_flat(job, 2, one));
    });
}

/// A table of these ranks, in which two ways add in other orders than what is built in.
#[test]
fn levels_are_taken_from_a_table_else_by_size() {
    in_job("hierarchy::levels_are_taken_from_a_table_else_by_size", (4, 1), |job| {
        let (btb, gsb) = (Algorithm::Btb, Algorithm::Gsb);
        let mut config = by_size(job, 2, SOON);
        let built_in = Rank::of(job, &config).all;
        assert_eq!(built_in.choice(Collective::Allreduce, 8), Levels::Flat(Some(Algorithm::Host)));
        let steps = Levels::Steps { inside: None, between: None };
        assert_eq!(built_in.choice(Collective::Allreduce, 16 << 20), steps);
        for mps in [false, true] {
            let device = match processor(job) {
                Processor::Gpu(gpu) => gpu.device().info().name.clone(),
                _ => "cpu".to_owned(),
            };
            let choice = |from_bytes, algorithm, between| Choice { from_bytes, algorithm, between };
            let by_size =
                vec![choice(0, btb, Some(gsb)), choice(4000, btb, None), choice(8000, gsb, Some(btb))];
            let (gpus, measured_by) = (vec![2, 2], String::new());
            let collective = Collective::Allreduce;
            let choices = Choices { device, collective, ranks: 4, gpus, mps, by_size, measured_by };
            config.inside.table.insert(choices).expect("it can be");
        }
        let mut rank = Rank::of(job, &config);
        let in_steps = |rank: &Rank, pair, at| expected(rank, pair, 0, at);
        for count in [999, 1000, 2000, 10, COUNT] {
            let expected: Vec<f32> = (0..count)
                .map(|at| match count {
                    ..1000 => in_steps(&rank, (btb, gsb), at),
                    1000..2000 => sum((0..4).map(|rank| number(rank, at)).collect(), btb),
                    _ => in_steps(&rank, (gsb, btb), at),
                })
                .collect();
            assert!(rank.allreduce(count).expect("a sum") == expected, "{count} elements: other bits");
        }
        assert_eq!(rank.all.choice(Collective::Reduce, 16 << 20), steps, "it says nothing of that");
        job.barrier(SOON).expect("all are done");
        // Alike on each GPU, but not on both.
        if job.rank() % 2 == 1 {
            config.inside.table = Table::default();
        }
        let error = Hierarchy::new(job, None, &processor(job), &config).expect_err("unlike tables");
        assert!(error.to_string().contains("rank 1 has"), "{error}");
    });
}

#[test]
fn eleven_processes_on_four_gpus() {
    in_job("hierarchy::eleven_processes_on_four_gpus", (11, 1), |job| {
        FOUR.into_iter().for_each(|pair| all_calls(job, 4, pair));
        all_calls(job, 4, (Algorithm::Host, Algorithm::Host));
        all_calls(job, 4, (Algorithm::Dynamic, Algorithm::Gsb));
    });
}

#[test]
fn one_gpu_and_one_process_for_each() {
    in_job("hierarchy::one_gpu_and_one_process_for_each", (3, 1), |job| {
        for (gpus, pair) in [1, 3].into_iter().flat_map(|gpus| FOUR.map(|pair| (gpus, pair))) {
            all_calls(job, gpus, pair);
        }
    });
}

#[test]
fn a_failure_on_one_gpu_ends_the_call_on_all() {
    in_job("hierarchy::a_failure_on_one_gpu_ends_the_call_on_all", (6, 1), |job| {
        let mut rank = Rank::new(job, 2, (Algorithm::Gsb, Algorithm::Btb), LONG);
        // Rank 3 is on the second GPU.
        let error = rank.allreduce(if rank.me == 3 { 7 } else { 8 }).expect_err("other sizes");
        let of = |error: &SharedGpuError| {
            matches!(error, SharedGpuError::Mismatch { .. } | SharedGpuError::Elsewhere { .. })
        };
        assert!(of(&error), "{error}");
        if rank.me % 2 == 1 {
            assert!(error.to_string().contains("rank 3 ") || rank.me == 3, "{error}");
        }
        assert!(matches!(rank.allreduce(1), Err(SharedGpuError::Broken)));
        // What has no steps of GPUs, too: at once.
        let error = rank.all.barrier().expect_err("it is over");
        assert!(matches!(error, SharedGpuError::Broken | SharedGpuError::Elsewhere { .. }), "{error}");
        job.barrier(SOON).expect("all have seen it");
    });
}

#[test]
fn a_death_ends_the_call_on_all_gpus() {
    in_job_with_death("hierarchy::a_death_ends_the_call_on_all_gpus", 4, 3, |job| {
        let mut rank = Rank::new(job, 2, (Algorithm::Gsb, Algorithm::Gsb), LONG);
        rank.allreduce(10).expect("all are there");
        if Some(job.rank()) == victim() {
            die();
        }
        let error = rank.allreduce(10).expect_err("one is dead");
        let is_told =
            matches!(error, SharedGpuError::PeerLost { rank: 3 } | SharedGpuError::Elsewhere { .. });
        assert!(is_told, "{error}");
    });
}

#[test]
fn settings_that_differ_on_one_gpu_are_told_on_all() {
    in_job("hierarchy::settings_that_differ_on_one_gpu_are_told_on_all", (4, 1), |job| {
        let mut config = HierarchyConfig { gpu: Some(job.rank() % 2), ..HierarchyConfig::default() };
        config.inside.buffer = if job.rank() == 3 { 1 << 20 } else { 2 << 20 };
        let error =
            Hierarchy::new(job, None, &processor(job), &config).expect_err("other buffers").to_string();
        assert!(error.contains("rank 3 has") && error.contains("1048576"), "{error}");
        config.inside.buffer = 1 << 20;
        Hierarchy::new(job, None, &processor(job), &config).expect("they can try again");
    });
}

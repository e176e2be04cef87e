//! Collectives of real processes: results, bits, deaths, ranks that do something else. On the CPU executor, or on the first GPU with
//! `GGAS_TEST_GPUS=1`.

use std::os::fd::AsFd;

use crate::common::{die, in_job, in_job_with_death, victim};
use crate::ranks::{LONG, Rank, SOON, config, floats, processor, short, sum};
use ggas_kernels::Processor;
use ggas_members::Job;
use ggas_shared_gpu::{
    Algorithm, Choice, Choices, Collective, Config, Copier, Directory, Element, Op, SharedGpu,
    SharedGpuError, Table, Vector,
};

/// All calls, several times, with vectors from one element to several chunks.
fn all_calls(job: &Job, algorithm: Algorithm, directory: Directory, most: usize) {
    let ranks = job.size() as usize;
    let mut rank = Rank::new(job, &Config { directory, ..config(algorithm) }, most);
    let (me, processor) = (rank.shared.rank(), processor());
    for (round, count) in [1, 7, 1000, most, 1000].into_iter().enumerate() {
        let expected: Vec<f32> = (0..count).map(|i| sum(ranks, algorithm, i)).collect();
        for _ in 0..3 {
            assert!(rank.allreduce(count).expect("a sum") == expected, "{count} elements: other bits");
        }
        let root = round % ranks;
        let vector = processor.alloc(8 * count).expect("memory");
        if me == root {
            vector.write(0, &vec![round as u8 + 1; 4 * count]).expect("in range");
        }
        rank.shared.broadcast(root, Vector::at(&vector, 0), count, Element::Float).expect("a broadcast");
        let mut bytes = vec![0; 4 * count];
        vector.read(0, &mut bytes).expect("in range");
        assert!(bytes == vec![round as u8 + 1; 4 * count], "broadcast of {count}");
        let ones = processor.alloc(8 * count).expect("memory");
        ones.write(0, &vec![1; 8 * count]).expect("in range");
        for output in [&vector, &vector, &ones] {
            // Who is not root may be ahead of it; the last is in place.
            let (from, to) = (Vector::at(&ones, 0), Vector::at(output, 0));
            rank.shared.reduce(root, from, to, count, Element::Int64, Op::Sum).expect("a reduction");
        }
        let mut bytes = vec![0; 8 * count];
        ones.read(0, &mut bytes).expect("in range");
        let all = if me == root {
            0x0101_0101_0101_0101_u64.wrapping_mul(ranks as u64)
        } else {
            0x0101_0101_0101_0101
        };
        assert!(bytes == all.to_ne_bytes().repeat(count), "reduction of {count}");
    }
    job.barrier(SOON).expect("all are done");
}

/// What each rank has, at each of them, from one element to several chunks.
fn all_gatherings(job: &Job, algorithm: Algorithm, directory: Directory, most: usize) {
    let (ranks, processor) = (job.size() as usize, processor());
    let config = Config { directory, ..config(algorithm) };
    let mut shared = SharedGpu::new(job, &processor, &config).expect("set up");
    let me = shared.rank();
    let word = |from: usize, to: usize, i: usize| (from << 40 | to << 24 | i) as u64;
    let vector = |of: &dyn Fn(usize, usize) -> u64, count: usize| -> Vec<u8> {
        (0..ranks)
            .flat_map(|rank| (0..count).map(move |i| (rank, i)))
            .flat_map(|(rank, i)| of(rank, i).to_ne_bytes())
            .collect()
    };
    for count in [1, 7, most, 2] {
        let memory = || processor.alloc(8 * ranks * count).expect("memory");
        let (input, output) = (memory(), memory());
        let read = || {
            let mut bytes = vec![0; 8 * ranks * count];
            output.read(0, &mut bytes).expect("in range");
            bytes
        };
        input.write(0, &vector(&|to, i| word(me, to, i), count)).expect("in range");
        let (from, to) = (Vector::at(&input, 0), Vector::at(&output, 0));
        for _ in 0..2 {
            shared.alltoall(from, to, count, Element::Uint64).expect("all to all");
            assert!(read() == vector(&|from, i| word(from, me, i), count), "all to all of {count}");
            shared.allgather(from, to, count, Element::Int64).expect("all together");
            assert!(read() == vector(&|from, i| word(from, 0, i), count), "allgather of {count}");
            let own = 8 * me * count;
            output.write(own, &vec![me as u8; 8 * count]).expect("in range");
            shared.allgather(Vector::at(&output, own), to, count, Element::Int64).expect("in place");
            let expected = |from: usize, _| u64::from_ne_bytes([from as u8; 8]);
            assert!(read() == vector(&expected, count), "allgather of {count} in place");
            shared.barrier().expect("all meet");
            shared.reduce_scatter(from, to, count, Element::Uint64, Op::Sum).expect("parts of a sum");
            let sum = |i| (0..ranks).map(|from| word(from, me, i)).sum::<u64>().to_ne_bytes();
            assert!(read()[..8 * count] == (0..count).flat_map(sum).collect::<Vec<u8>>(), "parts of {count}");
        }
    }
    job.barrier(SOON).expect("all are done");
}

fn gathered_on_the_host(job: &Job) {
    let of = |staged, by| Algorithm::Static { staged, by };
    let chosen = [Algorithm::Dynamic, of(3, Copier::Engine), of(1, Copier::Stores), of(0, Copier::Bulk)];
    for algorithm in [Algorithm::Gsb, Algorithm::Btb, Algorithm::Host].into_iter().chain(chosen) {
        all_gatherings(job, algorithm, Directory::Host, 20_000);
    }
}

/// From vectors that come and go, so that none is taken for one that was there before.
fn direct_broadcasts(job: &Job) {
    let processor = processor();
    let mut shared = SharedGpu::new(job, &processor, &config(Algorithm::Direct)).expect("set up");
    // Nothing but a system that keeps processes apart leads to GSB.
    let is_direct = shared.choice(Collective::Broadcast, 1 << 20) == Algorithm::Direct;
    if !is_direct {
        eprintln!("processes do not reach each other's memory here");
    }
    let mut random = fastrand::Rng::with_seed(5);
    for round in 0..40_usize {
        let (root, count) = (round % shared.ranks(), random.usize(1..400_000));
        let vector = processor.alloc(4 * count).expect("memory");
        if shared.rank() == root {
            vector.write(0, &vec![round as u8 + 1; 4 * count]).expect("in range");
        }
        shared.broadcast(root, Vector::at(&vector, 0), count, Element::Float).expect("a broadcast");
        let mut got = vec![0; 4 * count];
        vector.read(0, &mut got).expect("in range");
        assert!(got == vec![round as u8 + 1; 4 * count], "round {round}: {count} from {root}");
        // The vector is the caller's again.
        vector.write(0, &vec![0xee; 4 * count]).expect("in range");
    }
    job.barrier(SOON).expect("all are done");
}

#[test]
fn vectors_are_read_where_the_root_has_them() {
    in_job("processes::vectors_are_read_where_the_root_has_them", (5, 1), direct_broadcasts);
}

#[test]
fn a_death_ends_a_broadcast_from_the_roots_vector() {
    in_job_with_death("processes::a_death_ends_a_broadcast_from_the_roots_vector", 3, 1, |job| {
        let processor = processor();
        let config = Config { timeout: LONG, ..config(Algorithm::Direct) };
        let mut shared = SharedGpu::new(job, &processor, &config).expect("set up");
        let vector = processor.alloc(4000).expect("memory");
        let first = shared.broadcast(0, Vector::at(&vector, 0), 1000, Element::Float);
        if Some(job.rank()) == victim() {
            first.expect("all are there");
            die();
        }
        // The root waits for all that read from it; who has read may be gone before the others have.
        let error = first.and_then(|()| shared.broadcast(0, Vector::at(&vector, 0), 1000, Element::Float));
        if job.rank() == 0 {
            assert!(matches!(error, Err(SharedGpuError::PeerLost { rank: 1 })), "{error:?}");
        }
    });
}

#[test]
fn one_process_gathers() {
    in_job("processes::one_process_gathers", (1, 1), gathered_on_the_host);
}

#[test]
fn four_processes_gather() {
    in_job("processes::four_processes_gather", (4, 1), gathered_on_the_host);
}

#[test]
fn nine_processes_gather() {
    in_job("processes::nine_processes_gather", (9, 1), gathered_on_the_host);
}

fn on_the_host(job: &Job) {
    let of = |staged, by| Algorithm::Static { staged, by };
    let chosen = [Algorithm::Dynamic, of(3, Copier::Engine), of(1, Copier::Stores), of(0, Copier::Bulk)];
    for algorithm in
        [Algorithm::Gsb, Algorithm::Btb, Algorithm::Host, Algorithm::Direct].into_iter().chain(chosen)
    {
        // With 24 ranks a chunk is 43,520 bytes (GSB): 100,000 floats are ten.
        all_calls(job, algorithm, Directory::Host, 100_000);
    }
}

#[test]
fn one_process() {
    in_job("processes::one_process", (1, 1), on_the_host);
}

#[test]
fn four_processes() {
    in_job("processes::four_processes", (4, 1), on_the_host);
}

#[test]
fn eight_processes() {
    in_job("processes::eight_processes", (8, 1), on_the_host);
}

#[test]
fn sixteen_processes() {
    in_job("processes::sixteen_processes", (16, 1), on_the_host);
}

#[test]
fn twenty_four_processes() {
    in_job("processes::twenty_four_processes", (24, 1), on_the_host);
}

#[test]
fn twenty_five_processes() {
    in_job("processes::twenty_five_processes", (25, 1), on_the_host);
}

#[test]
fn the_directory_may_be_on_the_gpu() {
    in_job("processes::the_directory_may_be_on_the_gpu", (4, 1), |job| {
        for directory in [Directory::GpuKernel, Directory::GpuCopies] {
            for algorithm in [Algorithm::Gsb, Algorithm::Btb] {
                all_calls(job, algorithm, directory, 20_000);
                all_gatherings(job, algorithm, directory, 1000);
            }
        }
    });
}

#[test]
fn a_death_ends_the_call_of_all_others() {
    in_job_with_death("processes::a_death_ends_the_call_of_all_others", 4, 2, |job| {
        for algorithm in [Algorithm::Gsb, Algorithm::Host, Algorithm::Btb] {
            let mut rank = Rank::new(job, &Config { timeout: LONG, ..config(algorithm) }, 1000);
            rank.allreduce(1000).expect("all are there");
            if algorithm == Algorithm::Btb && Some(job.rank()) == victim() {
                die();
            }
            if algorithm == Algorithm::Btb {
                let before = floats(&rank.input, 1000);
                let error = rank.allreduce(1000).expect_err("one is dead");
                assert!(matches!(error, SharedGpuError::PeerLost { rank: 2 }), "{error}");
                assert!(floats(&rank.input, 1000) == before, "its vector is as it was");
                assert!(matches!(rank.allreduce(1000), Err(SharedGpuError::Broken)));
            }
        }
    });
}

#[test]
fn a_rank_that_does_not_come_is_named() {
    in_job("processes::a_rank_that_does_not_come_is_named", (4, 1), |job| {
        for algorithm in [Algorithm::Gsb, Algorithm::Btb, Algorithm::Dynamic, Algorithm::Host] {
            let mut rank = Rank::new(job, &Config { timeout: short(), ..config(algorithm) }, 1000);
            job.barrier(SOON).expect("all are set up");
            if job.rank() != 1 {
                let error = rank.allreduce(1000).expect_err("one is missing");
                let named =
                    matches!(error, SharedGpuError::Timeout { .. } | SharedGpuError::Elsewhere { .. });
                assert!(named && error.to_string().contains("rank 1 "), "{error}");
            }
            job.barrier(SOON).expect("all are done");
        }
    });
}

#[test]
fn a_rank_that_sets_nothing_up_is_named() {
    in_job("processes::a_rank_that_sets_nothing_up_is_named", (4, 1), |job| {
        let file = std::fs::File::open("/dev/null").expect("always there");
        if job.rank() == 1 {
            // It stays until all others have given it up.
            for rank in [0, 2, 3] {
                job.recv_fds(rank, 7, SOON).expect("they end");
            }
            return;
        }
        let config = Config { timeout: short(), ..config(Algorithm::Gsb) };
        let error = SharedGpu::new(job, &processor(), &config).expect_err("one is missing");
        assert!(matches!(error, SharedGpuError::Job(_)) && error.to_string().contains('1'), "{error}");
        job.send_fds(1, 7, &[file.as_fd()], SOON).expect("it waits");
    });
}

#[test]
fn ranks_that_differ_are_named() {
    in_job("processes::ranks_that_differ_are_named", (4, 1), |job| {
        let processor = processor();
        let odd = job.rank() == 3;
        let other = Config { buffer: if odd { 2 << 20 } else { 1 << 20 }, ..config(Algorithm::Gsb) };
        let error = SharedGpu::new(job, &processor, &other).expect_err("other buffers");
        assert!(matches!(error, SharedGpuError::Unequal { rank: 3, .. }), "{error}");
        let other = config(if odd { Algorithm::Btb } else { Algorithm::Gsb });
        let error = SharedGpu::new(job, &processor, &other).expect_err("other algorithms").to_string();
        assert!(error.contains("rank 3") && error.contains("Btb") && error.contains("Gsb"), "{error}");
        let small = Config { buffer: 1000, ..config(Algorithm::Gsb) };
        let error = SharedGpu::new(job, &processor, &small).expect_err("no room");
        assert!(matches!(error, SharedGpuError::SmallBuffer { least: 1280, .. }), "{error}");
        for algorithm in [Algorithm::Gsb, Algorithm::Btb, Algorithm::Dynamic, Algorithm::Host] {
            let mut rank = Rank::new(job, &config(algorithm), 1000);
            let error = rank.allreduce(if odd { 999 } else { 1000 }).expect_err("other sizes");
            assert!(matches!(error, SharedGpuError::Mismatch { .. }), "{error}");
            assert!(floats(&rank.output, 1000) == vec![0.0; 1000], "nobody has a result");
            job.barrier(SOON).expect("all have seen it");
        }
    });
}

#[test]
fn short_and_long_vectors_go_different_ways_by_themselves() {
    in_job("processes::short_and_long_vectors_go_different_ways_by_themselves", (4, 1), |job| {
        let config = Config { timeout: SOON, ..Config::default() };
        let mut rank = Rank::new(job, &config, 300_000);
        for count in [1, 300_000, 1000, 1, 270_000, 2] {
            let algorithm = rank.shared.choice(Collective::Allreduce, 4 * count);
            assert_eq!(algorithm == Algorithm::Host, count <= 1000, "{algorithm:?} for {count}");
            let expected: Vec<f32> = (0..count).map(|i| sum(4, algorithm, i)).collect();
            assert!(rank.allreduce(count).expect("a sum") == expected, "{count} elements: other bits");
        }
        // Who makes a call of another algorithm is noticed by both sides; also by one that is in the call before.
        job.barrier(SOON).expect("all have made the others");
        let error = rank.allreduce(if job.rank() == 3 { 1 } else { 300_000 }).expect_err("other sizes");
        assert!(matches!(error, SharedGpuError::Mismatch { .. }), "{error}");
        job.barrier(SOON).expect("all have seen it");
        let on_gpu = Config { directory: Directory::GpuKernel, ..config };
        let shared = SharedGpu::new(job, &processor(), &on_gpu).expect("set up");
        assert_ne!(shared.choice(Collective::Reduce, 8), Algorithm::Host, "its words are on the host");
        let host = Config { algorithm: Some(Algorithm::Host), ..on_gpu };
        let error = SharedGpu::new(job, &processor(), &host).expect_err("likewise");
        assert!(matches!(error, SharedGpuError::NoStates), "{error}");
    });
}

#[test]
fn a_table_says_which_way_a_vector_goes() {
    in_job("processes::a_table_says_which_way_a_vector_goes", (4, 1), |job| {
        let processor = processor();
        let ways = [
            Algorithm::Btb,
            Algorithm::Static { staged: 1, by: Copier::Stores },
            Algorithm::Host,
            Algorithm::Dynamic,
        ];
        let by_size = ways.iter().enumerate().map(|(n, way)| Choice {
            from_bytes: 4000 * n,
            algorithm: *way,
            between: None,
        });
        let mut table = Table::default();
        for (ranks, mps, by_size) in [
            (4, false, by_size.clone().collect()),
            (4, true, by_size.collect()),
            (5, false, vec![Choice { from_bytes: 0, algorithm: Algorithm::Gsb, between: None }]),
        ] {
            let device = match &processor {
                Processor::Gpu(gpu) => gpu.device().info().name.clone(),
                _ => "cpu".to_owned(),
            };
            let (collective, gpus, measured_by) = (Collective::Allreduce, Vec::new(), String::new());
            let choices = Choices { device, collective, ranks, gpus, mps, by_size, measured_by };
            table.insert(choices).expect("it can be");
        }
        let config = Config { table, timeout: SOON, ..Config::default() };
        let mut rank = Rank::new(job, &config, 10_000);
        assert_eq!(rank.shared.choice(Collective::Reduce, 8), Algorithm::Host, "it says nothing of that");
        for (count, way) in [(1, 0), (2500, 2), (999, 0), (1000, 1), (10_000, 3), (1500, 1), (20, 0)] {
            assert_eq!(rank.shared.choice(Collective::Allreduce, 4 * count), ways[way], "{count}");
            let expected: Vec<f32> = (0..count).map(|i| sum(4, ways[way], i)).collect();
            assert!(rank.allreduce(count).expect("a sum") == expected, "{count} elements: other bits");
        }
        job.barrier(SOON).expect("all are done");
        // A table of rank 3's own.
        let table = if job.rank() == 3 { Table::default() } else { config.table.clone() };
        let error = SharedGpu::new(job, &processor, &Config { table, ..config }).expect_err("unlike tables");
        assert!(matches!(error, SharedGpuError::Unequal { rank: 3, .. }), "{error}");
    });
}

#[test]
fn vectors_outside_of_their_memory_are_refused() {
    let (job, processor) = (Job::join().expect("a job of one"), processor());
    let mut shared = SharedGpu::new(&job, &processor, &Config::default()).expect("set up");
    let memory = processor.alloc(64).expect("memory");
    let at = |offset| Vector::at(&memory, offset);
    for (offset, count) in [(0, 17), (4, 16), (2, 1), (usize::MAX - 3, 1), (0, usize::MAX)] {
        let error = shared.allreduce(at(offset), at(0), count, Element::Float, Op::Sum).expect_err("outside");
        assert!(matches!(error, SharedGpuError::Range { .. }), "{error}");
    }
    for (from, to) in [(0, 4), (4, 0), (0, 28), (28, 0)] {
        let error = shared.allreduce(at(from), at(to), 8, Element::Float, Op::Sum).expect_err("they overlap");
        assert!(matches!(error, SharedGpuError::Overlap { input: 32, output: 32 }), "{error}");
        let error = shared.reduce(0, at(from), at(to), 8, Element::Float, Op::Sum).expect_err("they overlap");
        assert!(matches!(error, SharedGpuError::Overlap { .. }), "{error}");
        let error = shared.allgather(at(from), at(to), 8, Element::Float).expect_err("they overlap");
        assert!(matches!(error, SharedGpuError::Overlap { .. }), "{error}");
    }
    for to in [0, 28] {
        let error = shared.alltoall(at(0), at(to), 8, Element::Float).expect_err("they overlap");
        assert!(matches!(error, SharedGpuError::Overlap { .. }), "{error}");
        let error =
            shared.reduce_scatter(at(0), at(to), 8, Element::Float, Op::Sum).expect_err("they overlap");
        assert!(matches!(error, SharedGpuError::Overlap { .. }), "{error}");
    }
    shared.allgather(at(8), at(8), 8, Element::Float).expect("in place");
    let bits = shared.allreduce(at(0), at(0), 1, Element::Half, Op::Xor);
    assert!(matches!(bits, Err(SharedGpuError::Bits)));
    let root = shared.broadcast(1, at(0), 1, Element::Float);
    assert!(matches!(root, Err(SharedGpuError::Root { root: 1, ranks: 1 })));
    shared.allreduce(at(0), at(32), 8, Element::Float, Op::Sum).expect("that was no failure");
    shared.allreduce(at(0), at(32), 0, Element::Float, Op::Sum).expect("nothing to do");
}

//! Some of a job's ranks, which set up together what they share, and what a set-up in vain leaves. On the CPU executor, or with
//! `GGAS_TEST_GPUS=N` by turns on the first N GPUs.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use crate::common::{die, in_job, in_job_with_death, victim};
use crate::ranks::{LONG, SOON, by_turns as processor};
use ggas_members::Job;
use ggas_shared_gpu::{Config, Element, Hierarchy, HierarchyConfig, Op, SharedGpuError, Vector};

/// Some of a job's ranks, on two GPUs; the largest number of each, and what each has.
fn among(job: &Job, ranks: &[u32], tag: u64) {
    let config = HierarchyConfig { gpu: Some(job.rank() / 2 % 2), ..HierarchyConfig::default() };
    let processor = processor(job);
    let mut some = Hierarchy::among(job, ranks, tag, None, &processor, &config).expect("set up");
    let memory = || processor.alloc(8 * ranks.len()).expect("memory");
    let (own, all) = (memory(), memory());
    own.store_u64(0, 100 + u64::from(job.rank())).expect("in range");
    let (input, output) = (Vector::at(&own, 0), Vector::at(&all, 0));
    for root in ranks {
        some.allreduce(input, output, 1, Element::Uint64, Op::Max).expect("a maximum");
        let last = ranks.last().expect("one");
        assert_eq!(all.load_u64(0).expect("in range"), 100 + u64::from(*last));
        some.broadcast(*root as usize, output, 1, Element::Uint64).expect("sent");
        some.allgather(input, output, 1, Element::Uint64).expect("all together");
        let expected: Vec<u64> = ranks.iter().map(|rank| 100 + u64::from(*rank)).collect();
        assert_eq!(all.read_u64s(0, ranks.len()).expect("in range"), expected);
    }
    let none = some.broadcast(99, output, 1, Element::Uint64);
    assert!(matches!(none, Err(SharedGpuError::Root { root: 99, .. })), "{none:?}");
}

#[test]
fn some_of_a_jobs_ranks_at_once() {
    in_job("among::some_of_a_jobs_ranks_at_once", (6, 1), |job| {
        let of = |rank: &u32| rank % 2 == job.rank() % 2;
        among(job, &(0..6).filter(of).collect::<Vec<_>>(), 1);
        // Ranks in two groups that overlap, one after the other.
        for (tag, ranks) in [(2, [0, 3, 5]), (3, [3, 4, 5])] {
            if ranks.contains(&job.rank()) {
                among(job, &ranks, tag);
            }
        }
        job.barrier(SOON).expect("all are done");
    });
}

#[test]
fn a_death_beside_them_is_nothing_to_some_ranks() {
    in_job_with_death("among::a_death_beside_them_is_nothing_to_some_ranks", 3, 1, |job| {
        if Some(job.rank()) == victim() {
            die();
        }
        while job.lost().is_empty() {
            std::thread::yield_now();
        }
        among(job, &[0, 2], 1);
    });
}

/// On one GPU, with so much time for a set-up.
fn within(timeout: Duration) -> HierarchyConfig {
    let config = Config { timeout, ..Config::default() };
    HierarchyConfig { inside: config.clone(), between: config, ..HierarchyConfig::default() }
}

/// Descriptors that this process has open, once all that the others sent before is here.
fn descriptors(job: &Job) -> usize {
    let others = || (0..job.size()).filter(|rank| *rank != job.rank());
    let file = std::fs::File::open("/dev/null").expect("always there");
    others().for_each(|rank| job.send_fds(rank, 7, &[file.as_fd()], SOON).expect("it is there"));
    drop(others().map(|rank| job.recv_fds(rank, 7, SOON).expect("it is there")).collect::<Vec<_>>());
    let all = std::fs::read_dir("/proc/self/fd").expect("a folder").count();
    job.barrier(SOON).expect("nobody sends more before all have counted");
    all
}

#[test]
fn set_ups_in_vain_leave_no_descriptors() {
    in_job("among::set_ups_in_vain_leave_no_descriptors", (3, 1), |job| {
        among(job, &[0, 1, 2], 1);
        let before = descriptors(job);
        // The first of them gathers what the others say.
        for (late, tag) in [0, 1, 2, 0, 2].into_iter().zip(2..) {
            let timeout = Duration::from_millis(100);
            let config = within(timeout);
            let is_late = job.rank() == late;
            if is_late {
                job.barrier(SOON).expect("the others have given it up");
            }
            let error =
                Hierarchy::among(job, &[0, 1, 2], tag, None, &processor(job), &config).expect_err("in vain");
            assert!(matches!(error, SharedGpuError::Job(_)), "{error}");
            if !is_late {
                job.barrier(SOON).expect("all others have");
            }
            job.barrier(SOON).expect("all have tried");
            assert_eq!(descriptors(job), before, "rank {late} was late");
        }
        among(job, &[0, 1, 2], 10);
    });
}

#[test]
fn a_death_within_a_set_up_ends_it_for_all() {
    in_job_with_death("among::a_death_within_a_set_up_ends_it_for_all", 4, 2, |job| {
        if Some(job.rank()) == victim() {
            die();
        }
        let config = within(LONG);
        let began = Instant::now();
        let error =
            Hierarchy::among(job, &[0, 1, 2, 3], 1, None, &processor(job), &config).expect_err("one is dead");
        assert!(matches!(error, SharedGpuError::Job(_)), "{error}");
        assert!(began.elapsed() < LONG, "nobody waits for the first, which does not go on");
        // Nor because that has left the job, then.
        let file = std::fs::File::open("/dev/null").expect("always there");
        if job.rank() == 0 {
            for rank in [1, 3] {
                job.recv_fds(rank, 7, SOON).expect("it has been told");
            }
        } else {
            job.send_fds(0, 7, &[file.as_fd()], SOON).expect("it is there");
        }
    });
}

#[test]
fn settings_that_differ_are_told_among_some_ranks() {
    in_job("among::settings_that_differ_are_told_among_some_ranks", (4, 1), |job| {
        if job.rank() == 0 {
            return;
        }
        let mut config = HierarchyConfig::default();
        config.inside.buffer = if job.rank() == 3 { 1 << 20 } else { 2 << 20 };
        let error =
            Hierarchy::among(job, &[1, 2, 3], 1, None, &processor(job), &config).expect_err("other buffers");
        assert!(error.to_string().contains("rank 3 has") && error.to_string().contains("1048576"), "{error}");
        among(job, &[1, 2, 3], 2);
    });
}

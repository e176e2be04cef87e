//! What goes wrong between real processes: deaths within a copy, late ranks, buffers and vectors that cannot be. On the CPU executor, or
//! on the first GPU with `GGAS_TEST_GPUS=1`.

use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use crate::common::{die, in_job, in_job_with_death, victim};
use crate::ranks::{LONG, Rank, SOON, config, floats, number, processor, short, sum};
use ggas_members::Job;
use ggas_shared_gpu::{
    Algorithm, Config, Copier, Directory, Element, Layout, Op, SharedGpu, SharedGpuError, Vector,
};

const ALGORITHMS: [Algorithm; 6] =
    [Algorithm::Gsb, Algorithm::Btb, STAGED, STORED, Algorithm::Dynamic, Algorithm::Host];

/// Through the host, and by kernels.
const STAGED: Algorithm = Algorithm::Static { staged: 2, by: Copier::Engine };
const STORED: Algorithm = Algorithm::Static { staged: 1, by: Copier::Stores };

/// Some hundred chunks of a buffer of 16 KiB.
const COUNT: usize = 1 << 18;
/// Elements that nobody may touch, behind the result.
const GUARD: usize = 1 << 10;

/// Ranks add vectors of many chunks for ever; one dies once the first chunk of its result is there, within a call.
fn dies(job: &Job, algorithm: Algorithm) {
    let config = Config { buffer: 16 << 10, timeout: LONG, ..config(algorithm) };
    let mut rank = Rank::new(job, &config, COUNT + GUARD);
    let whole: Vec<u8> = vec![0xa5; 4 * GUARD];
    rank.output.write(4 * COUNT, &whole).expect("in range");
    job.barrier(SOON).expect("all are set up");
    let Rank { shared, input, output } = &mut rank;
    let (input, output) = (&*input, &*output);
    let mut add = || {
        let (input, output) = (Vector::at(input, 0), Vector::at(output, 0));
        shared.allreduce(input, output, COUNT, Element::Float, Op::Sum)
    };
    if Some(job.rank()) == victim() {
        thread::scope(|threads| {
            threads.spawn(|| {
                while floats(output, 1)[0] == 0.0 {
                    thread::yield_now();
                }
                die();
            });
            loop {
                add().expect("the others are there");
            }
        });
    }
    let error = loop {
        if let Err(error) = add() {
            break error;
        }
    };
    assert!(matches!(error, SharedGpuError::PeerLost { rank } if Some(rank) == victim()), "{error}");
    let mut text = vec![0; 4 * GUARD];
    output.read(4 * COUNT, &mut text).expect("in range");
    assert!(text == whole, "what lies behind the result");
    let own = job.rank() as usize;
    assert!(floats(input, COUNT).iter().enumerate().all(|(i, one)| *one == number(own, i)), "its vector");
    let is_none_or_whole = |(i, one): (usize, &f32)| *one == 0.0 || *one == sum(4, algorithm, i);
    assert!(floats(output, COUNT).iter().enumerate().all(is_none_or_whole), "part of a result");
    assert!(matches!(add(), Err(SharedGpuError::Broken)));
}

macro_rules! deaths {
    ($($test:ident: $algorithm:expr, $victim:literal;)*) => {$(
        #[test]
        fn $test() {
            in_job_with_death(concat!("failures::", stringify!($test)), 4, $victim, |job| dies(job, $algorithm));
        }
    )*};
}

deaths! {
    the_leader_dies_in_a_copy_by_gsb: Algorithm::Gsb, 0;
    a_rank_dies_in_a_copy_by_gsb: Algorithm::Gsb, 2;
    the_leader_dies_in_a_copy_by_btb: Algorithm::Btb, 0;
    a_rank_dies_in_a_copy_by_btb: Algorithm::Btb, 3;
    the_leader_dies_in_a_staged_copy: STAGED, 0;
    a_rank_dies_in_a_staged_copy: STAGED, 1;
    a_rank_dies_in_a_copy_by_a_kernel: STORED, 1;
    the_leader_dies_in_a_copy_of_the_dynamic_algorithm: Algorithm::Dynamic, 0;
    a_rank_dies_in_a_copy_of_the_dynamic_algorithm: Algorithm::Dynamic, 2;
    the_leader_dies_in_a_copy_through_the_host: Algorithm::Host, 0;
    a_rank_dies_in_a_copy_through_the_host: Algorithm::Host, 3;
}

#[test]
fn a_rank_that_calls_too_late_has_no_result_and_new_ones_work() {
    in_job("failures::a_rank_that_calls_too_late_has_no_result_and_new_ones_work", (4, 1), |job| {
        for algorithm in ALGORITHMS {
            let config = Config { timeout: short(), ..config(algorithm) };
            let mut rank = Rank::new(job, &config, 1000);
            job.barrier(SOON).expect("all are set up");
            if job.rank() == 1 {
                job.barrier(SOON).expect("the others have given it up");
            }
            let error = rank.allreduce(1000).expect_err("too late").to_string();
            // One may give up a moment before rank 0 does, which it waits for and which waits for rank 1: in a tree, and for its result.
            let by_another = job.rank() != 0 && error.contains("rank 0 did not do its part");
            assert!(error.contains("rank 1 ") || by_another, "{algorithm:?}: {error}");
            if job.rank() != 1 {
                job.barrier(SOON).expect("all have failed");
            }
            let own = rank.shared.rank();
            assert!((0..1000).all(|i| floats(&rank.input, 1000)[i] == number(own, i)), "its vector");
            assert!(floats(&rank.output, 1000) == vec![0.0; 1000], "nobody has a result");
            job.barrier(SOON).expect("all have seen it");
            let mut rank = Rank::new(job, &Config { timeout: SOON, ..config }, 1000);
            let expected: Vec<f32> = (0..1000).map(|i| sum(4, algorithm, i)).collect();
            assert!(rank.allreduce(1000).expect("all are there") == expected, "{algorithm:?}");
        }
    });
}

#[test]
fn a_call_is_not_ended_by_what_fails_behind_it() {
    in_job("failures::a_call_is_not_ended_by_what_fails_behind_it", (2, 1), |job| {
        let mut rank = Rank::new(job, &config(Algorithm::Gsb), 1000);
        job.barrier(SOON).expect("all are set up");
        if job.rank() == 1 {
            job.barrier(SOON).expect("the other one has failed");
        }
        // Nobody is needed for it: the first one goes on to a call in which it waits in vain.
        assert!(rank.allreduce(0).expect("nothing is to be done").is_empty());
        rank.shared.set_timeout(Duration::from_millis(1));
        let error = rank.allreduce(1000).expect_err("it is alone");
        if job.rank() == 0 {
            assert!(matches!(error, SharedGpuError::Timeout { rank: 1, .. }), "{error}");
            job.barrier(SOON).expect("this one has failed");
        } else {
            assert!(matches!(error, SharedGpuError::Elsewhere { rank: 1, .. }), "{error}");
        }
    });
}

/// Behind a failure the root's vector is its own again, and it writes there while the others may still copy.
#[test]
fn nobody_has_what_a_root_wrote_behind_a_broadcast_that_it_gave_up() {
    in_job("failures::nobody_has_what_a_root_wrote_behind_a_broadcast_that_it_gave_up", (3, 1), |job| {
        const COUNT: usize = 8 << 20;
        for round in 0..4 {
            let mut rank = Rank::new(job, &Config { timeout: SOON, ..config(Algorithm::Direct) }, COUNT);
            let vector = Vector::at(&rank.input, 0);
            let [was, later] = [1, 2].map(|byte| vec![byte; 4 * COUNT]);
            if job.rank() == 0 {
                rank.input.write(0, &was).expect("in range");
                rank.shared.set_timeout(Duration::from_millis(1));
            }
            job.barrier(SOON).expect("all are set up");
            let done = rank.shared.broadcast(0, vector, COUNT, Element::Float);
            if job.rank() == 0 {
                rank.input.write(0, &later).expect("in range");
            } else if done.is_ok() {
                let mut got = vec![0; 4 * COUNT];
                rank.input.read(0, &mut got).expect("in range");
                assert!(got == was, "round {round}: not what was sent");
            } else {
                let error = done.expect_err("given up");
                assert!(matches!(error, SharedGpuError::Elsewhere { .. }), "round {round}: {error}");
            }
            job.barrier(SOON).expect("all have looked");
        }
    });
}

#[test]
fn a_rank_that_is_set_up_too_late_is_told_and_ends() {
    in_job("failures::a_rank_that_is_set_up_too_late_is_told_and_ends", (4, 1), |job| {
        let file = std::fs::File::open("/dev/null").expect("always there");
        let set_up = || {
            let config = Config { timeout: short(), ..config(Algorithm::Gsb) };
            let error = SharedGpu::new(job, &processor(), &config).expect_err("not all at once");
            assert!(matches!(error, SharedGpuError::Job(_) | SharedGpuError::Peer { .. }), "{error}");
            error.to_string()
        };
        if job.rank() != 1 {
            let error = set_up();
            assert!(error.contains('1'), "{error}");
            return job.send_fds(1, 7, &[file.as_fd()], SOON).expect("it waits");
        }
        for rank in [0, 2, 3] {
            job.recv_fds(rank, 7, SOON).expect("they have given it up");
        }
        set_up();
    });
}

#[test]
fn a_buffer_may_be_as_small_as_can_be() {
    in_job("failures::a_buffer_may_be_as_small_as_can_be", (4, 1), |job| {
        for algorithm in ALGORITHMS {
            let least = Layout::least(4);
            let small = Config { buffer: least - 1, ..config(algorithm) };
            let error = SharedGpu::new(job, &processor(), &small).expect_err("too small");
            assert!(matches!(error, SharedGpuError::SmallBuffer { .. }), "{error}");
            let mut rank = Rank::new(job, &Config { buffer: least, ..config(algorithm) }, 5000);
            // Each chunk fills the buffer: 256 bytes, which is one element less or more than a chunk, too.
            for count in [63, 64, 65, 5000] {
                let expected: Vec<f32> = (0..count).map(|i| sum(4, algorithm, i)).collect();
                assert!(rank.allreduce(count).expect("a sum") == expected, "{algorithm:?}, {count} elements");
            }
        }
        job.barrier(SOON).expect("all are done");
    });
}

#[test]
fn a_buffer_that_no_memory_is_enough_for_is_told_to_all() {
    in_job("failures::a_buffer_that_no_memory_is_enough_for_is_told_to_all", (3, 1), |job| {
        for buffer in [1 << 60, usize::MAX / 2 + 1, usize::MAX - 4095, usize::MAX] {
            for directory in [Directory::Host, Directory::GpuKernel] {
                let large = Config { buffer, directory, ..config(Algorithm::Gsb) };
                let error = SharedGpu::new(job, &processor(), &large).expect_err("too large");
                assert!(error.to_string().contains("memory"), "{buffer}: {error}");
            }
        }
        let mut rank = Rank::new(job, &config(Algorithm::Gsb), 10);
        rank.allreduce(10).expect("a sum");
        job.barrier(SOON).expect("all are done");
    });
}

#[test]
fn a_rank_whose_vector_is_too_short_is_told_before_the_call_and_may_make_it_again() {
    in_job(
        "failures::a_rank_whose_vector_is_too_short_is_told_before_the_call_and_may_make_it_again",
        (4, 1),
        |job| {
            for algorithm in ALGORITHMS {
                let mut rank = Rank::new(job, &config(algorithm), 1000);
                if job.rank() == 2 {
                    let short = processor().alloc(4 * 999).expect("memory");
                    let (from, to) = (Vector::at(&short, 0), Vector::at(&rank.output, 0));
                    let error = rank.shared.allreduce(from, to, 1000, Element::Float, Op::Sum);
                    assert!(matches!(error, Err(SharedGpuError::Range { .. })), "{error:?}");
                    let error = rank.shared.allreduce(
                        Vector::at(&rank.input, 0),
                        from,
                        1000,
                        Element::Float,
                        Op::Sum,
                    );
                    assert!(matches!(error, Err(SharedGpuError::Range { .. })), "{error:?}");
                }
                let expected: Vec<f32> = (0..1000).map(|i| sum(4, algorithm, i)).collect();
                assert!(rank.allreduce(1000).expect("a sum") == expected, "{algorithm:?}");
                job.barrier(SOON).expect("all are done");
            }
        },
    );
}

#[test]
fn a_leader_without_memory_for_the_buffer_is_named_by_all() {
    in_job("failures::a_leader_without_memory_for_the_buffer_is_named_by_all", (3, 1), |job| {
        if job.rank() == 0 {
            let least = libc::rlimit { rlim_cur: 64 << 10, rlim_max: libc::RLIM_INFINITY };
            // SAFETY: a limit of this process.
            assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &least) }, 0);
        }
        let error = SharedGpu::new(job, &processor(), &config(Algorithm::Gsb)).expect_err("no memory");
        match error {
            SharedGpuError::Shared(_) if job.rank() == 0 => {}
            SharedGpuError::Peer { rank: 0, what } => assert!(what.contains("shared memory"), "{what}"),
            error => panic!("{error}"),
        }
        let mut rank = Rank::new(job, &Config { buffer: 32 << 10, ..config(Algorithm::Gsb) }, 10_000);
        let expected: Vec<f32> = (0..10_000).map(|i| sum(3, Algorithm::Gsb, i)).collect();
        assert!(rank.allreduce(10_000).expect("that fits") == expected);
        job.barrier(SOON).expect("all are done");
    });
}

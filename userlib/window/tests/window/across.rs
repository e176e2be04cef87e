//! Windows across processes: one memory for all, agreement, and what becomes of it when a process goes.

use std::time::{Duration, Instant};

use crate::common::{die, in_job, in_job_with_death};
use ggas_device::sim::{ProcessFabric, SimNetwork};
use ggas_kernels::{Processor, Running, start};
use ggas_members::{Job, JobError};
use ggas_rma::Node;
use ggas_selftest::args::{
    SELFTEST_ACCESS_FETCH, SELFTEST_WINDOW_COUNTER, SELFTEST_WINDOW_OUT, selftest_access, selftest_window,
};
use ggas_window::{Atomic, Mapping, Window, WindowError};

const SOON: Duration = Duration::from_secs(60);

struct Process {
    node: Node,
    cpu: Processor,
    _network: SimNetwork,
}

impl Process {
    fn new(job: &Job) -> Process {
        let network =
            SimNetwork::join(ProcessFabric::join(job.member().clone()).expect("a card")).expect("a node");
        Process { node: Node::new(network.device(0).expect("one")), cpu: Processor::cpu(), _network: network }
    }

    fn window(&self, job: &Job, bytes: usize) -> Result<Window, WindowError> {
        Window::across(job, &self.node, &self.cpu, bytes, SOON)
    }
}

#[test]
fn all_processes_see_one_memory() {
    in_job("across::all_processes_see_one_memory", (3, 1), |job| {
        let process = Process::new(job);
        let window = process.window(job, 5000).expect("a window");
        let (rank, size) = (job.rank() as usize, job.size() as usize);
        assert_eq!((window.len(), window.local(), window.bytes()), (size, rank..rank + 1, 5000));
        assert_eq!((window.info().mapped.clone(), window.info().atomics), (Ok(Mapping::Processes), true));
        let own = window.member(rank).expect("mine");
        let base = own.global_pointer(0).expect("mapped");
        for part in 0..size {
            assert_eq!(own.pointer_of(part).expect("mapped"), base + 8192 * part as u64);
            let mut bytes = [9; 5000];
            window.read(part, 0, &mut bytes).expect("mapped");
            assert!(bytes.iter().all(|byte| *byte == 0), "zero at first");
        }
        let other = window.member((rank + 1) % size);
        assert!(matches!(other, Err(WindowError::Elsewhere { .. })), "{other:?}");
        job.barrier(SOON).expect("all");
        for part in 0..size {
            window.store_u64(part, 8 * rank, (100 * part + rank) as u64).expect("mapped");
            window.write(part, 4000 + rank, &[rank as u8 + 1]).expect("mapped");
        }
        job.barrier(SOON).expect("all");
        for part in 0..size {
            for from in 0..size {
                assert_eq!(window.load_u64(part, 8 * from).expect("mapped"), (100 * part + from) as u64);
                let mut byte = [0];
                window.read(part, 4000 + from, &mut byte).expect("mapped");
                assert_eq!(byte[0], from as u8 + 1);
            }
        }
        job.barrier(SOON).expect("all");
    });
}

#[test]
fn the_smfu_reaches_the_parts_of_other_processes() {
    in_job("across::the_smfu_reaches_the_parts_of_other_processes", (3, 1), |job| {
        let process = Process::new(job);
        let window = process.window(job, 4096).expect("a window");
        let (rank, size) = (job.rank() as usize, job.size() as usize);
        assert_eq!(window.info().trapped, Ok(()), "{}", window.info());
        let own = window.member(rank).expect("mine");
        for part in 0..size {
            let text = format!("from {rank} to {part}, in packets of the unit: {:?}", [rank; 40]);
            own.store(part, 600 * rank + 3, text.as_bytes()).expect("stored");
            let mut back = vec![0; text.len()];
            own.load(part, 600 * rank + 3, &mut back, SOON).expect("loaded");
            assert_eq!(String::from_utf8_lossy(&back), text);
            // The load came behind the store, so the bytes are in the part.
            window.read(part, 600 * rank + 3, &mut back).expect("mapped");
            assert_eq!(String::from_utf8_lossy(&back), text);
        }
        job.barrier(SOON).expect("all");
    });
}

#[test]
fn kernels_of_all_processes_write_read_and_add() {
    in_job("across::kernels_of_all_processes_write_read_and_add", (4, 1), |job| {
        const BYTES: usize = 4096;
        let process = Process::new(job);
        let window = process.window(job, SELFTEST_WINDOW_OUT as usize + 5 * BYTES).expect("a window");
        let (status, wrong) = (process.cpu.alloc(8).expect("memory"), process.cpu.alloc(8).expect("memory"));
        let own = window.member(job.rank() as usize).expect("mine");
        let args = selftest_window {
            window: own.address(),
            status: status.address(),
            wrong: wrong.address(),
            bytes: BYTES as u64,
            rounds: 10,
            atomics: 1,
        };
        // SAFETY: the structure is this kernel's, and its memory outlives the wait.
        let launch = unsafe { ggas_selftest::launch(&process.cpu, "ggas_selftest_window", 1, 64, &args) };
        start(&[launch]).and_then(|running| running.wait(SOON)).expect("it ends");
        assert_eq!(status.load_u64(0).expect("in range"), 0, "{:?}", own.report());
        assert_eq!(wrong.load_u64(0).expect("in range"), 0);
        let added = window.load_u64(job.rank() as usize, SELFTEST_WINDOW_COUNTER as usize);
        assert_eq!(added.expect("mapped"), 10 * 3 * 64);
        job.barrier(SOON).expect("all");
    });
}

/// Atomic operations by the units of all processes, and by the processor of whose part it is, on the same words.
#[test]
fn the_smfu_has_atomics_on_the_parts_of_other_processes() {
    for per_node in [1, 3] {
        in_job("across::the_smfu_has_atomics_on_the_parts_of_other_processes", (3, per_node), |job| {
            const ROUNDS: u64 = 100;
            let process = Process::new(job);
            let window = process.window(job, 4096).expect("a window");
            let (rank, size) = (job.rank() as usize, job.size() as usize);
            let own = window.member(rank).expect("mine");
            let kernel = start_adding(&process, &window, rank, ROUNDS);
            for round in 0..ROUNDS {
                for part in 0..size {
                    own.reduce(part, 64, Atomic::add(1)).expect("posted");
                    let place = 128 + 8 * rank;
                    assert_eq!(own.atomic(part, place, Atomic::add(3), SOON).expect("done"), 3 * round);
                }
            }
            // Behind what was posted.
            (0..size).for_each(|part| own.load(part, 64, &mut [0; 8], SOON).expect("loaded"));
            kernel.wait(SOON).expect("it ends");
            job.barrier(SOON).expect("all");
            assert_eq!(window.load_u64(rank, 64).expect("mine"), (size as u64 + 1) * ROUNDS);
            job.barrier(SOON).expect("all");
        });
    }
}

/// A kernel that adds 1 to a word of its own part, in memory.
fn start_adding(process: &Process, window: &Window, rank: usize, rounds: u64) -> Running {
    let args = selftest_access {
        window: window.member(rank).expect("mine").address(),
        // Further words of the part, which nobody else uses.
        done: window.member(rank).and_then(|own| own.pointer_of(rank)).expect("mapped") + 1024,
        sum: 0,
        rounds,
        offset: 64,
        peer: rank as u32,
        what: SELFTEST_ACCESS_FETCH,
    };
    // SAFETY: the structure is this kernel's, and the window outlives the wait.
    let launch = unsafe { ggas_selftest::launch(&process.cpu, "ggas_selftest_access", 1, 1, &args) };
    start(&[launch]).expect("it starts")
}

#[test]
fn several_members_of_a_node_have_parts_of_their_own_in_its_smfu() {
    in_job("across::several_members_of_a_node_have_parts_of_their_own_in_its_smfu", (5, 2), |job| {
        let process = Process::new(job);
        let (rank, size) = (job.rank() as usize, job.size() as usize);
        // The unit is free for the next window once all of its node have dropped the last one.
        for round in 0..3 {
            let window = process.window(job, 4096).expect("a window");
            assert_eq!(window.info().trapped, Ok(()), "{}", window.info());
            let own = window.member(rank).expect("mine");
            let word = |from: usize, to: usize| (100 * round + 10 * from + to) as u64;
            for part in 0..size {
                own.store(part, 8 * rank, &word(rank, part).to_ne_bytes()).expect("stored");
                let mut back = [0; 8];
                own.load(part, 8 * rank, &mut back, SOON).expect("loaded");
                assert_eq!(u64::from_ne_bytes(back), word(rank, part));
            }
            job.barrier(SOON).expect("all");
            for from in 0..size {
                assert_eq!(window.load_u64(rank, 8 * from).expect("mapped"), word(from, rank), "from {from}");
            }
            drop(window);
            job.barrier(SOON).expect("all");
        }
    });
}

#[test]
fn what_cannot_be_is_refused_on_all_ranks_and_the_job_goes_on() {
    in_job("across::what_cannot_be_is_refused_on_all_ranks_and_the_job_goes_on", (3, 1), |job| {
        let process = Process::new(job);
        let begun = Instant::now();
        let other_size = process.window(job, 4096 + 1000 * (job.rank() as usize / 2));
        let refused = matches!(other_size, Err(WindowError::Unequal { rank: 2, bytes: 5096, first: 4096 }));
        assert!(refused, "{other_size:?}");
        assert!(matches!(process.window(job, 0), Err(WindowError::Empty)));
        assert!(matches!(process.window(job, usize::MAX), Err(WindowError::TooLarge { .. })));
        // Who would make the memory refuses, and tells the others.
        for absurd in [4 << 40, 1 << 60].map(|bytes| process.window(job, bytes)) {
            let error = absurd.expect_err("no machine has that").to_string();
            assert!(error.contains("MiB of host memory, and there are at most "), "{error}");
        }
        assert!(begun.elapsed() < SOON / 2, "no waiting: {:?}", begun.elapsed());
        let window = process.window(job, 4096).expect("a window after all");
        window.store_u64(0, 8 * job.rank() as usize, 1).expect("mapped");
        job.barrier(SOON).expect("all");
        assert!((0..3).all(|rank| window.load_u64(0, 8 * rank).expect("mapped") == 1));
        job.barrier(SOON).expect("all");
    });
}

#[test]
fn a_process_that_does_not_come_is_named_in_time() {
    in_job("across::a_process_that_does_not_come_is_named_in_time", (3, 1), |job| {
        let process = Process::new(job);
        // The others look at each other in time.
        job.barrier(SOON).expect("all");
        if job.rank() == 1 {
            // Comes to the set-up once the others have given up; its own then ends, too.
            job.recv_fds(0, 5, SOON).expect("a letter");
        } else {
            let (begun, timeout) = (Instant::now(), Duration::from_secs(4));
            let error = Window::across(job, &process.node, &process.cpu, 4096, timeout).expect_err("nobody");
            let WindowError::Job(JobError::Timeout { waiting_for, .. }) = &error else { panic!("{error}") };
            assert_eq!(*waiting_for, [1], "{error}");
            assert!(begun.elapsed() < SOON / 2, "{:?}", begun.elapsed());
        }
        if job.rank() == 0 {
            // Only then may rank 1 go on.
            job.recv_fds(2, 6, SOON).expect("a letter");
            job.send_fds(1, 5, &[], SOON).expect("sent");
        }
        if job.rank() == 2 {
            job.send_fds(0, 6, &[], SOON).expect("sent");
        }
    });
}

#[test]
fn a_death_before_the_set_up_is_named() {
    in_job_with_death("across::a_death_before_the_set_up_is_named", 3, 1, |job| {
        let process = Process::new(job);
        if job.rank() == 1 {
            die();
        }
        let begun = Instant::now();
        let error = process.window(job, 4096).expect_err("no rank 1");
        assert!(matches!(error, WindowError::Job(JobError::PeerLost { rank: 1 })), "{error}");
        assert!(begun.elapsed() < SOON / 2, "{:?}", begun.elapsed());
    });
}

#[test]
fn parts_outlive_their_process() {
    in_job_with_death("across::parts_outlive_their_process", 3, 0, |job| {
        let process = Process::new(job);
        let window = process.window(job, 1 << 20).expect("a window");
        window.write(0, 999_999, &[7]).expect("mapped");
        job.barrier(SOON).expect("all");
        if job.rank() == 0 {
            // Its window goes in order, and then the process does not.
            drop(window);
            die();
        }
        while !job.lost().contains(&0) {
            std::thread::yield_now();
        }
        let mut byte = [0];
        window.read(0, 999_999, &mut byte).expect("mapped");
        assert_eq!(byte, [7]);
        // Pages that nobody had touched while it lived, too.
        window.store_u64(0, 512 << 10, u64::from(job.rank())).expect("mapped");
        assert_ne!(window.load_u64(0, 512 << 10).expect("mapped"), 0);
    });
}

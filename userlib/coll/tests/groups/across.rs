//! Collectives across processes on the CPU executor: values, few cores, deaths, stopped processes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::jobs::{all_of_first, die, in_job, in_job_with_death, signal, victim};
use extoll_abi::layout::{GGAS_ERR_POISONED, GGAS_ERR_TIMEOUT};
use ggas_coll::{Group, GroupConfig, GroupError};
use ggas_device::sim::{ProcessFabric, SimNetwork};
use ggas_kernels::{KernelMem, Processor, Running, start};
use ggas_members::Job;
use ggas_rma::Node;
use ggas_selftest::args::{
    SELFTEST_ALLREDUCE_ALL_GATHER, SELFTEST_ALLREDUCE_ALL_TO_ALL, SELFTEST_ALLREDUCE_ONE_SHOT,
    SELFTEST_ALLREDUCE_TWO_SHOT, SELFTEST_BARRIER, SELFTEST_BLOCK, SELFTEST_BROADCAST, SELFTEST_GRID,
    SELFTEST_INT64, selftest_coll,
};
use ggas_window::Window;

/// Bound of every wait that is expected to succeed, on a machine that may stall for seconds.
const SOON: Duration = Duration::from_secs(60);
/// Time-out of collectives that a death ends before it.
const LONG: Duration = Duration::from_secs(100);
/// Bound of what a death ends.
const SHORTLY: Duration = Duration::from_secs(30);

/// Bytes of each part before the group's area.
const USER: usize = 4096;

struct Process {
    rank: usize,
    cpu: Processor,
    group: Group,
    status: KernelMem,
    wrong: KernelMem,
    _network: SimNetwork,
}

/// A process's way to the others; it has one.
fn card(job: &Job) -> Arc<ProcessFabric> {
    ProcessFabric::join(job.member().clone()).expect("a card")
}

impl Process {
    fn new(job: &Job, config: GroupConfig) -> Process {
        Process::try_new(job, &card(job), config).expect("a group")
    }

    fn try_new(
        job: &Job,
        card: &Arc<ProcessFabric>,
        config: GroupConfig,
    ) -> Result<Process, Box<GroupError>> {
        let network = SimNetwork::join(card.clone()).expect("a node");
        let (node, cpu) = (Node::new(network.device(0).expect("one")), Processor::cpu());
        let config = GroupConfig { offset: USER, ..config };
        let bytes = config.end(job.size() as usize)?;
        let window = Window::across(job, &node, &cpu, bytes, SOON).map_err(GroupError::from)?;
        let group = Group::across(job, Arc::new(window), &config)?;
        let (status, wrong) = (cpu.alloc(8).expect("memory"), cpu.alloc(8).expect("memory"));
        Ok(Process { rank: job.rank() as usize, cpu, group, status, wrong, _network: network })
    }

    /// Starts this process's kernel.
    fn start(&self, (grid, block): (u32, u32), args: selftest_coll) -> Running {
        self.status.store_u64(0, 0).expect("in range");
        let args = selftest_coll {
            group: self.group.member(self.rank).expect("mine").address(),
            status: self.status.address(),
            wrong: self.wrong.address(),
            ..args
        };
        let meets = args.method == SELFTEST_BARRIER;
        let kernel = if meets { "ggas_selftest_coll" } else { "ggas_selftest_coll_types" };
        // SAFETY: the structure is this kernel's, and its memory outlives the wait.
        let launch = unsafe { ggas_selftest::launch(&self.cpu, kernel, grid, block, &args) };
        start(&[launch]).expect("it starts")
    }

    /// Runs it and returns what its collectives returned.
    fn run(&self, shape: (u32, u32), args: selftest_coll) -> u64 {
        self.start(shape, args).wait(LONG + SOON / 2).expect("it ends");
        self.status.load_u64(0).expect("in range")
    }

    fn barriers(&self, rounds: u32) -> selftest_coll {
        let window = self.group.window();
        selftest_coll {
            input: window.member(self.rank).and_then(|own| own.global_pointer(0)).expect("mapped"),
            input_stride: window.info().stride as u64,
            method: SELFTEST_BARRIER,
            rounds,
            ..selftest_coll::default()
        }
    }

    /// Sums `count` numbers of every process in all of them, and checks the sums.
    fn allreduce(&self, shape: (u32, u32), method: u32, count: usize, rounds: u32) {
        let value = |rank: usize, i: usize| (rank as i64 + 1) * (i as i64 - 7) * 1_000_003;
        let memory = self.cpu.alloc(2 * 8 * count).expect("memory");
        let bytes = (0..count).flat_map(|i| value(self.rank, i).to_ne_bytes());
        memory.write(0, &bytes.collect::<Vec<u8>>()).expect("in range");
        let (input, out) = (memory.address(), memory.address() + 8 * count as u64);
        let args = selftest_coll {
            input,
            out,
            count: count as u64,
            element: SELFTEST_INT64,
            form: if shape.0 > 1 { SELFTEST_GRID } else { SELFTEST_BLOCK },
            method,
            rounds,
            ..selftest_coll::default()
        };
        assert_eq!(self.run(shape, args), 0, "{:?}", self.group.check());
        let mut sums = vec![0; 8 * count];
        memory.read(8 * count, &mut sums).expect("in range");
        for (i, sum) in sums.chunks_exact(8).enumerate() {
            let expected: i64 = (0..self.group.len()).map(|rank| value(rank, i)).sum();
            assert_eq!(i64::from_ne_bytes(sum.try_into().expect("8 bytes")), expected, "element {i}");
        }
    }
}

#[test]
fn barriers_and_sums_between_processes() {
    in_job("across::barriers_and_sums_between_processes", (4, 2), |job| {
        let config = GroupConfig { slot_bytes: 256, master: 2, ..GroupConfig::default() };
        let process = Process::new(job, config);
        for shape in [(1, 1), (1, 33), (2, 32)] {
            process.group.window().store_u64(process.rank, 0, 0).expect("mapped");
            job.barrier(SOON).expect("all");
            assert_eq!(process.run(shape, process.barriers(20)), 0);
            assert_eq!(process.wrong.load_u64(0).expect("in range"), 0, "passed too early");
            job.barrier(SOON).expect("all");
            for method in [SELFTEST_ALLREDUCE_ALL_GATHER, SELFTEST_ALLREDUCE_ALL_TO_ALL] {
                for count in [1, 31, 32, 200] {
                    process.allreduce(shape, method, count, 3);
                }
            }
        }
        process.group.check().expect("no failure");
        process.group.reset_across(job).expect("reset");
        process.allreduce((1, 32), SELFTEST_ALLREDUCE_ALL_TO_ALL, 100, 2);
        job.barrier(SOON).expect("all");
    });
}

#[test]
fn sixty_four_processes_finish_on_few_cores() {
    in_job("across::sixty_four_processes_finish_on_few_cores", (64, 4), |job| {
        // Who waits gives its core away. All waits together may take what one may, on a machine with other work.
        let timeout = LONG;
        let process = Process::new(job, GroupConfig { slot_bytes: 256, timeout, ..GroupConfig::default() });
        let begun = Instant::now();
        process.allreduce((1, 32), SELFTEST_ALLREDUCE_ALL_TO_ALL, 128, 1);
        assert!(begun.elapsed() < timeout, "{:?}", begun.elapsed());
        job.barrier(SOON).expect("all");
    });
}

#[test]
fn groups_are_laid_out_alike_or_refused_everywhere() {
    in_job("across::groups_are_laid_out_alike_or_refused_everywhere", (3, 1), |job| {
        let (master, card) = (usize::from(job.rank() == 1), card(job));
        let config = || GroupConfig { slot_bytes: 256, ..GroupConfig::default() };
        let refused = Process::try_new(job, &card, GroupConfig { master, ..config() });
        assert!(
            matches!(refused.as_ref().err().map(|error| &**error), Some(GroupError::Unequal { rank: 1 })),
            "{:?}",
            refused.err()
        );
        let refused = Process::try_new(job, &card, GroupConfig { master: 3, ..config() });
        assert!(
            matches!(refused.as_ref().err().map(|error| &**error), Some(GroupError::Master { .. })),
            "{:?}",
            refused.err()
        );
        let process = Process::try_new(job, &card, GroupConfig::default()).expect("a group");
        let window = process.group.window().clone();
        let alone = Group::new(window, &GroupConfig { offset: USER, ..GroupConfig::default() });
        assert!(matches!(alone, Err(GroupError::Across { .. })), "{alone:?}");
        assert!(matches!(process.group.reset(), Err(GroupError::Across { .. })));
        assert!(process.group.member((process.rank + 1) % 3).is_err(), "in another process");
        job.barrier(SOON).expect("all");
    });
}

#[test]
fn a_death_inside_a_collective_ends_it_everywhere() {
    const TEST: &str = "across::a_death_inside_a_collective_ends_it_everywhere";
    // The master of the barrier, another, and nobody: a new job right after.
    in_job_with_death(TEST, 4, 0, barriers_until_death);
    in_job_with_death(TEST, 4, 2, barriers_until_death);
    in_job(TEST, (4, 1), barriers_until_death);
}

fn barriers_until_death(job: &Job) {
    let process = Process::new(job, GroupConfig { timeout: LONG, ..GroupConfig::default() });
    let Some(victim) = victim() else {
        return assert_eq!(process.run((2, 32), process.barriers(20)), 0);
    };
    let endless = process.start((2, 32), process.barriers(u32::MAX));
    while process.group.window().load_u64(process.rank, 0).expect("mapped") < 3 {
        std::thread::yield_now();
    }
    job.barrier(SOON).expect("all are in the midst of it");
    if job.rank() == victim {
        die();
    }
    while !job.lost().contains(&victim) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let seen = Instant::now();
    endless.wait(SOON).expect("the kernel ends");
    assert!(seen.elapsed() < SHORTLY, "took {:?}", seen.elapsed());
    assert_eq!(process.status.load_u64(0).expect("in range"), u64::from(GGAS_ERR_POISONED));
    let own = process.group.member(process.rank).expect("mine");
    // None where the poison came between two collectives.
    assert!(own.report().is_none_or(|report| report.status == GGAS_ERR_POISONED), "{:?}", own.report());
    // At once the next time, and for good.
    let begun = Instant::now();
    assert_eq!(process.run((1, 32), process.barriers(1)), u64::from(GGAS_ERR_POISONED));
    assert!(begun.elapsed() < SHORTLY, "took {:?}", begun.elapsed());
    let check = process.group.check();
    assert!(matches!(check, Err(GroupError::PeerLost { rank }) if rank == victim), "{check:?}");
    let reset = process.group.reset_across(job);
    assert!(matches!(reset, Err(GroupError::PeerLost { rank }) if rank == victim), "{reset:?}");
    assert!(own.is_poisoned().expect("read"));
}

#[test]
fn poison_of_a_neighbour_waits_for_the_death_behind_it() {
    in_job_with_death("across::poison_of_a_neighbour_waits_for_the_death_behind_it", 2, 1, |job| {
        const CHECKS: usize = 2048;
        let victim = victim().expect("a job with a death");
        // The victim's barrier has nobody to meet, and poisons the other's flags.
        let timeout = if job.rank() == victim { Duration::from_millis(1) } else { LONG };
        let process = Process::new(job, GroupConfig { timeout, ..GroupConfig::default() });
        if job.rank() == victim {
            assert_eq!(process.run((1, 32), process.barriers(1)), u64::from(GGAS_ERR_TIMEOUT));
            job.barrier(SOON).expect("the poison is there");
            while process.group.window().load_u64(process.rank, CHECKS).expect("mapped") == 0 {
                std::thread::yield_now();
            }
            die();
        }
        job.barrier(SOON).expect("the poison is there");
        assert_eq!(process.run((1, 32), process.barriers(1)), u64::from(GGAS_ERR_POISONED));
        process.group.window().store_u64(victim as usize, CHECKS, 1).expect("mapped");
        let check = process.group.check();
        assert!(matches!(check, Err(GroupError::PeerLost { rank }) if rank == victim), "{check:?}");
    });
}

#[test]
fn a_death_inside_sums_in_one_step_ends_them_everywhere() {
    in_job_with_death("across::a_death_inside_sums_in_one_step_ends_them_everywhere", 3, 0, |job| {
        collectives_until_death(job, SELFTEST_ALLREDUCE_ONE_SHOT);
    });
}

#[test]
fn a_death_inside_sums_in_two_steps_ends_them_everywhere() {
    in_job_with_death("across::a_death_inside_sums_in_two_steps_ends_them_everywhere", 3, 1, |job| {
        collectives_until_death(job, SELFTEST_ALLREDUCE_TWO_SHOT);
    });
}

#[test]
fn the_death_of_a_root_ends_broadcasts_everywhere() {
    in_job_with_death("across::the_death_of_a_root_ends_broadcasts_everywhere", 3, 0, |job| {
        collectives_until_death(job, SELFTEST_BROADCAST);
    });
}

/// Collectives by packets without end, in which a process dies: each tells whom it waited for.
fn collectives_until_death(job: &Job, method: u32) {
    const COUNT: usize = 300;
    let process = Process::new(job, GroupConfig { timeout: LONG, ..GroupConfig::default() });
    let memory = process.cpu.alloc(2 * 8 * COUNT).expect("memory");
    // The root of a broadcast sends its `out`.
    let first = if job.rank() == 0 { 1_u64 } else { 0 };
    memory.write_u64s(0, &[1; COUNT]).expect("in range");
    memory.write_u64s(8 * COUNT, &[first; COUNT]).expect("in range");
    let args = selftest_coll {
        input: memory.address(),
        out: memory.address() + 8 * COUNT as u64,
        count: COUNT as u64,
        element: SELFTEST_INT64,
        form: SELFTEST_BLOCK,
        method,
        rounds: u32::MAX,
        ..selftest_coll::default()
    };
    job.barrier(SOON).expect("all");
    let endless = process.start((1, 32), args);
    let arrived = if method == SELFTEST_BROADCAST { 1 } else { 3 };
    while memory.load_u64(8 * (2 * COUNT - 1)).expect("in range") != arrived {
        std::thread::yield_now();
    }
    job.barrier(SOON).expect("all are in the midst of it");
    let victim = victim().expect("a job with a death");
    if job.rank() == victim {
        die();
    }
    while !job.lost().contains(&victim) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let seen = Instant::now();
    endless.wait(SOON).expect("the kernel ends");
    assert!(seen.elapsed() < SHORTLY, "took {:?}", seen.elapsed());
    assert_eq!(process.status.load_u64(0).expect("in range"), u64::from(GGAS_ERR_POISONED));
    // None where the poison came between two collectives.
    if let Some(report) = process.group.member(process.rank).expect("mine").report() {
        assert_eq!(report.status, GGAS_ERR_POISONED, "{report}");
        assert!(report.peer.is_some_and(|peer| peer != job.rank() && peer < 3), "{report}");
    }
    let check = process.group.check();
    assert!(matches!(check, Err(GroupError::PeerLost { rank }) if rank == victim), "{check:?}");
}

#[test]
fn a_death_before_the_kernel_starts_is_seen_by_it() {
    in_job_with_death("across::a_death_before_the_kernel_starts_is_seen_by_it", 3, 1, |job| {
        let process = Process::new(job, GroupConfig { timeout: LONG, ..GroupConfig::default() });
        job.barrier(SOON).expect("all");
        if job.rank() == 1 {
            die();
        }
        while process.group.check().is_ok() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let begun = Instant::now();
        assert_eq!(process.run((1, 32), process.barriers(1)), u64::from(GGAS_ERR_POISONED));
        assert!(begun.elapsed() < SHORTLY, "took {:?}", begun.elapsed());
    });
}

#[test]
fn a_stopped_process_is_a_timeout_that_names_it_and_a_reset_mends() {
    in_job("across::a_stopped_process_is_a_timeout_that_names_it_and_a_reset_mends", (3, 1), |job| {
        let timeout = Duration::from_secs(4);
        let process = Process::new(job, GroupConfig { timeout, ..GroupConfig::default() });
        let ids = job.exchange(&std::process::id().to_ne_bytes(), SOON).expect("all");
        let stopped = u32::from_ne_bytes(ids[1].as_slice().try_into().expect("4 bytes"));
        let mut named = false;
        if job.rank() == 1 {
            // Goes on once rank 0 says so.
            signal(stopped, libc::SIGSTOP);
        } else {
            let begun = Instant::now();
            let status = process.run((1, 32), process.barriers(1));
            assert!(begun.elapsed() < SHORTLY, "took {:?}", begun.elapsed());
            // All wait for the stopped one; who gives up first poisons the group for the others.
            let report = process.group.member(process.rank).expect("mine").report();
            named = status == u64::from(GGAS_ERR_TIMEOUT) && report.as_ref().and_then(|r| r.peer) == Some(1);
            assert!(named || status == u64::from(GGAS_ERR_POISONED), "{status}: {report:?}");
            if named {
                let check = process.group.check().expect_err("failed");
                assert!(matches!(check, GroupError::Failed { .. }), "{check:?}");
                assert!(check.to_string().contains("from node 1"), "{check}");
            }
        }
        if job.rank() == 2 {
            job.send_fds(0, 1, &[], SOON).expect("sent");
        }
        if job.rank() == 0 {
            job.recv_fds(2, 1, SOON).expect("rank 2 is through");
            signal(stopped, libc::SIGCONT);
        }
        if job.rank() == 1 {
            let status = process.run((1, 32), process.barriers(1));
            assert_ne!(status, 0, "the others have given up");
        }
        process.group.reset_across(job).expect("nobody died");
        process.group.check().expect("as new");
        let named = job.exchange(&[named.into()], SOON).expect("all");
        assert!(named.iter().any(|one| one == &[1]), "nobody named the stopped one");
        process.group.window().store_u64(process.rank, 0, 0).expect("mapped");
        job.barrier(SOON).expect("all");
        assert_eq!(process.run((1, 32), process.barriers(5)), 0);
        assert_eq!(process.wrong.load_u64(0).expect("in range"), 0);
        job.barrier(SOON).expect("all");
    });
}

/// The last one does its part of nothing any more.
#[test]
fn who_leaves_ends_waits_for_it() {
    in_job("across::who_leaves_ends_waits_for_it", (3, 1), |job| {
        let process = Process::new(job, GroupConfig { timeout: LONG, ..GroupConfig::default() });
        assert_eq!(process.run((2, 32), process.barriers(3)), 0);
        job.barrier(SOON).expect("all");
        if job.rank() == 2 {
            return;
        }
        let begun = Instant::now();
        assert_eq!(process.run((2, 32), process.barriers(1)), u64::from(GGAS_ERR_POISONED));
        assert!(begun.elapsed() < SHORTLY, "took {:?}", begun.elapsed());
        let check = process.group.check();
        assert!(matches!(check, Err(GroupError::PeerLeft { rank: 2 })), "{check:?}");
        all_of_first(2, job);
    });
}

/// The root of a broadcast is done before the others begin, and leaves.
#[test]
fn what_a_rank_did_its_part_of_ends_well_when_it_has_left() {
    in_job("across::what_a_rank_did_its_part_of_ends_well_when_it_has_left", (3, 1), |job| {
        const COUNT: usize = 300;
        let process = Process::new(job, GroupConfig { timeout: LONG, ..GroupConfig::default() });
        let memory = process.cpu.alloc(2 * 8 * COUNT).expect("memory");
        memory.write_u64s(8 * COUNT, &[u64::from(job.rank() == 0); COUNT]).expect("in range");
        let args = selftest_coll {
            input: memory.address(),
            out: memory.address() + 8 * COUNT as u64,
            count: COUNT as u64,
            element: SELFTEST_INT64,
            form: SELFTEST_BLOCK,
            method: SELFTEST_BROADCAST,
            rounds: 1,
            ..selftest_coll::default()
        };
        job.barrier(SOON).expect("all");
        if job.rank() == 0 {
            return assert_eq!(process.run((1, 32), args), 0);
        }
        // Told of it after that.
        let left = Arc::new(AtomicBool::new(false));
        let told = left.clone();
        let _watch = job.on_leave(Box::new(move |_| told.store(true, Ordering::Release)));
        while !left.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(process.run((1, 32), args), 0, "{:?}", process.group.check());
        assert_eq!(memory.load_u64(8 * (2 * COUNT - 1)).expect("in range"), 1);
        process.group.check().expect("no failure");
    });
}

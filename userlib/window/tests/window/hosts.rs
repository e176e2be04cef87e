//! Windows over hosts whose nodes have several ranks, each with a part of its own. Where no library carries packets between hosts
//! the tests are skipped. With `GGAS_TEST_GPUS=2` the first two ranks have their kernels on a GPU each.

use std::time::{Duration, Instant};

use crate::common::{die, on_hosts, victim};
use ggas_device::sim::SimNetwork;
use ggas_device::{DeviceError, LostPeer, PeerEnd};
use ggas_kernels::{LaunchError, Processor, Running, start};
use ggas_members::Job;
use ggas_rma::Node;
use ggas_selftest::args::{
    SELFTEST_ACCESS_ADD, SELFTEST_ACCESS_ATOMICS, SELFTEST_ACCESS_CAS, SELFTEST_ACCESS_FETCH,
    SELFTEST_ACCESS_ORDER, SELFTEST_PUT_BLOCK, SELFTEST_PUT_GRID, SELFTEST_PUT_THREAD, SELFTEST_WINDOW_OUT,
    gputest_poke, selftest_access, selftest_put, selftest_window,
};
use ggas_window::{Atomic, Mapping, Operation, Width, Window, WindowError};

/// Bound of every wait that is expected to succeed, on a machine that may stall for seconds.
const SOON: Duration = Duration::from_secs(60);
/// Bytes that kernels move at a time: each word is a packet.
const MOVED: usize = 256;

/// Runs `member` in a process for each of these hosts.
fn job(test: &str, hosts: &[usize], per_node: u32, dies: Option<u32>, member: fn(&Job)) {
    if crate::wire::is_there() {
        on_hosts(test, hosts, per_node, dies, member);
    }
}

struct Process {
    node: Node,
    processor: Processor,
    _network: SimNetwork,
}

impl Process {
    fn new(job: &Job) -> Process {
        let network = SimNetwork::builder().join_as(job.member().clone()).expect("a node");
        let gpus = std::env::var("GGAS_TEST_GPUS").ok().and_then(|gpus| gpus.parse().ok()).unwrap_or(0);
        let processor = match job.rank() {
            rank if rank < gpus => {
                ggas_kernels::add(&ggas_selftest::KERNELS).expect("known");
                Processor::gpu(rank as usize).expect("a GPU")
            }
            _ => Processor::cpu(),
        };
        Process { node: Node::new(network.device(0).expect("one")), processor, _network: network }
    }

    fn window(&self, job: &Job, bytes: usize) -> Result<Window, WindowError> {
        Window::across(job, &self.node, &self.processor, bytes, SOON)
    }

    /// A kernel that writes to all parts and reads them, as all others do: it waits for each of them.
    fn start(&self, window: &Window, rank: usize, rounds: u32, results: u64) -> Running {
        let args = selftest_window {
            window: window.member(rank).expect("mine").address(),
            status: results,
            wrong: results + 8,
            bytes: MOVED as u64,
            rounds,
            atomics: 1,
        };
        // SAFETY: the structure is this kernel's, and callers keep the results until it has ended.
        let launch = unsafe { ggas_selftest::launch(&self.processor, "ggas_selftest_window", 1, 32, &args) };
        start(&[launch]).expect("it starts")
    }
}

fn bytes_of(size: usize) -> usize {
    SELFTEST_WINDOW_OUT as usize + (size + 1) * MOVED
}

#[test]
fn two_ranks_on_each_of_two_hosts_have_a_part_each() {
    job("hosts::two_ranks_on_each_of_two_hosts_have_a_part_each", &[0, 0, 1, 1], 2, None, all_reach_all);
}

#[test]
fn three_ranks_and_one_have_a_part_each() {
    job("hosts::three_ranks_and_one_have_a_part_each", &[0, 0, 0, 1], 3, None, all_reach_all);
}

fn all_reach_all(job: &Job) {
    let process = Process::new(job);
    let (rank, size) = (job.rank() as usize, job.size() as usize);
    // The second window finds what the first has left of the units.
    for round in 0..2 {
        let window = process.window(job, bytes_of(size)).expect("a window");
        assert_eq!(window.info().mapped, Ok(Mapping::Trapped), "{}", window.info());
        assert_eq!((window.info().trapped.clone(), window.info().atomics), (Ok(()), true));
        let own = window.member(rank).expect("mine");
        let text = |from: usize, to: usize| format!("{round}: from {from} to {to}, {:?}", [from; 40]);
        for part in 0..size {
            let text = text(rank, part).into_bytes();
            let mut back = vec![0; text.len()];
            own.load(part, 200 * rank, &mut back, SOON).expect("loaded");
            assert!(back.iter().all(|byte| *byte == 0), "zero at first");
            own.store(part, 200 * rank, &text).expect("stored");
            own.load(part, 200 * rank, &mut back, SOON).expect("loaded");
            assert_eq!(back, text);
        }
        job.barrier(SOON).expect("all");
        for from in 0..size {
            let mut there = vec![0; text(from, rank).len()];
            window.read(rank, 200 * from, &mut there).expect("mine");
            assert_eq!(String::from_utf8_lossy(&there), text(from, rank));
        }
        job.barrier(SOON).expect("all");
        window.zero(rank, 0, window.bytes()).expect("mine");
        job.barrier(SOON).expect("all");
        let results = process.processor.alloc(16).expect("memory");
        process.start(&window, rank, 3, results.address()).wait(SOON).expect("it ends");
        let ended = [0, 8].map(|at| results.load_u64(at).expect("in range"));
        assert_eq!(ended, [0, 0], "{:?}", own.report());
        job.barrier(SOON).expect("all");
    }
}

/// Where kernels of that test count what they have done, in their own parts.
const DONE: usize = 2048;

/// Accesses of one thread of this rank to the part of another one.
fn start_access(process: &Process, window: &Window, rank: usize, args: selftest_access) -> Running {
    let own = window.member(rank).expect("mine");
    let done = own.pointer_of(rank).expect("mine") + (DONE + 16 * args.what as usize) as u64;
    let args = selftest_access { window: own.address(), done, sum: done + 8, ..args };
    // SAFETY: the structure is this kernel's, and callers keep the window until it has ended.
    let launch = unsafe { ggas_selftest::launch(&process.processor, "ggas_selftest_access", 1, 1, &args) };
    start(&[launch]).expect("it starts")
}

#[test]
fn atomics_of_all_ranks_sum_exactly() {
    job("hosts::atomics_of_all_ranks_sum_exactly", &[0, 0, 1, 1], 2, None, all_add);
}

/// All ranks, by kernels and by calls, and the kernels and the host of whose part it is, on the same words.
fn all_add(job: &Job) {
    const ROUNDS: u64 = 60;
    const KINDS: [u32; 3] = [SELFTEST_ACCESS_ADD, SELFTEST_ACCESS_FETCH, SELFTEST_ACCESS_CAS];
    let process = Process::new(job);
    let (rank, size) = (job.rank() as usize, job.size() as usize);
    let window = process.window(job, 4096).expect("a window");
    let own = window.member(rank).expect("mine");
    // One part after the other, so that all are at the same words.
    for part in 0..size {
        job.barrier(SOON).expect("all");
        let access = |what| selftest_access {
            rounds: ROUNDS,
            offset: 64,
            peer: part as u32,
            what,
            ..selftest_access::default()
        };
        let kernels = KINDS.map(|what| start_access(&process, &window, rank, access(what)));
        for round in 0..ROUNDS {
            own.reduce(part, 64, Atomic::add(1)).expect("posted");
            let mine = Atomic::new(Operation::Add, Width::Four, 2);
            assert_eq!(own.atomic(part, 128 + 4 * rank, mine, SOON).expect("done"), 2 * round);
        }
        kernels.into_iter().for_each(|kernel| kernel.wait(SOON).expect("it ends"));
        // Behind what was posted.
        own.load(part, 64, &mut [0; 8], SOON).expect("loaded");
        job.barrier(SOON).expect("all");
        let mut sum = [0; 8];
        own.load(part, 64, &mut sum, SOON).expect("loaded");
        assert_eq!(u64::from_le_bytes(sum), (KINDS.len() as u64 + 1) * size as u64 * ROUNDS);
    }
    // Each kind of operation, and the order of what goes to one part.
    for (part, what) in
        (0..size).flat_map(|part| [(part, SELFTEST_ACCESS_ATOMICS), (part, SELFTEST_ACCESS_ORDER)])
    {
        let offset = 256 + 128 * rank as u64;
        let args =
            selftest_access { rounds: 3, offset, peer: part as u32, what, ..selftest_access::default() };
        start_access(&process, &window, rank, args).wait(SOON).expect("it ends");
        let at = DONE + 16 * what as usize;
        let ended = [0, 8].map(|word| window.load_u64(rank, at + word).expect("mine"));
        assert_eq!(ended, [3, 0], "{what} to {part}");
        own.store(part, offset as usize, &[0; 8]).expect("stored");
    }
    job.barrier(SOON).expect("all");
}

#[test]
fn signals_are_added_over_hosts() {
    job("hosts::signals_are_added_over_hosts", &[0, 1], 1, None, |job| {
        let process = Process::new(job);
        let rank = job.rank() as usize;
        for (form, blocks) in [(SELFTEST_PUT_THREAD, 1), (SELFTEST_PUT_BLOCK, 2), (SELFTEST_PUT_GRID, 3)] {
            let window = process.window(job, 64 << 10).expect("a window");
            let own = window.member(rank).expect("mine");
            let results = process.processor.alloc(16).expect("memory");
            let args = selftest_put {
                window: own.address(),
                status: results.address(),
                wrong: results.address() + 8,
                bytes: 48,
                each: 80,
                form,
                rounds: 4,
                ..selftest_put::default()
            };
            // SAFETY: the structure is this kernel's, and its memory outlives the wait.
            let launch =
                unsafe { ggas_selftest::launch(&process.processor, "ggas_selftest_put", blocks, 8, &args) };
            start(&[launch]).and_then(|running| running.wait(SOON)).expect("it ends");
            let ended = [0, 8].map(|at| results.load_u64(at).expect("in range"));
            assert_eq!(ended, [0, 0], "form {form}: {:?}", own.report());
            job.barrier(SOON).expect("all");
        }
    });
}

/// As between GPUs: whoever hears, by whatever way, that a kernel has ended finds what it stored.
#[test]
fn what_kernels_stored_is_there_when_they_have_ended() {
    job("hosts::what_kernels_stored_is_there_when_they_have_ended", &[0, 1], 1, None, |job| {
        const WORDS: u64 = 4000;
        let process = Process::new(job);
        let rank = job.rank() as usize;
        let window = process.window(job, 8 * WORDS as usize).expect("a window");
        let base = window.member(rank).and_then(|own| own.pointer_of(1)).expect("an address");
        for round in 0..20 {
            let value = round * WORDS;
            if rank == 0 {
                let args = gputest_poke { base, stride: 8, parts: WORDS, value };
                // SAFETY: the structure of this kernel; the window outlives the wait.
                let launch =
                    unsafe { ggas_selftest::launch(&process.processor, "ggas_gputest_poke", 1, 1, &args) };
                start(&[launch]).and_then(|running| running.wait(SOON)).expect("it ends");
            }
            job.barrier(SOON).expect("all");
            if rank == 1 {
                let there =
                    |word: &u64| window.load_u64(rank, 8 * *word as usize).expect("mine") == value + word;
                assert_eq!((0..WORDS).filter(there).count() as u64, WORDS, "round {round}");
            }
            job.barrier(SOON).expect("all");
        }
    });
}

#[test]
fn atomics_end_with_the_death_of_their_target() {
    const TEST: &str = "hosts::atomics_end_with_the_death_of_their_target";
    // By the wire, and by the memory of a host.
    job(TEST, &[0, 1], 1, Some(1), adds_until_death);
    job(TEST, &[0, 0, 1], 2, Some(1), adds_until_death);
}

fn adds_until_death(job: &Job) {
    let process = Process::new(job);
    let (rank, lost) = (job.rank() as usize, victim().expect("who dies"));
    let window = process.window(job, 4096).expect("a window");
    let own = window.member(rank).expect("mine");
    // All have met.
    (0..job.size() as usize).for_each(|part| own.load(part, 0, &mut [0], SOON).expect("loaded"));
    job.barrier(SOON).expect("all");
    if rank != 0 && job.rank() != lost {
        return; // nobody waits for it
    }
    if job.rank() == lost {
        while window.load_u64(rank, 64).expect("mine") < 100 {
            std::thread::yield_now();
        }
        die();
    }
    let args = |what| selftest_access {
        rounds: u64::MAX,
        offset: 64,
        peer: lost,
        what,
        ..selftest_access::default()
    };
    let begun = Instant::now();
    for what in [SELFTEST_ACCESS_FETCH, SELFTEST_ACCESS_ADD, SELFTEST_ACCESS_CAS] {
        let kernel = start_access(&process, &window, rank, args(what));
        let error = kernel.wait(SOON).expect_err("its target is gone");
        let LaunchError::Access { .. } = &error else { panic!("{error}") };
        assert!(error.to_string().contains(&format!("member {lost}'s part")), "{error}");
    }
    let error = own.atomic(lost as usize, 64, Atomic::add(1), SOON).expect_err("nobody is there");
    assert!(
        matches!(&error, WindowError::Device(DeviceError::PeerLost(peer)) if peer.rank == lost),
        "{error}"
    );
    let error = own.reduce(lost as usize, 64, Atomic::add(1)).expect_err("nobody is there");
    assert!(
        matches!(&error, WindowError::Device(DeviceError::PeerLost(peer)) if peer.rank == lost),
        "{error}"
    );
    assert!(begun.elapsed() < SOON / 2, "{:?}", begun.elapsed());
    assert_eq!(own.atomic(rank, 64, Atomic::add(1), SOON).expect("its own is there"), 0);
}

#[test]
fn the_death_of_one_of_two_ranks_of_a_node_is_its_own() {
    const TEST: &str = "hosts::the_death_of_one_of_two_ranks_of_a_node_is_its_own";
    // The second of its node, and the first, where packets of the unit would go that name the node alone.
    job(TEST, &[0, 0, 1, 1], 2, Some(3), the_rest_goes_on);
    job(TEST, &[0, 0, 1, 1], 2, Some(2), the_rest_goes_on);
}

fn the_rest_goes_on(job: &Job) {
    let process = Process::new(job);
    let (rank, size, lost) = (job.rank() as usize, job.size() as usize, victim().expect("who dies"));
    let window = process.window(job, bytes_of(size)).expect("a window");
    let own = window.member(rank).expect("mine");
    // All have met.
    (0..size).for_each(|part| own.load(part, 0, &mut [0], SOON).expect("loaded"));
    job.barrier(SOON).expect("all");
    if job.rank() == lost {
        die();
    }
    while !job.lost().contains(&lost) {
        std::thread::yield_now();
    }
    let begun = Instant::now();
    let gone = LostPeer { rank: lost, node: 1, vpid: None, end: PeerEnd::Lost };
    let error = own.load(lost as usize, 0, &mut [0; 8], SOON).expect_err("nobody is there");
    assert!(matches!(&error, WindowError::Device(DeviceError::PeerLost(peer)) if *peer == gone), "{error}");
    // The network between hosts knows it now, too: from here on stores fail, and are not lost.
    let results = process.processor.alloc(16).expect("memory");
    let kernel = process.start(&window, rank, 1, results.address());
    let error = kernel.wait(SOON).expect_err("one of its parts is gone");
    let LaunchError::Access { .. } = &error else { panic!("{error}") };
    assert!(error.to_string().contains(&format!("member {lost}'s part (node 1)")), "{error}");
    assert!(begun.elapsed() < SOON / 2, "{:?}", begun.elapsed());
    for part in (0..size).filter(|part| *part != lost as usize) {
        let mut back = [0; 8];
        own.store(part, 8 * rank, &[rank as u8 + 1; 8]).expect("stored");
        own.load(part, 8 * rank, &mut back, SOON).expect("loaded");
        assert_eq!(back, [rank as u8 + 1; 8], "part {part}");
    }
    // Barriers of the job end with the death; who is left looks whether the others have come so far.
    for from in (0..size).filter(|from| *from != lost as usize) {
        while window.load_u64(rank, 8 * from).expect("mine") != u64::from_ne_bytes([from as u8 + 1; 8]) {
            std::thread::yield_now();
        }
        // Who has it may have left before this call ends.
        if let Err(error) = own.store(from, 1024 + 8 * rank, &[1; 8]) {
            let WindowError::Device(DeviceError::PeerLost(peer)) = &error else { panic!("{error}") };
            assert_eq!(peer.end, PeerEnd::Left, "{error}");
        }
        // Answered when the store is there.
        let _ = own.load(from, 1024 + 8 * rank, &mut [0; 8], SOON);
    }
    for from in (0..size).filter(|from| *from != lost as usize) {
        while window.load_u64(rank, 1024 + 8 * from).expect("mine") == 0 {
            std::thread::yield_now();
        }
    }
}

#[test]
fn what_the_units_cannot_have_is_refused_on_all_ranks() {
    job("hosts::what_the_units_cannot_have_is_refused_on_all_ranks", &[0, 0, 1, 1], 2, None, |job| {
        let process = Process::new(job);
        let other = process.window(job, 4096 + 1000 * (job.rank() as usize / 3));
        assert!(matches!(other, Err(WindowError::Unequal { rank: 3, .. })), "{other:?}");
        // More than the 224 MiB behind a card.
        let error = process.window(job, 64 << 20).expect_err("too large").to_string();
        assert!(error.contains("4 parts of 67108864 bytes exceed its 234881024 bytes"), "{error}");
        // A rank that still has windows keeps its node from having the next where there are no intervals; one that comes too late for
        // it does not.
        let mut kept: Vec<Window> = (0..15).map(|_| process.window(job, 4096).expect("a window")).collect();
        if job.rank() != 1 {
            kept.clear();
        }
        job.barrier(SOON).expect("all");
        let error = process.window(job, 8192).expect_err("one of the node has others").to_string();
        assert!(
            error.contains("60 parts of 15 other windows are in use") && error.contains("node 0"),
            "{error}"
        );
        kept.pop();
        job.barrier(SOON).expect("all");
        let window = process.window(job, 8192).expect("a window after all");
        let own = window.member(job.rank() as usize).expect("mine");
        (0..4).for_each(|part| own.load(part, 8184, &mut [0; 8], SOON).expect("loaded"));
        job.barrier(SOON).expect("all");
    });
}

/// By these numbers they take its GPUs, which `ggas map` names in this order.
#[test]
fn ranks_have_numbers_on_their_host() {
    let test = "hosts::ranks_have_numbers_on_their_host";
    job(test, &[0, 1, 0, 1, 1], 1, None, |job| {
        assert_eq!(job.rank_on_host(), [0, 0, 1, 1, 2][job.rank() as usize]);
    });
}

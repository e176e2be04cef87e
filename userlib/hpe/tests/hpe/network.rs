//! Copies between ranks, which are processes of this host or, over the wire, of several.

use crate::wire;
use std::time::Duration;

use crate::ranks::{die, in_job, in_job_over, in_job_over_with_death, in_job_with_death, signal, victim};
use ggas_device::sim::SimNetwork;
use ggas_hpe::{Builder, HpeError, Refusal, Runtime, Use, Way};
use ggas_members::Job;
use ggas_rma::Node;

/// Only what is broken takes longer.
const SOON: Duration = Duration::from_secs(100);
/// Some blocks, and some bytes.
const LEN: usize = 5 * BUFFER + 4099;
const BUFFER: usize = 16 << 10;

struct Rank<'a> {
    // Goes before the network.
    runtime: Runtime,
    network: SimNetwork,
    job: &'a Job,
    me: u32,
    size: u32,
}

fn settings() -> Builder {
    Runtime::builder().executors(2).pinned(BUFFER, 10 * BUFFER).timeout(SOON)
}

fn node(job: &Job) -> (SimNetwork, Node) {
    let network = SimNetwork::builder().join_as(job.member().clone()).expect("a network");
    let node = Node::new(network.device(0).expect("one"));
    (network, node)
}

fn pattern(seed: u32, len: usize) -> Vec<u8> {
    (0..len as u32).map(|i| (i.wrapping_mul(31) ^ (i >> 8) ^ seed.wrapping_mul(0x9e37)) as u8).collect()
}

impl<'a> Rank<'a> {
    fn new(job: &'a Job, settings: Builder) -> Rank<'a> {
        let runtime = settings.build().expect("a runtime");
        let (network, node) = node(job);
        runtime.join(job, &node).expect("all join");
        Rank { runtime, network, job, me: job.rank(), size: job.size() }
    }

    fn alloc(&self, device: usize, len: usize) -> *mut u8 {
        self.runtime.alloc(self.runtime.devices()[device], len).expect("memory")
    }

    fn copy(&self, dst: *mut u8, src: *const u8, len: usize) -> Result<(), HpeError> {
        // SAFETY: the tests' ranks order their copies by barriers.
        unsafe { self.runtime.copy(dst, src, len) }
    }

    fn fill(&self, at: *mut u8, bytes: &[u8]) {
        self.copy(at, bytes.as_ptr(), bytes.len()).expect("filled");
    }

    fn bytes(&self, at: *const u8, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.copy(bytes.as_mut_ptr(), at, len).expect("read");
        bytes
    }

    /// What all ranks call so, by rank.
    fn tell(&self, own: *mut u8) -> Vec<*mut u8> {
        let pointer = self.runtime.remote(self.me, own).expect("a pointer") as u64;
        let all = self.job.exchange(&pointer.to_ne_bytes(), SOON).expect("told");
        let pointer = |said: &Vec<u8>| u64::from_ne_bytes(said[..].try_into().expect("eight")) as *mut u8;
        all.iter().map(pointer).collect()
    }

    fn barrier(&self) {
        self.job.barrier(SOON).expect("all are there");
    }

    fn other(&self, by: u32) -> usize {
        ((self.me + by) % self.size) as usize
    }

    fn sent(&self) -> u64 {
        self.runtime.counts().ways.of(Way::Network)
    }
}

/// An object of another rank's device, and all kinds of memory of this one.
fn everything(job: &Job) {
    let rank = Rank::new(job, settings());
    let (mine, there) = (rank.alloc(0, LEN), rank.alloc(1, LEN));
    rank.fill(mine, &pattern(rank.me, LEN));
    let (sources, targets) = (rank.tell(mine), rank.tell(there));
    let next = rank.other(1);
    // Device to device, either way, of all lengths; from the middle.
    for len in [1, 8, 4096, BUFFER, BUFFER + 1, LEN] {
        rank.copy(there, sources[next], len).expect("from the next");
        assert!(rank.bytes(there, len) == pattern(next as u32, len), "{len} bytes from rank {next}");
    }
    rank.barrier();
    rank.copy(targets[next].wrapping_add(77), mine.wrapping_add(5), LEN - 77).expect("to the next");
    rank.barrier();
    let before = rank.other(rank.size - 1);
    assert!(rank.bytes(there.wrapping_add(77), LEN - 77) == pattern(before as u32, LEN)[5..LEN - 72]);
    rank.barrier();
    // Between two others, and to one's own by its pointer.
    let (from, to) = (rank.other(1), rank.other(2));
    rank.copy(targets[to], sources[from], LEN).expect("between others");
    rank.barrier();
    // This rank was the target of the one before the one before it.
    assert!(rank.bytes(there, LEN) == pattern(rank.other(rank.size - 1) as u32, LEN));
    let sent = rank.sent();
    rank.copy(targets[rank.me as usize], sources[rank.me as usize], LEN).expect("at home");
    assert_eq!(rank.sent(), sent, "one's own memory is not over the network");
    assert!(rank.bytes(there, LEN) == pattern(rank.me, LEN));
    rank.barrier();
    shared_and_spread(&rank, &sources);
    exported(&rank);
    rank.barrier();
    let pinned = rank.runtime.counts().pinned;
    assert!(pinned.bytes <= pinned.bound && pinned.in_use == 4 * BUFFER, "{pinned:?}");
}

fn shared_and_spread(rank: &Rank<'_>, sources: &[*mut u8]) {
    let next = rank.other(1);
    let devices = rank.runtime.devices();
    let shared = rank.runtime.alloc_shared(devices[0], LEN).expect("an object");
    let spread = rank.runtime.alloc_spread(&devices, LEN).expect("an object");
    for own in [shared, spread] {
        let theirs = rank.tell(own);
        // Here from there.
        rank.copy(own, sources[next], LEN).expect("from the next");
        assert!(rank.bytes(own, LEN) == pattern(next as u32, LEN));
        rank.barrier();
        // There from here: the next one's object becomes what this rank's object is.
        rank.fill(own, &pattern(100 + rank.me, LEN));
        rank.barrier();
        assert!(rank.bytes(theirs[next], LEN) == pattern(100 + next as u32, LEN));
        rank.barrier();
        rank.copy(theirs[next], pattern(200 + rank.me, LEN).as_ptr(), LEN).expect("to the next");
        rank.barrier();
        let before = rank.other(rank.size - 1) as u32;
        assert!(rank.bytes(own, LEN) == pattern(200 + before, LEN));
    }
    // A kernel sees what came.
    let inside = rank.runtime.device_address(shared).expect("inside") as *const u8;
    // SAFETY: the kernel's object.
    let first = rank.runtime.launch(&[(shared, Use::Read)], || unsafe { inside.read() }).expect("run");
    assert_eq!(first, pattern(200 + rank.other(rank.size - 1) as u32, 1)[0]);
}

/// Memory of the host goes without buffers at both ends.
fn exported(rank: &Rank<'_>) {
    let mut own = pattern(300 + rank.me, LEN);
    let mut back = vec![0u8; LEN];
    // SAFETY: both outlive what is exported.
    unsafe {
        rank.runtime.export(own.as_mut_ptr(), LEN).expect("exported");
        rank.runtime.export(back.as_mut_ptr(), LEN).expect("exported");
    }
    let (owns, backs) = (rank.tell(own.as_mut_ptr()), rank.tell(back.as_mut_ptr()));
    let next = rank.other(1);
    rank.copy(backs[next].wrapping_add(3), own.as_ptr(), LEN - 3).expect("to the next");
    rank.barrier();
    let before = rank.other(rank.size - 1) as u32;
    assert!(back[3..] == pattern(300 + before, LEN)[..LEN - 3]);
    rank.barrier();
    rank.copy(back.as_mut_ptr(), owns[next], LEN).expect("from the next");
    assert!(back == pattern(300 + next as u32, LEN));
    // From device to exported memory, by the buffers of one side.
    let device = rank.alloc(0, LEN);
    rank.fill(device, &pattern(400 + rank.me, LEN));
    rank.barrier();
    rank.copy(backs[next], device, LEN).expect("to the next");
    rank.barrier();
    assert!(back == pattern(400 + before, LEN));
    rank.runtime.unexport(back.as_mut_ptr()).expect("taken back");
    let again = rank.runtime.unexport(back.as_mut_ptr());
    assert!(matches!(again, Err(HpeError::NotAllocated { .. })));
    rank.barrier();
    let error = rank.copy(device, backs[next], 1).expect_err("no longer exported");
    assert!(matches!(error, HpeError::Refused { why: Refusal::Unknown, .. }), "{error}");
    rank.barrier();
    rank.runtime.unexport(own.as_mut_ptr()).expect("taken back");
}

#[test]
fn any_memory_of_any_rank() {
    in_job("network::any_memory_of_any_rank", (3, 1), everything);
}

#[test]
fn any_memory_of_ranks_on_a_node() {
    in_job("network::any_memory_of_ranks_on_a_node", (2, 2), everything);
}

#[test]
fn any_memory_of_any_host() {
    if wire::is_there() {
        in_job_over("network::any_memory_of_any_host", &[0, 1, 1], everything);
    }
}

#[test]
fn many_threads_copy_to_each_other() {
    in_job("network::many_threads_copy_to_each_other", (3, 1), |job| {
        let rank = Rank::new(job, settings());
        let blocks: Vec<_> = (0..8).map(|_| rank.tell(rank.alloc(1, LEN))).collect();
        std::thread::scope(|scope| {
            for (thread, block) in blocks.iter().enumerate() {
                let targets: Vec<usize> = block.iter().map(|pointer| *pointer as usize).collect();
                let rank = &rank.runtime;
                let (me, size) = (job.rank(), job.size());
                scope.spawn(move || {
                    let next = (me + 1) % size;
                    let bytes = pattern(me * 8 + thread as u32, LEN);
                    let mut back = vec![0; LEN];
                    for _ in 0..3 {
                        let there = targets[next as usize] as *mut u8;
                        // SAFETY: this thread's block of the next rank.
                        unsafe {
                            rank.copy(there, bytes.as_ptr(), LEN).expect("to the next");
                            rank.copy(back.as_mut_ptr(), there, LEN).expect("and back");
                        }
                        assert!(back == bytes);
                    }
                });
            }
        });
        rank.barrier();
    });
}

#[test]
fn what_is_wrong_is_said() {
    in_job("network::what_is_wrong_is_said", (2, 1), |job| {
        let alone = settings().build().expect("a runtime");
        let mut byte = 0u8;
        let error = alone.remote(0, &raw const byte).expect_err("it has not joined");
        assert!(matches!(error, HpeError::NoRank { rank: 0, size: 0, .. }), "{error}");
        // SAFETY: a byte of this function.
        let error = unsafe { alone.export(&raw mut byte, 1) }.expect_err("it has not joined");
        assert!(matches!(error, HpeError::NoRank { .. }), "{error}");

        let rank = Rank::new(job, settings());
        let (mine, host) = (rank.alloc(0, LEN), pattern(0, LEN));
        let next = rank.other(1);
        let there = rank.tell(mine)[next];
        let refused = |result: Result<(), HpeError>, expected: Refusal| match result {
            Err(HpeError::Refused { rank, why, .. }) => assert_eq!((rank as usize, why), (next, expected)),
            other => panic!("{other:?}"),
        };
        refused(rank.copy(there, host.as_ptr(), LEN + 1), Refusal::AcrossObjects);
        refused(rank.copy(there.wrapping_add(LEN), host.as_ptr(), 1), Refusal::Unknown);
        let their_host = rank.runtime.remote(next as u32, host.as_ptr()).expect("a pointer");
        refused(rank.copy(mine, their_host, 8), Refusal::Unknown);
        let error = rank.runtime.remote(2, mine).expect_err("two ranks");
        assert!(matches!(error, HpeError::NoRank { rank: 2, size: 2, .. }), "{error}");
        let error = rank.copy(there, there.wrapping_add(8), 16).expect_err("overlap");
        assert!(matches!(error, HpeError::Overlap { .. }), "{error}");
        let elsewhere = |error| matches!(error, HpeError::Elsewhere { rank, .. } if rank as usize == next);
        assert!(elsewhere(rank.runtime.device_address(there).expect_err("not here")));
        // SAFETY: it is refused.
        let file = unsafe { rank.runtime.read_from(there, 8, true, &mut |_, len, _| Ok(len)) };
        assert!(elsewhere(file.expect_err("not here")));
        assert_eq!(rank.runtime.owner(there), None);
        let again = Node::new(rank.network.device(0).expect("one"));
        let error = rank.runtime.join(job, &again).expect_err("joined before");
        assert!(matches!(error, HpeError::Join { .. }), "{error}");
        // All that was refused changed nothing, and harmed nothing.
        rank.copy(there, host.as_ptr(), LEN).expect("as before");
        rank.barrier();
        assert!(rank.bytes(mine, LEN) == host);
        // Freed by its owner.
        // SAFETY: nobody uses it.
        unsafe { rank.runtime.free(mine) }.expect("freed");
        rank.barrier();
        refused(rank.copy(there, host.as_ptr(), 1), Refusal::Unknown);
        rank.barrier();
    });
}

#[test]
fn all_hear_of_one_that_cannot_join() {
    in_job("network::all_hear_of_one_that_cannot_join", (3, 1), |job| {
        let bound = if job.rank() == 1 { 4 * BUFFER } else { 6 * BUFFER };
        let (_network, node) = node(job);
        let runtime = settings().pinned(BUFFER, bound).build().expect("a runtime");
        let error = runtime.join(job, &node).expect_err("rank 1 has too few buffers");
        match (job.rank(), error) {
            (1, HpeError::Pinned { .. }) => {}
            (1, error) => panic!("{error}"),
            (_, error) => assert!(error.to_string().contains("rank 1"), "{error}"),
        }
        job.barrier(SOON).expect("all are there");
    });
}

/// One dies with a copy under way; the others hear which.
fn death(job: &Job) {
    let rank = Rank::new(job, settings());
    let mine = rank.alloc(0, LEN);
    let all = rank.tell(mine);
    let dead = victim().expect("one dies");
    if rank.me == dead {
        die();
    }
    let bytes = pattern(rank.me, LEN);
    let error = loop {
        if let Err(error) = rank.copy(all[dead as usize], bytes.as_ptr(), LEN) {
            break error;
        }
    };
    assert!(matches!(error, HpeError::PeerLost { rank } if rank == dead), "{error}");
    // The others go on.
    let living = (0..rank.size).find(|other| *other != dead && *other != rank.me).expect("one lives");
    assert_eq!(rank.bytes(all[living as usize], LEN).len(), LEN);
    // Nobody leaves before the other has what it wants.
    rank.job.send_bytes(living, 7, b"done", SOON).expect("told");
    rank.job.recv_bytes(living, 7, SOON).expect("told");
}

#[test]
fn the_death_of_a_rank_is_told() {
    in_job_with_death("network::the_death_of_a_rank_is_told", 3, 1, death);
}

#[test]
fn the_death_of_a_rank_of_another_host_is_told() {
    if wire::is_there() {
        in_job_over_with_death("network::the_death_of_a_rank_of_another_host_is_told", &[0, 1, 2], 1, death);
    }
}

#[test]
fn who_is_late_is_named_and_later_as_before() {
    in_job("network::who_is_late_is_named_and_later_as_before", (2, 1), |job| {
        let rank = Rank::new(job, settings().timeout(Duration::from_secs(2)));
        let mine = rank.alloc(0, LEN);
        let there = rank.tell(mine)[rank.other(1)];
        let process = std::process::id();
        let all = job.exchange(&process.to_ne_bytes(), SOON).expect("told");
        if rank.me == 1 {
            rank.barrier();
            return;
        }
        let other = u32::from_ne_bytes(all[1][..].try_into().expect("four"));
        let bytes = pattern(9, LEN);
        for _ in 0..2 {
            signal(other, libc::SIGSTOP);
            let error = rank.copy(there, bytes.as_ptr(), LEN).expect_err("it is stopped");
            signal(other, libc::SIGCONT);
            assert!(matches!(error, HpeError::PeerLate { rank: 1, .. }), "{error}");
            // It may still need the processor to go on.
            while let Err(error) = rank.copy(there, bytes.as_ptr(), LEN) {
                assert!(matches!(error, HpeError::PeerLate { rank: 1, .. }), "{error}");
            }
            assert!(rank.bytes(there, LEN) == bytes);
        }
        rank.barrier();
    });
}

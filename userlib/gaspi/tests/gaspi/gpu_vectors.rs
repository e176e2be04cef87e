//! Collectives of vectors in GPU memory, with the executor in place of GPUs. `hosts_gpu.rs` runs them over hosts.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::jobs::{self, BLOCK, job};
use ggas_gaspi::{
    Counter, Datatype, GROUP_ALL, Gaspi, GaspiError, GpuConfig, GpuWay, Notice, Operation, Policy, Timeout,
};

fn init(gaspi: &Gaspi, way: GpuWay) {
    gaspi.gpu_init(GpuConfig { way, ..GpuConfig::default() }).unwrap();
}

/// Hears of groups whose vectors go through the host though they need not.
struct Listener;

static WARNED: AtomicBool = AtomicBool::new(false);

impl tracing::Subscriber for Listener {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN && metadata.target() == "ggas_gaspi::gpu::reduce"
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {
        WARNED.store(true, Ordering::Relaxed);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

/// Sums, minima and maxima of every type, in place and not, of the group of all and of one of its own.
fn long_vectors(gaspi: &Gaspi) {
    tracing::subscriber::set_global_default(Listener).expect("the first");
    init(gaspi, GpuWay::Auto);
    let (me, ranks) = (u64::from(gaspi.rank()), u64::from(gaspi.ranks()));
    const COUNT: usize = 300_001;
    gaspi.segment_create_on(0, 16 * COUNT as u64 + 16, GROUP_ALL, BLOCK, Policy::Gpu).unwrap();
    let at = gaspi.segment_ptr(0).unwrap();
    let pairs = gaspi.group_create().unwrap();
    (0..gaspi.ranks()).for_each(|rank| gaspi.group_add(pairs, rank).unwrap());
    gaspi.group_commit(pairs, BLOCK).unwrap();
    let value = |rank: u64, i: usize| (rank + 1) * (i as u64 % 1000 + 1);
    let reduce = |group, count: usize, operation, datatype: Datatype, bytes: &dyn Fn(i64) -> Vec<u8>| {
        let size = datatype.size();
        let folded = |i: usize| match operation {
            Operation::Sum => (0..ranks).map(|rank| value(rank, i)).sum(),
            Operation::Min => value(0, i),
            Operation::Max => value(ranks - 1, i),
        };
        // Behind one element, so that addresses are no multiples of 8; its result there, or in place.
        for place in [16 + 8 * COUNT as u64, size as u64] {
            let own: Vec<u8> = (0..count).flat_map(|i| bytes(value(me, i) as i64)).collect();
            gaspi.store(0, size as u64, &own).unwrap();
            // SAFETY: within the segment, and nobody else uses it.
            let done = unsafe {
                let to = at.add(place as usize);
                gaspi.gpu_allreduce(group, at.add(size), to, count, operation, datatype, BLOCK)
            };
            assert_eq!(done, Ok(()));
            let mut got = vec![0; count * size];
            gaspi.load(0, place, &mut got).unwrap();
            let all: Vec<u8> = (0..count).flat_map(|i| bytes(folded(i) as i64)).collect();
            assert!(got == all, "{group}: {count} of {datatype:?}, {operation:?}");
        }
    };
    for operation in [Operation::Sum, Operation::Min, Operation::Max] {
        for (group, count) in [(GROUP_ALL, COUNT), (GROUP_ALL, 1), (pairs, 1000)] {
            reduce(group, count, operation, Datatype::Int, &|value| (value as i32).to_ne_bytes().into());
            reduce(group, count, operation, Datatype::Uint, &|value| (value as u32).to_ne_bytes().into());
            reduce(group, count, operation, Datatype::Float, &|value| (value as f32).to_ne_bytes().into());
            reduce(group, count, operation, Datatype::Double, &|value| (value as f64).to_ne_bytes().into());
            reduce(group, count, operation, Datatype::Long, &|value| value.to_ne_bytes().into());
            reduce(group, count, operation, Datatype::Ulong, &|value| value.to_ne_bytes().into());
            reduce(group, count, operation, Datatype::Int16, &|value| (value as i16).to_ne_bytes().into());
            reduce(group, count, operation, Datatype::Uint16, &|value| (value as u16).to_ne_bytes().into());
            // Their sums wrap; the values themselves are no numbers of 8 bits.
            if operation == Operation::Sum {
                reduce(group, count, operation, Datatype::Int8, &|value| (value as i8).to_ne_bytes().into());
                reduce(group, count, operation, Datatype::Uint8, &|value| vec![value as u8]);
            }
        }
    }
    // The largest of numbers without sign is none below zero.
    let own: u32 = if me == 0 { u32::MAX } else { 1 };
    gaspi.store(0, 0, &own.to_ne_bytes()).unwrap();
    // SAFETY: as above.
    unsafe { gaspi.gpu_allreduce(GROUP_ALL, at, at, 1, Operation::Max, Datatype::Uint, BLOCK) }.unwrap();
    let mut got = [0; 4];
    gaspi.load(0, 0, &mut got).unwrap();
    assert_eq!(u32::from_ne_bytes(got), u32::MAX);
    refused_and_unlike(gaspi, at);
    // GPUs that do not reach each other have no other way.
    assert!(ggas_gpu::probe().is_ok() || !WARNED.load(Ordering::Relaxed), "vectors went through the host");
}

/// What is wrong is told before anything is done; members that differ are told, and the next call sets all up again.
fn refused_and_unlike(gaspi: &Gaspi, at: *mut u8) {
    let reduce = |group, from: *const u8, count, timeout| {
        // SAFETY: refused before, or within the segment.
        unsafe { gaspi.gpu_allreduce(group, from, at, count, Operation::Sum, Datatype::Int, timeout) }
    };
    assert_eq!(reduce(77, at, 1, BLOCK), Err(GaspiError::Group));
    assert_eq!(reduce(GROUP_ALL, std::ptr::null(), 1, BLOCK), Err(GaspiError::Null));
    assert_eq!(reduce(GROUP_ALL, at.wrapping_add(2), 1, BLOCK), Err(GaspiError::Size));
    assert_eq!(reduce(GROUP_ALL, at, usize::MAX, BLOCK), Err(GaspiError::Number));
    assert_eq!(reduce(GROUP_ALL, at, 1, Timeout::Test), Err(GaspiError::Timeout));
    assert_eq!(reduce(GROUP_ALL, at, 0, BLOCK), Ok(()));
    past_the_end(gaspi, at);
    gaspi.store(0, 0, &1_i32.to_ne_bytes().repeat(64)).unwrap();
    let count = if gaspi.rank() == 1 { 63 } else { 64 };
    // Those on other GPUs, or hosts, may hear that it failed there.
    let unlike = reduce(GROUP_ALL, at, count, BLOCK).expect_err("another number");
    let apart = ggas_gpu::probe().is_ok_and(|found| found.len() > 1) || jobs::is_over_hosts();
    assert!(unlike == GaspiError::Unlike || (apart && unlike == GaspiError::Failed), "{unlike}");
    // What lies there behind a failure is not said.
    gaspi.store(0, 0, &1_i32.to_ne_bytes().repeat(64)).unwrap();
    gaspi.barrier(GROUP_ALL, BLOCK).unwrap();
    assert_eq!(reduce(GROUP_ALL, at, 64, BLOCK), Ok(()));
    let mut got = [0; 256];
    gaspi.load(0, 0, &mut got).unwrap();
    assert!(got == *i32::from(gaspi.ranks()).to_ne_bytes().repeat(64), "new ones work");
}

/// A vector, or a result, of which the first word is the segment's last is refused, by a text that names the segment.
fn past_the_end(gaspi: &Gaspi, at: *mut u8) {
    let bytes = gaspi.segment_size(0, gaspi.rank()).unwrap();
    let last = at.wrapping_add(bytes as usize - 4);
    let is_told = |done| {
        assert_eq!(done, Err(GaspiError::Failed));
        let cause = GaspiError::Failed.cause().unwrap_or_default();
        assert!(cause.contains("segment 0,") && cause.contains(&format!("has {bytes} bytes")), "{cause}");
    };
    let (sum, int) = (Operation::Sum, Datatype::Int);
    // SAFETY: refused before, or within the segment.
    unsafe {
        is_told(gaspi.gpu_allreduce(GROUP_ALL, last, at, 2, sum, int, BLOCK));
        is_told(gaspi.gpu_allreduce(GROUP_ALL, at, last, 2, sum, int, BLOCK));
        is_told(gaspi.gpu_reduce(GROUP_ALL, 0, last, at, 2, sum, int, BLOCK));
        is_told(gaspi.gpu_broadcast(GROUP_ALL, 0, last, 2, int, BLOCK));
        // One word of each, of which the own one is in it.
        is_told(gaspi.gpu_allgather(GROUP_ALL, at, last, 1, int, BLOCK));
        assert_eq!(gaspi.gpu_broadcast(GROUP_ALL, 0, last, 1, int, BLOCK), Ok(()));
    }
}

/// Memory of the program is the program's: it may go on behind a segment that was made of a part of it.
#[test]
fn vectors_in_bound_memory_may_go_on_behind_the_segment() {
    job("gpu_vectors::vectors_in_bound_memory_may_go_on_behind_the_segment", 2, |gaspi| {
        init(gaspi, GpuWay::Auto);
        let mut numbers = vec![1_i32; 2048];
        if ggas_gpu::probe().is_ok() {
            return;
        }
        let at: *mut u8 = numbers.as_mut_ptr().cast();
        // SAFETY: the memory stays until the segment was deleted, and nothing refers to it meanwhile.
        unsafe { gaspi.segment_bind(0, at, 4096) }.unwrap();
        // SAFETY: within the vector.
        unsafe { gaspi.gpu_allreduce(GROUP_ALL, at, at, 2048, Operation::Sum, Datatype::Int, BLOCK) }
            .unwrap();
        gaspi.segment_delete(0).unwrap();
        assert_eq!(numbers, vec![2; 2048]);
    });
}

/// Bytes that went to other hosts without a copy.
fn straight(gaspi: &Gaspi) -> u64 {
    gaspi.statistics().get(Counter::BytesStraight)
}

/// Whether a mapping of this process begins there and has so many bytes, in whole pages.
fn is_mapped(at: *mut u8, bytes: u64) -> bool {
    let place = format!("{:x}-{:x} ", at as u64, at as u64 + bytes.next_multiple_of(4096));
    std::fs::read_to_string("/proc/self/maps").expect("maps").lines().any(|line| line.starts_with(&place))
}

/// One that was deleted is let go of at once, and a new one with its id is found.
#[test]
fn vectors_in_segments_go_to_other_hosts_without_a_copy() {
    job("gpu_vectors::vectors_in_segments_go_to_other_hosts_without_a_copy", 3, |gaspi| {
        init(gaspi, GpuWay::Auto);
        const COUNT: usize = 100_000;
        let bytes = 64 << 20;
        // Of two hosts each puts the half that the other one adds.
        let leads = jobs::is_over_hosts() && gaspi.rank() < 2 && ggas_gpu::probe().is_err();
        let sums = |at: *mut u8, count: usize| {
            let before = straight(gaspi);
            // SAFETY: within the memory, and nobody else uses it.
            unsafe { gaspi.gpu_allreduce(GROUP_ALL, at, at, count, Operation::Sum, Datatype::Int, BLOCK) }
                .unwrap();
            straight(gaspi) - before
        };
        for _ in 0..2 {
            gaspi.segment_create_on(0, bytes, GROUP_ALL, BLOCK, Policy::Gpu).unwrap();
            let at = gaspi.segment_ptr(0).unwrap();
            let own = (i32::from(gaspi.rank()) + 1).to_ne_bytes().repeat(COUNT);
            gaspi.store(0, 4096, &own).unwrap();
            let vector = at.wrapping_add(4096);
            assert_eq!(sums(vector, COUNT), if leads { 2 * COUNT as u64 } else { 0 });
            let mut got = vec![0; 4 * COUNT];
            gaspi.load(0, 4096, &mut got).unwrap();
            assert!(got == 6_i32.to_ne_bytes().repeat(COUNT), "a wrong sum");
            assert_eq!(sums(vector, 1000), 0, "a short one goes in one round");
            gaspi.barrier(GROUP_ALL, BLOCK).unwrap();
            let was_there = is_mapped(at, bytes);
            gaspi.segment_delete(0).unwrap();
            assert!(
                (was_there || ggas_gpu::probe().is_ok()) && !is_mapped(at, bytes),
                "it is kept behind its end"
            );
        }
        if ggas_gpu::probe().is_err() {
            let mut numbers = vec![1_i32; COUNT];
            let at = numbers.as_mut_ptr().cast();
            // SAFETY: the memory stays until the segment was deleted, and nothing refers to it meanwhile.
            unsafe { gaspi.segment_bind(0, at, 4 * COUNT as u64) }.unwrap();
            assert_eq!(sums(at, COUNT), 0, "the program's memory may go with the segment");
            gaspi.segment_delete(0).unwrap();
            assert_eq!(numbers, vec![3; COUNT]);
        }
    });
}

#[test]
fn vectors_in_gpu_memory_are_reduced() {
    job("gpu_vectors::vectors_in_gpu_memory_are_reduced", 4, long_vectors);
}

/// Broadcasts, reductions to a root and gatherings of the group of all and of one of some, which another one follows.
fn from_and_to_roots(gaspi: &Gaspi, way: GpuWay, count: usize) {
    init(gaspi, way);
    let me = gaspi.rank();
    let bytes = 8 * count * usize::from(gaspi.ranks());
    gaspi.segment_create_on(0, 2 * bytes as u64, GROUP_ALL, BLOCK, Policy::Gpu).unwrap();
    let at = gaspi.segment_ptr(0).unwrap();
    // SAFETY: within the segment.
    let out = unsafe { at.add(bytes) };
    let vector = |rank: u16| -> Vec<u8> {
        (0..count).flat_map(|i| (u64::from(rank) << 48 | i as u64).to_ne_bytes()).collect()
    };
    let got = |bytes_of: usize| {
        let mut got = vec![0; bytes_of];
        gaspi.load(0, bytes as u64, &mut got).unwrap();
        got
    };
    // Bytes, of which parts begin anywhere.
    let few = (8 * count - 1).min(1001);
    let of_group = |group| {
        let members = gaspi.group_ranks(group).unwrap();
        for root in [members[0], members[members.len() - 1]] {
            gaspi.store(0, 0, &vector(me)).unwrap();
            gaspi.store(0, bytes as u64, &vector(me)).unwrap();
            // SAFETY: within the segment, and nobody else uses it.
            unsafe { gaspi.gpu_broadcast(group, root, out, count, Datatype::Double, BLOCK) }.unwrap();
            assert!(got(8 * count) == vector(root), "{group}: from {root}");
            let to = if me == root { out } else { std::ptr::null_mut() };
            // SAFETY: as above.
            unsafe { gaspi.gpu_reduce(group, root, at, to, count, Operation::Max, Datatype::Ulong, BLOCK) }
                .unwrap();
            let last = if me == root { members[members.len() - 1] } else { root };
            assert!(got(8 * count) == vector(last), "{group}: to {root}");
            // SAFETY: as above.
            unsafe { gaspi.gpu_broadcast(group, root, out, few, Datatype::Uint8, BLOCK) }.unwrap();
            // What was reduced to the root.
            let sent = vector(members[members.len() - 1]);
            assert!(got(few) == sent[..few], "{group}: bytes from {root}");
        }
        // SAFETY: as above.
        unsafe { gaspi.gpu_allgather(group, at, out, count, Datatype::Long, BLOCK) }.unwrap();
        let all: Vec<u8> = members.iter().flat_map(|rank| vector(*rank)).collect();
        assert!(got(all.len()) == all, "{group}: all together");
        // SAFETY: as above.
        unsafe { gaspi.gpu_allgather(group, at, out, few, Datatype::Uint8, BLOCK) }.unwrap();
        let all: Vec<u8> = members.iter().flat_map(|rank| vector(*rank)[..few].to_vec()).collect();
        assert!(got(all.len()) == all, "{group}: bytes, all together");
    };
    of_group(GROUP_ALL);
    // Not rank 0, and a group of the same id of all but rank 1 behind it.
    for without in [0, 1] {
        let some = gaspi.group_create().unwrap();
        (0..gaspi.ranks())
            .filter(|rank| *rank != without)
            .for_each(|rank| gaspi.group_add(some, rank).unwrap());
        if me != without {
            gaspi.group_commit(some, BLOCK).unwrap();
            of_group(some);
            // SAFETY: refused before.
            let refused = unsafe { gaspi.gpu_broadcast(some, without, out, 1, Datatype::Int, BLOCK) };
            assert_eq!(refused, Err(GaspiError::Rank));
        }
        gaspi.group_delete(some).unwrap();
        gaspi.barrier(GROUP_ALL, BLOCK).unwrap();
    }
    of_group(GROUP_ALL);
}

#[test]
fn vectors_in_gpu_memory_move_between_processes() {
    job("gpu_vectors::vectors_in_gpu_memory_move_between_processes", 4, |gaspi| {
        from_and_to_roots(gaspi, GpuWay::Auto, 100_000)
    });
}

#[test]
fn vectors_in_gpu_memory_move_through_the_host() {
    job("gpu_vectors::vectors_in_gpu_memory_move_through_the_host", 3, |gaspi| {
        from_and_to_roots(gaspi, GpuWay::Card, 700)
    });
}

#[test]
fn vectors_in_gpu_memory_are_reduced_through_the_host() {
    job("gpu_vectors::vectors_in_gpu_memory_are_reduced_through_the_host", 3, |gaspi| {
        init(gaspi, GpuWay::Card);
        let mut numbers: Vec<i32> = (0..1000).map(|i| i + i32::from(gaspi.rank())).collect();
        gaspi.segment_create_on(0, 4000, GROUP_ALL, BLOCK, Policy::Gpu).unwrap();
        gaspi.store(0, 0, &numbers.iter().flat_map(|one| one.to_ne_bytes()).collect::<Vec<u8>>()).unwrap();
        let at = gaspi.segment_ptr(0).unwrap();
        // SAFETY: the segment, which nobody else uses.
        unsafe { gaspi.gpu_allreduce(GROUP_ALL, at, at, 1000, Operation::Sum, Datatype::Int, BLOCK) }
            .unwrap();
        let ranks = i32::from(gaspi.ranks());
        numbers = (0..1000).map(|i| ranks * i + ranks * (ranks - 1) / 2).collect();
        let mut got = vec![0; 4000];
        gaspi.load(0, 0, &mut got).unwrap();
        assert!(got == numbers.iter().flat_map(|one| one.to_ne_bytes()).collect::<Vec<u8>>());
    });
}

#[test]
fn a_member_that_comes_late_is_waited_for_again() {
    job("gpu_vectors::a_member_that_comes_late_is_waited_for_again", 3, |gaspi| {
        init(gaspi, GpuWay::Auto);
        let pairs = gaspi.group_create().unwrap();
        (0..3).for_each(|rank| gaspi.group_add(pairs, rank).unwrap());
        gaspi.group_commit(pairs, BLOCK).unwrap();
        gaspi.segment_create_on(0, 4096, GROUP_ALL, BLOCK, Policy::Gpu).unwrap();
        let at = gaspi.segment_ptr(0).unwrap();
        for (group, value) in [(GROUP_ALL, 1), (pairs, 2)] {
            let reduce = |timeout| {
                // SAFETY: within the segment, and nobody else uses it.
                unsafe { gaspi.gpu_allreduce(group, at, at, 64, Operation::Sum, Datatype::Int, timeout) }
            };
            gaspi.store(0, 0, &i32::to_ne_bytes(value).repeat(64)).unwrap();
            let told = Notice { segment: 0, id: u32::from(gaspi.rank()), value: 1 };
            if gaspi.rank() == 2 {
                for id in 0..2 {
                    assert_eq!(gaspi.notify_waitsome(0, id, 1, BLOCK), Ok(Some(id)));
                    assert_eq!(gaspi.notify_reset(0, id), Ok(1));
                }
            } else {
                // Twice in vain: what one call has begun the next goes on with.
                for _ in 0..2 {
                    assert_eq!(reduce(Timeout::Within(Duration::from_millis(20))), Err(GaspiError::Timeout));
                }
                gaspi.notify(&told, 2, 0).unwrap();
            }
            assert_eq!(reduce(BLOCK), Ok(()));
            let mut got = [0; 256];
            gaspi.load(0, 0, &mut got).unwrap();
            assert!(got == *(3 * value).to_ne_bytes().repeat(64), "{group}");
        }
    });
}

#[test]
fn a_death_ends_reductions_in_gpu_memory() {
    let ends = jobs::ends("gpu_vectors::a_death_ends_reductions_in_gpu_memory", 3, |gaspi| {
        init(gaspi, GpuWay::Auto);
        let mut numbers = vec![1_i32; 100_000];
        let at = numbers.as_mut_ptr().cast();
        let reduce = || {
            // SAFETY: the executor stands in for a GPU, or the call says that this is none of its memory.
            unsafe { gaspi.gpu_allreduce(GROUP_ALL, at, at, 100_000, Operation::Max, Datatype::Int, BLOCK) }
        };
        if ggas_gpu::probe().is_ok() {
            assert_eq!(reduce(), Err(GaspiError::Failed));
            return;
        }
        assert_eq!(reduce(), Ok(()));
        if gaspi.rank() == 2 {
            // SAFETY: ends this process, without a word.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        }
        assert_eq!(reduce(), Err(GaspiError::Dead));
        assert_eq!(reduce(), Err(GaspiError::Dead), "nor can it be set up again");
        assert!(numbers.iter().all(|number| *number == 1));
    });
    for (rank, status) in ends.into_iter().enumerate() {
        let died = rank == 2 && ggas_gpu::probe().is_err();
        assert_eq!(status.success(), !died, "rank {rank}: {status}");
    }
}

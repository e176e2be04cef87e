//! Segments in GPU memory, with the executor in place of GPUs, and kernels that speak GASPI.

use std::process::ExitStatus;
use std::time::Duration;

use crate::jobs::{self, BLOCK, job, part, pattern};
use extoll_abi::layout::{GGAS_ERR_ARGUMENT, GGAS_ERR_TIMEOUT};
use ggas::kernels::start;
use ggas_gaspi::{
    Datatype, GROUP_ALL, Gaspi, GaspiError, GpuConfig, GpuContext, GpuWay, Notice, Operation, Part, Policy,
    Timeout,
};
use ggas_mapping::Pattern;
use ggas_selftest::args::{SELFTEST_GASPI_PING, SELFTEST_GASPI_REFUSE, SELFTEST_GASPI_RING, selftest_gaspi};

const SOON: Duration = Duration::from_secs(60);
const POLICIES: [Policy; 3] = [Policy::Host, Policy::Gpu, Policy::GpuNotified];
/// Bytes that a rank sends; as many are received.
const HALF: u64 = 1 << 20;

/// Ranks of tests that suit any number: as many as GPUs, where there are some.
fn ranks() -> u16 {
    ggas_gpu::probe().map_or(3, |gpus| gpus.len().clamp(1, 3) as u16)
}

/// Whether two ranks reach each other's segments by stores of kernels: not where they share the only GPU.
fn two_reach() -> bool {
    let reach = std::env::var("GGAS_PROCESSOR").as_deref() == Ok("cpu")
        || !ggas_gpu::probe().is_ok_and(|gpus| gpus.len() == 1);
    if !reach {
        println!(
            "skipped: kernels of two processes on one GPU do not reach each other; GGAS_PROCESSOR=cpu has the executor"
        );
    }
    reach
}

fn init(gaspi: &Gaspi, way: GpuWay) {
    let config =
        GpuConfig { way, staged_min: 10_000, staged_piece: 30_000, piece: 70_000, ..GpuConfig::default() };
    gaspi.gpu_init(config).unwrap();
}

/// Writes and reads between segments of all kinds, with notifications beside each kind.
fn all_pairs(gaspi: &Gaspi) {
    let (me, ranks) = (gaspi.rank(), gaspi.ranks());
    let (next, before) = ((me + 1) % ranks, (me + ranks - 1) % ranks);
    for (id, policy) in (0..).zip(POLICIES) {
        // Sizes differ from rank to rank.
        let bytes = 2 * HALF + 100 * u64::from(me);
        gaspi.segment_create_on(id, bytes, GROUP_ALL, BLOCK, policy).unwrap();
        assert_eq!(gaspi.segment_size(id, next), Ok(2 * HALF + 100 * u64::from(next)));
        assert!(!gaspi.segment_ptr(id).unwrap().is_null());
    }
    let mut round = 0;
    for (local, remote) in (0..9).map(|pair| (pair / 3, pair % 3)) {
        for bytes in [1, 8, 4096, 65_537, HALF] {
            round += 1;
            let queue = (round % 8) as u8;
            let to = Part { local, local_offset: 0, remote, remote_offset: HALF, bytes };
            gaspi.store(local, 0, &pattern(me, round, bytes as usize)).unwrap();
            let notice = Notice { segment: remote, id: 65_535, value: round as u32 };
            match round % 4 {
                0 => gaspi.gpu_write_notify(&to, &notice, next, queue, BLOCK).unwrap(),
                1 => gaspi.write_notify(&[to], &notice, next, queue).unwrap(),
                2 => {
                    gaspi.gpu_write(&to, next, queue, BLOCK).unwrap();
                    gaspi.notify(&notice, next, queue).unwrap();
                }
                _ => {
                    // The notification of another segment comes behind the data, too.
                    gaspi.write(&to, next, queue).unwrap();
                    let notice = Notice { segment: (remote + 1) % 3, ..notice };
                    gaspi.notify(&notice, next, queue).unwrap();
                }
            }
            let told = if round % 4 == 3 { (remote + 1) % 3 } else { remote };
            assert_eq!(gaspi.notify_waitsome(told, 65_530, 6, BLOCK), Ok(Some(65_535)));
            assert_eq!(gaspi.notify_reset(told, 65_535), Ok(round as u32));
            assert_eq!(gaspi.notify_reset(told, 65_535), Ok(0));
            let mut got = vec![0; bytes as usize];
            gaspi.load(remote, HALF, &mut got).unwrap();
            assert!(
                got == pattern(before, round, bytes as usize),
                "{bytes} bytes from {local} to {remote}, {round}"
            );
            gaspi.wait(queue, BLOCK).unwrap();
            assert_eq!(gaspi.queue_size(queue), Ok(0));
            gaspi.barrier(GROUP_ALL, BLOCK).unwrap();
            // Back what was written there.
            let from = Part { local, local_offset: 0, remote, remote_offset: HALF, bytes };
            gaspi.read_notify(&[from], local, 3, next, queue).unwrap();
            assert_eq!(gaspi.notify_waitsome(local, 3, 1, BLOCK), Ok(Some(3)));
            assert_eq!(gaspi.notify_reset(local, 3), Ok(1));
            gaspi.wait(queue, BLOCK).unwrap();
            gaspi.load(local, 0, &mut got).unwrap();
            assert!(got == pattern(me, round, bytes as usize), "back from {remote}");
            gaspi.barrier(GROUP_ALL, BLOCK).unwrap();
        }
    }
    // Ids may be used again, for another kind.
    gaspi.segment_delete(1).unwrap();
    gaspi.barrier(GROUP_ALL, BLOCK).unwrap();
    gaspi.segment_create_on(1, 8, GROUP_ALL, BLOCK, Policy::Host).unwrap();
    let far = Part { local: 2, local_offset: 0, remote: 1, remote_offset: 1, bytes: 8 };
    assert_eq!(gaspi.write(&far, next, 0), Err(GaspiError::CommSize));
    assert!(gaspi.state_vector().iter().all(|is_corrupt| !is_corrupt));
}

#[test]
fn all_kinds_of_segments_through_the_card() {
    job("gpu::all_kinds_of_segments_through_the_card", 2, |gaspi| {
        init(gaspi, GpuWay::Card);
        all_pairs(gaspi);
    });
}

#[test]
fn all_kinds_of_segments_without_the_card() {
    job("gpu::all_kinds_of_segments_without_the_card", ranks(), |gaspi| {
        init(gaspi, GpuWay::Direct);
        all_pairs(gaspi);
    });
}

/// A write in pieces whose notification finds no room posts nothing.
#[test]
fn pieces_are_posted_where_all_of_them_have_room() {
    job("gpu::pieces_are_posted_where_all_of_them_have_room", 2, |gaspi| {
        init(gaspi, GpuWay::Card);
        gaspi.segment_create_on(0, 2 * HALF, GROUP_ALL, BLOCK, Policy::Gpu).unwrap();
        let other = 1 - gaspi.rank();
        let (to, notice) = (part(0, HALF, 100_000), Notice { segment: 0, id: 3, value: 1 });
        gaspi.store(0, 0, &pattern(gaspi.rank(), 1, 100_000)).unwrap();
        for _ in 0..1020 {
            gaspi.notify(&Notice { id: 4, ..notice }, other, 1).unwrap();
        }
        let full = gaspi.gpu_write_notify(&to, &notice, other, 1, BLOCK);
        assert_eq!((full, gaspi.queue_size(1)), (Err(GaspiError::QueueFull), Ok(1020)));
        gaspi.wait(1, BLOCK).unwrap();
        gaspi.barrier(GROUP_ALL, BLOCK).unwrap();
        let mut got = vec![0; 8];
        gaspi.load(0, HALF, &mut got).unwrap();
        assert_eq!((got, gaspi.notify_reset(0, 3)), (vec![0; 8], Ok(0)));
        gaspi.barrier(GROUP_ALL, BLOCK).unwrap();
        (0..1019).for_each(|_| gaspi.notify(&Notice { id: 4, ..notice }, other, 1).unwrap());
        gaspi.gpu_write_notify(&to, &notice, other, 1, BLOCK).unwrap();
        assert_eq!(gaspi.queue_size(1), Ok(1024));
        gaspi.notify_waitsome(0, 3, 1, BLOCK).unwrap();
        gaspi.wait(1, BLOCK).unwrap();
    });
}

/// What goes through the card, and what does not, stay in order with each other where a notification follows.
#[test]
fn notifications_come_behind_data_of_both_ways() {
    job("gpu::notifications_come_behind_data_of_both_ways", 2, |gaspi| {
        init(gaspi, GpuWay::Direct);
        let (me, other) = (gaspi.rank(), 1 - gaspi.rank());
        // So long that the card takes a while.
        const HALF: u64 = 16 << 20;
        for (id, policy) in [(0, Policy::Host), (1, Policy::Gpu)] {
            gaspi.segment_create_on(id, 2 * HALF, GROUP_ALL, BLOCK, policy).unwrap();
        }
        let mut memory = vec![0u8; 2 * HALF as usize];
        // SAFETY: the vector outlives the segment, and is only looked at through it meanwhile.
        unsafe { gaspi.segment_use(2, memory.as_mut_ptr(), 2 * HALF, GROUP_ALL, BLOCK) }.unwrap();
        for round in 1..10u64 {
            // Bound memory goes through the card, from and to.
            for id in 0..3 {
                gaspi.store(id, 0, &pattern(me, round + 100 * u64::from(id), HALF as usize)).unwrap();
            }
            for id in [2, 1, 0] {
                let to = Part { local: id, local_offset: 0, remote: id, remote_offset: HALF, bytes: HALF };
                gaspi.write(&to, other, 4).unwrap();
            }
            // Beside any of them.
            let segment = (round % 3) as u8;
            gaspi.notify(&Notice { segment, id: 5, value: 9 }, other, 4).unwrap();
            gaspi.notify_waitsome(segment, 5, 1, BLOCK).unwrap();
            assert_eq!(gaspi.notify_reset(segment, 5), Ok(9));
            for id in 0..3 {
                let mut got = vec![0; HALF as usize];
                gaspi.load(id, HALF, &mut got).unwrap();
                let expected = pattern(other, round + 100 * u64::from(id), HALF as usize);
                assert!(got == expected, "segment {id}, round {round}, told beside {segment}");
            }
            gaspi.wait(4, BLOCK).unwrap();
            gaspi.barrier(GROUP_ALL, BLOCK).unwrap();
        }
        gaspi.segment_delete(2).unwrap();
    });
}

/// Segments that others told of before this process had a GPU are reached afterwards.
#[test]
fn gpus_are_initialised_once_and_before_they_are_used() {
    job("gpu::gpus_are_initialised_once_and_before_they_are_used", 2, |gaspi| {
        assert_eq!(gaspi.gpu_ids(), Err(GaspiError::Failed));
        assert_eq!(gaspi.segment_alloc_on(0, 8, Policy::Gpu), Err(GaspiError::Failed));
        assert_eq!(gaspi.gpu_context(1, BLOCK).err(), Some(GaspiError::Failed));
        // SAFETY: refused before the memory is touched.
        assert_eq!(unsafe { gaspi.map_seg(0, 8 as *mut u8, 8) }, Err(GaspiError::Failed));
        let no_piece = GpuConfig { piece: 0, ..GpuConfig::default() };
        assert_eq!(gaspi.gpu_init(no_piece), Err(GaspiError::Config));
        if gaspi.rank() == 0 {
            init(gaspi, GpuWay::Direct);
            gaspi.segment_alloc_on(3, 4096, Policy::GpuNotified).unwrap();
            gaspi.store(3, 8, b"earlier").unwrap();
            gaspi.segment_register(3, 1, BLOCK).unwrap();
            gaspi.barrier(GROUP_ALL, BLOCK).unwrap();
        } else {
            gaspi.barrier(GROUP_ALL, BLOCK).unwrap();
            init(gaspi, GpuWay::Direct);
            gaspi.segment_alloc_on(4, 4096, Policy::Gpu).unwrap();
            let from = Part { local: 4, local_offset: 100, remote: 3, remote_offset: 8, bytes: 7 };
            gaspi.read(&from, 0, 0).unwrap();
            gaspi.wait(0, BLOCK).unwrap();
            let mut text = [0; 7];
            gaspi.load(4, 100, &mut text).unwrap();
            assert_eq!(&text, b"earlier");
        }
        assert_eq!(gaspi.gpu_init(GpuConfig::default()), Err(GaspiError::Initialized));
        assert_eq!(gaspi.gpu_ids().unwrap().len(), 1);
    });
}

/// Memory that a program has is mapped, written to, and no longer once it is not mapped (thesis 4.4.4).
#[test]
fn memory_is_mapped_and_unmapped() {
    job("gpu::memory_is_mapped_and_unmapped", 2, |gaspi| {
        init(gaspi, GpuWay::Auto);
        let (me, other) = (gaspi.rank(), 1 - gaspi.rank());
        let (processor, _) = gaspi.job().processor().unwrap();
        let memory = processor.alloc(8192).unwrap();
        let start = memory.address() as *mut u8;
        // SAFETY: the memory outlives the segment.
        unsafe { gaspi.map_create(7, start, 8192, GROUP_ALL, BLOCK) }.unwrap();
        gaspi.store(7, 0, &pattern(me, 0, 4096)).unwrap();
        let to = Part { local: 7, local_offset: 0, remote: 7, remote_offset: 4096, bytes: 4096 };
        gaspi.write_notify(&[to], &Notice { segment: 7, id: 1, value: 1 }, other, 0).unwrap();
        gaspi.notify_waitsome(7, 1, 1, BLOCK).unwrap();
        let mut got = vec![0; 4096];
        gaspi.load(7, 4096, &mut got).unwrap();
        assert!(got == pattern(other, 0, 4096));
        gaspi.wait(0, BLOCK).unwrap();
        gaspi.barrier(GROUP_ALL, BLOCK).unwrap();
        // Rank 0 has unmapped: rank 1's write does not arrive.
        if me == 0 {
            gaspi.segment_delete(7).unwrap();
            assert_eq!(gaspi.write(&to, other, 0), Err(GaspiError::Null), "from there");
            let before = memory.read_u64s(0, 1024).unwrap();
            gaspi.barrier(GROUP_ALL, BLOCK).unwrap();
            gaspi.barrier(GROUP_ALL, BLOCK).unwrap();
            assert!(memory.read_u64s(0, 1024).unwrap() == before);
        } else {
            gaspi.barrier(GROUP_ALL, BLOCK).unwrap();
            gaspi.write(&to, other, 0).unwrap();
            // A card tells of what its target refuses, if at all, there.
            assert!(matches!(gaspi.wait(0, BLOCK), Ok(()) | Err(GaspiError::Failed)));
            gaspi.barrier(GROUP_ALL, BLOCK).unwrap();
            gaspi.segment_delete(7).unwrap();
        }
    });
}

/// Atomics, passive messages and reductions take any memory.
#[test]
fn other_calls_take_segments_in_gpu_memory() {
    job("gpu::other_calls_take_segments_in_gpu_memory", 2, |gaspi| {
        init(gaspi, GpuWay::Auto);
        let (me, other) = (gaspi.rank(), 1 - gaspi.rank());
        gaspi.segment_create_on(0, 4096, GROUP_ALL, BLOCK, Policy::GpuNotified).unwrap();
        for _ in 0..100 {
            gaspi.fetch_add(0, 64, other, 3).unwrap();
        }
        gaspi.barrier(GROUP_ALL, BLOCK).unwrap();
        assert_eq!(gaspi.fetch_add(0, 64, me, 0), Ok(300));
        if me == 0 {
            gaspi.store(0, 0, b"passive").unwrap();
            gaspi.passive_send(0, 0, 1, 7, BLOCK).unwrap();
        } else {
            assert_eq!(gaspi.passive_receive(0, 32, 7, BLOCK), Ok(0));
            let mut text = [0; 7];
            gaspi.load(0, 32, &mut text).unwrap();
            assert_eq!(&text, b"passive");
        }
        gaspi.store(0, 128, &u64::from(me + 1).to_ne_bytes()).unwrap();
        let pointer = gaspi.segment_ptr(0).unwrap();
        let mut own = [0; 8];
        // SAFETY: inside the segment.
        unsafe { gaspi.fetch_raw(pointer.add(128), &mut own) }.unwrap();
        let all = gaspi.allreduce(GROUP_ALL, &own, Operation::Sum, Datatype::Ulong, BLOCK).unwrap();
        // SAFETY: as above.
        unsafe { gaspi.give_raw(pointer.add(136), &all) }.unwrap();
        gaspi.load(0, 136, &mut own).unwrap();
        assert_eq!(u64::from_ne_bytes(own), 3);
        // SAFETY: refused.
        assert_eq!(unsafe { gaspi.fetch_raw(std::ptr::null(), &mut own) }, Err(GaspiError::Null));
    });
}

/// Runs the kernel; its status, wrong bytes and time.
fn run(context: &GpuContext, blocks: u32, args: selftest_gaspi) -> [u64; 3] {
    let processor = context.processor();
    let results = processor.alloc(24).unwrap();
    let args = selftest_gaspi {
        gaspi: context.address(),
        status: results.address(),
        wrong: results.address() + 8,
        time: results.address() + 16,
        ..args
    };
    // SAFETY: the arguments are this kernel's, and their memory outlives the wait.
    let launch = unsafe { ggas_selftest::launch(processor, "ggas_selftest_gaspi", blocks, 32, &args) };
    start(&[launch]).unwrap().wait(2 * SOON).unwrap();
    [0, 8, 16].map(|at| results.load_u64(at).unwrap())
}

fn arguments(form: u32, segment: u32, bytes: u64, rounds: u32, first: u32) -> selftest_gaspi {
    let (gaspi, status, wrong, time) = (0, 0, 0, 0);
    selftest_gaspi { gaspi, status, wrong, time, bytes, each: 4096, form, segment, rounds, first }
}

/// Kernels write to each other, to segments of all kinds, and to hosts; and hosts to kernels.
#[test]
fn kernels_speak_gaspi() {
    job("gpu::kernels_speak_gaspi", ranks(), |gaspi| {
        ggas_selftest::add();
        init(gaspi, GpuWay::Auto);
        // One segment is there before the context, the others come behind it.
        gaspi.segment_create_on(0, 40 << 10, GROUP_ALL, BLOCK, POLICIES[0]).unwrap();
        assert_eq!(gaspi.gpu_context(0, BLOCK).err(), Some(GaspiError::Number));
        assert_eq!(gaspi.gpu_context(33, BLOCK).err(), Some(GaspiError::Number));
        let context = gaspi.gpu_context(2, BLOCK).unwrap();
        for (id, policy) in (0..).zip(POLICIES).skip(1) {
            gaspi.segment_create_on(id, 40 << 10, GROUP_ALL, BLOCK, policy).unwrap();
        }
        for segment in 0..3 {
            for (bytes, first) in [(3000, 0), (8, 100), (1, 200)] {
                let args = arguments(SELFTEST_GASPI_RING, segment, bytes, 5, first);
                let [status, wrong, _] = run(&context, 5, args);
                assert_eq!((status, wrong), (0, 0), "{:?}", context.check());
                gaspi.barrier(GROUP_ALL, BLOCK).unwrap();
            }
        }
        context.check().unwrap();
    });
}

/// Where somebody asks, a trace has what kernels wrote and notified, and nothing of it twice.
#[test]
fn what_kernels_write_is_traced() {
    if jobs::is_over_hosts() || !two_reach() {
        return;
    }
    let folder = std::env::temp_dir().join(format!("ggas-gaspi-traced-{}", std::process::id()));
    let is_parent = std::env::var_os("GGAS_TRACE").is_none();
    if is_parent {
        std::fs::create_dir_all(&folder).unwrap();
    }
    // Set-up and barriers of the hosts count as well: without kernels that is all.
    let [without, with] = ["0", "1"].map(|kernels| {
        let prefix = folder.join(kernels);
        let told = [("GGAS_TRACE", prefix.to_str().unwrap()), ("GGAS_TEST_KERNELS", kernels)];
        let ends = jobs::ends_told("gpu::what_kernels_write_is_traced", 2, &told, |_| {
            let gaspi = Gaspi::init(ggas_gaspi::Config::default(), BLOCK).unwrap();
            ggas_selftest::add();
            init(&gaspi, GpuWay::Auto);
            gaspi.segment_create_on(0, 40 << 10, GROUP_ALL, BLOCK, Policy::GpuNotified).unwrap();
            let context = gaspi.gpu_context(2, BLOCK).unwrap();
            if std::env::var("GGAS_TEST_KERNELS").as_deref() == Ok("1") {
                let [status, wrong, _] = run(&context, 5, arguments(SELFTEST_GASPI_RING, 0, 3000, 4, 0));
                assert_eq!((status, wrong), (0, 0), "{:?}", context.check());
            }
            gaspi.barrier(GROUP_ALL, BLOCK).unwrap();
            drop(context);
            drop(gaspi);
            std::process::exit(0);
        });
        assert!(ends.iter().all(ExitStatus::success), "{ends:?}");
        Pattern::traced(&prefix).unwrap()
    });
    std::fs::remove_dir_all(&folder).unwrap();
    // Of two the next one is the one before: data and a notification, and that they were read.
    let each = 5 * 4 * (3000 + 8 + 8);
    let more = |from, to| with.bytes(from, to) - without.bytes(from, to);
    assert_eq!([more(0, 1), more(1, 0)], [each; 2]);
}

#[test]
fn a_kernel_and_a_host_use_the_same_notifications() {
    if !two_reach() {
        return;
    }
    job("gpu::a_kernel_and_a_host_use_the_same_notifications", 2, |gaspi| {
        ggas_selftest::add();
        init(gaspi, GpuWay::Direct);
        for (id, policy) in (0..).zip(POLICIES) {
            gaspi.segment_create_on(id, 40 << 10, GROUP_ALL, BLOCK, policy).unwrap();
        }
        let context = gaspi.gpu_context(1, BLOCK).unwrap();
        let rounds = 20;
        for segment in 0..3u8 {
            // A kernel on rank 0, the calls of a host on rank 1.
            if gaspi.rank() == 0 {
                let args = arguments(SELFTEST_GASPI_PING, segment.into(), 8, rounds, 40);
                let [status, wrong, time] = run(&context, 1, args);
                assert_eq!((status, wrong), (0, 0), "{:?}", context.check());
                assert!(time > 0);
            } else {
                for round in 1..=rounds + 10 {
                    let id = 40 + (round + 1) % 2;
                    assert_eq!(gaspi.notify_waitsome(segment, 40, 2, BLOCK), Ok(Some(id)));
                    assert_eq!(gaspi.notify_reset(segment, id), Ok(round));
                    let to = Part {
                        local: segment,
                        local_offset: 0,
                        remote: segment,
                        remote_offset: 4096,
                        bytes: 8,
                    };
                    gaspi.write_notify(&[to], &Notice { segment, id, value: round }, 0, 0).unwrap();
                    gaspi.wait(0, BLOCK).unwrap();
                }
            }
            gaspi.barrier(GROUP_ALL, BLOCK).unwrap();
        }
    });
}

/// What there is not is refused, and nothing is written.
#[test]
fn kernels_are_refused_what_there_is_not() {
    if !two_reach() {
        return;
    }
    job("gpu::kernels_are_refused_what_there_is_not", 2, |gaspi| {
        ggas_selftest::add();
        init(gaspi, GpuWay::Auto);
        gaspi.segment_create_on(0, 4096, GROUP_ALL, BLOCK, Policy::GpuNotified).unwrap();
        let context = gaspi.gpu_context(1, Timeout::Within(SOON)).unwrap();
        let mut memory = vec![0u8; 4096];
        // SAFETY: the vector outlives the segment, and is only looked at through it meanwhile.
        unsafe { gaspi.segment_use(1, memory.as_mut_ptr(), 4096, GROUP_ALL, BLOCK) }.unwrap();
        for case in 0..10 {
            let [status, ..] = run(&context, 1, arguments(SELFTEST_GASPI_REFUSE, 0, 4096, 0, case));
            assert_eq!(status, u64::from(GGAS_ERR_ARGUMENT), "case {case}");
            assert!(context.check().is_err());
            context.clear();
        }
        let [status, ..] = run(&context, 1, arguments(SELFTEST_GASPI_PING, 1, 8, 1, 0));
        assert_eq!(status, u64::from(GGAS_ERR_ARGUMENT), "bound memory is not passed on");
        context.clear();
        gaspi.barrier(GROUP_ALL, BLOCK).unwrap();
        drop(context);
        let short = gaspi.gpu_context(1, Timeout::Within(Duration::from_secs(2))).unwrap();
        let [status, ..] = run(&short, 1, arguments(SELFTEST_GASPI_RING, 0, 8, 0, 0));
        assert_eq!(status, 0, "no rounds");
        if gaspi.rank() == 1 {
            // Nobody sends.
            let [status, ..] = run(&short, 1, arguments(SELFTEST_GASPI_PING, 0, 8, 1, 0));
            assert_eq!(status, u64::from(GGAS_ERR_TIMEOUT));
        }
        let mut all = vec![0; 4096];
        gaspi.load(0, 0, &mut all).unwrap();
        assert!(all.iter().all(|byte| *byte == 0));
        let own = part(0, 0, 8);
        gaspi.write(&own, gaspi.rank(), 0).unwrap();
        gaspi.wait(0, BLOCK).unwrap();
        gaspi.barrier(GROUP_ALL, BLOCK).unwrap();
        gaspi.segment_delete(1).unwrap();
    });
}

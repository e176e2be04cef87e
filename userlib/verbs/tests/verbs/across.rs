//! Verbs between processes of a job: all operations by kernels and by the host, of which each byte is looked at.

use crate::common::*;
use crate::processes::in_job;
use crate::world::{World, expect, pattern_of};
use ggas_clock::Clock;
use ggas_selftest::args::*;
use ggas_verbs::layout::*;
use ggas_verbs::*;

const FORMATS: [Format; 2] = [Format::Mlx4, Format::Mlx5];

/// All operations by kernels of both processes at the same time.
fn by_kernels(world: &World<'_>, format: Format, (step, scope): (u32, u32), placement: Placement) {
    let (rank, other) = (world.rank(), 1 - world.rank());
    let len = 300;
    let total = COUNT as usize * len;
    for operation in [GGAS_IBV_WRITE, GGAS_IBV_WRITE_IMM, GGAS_IBV_SEND, GGAS_IBV_SEND_IMM, GGAS_IBV_READ] {
        let what = format!("{format:?} step {step} scope {scope} operation {operation}");
        let end = world.end(format, placement);
        let takes = [GGAS_IBV_WRITE_IMM, GGAS_IBV_SEND, GGAS_IBV_SEND_IMM].contains(&operation);
        for id in (0..u64::from(COUNT)).filter(|_| takes) {
            let at = end.mr.address() + INTO + id * len as u64;
            let local = Sges::one(at, len as u32, end.mr.lkey());
            end.qp.post_receive(&ReceiveWork { id, local }).unwrap();
        }
        let remote = world.pair(&end);
        // Receives are the host's here, which may not poll what kernels have: they are counted in the bytes.
        let kernel = Kernel::of(operation, len as u32, step, scope);
        let (status, ended) = run_kernel(&world.processor, &end, &remote, &kernel, || ());
        assert_eq!(status, 0, "{what}");
        assert!(ended.iter().all(|wc| wc.status == GGAS_IBV_WC_SUCCESS), "{what}");
        world.barrier();
        let there = pattern_of(other);
        if operation == GGAS_IBV_READ {
            expect(&end, rank, 0, &there[INTO as usize..][..total], &what);
        } else {
            expect(&end, rank, INTO as usize, &there[..total], &what);
        }
    }
    for operation in [GGAS_IBV_CMP_SWAP, GGAS_IBV_FETCH_ADD] {
        let end = world.end(format, placement);
        end.mr.buffer().store_u64(INTO as usize, 0).unwrap();
        let remote = world.pair(&end);
        let kernel = Kernel::of(operation, 8, step, scope);
        assert_eq!(run_kernel(&world.processor, &end, &remote, &kernel, || ()).0, 0);
        let before = end.mr.buffer().read_u64s(0, COUNT as usize).unwrap();
        assert_eq!(before, (0..u64::from(COUNT)).collect::<Vec<_>>());
        world.barrier();
        assert_eq!(end.mr.buffer().load_u64(INTO as usize).unwrap(), u64::from(COUNT));
    }
}

#[test]
fn kernels_of_two_processes_do_all_operations() {
    in_job("across::kernels_of_two_processes_do_all_operations", (2, 1), |job| {
        let world = World::join(job, Clock::real());
        let _running = world.run();
        for format in FORMATS {
            by_kernels(&world, format, (0, SELFTEST_VERBS_THREAD), Placement::Kernel);
            by_kernels(&world, format, (2, SELFTEST_VERBS_WARP), Placement::Host);
            by_kernels(&world, format, (4, SELFTEST_VERBS_BLOCK), Placement::Kernel);
        }
    });
}

#[test]
fn kernels_receive_what_another_processs_host_sends() {
    in_job("across::kernels_receive_what_another_processs_host_sends", (2, 1), |job| {
        let world = World::join(job, Clock::real());
        let _running = world.run();
        let turns = [(Format::Mlx4, 0), (Format::Mlx4, 1), (Format::Mlx5, 0), (Format::Mlx5, 1)];
        for (format, receiver) in turns {
            let end = world.end(format, Placement::Kernel);
            let remote = world.pair(&end);
            let total = COUNT as usize * 200;
            if world.rank() == receiver {
                let kernel = Kernel { receives: 1, ..Kernel::of(!0, 200, 2, SELFTEST_VERBS_BLOCK) };
                let (status, ended) = run_kernel(&world.processor, &end, &remote, &kernel, || ());
                assert_eq!(status, 0);
                for (i, wc) in ended.iter().enumerate() {
                    let found = (wc.id, wc.bytes, wc.has_immediate, wc.immediate, wc.operation);
                    assert_eq!(found, (1000 + i as u64, 200, 1, i as u32, GGAS_IBV_WC_RECV));
                }
                let sent = pattern_of(1 - receiver);
                expect(&end, receiver, INTO as usize, &sent[..total], "receives");
            } else {
                for id in 0..u64::from(COUNT) {
                    let local = Sges::one(end.mr.address() + id * 200, 200, end.mr.lkey());
                    let send = Operation::Send { immediate: Some(id as u32) };
                    end.qp.post_send(&SendWork::new(id, send, local)).unwrap();
                    let done = poll(&end.send);
                    assert_eq!((done.id, done.status), (id, Status::Success));
                }
            }
            world.barrier();
        }
    });
}

/// Parts of several lengths, which lie one behind the other: shorter than a packet, as long, and longer.
const PARTS: [u32; 8] = [1, 255, 256, 257, 3, 1000, 8192, 64];

fn parts() -> impl Iterator<Item = (u64, u64, u32)> {
    let begin = |id: usize| u64::from(PARTS[..id].iter().sum::<u32>());
    (0..PARTS.len()).map(move |id| (id as u64, begin(id), PARTS[id]))
}

/// One operation by the hosts of both processes at the same time, all posted before the first is waited for.
fn by_hosts(world: &World<'_>, format: Format, takes: bool, of: impl Fn(&RemoteRegion, u64) -> Operation) {
    let end = world.end(format, Placement::Host);
    for (id, at, len) in parts().filter(|_| takes) {
        let local = Sges::one(end.mr.address() + INTO + at, len, end.mr.lkey());
        end.qp.post_receive(&ReceiveWork { id, local }).unwrap();
    }
    let remote = world.pair(&end);
    let operation = of(&remote, 0);
    let what = format!("{format:?} {operation:?}");
    for (id, at, len) in parts() {
        let local = Sges::one(end.mr.address() + at, len, end.mr.lkey());
        end.qp.post_send(&SendWork::new(id, of(&remote, at), local)).unwrap();
    }
    for (id, ..) in parts() {
        let done = poll(&end.send);
        assert_eq!((done.id, done.status), (id, Status::Success), "{what}");
    }
    for (id, at, len) in parts().filter(|_| takes) {
        let done = poll(&end.receive);
        let immediate = match of(&remote, at) {
            Operation::Send { immediate } | Operation::Write { immediate, .. } => immediate,
            _ => None,
        };
        assert_eq!((done.id, done.len, done.immediate), (id, len, immediate), "{what}");
    }
    world.barrier();
    let total: usize = PARTS.iter().map(|len| *len as usize).sum();
    let there = pattern_of(1 - world.rank());
    let (at, came) = match operation {
        Operation::Read { .. } => (0, &there[INTO as usize..][..total]),
        _ => (INTO as usize, &there[..total]),
    };
    expect(&end, world.rank(), at, came, &what);
}

#[test]
fn hosts_of_two_processes_do_all_operations() {
    in_job("across::hosts_of_two_processes_do_all_operations", (2, 1), |job| {
        let world = World::join(job, Clock::real());
        let _running = world.run();
        for format in FORMATS {
            let write = |remote: &RemoteRegion, at, immediate| Operation::Write {
                address: remote.address + INTO + at,
                rkey: remote.rkey,
                immediate,
            };
            by_hosts(&world, format, false, |remote, at| write(remote, at, None));
            by_hosts(&world, format, true, |remote, at| write(remote, at, Some(7 + at as u32)));
            by_hosts(&world, format, true, |_, _| Operation::Send { immediate: None });
            by_hosts(&world, format, true, |_, at| Operation::Send { immediate: Some(at as u32) });
            by_hosts(&world, format, false, |remote, at| Operation::Read {
                address: remote.address + INTO + at,
                rkey: remote.rkey,
            });
            compare_and_swap(&world, format);
        }
    });
}

/// Each counts in the other's word, which nobody else changes.
fn compare_and_swap(world: &World<'_>, format: Format) {
    let end = world.end(format, Placement::Kernel);
    end.mr.buffer().store_u64(INTO as usize, 0).unwrap();
    let remote = world.pair(&end);
    // Each value but the last is asked for twice: the second time the word has moved on.
    for id in 0..40 {
        let (address, rkey) = (remote.address + INTO, remote.rkey);
        let swap = Operation::CompareSwap { address, rkey, compare: id / 2, swap: id / 2 + 1 };
        let local = Sges::one(end.mr.address(), 8, end.mr.lkey());
        end.qp.post_send(&SendWork::new(id, swap, local)).unwrap();
        let done = poll(&end.send);
        assert_eq!((done.id, done.status), (id, Status::Success));
        assert_eq!(end.mr.buffer().load_u64(0).unwrap(), id.div_ceil(2), "{format:?}");
    }
    world.barrier();
    assert_eq!(end.mr.buffer().load_u64(INTO as usize).unwrap(), 20);
}

#[test]
fn three_processes_write_to_each_other_and_count_together() {
    in_job("across::three_processes_write_to_each_other_and_count_together", (3, 1), |job| {
        let world = World::join(job, Clock::real());
        let _running = world.run();
        FORMATS.into_iter().for_each(|format| among_three(&world, format));
    });
}

/// Each writes a part to each, and all count in a word of rank 0.
fn among_three(world: &World<'_>, format: Format) {
    const ADDS: u64 = 50;
    const PART: u64 = 5000;
    let rank = world.rank() as usize;
    let end = world.end(format, Placement::Host);
    let attributes = QpAttributes { placement: Placement::Host, ..QpAttributes::default() };
    let qps: Vec<Qp> = (0..3).map(|_| end.pd.qp(attributes, &end.send, &end.receive).unwrap()).collect();
    if rank == 0 {
        end.mr.buffer().store_u64(0, 0).unwrap();
    }
    let told = world.tell(&qps.iter().collect::<Vec<_>>(), &end.mr);
    let others = || (0..3).filter(|other| *other != rank);
    for other in others() {
        qps[other].connect(&told[other].0[rank], world.connect).unwrap();
    }
    world.barrier();
    for other in others() {
        let remote = &told[other].1;
        // The sender's place there.
        let address = remote.address + INTO + rank as u64 * PART;
        let local = Sges::one(end.mr.address() + 64, PART as u32, end.mr.lkey());
        let write = Operation::Write { address, rkey: remote.rkey, immediate: None };
        qps[other].post_send(&SendWork::new(other as u64, write, local)).unwrap();
    }
    others().for_each(|_| assert_eq!(poll(&end.send).status, Status::Success));
    for id in (0..ADDS).filter(|_| rank != 0) {
        let remote = &told[0].1;
        let add = Operation::FetchAdd { address: remote.address, rkey: remote.rkey, add: 1 };
        let local = Sges::one(end.mr.address() + 16, 8, end.mr.lkey());
        qps[0].post_send(&SendWork::new(id, add, local)).unwrap();
        assert_eq!(poll(&end.send).status, Status::Success);
        let before = end.mr.buffer().load_u64(16).unwrap();
        assert!((id..2 * ADDS).contains(&before), "each of mine came once before this one: {before}");
    }
    world.barrier();
    for other in others() {
        let came = bytes(end.mr.buffer(), INTO as usize + other * PART as usize, PART as usize);
        assert!(came == pattern_of(other as u32)[64..64 + PART as usize], "{format:?} {other} to {rank}");
    }
    if rank == 0 {
        assert_eq!(end.mr.buffer().load_u64(0).unwrap(), 2 * ADDS);
    }
    world.barrier();
}

//! Kernels, and the host, on two software adapters: each byte is looked at. On the CPU executor, or on the first GPU with
//! `GGAS_TEST_GPUS=1`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::*;
use extoll_abi::layout::{GGAS_ERR_ARGUMENT, GGAS_ERR_TIMEOUT};
use extoll_sim::memory::HostMemory;
use ggas_clock::Clock;
use ggas_kernels::{IdleGuard, Processor};
use ggas_selftest::args::*;
use ggas_verbs::layout::*;
use ggas_verbs::*;

struct Ends {
    processor: Processor,
    ends: [End; 2],
    _idle: Option<IdleGuard>,
    _driver: ggas_verbs::Driver,
}

fn ends(format: Format, placement: Placement, wire: Wire) -> Ends {
    ends_with(256, format, placement, wire)
}

/// Completion queues of `entries`.
fn ends_with(entries: u32, format: Format, placement: Placement, wire: Wire) -> Ends {
    let processor = ggas_selftest::processor(0);
    let memory = HostMemory::new();
    let network = Network::new(memory.clone(), Clock::real(), wire);
    let ends = [0u8, 1].map(|side| {
        let context = Context::open(&network, &memory, &processor, format).unwrap();
        End::open(&processor, context, entries, placement, &pattern(side * 0x80))
    });
    let told = [0, 1].map(|side: usize| Endpoint::from_bytes(&ends[side].qp.endpoint().to_bytes()).unwrap());
    let connect = Connect { mtu: Mtu::B256, ..Connect::default() };
    (0..2).for_each(|side| ends[side].qp.connect(&told[1 - side], connect).unwrap());
    let stepped = network.clone();
    let idle = processor.on_idle(Clock::REAL, move || stepped.step());
    Ends { processor, ends, _idle: idle, _driver: network.start().unwrap() }
}

/// Runs it while the host of side 1 does `meanwhile`; returns what ended.
fn run(ends: &Ends, kernel: &Kernel, meanwhile: impl FnOnce(&End)) -> Vec<ggas_ibv_wc> {
    let (status, ended) = ran(ends, kernel, meanwhile);
    assert_eq!(status, 0, "step {} scope {}", kernel.step, kernel.scope);
    ended
}

/// As `run`, with the kernel's status.
fn ran(ends: &Ends, kernel: &Kernel, meanwhile: impl FnOnce(&End)) -> (u64, Vec<ggas_ibv_wc>) {
    let [mine, peer] = &ends.ends;
    let remote = RemoteRegion::from_bytes(&peer.mr.remote().to_bytes()).unwrap();
    run_kernel(&ends.processor, mine, &remote, kernel, || meanwhile(peer))
}

/// All operations in one format, step and scope.
fn all(format: Format, step: u32, scope: u32, placement: Placement) {
    let len = 300;
    let total = COUNT as usize * len;
    for operation in [GGAS_IBV_WRITE, GGAS_IBV_WRITE_IMM, GGAS_IBV_SEND, GGAS_IBV_SEND_IMM, GGAS_IBV_READ] {
        let ends = ends(format, placement, Wire::Datagrams);
        let [mine, peer] = &ends.ends;
        let source = bytes(mine.mr.buffer(), 0, total);
        let there = bytes(peer.mr.buffer(), INTO as usize, total);
        let takes = [GGAS_IBV_WRITE_IMM, GGAS_IBV_SEND, GGAS_IBV_SEND_IMM].contains(&operation);
        for id in (0..COUNT as u64).filter(|_| takes) {
            let at = peer.mr.address() + INTO + id * len as u64;
            let work = ReceiveWork { id, local: Sges::one(at, len as u32, peer.mr.lkey()) };
            peer.qp.post_receive(&work).unwrap();
        }
        let ended = run(&ends, &Kernel::of(operation, len as u32, step, scope), |_| ());
        let what = format!("{format:?} step {step} scope {scope} operation {operation}");
        for (i, wc) in ended.iter().enumerate() {
            assert_eq!(wc.status, GGAS_IBV_WC_SUCCESS, "{what}");
            let ids = if step < 4 { (2000 + i as u64, mine.qp.number()) } else { (0, 0) };
            assert_eq!((wc.id, wc.qp), ids, "{what}");
        }
        if operation == GGAS_IBV_READ {
            assert!(bytes(mine.mr.buffer(), 0, total) == there, "{what}");
        } else {
            assert!(bytes(peer.mr.buffer(), INTO as usize, total) == source, "{what}");
        }
        for id in (0..COUNT).filter(|_| takes) {
            let done = poll(&peer.receive);
            let immediate = (operation != GGAS_IBV_SEND).then_some(0x0102_0304 + id);
            assert_eq!((done.id, done.len, done.immediate), (u64::from(id), len as u32, immediate), "{what}");
        }
    }
    for operation in [GGAS_IBV_CMP_SWAP, GGAS_IBV_FETCH_ADD] {
        let ends = ends(format, placement, Wire::Packets);
        let [mine, peer] = &ends.ends;
        peer.mr.buffer().store_u64(INTO as usize, 0).unwrap();
        run(&ends, &Kernel::of(operation, 8, step, scope), |_| ());
        let before = mine.mr.buffer().read_u64s(0, COUNT as usize).unwrap();
        assert_eq!(before, (0..u64::from(COUNT)).collect::<Vec<_>>());
        assert_eq!(peer.mr.buffer().load_u64(INTO as usize).unwrap(), u64::from(COUNT));
    }
}

const FORMATS: [Format; 2] = [Format::Mlx4, Format::Mlx5];

fn every_step_and_scope(format: Format) {
    for step in 0..6 {
        for scope in [SELFTEST_VERBS_THREAD, SELFTEST_VERBS_WARP, SELFTEST_VERBS_BLOCK] {
            all(
                format,
                step,
                scope,
                if step % 2 == 0 || step == 5 { Placement::Kernel } else { Placement::Host },
            );
        }
    }
}

#[test]
fn kernels_post_in_every_step_and_scope_by_mlx4() {
    every_step_and_scope(Format::Mlx4);
}

#[test]
fn kernels_post_in_every_step_and_scope_by_mlx5() {
    every_step_and_scope(Format::Mlx5);
}

#[test]
fn kernels_receive_what_the_host_sends() {
    let forms = [(0, SELFTEST_VERBS_THREAD), (2, SELFTEST_VERBS_BLOCK), (4, SELFTEST_VERBS_WARP)];
    for (format, (step, scope)) in FORMATS.into_iter().flat_map(|format| forms.map(|form| (format, form))) {
        let ends = ends(format, Placement::Kernel, Wire::Datagrams);
        let kernel = Kernel { receives: 1, ..Kernel::of(!0, 200, step, scope) };
        let ended = run(&ends, &kernel, |peer| {
            for id in 0..u64::from(COUNT) {
                let local = Sges::one(peer.mr.address() + id * 200, 200, peer.mr.lkey());
                let send = Operation::Send { immediate: Some(id as u32) };
                peer.qp.post_send(&SendWork::new(id, send, local)).unwrap();
                let done = poll(&peer.send);
                assert_eq!((done.id, done.status), (id, Status::Success));
            }
        });
        let [mine, peer] = &ends.ends;
        let len = COUNT as usize * 200;
        assert!(bytes(mine.mr.buffer(), INTO as usize, len) == bytes(peer.mr.buffer(), 0, len));
        for (i, wc) in ended.iter().enumerate().filter(|_| step < 4) {
            let found = (wc.id, wc.bytes, wc.has_immediate, wc.immediate, wc.operation);
            assert_eq!(found, (1000 + i as u64, 200, 1, i as u32, GGAS_IBV_WC_RECV));
        }
    }
}

#[test]
fn a_kernel_is_told_of_what_is_refused() {
    for (format, step) in FORMATS.into_iter().flat_map(|format| [(format, 0), (format, 4)]) {
        let ends = ends(format, Placement::Kernel, Wire::Packets);
        // The second lies beyond the region.
        let kernel = Kernel::of(GGAS_IBV_WRITE, (1 << 15) / 2 + 8, step, SELFTEST_VERBS_THREAD);
        let before = bytes(ends.ends[1].mr.buffer(), 0, INTO as usize);
        let ended = run(&ends, &kernel, |_| ());
        assert_eq!(ended[0].status, GGAS_IBV_WC_SUCCESS);
        assert_eq!(ended[1].status, GGAS_IBV_WC_REM_ACCESS_ERR);
        assert!(ended[2..].iter().all(|wc| wc.status == GGAS_IBV_WC_WR_FLUSH_ERR));
        assert!(bytes(ends.ends[1].mr.buffer(), 0, INTO as usize) == before);
    }
}

#[test]
fn kernels_find_their_queue_pair_among_those_that_are_gone() {
    let ends = ends(Format::Mlx4, Placement::Kernel, Wire::Packets);
    let mine = &ends.ends[0];
    let make = || mine.pd.qp(QpAttributes::default(), &mine.send, &mine.receive).unwrap();
    // As many as the table has places, and one more.
    let mut others: Vec<Qp> = (0..256).map(|_| make()).collect();
    others.iter().for_each(|qp| assert_ne!(qp.export().unwrap(), 0));
    assert!(matches!(mine.qp.export(), Err(VerbsError::Exports(256))));
    others.drain(10..);
    for _ in 0..300 {
        make().export().unwrap();
    }
    let ended = run(&ends, &Kernel::of(GGAS_IBV_WRITE, 300, 0, SELFTEST_VERBS_BLOCK), |_| ());
    assert!((2000..).zip(&ended).all(|(id, wc)| (wc.id, wc.status) == (id, GGAS_IBV_WC_SUCCESS)));
}

#[test]
fn a_kernel_of_the_other_format_is_refused() {
    for (format, other) in [(Format::Mlx4, GGAS_IBV_MLX5), (Format::Mlx5, GGAS_IBV_MLX4)] {
        let ends = ends(format, Placement::Host, Wire::Packets);
        let kernel = Kernel { format: Some(other), ..Kernel::of(GGAS_IBV_WRITE, 8, 2, SELFTEST_VERBS_BLOCK) };
        let argument = u64::from(GGAS_ERR_ARGUMENT) << 32;
        let posts = Kernel { calls: SELFTEST_VERBS_POSTS, ..kernel };
        let polls = Kernel { calls: SELFTEST_VERBS_POLLS, ..kernel };
        let receives = Kernel { receives: 1, ..kernel };
        for (kernel, step) in [(posts, 2), (polls, 3), (receives, 1)] {
            assert_eq!(ran(&ends, &kernel, |_| ()).0, argument | step, "{format:?}");
        }
    }
}

/// IBTA 11.6.3: the queue is broken, its queue pairs fail; what was in it stays.
#[test]
fn a_kernel_that_does_not_poll_in_time_finds_what_came_before_and_no_more() {
    for (format, placement) in FORMATS.into_iter().zip([Placement::Kernel, Placement::Host]) {
        let ends = ends_with(8, format, placement, Wire::Packets);
        let [mine, peer] = &ends.ends;
        mine.context.set_timeout(Duration::from_millis(200)).unwrap();
        let kernel = Kernel { count: 12, ..Kernel::of(GGAS_IBV_WRITE, 64, 2, SELFTEST_VERBS_BLOCK) };
        run(&ends, &Kernel { calls: SELFTEST_VERBS_POSTS, ..kernel }, |_| ());
        let end = Instant::now() + SOON;
        while mine.qp.state() != State::Error {
            assert!(Instant::now() < end, "{format:?}: no overrun");
            std::thread::yield_now();
        }
        let events: Vec<_> = std::iter::from_fn(|| mine.context.event()).collect();
        assert_eq!(events, [Event::Overrun(mine.send.id()), Event::QueuePairFailed(mine.qp.number())]);
        let (status, ended) = ran(&ends, &Kernel { calls: SELFTEST_VERBS_POLLS, ..kernel }, |_| ());
        assert_eq!(status, u64::from(GGAS_ERR_TIMEOUT) << 32 | 3, "{format:?}");
        for (i, wc) in ended[..8].iter().enumerate() {
            assert_eq!((wc.id, wc.status), (2000 + i as u64, GGAS_IBV_WC_SUCCESS), "{format:?}");
        }
        let there = bytes(peer.mr.buffer(), INTO as usize, 8 * 64);
        assert!(there == bytes(mine.mr.buffer(), 0, 8 * 64), "{format:?}: these were complete");
        assert_eq!(mine.context.event(), None);
    }
}

#[test]
fn kernels_go_on_where_the_host_has_ended() {
    for format in FORMATS {
        let ends = ends(format, Placement::Kernel, Wire::Packets);
        let [mine, peer] = &ends.ends;
        let none = |id| SendWork::new(id, Operation::Send { immediate: None }, Sges::default());
        for id in 0..5 {
            peer.qp.post_receive(&ReceiveWork { id, local: Sges::default() }).unwrap();
            mine.qp.post_receive(&ReceiveWork { id: 500 + id, local: Sges::default() }).unwrap();
            mine.qp.post_send(&none(id)).unwrap();
            assert_eq!(poll(&mine.send).id, id);
        }
        // The first five of the kernel's receives find what the host has posted.
        let kernel = Kernel { receives: 1, ..Kernel::of(!0, 8, 2, SELFTEST_VERBS_WARP) };
        let ended = run(&ends, &kernel, |peer| {
            for id in 0..u64::from(COUNT) {
                peer.qp.post_send(&none(id)).unwrap();
                poll(&peer.send);
            }
        });
        let ids = (0..5).map(|id| 500 + id).chain(1000..).take(COUNT as usize);
        assert!(ended.iter().map(|wc| wc.id).eq(ids), "{format:?}");
        let ended = run(&ends, &Kernel::of(GGAS_IBV_WRITE, 8, 2, SELFTEST_VERBS_WARP), |_| ());
        assert!(ended.iter().map(|wc| wc.id).eq((2000..).take(COUNT as usize)), "{format:?}");
    }
}

#[test]
fn the_host_posts_in_both_formats() {
    for format in FORMATS {
        let ends = ends(format, Placement::Host, Wire::Datagrams);
        let [mine, peer] = &ends.ends;
        let remote = peer.mr.remote();
        for id in 0..500u64 {
            let at = (id % 20) * 100;
            let local = Sges::one(mine.mr.address() + at, 100, mine.mr.lkey());
            let write =
                Operation::Write { address: remote.address + INTO + at, rkey: remote.rkey, immediate: None };
            let work = SendWork { signaled: id % 3 == 0, ..SendWork::new(id, write, local) };
            mine.qp.post_send(&work).unwrap();
            if id % 3 == 0 {
                let done = poll(&mine.send);
                assert_eq!((done.id, done.status, done.kind), (id, Status::Success, Kind::Write));
            }
        }
        assert!(bytes(peer.mr.buffer(), INTO as usize, 2000) == bytes(mine.mr.buffer(), 0, 2000));
        assert_eq!(mine.context.format(), format);
    }
}

/// A structure of the layout in host memory.
fn exported<T>(address: u64) -> T {
    // SAFETY: structures are numbers; this one was just written there by the host, on the executor.
    unsafe { (address as *const T).read() }
}

/// What the host posts is in the kernels' count, or refused: it is never overwritten.
#[test]
fn what_is_posted_or_polled_during_an_export_is_counted() {
    if matches!(ggas_selftest::processor(0), Processor::Gpu(_)) {
        return;
    }
    for _ in 0..50 {
        let ends = ends(Format::Mlx4, Placement::Host, Wire::Packets);
        let [mine, peer] = &ends.ends;
        let attributes = QpAttributes { sends: 1 << 14, ..QpAttributes::default() };
        let idle = peer.pd.qp(attributes, &peer.send, &peer.receive).unwrap();
        let none = SendWork::new(0, Operation::Send { immediate: None }, Sges::default());
        let (first, began) = std::sync::mpsc::channel();
        let counted = std::thread::scope(|scope| {
            let posts = || {
                let is_posted = |_: &u32| idle.post_send(&none).is_ok();
                let one = u32::from(is_posted(&0));
                first.send(()).unwrap();
                one + (1u32..).take_while(is_posted).count() as u32
            };
            let posted = scope.spawn(posts);
            began.recv().unwrap();
            let head = exported::<ggas_ibv_qp>(idle.export().unwrap()).send.head;
            (head, posted.join().unwrap())
        });
        assert_eq!(counted.0, counted.1, "posts");

        let write = Operation::Write { address: 0, rkey: 0, immediate: None };
        for id in 0..64 {
            mine.qp.post_send(&SendWork::new(id, write, Sges::default())).unwrap();
        }
        let room = ends.processor.alloc(64).unwrap();
        let (first, began) = std::sync::mpsc::channel();
        let counted = std::thread::scope(|scope| {
            let polls = || {
                let one = mine.send.poll().unwrap();
                first.send(()).unwrap();
                let all = std::iter::once(one).chain(std::iter::from_fn(|| mine.send.poll().ok()));
                all.flatten().count() as u32
            };
            let polled = scope.spawn(polls);
            began.recv().unwrap();
            let consumed = exported::<ggas_ibv_cq>(mine.send.export(&room, 0).unwrap()).consumed;
            (consumed, polled.join().unwrap())
        });
        assert_eq!(counted.0, counted.1, "polls");
    }
}

/// The adapter writes to it as long as queue pairs use it: its memory is nobody else's meanwhile.
#[test]
fn completion_queues_live_as_long_as_their_queue_pairs() {
    for format in FORMATS {
        let Ends { ends: [mine, peer], processor, _idle, _driver } =
            ends(format, Placement::Host, Wire::Packets);
        let End { context, send, qp, mr, pd, .. } = mine;
        drop(send);
        let others: Vec<Mr> = [8192 + 64, 16384 + 64, 8192, 16384]
            .map(|bytes| pd.register(Arc::new(processor.alloc_host(bytes).unwrap()), Access::ALL).unwrap())
            .into();
        let remote = peer.mr.remote();
        let write = Operation::Write { address: remote.address + INTO, rkey: remote.rkey, immediate: None };
        for at in 0..64 {
            let local = Sges::one(mr.address() + at, 1, mr.lkey());
            qp.post_send(&SendWork::new(at, write, local)).unwrap();
        }
        let end = Instant::now() + SOON;
        while bytes(peer.mr.buffer(), INTO as usize, 1) != pattern(0)[63..64] {
            assert!(Instant::now() < end, "{format:?}: state {:?}", qp.state());
            std::thread::yield_now();
        }
        assert_eq!((qp.state(), context.event()), (State::ReadyToSend, None), "{format:?}");
        for other in others {
            let bytes = bytes(other.buffer(), 0, other.buffer().len());
            assert!(bytes.iter().all(|byte| *byte == 0), "{format:?}: others' memory was written");
        }
    }
}

#[test]
fn completions_of_a_queue_pair_that_is_gone_hide_no_others() {
    let Ends { ends: [mine, _peer], _driver, .. } = ends(Format::Mlx4, Placement::Host, Wire::Packets);
    drop(_driver);
    let network = mine.context.network();
    let gone = mine.pd.qp(QpAttributes::default(), &mine.send, &mine.receive).unwrap();
    let none = SendWork::new(0, Operation::Send { immediate: None }, Sges::default());
    // It is not connected: its request is flushed.
    gone.post_send(&none).unwrap();
    while network.step() {}
    drop(gone);
    let write = Operation::Write { address: 0, rkey: 0, immediate: None };
    mine.qp.post_send(&SendWork::new(7, write, Sges::default())).unwrap();
    while network.step() {}
    assert_eq!(mine.send.poll().unwrap().map(|done| done.id), Some(7));
    assert_eq!(mine.send.poll().unwrap(), None);
}

#[test]
fn the_host_is_refused_what_makes_no_sense() {
    let ends = ends(Format::Mlx4, Placement::Kernel, Wire::Packets);
    let [mine, peer] = &ends.ends;
    let pd = mine.context.pd();
    assert!(matches!(pd.qp(QpAttributes::default(), &peer.send, &mine.receive), Err(VerbsError::Context(_))));
    let few = QpAttributes { sends: 0, ..QpAttributes::default() };
    assert!(matches!(pd.qp(few, &mine.send, &mine.receive), Err(VerbsError::Depth(0, _))));
    let local: Sges = (0..3).map(|at| Sge { address: at, len: 1, lkey: 0 }).collect();
    let work = SendWork::new(0, Operation::Send { immediate: None }, local);
    assert!(matches!(mine.qp.post_send(&work), Err(VerbsError::Pieces(3, 2))));
    let none = SendWork::new(0, Operation::Send { immediate: None }, Sges::default());
    let posted = (0..100).take_while(|_| mine.qp.post_send(&none).is_ok()).count();
    assert_eq!(posted, 64);
    assert!(matches!(mine.qp.post_send(&none), Err(VerbsError::Full)));
    mine.qp.export().unwrap();
    assert!(matches!(mine.qp.post_send(&none), Err(VerbsError::Exported(_))));
    let memory = ends.processor.alloc(64).unwrap();
    assert!(matches!(mine.send.export(&memory, 1), Err(VerbsError::Offset(1))));
}

/// In virtual time: nobody posts a receive, and two repetitions are two waits.
#[test]
fn a_sender_waits_for_a_receive_as_long_as_it_is_told() {
    // Code 20 is 10.24 ms.
    const WAIT: Duration = Duration::from_micros(10_240);
    let (clock, time) = ggas_clock::Manual::new();
    let (memory, processor) = (HostMemory::new(), Processor::cpu());
    let network = Network::new(memory.clone(), clock, Wire::Datagrams);
    let [mine, peer] = [0, 1].map(|side| {
        let context = Context::open(&network, &memory, &processor, Format::Mlx4).unwrap();
        End::open(&processor, context, 16, Placement::Host, &pattern(side))
    });
    let reliability = Reliability { timeout: 0, not_ready_retries: 2, ..Reliability::default() };
    let connect = Connect { reliability, not_ready: 20, ..Connect::default() };
    mine.qp.connect(&peer.qp.endpoint(), connect).unwrap();
    peer.qp.connect(&mine.qp.endpoint(), connect).unwrap();
    let local = Sges::one(mine.mr.address(), 8, mine.mr.lkey());
    mine.qp.post_send(&SendWork::new(7, Operation::Send { immediate: None }, local)).unwrap();
    for wait in 0..2 {
        while network.step() {}
        assert!(mine.send.poll().unwrap().is_none(), "wait {wait}");
        time.advance(WAIT - Duration::from_nanos(1));
        while network.step() {}
        assert!(mine.send.poll().unwrap().is_none(), "nearly behind wait {wait}");
        time.advance(Duration::from_nanos(1));
    }
    while network.step() {}
    let done = mine.send.poll().unwrap().unwrap();
    assert_eq!((done.id, done.status), (7, Status::NotReadyExceeded));
}

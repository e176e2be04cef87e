//! Several windows behind the unit of a node, whose processes share it.

use crate::job::{Job, PART, SOON, job};
use extoll_abi::{Atomic, regs};
use ggas_device::{DeviceError, HostBuffer, LostPeer, PeerEnd, SmfuMap, SmfuWindow, Span};

type Opened = Box<dyn SmfuWindow>;

/// What a window is, for all of its processes.
#[derive(Clone, Copy)]
struct Like<'a> {
    nodes: &'a [u16],
    stride: u64,
    number: Option<u64>,
}

/// Opens it for a process, with its part at the begin of `memory`.
fn open(job: &Job, rank: usize, like: Like<'_>, memory: &HostBuffer) -> Result<Opened, DeviceError> {
    let local = Span { len: PART as usize, ..Span::host(memory) };
    open_at(job, rank, like, local)
}

fn open_at(job: &Job, rank: usize, like: Like<'_>, local: Span) -> Result<Opened, DeviceError> {
    let map = SmfuMap {
        nodes: like.nodes.to_vec(),
        stride: like.stride,
        part_bytes: PART.min(like.stride),
        local: Some(local),
        uncached: false,
        window: like.number,
    };
    // SAFETY: the memory outlives the windows of these tests.
    unsafe { job.device(rank).map_smfu(&map) }
}

fn memory() -> HostBuffer {
    HostBuffer::zeroed(PART as usize).unwrap()
}

/// Intervals of a node that are in use.
fn intervals(job: &Job, rank: usize) -> Vec<u32> {
    let is_valid = |at: &u32| job.device(rank).read_register(regs::smfu_control(*at)).unwrap() & 1 == 1;
    (0..regs::EXTOLL_SMFU_INTERVALS as u32).filter(is_valid).collect()
}

/// The unit of a node is as after its start.
fn is_idle(job: &Job, rank: usize) -> bool {
    let read = |register| job.device(rank).read_register(register).unwrap();
    let idle = 1 << regs::EXTOLL_SMFU_IDLE_SHIFT;
    intervals(job, rank).is_empty()
        && (1..regs::EXTOLL_SMFU_INTERVALS as u32).all(|at| read(regs::smfu_target_base(at)) == 0)
        && [regs::EXTOLL_RF_SMFU_T_START_ADDR, regs::EXTOLL_RF_SMFU_ADDR_MASK].map(read) == [0, 0]
        && read(regs::EXTOLL_RF_SMFU_STATUS_CONTROL) & !idle == 0
}

/// Accesses to windows that a process does not have.
fn unknown(job: &Job, rank: usize) -> u64 {
    job.nodes[rank].sim_device(0).unwrap().nic().smfu_errors().unknown_window
}

/// Stores to a part, adds to it, and loads; what the memory there has then.
fn reach(window: &Opened, offset: u64, value: u64, there: &HostBuffer) {
    window.store(offset, &value.to_ne_bytes()).unwrap();
    window.reduce(offset, Atomic::add(1)).unwrap();
    assert_eq!(window.atomic(offset, Atomic::add(1), SOON).unwrap(), value + 1);
    let mut word = [0; 8];
    window.load(offset, &mut word, SOON).unwrap();
    let at = (offset % PART) as usize;
    assert_eq!((u64::from_ne_bytes(word), there.load_u64(at)), (value + 2, value + 2));
}

fn is_refused(outcome: Result<(), DeviceError>) {
    let error = outcome.unwrap_err().to_string();
    assert!(error.contains("the window is not open there"), "{error}");
}

const PAIR: Like<'static> = Like { nodes: &[0, 1], stride: PART, number: None };

#[test]
fn windows_of_a_node_are_stacked() {
    let job = job(2, 1);
    // Of each window, the memory of both processes.
    let all: Vec<[HostBuffer; 2]> = (0..3).map(|_| [memory(), memory()]).collect();
    let like = [PAIR, Like { stride: 2 * PART, ..PAIR }, PAIR];
    let opened =
        |window: usize| Some([0, 1].map(|rank| open(&job, rank, like[window], &all[window][rank]).unwrap()));
    let reach_all = |windows: &[Option<[Opened; 2]>], round: u64| {
        for (window, sides) in
            windows.iter().enumerate().filter_map(|(at, sides)| Some((at, sides.as_ref()?)))
        {
            for (from, to) in [(0, 1), (1, 0), (0, 0), (1, 1)] {
                let value = 1000 * round + 100 * window as u64 + 10 * from + to;
                let offset = to * like[window].stride + 8 * from;
                reach(&sides[from as usize], offset, value, &all[window][to as usize]);
            }
        }
    };
    let mut windows: Vec<_> = (0..3).map(opened).collect();
    assert_eq!([0, 1].map(|rank| intervals(&job, rank)), [[1, 2, 3, 4, 5, 6]; 2]);
    reach_all(&windows, 1);
    windows[1] = None;
    assert_eq!(intervals(&job, 0), [1, 2, 5, 6]);
    reach_all(&windows, 2);
    windows[0] = None;
    reach_all(&windows, 3);
    // They have what is free, wherever that is.
    windows[1] = opened(1);
    windows[0] = opened(0);
    assert_eq!(intervals(&job, 1), [1, 2, 3, 4, 5, 6]);
    reach_all(&windows, 4);
    assert_eq!([0, 1].map(|rank| unknown(&job, rank)), [0, 0]);
    drop(windows);
    assert!(is_idle(&job, 0) && is_idle(&job, 1));
}

#[test]
fn units_may_have_windows_at_different_intervals() {
    let job = job(2, 1);
    let all: Vec<[HostBuffer; 2]> = (0..2).map(|_| [memory(), memory()]).collect();
    let likes = [PAIR, Like { nodes: &[1, 0], ..PAIR }].map(|like| [like, Like { number: Some(7), ..like }]);
    for likes in [[likes[0][0], likes[1][0]], [likes[0][0], likes[0][1]]] {
        let of = |window: usize, rank: usize| open(&job, rank, likes[window], &all[window][rank]).unwrap();
        let (a0, b0) = (of(0, 0), of(1, 0));
        let b1 = of(1, 1);
        // What the other node does not have yet it refuses, whatever is at the same interval there.
        let before = unknown(&job, 1);
        a0.store(PART, &[9; 8]).unwrap();
        is_refused(a0.load(PART, &mut [0; 8], SOON));
        is_refused(a0.atomic(PART, Atomic::add(1), SOON).map(drop));
        a0.reduce(PART, Atomic::add(1)).unwrap();
        is_refused(a0.load(PART, &mut [0; 8], SOON));
        assert_eq!(unknown(&job, 1), before + 5);
        assert_eq!(all[1][1].load_u64(0), 0);
        let a1 = of(0, 1);
        let other =
            |window: usize, rank: u64| likes[window].nodes.iter().position(|id| u64::from(*id) == rank);
        for (window, from, side) in [(0, 0, &a0), (1, 0, &b0), (0, 1, &a1), (1, 1, &b1)] {
            let to = 1 - from;
            let part = other(window, to).unwrap() as u64;
            reach(side, part * PART + 8, 10 * window as u64 + from, &all[window][to as usize]);
        }
        drop((a0, a1, b0, b1));
        all.iter().flatten().for_each(|memory| memory.write(0, &[0; 16]));
    }
}

#[test]
fn what_comes_late_does_not_reach_the_next_window() {
    let job = job(2, 1);
    let [here, old, new] = [(); 3].map(|()| memory());
    let (first, _kept) = (open(&job, 0, PAIR, &here).unwrap(), open(&job, 0, PAIR, &here).unwrap());
    let (there, _also) = (open(&job, 1, PAIR, &old).unwrap(), open(&job, 1, PAIR, &old).unwrap());
    reach(&first, PART, 5, &old);
    drop(there);
    // Of the same shape, and in the same place.
    let next = open(&job, 1, PAIR, &new).unwrap();
    assert_eq!(intervals(&job, 1), [1, 2, 3, 4]);
    first.store(PART + 8, &[1; 8]).unwrap();
    is_refused(first.load(PART + 8, &mut [0; 8], SOON));
    is_refused(next.load(8, &mut [0; 8], SOON));
    assert_eq!((old.load_u64(8), new.load_u64(8), unknown(&job, 1), unknown(&job, 0)), (0, 0, 2, 1));
    // Both have the third window of this shape now.
    let third = open(&job, 0, PAIR, &here).unwrap();
    reach(&third, PART + 16, 6, &new);
}

#[test]
fn ranks_of_a_node_have_several_windows_in_any_order() {
    const NODES: [u16; 4] = [0, 0, 1, 1];
    let job = job(4, 2);
    let all: Vec<Vec<HostBuffer>> = (0..3).map(|_| (0..4).map(|_| memory()).collect()).collect();
    let like = |window: usize| Like { nodes: &NODES, stride: PART, number: Some(window as u64) };
    let of = |window: usize, rank: usize| open(&job, rank, like(window), &all[window][rank]).unwrap();
    // Of each rank, its windows, which it makes in an order of its own.
    let mut windows: Vec<Vec<Option<Opened>>> = Vec::new();
    for (rank, order) in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [0, 2, 1]].into_iter().enumerate() {
        let mut own: Vec<Option<Opened>> = (0..3).map(|_| None).collect();
        order.into_iter().for_each(|window| own[window] = Some(of(window, rank)));
        windows.push(own);
    }
    let reach_all = |windows: &[Vec<Option<Opened>>], round: u64| {
        for (window, from, to) in (0..48).map(|at| (at / 16, at / 4 % 4, at % 4)) {
            let (Some(own), Some(_)) = (&windows[from][window], &windows[to][window]) else { continue };
            let value = 1000 * round + (100 * window + 10 * from + to) as u64;
            reach(own, to as u64 * PART + 8 * from as u64, value, &all[window][to]);
        }
    };
    reach_all(&windows, 1);
    assert_eq!([0, 3].map(|rank| intervals(&job, rank).len()), [12, 12]);
    // Each drops another one first; the node has them while one of its ranks has.
    for (rank, window) in [(0, 0), (1, 1), (2, 2), (3, 0)] {
        windows[rank][window] = None;
    }
    reach_all(&windows, 2);
    is_refused(windows[2][0].as_ref().unwrap().load(0, &mut [0; 8], SOON));
    assert_eq!(intervals(&job, 1).len(), 12);
    windows[0][1] = None;
    assert_eq!((intervals(&job, 0).len(), intervals(&job, 2).len()), (8, 12));
    windows[0][0] = Some(of(0, 0));
    reach_all(&windows, 3);
    // One dies with two windows: those who are left go on, and its last part frees them.
    job.fabrics[0].lose(1);
    job.fabrics[2].lose(1);
    let lost = LostPeer { rank: 1, node: 0, vpid: None, end: PeerEnd::Lost };
    let error = windows[2][0].as_ref().unwrap().store(PART, &[1; 8]).unwrap_err();
    assert!(matches!(&error, DeviceError::PeerLost(peer) if *peer == lost), "{error}");
    std::mem::forget(std::mem::take(&mut windows[1]));
    windows[1] = vec![None, None, None];
    reach_all(&windows, 4);
    windows[0][0] = None;
    assert_eq!(intervals(&job, 0).len(), 4, "of the window that rank 0 has still");
    windows[0][1] = Some(of(1, 0));
    reach_all(&windows, 5);
    drop(windows);
    assert!(is_idle(&job, 0) && is_idle(&job, 2));
}

#[test]
fn what_is_used_up_is_said() {
    let job = job(2, 1);
    let (own, number) = (memory(), |number| Some(number));
    let refused = |like: Like<'_>| open(&job, 0, like, &own).unwrap_err().to_string();
    let many: Vec<u16> = (0..64).collect();
    let masked = Like { nodes: &many, stride: 4096, number: None };
    let mut windows: Vec<_> = (0..31)
        .map(|at| open(&job, 0, Like { stride: 4096, number: number(at), ..PAIR }, &own).unwrap())
        .collect();
    let error = refused(PAIR);
    assert!(error.contains("2 parts; it has intervals for 63, and 62 parts of 31 other windows"), "{error}");
    assert!(error.contains("at most 1 parts"), "{error}");
    let error = refused(masked);
    assert!(error.contains("64 parts") && error.contains("62 parts of 31 other windows"), "{error}");
    // The last interval.
    windows.push(open(&job, 0, Like { nodes: &[0], stride: 4096, number: None }, &own).unwrap());
    assert!(refused(Like { nodes: &[0], ..PAIR }).contains("63 parts of 32 other windows"));
    drop(windows.remove(7));
    windows.push(open(&job, 0, PAIR, &own).unwrap());
    drop(windows);
    assert!(is_idle(&job, 0));

    // Addresses: 224 MiB.
    let large = |number| Like { stride: 50 << 20, number: Some(number), ..PAIR };
    let both = [1, 2].map(|at| open(&job, 0, large(at), &own).unwrap());
    let error = refused(large(3));
    assert!(error.contains("209715200 of its 234881024") && error.contains("4 parts of 2 other"), "{error}");
    let small = open(&job, 0, PAIR, &own).unwrap();
    let [first, _second] = both;
    drop(first);
    let again = open(&job, 0, large(3), &own).unwrap();
    drop((again, small, _second));

    let all = open(&job, 0, masked, &own).unwrap();
    let error = refused(PAIR);
    assert!(error.contains("a window of 64 parts") && error.contains("drop that one first"), "{error}");
    drop(all);
    assert!(is_idle(&job, 0));
    let again = open(&job, 0, Like { number: Some(1), ..PAIR }, &own).unwrap();
    assert!(refused(Like { number: Some(1), ..PAIR }).contains("has its part of this window already"));
    drop(again);
}

#[test]
fn one_window_may_have_a_part_that_begins_within_a_page() {
    let job = job(4, 2);
    let all: Vec<HostBuffer> = (0..4).map(|_| HostBuffer::zeroed(2 * PART as usize).unwrap()).collect();
    let within = |rank: usize| Span {
        address: all[rank].address() + 64,
        len: PART as usize,
        ..Span::host(&all[rank])
    };
    let first = [0, 2].map(|rank| open_at(&job, rank, PAIR, within(rank)).unwrap());
    let other = Like { number: Some(1), ..PAIR };
    let error = open_at(&job, 0, other, within(0)).unwrap_err().to_string();
    assert!(error.contains("does not begin with a page") && error.contains("another has it"), "{error}");
    let second = [0, 2].map(|rank| open(&job, rank, other, &all[rank]).unwrap());
    first[0].store(PART, &[1; 8]).unwrap();
    reach(&second[0], PART + 16, 7, &all[2]);
    first[0].load(PART, &mut [0; 8], SOON).unwrap();
    assert_eq!((all[2].load_u64(64), all[2].load_u64(0)), (u64::from_ne_bytes([1; 8]), 0));
    // Who closes one leaves the other alone, and who dies with both leaves nothing.
    let [_, there] = second;
    drop(there);
    first[0].store(PART + 8, &[2; 8]).unwrap();
    first[0].load(PART + 8, &mut [0; 8], SOON).unwrap();
    assert_eq!(all[2].load_u64(72), u64::from_ne_bytes([2; 8]));
    job.fabrics[1].lose(0);
    let next = open_at(&job, 1, PAIR, within(1)).unwrap();
    next.store(0, &[3; 8]).unwrap();
    next.load(0, &mut [0; 8], SOON).unwrap();
    assert_eq!(all[1].load_u64(64), u64::from_ne_bytes([3; 8]));
    assert_eq!(intervals(&job, 1), [1, 2]);
}

#[test]
fn a_process_has_one_seat_in_all_of_its_windows() {
    let job = job(4, 2);
    let all: Vec<HostBuffer> = (0..4).map(|_| memory()).collect();
    let shared = Like { nodes: &[0, 0, 1, 1], stride: PART, number: None };
    let own = open(&job, 1, shared, &all[1]).unwrap();
    let error = open(&job, 1, PAIR, &all[1]).unwrap_err().to_string();
    assert!(error.contains("number 1 of its node in 1 windows, and would be number 0"), "{error}");
    drop(own);
    let alone = open(&job, 1, PAIR, &all[1]).unwrap();
    assert!(open(&job, 0, shared, &all[0]).unwrap_err().to_string().contains("another process of this node"));
    drop(alone);
    assert!(is_idle(&job, 0));
}

/// Stores of a window that is dropped are under way, and others come and go meanwhile.
#[test]
fn windows_come_and_go_beside_one_in_use() {
    const ROUNDS: u64 = 200;
    let job = job(4, 2);
    let nodes = [0, 0, 1, 1];
    let like = |number| Like { nodes: &nodes, stride: PART, number: Some(number) };
    let kept: Vec<HostBuffer> = (0..4).map(|_| memory()).collect();
    let windows: Vec<Opened> = (0..4).map(|rank| open(&job, rank, like(0), &kept[rank]).unwrap()).collect();
    std::thread::scope(|scope| {
        for rank in [1, 2] {
            let (job, like) = (&job, &like);
            scope.spawn(move || {
                let other = memory();
                for round in 1..=ROUNDS {
                    let window = open(job, rank, like(round), &other).unwrap();
                    // The other's part may be there or not.
                    let part = PART * (3 - rank as u64);
                    window.store(part + 64, &[7; 64]).unwrap();
                    window.store(PART * rank as u64 + 8, &round.to_ne_bytes()).unwrap();
                    assert_eq!(other.load_u64(8), round);
                }
            });
        }
        for (from, to) in [(0, 3), (3, 0)] {
            let (windows, kept) = (&windows, &kept);
            scope.spawn(move || {
                (0..ROUNDS).for_each(|round| reach(&windows[from], PART * to as u64 + 8, round, &kept[to]));
            });
        }
    });
    for rank in [1, 2] {
        let mut all = [1; PART as usize];
        kept[rank].read(0, &mut all);
        assert!(all.iter().all(|byte| *byte == 0), "nothing was meant for this part of rank {rank}'s");
    }
    assert_eq!(intervals(&job, 0), [1, 2, 3, 4]);
}

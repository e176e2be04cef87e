//! Nodes that several processes serve.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::job::{Job, PART, SOON, job};
use extoll_abi::regs;
use extoll_sim::shared::ProcessFabric;
use ggas_device::sim::{BuildError, FabricKind, Faults, SimNetwork};
use ggas_device::{Device, DeviceError, HostBuffer, LostPeer, PeerEnd, PortSetup, SmfuMap, SmfuWindow, Span};
use ggas_members::{Member, Shape};

#[test]
fn processes_of_a_node_share_its_vpids() {
    let job = job(3, 2);
    let ports: Vec<_> = [0, 1, 0, 2, 1].map(|rank| job.open(rank)).into();
    let addresses: Vec<_> = ports.iter().map(|port| (port.address().node, port.address().vpid)).collect();
    assert_eq!(addresses, [(0, 0), (0, 1), (0, 2), (1, 0), (0, 3)]);
    ports[1].close().unwrap();
    let deadline = Instant::now() + SOON;
    // It rests at first: packets for the port that was closed may be on the way.
    while job.open(0).address().vpid != 1 {
        assert!(Instant::now() < deadline, "the lowest that is free, whoever had it");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn who_joins_later_keeps_the_nodes_registers() {
    let members = Member::all_of_job(Shape::new(2, 2).unwrap()).unwrap();
    let fabrics: Vec<_> = members.into_iter().map(|member| ProcessFabric::join(member).unwrap()).collect();
    let join = |rank: usize| SimNetwork::join(fabrics[rank].clone()).unwrap();
    let first = join(0);
    let register = regs::EXTOLL_RF_RMA_BQ_TIMEOUT;
    let device = first.device(0).unwrap();
    assert_ne!(device.read_register(register).unwrap(), 0, "set at the start");
    device.write_register(register, 0x1_0000_0007).unwrap();
    let second = join(1);
    for network in [&first, &second] {
        assert_eq!(network.device(0).unwrap().read_register(register).unwrap(), 0x1_0000_0007);
    }
    // What one process has for itself goes with it, and nothing else.
    drop(first);
    let port = second.device(0).unwrap().open_port(&PortSetup::default()).unwrap();
    let buffer = HostBuffer::zeroed(4096).unwrap();
    // SAFETY: the buffer outlives its registration.
    let nla = unsafe { port.register(Span::host(&buffer), ggas_device::Access::ALL) }.unwrap();
    port.unregister(nla).unwrap();
}

/// A process has one card of a job.
#[test]
fn a_process_joins_once() {
    let job = job(1, 1);
    let again = SimNetwork::join(job.fabrics[0].clone());
    assert!(matches!(again, Err(BuildError::Nic(_))));
}

fn map(device: &dyn Device, memory: &HostBuffer) -> Result<Box<dyn SmfuWindow>, DeviceError> {
    let map = SmfuMap {
        nodes: vec![0, 1],
        stride: PART,
        part_bytes: PART,
        local: Some(Span::host(memory)),
        uncached: false,
        window: None,
    };
    // SAFETY: the memory outlives the windows of these tests.
    unsafe { device.map_smfu(&map) }
}

/// The engine, or the thread of a peer, holds a card while it runs it: who has left may join again nevertheless, and
/// what comes is the new card's.
#[test]
fn a_process_that_left_joins_again_while_its_card_still_runs() {
    let Job { fabrics, mut nodes } = job(2, 1);
    let old = nodes[0].sim_device(0).unwrap().nic().clone();
    drop(nodes.remove(0));
    let again = SimNetwork::join(fabrics[0].clone()).expect("left before");
    let memory = [(); 2].map(|()| HostBuffer::zeroed(PART as usize).unwrap());
    let [here, _there] = [(&again, 0), (&nodes[0], 1)]
        .map(|(network, rank)| map(&*network.device(0).unwrap(), &memory[rank]).unwrap());
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                old.progress();
                std::thread::yield_now();
            }
        });
        let outcome = (0..500u64).try_for_each(|round| {
            memory[1].store_u64(8, round);
            let mut word = [0; 8];
            here.load(PART + 8, &mut word, SOON)?;
            assert_eq!(u64::from_ne_bytes(word), round);
            Ok::<_, DeviceError>(())
        });
        over.store(true, Ordering::Relaxed);
        outcome.unwrap();
    });
}

#[test]
fn one_process_of_a_node_has_its_smfu() {
    let job = job(4, 2);
    let memory: Vec<_> = (0..4).map(|_| HostBuffer::zeroed(PART as usize).unwrap()).collect();
    let [here, there] = [0, 2].map(|rank| map(&*job.device(rank), &memory[rank]).unwrap());
    let error = map(&*job.device(1), &memory[1]).unwrap_err();
    assert!(error.to_string().contains("another process of this node has it"), "{error}");

    here.store(PART + 8, &7u64.to_ne_bytes()).unwrap();
    let mut word = [0; 8];
    here.load(PART + 8, &mut word, SOON).unwrap();
    assert_eq!((u64::from_ne_bytes(word), memory[2].load_u64(8)), (7, 7));

    drop(here);
    let next = map(&*job.device(1), &memory[1]).unwrap();
    next.store(PART + 16, &[1; 8]).unwrap();
    next.load(PART + 16, &mut word, SOON).unwrap();
    assert_eq!(word, [1; 8]);

    // The process that served the other part dies: the one beside it does not serve it.
    job.fabrics[1].lose(2);
    let started = Instant::now();
    let error = next.load(PART, &mut word, SOON).unwrap_err();
    assert!(matches!(error, DeviceError::PeerLost(LostPeer { rank: 2, node: 1, .. })), "{error}");
    assert!(started.elapsed() < SOON / 2);
    drop(there);
}

/// A window with these parts, of which this process's is `memory`.
fn map_of(
    device: &dyn Device,
    nodes: &[u16],
    part: u64,
    local: Span,
) -> Result<Box<dyn SmfuWindow>, DeviceError> {
    let map = SmfuMap {
        nodes: nodes.to_vec(),
        stride: part,
        part_bytes: part,
        local: Some(local),
        uncached: false,
        window: None,
    };
    // SAFETY: as in `map`.
    unsafe { device.map_smfu(&map) }
}

#[test]
fn ranks_of_a_node_have_parts_of_their_own() {
    const NODES: [u16; 5] = [0, 0, 0, 1, 1];
    let job = job(5, 3);
    let memory: Vec<_> = (0..5).map(|_| HostBuffer::zeroed(PART as usize).unwrap()).collect();
    let open = |rank: usize| map_of(&*job.device(rank), &NODES, PART, Span::host(&memory[rank])).unwrap();
    let mut windows: Vec<Option<_>> = (0..5).map(|rank| Some(open(rank))).collect();
    let all_reach_each_other = |windows: &[Option<Box<dyn SmfuWindow>>], round: u64| {
        for (from, to) in (0..5).flat_map(|from| (0..5).map(move |to| (from, to))) {
            let Some(window) = &windows[from as usize] else { continue };
            if windows[to as usize].is_none() {
                continue;
            }
            let value = 100 * round + 10 * from + to;
            window.store(to * PART + 8 * from, &value.to_ne_bytes()).unwrap();
            let mut word = [0; 8];
            window.load(to * PART + 8 * from, &mut word, SOON).unwrap();
            let there = memory[to as usize].load_u64(8 * from as usize);
            assert_eq!((u64::from_ne_bytes(word), there), (value, value), "from {from} to {to}");
        }
    };
    all_reach_each_other(&windows, 1);
    // Who closes the window takes its own part out, and may come again.
    windows[0] = None;
    all_reach_each_other(&windows, 2);
    let refused = windows[4].as_ref().unwrap().load(8, &mut [0; 8], Duration::from_millis(50)).unwrap_err();
    assert!(matches!(refused, DeviceError::SmfuAccess { .. }), "{refused}");
    windows[0] = Some(open(0));
    all_reach_each_other(&windows, 3);
    // Who dies is named, from its own node and from another; the others of its node go on.
    job.fabrics[4].lose(1);
    job.fabrics[0].lose(1);
    for rank in [0, 4] {
        let window = windows[rank].as_ref().unwrap();
        let lost = LostPeer { rank: 1, node: 0, vpid: None, end: PeerEnd::Lost };
        for error in
            [window.load(PART, &mut [0; 8], SOON).unwrap_err(), window.store(PART, &[0; 8]).unwrap_err()]
        {
            assert!(matches!(&error, DeviceError::PeerLost(peer) if *peer == lost), "{error}");
        }
    }
    std::mem::forget(windows[1].take());
    all_reach_each_other(&windows, 4);
    // What it left does not keep the unit from the next window, once the others have closed this one.
    windows.clear();
    let next = |rank: usize| map_of(&*job.device(rank), &[0, 1], PART, Span::host(&memory[rank])).unwrap();
    let (here, _there) = (next(2), next(3));
    here.store(PART + 800, &[1; 8]).unwrap();
    here.load(PART + 800, &mut [0; 8], SOON).unwrap();
    assert_eq!(memory[3].load_u64(800), u64::from_ne_bytes([1; 8]));
}

#[test]
fn parts_that_a_node_cannot_have_are_refused() {
    let job = job(4, 2);
    let memory: Vec<_> = (0..4).map(|_| HostBuffer::zeroed(2 * PART as usize).unwrap()).collect();
    let local = |rank: usize| Span { len: PART as usize, ..Span::host(&memory[rank]) };
    let refused = |rank: usize, nodes: &[u16], part: u64, local: Span| {
        map_of(&*job.device(rank), nodes, part, local).unwrap_err().to_string()
    };
    for nodes in [&[0, 0, 0, 1][..], &[1, 0, 1, 1]] {
        let error = refused(0, nodes, PART, local(0));
        assert!(error.contains("has 3 parts or more, and room for 2"), "{error}");
    }
    let nodes = [0, 0, 1, 1];
    let unaligned = Span { address: local(0).address + 8, ..local(0) };
    let error = refused(0, &nodes, PART, unaligned);
    assert!(error.contains("must begin with a page"), "{error}");
    let many: Vec<u16> = (0..64).map(|part| part / 32).collect();
    let error = refused(0, &many, PART, local(0));
    assert!(error.contains("64 parts; it has intervals for 63"), "{error}");
    // None of that has taken anything; a window of other parts is another one, whoever of the node has it.
    let windows = [0, 1, 2, 3].map(|rank| map_of(&*job.device(rank), &nodes, PART, local(rank)).unwrap());
    for (nodes, part) in
        [(&nodes[..], PART / 2), (&[0, 0, 1], PART), (&[0, 0, 1, 1, 2], PART), (&[1, 0, 0], PART)]
    {
        let own = nodes.iter().rposition(|node| *node == 0).unwrap() as u64;
        let window = map_of(&*job.device(1), nodes, part, local(1)).unwrap();
        window.store(own * part + 8, &own.to_ne_bytes()).unwrap();
        assert_eq!(memory[1].load_u64(8), own);
    }
    drop(windows);
    map_of(&*job.device(1), &[0, 0, 1], PART, local(1)).unwrap();
}

#[test]
fn a_node_is_lost_with_the_last_of_its_processes() {
    let job = job(4, 2);
    let (port, peer) = (job.open(0), job.open(2));
    let vpid = Some(peer.address().vpid);
    assert_eq!((port.departures().count(), port.lost_peer(1, vpid)), (0, None));
    let me = &job.fabrics[0];
    me.lose(3);
    assert_eq!((port.departures().count(), port.lost_peer(1, None)), (1, None), "one of two lives");
    assert_eq!(port.lost_peer(1, vpid), None);
    me.lose(2);
    let lost = |rank, vpid| Some(LostPeer { rank, node: 1, vpid, end: PeerEnd::Lost });
    assert_eq!(port.lost_peer(1, None), lost(2, None));
    assert_eq!(port.lost_peer(1, vpid), lost(2, vpid));
    assert_eq!(port.lost_peer(1, Some(200)), lost(2, Some(200)), "nobody is left to open it");
    assert_eq!(port.lost_peer(0, None), None);
    assert_eq!(port.lost_peer(9, None), None, "no such node");
}

#[test]
fn what_only_a_torus_has_is_refused_between_processes() {
    let builder = || SimNetwork::builder().fabric(FabricKind::Process);
    for builder in
        [builder().torus(2, 1, 1), builder().faults(Faults::none().drop(0.5)), builder().nodes(5000)]
    {
        let error = builder.build().unwrap_err();
        assert!(matches!(error, BuildError::NotBetweenProcesses(_) | BuildError::Shape(_)), "{error}");
    }
    assert!(matches!(builder().nodes(0).build(), Err(BuildError::NoNodes)));
    let network = builder().nodes(3).build().unwrap();
    assert!(network.torus().is_none());
    assert_eq!((network.len(), network.process_fabrics().len()), (3, 3));
}

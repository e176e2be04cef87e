//! What members cost, as they come and go. Alone in its program: descriptors and mappings are those of the process.

mod common;

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use common::members::*;
use common::*;
use extoll_abi::*;
use extoll_sim::packet::{Class, Kind as PacketKind, Packet, Payload};
use extoll_sim::shared::ProcessFabric;
use extoll_sim::{Fabric, NicThreads};
use ggas_members::memory::ArenaBlock;
use ggas_members::{Member, Members, NetworkShape};

/// One test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn join(first: &Member, node: u16) -> Arc<ProcessFabric> {
    ProcessFabric::join(Member::join_network(first.network(), first.shape(), node).unwrap()).unwrap()
}

/// A network of four nodes that nobody else knows; its first member is on node 0.
fn network() -> Arc<ProcessFabric> {
    ProcessFabric::join(Member::join_private(&NetworkShape::torus(2, 2, 1).unwrap(), 0).unwrap()).unwrap()
}

fn until(what: &str, mut ready: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !ready() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::yield_now();
    }
}

/// Waits until the one at the first slot is gone: threads may have had it for a moment longer.
fn has_left(standing: &ProcessFabric) {
    until("it has left", || !standing.member().list().iter().any(|member| member.id.slot == 1));
}

/// Descriptors of this process, and mappings of memory that processes share.
fn held() -> (usize, usize) {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let shared = maps.lines().filter(|line| line.contains("memfd:") || line.contains("/ggas-")).count();
    (std::fs::read_dir("/proc/self/fd").unwrap().count(), shared)
}

/// Bytes of memory behind all inboxes of this process.
fn resident() -> u64 {
    let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let inboxes = links.filter(|link| {
        std::fs::read_link(link.path()).is_ok_and(|to| to.to_string_lossy().contains("memfd:extoll-inbox"))
    });
    let bytes = |link: std::fs::DirEntry| {
        let fd = link.file_name().to_str().unwrap().parse().unwrap();
        // SAFETY: open as long as the fabric that it belongs to, which the caller has.
        let stat = nix::sys::stat::fstat(unsafe { BorrowedFd::borrow_raw(fd) }).unwrap();
        stat.st_blocks as u64 * 512
    };
    inboxes.map(bytes).sum()
}

/// Whatever the network has room for, a member has memory for those that it talks to.
#[test]
fn a_member_that_talked_to_nobody_has_no_memory_for_others() {
    let _alone = alone();
    for room in [1, 256, 1024] {
        // Threads may have the members of the round before for a moment longer.
        until("those before have left", || resident() == 0);
        let shape = NetworkShape::torus(2, 1, 1).unwrap().with_members(room.max(2)).unwrap();
        let fabric = ProcessFabric::join(Member::join_private(&shape, 0).unwrap()).unwrap();
        let node = over(&fabric);
        let mut port = open(&node);
        port.post(
            port.address(),
            Spec::COMPLETER,
            Modifier::NONE,
            &Request::NotificationPut { class: 1, payload: 2 },
        );
        port.next();
        while node.nic.progress() {}
        assert!(fabric.drained() && fabric.holders().is_empty());
        assert_eq!(resident(), 4096, "room for {room}");
        // With one peer it has that one's lane, as far as it is used.
        let other = join(fabric.member(), 1);
        until("they meet", || fabric.has_met(other.rank()) && other.has_met(0));
        assert!(resident() <= 128 << 10, "{} bytes for two lanes", resident());
    }
}

/// Members with cards come, put and go, one after the other: each put arrives once, with its own bytes.
#[test]
fn members_with_cards_come_and_go() {
    const MEMBERS: u64 = 200;
    const SIZES: [u32; 4] = [8, 300, 9000, 200_000];
    let _alone = alone();
    let standing = network();
    let engine = NicThreads::new(1);
    let node = with_engine(&standing, &engine);
    let mut port = open(&node);
    let memory = Pages::new(&node.memory, 1 << 20, 4096);
    let there = node.register(port.vpid, &memory, Access::ALL);
    let mut before = None;
    for i in 0..MEMBERS {
        let fabric = join(standing.member(), (i % 4) as u16);
        assert_eq!(fabric.rank(), 1, "the slot of the one before");
        let member = with_engine(&fabric, &engine);
        let from = open(&member);
        let size = SIZES[i as usize / 4 % 4];
        // By reference, and staged.
        let private = i % 2 == 0;
        let source = match private {
            true => Pages::new(&member.memory, 1 << 18, 4096),
            false => Pages::in_arena(&member.memory, fabric.arena(), 1 << 18),
        };
        source.fill_pattern(i + 1);
        let nla = member.register(from.vpid, &source, Access::READ);
        from.put(port.address(), Spec::COMPLETER, nla, there, size);
        let told = port.next();
        assert_eq!((told.remote(), told.error()), (from.address(), ErrorUnits::NONE));
        assert_eq!(memory.bytes(0, size as usize), source.bytes(0, size as usize));
        until("it is sent", || member.nic.requester_idle(from.vpid));
        member.unregister(nla, &source);
        drop(from);
        drop((source, member, fabric));
        has_left(&standing);
        if i >= 20 {
            let before = *before.get_or_insert_with(held);
            until(&format!("{before:?} became {:?} after {i} members", held()), || held() <= before);
        }
    }
    assert_eq!(port.drain(), []);
    assert_eq!((node.all_errors(), standing.counters().malformed), (vec![], 0));
}

fn with_engine(fabric: &Arc<ProcessFabric>, engine: &Arc<NicThreads>) -> Node {
    let shared = Some(fabric.nodes().clone());
    let over = Setup::over(fabric.clone() as Arc<dyn Fabric>);
    Setup { shared, driver: Some(engine.clone()), ..over }.node(fabric.member().node())
}

/// A packet that says who sent it, and which of its packets it is.
fn of_owner(from: &ProcessFabric, to: Address, owner: u64, number: u64, payload: Payload) -> Packet {
    let node = from.member().node();
    Packet { address: owner, aux: number, ..packet(node, to, PacketKind::Put, number, payload) }
}

/// Bytes of the sender's arena, which say who it is.
fn lent(from: &Arc<ProcessFabric>, owner: u64) -> Payload {
    let mut lent = from.stage(4096).expect("a buffer");
    lent.bytes_mut().fill(owner as u8);
    Payload::Lent(lent)
}

/// What one that left had sent still lies in its lane when the next one with its slot comes, on another node: all of it
/// arrives once, the newcomer waits, and nothing is taken for the newcomer's.
#[test]
fn a_slot_passes_on_while_packets_wait_in_its_lane() {
    const MEMBERS: u64 = 200;
    let _alone = alone();
    let standing = network();
    let to = Address::new(0, standing.nodes().take_vpid(256).unwrap());
    let mut seen: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let mut sent: BTreeMap<u64, u64> = BTreeMap::new();
    let mut rng = fastrand::Rng::with_seed(11);
    let mut take = |most: usize| {
        for _ in 0..most {
            let Some(packet) = standing.poll(0, Class::Request) else { break };
            let owner = packet.address;
            assert_eq!(u64::from(packet.source.node), owner % 4, "not its sender's node");
            let bytes = match &packet.payload {
                Payload::Foreign(foreign) => {
                    let (memory, mut copy) = (extoll_sim::HostMemory::new(), vec![0u8; foreign.len()]);
                    let at = copy.as_mut_ptr() as u64;
                    // SAFETY: removed before the vector goes.
                    unsafe { memory.add_range(extoll_sim::RangeKind::Host, at, copy.len()).unwrap() };
                    extoll_sim::Memory::copy_foreign(&*memory, at, foreign, 0, copy.len()).unwrap();
                    memory.remove_range(at, copy.len()).unwrap();
                    copy
                }
                payload => payload.bytes().unwrap().to_vec(),
            };
            assert!(!bytes.is_empty() && bytes.iter().all(|byte| *byte == owner as u8), "bytes of another");
            seen.entry(owner).or_default().push(packet.aux);
        }
    };
    let mut before = None;
    for owner in 0..MEMBERS {
        let fabric = join(standing.member(), (owner % 4) as u16);
        assert_eq!(fabric.rank(), 1);
        // The one before may have left packets: until they are taken this one is not met.
        until("they meet", || {
            take(1);
            fabric.has_met(0)
        });
        let most = rng.u64(1..60);
        let number = (0..most).take_while(|number| {
            let payload = match number % 3 {
                0 => lent(&fabric, owner),
                1 => Payload::copy_of(&[owner as u8; 8]),
                _ => Payload::copy_of(&[owner as u8; 500]),
            };
            fabric.send(0, of_owner(&fabric, to, owner, *number, payload)).is_ok()
        });
        sent.insert(owner, number.count() as u64);
        take(rng.usize(0..40));
        drop(fabric);
        has_left(&standing);
        if owner == 20 || owner == MEMBERS - 1 {
            take(usize::MAX);
            let before = *before.get_or_insert_with(held);
            until(&format!("{before:?} became {:?}", held()), || {
                take(1);
                held() <= before
            });
        }
    }
    take(usize::MAX);
    let expected: BTreeMap<u64, Vec<u64>> =
        sent.iter().map(|(owner, most)| (*owner, (0..*most).collect())).collect();
    assert_eq!(seen, expected);
    assert_eq!((standing.counters().malformed, standing.counters().discarded), (0, 0));
}

/// The memory of one that is gone goes with it, even where nobody else comes: it is let go of once all that it sent was
/// taken.
#[test]
fn the_memory_of_one_that_is_gone_goes_with_it() {
    let _alone = alone();
    let standing = network();
    let to = Address::new(0, standing.nodes().take_vpid(256).unwrap());
    let arenas = || {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().filter(|line| line.contains("memfd:extoll-arena")).count()
    };
    let before = (held().0, arenas());
    let fabric = join(standing.member(), 1);
    until("they meet", || fabric.has_met(0));
    let _block: ArenaBlock = fabric.arena().alloc(4096, 4096).unwrap();
    for number in 0..2 {
        fabric.send(1, of_owner(&fabric, to, 1, number, lent(&fabric, 1))).unwrap();
    }
    drop((fabric, _block));
    let first = standing.poll(0, Class::Request).unwrap();
    assert!(matches!(first.payload, Payload::Foreign(_)) && arenas() > before.1);
    assert!(standing.poll(0, Class::Request).is_some(), "still read");
    drop(first);
    until("its memory goes", || {
        assert!(standing.poll(0, Class::Request).is_none());
        (held().0, arenas()) == before
    });
}

/// What links lose is repeated: packets of a sender arrive all, once, in their order, and the counter shows the losses.
#[test]
fn packets_that_links_lose_arrive_in_order() {
    const PACKETS: u64 = 300;
    let _alone = alone();
    let shape = NetworkShape::torus(2, 1, 1).unwrap().with_faults("drop=0.3,seed=5").unwrap();
    let receiver = ProcessFabric::join(Member::join_private(&shape, 0).unwrap()).unwrap();
    let sender = join(receiver.member(), 1);
    let to = Address::new(0, receiver.nodes().take_vpid(256).unwrap());
    until("they meet", || sender.has_met(0));
    let mut seen = Vec::new();
    for number in 0..PACKETS {
        until("a packet goes", || {
            seen.extend(receiver.poll(0, Class::Request).map(|packet| packet.aux));
            sender.send(1, of_owner(&sender, to, 1, number, Payload::copy_of(&[1; 8]))).is_ok()
        });
    }
    until("all have come", || {
        seen.extend(receiver.poll(0, Class::Request).map(|packet| packet.aux));
        seen.len() as u64 >= PACKETS
    });
    assert_eq!(seen, (0..PACKETS).collect::<Vec<_>>());
    assert!(sender.counters().repeated > 30, "{:?}", sender.counters());
    assert_eq!(receiver.counters().malformed, 0);
}

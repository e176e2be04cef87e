//! Networks of two processes, here two networks of one: what comes by the sockets between them, of friends and others.

use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::time::Duration;

use extoll_sim::memory::{HostMemory, Memory, RangeKind};
use ggas_clock::Manual;
use ggas_hca::formats::Format;
use ggas_hca::wire::{Flow, Opcode, Packet, Reth, encode};
use ggas_hca::*;

const PART: usize = 1 << 16;

/// An adapter in a network of its own, with one queue pair and one region.
struct Side {
    network: Arc<Network>,
    number: usize,
    qp: u32,
    cq: CqId,
    at: u64,
    key: u32,
}

struct World {
    memory: Arc<HostMemory>,
    sides: Vec<Side>,
    /// Ends by which side 0 and 1 are sent something.
    ways: Vec<UnixDatagram>,
    time: Arc<Manual>,
    _words: Box<[u64]>,
}

impl World {
    /// Two connected sides in processes 3 and 1.
    fn new() -> World {
        let memory = HostMemory::new();
        let (clock, time) = Manual::new();
        let mut words = vec![0u64; 2 * PART / 8].into_boxed_slice();
        let at = words.as_mut_ptr() as u64;
        // SAFETY: the buffer lives as long as the world.
        unsafe { memory.add_range(RangeKind::Host, at, 2 * PART).unwrap() };
        let (inboxes, ways): (Vec<_>, Vec<_>) = (0..2).map(|_| Links::sockets().unwrap()).unzip();
        let side = |(side, inbox): (usize, UnixDatagram)| {
            let mut peers: Vec<_> = (0..4).map(|_| None).collect();
            peers[PROCESSES[1 - side] as usize] = Some(ways[1 - side].try_clone().unwrap());
            let links = Links::new(PROCESSES[side], inbox, peers).unwrap();
            let network = Network::across(memory.clone(), clock.clone(), Wire::Packets, links);
            Side::new(network, at + (side * PART) as u64)
        };
        let sides: Vec<Side> = inboxes.into_iter().enumerate().map(side).collect();
        sides[0].connect(&sides[1]);
        sides[1].connect(&sides[0]);
        World { memory, sides, ways, time, _words: words }
    }

    fn fill(&self, side: usize, byte: impl Fn(usize) -> u8) {
        self.memory.write(self.sides[side].at, &(0..PART).map(byte).collect::<Vec<u8>>()).unwrap();
    }

    fn bytes(&self, side: usize) -> Vec<u8> {
        let mut bytes = vec![0; PART];
        self.memory.read(self.sides[side].at, &mut bytes).unwrap();
        bytes
    }

    /// Until nothing moves.
    fn settle(&self) {
        while self.sides[0].network.step() | self.sides[1].network.step() {}
    }

    /// A packet of side 0's queue pair to side 1's: it writes 64 bytes of 0xee.
    fn write(&self, psn: u32) -> (Flow, Packet) {
        let [from, to] = &self.sides[..] else { unreachable!() };
        let reth = Reth { address: to.at, rkey: to.key, len: 64 };
        let write = Packet::new(Opcode::WriteOnly, to.qp, psn);
        let packet = Packet { reth: Some(reth), payload: vec![0xee; 64], ..write };
        (from.flow(to), packet)
    }
}

const PROCESSES: [u32; 2] = [3, 1];

impl Side {
    fn new(network: Arc<Network>, at: u64) -> Side {
        let number = network.add(Format::Mlx5).unwrap();
        let make = |front: &mut Front| {
            let hca = &mut front.hca;
            let domain = hca.domain();
            let key = hca.register(domain, at, at, PART as u64, Access::ALL).unwrap();
            let cq = hca.create_cq(Box::new(Queue::new(64)));
            let depth = 32;
            let attributes = Attributes {
                domain,
                access: Access::ALL,
                send_depth: depth,
                receive_depth: depth,
                credits: true,
            };
            (hca.create_qp(attributes, cq, cq).unwrap(), cq, key)
        };
        let (qp, cq, key) = network.with(number, make).unwrap();
        Side { network, number, qp, cq, at, key }
    }

    fn flow(&self, peer: &Side) -> Flow {
        Flow::new(self.network.address(self.number), peer.network.address(peer.number), 0xc000)
    }

    fn connect(&self, peer: &Side) {
        let connection = Connection {
            flow: self.flow(peer),
            peer: peer.qp,
            mtu: Mtu::B4096,
            receive_psn: 0,
            responses: 16,
            not_ready: 1,
        };
        let connect = |front: &mut Front| {
            front.hca.init(self.qp)?;
            front.hca.ready_to_receive(self.qp, connection)?;
            front.hca.ready_to_send(self.qp, Reliability { window: 1000, ..Reliability::default() })
        };
        self.network.with(self.number, connect).unwrap().unwrap();
    }

    fn post(&self, peer: &Side, read: bool) {
        let (address, rkey) = (peer.at, peer.key);
        let operation = if read {
            Operation::Read { address, rkey }
        } else {
            Operation::Write { address, rkey, immediate: None }
        };
        let work = SendWork::new(0, operation, Sges::one(self.at, PART as u32, self.key));
        self.network.with(self.number, |front| front.hca.post_send(self.qp, work)).unwrap().unwrap();
    }

    fn poll(&self) -> Option<Status> {
        self.network.with(self.number, |front| front.hca.poll(self.cq)).unwrap().map(|done| done.status)
    }

    fn state(&self) -> State {
        self.network.with(self.number, |front| front.hca.qp(self.qp).unwrap().state()).unwrap()
    }
}

#[test]
fn what_sockets_lose_is_repeated() {
    let world = World::new();
    let [mine, peer] = &world.sides[..] else { unreachable!() };
    world.fill(0, |at| (at * 7 + at / 253) as u8);
    // More packets than a socket and what waits for it hold together.
    (0..32).for_each(|_| mine.post(peer, false));
    while mine.network.step() {}
    let mut ended = Vec::new();
    let mut repetitions = 0;
    while ended.len() < 32 {
        world.settle();
        let before = ended.len();
        ended.extend(std::iter::from_fn(|| mine.poll()));
        if ended.len() == before {
            repetitions += 1;
            assert!(repetitions < 100, "{ended:?}");
            world.time.advance(Duration::from_nanos(4096 << 14));
        }
    }
    assert!(repetitions > 0, "nothing was lost");
    assert!(ended.iter().all(|status| *status == Status::Success));
    assert!(world.bytes(0) == world.bytes(1));
}

#[test]
fn the_other_process_is_read() {
    let world = World::new();
    world.fill(1, |at| (at * 5 + at / 241) as u8);
    world.sides[0].post(&world.sides[1], true);
    world.settle();
    assert_eq!(world.sides[0].poll(), Some(Status::Success));
    assert!(world.bytes(0) == world.bytes(1));
}

/// The victim is side 1. Its peer's next packet has number 0.
#[test]
fn what_no_peer_sends_is_thrown_away() {
    let world = World::new();
    world.fill(0, |_| 0x11);
    world.fill(1, |_| 0x22);
    let mut random = fastrand::Rng::with_seed(5);
    let datagram = |(flow, packet): (Flow, Packet)| {
        let mut bytes = Vec::new();
        encode(&flow, &packet, &mut bytes).unwrap();
        bytes
    };
    let good = datagram(world.write(0));
    let from = |address: &str| {
        let (flow, packet) = world.write(0);
        datagram((Flow { source: address.parse().unwrap(), ..flow }, packet))
    };
    let to = |address: &str| {
        let (flow, packet) = world.write(0);
        datagram((Flow { destination: address.parse().unwrap(), ..flow }, packet))
    };
    let mut all = vec![Vec::new(), vec![0x45; 9000], good[..good.len() - 1].to_vec()];
    // An adapter of the victim's own process, of one that is not connected, of nobody; and for others.
    all.extend(["10.0.64.1", "10.0.64.2", "10.0.128.1", "10.0.192.2", "10.0.0.0", "192.168.0.1"].map(from));
    all.extend(["10.0.128.1", "10.0.192.1", "10.0.64.2", "10.0.127.255", "10.0.64.0", "11.0.64.1"].map(to));
    all.extend((0..300).map(|_| {
        let mut bytes = good.clone();
        let at = random.usize(28..bytes.len());
        bytes[at] ^= 1 << random.u8(0..8);
        // A byte that routers may change, which no ICRC covers.
        if at == 32 { Vec::new() } else { bytes }
    }));
    all.extend((0..300).map(|_| (0..random.usize(0..200)).map(|_| random.u8(..)).collect::<Vec<u8>>()));
    // A connection within the victim's process, whose packets come by no socket.
    let [one, two] = [0, 1].map(|_| Side::new(world.sides[1].network.clone(), world.sides[1].at));
    one.connect(&two);
    two.connect(&one);
    let reth = Reth { address: two.at, rkey: two.key, len: 64 };
    let packet =
        Packet { bth: Packet::new(Opcode::WriteOnly, two.qp, 0).bth, reth: Some(reth), ..world.write(0).1 };
    all.push(datagram((one.flow(&two), packet)));
    for bytes in &all {
        world.ways[1].send(bytes).unwrap();
        world.settle();
    }
    assert!(world.bytes(1).iter().all(|byte| *byte == 0x22), "nothing was believed");
    assert_eq!((world.sides[0].state(), world.sides[1].state()), (State::ReadyToSend, State::ReadyToSend));
    world.sides[0].post(&world.sides[1], false);
    world.settle();
    assert_eq!(world.sides[0].poll(), Some(Status::Success));
    assert!(world.bytes(1).iter().all(|byte| *byte == 0x11), "the peer's own packet comes through");
    // And a stranger's that knows all that the peer knows would be: who has a socket's end is believed.
    let next = PART as u32 / 4096;
    world.ways[1].send(&datagram(world.write(next))).unwrap();
    world.settle();
    assert_eq!(world.bytes(1)[..64], [0xee; 64]);
}

#[test]
fn a_flood_leaves_adapters_their_turns() {
    let world = World::new();
    let way = &world.ways[1];
    way.set_nonblocking(true).unwrap();
    let sent = (0..10_000).take_while(|_| way.send(b"garbage").is_ok()).count();
    let steps = std::iter::repeat_with(|| world.sides[1].network.step()).take_while(|moved| *moved).count();
    assert!(steps > 1 && steps == sent.div_ceil(64), "{steps} steps for {sent} datagrams");
}

#[test]
fn there_are_addresses_for_so_many() {
    let network = World::new().sides[0].network.clone();
    while network.add(Format::Mlx4).is_ok() {}
    assert_eq!(network.add(Format::Mlx4), Err(HcaError::Adapters(16383)));
    assert_eq!(network.address(16382).to_string(), "10.0.255.255");
    let [inbox, _] = <[UnixDatagram; 2]>::from(Links::sockets().unwrap());
    let error = Links::new(1024, inbox, Vec::new()).err().expect("no address");
    assert!(error.to_string().contains("start fewer"), "{error}");
}

#[test]
fn requests_to_a_process_that_is_gone_end_by_their_time_outs() {
    let mut world = World::new();
    let dead = world.sides.pop().unwrap();
    world.sides[0].post(&dead, false);
    // Its sockets close.
    drop(dead.network);
    while world.sides[0].network.step() {}
    for _ in 0..8 {
        assert_eq!(world.sides[0].poll(), None);
        world.time.advance(Duration::from_nanos(4096 << 14));
        while world.sides[0].network.step() {}
    }
    assert_eq!(world.sides[0].poll(), Some(Status::RetryExceeded));
}

//! Half round trips between two hosts: of a put with a notification, and of the wire alone, in the same run. What the wire does is a
//! message with what a packet has in front of its payload, or, where no message is so long, a write into the other's memory
//! with an immediate value. Then what many in flight reach.
//!
//! With the same file of hosts on both, on the second one first:
//!
//! ```text
//! hosts_latency hosts 1
//! hosts_latency hosts 0     # prints the table
//! ```

#[path = "../tests/common/mod.rs"]
mod common;

use std::net::{IpAddr, ToSocketAddrs};
use std::path::Path;
use std::time::Instant;

use common::{Pages, Port, Setup};
use extoll_abi::{Access, Address, Modifier, Request, Spec};
use extoll_sim::hosts::{HostsFabric, HostsFile};
use ggas_wire::{Endpoint, Event, Key, MESSAGE_MAX, Peer, Region, Remote, Taken, Transfer, choose};

/// Bytes, and round trips.
const SIZES: [(usize, usize); 9] = [
    (8, 10_000),
    (64, 10_000),
    (1024, 10_000),
    (4096, 10_000),
    (16 << 10, 3_000),
    (32 << 10, 3_000),
    (64 << 10, 2_000),
    (1 << 20, 300),
    (4 << 20, 100),
];
/// Bytes, and how many of them.
const STREAMS: [(usize, usize); 4] = [(64, 100_000), (64 << 10, 4_000), (1 << 20, 500), (4 << 20, 152)];
/// Of long ones, in flight; short ones are as many as there is room for.
const WINDOW: usize = 16;
/// What a message has in front of a packet's payload.
const HEAD: usize = 80;
const HALF: usize = 4 << 20;

struct Ends<'a> {
    first: bool,
    port: Port<'a>,
    other: Address,
    pages: &'a Pages,
    /// The lower half goes out, the upper half takes what comes; alike on both.
    nla: u64,
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let [_, file, node] = &args[..] else { panic!("hosts_latency FILE NODE") };
    let node: u16 = node.parse().expect("0 or 1");
    let file = HostsFile::read(Path::new(file)).expect("the file");
    let fabric = HostsFabric::join(&file, node).expect("the network");
    let card = Setup::over(fabric).node(node);
    let pages = Pages::new(&card.memory, 2 * HALF, 4096);
    let port = card.open(0, 1);
    let nla = card.register(0, &pages, Access::ALL);
    let mut ends = Ends { first: node == 0, port, other: Address::new(1 - node, 0), pages: &pages, nla };
    meet(&mut ends);
    let place = file.place(node).and_then(|place| place.to_socket_addrs().ok()?.next()).expect("a place");
    let mut wire = Wire::open(&mut ends, place.ip());
    if ends.first {
        println!(
            "{:>8}  {:>10}  {:>16}  {:>9}  {:>10}",
            "bytes", "wire, us", "put + notify, us", "more, us", "put, MB/s"
        );
    }
    for (size, rounds) in SIZES {
        let message = vec![7; size + HEAD];
        let alone = match size + HEAD <= MESSAGE_MAX {
            true => median(rounds, || wire.trip(ends.first, |wire| wire.send(&message))),
            false => median(rounds, || wire.trip(ends.first, |wire| wire.write(size))),
        };
        let put = median(rounds, || put_trip(&mut ends, size));
        if ends.first {
            let rate = size as f64 / put;
            println!("{size:>8}  {alone:>10.2}  {put:>16.2}  {:>9.2}  {rate:>10.0}", put - alone);
        }
    }
    if ends.first {
        println!("\n{:>8}  {:>10}  {:>10}", "bytes", "wire", "puts");
    }
    for (size, count) in STREAMS {
        stream(&mut wire, &mut ends, size, count);
    }
}

/// What one sends and the other takes, as fast as they can: of the wire alone, then of puts.
fn stream(wire: &mut Wire, ends: &mut Ends<'_>, size: usize, count: usize) {
    let began = Instant::now();
    if size + HEAD <= MESSAGE_MAX {
        wire.stream_messages(ends.first, size + HEAD, count)
    } else {
        wire.stream(ends.first, size, count)
    };
    let alone = began.elapsed().as_secs_f64();
    let began = Instant::now();
    stream_puts(ends, size, count);
    let puts = began.elapsed().as_secs_f64();
    if ends.first {
        let each = |took: f64| {
            if size > 64 { (size * count) as f64 / took / 1e6 } else { count as f64 / took / 1e6 }
        };
        let unit = if size > 64 { "MB/s" } else { "M/s" };
        let percent = 100.0 * alone / puts;
        println!("{size:>8}  {:>10.2}  {:>10.2}  {unit:<5} {percent:>5.0} %", each(alone), each(puts));
    }
}

/// The second one answers each sixteenth; of long ones, each fourth.
fn stream_puts(ends: &mut Ends<'_>, size: usize, count: usize) {
    let each = if size > 64 { 4 } else { 16 };
    let window = if size > 64 { WINDOW } else { 48 };
    let answer = Request::NotificationPut { class: 1, payload: 1 };
    let (mut posted, mut over) = (0, 0);
    while over < count {
        if ends.first && posted < count && posted < over + window {
            put(ends, size);
            posted += 1;
        } else {
            ends.port.node.nic.progress();
        }
        while ends.port.try_next().is_some() {
            over += if ends.first { each } else { 1 };
            if !ends.first && over.is_multiple_of(each) {
                ends.port.post(ends.other, Spec::COMPLETER, Modifier::NONE, &answer);
            }
        }
    }
}

/// The first one tells until it hears: what comes before the other is there goes nowhere.
fn meet(ends: &mut Ends<'_>) {
    let hello = Request::NotificationPut { class: 1, payload: 1 };
    while ends.first && ends.port.try_next().is_none() {
        if ends.port.node.nic.requester_idle(0) {
            ends.port.post(ends.other, Spec::COMPLETER, Modifier::NONE, &hello);
        }
        for _ in 0..10_000 {
            ends.port.node.nic.progress();
        }
    }
    if !ends.first {
        ends.port.next();
        ends.port.post(ends.other, Spec::COMPLETER, Modifier::NONE, &hello);
    }
    ends.port.drain();
}

/// An endpoint beside the card's, and the other's, whose address and key come by a put.
struct Wire {
    endpoint: Endpoint,
    peer: Peer,
    local: Region,
    remote: Remote,
}

impl Wire {
    fn open(ends: &mut Ends<'_>, host: IpAddr) -> Wire {
        let mut endpoint = Endpoint::open_at(&choose().expect("a wire"), Some(host)).expect("an endpoint");
        let memory = vec![0_u8; 2 * HALF].leak().as_mut_ptr();
        // SAFETY: it stays for ever, and nobody has a reference to it.
        let local = unsafe { endpoint.register(memory, 2 * HALF) }.expect("memory of the wire");
        let (address, key) =
            (endpoint.address().expect("its address"), endpoint.key(local).expect("its key"));
        let own = [&[address.len() as u8, key.bytes().len() as u8][..], &address, key.bytes()].concat();
        ends.pages.write(0, &own);
        put(ends, own.len());
        // Late hellos may come before.
        while ends.pages.bytes(HALF, 1) == [0] {
            ends.port.next();
        }
        ends.port.drain();
        let theirs = ends.pages.bytes(HALF, own.len());
        let (address, key) = theirs[2..].split_at(theirs[0].into());
        let peer = endpoint.insert(address).expect("the other's address");
        let remote = endpoint.import(peer, &Key::try_from(key).expect("a key")).expect("the other's memory");
        Wire { endpoint, peer, local, remote }
    }

    fn send(&mut self, message: &[u8]) {
        while self.endpoint.send(self.peer, message).expect("the wire") == Taken::Later {
            self.endpoint.poll(|_| {}).expect("the wire");
        }
    }

    fn write(&mut self, len: usize) {
        let (local, remote) = (self.local, self.remote);
        let len = len as u64;
        let transfer = Transfer { local, local_offset: 0, remote, remote_offset: HALF as u64, len };
        while self.endpoint.write(&transfer, Some(1), 0).expect("the wire") == Taken::Later {
            self.endpoint.poll(|_| {}).expect("the wire");
        }
    }

    fn stream_messages(&mut self, first: bool, len: usize, count: usize) {
        let message = vec![7; len];
        if first {
            (0..count).for_each(|_| self.send(&message));
            return self.hear(1);
        }
        self.hear(count);
        self.send(&message);
    }

    /// Writes that tell of themselves; the other answers when all are there.
    fn stream(&mut self, first: bool, len: usize, count: usize) {
        if !first {
            self.hear(count);
            return self.send(&[1; 8]);
        }
        let (local, remote) = (self.local, self.remote);
        let len = len as u64;
        let transfer = Transfer { local, local_offset: 0, remote, remote_offset: HALF as u64, len };
        let (mut begun, mut over, mut heard) = (0, 0, false);
        while !heard {
            if begun < count
                && begun < over + WINDOW
                && self.endpoint.write(&transfer, Some(1), 0).expect("the wire") == Taken::Yes
            {
                begun += 1;
                continue;
            }
            let event = |event: Event<'_>| match event {
                Event::Done { .. } => over += 1,
                Event::Message(_) => heard = true,
                other => panic!("{other:?}"),
            };
            self.endpoint.poll(event).expect("the wire");
        }
    }

    /// Waits for so many messages or writes.
    fn hear(&mut self, count: usize) {
        let mut came = 0;
        while came < count {
            let heard = |event: Event<'_>| {
                came += usize::from(matches!(event, Event::Message(_) | Event::Written(_)))
            };
            self.endpoint.poll(heard).expect("the wire");
        }
    }

    fn trip(&mut self, first: bool, go: impl Fn(&mut Wire)) {
        if first {
            go(self);
        }
        let mut came = false;
        while !came {
            let heard = |event: Event<'_>| came |= matches!(event, Event::Message(_) | Event::Written(_));
            self.endpoint.poll(heard).expect("the wire");
        }
        if !first {
            go(self);
        }
    }
}

fn put(ends: &Ends<'_>, len: usize) {
    ends.port.put(ends.other, Spec::COMPLETER, ends.nla, ends.nla + HALF as u64, len as u32);
}

fn put_trip(ends: &mut Ends<'_>, size: usize) {
    if ends.first {
        put(ends, size);
    }
    while ends.port.try_next().is_none() {
        ends.port.node.nic.progress();
    }
    if !ends.first {
        put(ends, size);
    }
}

/// Half a round trip, in microseconds.
fn median(rounds: usize, mut trip: impl FnMut()) -> f64 {
    (0..rounds / 10).for_each(|_| trip());
    let mut took: Vec<_> = (0..rounds)
        .map(|_| {
            let began = Instant::now();
            trip();
            began.elapsed()
        })
        .collect();
    took.sort_unstable();
    took[rounds / 2].as_secs_f64() * 1e6 / 2.0
}

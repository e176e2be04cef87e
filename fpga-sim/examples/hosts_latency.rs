//! Half round trips between two hosts: of a put with a notification, and of the wire alone, in the same run. What the wire does is a
//! message with what a packet has in front of its payload, or, where no message is so long, a write into the other's memory
//! with an immediate value; `read` is the other way for it, a message on which the receiver reads. Then what many in flight
//! reach, and what atomics and barriers of windows take. The wire and the puts take turns, and what is printed is the median over all turns, since other programs on the machine
//! slow down both alike; and what a tenth of all stayed below, in which they did so least.
//!
//! With the same file of hosts on both, on the second one first:
//!
//! ```text
//! hosts_latency hosts 1
//! hosts_latency hosts 0     # prints the table; a third argument on both: only of so many bytes, or ..BYTES: trips up to there
//! ```

#[path = "../tests/common/mod.rs"]
mod common;
#[path = "common/windows.rs"]
mod windows;

use std::net::{IpAddr, ToSocketAddrs};
use std::path::Path;
use std::time::{Duration, Instant};

use common::{Pages, Port, Setup};
use extoll_abi::{Access, Address, Modifier, Request, Spec};
use extoll_sim::hosts::{HostsFabric, HostsFile};
use ggas_wire::{Endpoint, Event, Key, Peer, Region, Remote, Taken, Transfer, choose};

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
const STREAMS: [(usize, usize); 4] = [(64, 40_000), (64 << 10, 1_600), (1 << 20, 160), (4 << 20, 40)];
/// The wire and the puts are measured by turns, so often.
const TURNS: usize = 10;
const STREAM_TURNS: usize = 5;
/// In flight, of long ones, each to a place of its own where there is room, and of short ones.
const WINDOW: usize = 16;
const SHORT_WINDOW: usize = 192;
/// What a message has in front of a packet's payload.
const HEAD: usize = 80;
const HALF: usize = 16 << 20;

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
    let [_, file, node, rest @ ..] = &args[..] else { panic!("hosts_latency FILE NODE [BYTES | ..BYTES]") };
    let rest = rest.first().map_or("", String::as_str);
    let number = |text: &str| text.parse::<usize>().expect("bytes");
    let most = rest.strip_prefix("..").map(number);
    let only = (!rest.is_empty() && most.is_none()).then(|| number(rest));
    let wanted =
        |bytes: usize| only.is_none_or(|only| only == bytes) && most.is_none_or(|most| bytes <= most);
    let node: u16 = node.parse().expect("0 or 1");
    let file = HostsFile::read(Path::new(file)).expect("the file");
    let fabric = HostsFabric::join(&file, node).expect("the network");
    let card = Setup::over(fabric).node(node);
    let pages = Pages::new(&card.memory, 2 * HALF, 4096);
    pages.write(0, &vec![7; HALF]);
    let mut parts = windows::Parts::new(&card);
    let port = card.open(0, 1);
    let nla = card.register(0, &pages, Access::ALL);
    let mut ends = Ends { first: node == 0, port, other: Address::new(1 - node, 0), pages: &pages, nla };
    meet(&mut ends);
    let place = file.place(node).and_then(|place| place.to_socket_addrs().ok()?.next()).expect("a place");
    let mut wire = Wire::open(&mut ends, place.ip());
    if ends.first {
        println!(
            "{:>8}  {:<6}  {:>10}  {:>10}  {:>16}  {:>9}  {:>10}",
            "bytes", "", "wire, us", "read, us", "put + notify, us", "more, us", "of wire"
        );
    }
    for (size, rounds) in SIZES.into_iter().filter(|(size, _)| wanted(*size)) {
        // Who wants no more than that compares it with others, by turns.
        trips(&mut wire, &mut ends, size, if most.is_some() { rounds / 5 } else { rounds });
    }
    if ends.first {
        println!("\n{:>8}  {:>10}  {:>10}", "bytes", "wire", "puts");
    }
    for (size, count) in STREAMS.into_iter().filter(|(size, _)| wanted(*size) && most.is_none()) {
        stream(&mut wire, &mut ends, size, count);
    }
    if rest.is_empty() {
        windows::trips(&mut wire, &mut ends, &mut parts);
    }
}

/// Half round trips of one size.
fn trips(wire: &mut Wire, ends: &mut Ends<'_>, size: usize, rounds: usize) {
    let (first, message) = (ends.first, vec![7; size + HEAD]);
    let mut took = [const { Vec::new() }; 3];
    for turn in 0..=TURNS {
        if turn == 1 {
            took.iter_mut().for_each(Vec::clear); // the first turn warms up
        }
        let rounds = rounds / TURNS;
        match size + HEAD <= wire.endpoint.message_max() {
            true => time(rounds, &mut took[0], || wire.trip(first, |wire| wire.send(&message))),
            false => {
                time(rounds, &mut took[0], || wire.trip(first, |wire| wire.write(size)));
                time(rounds, &mut took[1], || wire.read_trip(first, size));
                wire.end_reads(first);
            }
        }
        time(rounds, &mut took[2], || put_trip(ends, size));
    }
    for share in [2, 10] {
        let [alone, read, put] = took.each_mut().map(|took| below(took, share));
        if !first {
            continue;
        }
        let read = if read > 0.0 { format!("{read:.2}") } else { String::new() };
        let percent = 100.0 * alone / put;
        let what = if share == 2 { "median" } else { "tenth" };
        println!(
            "{size:>8}  {what:<6}  {alone:>10.2}  {read:>10}  {put:>16.2}  {:>9.2}  {percent:>8.0} %",
            put - alone
        );
    }
}

/// What one sends and the other takes, as fast as they can: of the wire alone, then of puts.
fn stream(wire: &mut Wire, ends: &mut Ends<'_>, size: usize, count: usize) {
    let (mut alone, mut puts) = (Vec::new(), Vec::new());
    for _ in 0..STREAM_TURNS {
        time(1, &mut alone, || match size + HEAD <= wire.endpoint.message_max() {
            true => wire.stream_messages(ends.first, size + HEAD, count),
            false => wire.stream(ends.first, size, count),
        });
        time(1, &mut puts, || stream_puts(ends, size, count));
    }
    let (alone, puts) = (2.0 * below(&mut alone, 2), 2.0 * below(&mut puts, 2));
    if ends.first {
        let each = |took: f64| if size > 64 { (size * count) as f64 / took } else { count as f64 / took };
        let unit = if size > 64 { "MB/s" } else { "M/s" };
        let percent = 100.0 * alone / puts;
        println!("{size:>8}  {:>10.3}  {:>10.3}  {unit:<5} {percent:>5.0} %", each(alone), each(puts));
    }
}

/// The second one answers each sixteenth; of long ones, each fourth.
fn stream_puts(ends: &mut Ends<'_>, size: usize, count: usize) {
    let each = if size > 64 { 4 } else { 16 };
    let window = if size > 64 { WINDOW } else { SHORT_WINDOW };
    let answer = Request::NotificationPut { class: 1, payload: 1 };
    let (mut posted, mut over) = (0, 0);
    while over < count {
        // The card has a place for 64 that wait for the network.
        let room =
            posted < over + window.min(48) || posted < over + window && ends.port.node.nic.requester_idle(0);
        if ends.first && posted < count && room {
            put_at(ends, size, place(posted, size));
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
        // Pages of its own, as the puts have: what nobody wrote is one page of zeros, which stays in the cache.
        let memory = vec![7_u8; 2 * HALF].leak().as_mut_ptr();
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
    fn stream(&mut self, first: bool, size: usize, count: usize) {
        if !first {
            self.hear(count);
            return self.send(&[1; 8]);
        }
        let (local, remote) = (self.local, self.remote);
        let to = |begun| Transfer {
            local,
            local_offset: 0,
            remote,
            remote_offset: place(begun, size) as u64,
            len: size as u64,
        };
        let (mut begun, mut over, mut heard) = (0, 0, false);
        while !heard {
            if begun < count
                && begun < over + WINDOW
                && self.endpoint.write(&to(begun), Some(1), 0).expect("the wire") == Taken::Yes
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

    /// A message says that bytes are there, and the other reads them.
    fn read_trip(&mut self, first: bool, len: usize) {
        let (local, remote) = (self.local, self.remote);
        let len = len as u64;
        let transfer = Transfer { local, local_offset: HALF as u64, remote, remote_offset: 0, len };
        if first {
            self.send(&[7; 3 * HEAD]);
        }
        self.hear(1);
        while self.endpoint.read(&transfer, 1).expect("the wire") == Taken::Later {
            self.endpoint.poll(|_| {}).expect("the wire");
        }
        let mut done = false;
        while !done {
            let over = |event: Event<'_>| done |= matches!(event, Event::Done { token: 1 });
            self.endpoint.poll(over).expect("the wire");
        }
        if !first {
            self.send(&[7; 3 * HEAD]);
        }
    }

    /// The second one moves the first one's last read on until that is over.
    fn end_reads(&mut self, first: bool) {
        if first { self.send(&[7; 8]) } else { self.hear(1) }
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

/// Where the one of this number goes.
fn place(number: usize, size: usize) -> usize {
    HALF + number % (HALF / size).min(WINDOW) * size
}

fn put(ends: &Ends<'_>, len: usize) {
    put_at(ends, len, HALF);
}

fn put_at(ends: &Ends<'_>, len: usize, at: usize) {
    ends.port.put(ends.other, Spec::COMPLETER, ends.nla, ends.nla + at as u64, len as u32);
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

/// How long each of these took.
fn time(rounds: usize, took: &mut Vec<Duration>, mut trip: impl FnMut()) {
    took.extend((0..rounds).map(|_| {
        let began = Instant::now();
        trip();
        began.elapsed()
    }));
}

/// Half of what the fastest of so many parts stayed below, in microseconds.
fn below(took: &mut [Duration], parts: usize) -> f64 {
    took.sort_unstable();
    took.get(took.len() / parts).map_or(0.0, |took| took.as_secs_f64() * 1e6 / 2.0)
}

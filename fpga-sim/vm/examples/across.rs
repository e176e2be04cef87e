//! No example to learn from: the host's side of `tests/vm/across.c`, which `cargo xtask vm` starts beside the guest.
//!
//! `across LOG`: programs of this host visit the guest that writes this log, one after the other, in the network that the
//! environment names. The first one leaves; the second one is killed while the guest puts to it; the last one puts while the
//! guest is switched off, and its card's server ends. Whoever started this sees that nothing is left of the network.

use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use extoll_abi::Address;
use ggas::{HostBuffer, Kind, Match, Network, Notification, PortConfig, PostError, Spec, WaitError};

/// For what has to come. A guest takes a while to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);
const LONGEST: usize = 1 << 20;
const AREA: usize = LONGEST + 2 * 4096;
const PIECE: usize = 64 << 10;

const HELLO: u8 = 1;
const GO: u8 = 2;
const LEAVES: u8 = 3;
const STREAMS: u8 = 4;
const STAYS: u8 = 5;

/// Bytes, and where they begin at the one who posts and on the other side; as in across.c.
const CASES: [(usize, usize, usize); 10] = [
    (8, 0, 0),
    (1, 3, 5),
    (64, 61, 7),
    (497, 1, 4095),
    (4096, 0, 0),
    (4097, 4090, 3),
    (65536, 64, 128),
    (100_003, 13, 4001),
    (LONGEST, 0, 0),
    (LONGEST, 4093, 11),
];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [log] => visits(Path::new(log)),
        [then, place @ ..] => visit(then.parse()?, place),
        [] => bail!("across LOG: which guest's log?"),
    }
}

/// The visitors, each a process.
fn visits(log: &Path) -> Result<()> {
    let said = line(log, "across: at ", " end")?;
    let visitor = |number: u32, then: u8| -> Result<Visitor> {
        line(log, &format!("across: waits for {number}"), "")?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(then.to_string()).args(said.split_whitespace());
        Ok(Visitor(command.spawn()?))
    };
    ends_well(visitor(1, LEAVES)?)?;
    let mut second = visitor(2, STREAMS)?;
    // The first visitor's end gave this line, too, or none: the second one's is the one after it greets.
    lines(log, "across: waits for 2", "across: puts", &mut second)?;
    second.0.kill()?;
    second.0.wait()?;
    println!("killed while the guest puts");
    ends_well(visitor(3, STAYS)?)?;
    Ok(())
}

/// A process that is not left behind.
struct Visitor(Child);

impl Drop for Visitor {
    fn drop(&mut self) {
        // One that has ended is not there to be killed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn ends_well(mut visitor: Visitor) -> Result<()> {
    let end = Instant::now() + 2 * PATIENCE;
    let status: ExitStatus = loop {
        if let Some(status) = visitor.0.try_wait()? {
            break status;
        }
        ensure!(Instant::now() < end, "a visitor does not end");
        std::thread::sleep(Duration::from_millis(20));
    };
    ensure!(status.success(), "a visitor ended with {status}");
    Ok(())
}

fn text(log: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(log).unwrap_or_default()).into_owned()
}

/// What stands between these in the guest's log, once it does.
fn line(log: &Path, before: &str, after: &str) -> Result<String> {
    let end = Instant::now() + PATIENCE;
    loop {
        let text = text(log);
        let found = text.lines().find_map(|line| line.trim_end().strip_prefix(before)?.strip_suffix(after));
        if let Some(found) = found {
            return Ok(found.to_owned());
        }
        ensure!(Instant::now() < end, "the guest does not say `{before}`");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until the guest's log has `second` behind `first`, while the visitor lives.
fn lines(log: &Path, first: &str, second: &str, visitor: &mut Visitor) -> Result<()> {
    let end = Instant::now() + PATIENCE;
    while !text(log).split_once(first).is_some_and(|(_, rest)| rest.contains(second)) {
        if let Some(status) = visitor.0.try_wait()? {
            bail!("the visitor ended by itself: {status}");
        }
        ensure!(Instant::now() < end, "the guest does not say `{second}`");
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn byte(i: usize, seed: usize) -> u8 {
    (seed * 31 + i * 7 + i / 251) as u8
}

fn pattern(size: usize, seed: usize) -> Vec<u8> {
    (0..size).map(|i| byte(i, seed)).collect()
}

/// One visit: all sizes both ways, then what is to happen.
fn visit(then: u8, place: &[String]) -> Result<()> {
    let [node, vpid, in_nla, out_nla] = place else { bail!("where is the guest?") };
    let guest = Address::new(node.parse()?, vpid.parse()?);
    let (in_nla, out_nla): (u64, u64) = (in_nla.parse()?, out_nla.parse()?);
    let network = Network::join()?;
    let port = network.node().open_port(PortConfig::default())?;
    let inbox = port.register(HostBuffer::zeroed(AREA)?)?;
    let outbox = port.register(HostBuffer::zeroed(AREA)?)?;
    let to_guest = port.connect(guest);
    // The next one, whatever it is: one too many would be noticed.
    let next = |kind: Kind| -> Result<Notification> {
        let notification = port.wait(PATIENCE)?;
        let header = notification.header()?;
        ensure!(header.kind == kind, "a notification of {:?}, not of {kind:?}", header.kind);
        ensure!(header.remote == guest && header.error.is_empty(), "{header:?}");
        Ok(notification)
    };
    to_guest.notification_put(HELLO, inbox.nla(0)?, Spec::COMPLETER)?;
    for (i, (size, from, to)) in CASES.into_iter().enumerate() {
        let arrived = |seed: usize, at: usize, what: &str| -> Result<()> {
            let mut bytes = vec![0; size];
            inbox.read(at, &mut bytes)?;
            ensure!(bytes == pattern(size, seed), "{what}: {size} bytes differ");
            let mut beside = [0];
            inbox.read(at + size, &mut beside)?;
            ensure!(beside == [0], "{what}: the byte behind {size} was written");
            Ok(())
        };
        // It is ready, and has put nothing yet.
        next(Kind::Completer)?;
        inbox.write(0, &vec![0; AREA])?;
        outbox.write(from, &pattern(size, i))?;
        to_guest.put(&outbox, from, size, in_nla + to as u64, Spec::REQUESTER | Spec::COMPLETER)?;
        next(Kind::Requester)?;
        next(Kind::Completer)?;
        arrived(40 + i, to, "put by the guest")?;
        inbox.write(0, &vec![0; AREA])?;
        to_guest.get(&inbox, from, size, out_nla + from as u64, Spec::RESPONDER | Spec::COMPLETER)?;
        next(Kind::Completer)?;
        arrived(40 + i, from, "got from the guest")?;
        inbox.write(to, &pattern(size, 80 + i))?;
        to_guest.notification_put(GO, 0, Spec::COMPLETER)?;
        next(Kind::Responder)?;
    }
    next(Kind::Completer)?;
    println!("all sizes, both ways: as they should be");
    to_guest.notification_put(then, 0, Spec::COMPLETER)?;
    match then {
        STREAMS => loop {
            // Until it is killed.
            std::thread::park();
        },
        STAYS => {
            let (puts, refused) = until_lost(
                &port,
                || {
                    to_guest.put(&outbox, 0, PIECE, in_nla, Spec::REQUESTER | Spec::COMPLETER)?;
                    to_guest.get(&inbox, 0, 8, out_nla, Spec::COMPLETER)
                },
                guest,
            )?;
            println!("the guest was lost after {puts} puts, {refused} gets were refused");
        }
        _ => port.close()?,
    }
    Ok(())
}

/// Posts pairs of a put and a get until the guest is lost: how many, and to how many gets nobody was there.
fn until_lost(
    port: &ggas::Port,
    post: impl Fn() -> Result<(), PostError>,
    guest: Address,
) -> Result<(u32, u32)> {
    let end = Instant::now() + PATIENCE;
    let (mut puts, mut refused) = (0, 0);
    let answer = Match::any().gets().kind(Kind::Completer).from(guest);
    loop {
        ensure!(Instant::now() < end, "nobody says that the guest is gone");
        match post() {
            Err(PostError::PeerLost(_)) => return Ok((puts, refused)),
            other => other.context("a put to the guest")?,
        }
        puts += 1;
        match port.wait_match(&answer, Duration::from_secs(5)) {
            Ok(notification) => refused += u32::from(!notification.header()?.error.is_empty()),
            Err(WaitError::PeerLost { .. }) => return Ok((puts, refused)),
            // The card was reset over it.
            Err(WaitError::Timeout { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        while port.poll().is_some() {}
    }
}

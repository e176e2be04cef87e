//! `hw-suite [PEER]`: the device `hw` on `/dev/extoll0`, with itself, or with the same program on node PEER.
//!
//! Prints a line for each part that worked and "PASS hw-suite" at the end; a part that fails ends it.

mod alone;
mod errors;
mod meet;
mod pair;
mod velo;

use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use ggas_device::hw;
use ggas_rma::{HostBuffer, Node, Port, Region};

/// What any wait may take: emulated machines are slow.
const SOON: Duration = Duration::from_secs(20);

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> ExitCode {
    let peer = std::env::args().nth(1).map(|text| text.parse());
    let outcome = match peer {
        None => alone(),
        Some(Ok(peer)) => pair(peer),
        Some(Err(_)) => Err("usage: hw-suite [PEER], where PEER is a node id".into()),
    };
    match outcome {
        Ok(()) => {
            println!("PASS hw-suite");
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("FAIL hw-suite: {error}");
            ExitCode::FAILURE
        }
    }
}

fn alone() -> Outcome {
    let node = Node::new(hw::open()?);
    println!("{:?}", node.info());
    part("puts and gets", || alone::transfers(&node))?;
    part("notifications", || alone::notifications(&node))?;
    part("locks", || alone::locks(&node))?;
    part("blocking waits", || alone::waits(&node))?;
    part("full write-combining ring", || alone::flood(&node))?;
    part("open and close", || alone::reopened(&node))?;
    part("messages", || velo::alone(&node))?;
    part("errors", || errors::all(&node))
}

fn pair(peer: u16) -> Outcome {
    let node = Node::new(hw::open()?);
    println!("node {} with node {peer}", node.id());
    pair::all(&node, peer)
}

/// Runs a part and says how long it took.
fn part(name: &str, work: impl FnOnce() -> Outcome) -> Outcome {
    let start = Instant::now();
    work().map_err(|error| format!("{name}: {error}"))?;
    println!("ok {name} ({:.2} s)", start.elapsed().as_secs_f64());
    Ok(())
}

/// Fails with `what` unless `condition` holds.
fn check(condition: bool, what: impl std::fmt::Display) -> Outcome {
    if condition { Ok(()) } else { Err(what.to_string().into()) }
}

/// `len` bytes that differ from place to place and from seed to seed.
fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 253) as u8 ^ seed.wrapping_mul(31)).collect()
}

/// A registered region that holds a pattern.
fn region(port: &Port, len: usize, seed: u8) -> Result<Region, Box<dyn Error>> {
    let region = port.register(HostBuffer::zeroed(len)?)?;
    region.write(0, &pattern(len, seed))?;
    Ok(region)
}

/// Whether these bytes of a region are as they should be.
fn holds(region: &Region, at: usize, bytes: &[u8]) -> Outcome {
    let mut found = vec![0; bytes.len()];
    region.read(at, &mut found)?;
    match found.iter().zip(bytes).position(|(found, wanted)| found != wanted) {
        None => Ok(()),
        Some(i) => {
            Err(format!("byte {} of {} is {:#x}, not {:#x}", at + i, bytes.len(), found[i], bytes[i]).into())
        }
    }
}

//! `hw-suite [--more] [PEER]`: the device `hw` on `/dev/extoll0`, with itself, or with the same program on node PEER;
//! with `--more`, kernels on the CPU executor, windows of GPU memory (gpumap), interrupts and system calls instead;
//! `hw-suite --nodes N` is one of the nodes 0 to N - 1, whose kernels have a window together;
//! `hw-suite --traps` counts accesses to a card of which no page is mapped; `hw-suite --endless 2` is one of the nodes 0 and
//! 1, whose kernels compute until a card or the other node is taken from them.
//!
//! Prints a line for each part that worked and "PASS hw-suite" at the end; a part that fails ends it.

mod alone;
mod calls;
mod endless;
mod errors;
mod gpu_memory;
mod kernels;
mod meet;
mod nodes;
mod pair;
mod triggers;
mod velo;
mod window;

use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use ggas_device::hw;
use ggas_rma::{HostBuffer, Node, Port, PortConfig, Region};
use ggas_velo::VeloConfig;

/// What any wait may take: emulated machines are slow.
const SOON: Duration = Duration::from_secs(60);

/// A port that waits as long.
fn patient() -> PortConfig {
    PortConfig { post_timeout: SOON, kernel_timeout: SOON, ..PortConfig::default() }
}

/// A mailbox that does.
fn patient_velo() -> VeloConfig {
    VeloConfig { send_timeout: SOON, kernel_timeout: SOON, ..VeloConfig::default() }
}

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let watched = arguments.first().is_some_and(|word| word == calls::WATCHED);
    let traps = arguments.first().is_some_and(|word| word == "--traps");
    let more = arguments.first().is_some_and(|word| word == "--more");
    let together = arguments.first().is_some_and(|word| word == "--nodes");
    let endless = arguments.first().is_some_and(|word| word == "--endless");
    if more || together || endless {
        arguments.remove(0);
    }
    let outcome = match arguments.first().map(|text| text.parse()) {
        Some(Ok(count)) if together => nodes(count),
        Some(Ok(count)) if endless => stopped(count),
        None => alone(more),
        Some(Ok(peer)) => pair(peer, more),
        Some(Err(_)) if watched => one_watched(),
        Some(Err(_)) if traps => {
            part("few accesses to registers", || calls::traps(&Node::new(hw::open()?), false))
        }
        Some(Err(_)) => Err(
            "usage: hw-suite [--more] [PEER] | --nodes N | --endless 2 | --traps, where PEER is a node id"
                .into(),
        ),
    };
    match outcome {
        Ok(()) if watched => ExitCode::SUCCESS,
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

fn one_watched() -> Outcome {
    calls::watched(&Node::new(hw::open()?))
}

fn alone(more: bool) -> Outcome {
    let node = Node::new(hw::open()?);
    if more {
        part("kernels play ping-pong", || kernels::ping_pong(&node))?;
        part("kernels of many threads", || kernels::many_threads(&node))?;
        part("triggered puts", || triggers::alone(&node))?;
        part("GPU memory", || gpu_memory::all(&node))?;
        part("loads and stores", || window::alone(&node))?;
        part("interrupts of sleepers", || calls::sleepers_are_interrupted(&node))?;
        part("traps for requester stores only", || calls::traps(&node, true))?;
        return part("no system calls", || calls::none_to_post_and_poll(&node));
    }
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

fn pair(peer: u16, more: bool) -> Outcome {
    let node = Node::new(hw::open()?);
    println!("node {} with node {peer}", node.id());
    pair::all(&node, peer, more)
}

fn nodes(count: u16) -> Outcome {
    let node = Node::new(hw::open()?);
    check(node.id() < count, format!("this is node {}, and there are nodes 0 to {}", node.id(), count - 1))?;
    nodes::all(&node, count)
}

fn stopped(count: u16) -> Outcome {
    endless::all(&Node::new(hw::open()?), count)
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

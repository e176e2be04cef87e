//! Each process puts to the next one and checks what it got from the one before.
//!
//! Alone: `cargo run -p ggas --example ring`. Four processes:
//! `cargo build -p ggas --example ring && ggas run -n 4 -- target/debug/examples/ring`. On which device, the variable
//! `GGAS_DEVICE` says (sim, hw, nvlink); the program is the same.

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use ggas::{HostBuffer, Job, Kind, Match, PortConfig, RemoteRegion, Spec};

const BYTES: usize = 64 << 10;
const SOON: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    match ring() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// The whole of it; tests run it, too.
pub fn ring() -> Result<(), Box<dyn Error>> {
    let job = Job::join()?;
    let (rank, size) = (job.rank(), job.size());
    let (next, before) = ((rank + 1) % size, (rank + size - 1) % size);

    // Buffers made after joining are copied once on their way.
    let port = job.node().open_port(PortConfig::default())?;
    let outbox = port.register(HostBuffer::zeroed(BYTES)?)?;
    let inbox = port.register(HostBuffer::zeroed(BYTES)?)?;
    outbox.write(0, &message(rank))?;

    let inboxes = job.exchange_values(&RemoteRegion::of(&inbox), SOON)?;
    let target = inboxes[next as usize];
    port.connect(target.port()).put(&outbox, 0, BYTES, target.nla(0, BYTES as u64)?, Spec::COMPLETER)?;

    // Should that process die, this fails at once.
    let source = inboxes[before as usize].port();
    let arrived = port.wait_match(&Match::any().kind(Kind::Completer).puts().from(source), SOON)?;
    let mut bytes = vec![0; BYTES];
    inbox.read(0, &mut bytes)?;
    if bytes != message(before) {
        return Err(format!("rank {rank}: what rank {before} put arrived damaged").into());
    }
    println!("rank {rank} of {size} on node {}: {BYTES} bytes from {}", job.node_id(), arrived.remote());

    // Nobody leaves while others may still put to it.
    job.barrier(SOON)?;
    port.close()?;
    Ok(())
}

fn message(rank: u32) -> Vec<u8> {
    (0..BYTES).map(|i| (i as u32).wrapping_mul(31).wrapping_add(rank) as u8).collect()
}

//! Each process puts to every other one, twice, and rank 0 says how long things took and what a process takes. With the arguments
//! `watch SECONDS` they then stay for so long, say whom they lose, meet in a barrier, and leave one after the other. With `rounds NUMBER`
//! they go on to put to each other so often, short and long payloads by turns, also where they lose some.
//!
//! `cargo build --release -p ggas --example everyone && ggas run --host h1:16,h2:16 -- target/release/examples/everyone`

use std::error::Error;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ggas_wire::{Endpoint, Event, Taken, WireError, choose};

use ggas::{HostBuffer, Job, Kind, Match, Port, PortConfig, PostError, RemoteRegion, Spec, WaitError};

const BYTES: usize = 1024;
/// What the wire carries otherwise.
const LONG: usize = 256 << 10;
/// Rounds are so far apart, so that they go on while ranks are killed or stopped; and so are ranks that leave in the end.
const PAUSE: Duration = Duration::from_millis(50);
const SOON: Duration = Duration::from_secs(120);

fn main() -> ExitCode {
    match everyone() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn everyone() -> Result<(), Box<dyn Error>> {
    let begun = Instant::now();
    let job = Job::join()?;
    let joined = begun.elapsed();
    let (rank, size) = (job.rank() as usize, job.size() as usize);
    let port = job.node().open_port(PortConfig {
        queue_bytes: 1 << 16,
        post_timeout: SOON,
        ..PortConfig::default()
    })?;
    let outbox = port.register(HostBuffer::zeroed(BYTES)?)?;
    let inbox = port.register(HostBuffer::zeroed(BYTES * size)?)?;
    let inboxes = job.exchange_values(&RemoteRegion::of(&inbox), SOON)?;
    let before = occupied();
    let mut times = [Duration::ZERO; 2];
    for (round, time) in times.iter_mut().enumerate() {
        outbox.write(0, &message(rank, round))?;
        job.barrier(SOON)?;
        let begun = Instant::now();
        for step in 1..size {
            let to = inboxes[(rank + step) % size];
            let at = to.nla((BYTES * rank) as u64, BYTES as u64)?;
            port.connect(to.port()).put(&outbox, 0, BYTES, at, Spec::COMPLETER)?;
        }
        for step in 1..size {
            let from = (rank + size - step) % size;
            let puts = Match::any().kind(Kind::Completer).puts().from(inboxes[from].port());
            let arrived = port.wait_match(&puts, SOON)?;
            if !arrived.error().is_empty() {
                return Err(
                    format!("rank {rank}: a put of rank {from} failed there: {:?}", arrived.error()).into()
                );
            }
            let mut came = vec![0; BYTES];
            inbox.read(BYTES * from, &mut came)?;
            if let Some(at) = came.iter().zip(message(from, round)).position(|(came, put)| *came != put) {
                let came = (came[at], message(from, round)[at]);
                return Err(format!(
                    "rank {rank}, round {round}: what rank {from} put arrived damaged: byte {at} is {} and not {}",
                    came.0, came.1
                )
                .into());
            }
        }
        // As of the wire alone: until this one has all.
        *time = begun.elapsed();
        job.barrier(SOON)?;
    }
    let said = (joined, times, before, occupied());
    let all = job.exchange_values(&said, SOON)?;
    if rank == 0 {
        let longest = |of: &dyn Fn(&Said) -> f64| all.iter().map(of).fold(0.0, f64::max);
        println!(
            "{size} ranks: joined in {:.2} s, each to each first in {:.2} s, then in {:.3} s; a rank at most {:.0} MiB and {:.0} \
             descriptors before, {:.0} MiB and {:.0} after",
            longest(&|said| said.0.as_secs_f64()),
            longest(&|said| said.1[0].as_secs_f64()),
            longest(&|said| said.1[1].as_secs_f64()),
            longest(&|said| said.2.0),
            longest(&|said| said.2.1),
            longest(&|said| said.3.0),
            longest(&|said| said.3.1),
        );
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    match &words[..] {
        [] => alone(&job)?,
        [watch, seconds] if watch == "watch" => return watches(&job, Duration::from_secs(seconds.parse()?)),
        [rounds, number] if rounds == "rounds" => return goes_on(&job, &port, number.parse()?),
        _ => return Err("everyone [watch SECONDS | rounds NUMBER]".into()),
    }
    port.close()?;
    Ok(job.barrier(SOON)?)
}

/// The same by the wire alone, where there is one: an endpoint for each process, a message from each to each.
fn alone(job: &Job) -> Result<(), Box<dyn Error>> {
    let begun = Instant::now();
    let opened = choose().ok().map(|choice| Endpoint::open(&choice)).transpose()?;
    let own = opened.as_ref().map(Endpoint::address).transpose()?;
    let addresses: Vec<Option<Vec<u8>>> = job.exchange_values(&own, SOON)?;
    let (Some(mut endpoint), true) = (opened, addresses.iter().all(Option::is_some)) else { return Ok(()) };
    let peers = addresses.iter().flatten().map(|address| endpoint.insert(address));
    let peers = peers.collect::<Result<Vec<_>, _>>()?;
    let started = begun.elapsed();
    let (rank, size) = (job.rank() as usize, job.size() as usize);
    let (message, mut came) = ([7; BYTES], 0);
    let mut times = [Duration::ZERO; 2];
    for (round, time) in times.iter_mut().enumerate() {
        job.barrier(SOON)?;
        let begun = Instant::now();
        let poll = |endpoint: &mut Endpoint, came: &mut usize| {
            let some = endpoint.poll(|event| *came += usize::from(matches!(event, Event::Message(_))))?;
            if some == 0 {
                std::thread::yield_now();
            }
            Ok::<(), WireError>(())
        };
        for step in 1..size {
            while endpoint.send(peers[(rank + step) % size], &message)? == Taken::Later {
                poll(&mut endpoint, &mut came)?;
            }
        }
        while came < (round + 1) * (size - 1) {
            poll(&mut endpoint, &mut came)?;
        }
        *time = begun.elapsed();
        // What was sent last may wait for this end to move on.
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let meets = scope.spawn(|| {
                let met = job.barrier(SOON);
                over.store(true, Ordering::Release);
                met
            });
            while !over.load(Ordering::Acquire) {
                poll(&mut endpoint, &mut came)?;
            }
            meets.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            Ok::<(), Box<dyn Error>>(())
        })?;
    }
    let all = job.exchange_values(&(started, times), SOON)?;
    if rank == 0 {
        let longest = |times: Vec<Duration>| times.into_iter().max().unwrap_or_default().as_secs_f64();
        println!(
            "the wire alone: endpoints in {:.2} s, each to each first in {:.2} s, then in {:.3} s",
            longest(all.iter().map(|said| said.0).collect()),
            longest(all.iter().map(|said| said.1[0]).collect()),
            longest(all.iter().map(|said| said.1[1]).collect()),
        );
    }
    Ok(())
}

/// Says whom it loses, for so long and while the others leave, one after the other.
fn watches(job: &Job, time: Duration) -> Result<(), Box<dyn Error>> {
    let _watches = job.membership().on_loss(Box::new(|rank| println!("rank {rank} is lost")));
    println!("watches");
    std::thread::sleep(time);
    job.barrier(SOON)?;
    println!("watched");
    std::thread::sleep(Duration::from_millis(100) * job.rank());
    Ok(())
}

/// Puts to all others that it has not lost, and waits for what each of them puts, again and again.
fn goes_on(job: &Job, port: &Port, rounds: usize) -> Result<(), Box<dyn Error>> {
    let _watches = job.membership().on_loss(Box::new(|rank| println!("rank {rank} is lost")));
    let (rank, size) = (job.rank() as usize, job.size() as usize);
    let outbox = port.register(HostBuffer::zeroed(LONG)?)?;
    let inbox = port.register(HostBuffer::zeroed(LONG * size)?)?;
    let inboxes = job.exchange_values(&RemoteRegion::of(&inbox), SOON)?;
    let mut others: Vec<usize> = (0..size).filter(|other| *other != rank).collect();
    for round in 0..rounds {
        let len = if round % 2 == 0 { BYTES } else { LONG };
        let mut lost = Vec::new();
        for other in &others {
            let at = inboxes[*other].nla((LONG * rank) as u64, len as u64)?;
            match port.connect(inboxes[*other].port()).put(&outbox, 0, len, at, Spec::COMPLETER) {
                Err(PostError::PeerLost(_)) => lost.push(*other),
                posted => posted?,
            }
        }
        for other in &others {
            let puts = Match::any().kind(Kind::Completer).puts().from(inboxes[*other].port());
            match port.wait_match(&puts, SOON) {
                Ok(arrived) if arrived.error().is_empty() => {}
                Ok(arrived) => {
                    return Err(format!("a put of rank {other} failed: {:?}", arrived.error()).into());
                }
                Err(WaitError::PeerLost { .. }) => lost.push(*other),
                Err(error) => return Err(error.into()),
            }
        }
        others.retain(|other| !lost.contains(other));
        if round == 1 {
            println!("goes on");
        }
        std::thread::sleep(PAUSE);
    }
    println!("{rounds} rounds, at last with {} others", others.len());
    std::thread::sleep(PAUSE * job.rank());
    Ok(())
}

/// When it had joined, how long its rounds took, and what it occupied before and after.
type Said = (Duration, [Duration; 2], Occupied, Occupied);

/// MiB of memory, shared with others or not, and descriptors of this process.
type Occupied = (f64, f64);

fn occupied() -> Occupied {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    let descriptors = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    (kib.unwrap_or_default() / 1024.0, descriptors as f64)
}

fn message(rank: usize, round: usize) -> Vec<u8> {
    (0..BYTES).map(|i| (i * 31 + rank * 7 + round) as u8).collect()
}

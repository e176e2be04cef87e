//! Commands of ranks of a job.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use ggas_members::{Job, JobError, MemberId, Members};

use crate::{Failure, SOON, State, milliseconds, say};

/// Kind of numbered messages.
const NUMBER: u16 = 9;

fn post(job: &Job, rank: u32, count: u32) -> Result<(), Failure> {
    let member = job.member();
    let to = member.at(rank).ok_or("nobody")?;
    for number in 0..count {
        let mut body = vec![0; 1000];
        body[..4].copy_from_slice(&number.to_le_bytes());
        match member.send(to.id, NUMBER, &body, &[], Instant::now() + SOON) {
            Ok(true) => {}
            other => {
                say(&format!("{number}: {other:?}"));
                return Ok(());
            }
        }
    }
    Ok(())
}

/// So many messages, each sender's in order.
fn mail(job: &Job, count: u32) -> Result<(), Failure> {
    let (tell, heard) = channel();
    let number = move |from: MemberId, body: Vec<u8>, _| {
        let number = body.first_chunk().map(|number| u32::from_le_bytes(*number));
        let _ = tell.send((from.slot, number, body.len()));
    };
    job.member().handle(NUMBER, Arc::new(number));
    let mut next = HashMap::new();
    for _ in 0..count {
        let (from, number, len) = heard.recv_timeout(SOON)?;
        let next = next.entry(from).or_insert(0);
        if (number, len) != (Some(*next), 1000) {
            return Err(format!("{number:?} of {len} bytes from rank {from}, not {next}").into());
        }
        *next += 1;
    }
    say(&format!("{count} in order"));
    Ok(())
}

/// Does a command; `false`: it is another's.
pub fn run(state: &mut State, name: &str, value: &str) -> Result<bool, Failure> {
    let time = || Ok::<_, Failure>(Duration::from_millis(value.parse()?));
    match name {
        "join" => state.job = Some(Job::join()?),
        // Killed by itself while it waits for the others.
        "join-and-die" => {
            std::thread::spawn(|| {
                std::thread::sleep(Duration::from_millis(300));
                let _ = nix::sys::signal::raise(nix::sys::signal::SIGKILL);
            });
            state.job = Some(Job::join()?);
        }
        "again" => match Job::join() {
            Err(JobError::JoinedAlready) => say("joined already"),
            other => return Err(format!("joined twice: {other:?}").into()),
        },
        "who" => {
            let job = state.job()?;
            let (rank, size, node, nodes) = (job.rank(), job.size(), job.node(), job.nodes());
            say(&format!("rank {rank} of {size} on node {node} of {nodes}"));
        }
        "barrier" => state.job()?.barrier(time()?)?,
        // As long as it takes.
        "barrier-for-ever" => state.job()?.barrier(Duration::MAX)?,
        "barriers" => {
            let start = Instant::now();
            let rounds: u32 = value.parse()?;
            (0..rounds).try_for_each(|_| state.job()?.barrier(SOON).map_err(Failure::from))?;
            say(&format!("{:?} each", start.elapsed() / rounds));
        }
        // The error, and how long it took, instead of the end.
        "try-barrier" => {
            let start = Instant::now();
            let outcome = state.job()?.barrier(time()?);
            say(&match outcome {
                Ok(()) => "ok".into(),
                Err(error) => format!("{error} [{} ms]", milliseconds(start)),
            });
        }
        // So many numbered messages to a rank: `post=3,100`.
        "post" => {
            let (rank, count) = value.split_once(',').ok_or("rank, count")?;
            post(state.job()?, rank.parse()?, count.parse()?)?;
        }
        "mail" => mail(state.job()?, value.parse()?)?,
        "exchange" => exchange(state.job()?, value.parse()?)?,
        "try-exchange" => match state.job()?.exchange(&vec![7; value.parse()?], SOON) {
            Ok(all) => say(&format!("{} parts", all.len())),
            Err(error) => say(&error.to_string()),
        },
        "fds" => pass_descriptors(state.job()?)?,
        "try-fds" => match state.job()?.recv_fds(value.parse()?, 1, SOON) {
            Ok(fds) => say(&format!("{} descriptors", fds.len())),
            Err(error) => say(&error.to_string()),
        },
        // A word to another rank, and the wait for one.
        "tell" => state.job()?.send_fds(value.parse()?, 2, &[], SOON)?,
        "hear" => drop(state.job()?.recv_fds(value.parse()?, 2, Duration::MAX)?),
        "write" => {
            let (rank, len) = value.split_once(',').ok_or("rank, length")?;
            match state.job()?.send_bytes(rank.parse()?, 3, &vec![0x5a; len.parse()?], SOON) {
                Ok(()) => say("sent"),
                Err(error) => say(&error.to_string()),
            }
        }
        "read" => match state.job()?.recv_bytes(value.parse()?, 3, SOON) {
            Ok(bytes) if bytes.iter().all(|byte| *byte == 0x5a) => say(&format!("{} bytes", bytes.len())),
            Ok(_) => say("other bytes"),
            Err(error) => say(&error.to_string()),
        },
        "letters" => {
            let job = state.job()?;
            (0..value.parse()?).try_for_each(|tag| job.send_fds(0, tag, &[], SOON))?;
        }
        "collect" => {
            let job = state.job()?;
            for from in 1..job.size() {
                for tag in 0..value.parse()? {
                    job.recv_fds(from, tag, SOON)?;
                }
            }
        }
        "find-lost" => state.job()?.member().lost_far(value.parse()?),
        "losses" => wait_for_losses(state.job()?, value.parse()?),
        _ => return Ok(false),
    }
    Ok(true)
}

/// Every part is its rank's, of a length of its own.
fn exchange(job: &Job, len: usize) -> Result<(), Failure> {
    let part = |rank: u32| vec![rank as u8; len.saturating_sub(rank as usize)];
    let all = job.exchange(&part(job.rank()), SOON)?;
    if (0..).zip(&all).any(|(rank, bytes)| *bytes != part(rank)) || all.len() != job.size() as usize {
        return Err("a part of the exchange is wrong".into());
    }
    Ok(())
}

/// Everyone sends everyone a pipe's reading end, with its rank in the pipe; itself, too.
fn pass_descriptors(job: &Job) -> Result<(), Failure> {
    let timeout = SOON;
    for to in 0..job.size() {
        let (read, write) = nix::unistd::pipe()?;
        nix::unistd::write(&write, &[job.rank() as u8, to as u8])?;
        job.send_fds(to, 9, &[read.as_fd()], timeout)?;
        job.send_fds(to, 8, &[], timeout)?;
    }
    for from in (0..job.size()).rev() {
        let fds = job.recv_fds(from, 9, timeout)?;
        let mut bytes = [0; 2];
        let [pipe] = &fds[..] else { return Err(format!("{} descriptors", fds.len()).into()) };
        if nix::unistd::read(pipe, &mut bytes)? != 2 || bytes != [from as u8, job.rank() as u8] {
            return Err("another pipe came".into());
        }
        if !job.recv_fds(from, 8, timeout)?.is_empty() {
            return Err("descriptors where none were sent".into());
        }
    }
    say("pipes are right");
    Ok(())
}

fn wait_for_losses(job: &Job, count: usize) {
    let (tell, hear) = std::sync::mpsc::channel();
    let _guard = job.on_loss(Box::new(move |rank| {
        let _ = tell.send(rank);
    }));
    let mut heard: Vec<u32> = (0..count).filter_map(|_| hear.recv_timeout(SOON).ok()).collect();
    heard.sort_unstable();
    say(&format!("lost {heard:?}, {:?}", job.lost()));
}

//! The other end of guests' Ethernet devices.

mod host;
mod pingpong;
mod plan;
mod record;
mod roce;
mod serve;
mod trouble;
mod verbs;
mod wire;
mod world;

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use host::Host;
use record::Record;
use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, channel};
use trouble::Trouble;
use wire::{Event, Place, Wire};
use world::World;

/// The other end of virtual machines' Ethernet devices, each a stream of frames on a Unix socket:
/// QEMU's -netdev stream,id=wire,addr.type=unix,addr.path=SOCKET
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    what: What,
    /// Socket at which a guest will come; repeat it for more guests
    #[arg(long = "guest", global = true, value_name = "SOCKET")]
    guests: Vec<PathBuf>,
    /// Lose one in N of the RoCEv2 packets
    #[arg(long, global = true, default_value_t = 0, value_name = "N")]
    lose: u32,
    /// Lose none of the first N packets
    #[arg(long, global = true, default_value_t = 0, value_name = "N")]
    spare: u64,
    /// What is lost is chosen from this
    #[arg(long, global = true, default_value_t = 1)]
    seed: u64,
    /// Tell each packet
    #[arg(long, global = true)]
    trace: bool,
    /// Write the first packets of each kind to this file
    #[arg(long, global = true, value_name = "FILE")]
    record: Option<PathBuf>,
    /// End with standard input
    #[arg(long, global = true)]
    until_eof: bool,
}

#[derive(Subcommand)]
enum What {
    /// Carry frames between the guests
    Relay,
    /// Be a host with the software HCA: for rxe-verbs (port 18516) and ibv_rc_pingpong (port 18515) of one guest
    Hca,
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> Result<()> {
    if cli.guests.is_empty() {
        bail!("no guest: name a socket with --guest");
    }
    let places = cli.guests.iter().map(|path| Place::listen(path)).collect::<Result<Vec<_>>>()?;
    println!("ready");
    if cli.until_eof {
        std::thread::spawn(|| {
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            std::process::exit(1);
        });
    }
    let (sender, events) = channel();
    let places = places.into_iter().enumerate();
    let wires = places.map(|(number, place)| place.accept(number, sender.clone()));
    let mut wires = wires.collect::<Result<Vec<_>>>().context("a guest did not come")?;
    drop(sender);
    let record = cli.record.as_deref().map(Record::create).transpose()?;
    let trouble = Trouble::new(cli.seed, cli.lose, cli.spare, cli.trace);
    match cli.what {
        What::Relay => relay(wires, &events, trouble, record),
        What::Hca if wires.len() > 1 => bail!("the host with the HCA has one guest: name one socket"),
        // The guest is there: its place was named.
        What::Hca => serve::serve(&mut World::new(Host::new(wires.remove(0), events, trouble, record))),
    }
}

/// Each frame goes to all other guests, as on one cable.
fn relay(
    mut wires: Vec<Wire>,
    events: &Receiver<Event>,
    mut trouble: Trouble,
    mut record: Option<Record>,
) -> Result<()> {
    for event in events {
        let (from, frame) = match event {
            Event::Frame(from, frame) => (from, frame),
            Event::Gone(_, None) => continue,
            Event::Gone(guest, Some(error)) => return Err(error.context(format!("guest {guest}"))),
        };
        if let Some(record) = &mut record {
            record.note(from, &frame)?;
        }
        if trouble.takes(from, &frame) {
            continue;
        }
        for (to, wire) in wires.iter_mut().enumerate().filter(|(to, _)| *to != from) {
            if !wire.send(&frame)? {
                eprintln!("guest {to} has gone, a frame for it is lost");
            }
        }
    }
    eprintln!("relay: {} packets of RoCEv2, {} lost", trouble.seen, trouble.lost);
    Ok(())
}

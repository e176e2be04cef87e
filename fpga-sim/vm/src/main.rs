//! `extoll-vm-server`: cards, and stand-ins for GPUs, for virtual machines on this host.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Parser;
use extoll_sim::Fabric;
use extoll_sim::faults::Faults;
use extoll_sim::network::Network;
use extoll_sim::shared::{Nodes, ProcessFabric};
use extoll_sim::torus::Torus;
use extoll_vm::{Card, CardSetup, Device, Gpu, listen, serve};
use ggas_members::{Member, NetworkShape};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{fmt, registry};

/// Serve modelled EXTOLL cards to virtual machines, one for each socket.
///
/// Cards get node ids 0, 1, ... in the order given, and share one network: one of their own, or with --network one that
/// programs of this host join, too. Prints `ready` when every socket listens.
/// QEMU 11: -device '{"driver":"vfio-user-pci","socket":{"path":"SOCKET","type":"unix"}}', with the guest's memory
/// in a shared memory backend.
#[derive(Parser)]
#[command(version)]
struct Cli {
    /// Devices of one guest: nic=SOCKET or gpu=SOCKET[:MiB], separated by commas; repeat for more guests
    #[arg(long = "guest", required = true, value_name = "DEVICES")]
    guests: Vec<Guest>,
    /// Cards offer MSI-X besides MSI
    #[arg(long)]
    msix: bool,
    /// Network state of cards after a reset: 0 not configured, 1 configured, 2 stopped
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(0..=2))]
    network_state: u64,
    /// A vendor-specific capability with which a guest makes its card fail: for tests of drivers
    #[arg(long)]
    trouble: bool,
    /// No page of BAR 0 is mapped, so that every access to registers traps and is counted: for tests of libraries
    #[arg(long)]
    trap: bool,
    /// Links between the cards lose, corrupt, repeat, reorder and delay one packet in a hundred each, chosen from this
    /// number; they retransmit, so that programs see nothing of it but the time
    #[arg(long, value_name = "SEED", conflicts_with = "network")]
    faults: Option<u64>,
    /// Cards join this network of the host, as programs do (`ggas net list` lists networks); it is created if it does not
    /// exist
    #[arg(long, value_name = "NAME")]
    network: Option<String>,
    /// Node of the first card in the network; further cards have the following nodes
    #[arg(long, value_name = "NODE", default_value_t = 0, requires = "network")]
    node: u16,
    /// End when standard input is closed
    #[arg(long)]
    until_eof: bool,
}

/// Memory of a GPU where nothing else is said, in MiB.
const GPU_MIB: u64 = 64;

#[derive(Clone, Default)]
struct Guest {
    nics: Vec<PathBuf>,
    gpus: Vec<(PathBuf, u64)>,
}

impl FromStr for Guest {
    type Err = String;

    fn from_str(text: &str) -> Result<Guest, String> {
        let mut guest = Guest::default();
        for device in text.split(',') {
            match device.split_once('=') {
                Some(("nic", path)) if !path.is_empty() => guest.nics.push(path.into()),
                Some(("gpu", path)) if !path.is_empty() => guest.gpus.push(gpu(path)?),
                _ => return Err(format!("`{device}` is neither nic=SOCKET nor gpu=SOCKET[:MiB]")),
            }
        }
        Ok(guest)
    }
}

fn gpu(text: &str) -> Result<(PathBuf, u64), String> {
    let Some((path, size)) = text.rsplit_once(':') else { return Ok((text.into(), GPU_MIB)) };
    let mib = size.parse::<u64>().ok().filter(|mib| mib.is_power_of_two() && *mib <= 1 << 20);
    Ok((path.into(), mib.ok_or(format!("`{size}` is no power of two of MiB"))?))
}

fn main() -> ExitCode {
    let asked = std::env::var("RUST_LOG").ok().and_then(|text| text.parse::<Targets>().ok());
    let filter = asked.unwrap_or(Targets::new().with_default(LevelFilter::ERROR));
    registry().with(fmt::layer().with_writer(std::io::stderr)).with(filter).init();
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("extoll-vm-server: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<()> {
    let nics: usize = cli.guests.iter().map(|guest| guest.nics.len()).sum();
    if nics == 0 {
        bail!("no guest has a card; give at least one nic=SOCKET");
    }
    let cards = u16::try_from(nics).context("too many cards")?;
    let mut places = places(cli, cards)?.into_iter();
    for guest in &cli.guests {
        let mut peers = Vec::new();
        for (path, mib) in &guest.gpus {
            let gpu = Gpu::new(mib << 20).context("no memory for the GPU")?;
            peers.push(gpu.bar());
            start(path, gpu)?;
        }
        for (path, place) in guest.nics.iter().zip(places.by_ref()) {
            let (Place { node, network, nodes }, peers) = (place, peers.clone());
            let Cli { msix, trouble, trap, network_state, .. } = *cli;
            start(
                path,
                Card::new(CardSetup { node, network, nodes, peers, msix, trouble, trap, network_state })?,
            )?;
        }
    }
    println!("ready");
    if cli.until_eof {
        // Whatever comes is of no interest.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        return Ok(());
    }
    loop {
        std::thread::park();
    }
}

/// Where a card is.
struct Place {
    node: u16,
    network: Arc<dyn Fabric>,
    nodes: Option<Arc<Nodes>>,
}

/// A place for each card: in a network of their own, or in one of the host, each as a member that has its node to itself.
fn places(cli: &Cli, cards: u16) -> Result<Vec<Place>> {
    let Some(name) = &cli.network else {
        let network =
            Network::new(Torus::new(cards.into(), 1, 1)?, cli.faults.map_or(Faults::none(), faults))?;
        return Ok((0..cards).map(|node| Place { node, network: network.clone(), nodes: None }).collect());
    };
    let place = |card: u16| {
        let node = cli.node.checked_add(card).context("node ids end at 65535")?;
        let member = Member::join_network(name, &NetworkShape::default(), node)?;
        let fabric = ProcessFabric::join(member)?;
        if !fabric.nodes().take_node() {
            bail!(
                "programs have ports on node {node} of network {name}: give the card a node of its own with --node"
            );
        }
        Ok(Place { node, nodes: Some(fabric.nodes().clone()), network: fabric })
    };
    (0..cards).map(place).collect()
}

/// What one packet in a hundred meets, of each kind.
fn faults(seed: u64) -> Faults {
    const RATE: f64 = 0.01;
    let some = Faults::none().seed(seed).drop(RATE).corrupt(RATE).duplicate(RATE).reorder(RATE);
    some.delay(RATE, Duration::from_micros(100))
}

/// Serves a device on a thread of its own, to the end of the process.
fn start(path: &Path, mut device: impl Device + Send + 'static) -> Result<()> {
    let server = listen(path, &device).with_context(|| format!("no socket at {}", path.display()))?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    std::thread::Builder::new().name(name).spawn(move || serve(&server, &mut device))?;
    Ok(())
}

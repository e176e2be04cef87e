//! `ggas card`: brings a card into its network, from a file that all nodes of a site share.

mod apply;
mod file;
mod routes;
mod show;
#[cfg(test)]
mod tests;

use crate::failure::Failure;
use crate::{out, registers};
use clap::{Args, Subcommand};
use extoll_abi::regs::*;
use file::Network;
use ggas_benches::Via;
use ggas_device::Device;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Bytes of the largest network file: hundreds for each of the most nodes.
const FILE_MAX: u64 = 4 << 20;

/// Differences that are printed.
const SHOWN: usize = 8;

#[derive(Args)]
pub struct CardArgs {
    #[command(subcommand)]
    command: CardCommand,
    /// Whose card: hw, or sim (a node of the network of the software EXTOLL that a program started here would join); else
    /// GGAS_DEVICE says it, else it is the card where there is one
    #[arg(long, value_name = "KIND", global = true)]
    via: Option<Via>,
    /// Which node of the network this is; else the file's [[node]] with this card's GUID or this host's name says it
    #[arg(long, value_name = "I", global = true)]
    node: Option<u16>,
}

#[derive(Subcommand)]
enum CardCommand {
    /// Node id, network state, links, multicast groups and system notifications of the card
    Show,
    /// Check a network file and print the nodes' links and routes; needs no card
    Plan {
        /// The network file
        file: PathBuf,
    },
    /// Set this node's card up as the file says, read it back, and say that the network is configured
    Apply {
        /// The network file
        file: PathBuf,
        /// Print what would be written, and write nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Compare this node's card and its links with the file; write nothing
    Verify {
        /// The network file
        file: PathBuf,
    },
    /// Say that the network is not configured: no port can be opened then
    Down,
}

pub fn run(args: &CardArgs) -> Result<(), Failure> {
    if let CardCommand::Plan { file } = &args.command {
        return plan(&load(file)?, args.node);
    }
    // Before the card is opened: a bad file touches none.
    let network = match &args.command {
        CardCommand::Apply { file, .. } | CardCommand::Verify { file } => Some(load(file)?),
        _ => None,
    };
    let device = registers::device(args.via, args.node)?;
    let device = &*device;
    match (&args.command, &network) {
        (CardCommand::Apply { dry_run, .. }, Some(network)) => {
            bring_up(device, network, which(device, network, args.node)?, *dry_run)
        }
        (CardCommand::Verify { .. }, Some(network)) => {
            verify(device, network, which(device, network, args.node)?)
        }
        (CardCommand::Down, _) => {
            apply::set_state(device, EXTOLL_NETWORK_UNCONFIGURED)?;
            out::print("network state 0: no port can be opened; those that are open stay\n")
        }
        _ => out::print(&show::text(device)?),
    }
}

fn load(path: &Path) -> Result<Network, Failure> {
    let text = ggas_files::read_to_string(path, FILE_MAX)
        .map_err(|error| Failure::Usage(format!("cannot read {}: {error}", path.display())))?;
    let network =
        Network::parse(&text).map_err(|why| Failure::Usage(format!("{}: {why}", path.display())))?;
    network.notes.iter().for_each(|note| out::note(&format!("{}: note: {note}\n", path.display())));
    Ok(network)
}

/// Which node of the file the card is.
fn which(device: &dyn Device, network: &Network, told: Option<u16>) -> Result<u16, Failure> {
    let node = match told {
        Some(node) => node,
        None => {
            let guid = INFO_GUID.get(apply::read(device, EXTOLL_RF_INFO_NODE)?);
            let host = nix::unistd::gethostname().unwrap_or_default();
            network.find(guid, &host.to_string_lossy()).map_err(Failure::Usage)?
        }
    };
    known(network, node)
}

fn known(network: &Network, node: u16) -> Result<u16, Failure> {
    match network.graph.index(node) {
        Some(_) => Ok(node),
        None => {
            Err(Failure::Usage(format!("no node {node} in the file: its ids are {}", network.graph.span())))
        }
    }
}

fn plan(network: &Network, only: Option<u16>) -> Result<(), Failure> {
    let nodes = match only {
        Some(node) => vec![known(network, node)?],
        None => network.graph.ids().to_vec(),
    };
    let mut text = String::new();
    for node in nodes {
        text.push_str(&node_plan(network, node));
    }
    if network.entries.is_none() {
        text.push_str(
            "routes are a plan only: the file has no [entries], the values of the card's route tables\n",
        );
    }
    out::print(&text)
}

/// A node's links, and by which it sends to whom.
fn node_plan(network: &Network, node: u16) -> String {
    let mut text = format!("node {node}\n");
    for port in 0..routes::LINKS {
        let Some(next) = network.graph.neighbour(node, port) else { continue };
        let ids = network.graph.ids().iter();
        let to: Vec<_> = ids
            .filter(|to| network.routes.port(&network.graph, node, **to) == Some(port))
            .map(u16::to_string)
            .collect();
        let to = if to.is_empty() { "nobody".to_owned() } else { to.join(" ") };
        let _ = writeln!(text, "  lp{port} to node {next}: {to}");
    }
    text
}

fn bring_up(device: &dyn Device, network: &Network, node: u16, dry_run: bool) -> Result<(), Failure> {
    let wishes = apply::wishes(network, node);
    if dry_run {
        let state = apply::state(device)?;
        let mut text = differences(&apply::differing(device, &wishes)?, "would become");
        let _ = writeln!(text, "network state is {state}, would become {EXTOLL_NETWORK_CONFIGURED}");
        text.push_str(&node_plan(network, node));
        return out::print(&text);
    }
    let written = apply::apply(device, &wishes)?;
    let mut text = match written {
        0 => format!("node {node}: nothing to do, the card is as the file says\n"),
        _ => format!("node {node}: {written} registers written and read back; network state 1\n"),
    };
    if network.entries.is_none() {
        text.push_str(
            "routes were not written: the file has no [entries], the values of the card's route tables\n",
        );
    }
    for why in cables(device, network, node)? {
        out::note(&format!("ggas: note: {why}\n"));
    }
    out::print(&text)
}

fn differences(differ: &[(&apply::Wish, u64)], word: &str) -> String {
    let mut text = String::new();
    for (wish, value) in differ.iter().take(SHOWN) {
        let shift = wish.mask.trailing_zeros();
        let (is, wanted) = ((value & wish.mask) >> shift, wish.value >> shift);
        let _ = writeln!(text, "{} is {is:#x}, {word} {wanted:#x}", wish.name);
    }
    if differ.len() > SHOWN {
        let _ = writeln!(text, "and {} more registers", differ.len() - SHOWN);
    }
    text
}

fn verify(device: &dyn Device, network: &Network, node: u16) -> Result<(), Failure> {
    let wishes = apply::wishes(network, node);
    let mut text = differences(&apply::differing(device, &wishes)?, "the file says");
    let state = apply::state(device)?;
    if state != EXTOLL_NETWORK_CONFIGURED {
        let _ = writeln!(text, "network state is {state}, not 1 (configured)");
    }
    for why in cables(device, network, node)? {
        let _ = writeln!(text, "{why}");
    }
    match text.is_empty() {
        true => out::print(&format!("node {node}: the card is as the file says\n")),
        false => Err(Failure::Failed(format!(
            "node {node} is not as the file says (ggas card apply sets registers, not cables):\n{}",
            text.trim_end()
        ))),
    }
}

/// Links that are not ready, or lead to another node than the file says.
fn cables(device: &dyn Device, network: &Network, node: u16) -> Result<Vec<String>, Failure> {
    let mut wrong = Vec::new();
    for port in 0..routes::LINKS {
        let Some(other) = network.graph.neighbour(node, port) else { continue };
        let at = EXTOLL_RF_LINK_STRIDE * port as u64;
        let ids = apply::read(device, EXTOLL_RF_LINK_IDS + at)?;
        let seen = LINK_REMOTE_NODE.get(ids);
        if !LINK_READY.is_set(apply::read(device, EXTOLL_RF_LINK_STATUS + at)?) {
            wrong.push(format!(
                "lp{port} to node {other} is not ready: look at the cable, and whether that node is on"
            ));
        } else if seen != u64::from(other) {
            wrong.push(format!(
                "lp{port} leads to node {seen}, in the file to node {other}: change the cable or the file, or bring \
                 that node up first"
            ));
        }
    }
    Ok(wrong)
}

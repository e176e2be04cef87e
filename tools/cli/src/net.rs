//! `ggas net`: networks of the model on this host.

use crate::failure::Failure;
use crate::out;
use clap::{Args, Subcommand, ValueEnum};
use ggas_device::sim::{Cables, Direction, Event};
use ggas_members::{DEFAULT_NETWORK, JobError, MEMBERS, NetworkInfo, NetworkShape};
use ggas_table::{Column, table};
use std::fmt::Write;

#[derive(Args)]
pub struct NetArgs {
    #[command(subcommand)]
    command: NetCommand,
}

#[derive(Subcommand)]
enum NetCommand {
    /// Make a network that stays until it is taken down, with members or without
    Up {
        /// Its name; without one, the network that programs join when nothing is said
        #[arg(default_value = DEFAULT_NETWORK)]
        name: String,
        /// Nodes in each direction of the torus, such as 4x2x2: up to 1,024 in all
        #[arg(long, value_name = "XxYxZ", default_value = "2x2x2", value_parser = torus)]
        torus: [u16; 3],
        /// Processes that it has room for at a time: up to 1,024
        #[arg(long, value_name = "N", default_value_t = MEMBERS)]
        members: u32,
        /// Links lose this part of all packets, which are then repeated: 0 to 0.9
        #[arg(long, value_name = "PART", value_parser = part)]
        drop: Option<f64>,
        /// Which packets: the same seed, the same losses
        #[arg(long, value_name = "NUMBER", requires = "drop", default_value_t = 0)]
        seed: u64,
    },
    /// Say which networks there are, and who is in them
    List,
    /// Take a link of the torus down or up, both ends, for all who are in the network
    Link {
        /// Node at one of its ends
        node: u16,
        /// Where the link leads from there: x+, x-, y+, y-, z+ or z-
        #[arg(value_parser = direction)]
        direction: Direction,
        /// What shall be
        state: State,
        /// Name of the network
        #[arg(default_value = DEFAULT_NETWORK)]
        name: String,
        /// Leave the route tables as they are: packets whose way is down wait. Else they are computed anew, and packets for
        /// nodes that no route reaches are thrown away
        #[arg(long)]
        keep_routes: bool,
    },
    /// Have a node die for good: packets for it and from it are thrown away, others go around it
    Kill {
        /// The node
        node: u16,
        /// Name of the network
        #[arg(default_value = DEFAULT_NETWORK)]
        name: String,
    },
    /// Let a network go: at once if nobody is in it, else with its last member
    Down {
        /// Its name
        #[arg(default_value = DEFAULT_NETWORK)]
        name: String,
    },
}

/// State of a link.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum State {
    Down,
    Up,
}

pub fn run(args: NetArgs) -> Result<(), Failure> {
    match args.command {
        NetCommand::Up { name, torus: [x, y, z], members, drop, seed } => {
            let faults = drop.map_or_else(String::new, |drop| format!("drop={drop},seed={seed}"));
            up(&name, (x, y, z), members, &faults)
        }
        NetCommand::List => list(),
        NetCommand::Link { node, direction, state, name, keep_routes } => {
            link(&name, node, direction, state, keep_routes)
        }
        NetCommand::Kill { node, name } => {
            happen(&cables(&name)?, Event::Kill(node))?;
            out::print(&format!("network {name}: node {node} is dead\n"))
        }
        NetCommand::Down { name } => down(&name),
    }
}

fn up(name: &str, (x, y, z): (u16, u16, u16), members: u32, faults: &str) -> Result<(), Failure> {
    let shape =
        NetworkShape::torus(x, y, z).and_then(|shape| shape.with_members(members)?.with_faults(faults));
    let shape = shape.map_err(|error| Failure::Usage(error.to_string()))?;
    let network = ggas_members::put_up(name, &shape).map_err(failure)?;
    let join = if name == DEFAULT_NETWORK {
        "programs join it when nothing else is said".to_owned()
    } else {
        format!("GGAS_NETWORK={name} ./program joins it")
    };
    out::print(&format!("network {name} is up: {shape}, in {}; {join}\n", network.path.display()))
}

fn cables(name: &str) -> Result<Cables, Failure> {
    Cables::of_network(name).map_err(failure)
}

fn happen(cables: &Cables, event: Event) -> Result<(), Failure> {
    cables.happen(event).map_err(|error| Failure::Usage(error.to_string()))
}

fn link(name: &str, node: u16, direction: Direction, state: State, keep_routes: bool) -> Result<(), Failure> {
    let cables = cables(name)?;
    let (event, what) = match state {
        State::Down => (Event::LinkDown(node, direction), "down"),
        State::Up => (Event::LinkUp(node, direction), "up"),
    };
    happen(&cables, event)?;
    if !keep_routes {
        happen(&cables, Event::Reroute)?;
    }
    let other = cables.torus().neighbour(node, direction).unwrap_or(node);
    let routes = if keep_routes { "routes are as they were" } else { "routes are computed anew" };
    out::print(&format!(
        "network {name}: the link of node {node} in {direction}, which is that of node {other} in {}, is {what}; {routes}\n",
        direction.opposite()
    ))
}

fn down(name: &str) -> Result<(), Failure> {
    let members = ggas_members::take_down(name).map_err(failure)?;
    let text = match members.as_slice() {
        [] => format!("network {name} is gone\n"),
        members => {
            let pids: Vec<String> = members.iter().map(|member| member.pid.to_string()).collect();
            let (count, pids) = (members.len(), pids.join(", "));
            format!("network {name} goes with its last member: {count} are in it (processes {pids})\n")
        }
    };
    out::print(&text)
}

fn list() -> Result<(), Failure> {
    let networks = ggas_members::networks().map_err(failure)?;
    if networks.is_empty() {
        return out::print(
            "no networks: a program makes one when it joins, and `ggas net up` one that stays\n",
        );
    }
    let [name, shape, stays] = ["network", "shape", "stays"].map(Column::text);
    let [down, who_is_there] = ["down", "node: processes"].map(Column::text);
    let columns = [name, shape, stays, Column::number("members"), down, who_is_there];
    let rows = networks.iter().map(|network| {
        let NetworkInfo { name, shape, standing, members, .. } = network;
        let shape = shape.as_ref().map_or("of another version of ggas".to_owned(), ToString::to_string);
        let stays = if *standing { "yes" } else { "no" };
        [name.clone(), shape, stays.to_owned(), members.len().to_string(), broken(name), who(network)]
    });
    out::print(&format!("{}\n", table(&columns, rows)))
}

/// Links that are down, by the end from which they lead towards larger coordinates, and dead nodes.
fn broken(name: &str) -> String {
    let Ok(Some(cables)) = Cables::look(name) else { return "-".to_owned() };
    let (torus, broken) = (cables.torus(), cables.broken());
    let links =
        torus.ids().flat_map(|node| Direction::ALL.into_iter().step_by(2).map(move |link| (node, link)));
    let links = links.filter(|(node, link)| broken.is_down(torus, *node, *link));
    let links = links.map(|(node, link)| format!("{node}{link}"));
    let nodes = torus.ids().filter(|node| broken.is_dead(*node)).map(|node| format!("node {node}"));
    let down: Vec<String> = links.chain(nodes).collect();
    if down.is_empty() { "-".to_owned() } else { down.join(", ") }
}

/// Nodes with members, and their processes.
fn who(network: &NetworkInfo) -> String {
    let mut members = network.members.clone();
    members.sort_by_key(|member| (member.node, member.pid));
    let mut text = String::new();
    for nodes in members.chunk_by(|a, b| a.node == b.node) {
        let pids: Vec<String> = nodes.iter().map(|member| member.pid.to_string()).collect();
        let between = if text.is_empty() { "" } else { "  " };
        let _ = write!(text, "{between}{}: {}", nodes[0].node, pids.join(" "));
    }
    text
}

fn torus(text: &str) -> Result<[u16; 3], String> {
    let sizes: Option<Vec<u16>> =
        text.split('x').map(|size| size.parse().ok().filter(|size| *size > 0)).collect();
    let sizes = sizes.and_then(|sizes| sizes.try_into().ok());
    sizes.ok_or_else(|| "give three numbers above 0, such as 4x2x2".to_owned())
}

fn direction(text: &str) -> Result<Direction, String> {
    let found = Direction::ALL.into_iter().find(|direction| direction.to_string() == text);
    found.ok_or_else(|| "give x+, x-, y+, y-, z+ or z-".to_owned())
}

fn part(text: &str) -> Result<f64, String> {
    let part = text.parse().ok().filter(|part| (0.0..=0.9).contains(part));
    part.ok_or_else(|| "give a part of all packets, 0 to 0.9".to_owned())
}

fn failure(error: JobError) -> Failure {
    match error {
        JobError::Setting { .. } | JobError::NetworkName { .. } => Failure::Usage(error.to_string()),
        error => Failure::Failed(error.to_string()),
    }
}

//! The network file: what the nodes are, and how they are wired. Every node of a site reads the same one.

use super::routes::{Graph, LINKS, Routes};
use ggas_device::sim::{Direction, Torus};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// Nodes of one local route table (spec 8.2). What the global tables hold is not told, so this is also the most nodes here.
pub const NODES: usize = 1024;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    torus: Option<[u32; 3]>,
    #[serde(default)]
    link: Vec<Link>,
    #[serde(default)]
    node: Vec<Node>,
    entries: Option<Entries>,
    /// Routes that wait for each other in a circle are taken, too.
    #[serde(default)]
    circles: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Link {
    /// Node and link port at both ends.
    ends: [[u16; 2]; 2],
}

/// How a node knows which one it is.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Node {
    pub id: u16,
    pub host: Option<String>,
    pub guid: Option<u64>,
}

/// Values of route table entries, which the specification does not tell: the site takes them from its card's manual.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Entries {
    /// Of the node itself.
    pub host: u64,
    /// Of link port 0, 1, ...
    pub links: Vec<u64>,
    /// Of nodes that are not there.
    pub discard: u64,
}

/// A network that was checked.
#[derive(Debug)]
pub struct Network {
    pub graph: Graph,
    pub routes: Routes,
    pub nodes: Vec<Node>,
    pub entries: Option<Entries>,
    /// What is worth saying, though not wrong.
    pub notes: Vec<String>,
}

impl Network {
    /// Reads and checks a file's text. The error says what to change.
    pub fn parse(text: &str) -> Result<Network, String> {
        let text: Text = toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
        let (graph, routes) = match (text.torus, text.link.as_slice()) {
            (Some(_), [_, ..]) => return Err("give either `torus` or `[[link]]`, not both".into()),
            (None, []) => {
                return Err("no network: give `torus = [X, Y, Z]`, or a `[[link]]` for each cable".into());
            }
            (Some(sides), []) => torus(sides)?,
            (None, links) => {
                let graph = wired(links)?;
                let routes = Routes::shortest(&graph);
                (graph, routes)
            }
        };
        named(&graph, &text.node)?;
        if let Some((from, to)) = routes.unreachable(&graph) {
            return Err(format!(
                "node {to} is not reached from node {from}: add the cables that lead there, or describe two networks"
            ));
        }
        let mut notes = Vec::new();
        match routes.circle(&graph) {
            None => {}
            // Within a ring every torus has them; a card of a torus has to have a remedy of its own.
            Some(circle) if text.circles || text.torus.is_some() => notes.push(format!(
                "routes can wait for each other in a circle ({circle}); the specification does not say how the card's \
                 links prevent this"
            )),
            Some(circle) => {
                return Err(format!(
                    "routes can wait for each other in a circle ({circle}): leave a cable of it out, or say \
                     `circles = true` if the card's links prevent this"
                ));
            }
        }
        check_entries(&graph, text.entries.as_ref())?;
        Ok(Network { graph, routes, nodes: text.node, entries: text.entries, notes })
    }

    /// The node that has this GUID, or this name.
    pub fn find(&self, guid: u64, host: &str) -> Result<u16, String> {
        let by_guid = self.nodes.iter().find(|node| node.guid == Some(guid));
        let node = by_guid.or_else(|| self.nodes.iter().find(|node| node.host.as_deref() == Some(host)));
        node.map(|node| node.id).ok_or_else(|| {
            format!(
                "no [[node]] of the file has guid {guid:#x} or host {host:?}: add one, or say which node this is by --node"
            )
        })
    }
}

fn torus(sides: [u32; 3]) -> Result<(Graph, Routes), String> {
    let [x, y, z] = sides;
    let torus = Torus::new(x, y, z).map_err(|error| format!("torus: {error}"))?;
    if torus.len() > NODES {
        return Err(format!(
            "a torus of {} nodes: more than {NODES} need the card's tables for groups of nodes, whose use the \
             specification does not tell; describe a smaller one",
            torus.len()
        ));
    }
    let mut graph = Graph::new(torus.ids().collect());
    for id in torus.ids() {
        for direction in Direction::ALL {
            if let Some(other) = torus.neighbour(id, direction) {
                graph.connect((id, direction.index()), (other, direction.opposite().index()));
            }
        }
    }
    let routes = Routes::of(&graph, |from, to| {
        let step = torus.step(torus.position(from)?, torus.position(to)?)?;
        Some(step.index() as u8)
    });
    Ok((graph, routes))
}

fn wired(links: &[Link]) -> Result<Graph, String> {
    let mut used = BTreeMap::new();
    for (i, link) in links.iter().enumerate() {
        let [[a, _], [b, _]] = link.ends;
        if a == b {
            return Err(format!("link {i} leads from node {a} to itself: name two nodes"));
        }
        for [node, port] in link.ends {
            if usize::from(port) >= LINKS {
                return Err(format!("link {i}: node {node} has no link port {port}, use 0 to {}", LINKS - 1));
            }
            if usize::from(node) >= NODES {
                return Err(format!("link {i}: node id {node}, use 0 to {}", NODES - 1));
            }
            if let Some(first) = used.insert((node, port), i) {
                return Err(format!(
                    "links {first} and {i} both take port {port} of node {node}: a port has one cable"
                ));
            }
        }
    }
    let ids: BTreeSet<u16> = used.keys().map(|(node, _)| *node).collect();
    let mut graph = Graph::new(ids.into_iter().collect());
    for link in links {
        let [a, b] = link.ends.map(|[node, port]| (node, usize::from(port)));
        graph.connect(a, b);
        graph.connect(b, a);
    }
    Ok(graph)
}

/// Each id, GUID and host once, and all of them nodes of the network.
fn named(graph: &Graph, nodes: &[Node]) -> Result<(), String> {
    let (mut ids, mut hosts, mut guids) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for node in nodes {
        if graph.index(node.id).is_none() {
            return Err(format!(
                "[[node]] {}: the network has no such node; its ids are {}",
                node.id,
                graph.span()
            ));
        }
        if !ids.insert(node.id) {
            return Err(format!("[[node]] {} is there twice: give each node an id of its own", node.id));
        }
        if let Some(host) = &node.host
            && !hosts.insert(host)
        {
            return Err(format!("host {host:?} is there twice: tell its cards apart by guid"));
        }
        if let Some(guid) = node.guid
            && !guids.insert(guid)
        {
            return Err(format!("guid {guid:#x} is there twice: every card has its own"));
        }
    }
    Ok(())
}

fn check_entries(graph: &Graph, entries: Option<&Entries>) -> Result<(), String> {
    let Some(entries) = entries else { return Ok(()) };
    let needed = graph.ports();
    if entries.links.len() < needed || entries.links.len() > LINKS {
        return Err(format!(
            "[entries] links: give the values of {needed} to {LINKS} link ports, from port 0 on"
        ));
    }
    let mut all = BTreeSet::from([entries.host, entries.discard]);
    let distinct = entries.links.iter().all(|value| all.insert(*value));
    match distinct && entries.host != entries.discard {
        true => Ok(()),
        false => Err("[entries] has a value twice: host, discard and each link need their own".into()),
    }
}

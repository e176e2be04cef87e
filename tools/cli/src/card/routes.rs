//! Nodes, cables, and the link by which each node sends to each other.

/// Link ports of a card (spec 1.3).
pub const LINKS: usize = extoll_abi::regs::EXTOLL_RF_LINKS as usize;
/// In place of a link port: no route.
const NONE: u8 = u8::MAX;

/// Which port leads to which.
#[derive(Debug)]
pub struct Graph {
    /// Ascending.
    ids: Vec<u16>,
    /// For each node, where its links lead.
    links: Vec<[Option<u16>; LINKS]>,
}

impl Graph {
    /// Nodes without cables; `ids` ascend.
    pub fn new(ids: Vec<u16>) -> Graph {
        let links = vec![[None; LINKS]; ids.len()];
        Graph { ids, links }
    }

    /// One direction of a cable.
    pub fn connect(&mut self, (from, port): (u16, usize), (to, _): (u16, usize)) {
        if let Some(index) = self.index(from) {
            self.links[index][port] = Some(to);
        }
    }

    /// Place of a node among the ids.
    pub fn index(&self, id: u16) -> Option<usize> {
        self.ids.binary_search(&id).ok()
    }

    /// Ids of all nodes, ascending.
    pub fn ids(&self) -> &[u16] {
        &self.ids
    }

    /// Where a link of a node leads.
    pub fn neighbour(&self, id: u16, port: usize) -> Option<u16> {
        self.links[self.index(id)?][port]
    }

    /// The ids as people read them.
    pub fn span(&self) -> String {
        format!("{} to {}", self.ids.first().unwrap_or(&0), self.ids.last().unwrap_or(&0))
    }

    /// Link ports that are in use: all below this.
    pub fn ports(&self) -> usize {
        let last =
            |links: &[Option<u16>; LINKS]| links.iter().rposition(Option::is_some).map_or(0, |port| port + 1);
        self.links.iter().map(last).max().unwrap_or(0)
    }
}

/// The link port by which each node sends to each node.
#[derive(Debug)]
pub struct Routes {
    nodes: usize,
    /// By index of the target, then of the node.
    ports: Vec<u8>,
}

impl Routes {
    /// Routes that a rule makes: from, to, the port.
    pub fn of(graph: &Graph, rule: impl Fn(u16, u16) -> Option<u8>) -> Routes {
        let pairs = graph.ids.iter().flat_map(|to| graph.ids.iter().map(move |from| (*from, *to)));
        let ports = pairs.map(|(from, to)| rule(from, to).unwrap_or(NONE)).collect();
        Routes { nodes: graph.ids.len(), ports }
    }

    /// Fewest cables; of several ways the lowest port.
    pub fn shortest(graph: &Graph) -> Routes {
        let nodes = graph.ids.len();
        let mut ports = vec![NONE; nodes * nodes];
        for target in 0..nodes {
            let mut distance = vec![usize::MAX; nodes];
            distance[target] = 0;
            let mut queue = std::collections::VecDeque::from([target]);
            // Cables lead both ways, so that the way out is the way back.
            while let Some(at) = queue.pop_front() {
                for next in graph.links[at].iter().flatten().filter_map(|id| graph.index(*id)) {
                    if distance[next] == usize::MAX {
                        distance[next] = distance[at] + 1;
                        queue.push_back(next);
                    }
                }
            }
            for from in (0..nodes).filter(|from| *from != target && distance[*from] != usize::MAX) {
                let nearer = |to: &Option<u16>| {
                    to.and_then(|id| graph.index(id)).is_some_and(|next| distance[next] < distance[from])
                };
                let port = graph.links[from].iter().position(nearer);
                ports[target * nodes + from] = port.map_or(NONE, |port| port as u8);
            }
        }
        Routes { nodes, ports }
    }

    /// The link port by which a node sends to another; `None` to itself, and without a route.
    pub fn port(&self, graph: &Graph, from: u16, to: u16) -> Option<usize> {
        self.step(graph.index(from)?, graph.index(to)?)
    }

    fn step(&self, from: usize, to: usize) -> Option<usize> {
        let port = self.ports[to * self.nodes + from];
        (port != NONE).then_some(usize::from(port))
    }

    /// A pair of nodes without a route.
    pub fn unreachable(&self, graph: &Graph) -> Option<(u16, u16)> {
        let mut pairs = (0..self.nodes).flat_map(|to| (0..self.nodes).map(move |from| (from, to)));
        let (from, to) = pairs.find(|(from, to)| from != to && self.step(*from, *to).is_none())?;
        Some((graph.ids[from], graph.ids[to]))
    }

    /// Links that can wait for each other in a circle, in words: a packet holds one link while it waits for the next.
    pub fn circle(&self, graph: &Graph) -> Option<String> {
        let waits = self.waits(graph);
        let links = waits.len();
        // 0 not seen, 1 on the way, 2 done.
        let mut seen = vec![0u8; links];
        for start in 0..links {
            let mut path = vec![(start, 0usize)];
            if seen[start] != 0 {
                continue;
            }
            seen[start] = 1;
            while let Some((at, port)) = path.last_mut() {
                if *port == LINKS {
                    seen[*at] = 2;
                    path.pop();
                    continue;
                }
                let (link, tried) = (*at, *port);
                *port += 1;
                let Some(next) = (waits[link] >> tried & 1 == 1).then(|| end(graph, link)).flatten() else {
                    continue;
                };
                let next = next * LINKS + tried;
                match seen[next] {
                    0 => {
                        seen[next] = 1;
                        path.push((next, 0));
                    }
                    1 => return Some(words(graph, &path, next)),
                    _ => {}
                }
            }
        }
        None
    }

    /// For each link of each node, by which links of the node at its end packets go on.
    fn waits(&self, graph: &Graph) -> Vec<u8> {
        let mut waits = vec![0; self.nodes * LINKS];
        for to in 0..self.nodes {
            for from in 0..self.nodes {
                let Some(port) = self.step(from, to) else { continue };
                let link = from * LINKS + port;
                if let Some(next) = end(graph, link).and_then(|middle| self.step(middle, to)) {
                    waits[link] |= 1 << next;
                }
            }
        }
        waits
    }
}

/// Index of the node at the end of a link.
fn end(graph: &Graph, link: usize) -> Option<usize> {
    graph.links[link / LINKS][link % LINKS].and_then(|id| graph.index(id))
}

fn words(graph: &Graph, path: &[(usize, usize)], first: usize) -> String {
    let circle = path.iter().map(|(link, _)| *link).skip_while(|link| *link != first);
    let names: Vec<_> =
        circle.map(|link| format!("node {} lp{}", graph.ids[link / LINKS], link % LINKS)).collect();
    match names.as_slice() {
        [a, b, c, .., z] if names.len() > 6 => format!("{a}, {b}, {c}, ..., {z}"),
        _ => names.join(", "),
    }
}

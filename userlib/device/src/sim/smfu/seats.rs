//! Whose the parts of a window are, where nodes have several processes.

use std::collections::HashMap;

use super::Node;
use crate::SmfuMap;

/// Where this process is among those that have parts.
pub(super) struct Seats {
    /// Of the parts of each node, in their order, which one this is.
    pub(super) of_parts: Box<[u8]>,
    /// The same of this process's part.
    pub(super) own: u8,
    /// This process's part.
    pub(super) part: usize,
    /// Its node has several.
    pub(super) shared: bool,
}

impl Seats {
    /// Of a node that is there several times, the parts are of its processes in the order of their ranks.
    pub(super) fn new(node: &Node, map: &SmfuMap) -> Result<Seats, String> {
        let nodes = node.peers.nodes();
        let mut parts = HashMap::new();
        let mut seat_of = |id: &u16| {
            let (parts, most) =
                (parts.entry(*id).or_insert(0), nodes.map_or(1, |nodes| nodes.smfu_seats(*id)));
            *parts += 1;
            match *parts > most {
                true => Err(format!(
                    "node {id} has {parts} parts or more, and room for {most}: a rank of a job has one each"
                )),
                false => Ok((*parts - 1) as u8),
            }
        };
        let of_parts = map.nodes.iter().map(&mut seat_of).collect::<Result<Box<[u8]>, _>>()?;
        let id = node.nic.node();
        let shared = parts.get(&id).is_some_and(|parts| *parts > 1);
        let own = if shared { nodes.and_then(|nodes| nodes.smfu_own_seat()) } else { Some(0) };
        let is_own = |part: &usize| map.nodes[*part] == id && Some(of_parts[*part]) == own;
        match (0..of_parts.len()).find(is_own) {
            Some(part) => Ok(Seats { own: of_parts[part], of_parts, part, shared }),
            None if shared => Err(format!(
                "node {id} has several parts, and none is for this process: there is one for each rank"
            )),
            None => Err(format!("none of its parts is of node {id}")),
        }
    }
}

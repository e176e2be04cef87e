//! Shapes: of a network (nodes, torus, room for members), and of a job (processes, and on which nodes they are).

use std::ops::Range;

/// Most processes of a job.
pub const PROCESSES_MAX: u32 = 1024;

/// Processes and their placement: rank r is on node `r / per_node`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    processes: u32,
    per_node: u32,
}

/// Why a shape of a job or a network is invalid.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// Too few or too many processes.
    #[error("a job has 1 to {PROCESSES_MAX} processes, not {0}")]
    Processes(u32),
    /// No process on a node.
    #[error("a node has at least one process; give 1 or more processes per node")]
    PerNode,
    /// Too few or too many nodes.
    #[error("a network between processes has 1 to {NODES_MAX} nodes, not {0}")]
    Nodes(u64),
    /// Room for too few or too many members.
    #[error("a network has room for 1 to {PROCESSES_MAX} members, not {0}")]
    Members(u32),
    /// The description of faults is too long.
    #[error("faults are described in at most {FAULTS_MAX} bytes, not {0}")]
    Faults(usize),
}

ggas_errors::debug_as_display!(ShapeError);

impl Shape {
    /// `processes` ranks, `per_node` of them on each node but perhaps the last.
    ///
    /// # Errors
    /// [`ShapeError`].
    pub fn new(processes: u32, per_node: u32) -> Result<Shape, ShapeError> {
        if !(1..=PROCESSES_MAX).contains(&processes) {
            return Err(ShapeError::Processes(processes));
        }
        if per_node == 0 {
            return Err(ShapeError::PerNode);
        }
        Ok(Shape { processes, per_node: per_node.min(processes) })
    }

    /// Processes of the job.
    pub fn processes(self) -> u32 {
        self.processes
    }

    /// Processes of each node; the last node may have fewer.
    pub fn per_node(self) -> u32 {
        self.per_node
    }

    /// Nodes of the job; their ids are 0, 1, ...
    pub fn nodes(self) -> u32 {
        self.processes.div_ceil(self.per_node)
    }

    /// Node of a rank.
    pub fn node_of(self, rank: u32) -> u16 {
        (rank / self.per_node) as u16
    }

    /// Ranks on a node; none for nodes that do not exist.
    pub fn ranks_of(self, node: u16) -> Range<u32> {
        let first = u32::from(node).saturating_mul(self.per_node).min(self.processes);
        first..first.saturating_add(self.per_node).min(self.processes)
    }
}

/// Most nodes of a network between processes.
pub const NODES_MAX: u32 = 1024;
/// Room for members where nobody says otherwise.
pub const MEMBERS: u32 = 256;
/// Members of a job's network beyond its ranks: what these start, and programs that run beside each other as one rank.
const GUESTS: u32 = 16;
/// Longest description of faults.
pub(crate) const FAULTS_MAX: usize = 120;

/// Shape of a network; the process that creates the network sets it once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkShape {
    torus: [u16; 3],
    nodes: u32,
    members: u32,
    ranks: Option<Shape>,
    faults: String,
}

impl Default for NetworkShape {
    /// A torus of 2x2x2 nodes without faults.
    fn default() -> NetworkShape {
        NetworkShape { torus: [2, 2, 2], nodes: 8, members: MEMBERS, ranks: None, faults: String::new() }
    }
}

impl NetworkShape {
    /// A torus of so many nodes in each direction.
    ///
    /// # Errors
    /// [`ShapeError::Nodes`].
    pub fn torus(x: u16, y: u16, z: u16) -> Result<NetworkShape, ShapeError> {
        let nodes = u64::from(x) * u64::from(y) * u64::from(z);
        if !(1..=u64::from(NODES_MAX)).contains(&nodes) {
            return Err(ShapeError::Nodes(nodes));
        }
        Ok(NetworkShape { torus: [x, y, z], nodes: nodes as u32, ..NetworkShape::default() })
    }

    /// Nodes in a row, as many as the job needs, with room for its processes, and for some that they start.
    pub fn of_job(ranks: Shape) -> NetworkShape {
        let nodes = ranks.nodes();
        let members = (ranks.processes() + GUESTS).min(PROCESSES_MAX);
        NetworkShape {
            torus: [nodes as u16, 1, 1],
            nodes,
            members,
            ranks: Some(ranks),
            faults: String::new(),
        }
    }

    /// Room for so many members at a time.
    ///
    /// # Errors
    /// [`ShapeError::Members`].
    pub fn with_members(self, members: u32) -> Result<NetworkShape, ShapeError> {
        if !(1..=PROCESSES_MAX).contains(&members) {
            return Err(ShapeError::Members(members));
        }
        Ok(NetworkShape { members, ..self })
    }

    /// Faults of the network's links, in the transport's syntax; empty: none.
    ///
    /// # Errors
    /// [`ShapeError::Faults`] where they are too long.
    pub fn with_faults(self, faults: &str) -> Result<NetworkShape, ShapeError> {
        if faults.len() > FAULTS_MAX {
            return Err(ShapeError::Faults(faults.len()));
        }
        Ok(NetworkShape { faults: faults.into(), ..self })
    }

    /// Nodes; their ids are 0, 1, ...
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    /// Nodes in each direction.
    pub fn dimensions(&self) -> [u16; 3] {
        self.torus
    }

    /// Number of members that the network has room for.
    pub fn members(&self) -> u32 {
        self.members
    }

    /// Slots of the ranks of the network's job; empty in a network of no job.
    pub fn rank_slots(&self) -> Range<u32> {
        0..self.ranks.map_or(0, Shape::processes)
    }

    /// The shape of the network's job, if there is one.
    pub fn ranks(&self) -> Option<Shape> {
        self.ranks
    }

    /// See [`NetworkShape::with_faults`].
    pub fn faults(&self) -> &str {
        &self.faults
    }
}

impl std::fmt::Display for NetworkShape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [x, y, z] = self.torus;
        write!(f, "torus {x}x{y}x{z}")?;
        if let Some(ranks) = self.ranks {
            write!(f, ", job of {}, {} on each node", ranks.processes(), ranks.per_node())?;
        } else if self.members != MEMBERS {
            write!(f, ", room for {}", self.members)?;
        }
        if self.faults.is_empty() { Ok(()) } else { write!(f, ", faults {}", self.faults) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_that_differ_read_differently() {
        let plain = NetworkShape::default();
        let few = plain.clone().with_members(7).unwrap();
        let faulty = plain.clone().with_faults("0-1 down").unwrap();
        let job = NetworkShape::of_job(Shape::new(8, 4).unwrap());
        let said: Vec<String> = [plain, few, faulty, job].iter().map(ToString::to_string).collect();
        let want = ["torus 2x2x2", "torus 2x2x2, room for 7", "torus 2x2x2, faults 0-1 down"];
        assert_eq!(said[..3], want);
        assert_eq!(said[3], "torus 2x1x1, job of 8, 4 on each node");
    }

    #[test]
    fn every_rank_is_on_its_node() {
        for (processes, per_node) in [(1, 1), (4, 2), (5, 2), (3, 8), (1024, 1), (1024, 7)] {
            let shape = Shape::new(processes, per_node).unwrap();
            let ranks: Vec<u32> = (0..shape.nodes() as u16).flat_map(|n| shape.ranks_of(n)).collect();
            assert_eq!(ranks, (0..processes).collect::<Vec<u32>>());
            assert!(ranks.iter().all(|r| shape.ranks_of(shape.node_of(*r)).contains(r)));
            assert!(shape.ranks_of(shape.nodes() as u16).is_empty() && shape.ranks_of(u16::MAX).is_empty());
        }
        assert_eq!(Shape::new(0, 1), Err(ShapeError::Processes(0)));
        assert_eq!(Shape::new(1025, 1), Err(ShapeError::Processes(1025)));
        assert_eq!(Shape::new(2, 0), Err(ShapeError::PerNode));
    }
}

//! How many processes a job has, and on which nodes they are.

use std::ops::Range;

/// Most processes of a job.
pub const PROCESSES_MAX: u32 = 1024;

/// Processes and their placement: rank r is on node `r / per_node`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    processes: u32,
    per_node: u32,
}

/// A job that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// Too few or too many processes.
    #[error("a job has 1 to {PROCESSES_MAX} processes, not {0}")]
    Processes(u32),
    /// No process on a node.
    #[error("a node has at least one process; give 1 or more processes per node")]
    PerNode,
}

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

#[cfg(test)]
mod tests {
    use super::*;

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

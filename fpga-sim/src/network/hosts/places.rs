//! Which process serves an address, where nobody can look that up: between hosts.

use extoll_abi::Address;
use ggas_members::Shape;

/// The processes of a network of hosts, numbered in the order of their nodes. Where a node has several, they have its VPIDs by
/// turns, so an address says which of them it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    processes: u16,
    per_node: u16,
}

impl Places {
    /// A process on each node.
    pub fn alone(nodes: usize) -> Places {
        Places { processes: nodes as u16, per_node: 1 }
    }

    /// The ranks of a job.
    pub fn of_job(shape: Shape) -> Places {
        Places { processes: shape.processes() as u16, per_node: shape.per_node() as u16 }
    }

    pub fn processes(self) -> usize {
        usize::from(self.processes)
    }

    #[inline]
    pub fn node(self, process: u16) -> u16 {
        if self.per_node == 1 { process } else { process / self.per_node }
    }

    /// The processes of a node.
    pub fn on(self, node: u16) -> std::ops::Range<u16> {
        let first = u32::from(node) * u32::from(self.per_node);
        let end = (first + u32::from(self.per_node)).min(self.processes.into());
        first.min(end) as u16..end as u16
    }

    /// The process that serves an address; no process has this number where there is none.
    #[inline]
    pub fn process(self, at: Address) -> u16 {
        if self.per_node == 1 {
            return at.node;
        }
        let on = self.on(at.node);
        match on.len() as u16 {
            0 => u16::MAX,
            here => on.start + u16::from(at.vpid) % here,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_is_of_one_process() {
        let places = Places::of_job(Shape::new(8, 3).unwrap());
        let at = |node, vpid| places.process(Address::new(node, vpid));
        assert_eq!([at(0, 0), at(0, 1), at(0, 2), at(0, 3), at(1, 255)], [0, 1, 2, 0, 3]);
        // The last node has two.
        assert_eq!([at(2, 0), at(2, 1), at(2, 2)], [6, 7, 6]);
        assert_eq!([at(3, 0), at(u16::MAX, 9)], [u16::MAX; 2]);
        assert_eq!([places.node(5), places.node(6), places.node(7)], [1, 2, 2]);
        assert_eq!((places.on(2), places.on(3).len()), (6..8, 0));
        let alone = Places::alone(4);
        assert_eq!([alone.process(Address::new(3, 7)), alone.node(3)], [3, 3]);
        assert_eq!(alone.on(2), 2..3);
    }
}

//! Processes that served ports and are gone.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// How a process ended its part in a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PeerEnd {
    /// It left in order: it had closed what it opened.
    Left,
    /// It died, or was killed.
    Lost,
    /// Another process has its place in the network by now: how it ended is no longer known.
    Replaced,
}

/// A process of the network that is gone, and the ports with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LostPeer {
    /// Its rank in the job, or its number among the members of the network: no process id.
    pub rank: u32,
    /// Its node.
    pub node: u16,
    /// The port that was asked for; `None`: the whole node was, and none of its processes is left.
    pub vpid: Option<u8>,
    /// How it ended.
    pub end: PeerEnd,
}

impl fmt::Display for LostPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rank, node, vpid, end } = *self;
        write!(f, "node {node}")?;
        if let Some(vpid) = vpid {
            write!(f, " vpid {vpid}")?;
        }
        match end {
            PeerEnd::Left => {
                write!(f, " is gone: member {rank} has left the network; have it stay until all are done")
            }
            PeerEnd::Lost => write!(f, " is lost: member {rank} died; go on without it"),
            PeerEnd::Replaced => {
                write!(f, " is gone: another process is member {rank} by now; go on without it")
            }
        }
    }
}

/// Counts the processes that have left the network or were lost, so that whoever posts or waits need not ask about
/// its peer while all are there. Counts nothing where all ports are served by this process.
#[derive(Clone, Debug, Default)]
pub struct Departures([Option<Arc<AtomicU32>>; 2]);

impl Departures {
    /// A count that a fabric keeps.
    pub fn new(count: Arc<AtomicU32>) -> Departures {
        Departures([Some(count), None])
    }

    /// The counts of two fabrics that a node is part of.
    pub fn both(one: Arc<AtomicU32>, other: Arc<AtomicU32>) -> Departures {
        Departures([Some(one), Some(other)])
    }

    /// How many processes are gone. What they sent before is not waited for.
    #[inline]
    pub fn count(&self) -> u32 {
        let count =
            |count: &Option<Arc<AtomicU32>>| count.as_ref().map_or(0, |count| count.load(Ordering::Acquire));
        count(&self.0[0]).wrapping_add(count(&self.0[1]))
    }
}

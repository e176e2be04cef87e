//! Windows and groups that the GGAS benchmarks set up.

use std::sync::Arc;

use ggas_coll::{Group, GroupConfig};
use ggas_window::Window;

use crate::BenchError;
use crate::error::Doing;
use crate::setup::Setup;

/// A window over all nodes, with a group behind the benchmark's own bytes of each part.
pub(crate) struct Space {
    pub window: Arc<Window>,
    pub group: Group,
}

impl Space {
    /// With `bytes` of each part for the benchmark and groups that exchange up to `exchange` bytes at a time.
    pub fn new(setup: &Setup, bytes: usize, exchange: usize) -> Result<Self, BenchError> {
        Self::for_blocks(setup, bytes, exchange, 0)
    }

    /// The same for collectives over packets by grids of so many blocks.
    pub fn for_blocks(setup: &Setup, bytes: usize, exchange: usize, blocks: u32) -> Result<Self, BenchError> {
        let usual = GroupConfig::default();
        let config = GroupConfig {
            packed_channels: usual.packed_channels.max(blocks as usize),
            offset: bytes.next_multiple_of(256),
            slot_bytes: exchange.next_multiple_of(256).clamp(4096, 1 << 20),
            timeout: setup.options.timeout,
            ..usual
        };
        let nodes = setup.options.nodes as usize;
        let end = config.end(nodes).doing("laying out the window")?;
        let window = window(setup, end)?;
        let group = match setup.job() {
            None => Group::new(window.clone(), &config),
            Some(job) => Group::across(job, window.clone(), &config),
        };
        let group = group.doing("making a group of the nodes")?;
        Ok(Self { window, group })
    }

    /// Address of the group's structure for kernels of `node`.
    pub fn group_of(&self, node: u32) -> Result<u64, BenchError> {
        Ok(self.group.member(node as usize).doing("choosing a member")?.address())
    }

    /// Address of the window's structure for kernels of `node`.
    pub fn window_of(&self, node: u32) -> Result<u64, BenchError> {
        window_of(&self.window, node)
    }

    /// Fails if a collective did.
    pub fn check(&self) -> Result<(), BenchError> {
        self.group.check().doing("running collectives")
    }
}

/// A window of `bytes` of every node.
pub(crate) fn window(setup: &Setup, bytes: usize) -> Result<Arc<Window>, BenchError> {
    let timeout = setup.options.timeout;
    let window = match setup.job() {
        None => {
            let member = |node| Ok((setup.node(node)?, setup.processor(node)));
            let members = setup.local().map(member).collect::<Result<Vec<_>, BenchError>>()?;
            Window::with_timeout(&members, bytes, timeout)
        }
        Some(job) => {
            let own = setup.local().start;
            Window::across(job, setup.node(own)?, setup.processor(own), bytes, timeout)
        }
    };
    let window = window.doing("making a window")?;
    match &window.info().mapped {
        Ok(_) => Ok(Arc::new(window)),
        Err(reason) => Err(BenchError::Unsupported(format!(
            "kernels cannot reach the other nodes by pointers: {reason}"
        ))),
    }
}

/// Address of the window's structure for kernels of `node`.
pub(crate) fn window_of(window: &Window, node: u32) -> Result<u64, BenchError> {
    Ok(window.member(node as usize).doing("choosing a member")?.address())
}

//! Windows and groups that the GGAS benchmarks set up.

use std::sync::Arc;

use ggas_coll::{Group, GroupConfig};
use ggas_window::Window;

use crate::error::Doing;
use crate::setup::Setup;
use crate::{BenchError, Device, Options};

/// A window over all nodes, with a group behind the benchmark's own bytes of each part.
pub(crate) struct Space {
    pub window: Arc<Window>,
    pub group: Group,
}

/// Most bytes of groups of all nodes in one process. Beyond, fewer nodes are the advice: memory grows with their square.
const MOST: usize = 2 << 30;

impl Space {
    /// With `bytes` of each part for the benchmark and groups that exchange up to `exchange` bytes at a time; 0: only
    /// nodes that meet.
    pub fn new(setup: &Setup, bytes: usize, exchange: usize) -> Result<Self, BenchError> {
        Self::for_blocks(setup, bytes, exchange, 0)
    }

    /// The same for collectives over packets by grids of so many blocks.
    pub fn for_blocks(setup: &Setup, bytes: usize, exchange: usize, blocks: u32) -> Result<Self, BenchError> {
        let (config, end) = layout(setup.options, setup.job().is_none(), bytes, exchange, blocks)?;
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

/// The group behind `bytes` of each part, and where it ends. Refused before memory is taken: `one_process` has the parts
/// of all nodes, whose kernels will write to the buffers unless they only meet.
fn layout(
    options: &Options,
    one_process: bool,
    bytes: usize,
    exchange: usize,
    blocks: u32,
) -> Result<(GroupConfig, usize), BenchError> {
    let nodes = options.nodes as usize;
    let usual = GroupConfig::for_nodes(nodes);
    let config = GroupConfig {
        packed_channels: usual.packed_channels.max(blocks as usize),
        offset: bytes.next_multiple_of(256),
        slot_bytes: if exchange == 0 { 256 } else { exchange.next_multiple_of(256).clamp(4096, 1 << 20) },
        timeout: options.timeout,
        ..usual
    };
    let end = config.end(nodes).doing("laying out the window")?;
    let all = (end - config.offset).saturating_mul(nodes);
    if one_process && options.device == Device::Cpu && exchange > 0 && all > MOST {
        let advice = format!(
            "their buffers for collectives are {} MiB in this process, at most {} MiB may be; use fewer nodes, or \
             --fabric process",
            all >> 20,
            MOST >> 20
        );
        return Err(BenchError::option("nodes", nodes, advice));
    }
    Ok((config, end))
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

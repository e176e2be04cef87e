//! Starting and ending the engines of all nodes, and telling them of changes.

use std::fmt;
use std::mem::offset_of;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ggas_kernels::args::{
    ENGINE_FEW_WARPS, ENGINE_HELPERS, ENGINE_NODES, ENGINE_STOP_NOW, ENGINE_STOP_REQUESTERS,
    ENGINE_STOP_REQUESTS, ENGINE_STOP_RESPONSES, ENGINE_WARPS, engine_args, engine_node,
};
use ggas_kernels::{Launch, Processor, Running, start};

use super::network::EngineConfig;
use super::node::Node;
use super::{load_words, lock, refused, store_words};
use crate::DeviceError;
use crate::backoff::{Backoff, Step};

/// How long waits inside an engine go on once it is to end; a peer's engine may be without a processor for a while.
const GRACE: Duration = Duration::from_secs(5);

/// The engines of a network: all run, or none does.
pub(super) struct Runner {
    nodes: Vec<Arc<Node>>,
    config: EngineConfig,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    holders: usize,
    running: Option<Running>,
    /// Number of the last run.
    run: u64,
    /// Changes so far.
    epoch: u64,
}

impl Runner {
    pub(super) fn new(nodes: Vec<Arc<Node>>, config: EngineConfig) -> Runner {
        Runner { nodes, config, state: Mutex::default() }
    }

    /// Has the engines run until the guard is dropped.
    pub(super) fn hold(self: Arc<Self>) -> Result<EngineGuard, DeviceError> {
        let mut state = lock(&self.state);
        if state.running.is_none() {
            state.run += 1;
            state.running = Some(self.launch(state.run)?);
        }
        state.holders += 1;
        drop(state);
        Ok(EngineGuard(self))
    }

    fn launch(&self, run: u64) -> Result<Running, DeviceError> {
        let mut args = engine_args {
            run,
            queue_ns: self.config.queue_timeout.as_nanos().try_into().unwrap_or(u64::MAX),
            grace_ns: GRACE.as_nanos() as u64,
            nodes: self.nodes.len() as u32,
            requesters: self.config.requesters,
            helpers: self.helpers(),
            ..Default::default()
        };
        for (i, node) in self.nodes.iter().enumerate().take(ENGINE_NODES as usize) {
            args.state[i] = node.state.address();
            args.rings[i] = node.rings.address();
        }
        let warps = self.warps() as u32 + 2 * args.helpers;
        let kernel = if warps <= ENGINE_FEW_WARPS { "ggas_engine" } else { "ggas_engine_wide" };
        let mut launches = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            // What the last run left: how it was ended, and who has.
            let said = vec![0; 1 + self.warps()];
            store_words(&node.state, offset_of!(engine_node, stop), &said).map_err(refused("an engine"))?;
            let args = engine_args { node: node.id.into(), ..args };
            // SAFETY: the structure is this kernel's; state and rings live as long as the nodes, which the runner keeps
            // until the engines have ended, and ports keep what they point to open until no engine uses it.
            launches.push(unsafe { Launch::new(&node.processor, kernel, 1, 32 * warps, &args) });
        }
        start(&launches).map_err(DeviceError::Engine)
    }

    /// One holder less; the last one ends the engines.
    fn release(&self) {
        let mut state = lock(&self.state);
        state.holders -= 1;
        if state.holders > 0 {
            return;
        }
        let Some(running) = state.running.take() else { return };
        if !self.end(state.run) {
            tracing::error!("engines do not end within {:?}", self.config.timeout);
        }
        if let Err(error) = running.wait(Duration::from_secs(1)) {
            tracing::error!("ending the engines: {error}");
        }
    }

    /// Ends the engines, those that make work first; at once if that takes too long. False: not all have ended.
    fn end(&self, run: u64) -> bool {
        let (requesters, all) = (self.config.requesters as usize, self.warps());
        let requests = requesters + self.nodes.len();
        let steps = [
            (ENGINE_STOP_REQUESTERS, 0..requesters),
            (ENGINE_STOP_REQUESTS, requesters..requests),
            (ENGINE_STOP_RESPONSES, requests..all),
        ];
        let in_order = steps.into_iter().all(|(step, warps)| {
            let acks = offset_of!(engine_node, ack) + 8 * warps.start;
            self.stop(step) && self.all_say(acks, warps.len(), u64::MAX)
        });
        (in_order || self.stop(ENGINE_STOP_NOW)) && self.all_say(offset_of!(engine_node, ended), 1, run)
    }

    /// Tells all engines to end.
    fn stop(&self, how: u32) -> bool {
        self.nodes.iter().all(|node| {
            let told = store_words(&node.state, offset_of!(engine_node, stop), &[how.into()]);
            told.inspect_err(|error| tracing::error!(node = node.id, "ending an engine: {error}")).is_ok()
        })
    }

    /// Waits until `count` words of every node's state have this value. False: not in time.
    fn all_say(&self, offset: usize, count: usize, value: u64) -> bool {
        let says = |node: &Arc<Node>| {
            load_words(&node.state, offset, count).is_ok_and(|words| words.iter().all(|word| *word == value))
        };
        wait(self.config.timeout, || self.nodes.iter().all(says)).is_ok()
    }

    /// Warps of each engine that help the others, for each direction: those that are left over.
    fn helpers(&self) -> u32 {
        let warps = self.warps() as u32;
        let all = if warps <= ENGINE_FEW_WARPS { ENGINE_FEW_WARPS } else { ENGINE_WARPS };
        // Warps of the executor share cores: one does all that helpers do.
        let cpu = self.nodes.iter().any(|node| matches!(node.processor, Processor::Cpu(_)));
        let most = if cpu { 1 } else { ENGINE_HELPERS };
        most.min(all.saturating_sub(warps) / 2)
    }

    /// Warps of each engine that have ports or rings to serve.
    fn warps(&self) -> usize {
        self.config.requesters as usize + 2 * self.nodes.len()
    }

    /// Makes `change` to the state of a node, whose engine takes notice of it: when this returns, no warp of it uses
    /// anything that it read before.
    pub(super) fn change(
        &self,
        node: &Node,
        change: impl FnOnce() -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let mut state = lock(&self.state);
        change()?;
        self.flush(&mut state, node)
    }

    /// As [`change`](Self::change), before `then`, with nothing under way in between, which is a change too.
    pub(super) fn change_twice(
        &self,
        node: &Node,
        change: impl FnOnce() -> Result<(), DeviceError>,
        then: impl FnOnce() -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let mut state = lock(&self.state);
        change()?;
        self.flush(&mut state, node)?;
        // Warps have stopped using it; now the one that looks after it writes down how far it came.
        self.flush(&mut state, node)?;
        then()?;
        self.flush(&mut state, node)
    }

    fn flush(&self, state: &mut State, node: &Node) -> Result<(), DeviceError> {
        state.epoch += 1;
        let epoch = state.epoch;
        store_words(&node.state, offset_of!(engine_node, epoch), &[epoch])
            .map_err(refused("a change of an engine"))?;
        if state.running.is_none() {
            return Ok(());
        }
        let warps = self.warps();
        let seen = || {
            let acks = load_words(&node.state, offset_of!(engine_node, ack), warps);
            acks.is_ok_and(|acks| acks.iter().all(|ack| *ack == epoch))
        };
        let what = "its engine to take notice of a change";
        wait(self.config.timeout, seen).map_err(|waited| DeviceError::Timeout { what, node: node.id, waited })
    }
}

/// Waits until `done`; how long was waited otherwise.
fn wait(timeout: Duration, mut done: impl FnMut() -> bool) -> Result<(), Duration> {
    let mut backoff = Backoff::new(timeout);
    loop {
        if done() {
            return Ok(());
        }
        match backoff.step() {
            Step::Again => {}
            Step::Sleep(left) => backoff.nap(left),
            Step::Over(waited) => return Err(waited),
        }
    }
}

// The words that a run begins with.
const _: () = assert!(offset_of!(engine_node, ack) == offset_of!(engine_node, stop) + 8);

impl fmt::Debug for Runner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runner").field("nodes", &self.nodes.len()).finish_non_exhaustive()
    }
}

/// The engines run while this lives; see [`EngineNetwork::run`](super::EngineNetwork::run).
#[must_use = "the engines end when this is dropped"]
#[derive(Debug)]
pub struct EngineGuard(Arc<Runner>);

impl Drop for EngineGuard {
    fn drop(&mut self) {
        self.0.release();
    }
}

//! Starting and ending the engines of this process's nodes, and telling them of changes.

use std::collections::BTreeSet;
use std::fmt;
use std::mem::offset_of;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use ggas_kernels::args::{
    ENGINE_CLASSES, ENGINE_LOOKS_CLOSED, ENGINE_NODES, ENGINE_STOP_NOW, ENGINE_STOP_REQUESTERS,
    ENGINE_STOP_REQUESTS, ENGINE_STOP_RESPONSES, engine_args, engine_node,
};
use ggas_kernels::{Launch, Processor, Running, start};

use super::lock;
use super::memory::{EngineMemory, RINGS_AT};
use super::network::EngineConfig;
use super::node::Node;
use super::shape::Shape;
use crate::DeviceError;
use ggas_clock::{Backoff, Clock, Step};

/// How long waits inside an engine go on once it is to end; a peer's engine may be without a processor for a while.
const GRACE: Duration = Duration::from_secs(5);

/// How long engines that are to end go on taking in what other processes send.
const TAKING_IN: Duration = Duration::from_secs(1);

/// How long what ended processes had sent may take to be taken in.
const DRAIN: Duration = Duration::from_millis(100);

/// The engines of this process: all run, or none does.
pub(super) struct Runner {
    memory: Arc<dyn EngineMemory>,
    nodes: Vec<Arc<Node>>,
    /// Nodes in all processes.
    len: usize,
    config: EngineConfig,
    shape: Shape,
    state: Mutex<State>,
    /// Changes so far. Held for moments only.
    epoch: Mutex<u64>,
    /// Peers of which the engines know that they are gone.
    known_gone: Mutex<BTreeSet<u16>>,
    /// Forks of it have no part in the network.
    process: u32,
}

#[derive(Default)]
struct State {
    holders: usize,
    running: Option<Running>,
    /// Number of the last run.
    run: u64,
}

impl Runner {
    pub(super) fn new(
        memory: Arc<dyn EngineMemory>,
        nodes: Vec<Arc<Node>>,
        len: usize,
        config: EngineConfig,
    ) -> Runner {
        let process = std::process::id();
        let cpu = nodes.iter().any(|node| matches!(node.processor, Processor::Cpu(_)));
        let shape = Shape::of(&config, len, cpu);
        Runner {
            memory,
            nodes,
            len,
            config,
            shape,
            state: Mutex::default(),
            epoch: Mutex::default(),
            known_gone: Mutex::default(),
            process,
        }
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
        let shape = self.shape;
        tracing::debug!(?shape, "engines start");
        let mut args = engine_args {
            run,
            queue_ns: self.config.queue_timeout.as_nanos().try_into().unwrap_or(u64::MAX),
            grace_ns: GRACE.as_nanos() as u64,
            nodes: self.len as u32,
            requesters: shape.requesters,
            helpers: shape.helpers,
            ..Default::default()
        };
        for i in 0..self.len.min(ENGINE_NODES as usize) {
            args.state[i] = self.memory.address(i as u16);
            args.rings[i] = args.state[i] + RINGS_AT as u64;
        }
        let mut launches = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            // What the last run left: how it was ended, and who has.
            let said = vec![0; 1 + self.warps()];
            node.state.store(offset_of!(engine_node, stop), &said)?;
            let args = engine_args { node: node.id.into(), ..args };
            // SAFETY: the structure is this kernel's; all parts live as long as the memory, which the runner keeps until
            // the engines have ended, and ports keep what they point to open until no engine uses it.
            launches
                .push(unsafe { Launch::new(&node.processor, shape.kernel, 1, 32 * shape.warps(), &args) });
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
        let (requesters, all) = (self.shape.requesters as usize, self.warps());
        let requests = requesters + self.len;
        let timeout = self.config.timeout;
        // Nobody in this process sends then, but others may for ever.
        let taking_in = if self.is_shared() { timeout.min(TAKING_IN) } else { timeout };
        let steps = [
            (ENGINE_STOP_REQUESTERS, 0..requesters, timeout),
            (ENGINE_STOP_REQUESTS, requesters..requests, taking_in),
            (ENGINE_STOP_RESPONSES, requests..all, taking_in),
        ];
        let in_order = steps.into_iter().all(|(step, warps, timeout)| {
            let acks = offset_of!(engine_node, ack) + 8 * warps.start;
            self.stop(step) && self.all_say(acks, warps.len(), u64::MAX, timeout)
        });
        let ended = offset_of!(engine_node, ended);
        (in_order || self.stop(ENGINE_STOP_NOW)) && self.all_say(ended, 1, run, timeout)
    }

    /// Whether other processes have nodes, too.
    fn is_shared(&self) -> bool {
        self.len > self.nodes.len()
    }

    /// Tells all engines to end.
    fn stop(&self, how: u32) -> bool {
        self.nodes.iter().all(|node| {
            let told = node.state.store(offset_of!(engine_node, stop), &[how.into()]);
            told.inspect_err(|error| tracing::error!(node = node.id, "ending an engine: {error}")).is_ok()
        })
    }

    /// Waits until `count` words of every node's state have this value. False: not in time.
    fn all_say(&self, offset: usize, count: usize, value: u64, timeout: Duration) -> bool {
        let says = |node: &Arc<Node>| {
            node.state.load(offset, count).is_ok_and(|words| words.iter().all(|word| *word == value))
        };
        wait(timeout, || self.nodes.iter().all(says)).is_ok()
    }

    /// Warps of each engine that have ports or rings to serve.
    fn warps(&self) -> usize {
        self.shape.serving() as usize
    }

    /// Makes `change` to the state of a node, whose engine takes notice of it: when this returns, no warp of it uses
    /// anything that it read before.
    pub(super) fn change(
        &self,
        node: &Node,
        change: impl FnOnce() -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let state = lock(&self.state);
        change()?;
        self.flush(&state, node)
    }

    /// The same for a change that closes ports: when this returns, no warp of the engine uses them.
    pub(super) fn close(
        &self,
        node: &Node,
        change: impl FnOnce() -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let state = lock(&self.state);
        change()?;
        (0..ENGINE_LOOKS_CLOSED).try_for_each(|_| self.flush(&state, node))
    }

    /// Has an engine take notice; gives the number that its warps will say.
    pub(super) fn announce(&self, node: &Node) -> Result<u64, DeviceError> {
        let mut epoch = lock(&self.epoch);
        *epoch += 1;
        node.state.store(offset_of!(engine_node, epoch), &[*epoch])?;
        Ok(*epoch)
    }

    fn flush(&self, state: &State, node: &Node) -> Result<(), DeviceError> {
        let epoch = self.announce(node)?;
        if state.running.is_none() {
            return Ok(());
        }
        let warps = self.warps();
        let seen = || {
            let acks = node.state.load(offset_of!(engine_node, ack), warps);
            // Somebody else may have announced something since; and a warp that has ended uses nothing.
            acks.is_ok_and(|acks| acks.iter().all(|ack| *ack >= epoch))
        };
        let what = "its engine to take notice of a change";
        wait(self.config.timeout, seen).map_err(|waited| DeviceError::Timeout { what, node: node.id, waited })
    }
}

/// Processes that end.
impl Runner {
    /// The engines send nothing more to `peer`. Waits for nobody.
    fn lose(&self, peer: u16) -> Result<(), DeviceError> {
        self.nodes.iter().try_for_each(|node| {
            node.state.store(gone_at(peer), &[1])?;
            self.announce(node).map(drop)
        })?;
        lock(&self.known_gone).insert(peer);
        Ok(())
    }

    /// See [`UnitDevice::drain_lost`](crate::UnitDevice::drain_lost).
    pub(super) fn drain_lost(&self, node: &Node) {
        let lost: Vec<u16> = (0..self.len as u16).filter(|node| self.memory.lost(*node).is_some()).collect();
        // Whoever waits calls this over and over, and engines that hear something all the time do little else.
        let news = |peer: &&u16| !lock(&self.known_gone).contains(peer);
        let told = lost.iter().filter(news).try_for_each(|peer| self.lose(*peer));
        if told.is_err() || lost.is_empty() || lock(&self.state).running.is_none() {
            return;
        }
        let drained = |class: usize| {
            let at = offset_of!(engine_node, drained) + 8 * class * ENGINE_NODES as usize;
            let words = node.state.load(at, ENGINE_NODES as usize);
            words.is_ok_and(|words| {
                lost.iter().all(|peer| words.get(usize::from(*peer)).is_some_and(|word| *word != 0))
            })
        };
        // Late or never, the caller's next look at its queue says what came.
        let _ = wait(DRAIN, || (0..ENGINE_CLASSES as usize).all(drained));
    }

    /// Tells the others that this process is no more part of the network.
    fn leave(&self) -> Result<(), DeviceError> {
        let own = |peer: &u16| self.nodes.iter().any(|node| node.id == *peer);
        (0..self.len as u16).filter(|peer| !own(peer)).try_for_each(|peer| {
            self.nodes.iter().try_for_each(|node| self.memory.store(peer, gone_at(node.id), &[1]))
        })
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            return;
        }
        if let Err(error) = self.leave() {
            tracing::warn!("telling the other engines that this one has left: {error}");
        }
    }
}

/// Offset of the word that says that the process of `node` is gone.
fn gone_at(node: u16) -> usize {
    offset_of!(engine_node, gone) + 8 * usize::from(node)
}

/// By which a network hears of processes that ended; see [`EngineNetwork::losses`](super::EngineNetwork::losses).
#[derive(Clone, Debug)]
pub struct EngineLosses(Weak<Runner>);

impl EngineLosses {
    pub(super) fn new(runner: &Arc<Runner>) -> EngineLosses {
        EngineLosses(Arc::downgrade(runner))
    }

    /// The process of `node` has ended: from now on what is sent there is refused and counted. Waits for no engine;
    /// does nothing once the network is gone.
    pub fn lost(&self, node: u16) {
        let Some(runner) = self.0.upgrade().filter(|runner| usize::from(node) < runner.len) else { return };
        tracing::warn!("process {node} has ended: commands to its node are refused from now on");
        if let Err(error) = runner.lose(node) {
            tracing::error!("telling an engine that process {node} has ended: {error}");
        }
    }
}

/// Waits until `done`; how long was waited otherwise.
fn wait(timeout: Duration, mut done: impl FnMut() -> bool) -> Result<(), Duration> {
    let mut backoff = Backoff::new(Clock::REAL, timeout);
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

/// The engines of this process run while this lives; see [`EngineNetwork::run`](super::EngineNetwork::run).
#[must_use = "the engines end when this is dropped"]
#[derive(Debug)]
pub struct EngineGuard(Arc<Runner>);

impl Drop for EngineGuard {
    fn drop(&mut self) {
        self.0.release();
    }
}

#[cfg(test)]
mod tests;

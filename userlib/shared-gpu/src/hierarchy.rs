//! Ranks on several GPUs of one or more hosts: collectives inside each GPU, between the GPUs of a host, and between hosts (chapter 4).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ggas_kernels::{KernelMem, Processor};
use ggas_members::Job;
use ggas_rma::Node;

use crate::across::ChoosingAcross;
use crate::circle::{Circle, World};
use crate::leaders::{Leaders, call};
use crate::mover::Mover;
use crate::one_host::{Beside, OneHost};
use crate::over_hosts::OverHosts;
use crate::places::{Place, by_gpu, places};
use crate::shared_gpu::device;
use crate::{
    Across, Algorithm, ChosenBy, Collective, Config, Element, HostTable, Levels, Op, SharedGpuError, Through,
    Vector,
};

/// How ranks on several GPUs are set up; alike on all of them, but for `gpu` and time-outs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HierarchyConfig {
    /// Of the ranks on one GPU. Its table counts for ranks on several, too.
    pub inside: Config,
    /// Of their leaders, and of all ranks of a host beside each other. The text's best of four is GSB inside and BTB between (4.3); where
    /// neither is forced, calls take what [`Hierarchy::choice`] says. Between hosts its time-out counts.
    pub between: Config,
    /// Forced: all ranks of a host that are on several GPUs beside each other by this, without steps of GPUs.
    pub flat: Option<Algorithm>,
    /// Forced between hosts. What the first rank's host has of this and of the next one counts on all.
    pub across: Option<Across>,
    /// What was measured between hosts; `ggas_coll::Tuning::of_host().between_hosts` is this host's. Default: nothing.
    pub hosts: HostTable,
    /// On the CPU executor, the number of the GPU that this rank is taken to be on; `None`: all of a host are on one.
    pub gpu: Option<u32>,
}

/// This process as one of several on one or more GPUs of one or more hosts. The lowest rank on a GPU leads the ranks there, and the lowest on
/// a host the host.
///
/// All ranks make the same calls in the same order. Vectors are reduced GPU by GPU, first those of its ranks, then the leaders', or those of
/// all ranks of a host at once ([`choice`](Self::choice)), then those of hosts, in their order, by the hosts' leaders. Each run gives the same
/// bits. Ranks that are all on one GPU make the calls of [`SharedGpu`](crate::SharedGpu).
pub struct Hierarchy {
    pub(crate) one: OneHost,
    /// Of a leader, where there are several hosts.
    pub(crate) over: Option<OverHosts>,
    /// How calls are made between hosts.
    across: ChoosingAcross,
    /// Ranks of the job.
    pub(crate) ranks: Vec<u32>,
    /// The same by host.
    pub(crate) hosts: Vec<Vec<u32>>,
    /// This rank's host.
    pub(crate) own: usize,
    pub(crate) rank: u32,
    pub(crate) processor: Processor,
    pub(crate) mover: Mover,
    /// For what goes over hosts.
    pub(crate) scratch: Option<Arc<KernelMem>>,
}

impl Hierarchy {
    /// Sets up what the ranks of a job share. Collective: all call it. `node`: this process's, by whose ports the leaders of hosts reach each
    /// other; a job of one host needs none.
    ///
    /// # Errors
    /// As [`SharedGpu::new`](crate::SharedGpu::new), but that GPUs may differ; [`SharedGpuError::OtherHost`] where there are several hosts and a
    /// leader has no node; [`SharedGpuError::Gpu`] where one does not reach another's memory; [`SharedGpuError::Network`],
    /// [`SharedGpuError::Region`] where a leader gets no port, or no memory for it.
    pub fn new(
        job: &Job,
        node: Option<&Node>,
        processor: &Processor,
        config: &HierarchyConfig,
    ) -> Result<Hierarchy, SharedGpuError> {
        Hierarchy::of(&|timeout| World::all(job, timeout), node, processor, config)
    }

    /// The same of some ranks of a job, ascending, this one among them; roots are ranks of the job. Collective over these, who all say the
    /// same `tag`: a number below 2^60 that stands for this one set-up, of all that any two of them make.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn among(
        job: &Job,
        ranks: &[u32],
        tag: u64,
        node: Option<&Node>,
        processor: &Processor,
        config: &HierarchyConfig,
    ) -> Result<Hierarchy, SharedGpuError> {
        Hierarchy::of(&|timeout| World::some(job, ranks, tag, timeout), node, processor, config)
    }

    fn of<'a>(
        world: &dyn Fn(Duration) -> World<'a>,
        node: Option<&Node>,
        processor: &Processor,
        config: &HierarchyConfig,
    ) -> Result<Hierarchy, SharedGpuError> {
        let all = world(config.inside.timeout);
        let (ranks, rank) = (all.ranks().to_vec(), all.job().rank());
        let gpu = match processor {
            Processor::Gpu(gpu) => gpu.device().info().uuid.clone(),
            _ => format!("executor {}", config.gpu.unwrap_or_default()),
        };
        let leader = ranks.iter().find(|other| !all.job().is_far(**other)).unwrap_or(&rank);
        let has_steps = config.inside.algorithm.or(config.between.algorithm).is_some();
        let device = device(processor).to_owned();
        let said = Place { leader: *leader, has_node: node.is_some(), has_steps, gpu, device };
        let places = places(&ranks, &all.exchange(&said.words())?)?;
        let of_host =
            |leader: u32| ranks.iter().zip(&places).filter(move |(_, place)| place.leader == leader);
        let mut hosts: Vec<Vec<u32>> = Vec::new();
        for (_, leads) in ranks.iter().zip(&places).filter(|(rank, place)| **rank == place.leader) {
            hosts.push(of_host(leads.leader).map(|(rank, _)| *rank).collect());
        }
        let needs_node =
            ranks.iter().zip(&places).any(|(rank, place)| *rank == place.leader && !place.has_node);
        if hosts.len() > 1 && needs_node {
            return Err(SharedGpuError::OtherHost);
        }
        let own = hosts.iter().position(|ranks| ranks.contains(&rank)).ok_or(SharedGpuError::Broken)?;
        let several = |host: &Vec<u32>| by_gpu(of_host(host[0])).len() > 1;
        let beside = Beside {
            has_several: hosts.iter().any(several),
            has_steps: of_host(hosts[own][0]).any(|(_, place)| place.has_steps),
            device: of_host(hosts[own][0]).next().map_or("", |(_, place)| &place.device),
        };
        let one = OneHost::new(world, by_gpu(of_host(hosts[own][0])), &beside, processor, config)?;
        let leaders = Circle::of(world(config.between.timeout), hosts.iter().map(|ranks| ranks[0]).collect());
        let across = |leaders| ChoosingAcross::agreed(leaders, &said.device, config);
        let across = (hosts.len() > 1).then(|| across(&leaders)).transpose()?;
        let make = |across: &ChoosingAcross| {
            Leaders::new(&leaders, node, processor, across.clone(), config.between.timeout, one.ladder())
        };
        let (leaders, across) = (across.as_ref().map(make).transpose()?, across.unwrap_or_default());
        // Of one host there is nothing to copy beside its own calls.
        let make = || {
            let over = |leaders| OverHosts::new(leaders, Mover::new(processor)?, processor);
            Ok((Mover::new(processor)?, leaders.flatten().map(over).transpose()?))
        };
        let made = (hosts.len() > 1).then(|| Circle::all(world(config.between.timeout)).agree(make()));
        let (mover, over) = made.transpose()?.unwrap_or((Mover::Cpu, None));
        let processor = processor.clone();
        Ok(Hierarchy { one, over, across, ranks, hosts, own, rank, processor, mover, scratch: None })
    }

    /// Bounds each wait of the next calls for another rank; ranks may differ.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.one.set_timeout(timeout);
        self.over.iter_mut().for_each(|over| over.leaders().set_timeout(timeout));
    }

    /// Whether a call failed in a way that ends the use of this.
    pub fn is_broken(&self) -> bool {
        self.one.is_broken() || self.over.as_ref().is_some_and(OverHosts::is_broken)
    }

    /// How ranks of this host that are on several GPUs make a call with results of so many bytes: what the configuration forces; else by
    /// its table, if it has one for as many ranks on each GPU, and MPS as it is; else short ones beside each other through host memory, longer
    /// ones GPU by GPU. [`Levels::Flat`] where all are on one GPU.
    pub fn choice(&self, collective: Collective, bytes: usize) -> Levels {
        self.one.choice(collective, bytes)
    }

    /// How a call with results of so many bytes is made between hosts, and who says so: what the configuration forces; else its table, if
    /// it has the collective for as many hosts; else as suits any network, through host memory. Alike on all ranks; `None`: there is one host.
    pub fn across(&self, collective: Collective, bytes: usize) -> Option<(Across, ChosenBy)> {
        (self.hosts.len() > 1).then(|| self.across.choice(collective, bytes))
    }

    /// Bytes of vectors that this rank has put to other hosts through such memory, so far: as the leader of its host, else none.
    pub fn put_bytes(&self, through: Through) -> u64 {
        self.over.as_ref().map_or(0, |over| over.put_bytes(through))
    }

    /// Has vectors in this memory go to other hosts from where they are, without a copy to a slot first, where a leader may: a broadcast's, and
    /// all of a reduction's but the own host's share, beyond 4 KiB. In host memory, or where calls go through GPU memory ([`Through::Gpu`]). It
    /// is registered with the network when a call first puts from it, and kept until [`detach`](Self::detach); if the network does not take
    /// it, which the log says, calls go on as before. Each rank may attach what it has; only leaders of hosts do anything, and are told `true`.
    pub fn attach(&mut self, memory: &Arc<KernelMem>) -> bool {
        self.over.iter_mut().for_each(|over| over.leaders().attach(memory));
        self.over.is_some()
    }

    /// Ends that: between calls nothing of it is under way.
    pub fn detach(&mut self, memory: &Arc<KernelMem>) {
        self.over.iter_mut().for_each(|over| over.leaders().detach(memory));
    }

    /// Bytes of [`put_bytes`](Self::put_bytes) that were put from attached memory.
    pub fn straight_bytes(&self) -> u64 {
        self.over.as_ref().map_or(0, OverHosts::straight_bytes)
    }

    /// Ranks of the job that are on this rank's host, by GPU: in the order of their leaders, who are their first.
    pub fn gpus(&self) -> &[Vec<u32>] {
        self.one.gpus()
    }

    /// Ranks of the job by host: in the order of their leaders, who are their first.
    pub fn hosts(&self) -> &[Vec<u32>] {
        &self.hosts
    }

    /// `output` of all ranks: all ranks' `input`, reduced. `output` may be `input`.
    ///
    /// # Errors
    /// As [`SharedGpu::allreduce`](crate::SharedGpu::allreduce), with ranks of the job; over hosts [`SharedGpuError::Post`].
    pub fn allreduce(
        &mut self,
        input: Vector<'_>,
        output: Vector<'_>,
        count: usize,
        element: Element,
        op: Op,
    ) -> Result<(), SharedGpuError> {
        let at = output.check(count, element)?;
        if self.hosts.len() == 1 {
            return self.one.allreduce(input, output, count, element, op);
        }
        let (leader, bytes) = (self.leader(), count * element.size());
        let call = call(Collective::Allreduce, 0, bytes, element, Some(op));
        self.on_host(|one| one.reduce(leader, input, output, count, element, op))?;
        self.between(|over| {
            over.take(Collective::Allreduce, bytes);
            over.reduce(call, None, (at, bytes), element, op)
        })?;
        self.on_host(|one| one.broadcast(leader, output, count, element))
    }

    /// `output` of `root`: all ranks' `input`, reduced; the other ranks' `output` is not touched.
    ///
    /// # Errors
    /// As [`SharedGpu::reduce`](crate::SharedGpu::reduce); [`SharedGpuError::Memory`] where a leader has none for its GPU's or host's sum;
    /// as [`allreduce`](Self::allreduce).
    pub fn reduce(
        &mut self,
        root: usize,
        input: Vector<'_>,
        output: Vector<'_>,
        count: usize,
        element: Element,
        op: Op,
    ) -> Result<(), SharedGpuError> {
        let host = self.host(root)?;
        if self.hosts.len() == 1 {
            return self.one.reduce(root, input, output, count, element, op);
        }
        let (leader, is_root, bytes) =
            (self.leader(), self.rank as usize == root, count.saturating_mul(element.size()));
        if is_root {
            output.check(count, element)?;
        }
        // Leaders, and all on the root's host if it does not lead that, hold sums that they do not want.
        let passes_on = self.own == host && root != leader;
        if !is_root && (self.over.is_some() || passes_on) {
            self.make_room(bytes)?;
        }
        let scratch = self.scratch.take();
        let sum = match &scratch {
            Some(memory) if !is_root => Vector::at(memory, 0),
            _ => output,
        };
        let call = call(Collective::Reduce, root, bytes, element, Some(op));
        let done = (|| {
            self.on_host(|one| one.reduce(leader, input, sum, count, element, op))?;
            self.between(|over| {
                let at = sum.check(count, element)?;
                over.take(Collective::Reduce, bytes);
                over.reduce(call, Some(host), (at, bytes), element, op)
            })?;
            if passes_on {
                self.on_host(|one| one.broadcast(leader, sum, count, element))?;
            }
            Ok(())
        })();
        self.scratch = scratch;
        done
    }

    /// `vector` of all ranks becomes that of `root`.
    ///
    /// # Errors
    /// As [`SharedGpu::broadcast`](crate::SharedGpu::broadcast), with ranks of the job; as [`allreduce`](Self::allreduce).
    pub fn broadcast(
        &mut self,
        root: usize,
        vector: Vector<'_>,
        count: usize,
        element: Element,
    ) -> Result<(), SharedGpuError> {
        let host = self.host(root)?;
        if self.hosts.len() == 1 {
            return self.one.broadcast(root, vector, count, element);
        }
        let at = vector.check(count, element)?;
        let (leader, bytes) = (self.leader(), count * element.size());
        let call = call(Collective::Broadcast, root, bytes, element, None);
        if self.own == host {
            self.on_host(|one| one.broadcast(root, vector, count, element))?;
        }
        self.between(|over| {
            over.take(Collective::Broadcast, bytes);
            over.broadcast(call, host, (at, bytes), element)
        })?;
        if self.own == host {
            return Ok(());
        }
        self.on_host(|one| one.broadcast(leader, vector, count, element))
    }

    /// As [`SharedGpu::barrier`](crate::SharedGpu::barrier).
    ///
    /// # Errors
    /// As [`allgather`](Self::allgather).
    pub fn barrier(&mut self) -> Result<(), SharedGpuError> {
        self.on_host(OneHost::barrier)?;
        if self.hosts.len() == 1 {
            return Ok(());
        }
        self.between(|over| over.barrier(call(Collective::Barrier, 0, 0, Element::Float, None)))?;
        self.on_host(OneHost::barrier)
    }

    /// Who leads this rank's host.
    pub(crate) fn leader(&self) -> usize {
        self.hosts[self.own][0] as usize
    }

    /// Memory for what this rank does not want; where there is none nobody goes on.
    pub(crate) fn make_room(&mut self, bytes: usize) -> Result<(), SharedGpuError> {
        if self.scratch.as_ref().is_none_or(|memory| memory.len() < bytes) {
            if let Some(old) = self.scratch.take() {
                self.detach(&old);
            }
            let made = self.processor.alloc(bytes.max(1)).map_err(SharedGpuError::from);
            let made = Arc::new(made.inspect_err(|error| self.fail(error))?);
            self.attach(&made);
            self.scratch = Some(made);
        }
        Ok(())
    }

    /// Ends the use of this, here and at all others.
    pub(crate) fn fail(&mut self, error: &SharedGpuError) {
        self.one.fail(error);
        self.over.iter_mut().for_each(|over| over.leaders().fail(error));
    }

    /// A rank's host.
    fn host(&self, root: usize) -> Result<usize, SharedGpuError> {
        let is_there = |ranks: &Vec<u32>| ranks.iter().any(|rank| *rank as usize == root);
        let found = self.hosts.iter().position(is_there);
        found.ok_or(SharedGpuError::Root { root, ranks: self.ranks.len() })
    }

    /// A step of the ranks of this host. Where it fails, the other hosts are told by the leader.
    pub(crate) fn on_host(
        &mut self,
        step: impl FnOnce(&mut OneHost) -> Result<(), SharedGpuError>,
    ) -> Result<(), SharedGpuError> {
        let done = step(&mut self.one);
        if let (Err(error), Some(over)) = (&done, &mut self.over)
            && error.ends_use()
        {
            over.leaders().fail(error);
        }
        done
    }

    /// A step of the hosts' leaders. Where it fails, nobody goes on.
    pub(crate) fn between(
        &mut self,
        step: impl FnOnce(&mut OverHosts) -> Result<(), SharedGpuError>,
    ) -> Result<(), SharedGpuError> {
        let Some(over) = &mut self.over else { return Ok(()) };
        step(over).inspect_err(|error| self.fail(error))
    }
}

impl fmt::Debug for Hierarchy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gpus = self.one.gpus();
        f.debug_struct("Hierarchy")
            .field("rank", &self.rank)
            .field("hosts", &self.hosts)
            .field("gpus", &gpus)
            .finish()
    }
}

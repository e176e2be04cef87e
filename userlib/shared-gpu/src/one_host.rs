//! Ranks on the GPUs of a host: collectives inside each GPU, and between the GPUs (chapter 4).

use std::time::Duration;

use ggas_clock::Ladder;
use ggas_kernels::{KernelMem, Processor};

use crate::circle::{Circle, World};
use crate::levels::Choosing;
use crate::{Collective, Config, Element, HierarchyConfig, Levels, Op, SharedGpu, SharedGpuError, Vector};

/// This process as one of several on one or more GPUs of a host. The lowest rank on a GPU leads the ranks there, and the lowest of all the
/// host. Ranks are those of the job.
///
/// Vectors are reduced GPU by GPU, first those of its ranks, then the leaders', or those of all at once.
pub(crate) struct OneHost {
    inside: SharedGpu,
    /// Of a leader.
    between: Option<SharedGpu>,
    /// All ranks beside each other, where there are several GPUs: for what has no steps inside and between them, or is quicker without.
    flat: Option<SharedGpu>,
    choosing: Choosing,
    /// Ascending.
    ranks: Vec<u32>,
    /// The same by GPU.
    gpus: Vec<Vec<u32>>,
    /// This rank's GPU.
    own: usize,
    rank: u32,
    processor: Processor,
    /// For sums of a rank that wants no result.
    scratch: Option<KernelMem>,
}

/// What the ranks have said of each other.
pub(crate) struct Beside<'a> {
    /// Some host has several GPUs.
    pub(crate) has_several: bool,
    /// Some rank of this host forces steps of GPUs.
    pub(crate) has_steps: bool,
    /// The kind of the first one's GPU.
    pub(crate) device: &'a str,
}

impl OneHost {
    /// Collective over the world, in which ranks of other hosts set up the same beside: of these ranks by GPU, in the order of their
    /// leaders.
    pub(crate) fn new<'a>(
        world: &dyn Fn(Duration) -> World<'a>,
        gpus: Vec<Vec<u32>>,
        said: &Beside<'_>,
        processor: &Processor,
        config: &HierarchyConfig,
    ) -> Result<OneHost, SharedGpuError> {
        let rank = world(config.inside.timeout).job().rank();
        let own = gpus.iter().position(|ranks| ranks.contains(&rank)).unwrap_or_default();
        let inside = Circle::of(world(config.inside.timeout), gpus[own].clone());
        let inside = SharedGpu::of(&inside, processor, &config.inside, true)?;
        let leaders: Vec<u32> = gpus.iter().map(|ranks| ranks[0]).collect();
        let between = Circle::of(world(config.between.timeout), leaders);
        let between = SharedGpu::of(&between, processor, &config.between, false)?;
        let inside = inside.ok_or(SharedGpuError::Broken)?;
        let mut ranks = gpus.concat();
        ranks.sort_unstable();
        let is_flat = gpus.len() > 1;
        // Where only other hosts need it, it is of the leader alone, and goes at once.
        let beside = if is_flat { ranks.clone() } else { ranks[..1].to_vec() };
        let flat = Circle::of(world(config.between.timeout), beside);
        // With the table, which all of a host are to have alike.
        let of_flat = Config {
            algorithm: config.flat.or(config.between.algorithm),
            table: config.inside.table.clone(),
            ..config.between.clone()
        };
        let flat = said.has_several.then(|| SharedGpu::of(&flat, processor, &of_flat, false)).transpose()?;
        let (flat, processor) = (flat.flatten().filter(|_| is_flat), processor.clone());
        let on_each: Vec<usize> = gpus.iter().map(Vec::len).collect();
        let measured = flat
            .iter()
            .flat_map(|_| config.inside.table.find_on(said.device, &on_each, inside.has_mps()).cloned());
        let choosing = Choosing {
            flat: config.flat,
            steps: [config.inside.algorithm, config.between.algorithm],
            has_steps: said.has_steps,
            measured: measured.collect(),
            sharing: flat.as_ref().and_then(SharedGpu::sharing).and_then(|_| inside.sharing()),
            ranks: ranks.len(),
            gpus: gpus.len(),
        };
        Ok(OneHost { inside, between, flat, choosing, ranks, gpus, own, rank, processor, scratch: None })
    }

    /// As [`Hierarchy::choice`](crate::Hierarchy::choice).
    pub(crate) fn choice(&self, collective: Collective, bytes: usize) -> Levels {
        self.choosing.levels(collective, bytes)
    }

    /// Has the next call, with results of so many elements, take what is chosen for it. Whether all ranks make it beside each other.
    fn settle(&mut self, collective: Collective, count: usize, element: Element) -> bool {
        let levels = self.choice(collective, count.saturating_mul(element.size()));
        match levels {
            Levels::Flat(algorithm) => self.flat.iter_mut().for_each(|flat| flat.take(algorithm)),
            Levels::Steps { inside, between } => {
                self.inside.take(inside);
                self.between.iter_mut().for_each(|leaders| leaders.take(between));
            }
        }
        matches!(levels, Levels::Flat(_))
    }

    /// How this rank waits.
    pub(crate) fn ladder(&self) -> Ladder {
        self.inside.ladder()
    }

    /// Bounds each wait of the next calls for another rank; ranks may differ.
    pub(crate) fn set_timeout(&mut self, timeout: Duration) {
        self.inside.set_timeout(timeout);
        self.between.iter_mut().chain(&mut self.flat).for_each(|others| others.set_timeout(timeout));
    }

    /// Whether a call failed in a way that ends the use of this.
    pub(crate) fn is_broken(&self) -> bool {
        self.inside.is_broken() || self.between.iter().chain(&self.flat).any(SharedGpu::is_broken)
    }

    /// Ranks by GPU: in the order of their leaders, who are their first.
    pub(crate) fn gpus(&self) -> &[Vec<u32>] {
        &self.gpus
    }

    /// `output` of all ranks: all ranks' `input`, reduced. `output` may be `input`.
    pub(crate) fn allreduce(
        &mut self,
        input: Vector<'_>,
        output: Vector<'_>,
        count: usize,
        element: Element,
        op: Op,
    ) -> Result<(), SharedGpuError> {
        output.check(count, element)?;
        if self.settle(Collective::Allreduce, count, element) {
            return self.flat(|all| all.allreduce(input, output, count, element, op));
        }
        self.inside(|inside| inside.reduce(0, input, output, count, element, op))?;
        self.between(|between| between.allreduce(output, output, count, element, op))?;
        self.inside(|inside| inside.broadcast(0, output, count, element))
    }

    /// `output` of `root`: all ranks' `input`, reduced; the other ranks' `output` is not touched.
    pub(crate) fn reduce(
        &mut self,
        root: usize,
        input: Vector<'_>,
        output: Vector<'_>,
        count: usize,
        element: Element,
        op: Op,
    ) -> Result<(), SharedGpuError> {
        let (gpu, place) = self.place(root)?;
        if self.settle(Collective::Reduce, count, element) {
            let place = self.beside(root);
            return self.flat(|all| all.reduce(place, input, output, count, element, op));
        }
        if self.rank as usize == root {
            output.check(count, element)?;
        }
        // Leaders, and all on the root's GPU if it does not lead them, hold sums that they do not want.
        let holds = self.between.is_some() || (self.own == gpu && place > 0);
        let is_root = self.rank as usize == root;
        let bytes = count.saturating_mul(element.size());
        if holds && !is_root && self.scratch.as_ref().is_none_or(|memory| memory.len() < bytes) {
            let made = self.processor.alloc(bytes).map_err(SharedGpuError::from);
            self.scratch = Some(made.inspect_err(|error| self.fail(error))?);
        }
        let scratch = self.scratch.take();
        let sum = match &scratch {
            Some(memory) if !is_root => Vector::at(memory, 0),
            _ => output,
        };
        let done = (|| {
            self.inside(|inside| inside.reduce(0, input, sum, count, element, op))?;
            self.between(|between| between.reduce(gpu, sum, sum, count, element, op))?;
            if self.own == gpu && place > 0 {
                self.inside(|inside| inside.broadcast(0, sum, count, element))?;
            }
            Ok(())
        })();
        self.scratch = scratch;
        done
    }

    /// `vector` of all ranks becomes that of `root`.
    pub(crate) fn broadcast(
        &mut self,
        root: usize,
        vector: Vector<'_>,
        count: usize,
        element: Element,
    ) -> Result<(), SharedGpuError> {
        let (gpu, place) = self.place(root)?;
        if self.settle(Collective::Broadcast, count, element) {
            let place = self.beside(root);
            return self.flat(|all| all.broadcast(place, vector, count, element));
        }
        if self.own == gpu {
            self.inside(|inside| inside.broadcast(place, vector, count, element))?;
        }
        self.between(|between| between.broadcast(gpu, vector, count, element))?;
        if self.own == gpu {
            return Ok(());
        }
        self.inside(|inside| inside.broadcast(0, vector, count, element))
    }

    /// As [`SharedGpu::allgather`], in the order of ranks. Where there are several GPUs, ranks copy to and from a buffer on that of the
    /// first, as in the next two.
    pub(crate) fn allgather(
        &mut self,
        input: Vector<'_>,
        output: Vector<'_>,
        count: usize,
        element: Element,
    ) -> Result<(), SharedGpuError> {
        self.settle(Collective::Allgather, count.saturating_mul(self.ranks.len()), element);
        self.flat(|all| all.allgather(input, output, count, element))
    }

    /// As [`SharedGpu::alltoall`].
    pub(crate) fn alltoall(
        &mut self,
        input: Vector<'_>,
        output: Vector<'_>,
        count: usize,
        element: Element,
    ) -> Result<(), SharedGpuError> {
        self.settle(Collective::Alltoall, count.saturating_mul(self.ranks.len()), element);
        self.flat(|all| all.alltoall(input, output, count, element))
    }

    /// As [`SharedGpu::reduce_scatter`].
    pub(crate) fn reduce_scatter(
        &mut self,
        input: Vector<'_>,
        output: Vector<'_>,
        count: usize,
        element: Element,
        op: Op,
    ) -> Result<(), SharedGpuError> {
        self.settle(Collective::ReduceScatter, count.saturating_mul(self.ranks.len()), element);
        self.flat(|all| all.reduce_scatter(input, output, count, element, op))
    }

    /// As [`SharedGpu::barrier`].
    pub(crate) fn barrier(&mut self) -> Result<(), SharedGpuError> {
        self.flat(SharedGpu::barrier)
    }

    /// Ends the use of this, here and at all others: they are not to wait for this rank.
    pub(crate) fn fail(&mut self, error: &SharedGpuError) {
        self.inside.fail(error);
        self.between.iter_mut().chain(&mut self.flat).for_each(|others| others.fail(error));
    }

    /// A step of all ranks beside each other. Where it fails, nobody goes on.
    fn flat(
        &mut self,
        step: impl FnOnce(&mut SharedGpu) -> Result<(), SharedGpuError>,
    ) -> Result<(), SharedGpuError> {
        let Some(flat) = &mut self.flat else { return self.inside(step) };
        let done = step(flat);
        if let Err(error) = &done
            && error.ends_use()
        {
            self.inside.fail(error);
            self.between.iter_mut().for_each(|between| between.fail(error));
        }
        done.map_err(|error| error.of_job(&self.ranks))
    }

    /// A rank's place among all of the host.
    fn beside(&self, root: usize) -> usize {
        self.ranks.iter().position(|rank| *rank as usize == root).unwrap_or(root)
    }

    /// A rank's GPU, and its place there.
    fn place(&self, root: usize) -> Result<(usize, usize), SharedGpuError> {
        let at = |ranks: &Vec<u32>| ranks.iter().position(|rank| *rank as usize == root);
        let found = self.gpus.iter().enumerate().find_map(|(gpu, ranks)| Some((gpu, at(ranks)?)));
        let ranks = self.gpus.iter().map(Vec::len).sum();
        found.ok_or(SharedGpuError::Root { root, ranks })
    }

    /// A step of the ranks on this GPU. Where it fails, the other GPUs are told: by the leader in this call, by all before the next one that all
    /// make beside each other.
    fn inside(
        &mut self,
        step: impl FnOnce(&mut SharedGpu) -> Result<(), SharedGpuError>,
    ) -> Result<(), SharedGpuError> {
        let done = step(&mut self.inside);
        if let Err(error) = &done
            && error.ends_use()
        {
            self.between.iter_mut().chain(&mut self.flat).for_each(|others| others.fail(error));
        }
        done.map_err(|error| error.of_job(&self.gpus[self.own]))
    }

    /// A step of the leaders. Where it fails, the ranks on the GPU are told.
    fn between(
        &mut self,
        step: impl FnOnce(&mut SharedGpu) -> Result<(), SharedGpuError>,
    ) -> Result<(), SharedGpuError> {
        let Some(between) = &mut self.between else { return Ok(()) };
        let done = step(between);
        if let Err(error) = &done
            && error.ends_use()
        {
            self.inside.fail(error);
            self.flat.iter_mut().for_each(|all| all.fail(error));
        }
        let leaders: Vec<u32> = self.gpus.iter().map(|ranks| ranks[0]).collect();
        done.map_err(|error| error.of_job(&leaders))
    }
}

//! Runs of the stencil: parts of the cube on devices, and how their boundaries travel.
//!
//! The listings exchange what the next step does not read, send to the wrong side, or let one neighbour release a thread that waits
//! for both (digest 3); here each step's result is exchanged, and each wait is for one neighbour.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::args::bench_hpe_stencil;
use ggas_hpe::{Prepared, Runtime};
use ggas_kernels::Launch;

use super::cube::{Cube, POISON, WEIGHTS};
use super::memory::{Array, bytes_of, bytes_of_mut};
use super::ranks::Ranks;
use super::stencil_level::Level;
use super::stencil_shared::prepared;
use super::steps::{Event, Steps};
use super::{devices, gpus, shape};
use crate::error::Doing;
use crate::kernel;
use crate::setup::Setup;
use crate::{BenchError, Check};

const KERNEL: &str = "bench_hpe_stencil_planes";
/// A part's neighbours.
pub(super) const SIDES: [usize; 2] = [BELOW, ABOVE];
pub(super) const BELOW: usize = 0;
const ABOVE: usize = 1;

/// A device's planes of the cube.
pub(super) struct Part {
    pub planes: Range<usize>,
    /// What a step reads and what it writes, in turn.
    pub fields: [Array<f32>; 2],
    /// The neighbours' planes beside each field, where kernels do not read them where they are.
    pub halos: [[Array<f32>; 2]; 2],
    /// [`Level::Proxy`]: what goes to each neighbour.
    staged: [Mutex<Vec<f32>>; 2],
}

/// One cube on some devices of this process, and of its neighbours.
pub(super) struct Run<'a> {
    pub(super) setup: &'a Setup<'a>,
    pub(super) cube: &'a Cube,
    pub(super) level: Level,
    pub(super) parts: Vec<Part>,
    pub(super) runtime: Runtime,
    pub(super) ranks: Ranks,
    /// Of shared objects, by the field that a step reads.
    pub(super) prepared: Option<[Prepared; 2]>,
    /// Time of listing 4's kernels in the last run, in ns.
    pub(super) kernels: AtomicU64,
}

impl<'a> Run<'a> {
    pub fn new(
        setup: &'a Setup<'a>,
        cube: &'a Cube,
        level: Level,
        count: usize,
    ) -> Result<Run<'a>, BenchError> {
        let builder = devices(setup, count as u32)?.tracking(level.tracking());
        let runtime = builder.timeout(setup.options.timeout).build();
        let runtime = runtime.doing("making a runtime")?;
        let ranks = Ranks::new(setup, 4 * cube.plane())?;
        let all = ranks.size * count;
        let gpus = gpus(setup, count as u32)?;
        let array = |device: usize, len: usize| match (level, gpus.get(device)) {
            (Level::Shared | Level::Userfault, _) => Array::shared(&runtime, device, len),
            (Level::Managed, Some(gpu)) => Array::managed(&runtime, gpu, len),
            (Level::Managed, None) => Err(BenchError::Unsupported("managed memory is CUDA's".to_owned())),
            _ => Array::new(&runtime, device, len),
        };
        let part = |device: usize| {
            let number = ranks.rank * count + device;
            let planes = number * cube.side / all..(number + 1) * cube.side / all;
            let field = || array(device, planes.len() * cube.plane());
            let halo = || array(device, cube.plane());
            Ok::<_, BenchError>(Part {
                fields: [field()?, field()?],
                halos: [[halo()?, halo()?], [halo()?, halo()?]],
                staged: SIDES.map(|_| Mutex::new(vec![0.0; cube.plane()])),
                planes,
            })
        };
        let parts = (0..count).map(part).collect::<Result<Vec<_>, _>>()?;
        let prepared = prepared(&runtime, &parts, &ranks, level)?;
        Ok(Run { setup, cube, level, parts, runtime, ranks, prepared, kernels: AtomicU64::new(0) })
    }

    /// The part beside `device` in this process.
    fn neighbour(&self, device: usize, side: usize) -> Option<usize> {
        let other = if side == BELOW { device.checked_sub(1) } else { Some(device + 1) };
        other.filter(|other| *other < self.parts.len())
    }

    /// Where the boundary of a part's field begins.
    pub(super) fn boundary(&self, device: usize, side: usize) -> usize {
        let planes = self.parts[device].planes.len();
        if side == BELOW { 0 } else { (planes - 1) * self.cube.plane() }
    }

    /// Puts the input there, and poison where something is to come.
    pub fn fill(&self) -> Result<(), BenchError> {
        let (cube, plane) = (self.cube, self.cube.plane());
        let poison = vec![POISON; plane];
        for (device, part) in self.parts.iter().enumerate() {
            let Range { start, end } = part.planes.clone();
            part.fields[0].write(0, &cube.before[start * plane..end * plane])?;
            part.fields[1].write(0, &cube.poisoned(start..end))?;
            for side in SIDES {
                let beside = if side == BELOW { start.checked_sub(1) } else { Some(end) };
                let read_there = self.level.reads_neighbours() && self.neighbour(device, side).is_some();
                let beside = beside.filter(|z| *z < cube.side && !read_there);
                let values = beside.map_or(&poison[..], |z| &cube.before[z * plane..][..plane]);
                part.halos[0][side].write(0, values)?;
                part.halos[1][side].write(0, &poison)?;
            }
        }
        self.hand_over()
    }

    /// Microseconds of a step of the last run from a launch of kernels until the host knows of their end; of listing 4 only.
    pub fn kernels_us(&self) -> Option<f64> {
        let us = self.kernels.load(Relaxed) as f64 / 1e3 / self.cube.steps as f64;
        self.level.is_of_all_devices().then_some(us)
    }

    /// Copies so far.
    pub fn copies(&self) -> u64 {
        self.runtime.counts().ways.copies.iter().sum()
    }

    /// All steps. Gives how long they took, and the share of that in which data moved, in percent.
    pub fn all_steps(&self) -> Result<(Duration, f64), BenchError> {
        let steps = Steps::new(self.parts.len(), self.setup.options.timeout);
        // The first kernel behind copies begins late, whatever memory it uses: one of no planes is there before time begins.
        let none: Vec<_> = (0..self.parts.len()).map(|device| self.launch(device, 0, 0..0)).collect();
        kernel::run(&none, self.setup.options)?;
        self.kernels.store(0, Relaxed);
        let took = if self.level.is_of_all_devices() {
            let begun = Instant::now();
            (0..self.cube.steps).try_for_each(|step| self.shared_step(&steps, step))?;
            begun.elapsed()
        } else {
            steps.run(|device| (0..self.cube.steps).try_for_each(|step| self.step(&steps, device, step)))?
        };
        Ok((took, steps.exchange_percent(took)))
    }

    /// A step of one device, by its thread.
    fn step(&self, steps: &Steps, device: usize, step: u64) -> Result<(), BenchError> {
        let (from, to) = turn(step);
        let planes = self.parts[device].planes.len() as u32;
        // What this step overwrites was the neighbours' to read in the step before; what they have of that one is read now.
        for side in SIDES {
            let Some(other) = self.neighbour(device, side) else { continue };
            match self.level {
                Level::Remote => steps.wait(other, Event::Written, step)?,
                Level::Sharing | Level::Overlap => {
                    steps.wait(other, Event::Taken(1 - side), step.saturating_sub(1))?;
                }
                Level::Proxy | Level::Shared | Level::Managed | Level::Userfault => {}
            }
        }
        if self.level != Level::Overlap {
            kernel::run(&[self.launch(device, from, 0..planes)], self.setup.options)?;
            steps.post(device, Event::Written);
            return steps.exchange(|| self.exchange(steps, device, to, step));
        }
        let first = [self.launch(device, from, 0..1), self.launch(device, from, planes - 1..planes)];
        kernel::run(&first, self.setup.options)?;
        let rest = kernel::begin(&[self.launch(device, from, 1..planes - 1)])?;
        let exchanged = steps.exchange(|| self.exchange(steps, device, to, step));
        kernel::finish(rest, self.setup.options).and(exchanged)
    }

    /// The kernel for some planes of a part. Those at the ends of the cube stay as they are.
    pub(super) fn launch(&self, device: usize, from: usize, planes: Range<u32>) -> Launch<'a> {
        let part = &self.parts[device];
        let beside = |side: usize| match self.neighbour(device, side) {
            Some(other) if self.level.reads_neighbours() => {
                self.parts[other].fields[from].kernels(self.boundary(other, 1 - side))
            }
            _ => part.halos[from][side].kernels(0),
        };
        let inner = u32::from(part.planes.start == 0)
            ..part.planes.len() as u32 - u32::from(part.planes.end == self.cube.side);
        let (begin, end) = (planes.start.max(inner.start), planes.end.min(inner.end));
        let args = bench_hpe_stencil {
            in_: part.fields[from].kernels(0),
            out: part.fields[1 - from].kernels(0),
            below: beside(BELOW),
            above: beside(ABOVE),
            side: self.cube.side as u32,
            planes: part.planes.len() as u32,
            begin,
            end: end.max(begin),
            weights: WEIGHTS,
        };
        let points = u64::from(end.saturating_sub(begin)) * self.cube.plane() as u64;
        let (blocks, threads) = shape(self.setup.options.device, points);
        kernel::launch(self.setup.processor(device as u32), KERNEL, blocks, threads, &args).resident(1)
    }

    /// Sends what a step has computed of a part's boundaries, and takes the neighbours'.
    fn exchange(&self, steps: &Steps, device: usize, to: usize, step: u64) -> Result<(), BenchError> {
        self.send(device, to, step)?;
        match self.level {
            Level::Proxy => self.through_host(steps, device, to, step)?,
            Level::Sharing | Level::Overlap => self.between_devices(steps, device, to, step)?,
            Level::Remote | Level::Shared | Level::Managed | Level::Userfault => {}
        }
        self.receive(device, to, step)
    }

    /// Listing 1.
    fn through_host(&self, steps: &Steps, device: usize, to: usize, step: u64) -> Result<(), BenchError> {
        let part = &self.parts[device];
        for side in SIDES {
            let Some(other) = self.neighbour(device, side) else { continue };
            steps.wait(other, Event::Taken(1 - side), step)?;
            let mut staged = part.staged[side].lock().unwrap_or_else(PoisonError::into_inner);
            part.fields[to].read(self.boundary(device, side), &mut staged)?;
            steps.post(device, Event::Given(side));
        }
        for side in SIDES {
            let Some(other) = self.neighbour(device, side) else { continue };
            steps.wait(other, Event::Given(1 - side), step + 1)?;
            let staged = self.parts[other].staged[1 - side].lock().unwrap_or_else(PoisonError::into_inner);
            part.halos[to][side].write(0, &staged)?;
            steps.post(device, Event::Taken(side));
        }
        Ok(())
    }

    /// Listing 2.
    fn between_devices(&self, steps: &Steps, device: usize, to: usize, step: u64) -> Result<(), BenchError> {
        SIDES.into_iter().for_each(|side| steps.post(device, Event::Given(side)));
        for side in SIDES {
            let Some(other) = self.neighbour(device, side) else { continue };
            steps.wait(other, Event::Given(1 - side), step + 1)?;
            let (field, at) = (&self.parts[other].fields[to], self.boundary(other, 1 - side));
            self.parts[device].halos[to][side].take(0, field, at, self.cube.plane())?;
            steps.post(device, Event::Taken(side));
        }
        Ok(())
    }

    /// To the processes beside this one, by way of the host's memory.
    fn send(&self, device: usize, to: usize, step: u64) -> Result<(), BenchError> {
        for side in SIDES {
            if let (None, Some(link)) = (self.neighbour(device, side), &self.ranks.links[side]) {
                let at = self.boundary(device, side);
                let plane = self.parts[device].fields[to].list(at..at + self.cube.plane())?;
                link.send(step, bytes_of(&plane))?;
            }
        }
        Ok(())
    }

    fn receive(&self, device: usize, to: usize, step: u64) -> Result<(), BenchError> {
        for side in SIDES {
            if let (None, Some(link)) = (self.neighbour(device, side), &self.ranks.links[side]) {
                let mut plane = vec![0f32; self.cube.plane()];
                link.receive(step, bytes_of_mut(&mut plane))?;
                self.parts[device].halos[to][side].write(0, &plane)?;
            }
        }
        Ok(())
    }

    /// Whether the bits are the host's.
    pub fn compare(&self) -> Result<Check, BenchError> {
        let (mut check, plane) = (Check::default(), self.cube.plane());
        let (result, _) = turn(self.cube.steps);
        for (device, part) in self.parts.iter().enumerate() {
            let Range { start, end } = part.planes;
            let seen = part.fields[result].list(0..(end - start) * plane)?;
            let what = format!("the part of device {device} of rank {}", self.ranks.rank);
            check.bytes(&what, bytes_of(&self.cube.after[start * plane..end * plane]), bytes_of(&seen));
        }
        Ok(check)
    }
}

/// The field that a step reads, and the one that it writes.
pub(super) fn turn(step: u64) -> (usize, usize) {
    let from = (step % 2) as usize;
    (from, 1 - from)
}

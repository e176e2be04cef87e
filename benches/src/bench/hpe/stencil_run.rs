//! Runs of the stencil: parts of the cube on devices, and how their boundaries travel.
//!
//! The listings exchange what the next step does not read, send to the wrong side, or let one neighbour release a thread that waits
//! for both (digest 3); here each step's result is exchanged, and each wait is for one neighbour.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::args::bench_hpe_stencil;
use ggas_hpe::{Runtime, Tracking, Use};
use ggas_kernels::Launch;

use super::cube::{Cube, POISON, WEIGHTS};
use super::memory::{Array, bytes_of, bytes_of_mut};
use super::ranks::Ranks;
use super::steps::{Event, Steps};
use super::{devices, gpus, shape};
use crate::error::Doing;
use crate::kernel;
use crate::setup::Setup;
use crate::{BenchError, Check};

const KERNEL: &str = "bench_hpe_stencil_planes";
/// A part's neighbours.
const SIDES: [usize; 2] = [BELOW, ABOVE];
const BELOW: usize = 0;
const ABOVE: usize = 1;

/// The paper's listings, and what it measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    /// Listing 1: a thread uses its device only, so boundaries pass memory of the host.
    Proxy,
    /// Listing 2: a thread copies from its neighbours' devices.
    Sharing,
    /// Listing 3: kernels read their neighbours' boundaries.
    Remote,
    /// Listing 4: the cube is in shared objects, whose pointers are the host's, too.
    Shared,
    /// Listing 2 with boundaries computed first, and exchanged beside the rest of the computation.
    Overlap,
    /// Listing 4 in CUDA's managed memory, today's rival of shared objects: on GPUs only.
    Managed,
    /// Listing 4 with shared objects by `userfaultfd` in place of `mprotect`.
    Userfault,
}

impl Level {
    pub const ALL: [Level; 7] = [
        Level::Proxy,
        Level::Sharing,
        Level::Remote,
        Level::Shared,
        Level::Overlap,
        Level::Managed,
        Level::Userfault,
    ];
    pub const NAMES: [&'static str; 7] =
        ["proxy", "sharing", "remote", "shared", "overlap", "managed", "userfault"];

    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// Whether kernels do, which then have to reach their devices.
    pub fn reads_neighbours(self) -> bool {
        matches!(self, Level::Remote | Level::Shared | Level::Managed | Level::Userfault)
    }

    /// Whether the cube is in shared objects.
    fn has_objects(self) -> bool {
        matches!(self, Level::Shared | Level::Userfault)
    }

    fn tracking(self) -> Tracking {
        if self == Level::Userfault { Tracking::Userfault } else { Tracking::Protect }
    }
}

/// A device's planes of the cube.
struct Part {
    planes: Range<usize>,
    /// What a step reads and what it writes, in turn.
    fields: [Array<f32>; 2],
    /// The neighbours' planes beside each field, where kernels do not read them where they are.
    halos: [[Array<f32>; 2]; 2],
    /// [`Level::Proxy`]: what goes to each neighbour.
    staged: [Mutex<Vec<f32>>; 2],
}

/// One cube on some devices of this process, and of its neighbours.
pub(super) struct Run<'a> {
    setup: &'a Setup<'a>,
    cube: &'a Cube,
    level: Level,
    runtime: Runtime,
    ranks: Ranks,
    parts: Vec<Part>,
    /// Time of the launches with shared objects that was not the kernels', in ns: of the first two steps of the last run, which take back
    /// what the host had, and of the others.
    around: [AtomicU64; 2],
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
        let parts = (0..count).map(part).collect::<Result<_, _>>()?;
        Ok(Run { setup, cube, level, parts, runtime, ranks, around: Default::default() })
    }

    /// The part beside `device` in this process.
    fn neighbour(&self, device: usize, side: usize) -> Option<usize> {
        let other = if side == BELOW { device.checked_sub(1) } else { Some(device + 1) };
        other.filter(|other| *other < self.parts.len())
    }

    /// Where the boundary of a part's field begins.
    fn boundary(&self, device: usize, side: usize) -> usize {
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
        if !self.level.has_objects() {
            return Ok(());
        }
        // The other levels' input is on the devices, too, before time begins.
        let objects = |part: &'_ Part| {
            let arrays = part.fields.iter().chain(part.halos.iter().flatten());
            arrays.map(|array| (array.object(), Use::Read)).collect::<Vec<_>>()
        };
        let objects: Vec<_> = self.parts.iter().flat_map(objects).collect();
        self.runtime.launch(&objects, || ()).doing("launching with shared objects")
    }

    /// Microseconds that shared objects added to a step of the last run: to its first two, and to the others.
    pub fn around_us(&self) -> Option<[f64; 2]> {
        let steps = [2, self.cube.steps.saturating_sub(2)];
        let each = |i: usize| self.around[i].load(Relaxed) as f64 / 1e3 / steps[i].max(1) as f64;
        self.level.has_objects().then(|| [each(0), each(1)])
    }

    /// Copies so far.
    pub fn copies(&self) -> u64 {
        self.runtime.counts().ways.copies.iter().sum()
    }

    /// All steps. Gives how long they took, and the share of that in which data moved, in percent.
    pub fn all_steps(&self) -> Result<(Duration, f64), BenchError> {
        let steps = Steps::new(self.parts.len(), self.setup.options.timeout);
        self.around.iter().for_each(|sum| sum.store(0, Relaxed));
        let took = match self.level {
            Level::Shared | Level::Managed | Level::Userfault => {
                let begun = Instant::now();
                (0..self.cube.steps).try_for_each(|step| self.shared_step(&steps, step))?;
                begun.elapsed()
            }
            _ => steps
                .run(|device| (0..self.cube.steps).try_for_each(|step| self.step(&steps, device, step)))?,
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
    fn launch(&self, device: usize, from: usize, planes: Range<u32>) -> Launch<'a> {
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

    /// Listing 4: a step of all devices. No call copies: what goes to other processes is read and written where kernels have it.
    fn shared_step(&self, steps: &Steps, step: u64) -> Result<(), BenchError> {
        let (from, to) = turn(step);
        let mut objects = Vec::new();
        for part in &self.parts {
            objects.push((part.fields[from].object(), Use::Read));
            objects.push((part.fields[to].object(), Use::Write));
            objects.extend(part.halos[from].iter().map(|halo| (halo.object(), Use::Read)));
        }
        let launch = |device: usize| self.launch(device, from, 0..self.parts[device].planes.len() as u32);
        let launches: Vec<_> = (0..self.parts.len()).map(launch).collect();
        let run = || kernel::run(&launches, self.setup.options);
        match self.level {
            Level::Managed => run()?,
            _ => {
                let begun = Instant::now();
                let timed = || {
                    let begun = Instant::now();
                    (run(), begun.elapsed())
                };
                let launched = self.runtime.launch(&objects, timed).doing("launching with shared objects");
                let (ran, of_kernels) = launched?;
                let around = begun.elapsed().saturating_sub(of_kernels);
                self.around[usize::from(step > 1)].fetch_add(around.as_nanos() as u64, Relaxed);
                ran?;
            }
        }
        steps.exchange(|| {
            for (side, part, link) in self.outer() {
                let device = if side == BELOW { 0 } else { self.parts.len() - 1 };
                let at = self.boundary(device, side);
                // SAFETY: a shared object or managed memory, and no kernel runs.
                let plane = unsafe { part.fields[to].seen(at..at + self.cube.plane()) };
                link.send(step, bytes_of(plane))?;
            }
            for (side, part, link) in self.outer() {
                // SAFETY: the same; only this thread uses it.
                let plane = unsafe { part.halos[to][side].seen_mut(0..self.cube.plane()) };
                link.receive(step, bytes_of_mut(plane))?;
            }
            Ok(())
        })
    }

    /// The parts that have a neighbour in another process, and the way there.
    fn outer(&self) -> impl Iterator<Item = (usize, &Part, &super::ranks::Link)> {
        let ends = [self.parts.first(), self.parts.last()];
        let links = self.ranks.links.iter();
        SIDES
            .into_iter()
            .zip(ends)
            .zip(links)
            .filter_map(|((side, part), link)| Some((side, part?, link.as_ref()?)))
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
fn turn(step: u64) -> (usize, usize) {
    let from = (step % 2) as usize;
    (from, 1 - from)
}

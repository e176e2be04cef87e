//! Listing 4: the cube is where the host and kernels use it by the same pointers, in shared objects or in CUDA's managed memory.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use ggas_hpe::{Prepared, Runtime, Use};

use super::memory::{bytes_of, bytes_of_mut};
use super::ranks::{Link, Ranks};
use super::stencil_level::Level;
use super::stencil_run::{BELOW, Part, Run, SIDES, turn};
use super::steps::Steps;
use crate::BenchError;
use crate::error::Doing;
use crate::kernel;

/// What the launches of a step use, looked up once: of steps that read the first field, and the second one.
pub(super) fn prepared(
    runtime: &Runtime,
    parts: &[Part],
    ranks: &Ranks,
    level: Level,
) -> Result<Option<[Prepared; 2]>, BenchError> {
    if !level.has_objects() {
        return Ok(None);
    }
    let prepare = |from: usize| {
        let mut objects = Vec::new();
        for part in parts {
            objects.push((part.fields[from].object(), Use::Read));
            objects.push((part.fields[1 - from].object(), Use::Write));
        }
        // Planes of the neighbours that are not in this process; the others are read where they are.
        objects
            .extend(outer(parts, ranks).map(|(side, part, _)| (part.halos[from][side].object(), Use::Read)));
        runtime.prepare(&objects).doing("looking shared objects up")
    };
    Ok(Some([prepare(0)?, prepare(1)?]))
}

impl Run<'_> {
    /// Hands the input over to the devices, as that of the other levels and managed memory's is there before time begins: the host has
    /// nothing of the fields.
    pub(super) fn hand_over(&self) -> Result<(), BenchError> {
        if !self.level.has_objects() {
            return Ok(());
        }
        let objects = |part: &'_ Part| {
            let fields = part.fields.iter().map(|field| (field.object(), Use::Write));
            let halos = part.halos.iter().flatten().map(|halo| (halo.object(), Use::Read));
            fields.chain(halos).collect::<Vec<_>>()
        };
        let objects: Vec<_> = self.parts.iter().flat_map(objects).collect();
        self.runtime.launch(&objects, || ()).doing("launching with shared objects")
    }

    /// A step of all devices. No call copies: what goes to other processes is read and written where kernels have it.
    pub(super) fn shared_step(&self, steps: &Steps, step: u64) -> Result<(), BenchError> {
        let (from, to) = turn(step);
        let launch = |device: usize| self.launch(device, from, 0..self.parts[device].planes.len() as u32);
        let launches: Vec<_> = (0..self.parts.len()).map(launch).collect();
        let run = || {
            let begun = Instant::now();
            let ran = kernel::run(&launches, self.setup.options);
            self.kernels.fetch_add(begun.elapsed().as_nanos() as u64, Relaxed);
            ran
        };
        match &self.prepared {
            None => run()?,
            Some(prepared) => prepared[from].launch(run).doing("launching with shared objects")??,
        }
        if self.ranks.size == 1 {
            return Ok(());
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
    fn outer(&self) -> impl Iterator<Item = (usize, &Part, &Link)> {
        outer(&self.parts, &self.ranks)
    }
}

fn outer<'a>(parts: &'a [Part], ranks: &'a Ranks) -> impl Iterator<Item = (usize, &'a Part, &'a Link)> {
    let ends = [parts.first(), parts.last()];
    let beside = SIDES.into_iter().zip(ends).zip(&ranks.links);
    beside.filter_map(|((side, part), link)| Some((side, part?, link.as_ref()?)))
}

//! Over hosts, what has parts for and of each rank: allgather, all-to-all, reduce-scatter. In steps of so many elements of each part: the
//! ranks of a host bring theirs together, the leaders exchange what is for the other hosts, and all ranks of the host get what came.

use crate::leaders::call;
use crate::over_hosts::{OverHosts, Strip};
use crate::vector::check_apart;
use crate::{Collective, Element, Hierarchy, Op, SharedGpuError, Vector};

/// Most bytes of a step that a rank holds for or of its host.
const STEP: usize = 8 << 20;

/// Which of them.
#[derive(Clone, Copy)]
pub(crate) enum Gathered {
    /// An allgather.
    All,
    /// An all-to-all.
    Exchanged,
    /// A reduce-scatter.
    Reduced(Op),
}

/// A step, of so many bytes of each part.
struct Step {
    kind: Gathered,
    collective: Collective,
    /// Bytes of all ranks' parts, in all steps.
    whole: usize,
    call: u32,
    /// Elements, and bytes.
    count: usize,
    part: usize,
    element: Element,
    /// Where a rank's own vectors of this step begin in its scratch memory, what the host brought together, and what came.
    own: usize,
    brought: usize,
    came: usize,
    /// Parts of what comes.
    parts: usize,
}

impl Hierarchy {
    /// As [`SharedGpu::allgather`](crate::SharedGpu::allgather), in the order of the job's ranks. Where a host has several GPUs, its ranks
    /// copy to and from a buffer on that of its first, as in the next two. Over hosts these three go in steps of at most 8 MiB on a host:
    /// ranks whose calls differ behind a step are told then.
    ///
    /// # Errors
    /// As [`SharedGpu::allgather`](crate::SharedGpu::allgather), with ranks of the job; over hosts [`SharedGpuError::Memory`], which ends the
    /// use of `self`, and as [`allreduce`](Self::allreduce).
    pub fn allgather(
        &mut self,
        input: Vector<'_>,
        output: Vector<'_>,
        count: usize,
        element: Element,
    ) -> Result<(), SharedGpuError> {
        if self.hosts.len() == 1 {
            return self.one.allgather(input, output, count, element);
        }
        self.gathered(Gathered::All, input, output, count, element)
    }

    /// As [`SharedGpu::alltoall`](crate::SharedGpu::alltoall).
    ///
    /// # Errors
    /// As [`allgather`](Self::allgather); [`SharedGpuError::SmallBuffer`] where not a word for each rank of each fits.
    pub fn alltoall(
        &mut self,
        input: Vector<'_>,
        output: Vector<'_>,
        count: usize,
        element: Element,
    ) -> Result<(), SharedGpuError> {
        if self.hosts.len() == 1 {
            return self.one.alltoall(input, output, count, element);
        }
        self.gathered(Gathered::Exchanged, input, output, count, element)
    }

    /// As [`SharedGpu::reduce_scatter`](crate::SharedGpu::reduce_scatter).
    ///
    /// # Errors
    /// As [`allgather`](Self::allgather).
    pub fn reduce_scatter(
        &mut self,
        input: Vector<'_>,
        output: Vector<'_>,
        count: usize,
        element: Element,
        op: Op,
    ) -> Result<(), SharedGpuError> {
        if self.hosts.len() == 1 {
            return self.one.reduce_scatter(input, output, count, element, op);
        }
        self.gathered(Gathered::Reduced(op), input, output, count, element)
    }

    fn gathered(
        &mut self,
        kind: Gathered,
        input: Vector<'_>,
        output: Vector<'_>,
        count: usize,
        element: Element,
    ) -> Result<(), SharedGpuError> {
        let (n, m, size) = (self.ranks.len(), self.hosts[self.own].len(), element.size());
        let widest = self.hosts.iter().map(Vec::len).max().unwrap_or(1);
        let all = count.saturating_mul(n);
        let (ins, outs) = match kind {
            Gathered::All => (count, all),
            Gathered::Exchanged => (all, all),
            Gathered::Reduced(_) => (all, count),
        };
        let (from, to) = (input.check(ins, element)?, output.check(outs, element)?);
        // What a rank holds of its host: brought together, and come. Alike on all hosts.
        let (collective, op, most, brought, came) = match kind {
            Gathered::All => (Collective::Allgather, None, n, m, n),
            Gathered::Exchanged => (Collective::Alltoall, None, n * widest, m * n, m * n),
            Gathered::Reduced(op) => (Collective::ReduceScatter, Some(op), n, n, m),
        };
        let whole = if let Gathered::Reduced(_) = kind { ins } else { count };
        let place = self.ranks.iter().position(|rank| *rank == self.rank).unwrap_or(0);
        check_apart(collective, (from, to), whole * size, (place, n))?;
        let each = (STEP / (most * size)).max(1).min(count);
        // Vectors begin at multiples of any element.
        let part = |parts: usize| (parts * each * size).next_multiple_of(256);
        self.make_room(part(n) + part(brought) + part(came))?;
        let call = call(collective, 0, count * size, element, op);
        for done in (0..count.max(1)).step_by(each.max(1)) {
            let now = each.min(count - done);
            let step = Step {
                kind,
                collective,
                whole: all * size,
                call,
                count: now,
                part: now * size,
                element,
                own: 0,
                brought: part(n),
                came: part(n) + part(brought),
                parts: came,
            };
            self.step(&step, (from, to), (done * size, count * size))?;
        }
        Ok(())
    }

    /// Parts in the vectors of the caller are `stride` bytes from each other; those of this step begin `at` bytes behind.
    fn step(
        &mut self,
        step: &Step,
        (from, to): (u64, u64),
        (at, stride): (usize, usize),
    ) -> Result<(), SharedGpuError> {
        let Some(scratch) = self.scratch.take() else { return Err(SharedGpuError::Broken) };
        let place = |offset: usize| scratch.address() + offset as u64;
        let of_part = |base: u64, rank: usize| base + (rank * stride + at) as u64;
        let leader = self.leader();
        let (own, brought, came) = (
            Vector::at(&scratch, step.own),
            Vector::at(&scratch, step.brought),
            Vector::at(&scratch, step.came),
        );
        let (count, element, n) = (step.count, step.element, self.ranks.len());
        let done = (|| {
            let packed = if matches!(step.kind, Gathered::All) { 1 } else { n };
            let pack = (0..packed).map(|rank| (place(step.own + rank * step.part), of_part(from, rank)));
            self.copies(step.part, pack)?;
            self.on_host(|one| match step.kind {
                Gathered::All => one.allgather(own, brought, count, element),
                Gathered::Exchanged => one.allgather(own, brought, n * count, element),
                Gathered::Reduced(op) => one.reduce(leader, own, brought, n * count, element, op),
            })?;
            let strips = self.strips(step, place(step.brought), place(step.came));
            self.between(|over| {
                over.take(step.collective, step.whole);
                leaders(over, step, &strips)
            })?;
            self.on_host(|one| one.broadcast(leader, came, step.parts * count, element))?;
            let mine = self.hosts[self.own].iter().position(|rank| *rank == self.rank).unwrap_or_default();
            let took = |part: usize| place(step.came + part * step.part);
            match step.kind {
                Gathered::All => self.copies(step.part, (0..n).map(|rank| (of_part(to, rank), took(rank)))),
                Gathered::Exchanged => {
                    self.copies(step.part, (0..n).map(|rank| (of_part(to, rank), took(mine * n + rank))))
                }
                Gathered::Reduced(_) => self.copies(step.part, [(of_part(to, 0), took(mine))].into_iter()),
            }
        })();
        self.scratch = Some(scratch);
        done
    }

    /// What the leader of this host has for each host, and gets from each.
    fn strips(&self, step: &Step, brought: u64, came: u64) -> Strips {
        let place = |rank: &u32| self.ranks.binary_search(rank).unwrap_or_default();
        let (n, m, bytes) = (self.ranks.len(), self.hosts[self.own].len(), step.part);
        let at = |base: u64, part: usize| base + (part * bytes) as u64;
        let strip = |pieces| Strip { pieces, bytes };
        let widest = self.hosts.iter().map(Vec::len).max().unwrap_or(1);
        let each =
            |make: &dyn Fn(&[u32]) -> Vec<u64>| self.hosts.iter().map(|host| strip(make(host))).collect();
        match step.kind {
            Gathered::All => Strips {
                out: each(&|_| (0..m).map(|rank| at(brought, rank)).collect()),
                into: each(&|host| host.iter().map(|rank| at(came, place(rank))).collect()),
                longest: widest * bytes,
            },
            // By the sender, and then by the receiver.
            Gathered::Exchanged => Strips {
                out: each(&|host| {
                    let of = |rank: usize| host.iter().map(move |to| at(brought, rank * n + place(to)));
                    (0..m).flat_map(of).collect()
                }),
                into: each(&|host| {
                    let of = |from: &u32| {
                        let from = place(from);
                        (0..m).map(move |rank| at(came, rank * n + from))
                    };
                    host.iter().flat_map(of).collect()
                }),
                longest: widest * widest * bytes,
            },
            Gathered::Reduced(_) => Strips {
                out: each(&|host| host.iter().map(|rank| at(brought, place(rank))).collect()),
                into: vec![strip((0..m).map(|rank| at(came, rank)).collect())],
                longest: widest * bytes,
            },
        }
    }

    /// Copies of so many bytes between the caller's vectors and scratch memory, to and from.
    fn copies(
        &mut self,
        bytes: usize,
        mut all: impl Iterator<Item = (u64, u64)>,
    ) -> Result<(), SharedGpuError> {
        // SAFETY: vectors that were checked, of the caller and of this rank's scratch memory, which nobody else uses meanwhile.
        let queued = all.try_for_each(|(to, from)| unsafe { self.mover.copy(to, from, bytes) });
        let done = queued.and(self.mover.finish());
        done.inspect_err(|error| self.fail(error))
    }
}

/// By host.
struct Strips {
    out: Vec<Strip>,
    into: Vec<Strip>,
    /// The longest of any two hosts.
    longest: usize,
}

/// The leaders' part of a step.
fn leaders(over: &mut OverHosts, step: &Step, strips: &Strips) -> Result<(), SharedGpuError> {
    let Strips { out, into, longest } = strips;
    match step.kind {
        Gathered::Reduced(op) => over.reduce_scatter(step.call, (out, &into[0]), *longest, step.element, op),
        _ => over.exchange(step.call, out, into, *longest),
    }
}

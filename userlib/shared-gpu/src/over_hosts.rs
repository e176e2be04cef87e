//! Collectives of the leaders of hosts, by rounds of puts (`leaders.rs`). Vectors go through host memory, where the leaders' cores reduce
//! them, or through that of their GPUs, which reduce them (`across.rs`); in the order of hosts.
//!
//! What is short, or chosen to, goes whole in one round; of what is long each host has a part: it gets that of all, and gives it to all (a
//! reduce-scatter and an allgather, or from a root a scatter and an allgather), so that each vector crosses each host's link about once
//! each way.

use std::ops::Range;

use ggas_gpu::Module;
use ggas_kernels::Processor;

use crate::across::Through;
use crate::attached::Source;
use crate::leaders::Leaders;
use crate::mover::Mover;
use crate::{Collective, Element, Op, SharedGpuError, kernel};

/// Bytes up to which a vector goes whole to all hosts.
const SHORT: usize = 4 << 10;

/// Pieces of memory, each as long as the others, one behind the other.
pub(crate) struct Strip {
    /// Where they are.
    pub(crate) pieces: Vec<u64>,
    /// Of each.
    pub(crate) bytes: usize,
}

impl Strip {
    fn len(&self) -> usize {
        self.pieces.len() * self.bytes
    }

    /// How much of it there is from a byte on, and no more than so much.
    fn left(&self, from: usize, most: usize) -> usize {
        self.len().saturating_sub(from).min(most)
    }

    /// Those bytes: where they are, and how far from the first of them.
    fn window(&self, from: usize, most: usize) -> impl Iterator<Item = (u64, usize, usize)> + '_ {
        let end = from + self.left(from, most);
        let mut at = from;
        std::iter::from_fn(move || {
            let within = at % self.bytes.max(1);
            let bytes = (self.bytes - within).min(end.checked_sub(at).filter(|left| *left > 0)?);
            let found = (self.pieces[at / self.bytes] + within as u64, at - from, bytes);
            at += bytes;
            Some(found)
        })
    }
}

/// A leader's collectives. What its addresses name is there, and nobody else uses it meanwhile.
pub(crate) struct OverHosts {
    leaders: Leaders,
    mover: Mover,
    /// The kernels of a GPU, which reduces what goes through its memory.
    module: Option<Module>,
}

impl OverHosts {
    pub(crate) fn new(
        leaders: Leaders,
        mover: Mover,
        processor: &Processor,
    ) -> Result<OverHosts, SharedGpuError> {
        let module = match processor {
            Processor::Gpu(gpu) => Some(kernel::load(gpu.device())?),
            _ => None,
        };
        Ok(OverHosts { leaders, mover, module })
    }

    /// Has the next call, with results of so many bytes, made as is chosen for it.
    pub(crate) fn take(&mut self, collective: Collective, bytes: usize) {
        self.leaders.take(collective, bytes);
    }

    pub(crate) fn leaders(&mut self) -> &mut Leaders {
        &mut self.leaders
    }

    pub(crate) fn put_bytes(&self, through: Through) -> u64 {
        self.leaders.put_bytes(through)
    }

    pub(crate) fn straight_bytes(&self) -> u64 {
        self.leaders.straight_bytes()
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.leaders.is_broken()
    }

    pub(crate) fn barrier(&mut self, call: u32) -> Result<(), SharedGpuError> {
        self.leaders.round(call, |_| None)
    }

    /// The bytes at `at` of all hosts, reduced, at `root`, or at all of them.
    pub(crate) fn reduce(
        &mut self,
        call: u32,
        root: Option<usize>,
        (at, bytes): (u64, usize),
        element: Element,
        op: Op,
    ) -> Result<(), SharedGpuError> {
        for part in self.parts(bytes, element) {
            let (at, bytes) = (at + part.start as u64, part.len());
            if self.is_whole(bytes) {
                self.reduce_short(call, root, (at, bytes), element, op)?;
            } else {
                self.reduce_long(call, root, (at, bytes), element, op)?;
            }
        }
        Ok(())
    }

    fn reduce_short(
        &mut self,
        call: u32,
        root: Option<usize>,
        (at, bytes): (u64, usize),
        element: Element,
        op: Op,
    ) -> Result<(), SharedGpuError> {
        let (set, me) = (self.leaders.next(), self.leaders.me());
        let takes = |host: usize| root.is_none_or(|root| root == host);
        let own = self.leaders.landing(set, me);
        self.copy_out(own, at, bytes)?;
        self.mover.finish()?;
        self.leaders.round(call, |host| takes(host).then_some((Source::Slot(own), bytes)))?;
        if takes(me) {
            let sum = self.leaders.stage(set, 0);
            self.add(set, sum, bytes, element, op)?;
            self.copy_in(at, sum, bytes)?;
        }
        self.mover.finish()
    }

    fn reduce_long(
        &mut self,
        call: u32,
        root: Option<usize>,
        (at, bytes): (u64, usize),
        element: Element,
        op: Op,
    ) -> Result<(), SharedGpuError> {
        let me = self.leaders.me();
        let shares = self.shares(bytes, element);
        let set = self.spread(call, at, &shares)?;
        let next = self.leaders.next();
        let sum = self.leaders.stage(next, 0);
        self.add(set, sum, shares[me].len(), element, op)?;
        self.mover.finish()?;
        self.collect(call, root, at, &shares)
    }

    /// The bytes at `at` of all hosts become those of `root`.
    pub(crate) fn broadcast(
        &mut self,
        call: u32,
        root: usize,
        (at, bytes): (u64, usize),
        element: Element,
    ) -> Result<(), SharedGpuError> {
        let (me, all) = (self.leaders.me(), bytes);
        for part in self.parts(bytes, element) {
            let is_last = part.end == all;
            let (at, bytes) = (at + part.start as u64, part.len());
            let set = self.leaders.next();
            if self.is_whole(bytes) {
                let slot = self.leaders.stage(set, 0);
                let may = me == root && !is_last;
                let straight = may.then(|| self.leaders.straight(at, bytes)).flatten();
                if me == root && straight.is_none() {
                    self.copy_out(slot, at, bytes)?;
                    self.mover.finish()?;
                }
                let from = straight.unwrap_or(Source::Slot(slot));
                self.leaders.round(call, |_| (me == root).then_some((from, bytes)))?;
                if me != root {
                    self.copy_in(at, self.leaders.landing(set, root), bytes)?;
                    self.mover.finish()?;
                }
                continue;
            }
            let shares = self.shares(bytes, element);
            if me == root {
                self.spread(call, at, &shares)?;
                let own = (at + shares[me].start as u64, shares[me].len());
                self.copy_out(self.leaders.stage(self.leaders.next(), 0), own.0, own.1)?;
            } else {
                self.leaders.round(call, |_| None)?;
                let (to, from) = (
                    self.leaders.stage(self.leaders.next(), 0),
                    self.leaders.address(self.leaders.landing(set, root)),
                );
                self.copy_out(to, from, shares[me].len())?;
            }
            self.mover.finish()?;
            self.collect(call, None, at, &shares)?;
        }
        Ok(())
    }

    /// What lies in `out[host]` comes to `into[this host]` of that one; `longest`: of all hosts' strips.
    pub(crate) fn exchange(
        &mut self,
        call: u32,
        out: &[Strip],
        into: &[Strip],
        longest: usize,
    ) -> Result<(), SharedGpuError> {
        let (hosts, me, slot) = (self.leaders.hosts(), self.leaders.me(), self.leaders.slot());
        for (to, from) in into[me].pieces.iter().zip(&out[me].pieces) {
            // SAFETY: memory of this rank that the caller names.
            unsafe { self.mover.copy(*to, *from, out[me].bytes) }?;
        }
        for from in (0..longest.max(1)).step_by(slot) {
            let set = self.leaders.next();
            for host in (0..hosts).filter(|host| *host != me) {
                self.pack(self.leaders.stage(set, host), &out[host], from)?;
            }
            self.mover.finish()?;
            let stages: Vec<usize> = (0..hosts).map(|host| self.leaders.stage(set, host)).collect();
            self.leaders
                .round(call, |host| Some((Source::Slot(stages[host]), out[host].left(from, slot))))?;
            for host in (0..hosts).filter(|host| *host != me) {
                self.unpack(&into[host], from, self.leaders.landing(set, host))?;
            }
            self.mover.finish()?;
        }
        Ok(())
    }

    /// All hosts' `out[this host]`, reduced, come to `into`; `longest`: of all hosts' strips.
    pub(crate) fn reduce_scatter(
        &mut self,
        call: u32,
        (out, into): (&[Strip], &Strip),
        longest: usize,
        element: Element,
        op: Op,
    ) -> Result<(), SharedGpuError> {
        let (hosts, me, slot) = (self.leaders.hosts(), self.leaders.me(), self.leaders.slot());
        for from in (0..longest.max(1)).step_by(slot) {
            let set = self.leaders.next();
            let at =
                |host| if host == me { self.leaders.landing(set, me) } else { self.leaders.stage(set, host) };
            let places: Vec<usize> = (0..hosts).map(at).collect();
            for (place, strip) in places.iter().zip(out) {
                self.pack(*place, strip, from)?;
            }
            self.mover.finish()?;
            self.leaders
                .round(call, |host| Some((Source::Slot(places[host]), out[host].left(from, slot))))?;
            // The own slot of stages is not put from.
            let sum = self.leaders.stage(set, me);
            self.add(set, sum, into.left(from, slot), element, op)?;
            self.unpack(into, from, sum)?;
            self.mover.finish()?;
        }
        Ok(())
    }

    /// Whether a part of a vector goes to all hosts in one round.
    fn is_whole(&self, bytes: usize) -> bool {
        self.leaders.across().whole || bytes <= SHORT
    }

    /// Parts of a vector that one round takes, or two; one at least, so that hosts meet.
    fn parts(&self, bytes: usize, element: Element) -> impl Iterator<Item = Range<usize>> + use<> {
        let shares = if self.leaders.across().whole { 1 } else { self.leaders.hosts() };
        let most = shares * (self.leaders.slot() - element.size());
        let most = most / element.size() * element.size();
        (0..bytes.max(1)).step_by(most).map(move |from| from..bytes.min(from + most))
    }

    /// Each host's share of a vector.
    fn shares(&self, bytes: usize, element: Element) -> Vec<Range<usize>> {
        let (hosts, count, size) = (self.leaders.hosts(), bytes / element.size(), element.size());
        (0..hosts).map(|host| count * host / hosts * size..count * (host + 1) / hosts * size).collect()
    }

    /// To each host its share, from where it is if that may be, as another round follows; in which set they landed. The own one is in a slot
    /// beside them.
    fn spread(&mut self, call: u32, at: u64, shares: &[Range<usize>]) -> Result<usize, SharedGpuError> {
        let (set, me) = (self.leaders.next(), self.leaders.me());
        let mut places = Vec::with_capacity(shares.len());
        for (host, share) in shares.iter().enumerate() {
            let from = at + share.start as u64;
            let place =
                if host == me { self.leaders.landing(set, me) } else { self.leaders.stage(set, host) };
            let straight = (host != me).then(|| self.leaders.straight(from, share.len())).flatten();
            if straight.is_none() {
                self.copy_out(place, from, share.len())?;
            }
            places.push(straight.unwrap_or(Source::Slot(place)));
        }
        self.mover.finish()?;
        self.leaders.round(call, |host| Some((places[host], shares[host].len())))?;
        Ok(set)
    }

    /// The shares, which lie in the first stage of the next round, to `root`, or to all.
    fn collect(
        &mut self,
        call: u32,
        root: Option<usize>,
        at: u64,
        shares: &[Range<usize>],
    ) -> Result<(), SharedGpuError> {
        let (set, me) = (self.leaders.next(), self.leaders.me());
        let takes = |host: usize| root.is_none_or(|root| root == host);
        let own = self.leaders.stage(set, 0);
        let bytes = shares[me].len();
        self.leaders.round(call, |host| takes(host).then_some((Source::Slot(own), bytes)))?;
        if takes(me) {
            for (host, share) in shares.iter().enumerate() {
                let from = if host == me { own } else { self.leaders.landing(set, host) };
                self.copy_in(at + share.start as u64, from, share.len())?;
            }
        }
        self.mover.finish()
    }

    /// All hosts' bytes that landed in this set, the own ones among them, to another place; or that is queued behind copies.
    fn add(
        &self,
        set: usize,
        to: usize,
        bytes: usize,
        element: Element,
        op: Op,
    ) -> Result<(), SharedGpuError> {
        let on_gpu = self.leaders.across().through == Through::Gpu;
        let at = |place| if on_gpu { self.leaders.address(place) } else { self.leaders.on_host(place) };
        let args = kernel::Reduce {
            result: at(to),
            first: at(self.leaders.landing(set, 0)),
            slots: at(self.leaders.landing(set, 1)),
            stride: self.leaders.slot() as u64,
            count: (bytes / element.size()) as u64,
            number: self.leaders.hosts() as u32 - 1,
            element: element as u32,
            op: op as u32,
            reserved: 0,
        };
        if on_gpu && let (Mover::Gpu(stream), Some(module)) = (&self.mover, &self.module) {
            // SAFETY: slots of this leader in memory of its GPU, as long as that, into which nobody puts before its next round, in front of
            // which the caller finishes.
            return unsafe { kernel::enqueue_reduce(module, stream, &args) };
        }
        // SAFETY: likewise, in host memory.
        unsafe { kernel::reduce(&args) };
        Ok(())
    }

    /// To a slot, from a vector.
    fn copy_out(&self, to: usize, from: u64, bytes: usize) -> Result<(), SharedGpuError> {
        // SAFETY: a slot that is free until the next round, and memory of this rank that the caller names.
        unsafe { self.mover.copy(self.leaders.address(to), from, bytes) }
    }

    /// To a vector, from a slot.
    fn copy_in(&self, to: u64, from: usize, bytes: usize) -> Result<(), SharedGpuError> {
        // SAFETY: as above.
        unsafe { self.mover.copy(to, self.leaders.address(from), bytes) }
    }

    /// To a slot, from a byte of a strip on.
    fn pack(&self, to: usize, strip: &Strip, from: usize) -> Result<(), SharedGpuError> {
        strip
            .window(from, self.leaders.slot())
            .try_for_each(|(piece, at, bytes)| self.copy_out(to + at, piece, bytes))
    }

    /// The way back.
    fn unpack(&self, strip: &Strip, from: usize, slot: usize) -> Result<(), SharedGpuError> {
        strip
            .window(from, self.leaders.slot())
            .try_for_each(|(piece, at, bytes)| self.copy_in(piece, slot + at, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_of_a_strip_are_all_of_it_once() {
        let strip = Strip { pieces: vec![1000, 5000, 3000], bytes: 10 };
        for most in [1, 3, 7, 10, 12, 30, 100] {
            let mut seen = Vec::new();
            for from in (0..strip.len()).step_by(most) {
                let mut expected = 0;
                for (at, offset, bytes) in strip.window(from, most) {
                    assert!(offset == expected && bytes > 0, "{most}");
                    expected += bytes;
                    seen.extend(at..at + bytes as u64);
                }
                assert_eq!(expected, strip.left(from, most));
            }
            let all: Vec<u64> = (1000..1010).chain(5000..5010).chain(3000..3010).collect();
            assert_eq!(seen, all, "{most} at a time");
        }
        assert_eq!(Strip { pieces: vec![1, 2], bytes: 0 }.window(0, 9).count(), 0);
        assert_eq!(strip.window(40, 9).count(), 0, "behind its end");
    }
}

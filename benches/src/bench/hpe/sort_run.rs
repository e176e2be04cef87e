//! Runs of the merge sort. First each device sorts its numbers; then sequences of 1, 2, 4 ... devices are merged in pairs, of which
//! each device makes its own part of the result: it finds the pivots where the part begins and ends, gets the pieces between them, and
//! merges these.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::args::{
    BENCH_HPE_SORT_RUN, bench_hpe_sequence, bench_hpe_sort_join, bench_hpe_sort_merge, bench_hpe_sort_pivot,
    bench_hpe_sort_runs,
};

use super::memory::{Array, bytes_of};
use super::sort::List;
use super::steps::{Event, Steps};
use super::{How, devices, shape};
use crate::error::Doing;
use crate::kernel;
use crate::setup::Setup;
use crate::{BenchError, Check};

const RUN: usize = BENCH_HPE_SORT_RUN as usize;

/// What a device has.
struct Part {
    /// What a merge reads, and what it writes, in turn.
    numbers: [Array<u32>; 2],
    /// The pieces that were copied.
    pieces: Array<u32>,
    found: Array<u64>,
    /// Where kernels find `numbers[0]` of all devices, `numbers[1]` of all, and these pieces.
    table: Array<u64>,
    len: usize,
}

/// A list on some devices.
pub(super) struct Run<'a> {
    setup: &'a Setup<'a>,
    list: &'a List,
    how: How,
    parts: Vec<Part>,
    /// Numbers of a device; the last ones may have fewer.
    chunk: usize,
}

/// A sorted sequence of numbers of the whole list, and the place in tables that has number 0.
#[derive(Clone)]
struct Sequence {
    field: usize,
    range: Range<usize>,
}

impl<'a> Run<'a> {
    pub fn new(setup: &'a Setup<'a>, list: &'a List, how: How, count: usize) -> Result<Run<'a>, BenchError> {
        let builder = devices(setup, count as u32)?.peers(how != How::Staged);
        let runtime = builder.timeout(setup.options.timeout).build().doing("making a runtime")?;
        let chunk = list.before.len().div_ceil(count);
        let part = |device: usize| {
            let array = || Array::new(&runtime, device, chunk);
            Ok::<_, BenchError>(Part {
                numbers: [array()?, array()?],
                pieces: array()?,
                found: Array::new(&runtime, device, 2)?,
                table: Array::new(&runtime, device, 2 * count + 1)?,
                len: list.before.len().saturating_sub(device * chunk).min(chunk),
            })
        };
        let parts = (0..count).map(part).collect::<Result<Vec<_>, _>>()?;
        let place = |field: usize| parts.iter().map(move |part: &Part| part.numbers[field].kernels(0));
        let places: Vec<u64> = place(0).chain(place(1)).collect();
        for part in &parts {
            part.table.write(0, &places)?;
            part.table.write(places.len(), &[part.pieces.kernels(0)])?;
        }
        Ok(Run { setup, list, how, parts, chunk })
    }

    /// Puts the input there, and what is not sorted where something is to come.
    pub fn fill(&self) -> Result<(), BenchError> {
        let poison: Vec<u32> = (0..self.chunk as u32).map(|i| i ^ 0xa5a5_a5a5).collect();
        for (device, part) in self.parts.iter().enumerate() {
            let begin = (device * self.chunk).min(self.list.before.len());
            part.numbers[0].write(0, &self.list.before[begin..begin + part.len])?;
            part.numbers[1].write(0, &poison)?;
            part.pieces.write(0, &poison)?;
        }
        Ok(())
    }

    /// Gives how long it took, how long until all devices had sorted their own, and the share in which data moved, in percent.
    pub fn sort(&self) -> Result<(Duration, Duration, f64), BenchError> {
        let steps = Steps::new(self.parts.len(), self.setup.options.timeout);
        let local = AtomicU64::new(0);
        let took = steps.run(|device| {
            let begun = Instant::now();
            self.sort_own(device)?;
            local.fetch_max(begun.elapsed().as_nanos() as u64, Ordering::Relaxed);
            steps.post(device, Event::Written);
            for round in 0..self.rounds() {
                self.merge_with_others(&steps, device, round)?;
                steps.post(device, Event::Written);
            }
            Ok(())
        })?;
        let local = Duration::from_nanos(local.load(Ordering::Relaxed));
        Ok((took, local, steps.exchange_percent(took)))
    }

    /// Merges of all of a device's numbers: the same on all, that their results are in the same field.
    fn passes(&self) -> u32 {
        self.chunk.div_ceil(RUN).next_power_of_two().trailing_zeros()
    }

    /// Merges of devices' sequences.
    fn rounds(&self) -> u32 {
        self.parts.len().next_power_of_two().trailing_zeros()
    }

    fn sort_own(&self, device: usize) -> Result<(), BenchError> {
        let part = &self.parts[device];
        let (data, count) = (part.numbers[0].kernels(0), part.len as u64);
        self.run_kernel("bench_hpe_sort_short", device, part.len, &bench_hpe_sort_runs { data, count })?;
        for pass in 0..self.passes() {
            let from = pass as usize % 2;
            let args = bench_hpe_sort_merge {
                in_: part.numbers[from].kernels(0),
                out: part.numbers[1 - from].kernels(0),
                count,
                width: (RUN << pass) as u64,
            };
            self.run_kernel("bench_hpe_sort_double", device, part.len, &args)?;
        }
        Ok(())
    }

    fn merge_with_others(&self, steps: &Steps, device: usize, round: u32) -> Result<(), BenchError> {
        let each = 1 << round;
        let first = device / (2 * each) * (2 * each);
        let field = (self.passes() + round) as usize % 2;
        // All of the two sequences are complete, and nobody reads any more what this merge overwrites.
        for other in first..(first + 2 * each).min(self.parts.len()) {
            steps.wait(other, Event::Written, u64::from(round) + 1)?;
        }
        let whole = self.list.before.len();
        let at = |device: usize| (device * self.chunk).min(whole);
        let a = Sequence { field, range: at(first)..at(first + each) };
        let b = Sequence { field, range: at(first + each)..at(first + 2 * each) };
        let mine = at(device) - at(first)..at(device + 1) - at(first);
        let [begin, end] = steps.exchange(|| self.pivots(device, &a, &b, &mine))?;
        let a = a.part(begin..end);
        let b = b.part(mine.start - begin..mine.end - end);
        let args = match self.how {
            How::Remote => self.join(device, self.sequence(device, &a), self.sequence(device, &b), field),
            How::Staged | How::Copies => {
                steps.exchange(|| self.take(device, 0, &a))?;
                steps.exchange(|| self.take(device, a.range.len(), &b))?;
                let piece = |begin: usize, length: usize| self.piece(device, begin, length);
                let (a, b) = (piece(0, a.range.len()), piece(a.range.len(), b.range.len()));
                self.join(device, a, b, field)
            }
        };
        self.run_kernel("bench_hpe_sort_across", device, mine.len(), &args)
    }

    /// How many of `a` are among the numbers before each end of this range of both merged.
    fn pivots(
        &self,
        device: usize,
        a: &Sequence,
        b: &Sequence,
        range: &Range<usize>,
    ) -> Result<[usize; 2], BenchError> {
        if self.how == How::Staged {
            return Ok([self.pivot(a, b, range.start)?, self.pivot(a, b, range.end)?]);
        }
        let part = &self.parts[device];
        let args = bench_hpe_sort_pivot {
            a: self.sequence(device, a),
            b: self.sequence(device, b),
            at: [range.start as u64, range.end as u64],
            found: part.found.kernels(0),
        };
        self.run_kernel("bench_hpe_sort_search", device, 2, &args)?;
        let mut found = [0; 2];
        part.found.read(0, &mut found)?;
        // What a kernel says is not more than there is, whatever it read.
        Ok([(found[0] as usize).min(range.start), (found[1] as usize).min(range.end)])
    }

    /// The same search by the host.
    fn pivot(&self, a: &Sequence, b: &Sequence, at: usize) -> Result<usize, BenchError> {
        let (mut least, mut most) = (at.saturating_sub(b.range.len()), at.min(a.range.len()));
        while least < most {
            let middle = least + (most - least) / 2;
            if self.number(a, middle)? <= self.number(b, at - middle - 1)? {
                least = middle + 1;
            } else {
                most = middle;
            }
        }
        Ok(least)
    }

    fn number(&self, sequence: &Sequence, i: usize) -> Result<u32, BenchError> {
        let at = sequence.range.start + i;
        let mut number = [0];
        self.parts[at / self.chunk].numbers[sequence.field].read(at % self.chunk, &mut number)?;
        Ok(number[0])
    }

    /// Copies a sequence, of whatever devices, to the pieces of one.
    fn take(&self, device: usize, mut to: usize, sequence: &Sequence) -> Result<(), BenchError> {
        let mut at = sequence.range.start;
        while at < sequence.range.end {
            let (other, offset) = (at / self.chunk, at % self.chunk);
            let len = (self.chunk - offset).min(sequence.range.end - at);
            let from = &self.parts[other].numbers[sequence.field];
            self.parts[device].pieces.take(to, from, offset, len)?;
            (at, to) = (at + len, to + len);
        }
        Ok(())
    }

    /// A sequence as kernels of a device see it.
    fn sequence(&self, device: usize, sequence: &Sequence) -> bench_hpe_sequence {
        bench_hpe_sequence {
            table: self.parts[device].table.kernels(0),
            chunk: self.chunk as u64,
            first: (sequence.field * self.parts.len()) as u64,
            begin: sequence.range.start as u64,
            length: sequence.range.len() as u64,
        }
    }

    /// One that was copied.
    fn piece(&self, device: usize, begin: usize, length: usize) -> bench_hpe_sequence {
        bench_hpe_sequence {
            first: 2 * self.parts.len() as u64,
            ..self.sequence(device, &Sequence { field: 0, range: begin..begin + length })
        }
    }

    fn join(
        &self,
        device: usize,
        a: bench_hpe_sequence,
        b: bench_hpe_sequence,
        field: usize,
    ) -> bench_hpe_sort_join {
        bench_hpe_sort_join { a, b, out: self.parts[device].numbers[1 - field].kernels(0) }
    }

    fn run_kernel<T: Copy>(
        &self,
        kernel: &str,
        device: usize,
        items: usize,
        args: &T,
    ) -> Result<(), BenchError> {
        let options = self.setup.options;
        let (blocks, threads) = shape(options.device, items.div_ceil(RUN) as u64);
        let processor = self.setup.processor(device as u32);
        kernel::run(&[kernel::launch(processor, kernel, blocks, threads, args).resident(1)], options)
    }

    /// Whether it is sorted.
    pub fn compare(&self) -> Result<Check, BenchError> {
        let mut check = Check::default();
        let field = (self.passes() + self.rounds()) as usize % 2;
        for (device, part) in self.parts.iter().enumerate() {
            let begin = (device * self.chunk).min(self.list.after.len());
            let seen = part.numbers[field].list(0..part.len)?;
            let wanted = &self.list.after[begin..begin + part.len];
            check.bytes(&format!("the part of device {device}"), bytes_of(wanted), bytes_of(&seen));
        }
        Ok(check)
    }
}

impl Sequence {
    fn part(&self, range: Range<usize>) -> Sequence {
        let start = self.range.start;
        Sequence { field: self.field, range: start + range.start..start + range.end }
    }
}

//! `ggas-coalescing` (thesis 6.6.3, Fig. 6.9, Table 6.1): values of 4 bytes, neighbouring ones and every second one.

use ggas_kernels::KernelMem;

use super::iterations_for;
use crate::args::bench_ggas_values;
use crate::error::Doing;
use crate::kernel::{self, Probe};
use crate::payload::RoundData;
use crate::setup::{Setup, Worker};
use crate::space::Space;
use crate::team::Task;
use crate::{Bench, BenchError, Check, Device, Options, Progress, Report, Row, Samples, Team};

/// Bytes of a value.
const VALUE: usize = 4;

pub(crate) struct GgasCoalescing;

impl Bench for GgasCoalescing {
    fn name(&self) -> &'static str {
        "ggas-coalescing"
    }

    fn about(&self) -> &'static str {
        "stores and loads of neighbouring 4-byte values, and of every second one (thesis 6.6.3)"
    }

    fn is_of_two_nodes(&self) -> bool {
        true
    }

    fn methods(&self) -> &'static [&'static str] {
        &["store", "store-second", "load", "load-second"]
    }

    fn by_windows(&self) -> bool {
        true
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        // On GPUs as many threads as the thesis has, 8,192 in blocks of 64.
        let (sizes, shape): (&[u64], _) = match options.device {
            Device::Gpu => (&[4, 64, 256, 1024, 4096, 16_384, 1 << 20, 16 << 20], (128, 64)),
            Device::Cpu => (&[4, 64, 4096, 65_536], (1, 32)),
        };
        let sizes = options.sizes_or(sizes, VALUE as u64..=64 << 20, VALUE as u64)?;
        super::methods_by_sizes(task, &task.methods(), &sizes, progress, |report, method, bytes| {
            for &blocks in &options.blocks_or(&[shape.0]) {
                for &threads in &options.threads_or(&[shape.1]) {
                    let (samples, check) = Values::of(method, bytes).access(task, blocks, threads)?;
                    let mut row = Row::new(&samples).method(method).bytes(bytes).bandwidth_of(bytes);
                    row.elements = Some(bytes / VALUE as u64);
                    (row.blocks, row.threads) = (Some(blocks), Some(threads));
                    report.push(row, check);
                }
            }
            Ok(())
        })
    }
}

/// Which values are accessed, and how.
#[derive(Clone, Copy)]
struct Values {
    load: bool,
    step: usize,
    bytes: usize,
}

impl Values {
    fn of(method: &str, bytes: u64) -> Values {
        let step = if method.ends_with("second") { 2 } else { 1 };
        Values { load: method.starts_with("load"), step, bytes: bytes as usize }
    }

    /// Bytes that the accessed values lie in.
    fn span(self) -> usize {
        self.bytes * self.step
    }

    /// These values as they lie in the window, and what lies between them.
    fn spread(self, values: &[u8], between: &[u8]) -> Vec<u8> {
        let mut all = between.to_vec();
        for (value, place) in values.chunks(VALUE).zip(all.chunks_mut(VALUE * self.step)) {
            place[..value.len()].copy_from_slice(value);
        }
        all
    }

    fn access(self, task: Task, blocks: u32, threads: u32) -> Result<(Samples, Check), BenchError> {
        let options = task.options;
        let kernel = if self.load { "bench_ggas_load_values" } else { "bench_ggas_store_values" };
        let setup = Setup::new(task, Worker::Kernels)?;
        let space = Space::new(&setup, self.span(), 4096)?;
        let data = RoundData::new(options.seed, 0, self.bytes);
        let between = RoundData::new(options.seed, 1, self.span());
        let small = if options.device == Device::Gpu { 1000 } else { 400 };
        let iterations = options.iterations.unwrap_or(iterations_for(small, self.bytes as u64 / 16));
        let [first, second] = [0, 1].map(|node| setup.ends().contains(&node));
        let mut check = Check::default();
        let mut samples = None;
        // Storing, node 1's part is poisoned; loading, it has the values among others.
        if second {
            let there = if self.load { self.spread(&data.of(0), &between.of(0)) } else { between.of(0) };
            space.window.write(1, 0, &there).doing("writing the window")?;
        }
        setup.share::<()>(Vec::new())?;
        if first {
            let filled = |bytes: &[u8]| -> Result<KernelMem, BenchError> {
                let memory = setup.processor(0).alloc(bytes.len()).doing("allocating kernel memory")?;
                memory.write(0, bytes).doing("writing kernel memory")?;
                Ok(memory)
            };
            let here = match self.load {
                true => [filled(data.poison())?, filled(&[0])?],
                false => [filled(&data.of(0))?, filled(&data.of(1))?],
            };
            let probe = Probe::with_warm_up(setup.processor(0), iterations)?;
            let args = bench_ggas_values {
                timing: probe.args(),
                window: space.window_of(0)?,
                group: space.group_of(0)?,
                local: [here[0].address(), here[1].address()],
                offset: 0,
                count: (self.bytes / VALUE) as u64,
                peer: 1,
                step: self.step as u32,
            };
            kernel::run(&[kernel::launch(setup.processor(0), kernel, blocks, threads, &args)], options)?;
            space.check()?;
            probe.finished(kernel, None)?;
            samples = Some(probe.samples()?);
            if self.load {
                let mut seen = vec![0; self.bytes];
                here[0].read(0, &mut seen).doing("reading kernel memory")?;
                check.bytes("loaded values", &data.of(0), &seen);
            }
        }
        setup.share::<()>(Vec::new())?;
        if second && !self.load {
            let last = data.of(Probe::rounds_of(iterations) - 1);
            let mut seen = vec![0; self.span()];
            space.window.read(1, 0, &mut seen).doing("reading the window")?;
            check.bytes("stored values and those between", &self.spread(&last, &between.of(0)), &seen);
        }
        setup.collect(samples, check)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_second_value_leaves_those_between() {
        let second = Values::of("store-second", 8);
        let spread = second.spread(&[1, 1, 1, 1, 2, 2, 2, 2], &[9; 16]);
        assert_eq!(spread, [1, 1, 1, 1, 9, 9, 9, 9, 2, 2, 2, 2, 9, 9, 9, 9]);
        assert_eq!(Values::of("load", 4).spread(&[1, 2, 3, 4], &[9; 4]), [1, 2, 3, 4]);
    }
}

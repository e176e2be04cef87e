//! `hpe-sort`: merge sort of numbers that lie on several devices; where a device's part begins in two sorted sequences is found by
//! loads from the devices that have them.

use super::sort_run::Run;
use super::{How, device_counts, of_one_process, rows};
use crate::host::require_memory;
use crate::setup::{Setup, Worker};
use crate::team::Task;
use crate::{Bench, BenchError, Check, Device, Options, Progress, RandomStream, Report, Row, Samples, Team};

pub(crate) struct Sort;

impl Bench for Sort {
    fn name(&self) -> &'static str {
        "hpe-sort"
    }

    fn about(&self) -> &'static str {
        "merge sort of 32-bit numbers that lie on several devices, sizes: numbers (HPE Table 1, Fig. 9)"
    }

    fn is_of_two_nodes(&self) -> bool {
        true
    }

    fn methods(&self) -> &'static [&'static str] {
        &How::NAMES
    }

    fn by_windows(&self) -> bool {
        true
    }

    fn has_devices(&self) -> bool {
        true
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        of_one_process(team, options)?;
        let counts = device_counts(team, options)?;
        let usual: &[u64] = match options.device {
            Device::Cpu => &[10_000, 100_000],
            Device::Gpu => &[1 << 20, 1 << 24, 1 << 27],
        };
        let sizes = options.sizes_or(usual, 1..=1 << 29, 1)?;
        for &numbers in &sizes {
            require_memory(numbers, numbers * 4 * 8)?;
        }
        let hows = How::ALL.into_iter().filter(|how| options.wants(how.name()));
        let hows: Vec<_> = hows.map(|how| (how, how.name(), how != How::Staged)).collect();
        let mut report = task.report();
        progress.begin(self.name(), (hows.len() * sizes.len() * counts.len()) as u64);
        let setup = Setup::new(task, Worker::Kernels)?;
        for &numbers in &sizes {
            let list = List::new(numbers as usize, options.seed);
            let what = format!("{numbers} numbers");
            let measure = |how, count| measure(&setup, &list, how, count);
            rows(&setup, (&hows, &counts, &what), (&mut report, progress), measure)?;
        }
        report.notes.push(
            "`local ms`: until the last device has sorted its own numbers; `exchange percent`: of all threads' time, in searches and copies"
                .to_owned(),
        );
        Ok(report)
    }
}

/// Numbers, and their order.
pub(super) struct List {
    pub before: Vec<u32>,
    pub after: Vec<u32>,
}

impl List {
    fn new(numbers: usize, seed: u64) -> List {
        let random = RandomStream::new(seed, 0);
        // Equal ones, too.
        let number = |i: usize| random.word(i as u64) as u32 >> (i % 3 * 9);
        let before: Vec<u32> = (0..numbers).map(number).collect();
        let mut after = before.clone();
        after.sort_unstable();
        List { before, after }
    }
}

fn measure(setup: &Setup, list: &List, how: How, devices: u32) -> Result<(Row, Check), BenchError> {
    let run = Run::new(setup, list, how, devices as usize)?;
    let (mut ns, mut own, mut percent, mut check) = (Vec::new(), Vec::new(), 0.0, Check::default());
    let runs = setup.options.iterations.unwrap_or(5);
    // The first is warm-up.
    for number in 0..=runs {
        run.fill()?;
        let (took, sorted, exchanged) = run.sort()?;
        check.merge(run.compare()?);
        if number > 0 {
            ns.push(took.as_nanos() as f64);
            own.push(sorted.as_nanos() as f64);
            percent += exchanged / runs as f64;
        }
    }
    let numbers = list.before.len() as u64;
    let mut row = Row::new(&Samples::new(ns, 1)).method(how.name());
    row.elements = Some(numbers);
    let median = row.latency_us.median.max(1e-9);
    row.rate_per_s = Some(numbers as f64 * 1e6 / median);
    let local = Samples::new(own, 1).latency().median;
    row = row.with("total_ms", median / 1e3).with("local_ms", local / 1e3);
    Ok((row.with("exchange_percent", percent), check))
}

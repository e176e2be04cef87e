//! `hpe-fft`: a radix-2 transform whose numbers lie on several devices; in each of the first steps pairs of devices exchange theirs.

use super::fft_run::Run;
use super::spectrum::Spectrum;
use super::{How, device_counts, of_one_process, rows};
use crate::host::require_memory;
use crate::setup::{Setup, Worker};
use crate::team::Task;
use crate::{Bench, BenchError, Check, Device, Options, Progress, Report, Row, Samples, Team};

pub(crate) struct Fft;

impl Bench for Fft {
    fn name(&self) -> &'static str {
        "hpe-fft"
    }

    fn about(&self) -> &'static str {
        "a radix-2 FFT of complex floats that lie on several devices, sizes: numbers (HPE Table 1, Figs 9, 10)"
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
        if let Some(bad) = counts.iter().find(|count| !count.is_power_of_two()) {
            let advice = "devices of a radix-2 transform make pairs in each step: use 1, 2, 4, 8 or 16";
            return Err(BenchError::option("devices", bad, advice));
        }
        let usual: &[u64] = match options.device {
            Device::Cpu => &[4096, 65_536],
            Device::Gpu => &[1 << 16, 1 << 20, 1 << 24],
        };
        let sizes = options.sizes_or(usual, 32..=1 << 26, 1)?;
        for &points in &sizes {
            if !points.is_power_of_two() {
                let advice = "a radix-2 transform takes a power of two";
                return Err(BenchError::option("sizes", points, advice));
            }
            require_memory(points, points * 8 * 12)?;
        }
        let hows = How::ALL.into_iter().filter(|how| options.wants(how.name()));
        let hows: Vec<_> = hows.map(|how| (how, how.name(), how == How::Remote)).collect();
        let mut report = task.report();
        progress.begin(self.name(), (hows.len() * sizes.len() * counts.len()) as u64);
        let setup = Setup::new(task, Worker::Kernels)?;
        for &points in &sizes {
            let spectrum = Spectrum::new(points as usize, options.seed);
            let what = format!("{points} numbers");
            let measure = |how, count| measure(&setup, &spectrum, how, count);
            rows(&setup, (&hows, &counts, &what), (&mut report, progress), measure)?;
        }
        report.notes.push(
            "every run is compared with the host's, bit by bit; `rms error`: of that, from one in double precision".to_owned(),
        );
        Ok(report)
    }
}

fn measure(setup: &Setup, spectrum: &Spectrum, how: How, devices: u32) -> Result<(Row, Check), BenchError> {
    let run = Run::new(setup, spectrum, how, devices as usize)?;
    let (mut ns, mut check, mut percent) = (Vec::new(), Check::default(), 0.0);
    let runs = setup.options.iterations.unwrap_or(10);
    // The first is warm-up.
    for number in 0..=runs {
        run.fill()?;
        let (took, exchanged) = run.transform()?;
        check.merge(run.compare()?);
        if number > 0 {
            percent += exchanged / runs as f64;
            ns.push(took.as_nanos() as f64);
        }
    }
    let points = spectrum.before.len() as u64;
    let steps = points.trailing_zeros();
    check.wrong(u64::from(spectrum.error > 1e-6), || {
        format!("the host's result is {} from double precision", spectrum.error)
    });
    let mut row = Row::new(&Samples::new(ns, 1)).method(how.name());
    row.elements = Some(points);
    let median = row.latency_us.median.max(1e-9);
    row.rate_per_s = Some(points as f64 * 1e6 / median);
    row = row.with("step_ms", median / 1e3 / f64::from(steps)).with("total_ms", median / 1e3);
    // 10 operations of a butterfly, of which a step has half as many as numbers.
    row = row.with("gflops", 5.0 * points as f64 * f64::from(steps) / median / 1e3);
    Ok((row.with("rms_error", format!("{:.1e}", spectrum.error)).with("exchange_percent", percent), check))
}

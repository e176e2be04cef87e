//! Energy of benchmarks: joules for each operation, by the counters that the machine has (thesis 5.8.3, 6.10).
//!
//! A row is measured as ever, and then once more alone, for so long that one step of a counter is at most a percent
//! of the energy. The energy is what was used between two changes of the counter while the row's kernels ran; where the host
//! does the work, while the row ran. What cannot be read is named with the reason. It is never 0.

mod columns;
mod command;
mod counter;
mod nvml;
mod perf;
mod recording;
mod rows;
mod span;

use std::path::Path;
use std::time::Instant;

use serde::Serialize;
use serde::ser::SerializeSeq;

pub use self::command::{CommandReport, Stretch, of_command};
pub use self::counter::Missing;
use self::counter::{Component, Found};
use self::recording::{Recorder, Recording};
pub use self::rows::measure;
pub(crate) use self::span::{Span, used};
use crate::Options;

/// Shortest time over which energy is counted, unless the caller says: a hundred steps of a GPU's counter.
pub const SECONDS: f64 = 10.0;

/// What a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// A GPU with its memory.
    Gpu,
    /// A processor's package.
    Cpu,
    /// Memory of a package.
    Dram,
}

/// What was found out about energy besides the rows' own columns.
#[derive(Clone, Debug, Default, Serialize)]
pub struct EnergyFacts {
    /// Counters that were read.
    pub counters: Vec<CounterFacts>,
    /// Components without a counter that can be read.
    pub missing: Vec<Missing>,
    /// Power over time: first while nothing ran, then while rows ran.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub power: Vec<Power>,
    /// Where in that time the energy of rows was counted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<Window>,
}

/// A counter and its power while nothing ran.
#[derive(Clone, Debug, Serialize)]
pub struct CounterFacts {
    /// Such as `gpu 0`.
    pub component: String,
    /// The counter.
    pub source: String,
    /// The largest step that it made while nothing ran, in joules.
    pub step_j: f64,
    /// Power while nothing ran.
    pub idle_w: f64,
    /// The time over which that was seen.
    pub idle_s: f64,
}

/// Power of a component while a row ran, or nothing.
#[derive(Clone, Debug, Serialize)]
pub struct Power {
    /// Number of the row, from 0; `None`: of several, or nothing ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub row: Option<usize>,
    /// Such as `gpu 0`.
    pub component: String,
    /// Seconds from the first recording's begin to that of this one.
    pub begin_s: f64,
    /// Seconds since this recording began, and watts until then from the point before.
    #[serde(serialize_with = "rounded")]
    pub points: Vec<(f64, f64)>,
}

/// The time over which the energy of a row was counted, in seconds since the first recording began.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Window {
    /// Number of the row, from 0.
    pub row: usize,
    /// Its begin.
    pub from_s: f64,
    /// Its end.
    pub to_s: f64,
}

fn rounded<S: serde::Serializer>(points: &[(f64, f64)], serializer: S) -> Result<S::Ok, S::Error> {
    let mut list = serializer.serialize_seq(Some(points.len()))?;
    for (at, watts) in points {
        list.serialize_element(&[(at * 1e3).round() / 1e3, (watts * 10.0).round() / 10.0])?;
    }
    list.end()
}

/// The counters of this machine that concern a benchmark.
struct Meter {
    components: Vec<Component>,
    missing: Vec<Missing>,
    /// When the first recording began.
    began: Option<Instant>,
}

impl Meter {
    fn open(options: &Options) -> Meter {
        Meter::in_tree(Path::new("/sys"), if options.device == crate::Device::Gpu { options.gpus } else { 0 })
    }

    /// With RAPL as the sysfs at `sysfs` shows it.
    fn in_tree(sysfs: &Path, gpus: u32) -> Meter {
        let mut found = Found::default();
        if gpus > 0 {
            found.extend(nvml::gpus(gpus));
        }
        let mut rapl = counter::powercap(sysfs);
        if rapl.components.is_empty() {
            let perf = perf::power(sysfs);
            if !perf.components.is_empty() {
                rapl = perf;
            } else {
                rapl.missing.extend(perf.missing);
            }
        }
        if rapl.components.is_empty() && rapl.missing.is_empty() {
            rapl = Found::missing(
                "cpu and its memory",
                "this machine shows no RAPL, neither in powercap nor in perf's power (virtual machines rarely do)",
            );
        }
        found.extend(rapl);
        if gpus == 0 {
            found.extend(Found::missing("gpu", "none was found, or the kernels run on the CPU"));
        }
        Meter::of(found)
    }

    fn of(found: Found) -> Meter {
        Meter { components: found.components, missing: found.missing, began: None }
    }

    fn start(&mut self) -> Recorder {
        Recorder::start(std::mem::take(&mut self.components))
    }

    fn stop(&mut self, recorder: Recorder) -> Recording {
        let first = *self.began.get_or_insert(recorder.began);
        let begin_s = recorder.began.saturating_duration_since(first).as_secs_f64();
        let (components, steps) = recorder.stop();
        let parts = components.iter().zip(steps).map(|(c, steps)| (c.class, c.name.clone(), steps)).collect();
        self.components = components;
        Recording { begin_s, parts }
    }

    /// What the counters say while nothing runs, until `wait` returns; those that fail are missing from then on.
    fn idle(&mut self, wait: impl FnOnce()) -> EnergyFacts {
        let mut facts = EnergyFacts::default();
        if self.components.is_empty() {
            return facts;
        }
        let recorder = self.start();
        let begin = Instant::now();
        wait();
        let span = (recorder.seconds(begin), recorder.seconds(Instant::now()));
        let recording = self.stop(recorder);
        let mut components = Vec::new();
        for (component, (_, _, steps)) in
            std::mem::take(&mut self.components).into_iter().zip(&recording.parts)
        {
            let used = steps.between(span.0, span.1);
            match (used, steps.failed.clone()) {
                (Some(used), None) => {
                    facts.counters.push(CounterFacts {
                        component: component.name.clone(),
                        source: component.source.clone(),
                        step_j: used.step,
                        idle_w: used.watts(),
                        idle_s: used.seconds,
                    });
                    components.push(component);
                }
                (_, failed) => {
                    let seconds = span.1 - span.0;
                    let stood = format!("{} did not change within {seconds:.1} s", component.source);
                    let reason = failed.unwrap_or(stood);
                    self.missing.push(Missing { component: component.name, reason });
                }
            }
        }
        self.components = components;
        facts.power = recording.power(None);
        facts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A counter that rises by a joule at each look.
    pub(super) struct Rising(pub Arc<AtomicU64>);

    impl counter::Counter for Rising {
        fn joules(&mut self) -> Result<f64, String> {
            Ok(self.0.fetch_add(1, Ordering::Relaxed) as f64)
        }
    }

    struct Standing;

    impl counter::Counter for Standing {
        fn joules(&mut self) -> Result<f64, String> {
            Ok(7.0)
        }
    }

    pub(super) fn component(name: &str, counter: Box<dyn counter::Counter>) -> Component {
        Component { class: Class::Gpu, name: name.into(), source: "test".into(), counter, wraps_at: None }
    }

    #[test]
    fn counters_that_stand_still_are_missing_and_never_zero() {
        let looks = Arc::<AtomicU64>::default();
        let rising = component("gpu 0", Box::new(Rising(looks.clone())));
        let standing = component("gpu 1", Box::new(Standing));
        let mut meter = Meter::of(Found { components: vec![rising, standing], ..Found::default() });
        let facts = meter.idle(|| {
            while looks.load(Ordering::Relaxed) < 5 {
                std::thread::yield_now();
            }
        });
        let [counter] = &facts.counters[..] else { panic!("{facts:?}") };
        assert_eq!((&*counter.component, counter.step_j), ("gpu 0", 1.0));
        assert!(counter.idle_w > 0.0);
        assert_eq!((facts.power[0].row, facts.power[0].begin_s), (None, 0.0));
        assert_eq!(meter.missing[0].component, "gpu 1");
        assert!(meter.missing[0].reason.contains("did not change"), "{:?}", meter.missing);
        assert_eq!(meter.components.len(), 1);
    }

    #[test]
    fn a_machine_without_counters_says_so() {
        let sysfs = tempfile::tempdir().expect("a folder");
        let meter = Meter::in_tree(sysfs.path(), 0);
        assert!(meter.components.is_empty());
        assert!(meter.missing[0].reason.contains("RAPL"), "{:?}", meter.missing);
        assert_eq!(meter.missing[1].component, "gpu");
    }
}

//! What counters said while a row ran.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::time::ClockId;

use super::counter::Component;
use super::{Class, Power, span};

/// Time between two looks at a counter: short beside the 100 ms after which one of a GPU changes.
const PERIOD: Duration = Duration::from_millis(10);

/// The moments at which a counter was seen to change, and what it said then: seconds since the recording began, joules.
#[derive(Clone, Debug, Default)]
pub(super) struct Steps {
    pub steps: Vec<(f64, f64)>,
    /// Why nothing came any more.
    pub failed: Option<String>,
    last: Option<f64>,
    /// Joules of the times that it began anew.
    wrapped: f64,
}

impl Steps {
    /// Takes a reading; one that is no change is none.
    fn take(&mut self, at: f64, reading: Result<f64, String>, wraps_at: Option<f64>) {
        let joules = match reading {
            Ok(joules) => joules,
            Err(reason) => {
                self.failed = Some(reason);
                return;
            }
        };
        match self.last.replace(joules) {
            // Where in its step the counter is now, nobody knows.
            None => return,
            Some(last) if last == joules => return,
            Some(last) if joules < last => match wraps_at {
                Some(range) if last <= range => self.wrapped += range,
                // Where it begins anew is not known, or not there: what was used would seem less, or less than nothing.
                _ => {
                    self.failed = Some(format!("the counter fell from {last} J to {joules} J"));
                    return;
                }
            },
            Some(_) => {}
        }
        self.steps.push((at, self.wrapped + joules));
    }

    /// What was used from the first change at or after `from` to the last one before or at `to`.
    /// `None` of a counter that failed: its last change may lie long before `to`.
    pub fn between(&self, from: f64, to: f64) -> Option<Used> {
        if self.failed.is_some() {
            return None;
        }
        let within: Vec<&(f64, f64)> = self.steps.iter().filter(|(at, _)| (from..=to).contains(at)).collect();
        let (first, last) = (within.first()?, within.last()?);
        let step = within.windows(2).map(|pair| pair[1].1 - pair[0].1).fold(0.0, f64::max);
        let (seconds, joules) = (last.0 - first.0, last.1 - first.1);
        (seconds > 0.0).then_some(Used { seconds, joules, step })
    }
}

/// Energy between two changes of a counter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Used {
    pub seconds: f64,
    pub joules: f64,
    /// The largest step of the counter.
    pub step: f64,
}

impl Used {
    pub fn watts(&self) -> f64 {
        self.joules / self.seconds
    }

    /// What the figure may be off by: one step of the counter.
    pub fn error_percent(&self) -> f64 {
        100.0 * self.step / self.joules.max(f64::MIN_POSITIVE)
    }
}

/// What all counters said in a stretch of time.
pub(super) struct Recording {
    /// Seconds from the first recording's begin to this one's.
    pub begin_s: f64,
    /// Of each component.
    pub parts: Vec<(Class, String, Steps)>,
}

impl Recording {
    /// Components whose counters failed, and why.
    pub fn failures(&self) -> impl Iterator<Item = (&str, &str)> {
        self.parts
            .iter()
            .filter_map(|(_, component, steps)| Some((component.as_str(), steps.failed.as_deref()?)))
    }

    /// Power over time.
    pub fn power(&self, row: Option<usize>) -> Vec<Power> {
        let of = |(_, component, steps): &(Class, String, Steps)| Power {
            row,
            component: component.clone(),
            begin_s: self.begin_s,
            points: power(&steps.steps),
        };
        self.parts.iter().map(of).collect()
    }
}

/// Power between changes that are at least this far apart, in seconds: those of fast counters are taken together.
const RESOLUTION: f64 = 0.1;

fn power(steps: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut points = Vec::new();
    let Some(mut before) = steps.first().copied() else { return points };
    for now in &steps[1..] {
        // A little less: steps of 100 ms are seen some milliseconds early or late.
        if now.0 - before.0 >= 0.8 * RESOLUTION {
            points.push((now.0, (now.1 - before.1) / (now.0 - before.0)));
            before = *now;
        }
    }
    points
}

/// Looks at counters in a thread of its own, since a look may take milliseconds.
pub(super) struct Recorder {
    pub began: Instant,
    over: Arc<AtomicBool>,
    looks: Arc<AtomicU64>,
    thread: JoinHandle<(Vec<Component>, Vec<Steps>)>,
}

impl Recorder {
    pub fn start(mut components: Vec<Component>) -> Recorder {
        let (began, over) = (Instant::now(), Arc::new(AtomicBool::new(false)));
        let looks = Arc::<AtomicU64>::default();
        let (is_over, used) = (over.clone(), looks.clone());
        let thread = thread::spawn(move || {
            let mut all = vec![Steps::default(); components.len()];
            while !is_over.load(Ordering::Relaxed) {
                for (component, steps) in components.iter_mut().zip(&mut all) {
                    if steps.failed.is_none() {
                        let reading = component.counter.joules();
                        steps.take(began.elapsed().as_secs_f64(), reading, component.wraps_at);
                    }
                }
                used.store(span::used(ClockId::CLOCK_THREAD_CPUTIME_ID).as_nanos() as u64, Ordering::Relaxed);
                thread::sleep(PERIOD);
            }
            (components, all)
        });
        Recorder { began, over, looks, thread }
    }

    /// Seconds of the recording at which `at` was.
    pub fn seconds(&self, at: Instant) -> f64 {
        at.saturating_duration_since(self.began).as_secs_f64()
    }

    /// Processor time that the looks took so far.
    pub fn looks(&self) -> Duration {
        Duration::from_nanos(self.looks.load(Ordering::Relaxed))
    }

    /// Ends it, and gives the counters back.
    pub fn stop(self) -> (Vec<Component>, Vec<Steps>) {
        self.over.store(true, Ordering::Relaxed);
        // A reader that panicked has nothing to say.
        self.thread.join().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(readings: &[(f64, f64)], wraps_at: Option<f64>) -> Steps {
        let mut steps = Steps::default();
        for (at, joules) in readings {
            steps.take(*at, Ok(*joules), wraps_at);
        }
        steps
    }

    #[test]
    fn energy_is_what_lies_between_changes() {
        // A step of 10 J every second, looked at twice a second; the first look is within a step.
        let readings: Vec<(f64, f64)> =
            (0..20).map(|i| (f64::from(i) / 2.0, f64::from(i / 2) * 10.0)).collect();
        let steps = steps(&readings, None);
        assert_eq!(steps.steps.len(), 9, "the first reading is no change");
        let used = steps.between(1.5, 7.2).expect("changes at 2 to 7 s");
        assert_eq!(used, Used { seconds: 5.0, joules: 50.0, step: 10.0 });
        assert_eq!((used.watts(), used.error_percent()), (10.0, 20.0));
        assert_eq!(steps.between(3.2, 3.8), None, "no change");
        assert_eq!(steps.between(2.9, 3.1), None, "one change is no stretch of time");
    }

    #[test]
    fn counters_that_begin_anew_go_on() {
        let steps = steps(&[(0.0, 90.0), (1.0, 95.0), (2.0, 5.0), (3.0, 15.0), (4.0, 1.0)], Some(100.0));
        assert_eq!(steps.steps, [(1.0, 95.0), (2.0, 105.0), (3.0, 115.0), (4.0, 201.0)]);
        assert!(steps.failed.is_none());
    }

    #[test]
    fn a_counter_that_falls_or_fails_says_so() {
        let fell = steps(&[(0.0, 1.0), (1.0, 2.0), (2.0, 1.5)], None);
        assert!(fell.failed.as_deref().is_some_and(|why| why.contains("fell")));
        assert_eq!(fell.steps, [(1.0, 2.0)], "what was seen before stays");
        let beyond = steps(&[(0.0, 1.0), (1.0, 200.0), (2.0, 5.0)], Some(100.0));
        assert!(
            beyond.failed.as_deref().is_some_and(|why| why.contains("fell")),
            "it does not begin anew at 100"
        );
        let long = [(0.0, 1.0), (1.0, 2.0), (2.0, 3.0), (3.0, 4.0), (4.0, 3.5)];
        assert!(steps(&long[..4], None).between(0.0, 9.0).is_some());
        assert_eq!(steps(&long, None).between(0.0, 9.0), None, "not the figures of its first part");
        let mut steps = Steps::default();
        steps.take(0.0, Err("GPU is lost".into()), None);
        assert_eq!(steps.failed.as_deref(), Some("GPU is lost"));
    }
}

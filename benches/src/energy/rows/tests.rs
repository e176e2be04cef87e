use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::super::counter::Found;
use super::super::recording::Steps;
use super::super::tests::{Rising, component};
use super::super::{Class, Window};
use super::*;
use crate::Samples;

/// A benchmark whose kernels, as it says, run until a counter was looked at often enough.
struct Looked(Arc<AtomicU64>);

impl Looked {
    fn wait(&self) {
        let enough = self.0.load(Ordering::Relaxed) + 20;
        while self.0.load(Ordering::Relaxed) < enough {
            std::thread::yield_now();
        }
    }
}

impl Bench for Looked {
    fn name(&self) -> &'static str {
        "looked"
    }

    fn about(&self) -> &'static str {
        "waits for looks at a counter"
    }

    fn run(&self, team: &Team, options: &Options, _: &mut Progress) -> Result<Report, BenchError> {
        let _counted = Span::begin();
        // Nobody looks before counters are recorded.
        if self.0.load(Ordering::Relaxed) > 0 {
            self.wait();
        }
        let mut report = Report::new(self.name(), team, options);
        report.push(Row::new(&Samples::new(vec![1000.0], 1)).method("write").bytes(8), Check::default());
        Ok(report)
    }
}

fn options() -> Options {
    Options { method: Some("write".into()), sizes: vec![8], iterations: Some(20), ..Options::default() }
}

#[test]
fn rows_have_the_energy_of_their_kernels() {
    let looks = Arc::<AtomicU64>::default();
    let rising = component("gpu 0", Box::new(Rising(looks.clone())));
    let bench = Looked(looks);
    let run = |meter, bench: &dyn Bench, idle: &dyn Fn(), seconds| {
        measure_with(meter, idle, bench, &Team::alone(), &options(), seconds, &mut Progress::silent())
    };
    let meter = |components| Meter::of(Found { components, ..Found::default() });
    let report = run(meter(vec![rising]), &bench, &|| bench.wait(), 1e-6).expect("it runs");
    let row = &report.rows[0];
    let value = |key: &str| row.extra.get(key).and_then(|value| value.as_f64());
    assert!(value("gpu_w").is_some_and(|watts| watts > 0.0), "{row:?}");
    assert!(value("energy_s").is_some_and(|seconds| seconds > 0.0));
    assert_eq!(row.extra.get("energy_of"), Some(&"kernels".into()));
    assert!(value("cpu_w").is_none(), "what is not counted has no column");
    let facts = report.energy.as_ref().expect("facts");
    let rows: Vec<_> = facts.power.iter().map(|power| power.row).collect();
    assert_eq!((facts.counters.len(), &rows[..]), (1, &[None, Some(0)][..]));
    let window = facts.windows[0];
    assert!(facts.power[1].begin_s > 0.0, "it began behind the idle time: {facts:?}");
    assert!(window.from_s >= facts.power[1].begin_s && window.to_s > window.from_s, "{facts:?}");
    let bench = crate::find("ggas-pingpong").expect("there is one");
    let report = run(meter(Vec::new()), bench, &|| {}, 0.01).expect("it runs");
    assert!(!report.rows[0].extra.contains_key("gpu_w"));
    assert!(report.rows[0].extra.contains_key("process_cpu_us_per_op"));
}

/// Runs once.
struct Once(AtomicU64);

impl Bench for Once {
    fn name(&self) -> &'static str {
        "once"
    }

    fn about(&self) -> &'static str {
        "fails when it runs again"
    }

    fn run(&self, team: &Team, options: &Options, _: &mut Progress) -> Result<Report, BenchError> {
        if self.0.fetch_add(1, Ordering::Relaxed) > 0 {
            return Err(BenchError::Unsupported("it broke".into()));
        }
        let mut report = Report::new(self.name(), team, options);
        report.push(Row::new(&Samples::new(vec![1000.0], 1)).bytes(8), Check::default());
        Ok(report)
    }
}

#[test]
fn a_row_that_fails_again_keeps_what_was_measured() {
    let meter = Meter::of(Found::default());
    let bench = Once(AtomicU64::new(0));
    let report =
        measure_with(meter, || {}, &bench, &Team::alone(), &options(), 0.01, &mut Progress::silent());
    let report = report.expect("what was measured");
    assert_eq!((report.rows.len(), report.verified), (1, false));
    assert!(report.first_error.as_deref().is_some_and(|error| error.contains("it broke")));
    assert!(report.notes.iter().any(|note| note.contains("incomplete")), "{:?}", report.notes);
}

#[test]
fn a_row_s_energy_is_power_over_rate() {
    let mut steps = Steps::default();
    steps.steps.extend((0..11).map(|s| (f64::from(s), 100.0 * f64::from(s))));
    let run = Run {
        row: Row { rate_per_s: Some(1000.0), ..Row::default() },
        from: 0.5,
        to: 10.5,
        recording: Recording {
            begin_s: 20.0,
            parts: vec![(Class::Gpu, "gpu 0".into(), steps.clone()), (Class::Gpu, "gpu 1".into(), steps)],
        },
        processor: 5.0,
        by_kernels: true,
    };
    let idle = |component: &str| super::super::CounterFacts {
        component: component.into(),
        source: String::new(),
        step_j: 1.0,
        idle_w: 40.0,
        idle_s: 10.0,
    };
    let mut facts = EnergyFacts { counters: vec![idle("gpu 0"), idle("gpu 1")], ..EnergyFacts::default() };
    let mut row = Row::default();
    run.fill(&mut row, 0, &mut facts);
    let value = |key: &str| row.extra[key].as_f64().expect("a number");
    assert_eq!((value("gpu_w"), value("energy_s")), (200.0, 9.0));
    assert_eq!(value("gpu_uj_per_op"), 200_000.0);
    assert_eq!(value("gpu_uj_per_op_above_idle"), 120_000.0);
    assert!((value("energy_error_percent") - 100.0 / 9.0).abs() < 1e-9);
    assert_eq!(value("process_cpu_us_per_op"), 500.0);
    let points: Vec<(f64, f64)> = (1..11).map(|s| (f64::from(s), 100.0)).collect();
    assert_eq!(facts.power[0].points, points);
    assert_eq!(facts.windows, [Window { row: 0, from_s: 20.5, to_s: 30.5 }]);
}

#[test]
fn a_second_run_is_as_long_as_asked_for() {
    let row = Row {
        samples: 100,
        batch: 10,
        latency_us: crate::Latency { median: 2.0, ..Default::default() },
        ..Row::default()
    };
    assert_eq!(Plan::of(&row, 10.0).iterations, 5_750_000, "10 s of 2 us, and a margin");
    let blocks = |blocks| Plan::of(&Row { blocks: Some(blocks), ..Row::default() }, 10.0).blocks;
    assert_eq!((blocks(1024), blocks(2032)), (Some(1024), None), "what cannot be asked for is not");
    let himeno = Row::default().with("grid", "8x8x16");
    let options = Plan::of(&himeno, 10.0).options(&Options::default());
    assert_eq!(
        options.grid_of_row.as_deref(),
        Some("8x8x16"),
        "grids with as many points are not run with it"
    );
    assert!(!is_same(&himeno, &Row::default().with("grid", "8x16x8")));
    let stencil = Row::default().with("devices", 4);
    assert_eq!(Plan::of(&stencil, 10.0).options(&Options::default()).devices, [4]);
    assert!(!is_same(&stencil, &Row::default().with("devices", 2)));
    let mut plan = Plan::of(&Row::default(), 10.0);
    plan.stretch(f64::INFINITY);
    assert_eq!(plan.iterations, 1 << 32);
}

//! Every benchmark once, small, on the model and the CPU executor: it runs, its data are right, its JSON is whole.

mod hpe;
mod programs;
mod refused;
mod results;
mod rma;
mod thesis;
mod windows;

use std::sync::Mutex;
use std::time::Duration;

use ggas_benches::{Bench, Options, Progress, Report, Team, find};

/// One at a time: each starts nodes and kernels of its own, and two cores are few.
static ONE: Mutex<()> = Mutex::new(());

pub(crate) fn run(name: &str, options: Options) -> Report {
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let bench: &dyn Bench = find(name).unwrap();
    let report = bench
        .run(&Team::alone(), &options, &mut Progress::silent())
        .unwrap_or_else(|error| panic!("{name}: {error:?}"));
    report.check().unwrap();
    check_json(&report);
    report
}

/// As [`run`], with rates that cannot be mistaken for times; a machine may stall in one run, but not in each.
pub(crate) fn run_at_a_rate(name: &str, options: Options) -> Report {
    let runs = (0..5).map(|_| run(name, options.clone()));
    let is_quick = |report: &Report| report.rows.iter().all(|row| row.rate_per_s.unwrap() > 1000.0);
    { runs }.find(is_quick).unwrap_or_else(|| panic!("{name}: 1000 a second are not reached in any run"))
}

fn check_json(report: &Report) {
    let json: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
    assert_eq!((&json["schema"], &json["verified"]), (&1.into(), &true.into()));
    assert_eq!(json["bench"], report.bench);
    let rows = json["rows"].as_array().unwrap();
    assert!(!rows.is_empty());
    for row in rows {
        let latency = &row["latency_us"];
        let [min, median, p99] = ["min", "median", "p99"].map(|key| latency[key].as_f64().unwrap());
        // Puts that are not waited for one by one may arrive in one go.
        let least = if report.bench == "rma-rate" { -1.0 } else { 0.0 };
        assert!(least < min && min <= median && median <= p99, "{}: {row}", report.bench);
        assert!(row["samples"].as_u64().unwrap() > 0);
        assert_eq!(row["errors"], 0);
        let sized = row["bytes"].is_u64() || row["elements"].is_u64();
        let without = ["barrier", "litmus", "engine-idle", "host-sync", "host-wait"].contains(&report.bench)
            || row["method"] == "barrier"
            || row["method"] == "lock";
        assert!(sized || without, "{row}");
    }
}

pub(crate) fn small(sizes: &[u64]) -> Options {
    // A machine may stall for seconds.
    let timeout = Duration::from_secs(60);
    Options { sizes: sizes.to_vec(), iterations: Some(20), timeout, ..Options::default() }
}

pub(crate) fn methods(report: &Report) -> Vec<&str> {
    let mut methods: Vec<_> = report.rows.iter().filter_map(|row| row.method.as_deref()).collect();
    methods.dedup();
    methods
}

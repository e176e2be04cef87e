//! Energy of an operation: what rows say of the counters.

use std::collections::BTreeMap;

use serde_json::Value;

use super::recording::Recording;
use super::{Class, EnergyFacts, Window};

/// Columns of a class: power, energy of an operation, the same above idle power.
fn names(class: Class) -> [&'static str; 3] {
    match class {
        Class::Gpu => ["gpu_w", "gpu_uj_per_op", "gpu_uj_per_op_above_idle"],
        Class::Cpu => ["cpu_w", "cpu_uj_per_op", "cpu_uj_per_op_above_idle"],
        Class::Dram => ["dram_w", "dram_uj_per_op", "dram_uj_per_op_above_idle"],
    }
}

/// Work in a recording.
pub(super) struct Work {
    /// Its begin, in seconds of the recording.
    pub from: f64,
    /// Its end.
    pub to: f64,
    /// Operations per second.
    pub per_second: f64,
}

impl Work {
    /// For each class of components (all of a class together) watts, microjoules of an operation, and the same above
    /// the idle power; the error bound of these, one step of the counter, in percent, and the seconds between the
    /// counters' changes. A class without counters, or of which a counter did not change, has no columns.
    pub fn columns(&self, recording: &Recording, facts: &EnergyFacts) -> BTreeMap<&'static str, Value> {
        let mut columns = BTreeMap::new();
        let mut error = 0.0_f64;
        let mut seconds = f64::INFINITY;
        for class in [Class::Gpu, Class::Cpu, Class::Dram] {
            let of_class: Vec<_> = recording.parts.iter().filter(|(of, ..)| *of == class).collect();
            let used: Option<Vec<_>> =
                of_class.iter().map(|(_, _, steps)| steps.between(self.from, self.to)).collect();
            let Some(used) = used.filter(|used| !used.is_empty()) else { continue };
            let idle: f64 = of_class.iter().map(|(_, name, _)| facts.idle_of(name)).sum();
            let watts: f64 = used.iter().map(|used| used.watts()).sum();
            error = used.iter().map(|used| used.error_percent()).fold(error, f64::max);
            seconds = used.iter().map(|used| used.seconds).fold(seconds, f64::min);
            let micro = |watts: f64| 1e6 * watts / self.per_second;
            let values = [watts, micro(watts), micro(watts - idle)];
            columns.extend(names(class).into_iter().zip(values.map(Value::from)));
        }
        if seconds.is_finite() {
            columns.insert("energy_error_percent", error.into());
            columns.insert("energy_s", seconds.into());
        }
        columns
    }

    /// Where it was, as the work of a row.
    pub fn window(&self, recording: &Recording, row: usize) -> Window {
        Window { row, from_s: recording.begin_s + self.from, to_s: recording.begin_s + self.to }
    }
}

impl EnergyFacts {
    fn idle_of(&self, component: &str) -> f64 {
        self.counters.iter().find(|counter| counter.component == component).map_or(0.0, |c| c.idle_w)
    }
}

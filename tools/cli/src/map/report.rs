//! What a mapping changes, for people and programs.

use crate::failure::Failure;
use ggas_mapping::{Congestion, Links, MapError, Mapping, Metric, Pattern, Search, Topology, counted, flows};
use ggas_plot::{Axis, Line, Picture, Scale};
use ggas_table::Column;
use serde_json::{Value, json};

/// Version of the JSON.
const SCHEMA: u32 = 1;

pub struct Report<'a> {
    pub topology: &'a Topology,
    pub pattern: &'a Pattern,
    pub metric: Metric,
    pub rows: Vec<Row>,
    pub search: Search,
}

/// A mapping, and what it costs. What was not measured is not there.
pub struct Row {
    name: String,
    places: Vec<usize>,
    costs: Vec<(Metric, Option<f64>)>,
    congestion: Congestion,
    time_us: Option<f64>,
}

impl Row {
    pub fn of(
        name: &str,
        topology: &Topology,
        pattern: &Pattern,
        mapping: &Mapping,
    ) -> Result<Row, MapError> {
        let costs = Metric::ALL.map(|metric| (metric, metric.cost(topology, pattern, mapping).ok()));
        Ok(Row {
            name: name.to_owned(),
            places: mapping.places().to_vec(),
            costs: costs.to_vec(),
            congestion: Links::of(topology)?.congestion(pattern, mapping)?,
            time_us: flows::time_us(topology, pattern, mapping).ok(),
        })
    }

    fn cost(&self, metric: Metric) -> Option<f64> {
        self.costs.iter().find(|(known, _)| *known == metric).and_then(|(_, cost)| *cost)
    }
}

impl Report<'_> {
    fn levels(&self) -> usize {
        self.topology.channels().len()
    }

    pub fn table(&self) -> String {
        let default = self.rows.first();
        let mut columns = vec![Column::text("mapping")];
        columns.extend(Metric::ALL.map(|metric| Column::number(metric.name())));
        columns.extend((0..self.levels()).map(|level| Column::number(&format!("level {level}"))));
        columns.push(Column::number("time us"));
        let rows = self.rows.iter().map(|row| {
            let mut cells = vec![row.name.clone()];
            // A cost has no unit of its own: in percent of the default's.
            cells.extend(Metric::ALL.map(|metric| {
                let whole = default.and_then(|default| default.cost(metric)).filter(|cost| *cost > 0.0);
                let part =
                    row.cost(metric).zip(whole).map(|(cost, whole)| format!("{:.1}%", 100.0 * cost / whole));
                part.unwrap_or_else(|| "-".to_owned())
            }));
            cells.extend((0..self.levels()).map(|level| short(row.congestion.worst(level))));
            cells.push(row.time_us.map_or_else(|| "-".to_owned(), short));
            cells
        });
        let table = ggas_table::table(&columns, rows);
        let places = self.topology.places();
        let how = if places <= self.search.exact_up_to { "the best there is" } else { "by a heuristic" };
        format!(
            "{} on {}, mapped by {}: {how}\n\n{table}\n\n{}\n\n{}",
            counted(self.pattern.ranks(), "rank"),
            self.topology.name(),
            self.metric.name(),
            "latency, bandwidth, distance: cost by this metric, of the default's; level n: the most loaded link's bytes over its rate\n\
             (MB and GB/s: ms); time: of one exchange, as the model of flows gives it",
            self.ranks()
        )
    }

    /// The GPU of each rank; of a traced network also which of its processes that is.
    fn ranks(&self) -> String {
        let processes = self.pattern.processes();
        let names = ["rank"].into_iter().chain(processes.map(|_| "process")).chain(["default", "mapped"]);
        let columns: Vec<Column> = names.map(Column::number).collect();
        let device = |row: usize, rank: usize| {
            self.rows
                .get(row)
                .map_or_else(String::new, |row| self.topology.device(row.places[rank]).to_owned())
        };
        let rows = (0..self.pattern.ranks()).map(|rank| {
            let process = processes.map(|processes| processes[rank].to_string());
            [rank.to_string()]
                .into_iter()
                .chain(process)
                .chain([device(0, rank), device(1, rank)])
                .collect::<Vec<_>>()
        });
        ggas_table::table(&columns, rows) + "\n"
    }

    pub fn json(&self, gpus: &str) -> String {
        let row = |row: &Row| {
            let costs: serde_json::Map<String, Value> =
                row.costs.iter().map(|(metric, cost)| (metric.name().to_owned(), json!(cost))).collect();
            let devices: Vec<_> = row.places.iter().map(|place| self.topology.device(*place)).collect();
            let worst: Vec<_> = (0..self.levels()).map(|level| row.congestion.worst(level)).collect();
            json!({ "mapping": row.name, "devices": devices, "cost": costs, "congestion": worst, "time_us": row.time_us })
        };
        let rows: Vec<_> = self.rows.iter().map(row).collect();
        let report = json!({
            "schema": SCHEMA, "topology": self.topology.name(), "ranks": self.pattern.ranks(), "metric": self.metric.name(),
            "processes": self.pattern.processes(), "seed": self.search.seed, "visible_devices": gpus, "rows": rows,
        });
        format!("{report:#}\n")
    }

    /// The load of each link, before and after, in the order of the links.
    pub fn svg(&self) -> Result<String, Failure> {
        let line = |row: &Row| {
            let loads = row.congestion.of_link.iter().enumerate();
            Line::new(&row.name, loads.map(|(link, load)| (link as f64, *load)).collect())
        };
        let picture = Picture {
            title: format!("{}: load of links", self.topology.name()),
            x: Axis::new("link, from the nearest level to the farthest", Scale::Linear),
            y: Axis::new("MB through it over GB/s", Scale::Linear),
            lines: self.rows.iter().take(3).map(line).collect(),
        };
        picture.svg().map_err(|error| Failure::Failed(error.to_string()))
    }
}

/// Digits that mean something.
fn short(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 100.0 => 0,
        v if v >= 1.0 => 2,
        _ => 4,
    };
    format!("{value:.digits$}")
}

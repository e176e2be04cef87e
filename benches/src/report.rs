use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::energy::EnergyFacts;
use crate::{BenchError, Check, Device, HostFacts, Latency, Options, Samples, Team, Via};

/// Version of the JSON; `benches/README.md` defines its fields.
pub const SCHEMA: u32 = 1;

/// Settings of one measurement and what it gave. Absent fields did not apply.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Row {
    /// Which way it was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Payload bytes of one operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Elements of one operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elements: Option<u64>,
    /// Nodes, where rows differ in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u32>,
    /// Blocks per node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocks: Option<u32>,
    /// Threads per block.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// Samples taken.
    pub samples: u64,
    /// Operations timed together per sample.
    pub batch: u64,
    /// Time of one operation.
    pub latency_us: Latency,
    /// Payload moved per time, in MB/s (1 MB = 1,000,000 bytes).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth_mbps: Option<f64>,
    /// Operations per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_per_s: Option<f64>,
    /// Bytes, words or table entries that were wrong.
    pub errors: u64,
    /// Columns of one benchmark only.
    #[serde(flatten)]
    pub extra: BTreeMap<&'static str, Value>,
}

impl Row {
    /// A row of these samples.
    pub fn new(samples: &Samples) -> Self {
        Self {
            samples: samples.len() as u64,
            batch: samples.batch(),
            latency_us: samples.latency(),
            ..Self::default()
        }
    }

    /// Sets the method.
    pub fn method(mut self, method: &str) -> Self {
        self.method = Some(method.to_owned());
        self
    }

    /// Sets the payload size of one operation.
    pub fn bytes(mut self, bytes: u64) -> Self {
        self.bytes = Some(bytes);
        self
    }

    /// Sets the bandwidth of `bytes` moved in the median time.
    pub fn bandwidth_of(mut self, bytes: u64) -> Self {
        let median = self.latency_us.median;
        self.bandwidth_mbps = (median > 0.0).then(|| bytes as f64 / median);
        self
    }

    /// Sets a column of this benchmark only.
    pub fn with(mut self, column: &'static str, value: impl Into<Value>) -> Self {
        self.extra.insert(column, value.into());
        self
    }
}

/// The result of one benchmark.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Name of the benchmark.
    pub bench: &'static str,
    /// Where kernels ran.
    pub device: Device,
    /// Which device of the library carried the traffic.
    #[serde(serialize_with = "by_name")]
    pub via: Via,
    /// What joined the nodes.
    pub fabric: String,
    /// Nodes that took part.
    pub nodes: u32,
    /// Whether all data were right.
    pub verified: bool,
    /// Bytes, words or entries that were wrong, all rows together.
    pub errors: u64,
    /// The first wrong one, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_error: Option<String>,
    /// The machine and the build.
    pub host: HostFacts,
    /// The options that all rows share.
    pub settings: BTreeMap<&'static str, Value>,
    /// What a reader should know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Counters of energy, where rows were run with them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy: Option<EnergyFacts>,
    /// One per measurement.
    pub rows: Vec<Row>,
}

fn by_name<S: serde::Serializer>(via: &Via, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(via.name())
}

impl Report {
    /// An empty report.
    pub fn new(bench: &'static str, team: &Team, options: &Options) -> Self {
        let mut settings = BTreeMap::from([
            ("seed", Value::from(options.seed)),
            ("memory", options.memory.name().into()),
            ("timeout_s", options.timeout.as_secs_f64().into()),
        ]);
        settings.insert("path", options.path().name().into());
        settings.insert("slots", options.slots.into());
        let warps = [("requesters", options.requesters), ("helpers", options.helpers)];
        settings.extend(warps.into_iter().filter_map(|(name, warps)| Some((name, warps?.into()))));
        let mut host = HostFacts::collect();
        if team.size() > 1 {
            settings.insert("processes", team.size().into());
            settings.insert("pinned", (!team.cores().is_empty()).into());
        }
        if options.device == Device::Gpu {
            settings.insert("gpus", options.gpus.into());
            host.add_gpus(options.gpus);
        }
        Self {
            schema: SCHEMA,
            bench,
            device: options.device,
            via: options.via,
            fabric: team.fabric().to_owned(),
            nodes: options.nodes,
            verified: true,
            errors: 0,
            first_error: None,
            host,
            settings,
            notes: Vec::new(),
            energy: None,
            rows: Vec::new(),
        }
    }

    /// Adds a row and what its check found.
    pub fn push(&mut self, mut row: Row, check: Check) {
        row.errors += check.errors;
        self.rows.push(row);
        self.reject(check);
    }

    /// Counts errors that belong to no row, or to one already pushed.
    pub fn reject(&mut self, check: Check) {
        self.errors += check.errors;
        if check.errors > 0 {
            self.verified = false;
            self.first_error = self.first_error.take().or(check.first);
        }
    }

    /// Whether the result counts.
    ///
    /// # Errors
    /// [`BenchError::WrongData`] if any data were wrong.
    pub fn check(&self) -> Result<(), BenchError> {
        if self.verified {
            return Ok(());
        }
        Err(BenchError::WrongData {
            bench: self.bench.to_owned(),
            errors: self.errors,
            first: self.first_error.clone().unwrap_or_else(|| "see the errors column".to_owned()),
        })
    }

    /// The JSON, indented, with a newline at its end.
    pub fn json(&self) -> String {
        // Only maps with keys that are no strings fail, and there are none.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// The table for people: a title, one line per row, then notes and whether the data were right.
    pub fn table(&self) -> String {
        let mut extra: Vec<&str> = self.rows.iter().flat_map(|row| row.extra.keys().copied()).collect();
        extra.sort_unstable();
        extra.dedup();
        let columns: Vec<Column> = COLUMNS
            .iter()
            .map(|(title, cell)| Column { title: (*title).to_owned(), cell: Box::new(cell) })
            .chain(extra.into_iter().map(|key| Column {
                title: key.replace('_', " "),
                cell: Box::new(move |row: &Row| row.extra.get(key).map(text_of)),
            }))
            .filter(|column| self.rows.iter().any(|row| (column.cell)(row).is_some()))
            .collect();
        let header: Vec<ggas_table::Column> = columns.iter().map(Column::header).collect();
        let rows =
            self.rows.iter().map(|row| columns.iter().map(|column| (column.cell)(row).unwrap_or_default()));
        let mut text = format!("{}\n{}\n", self.title(), ggas_table::table(&header, rows));
        for note in &self.notes {
            text += &format!("  {note}\n");
        }
        text + &self.verdict() + "\n"
    }

    fn title(&self) -> String {
        let Self { bench, device, via, fabric, nodes, .. } = self;
        let where_run = match (device, self.host.gpus.as_slice()) {
            (Device::Gpu, [name, ..]) => format!("{}x {name}", self.host.gpus.len()),
            _ => self.host.cpu.clone(),
        };
        format!("{bench}: {nodes} nodes, kernels on {device}, via {via} ({fabric}); {where_run}")
    }

    fn verdict(&self) -> String {
        match &self.first_error {
            None if self.verified => "  all data verified".to_owned(),
            first => {
                format!("  NOT VERIFIED: {} errors; {}", self.errors, first.as_deref().unwrap_or("see above"))
            }
        }
    }

    /// A picture of the rows (SVG): latency over size, or over the row's number where rows have no size.
    ///
    /// # Errors
    /// [`BenchError::NoReport`] if it cannot be drawn.
    pub fn svg(&self) -> Result<String, BenchError> {
        crate::plot::svg(&serde_json::json!(self))
    }
}

struct Column<'a> {
    title: String,
    cell: BoxedCell<'a>,
}

impl Column<'_> {
    fn header(&self) -> ggas_table::Column {
        match self.title.as_str() {
            "method" => ggas_table::Column::text("method"),
            title => ggas_table::Column::number(title),
        }
    }
}

type BoxedCell<'a> = Box<dyn Fn(&Row) -> Option<String> + 'a>;

type Cell = fn(&Row) -> Option<String>;

/// The columns that benchmarks share, left to right.
const COLUMNS: &[(&str, Cell)] = &[
    ("method", |row| row.method.clone()),
    ("nodes", |row| row.nodes.map(|n| n.to_string())),
    ("blocks", |row| row.blocks.map(|n| n.to_string())),
    ("threads", |row| row.threads.map(|n| n.to_string())),
    ("bytes", |row| row.bytes.map(grouped)),
    ("elements", |row| row.elements.map(grouped)),
    ("min us", |row| Some(significant(row.latency_us.min))),
    ("median us", |row| Some(significant(row.latency_us.median))),
    ("p99 us", |row| Some(significant(row.latency_us.p99))),
    ("MB/s", |row| row.bandwidth_mbps.map(significant)),
    ("per s", |row| row.rate_per_s.map(|rate| grouped(rate.round() as u64))),
    ("batch", |row| (row.batch > 1).then(|| row.batch.to_string())),
    ("errors", |row| Some(row.errors.to_string())),
];

pub(crate) fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => significant(number.as_f64().unwrap_or(0.0)),
        Value::Number(number) => number.as_u64().map_or_else(|| number.to_string(), grouped),
        other => other.to_string(),
    }
}

/// Three digits or more that mean something.
pub(crate) fn significant(value: f64) -> String {
    match value.abs() {
        v if v >= 1000.0 => grouped(value.round() as u64),
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// 1234567 as 1,234,567.
fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let mut report = Report::new("rma-pingpong", &Team::alone(), &Options::default());
        let row = Row::new(&Samples::new(vec![1000.0, 2000.0, 4000.0], 2)).method("poll").bytes(4096);
        report.push(row.bandwidth_of(4096), Check::default());
        report
    }

    #[test]
    fn json_has_what_schema_1_promises() {
        let json: Value = serde_json::from_str(&report().json()).unwrap();
        for key in ["schema", "bench", "device", "via", "fabric", "nodes", "verified", "host", "rows"] {
            assert!(!json[key].is_null(), "{key} is missing");
        }
        assert_eq!(
            (&json["schema"], &json["device"], &json["via"]),
            (&1.into(), &"cpu".into(), &"sim".into())
        );
        for key in ["cpu", "cores", "kernel", "version", "build"] {
            assert!(!json["host"][key].is_null(), "host.{key} is missing");
        }
        let row = &json["rows"][0];
        assert_eq!((&row["bytes"], &row["method"], &row["batch"]), (&4096.into(), &"poll".into(), &2.into()));
        assert_eq!(row["latency_us"], serde_json::json!({"min": 1.0, "median": 2.0, "p99": 4.0}));
        assert_eq!(row["bandwidth_mbps"], 2048.0);
        assert!(row.get("rate_per_s").is_none() && row.get("elements").is_none());
    }

    #[test]
    fn wrong_data_fail_the_check_and_show_in_the_table() {
        let mut report = report();
        assert!(report.check().is_ok());
        let mut check = Check::default();
        check.equal("sum", 1, 2);
        report.push(Row::new(&Samples::new(vec![1.0], 1)), check);
        let error = report.check().unwrap_err();
        assert!(matches!(&error, BenchError::WrongData { errors: 1, first, .. } if first.contains("sum")));
        assert!(report.table().contains("NOT VERIFIED"));
        assert!(report.json().contains("\"verified\": false"));
    }

    #[test]
    fn the_table_shows_only_columns_in_use() {
        let mut report = report();
        report.rows[0].extra.insert("look_ahead", 1024.into());
        let table = report.table();
        assert!(table.contains("median us") && table.contains("4,096") && table.contains("look ahead"));
        assert!(!table.contains("elements") && !table.contains("threads"));
        assert!(table.contains("all data verified"));
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(grouped(999), "999");
        assert_eq!(significant(0.25), "0.250");
        assert_eq!(significant(12345.6), "12,346");
    }
}

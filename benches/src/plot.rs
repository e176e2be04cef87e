use serde_json::Value;

use crate::BenchError;
use ggas_plot::{Axis, Line, Picture, PictureError, Scale};

mod power;

/// Pictures (SVG) of a result that was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pictures {
    /// Latency over size; `None` for `ggas energy`, whose stretches of time have none.
    pub rows: Option<String>,
    /// Power over time; `None` without counters of energy.
    pub power: Option<String>,
}

/// Draws all that a result's JSON has.
pub(crate) fn pictures(report: &Value) -> Result<Pictures, BenchError> {
    let rows = match report["bench"] == "energy" {
        true => None,
        false => Some(svg(report)?),
    };
    Ok(Pictures { rows, power: power::svg(report)? })
}

fn no_picture(error: PictureError) -> BenchError {
    BenchError::NoReport(error.to_string())
}

/// Draws a report's JSON, of this run or an earlier one: latency over size, both axes logarithmic, one line per method
/// and one for each peer.
pub(crate) fn svg(report: &Value) -> Result<String, BenchError> {
    let rows = report["rows"].as_array().ok_or_else(|| BenchError::NoReport("it has no rows".to_owned()))?;
    let text = |key: &str| report[key].as_str().unwrap_or("?").to_owned();
    let title = format!("{} ({} nodes, {})", text("bench"), report["nodes"], text("device"));
    let x = match rows.iter().any(|row| x_of(row).is_some()) {
        true if rows.iter().any(|row| row["bytes"].is_u64()) => Axis::new("bytes", Scale::Sizes),
        true => Axis::new("elements", Scale::Sizes),
        false => Axis::new("row", Scale::Linear),
    };
    let y = Axis::new("median latency, us", Scale::Logarithmic);
    Picture { title, x, y, lines: lines_of(rows) }.svg().map_err(no_picture)
}

fn lines_of(rows: &[Value]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let label = label_of(row);
        let median = row["latency_us"]["median"].as_f64().unwrap_or(0.0);
        let point = (x_of(row).unwrap_or(index as f64 + 1.0), median.max(1e-3));
        add(&mut lines, &label, point);
    }
    lines.extend(peers_of(rows));
    lines
}

/// Times of peers, one line for each.
fn peers_of(rows: &[Value]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for row in rows.iter().filter(|row| row["peer_unit"].is_null()) {
        let peer = (row["peer"].as_str(), row["peer_value"].as_f64(), x_of(row));
        let (Some(label), Some(value), Some(x)) = peer else { continue };
        let point = (x, value.max(1e-3));
        let known = lines.iter().find(|line| line.label == label);
        if !known.is_some_and(|line| line.strokes[0].contains(&point)) {
            add(&mut lines, label, point);
        }
    }
    for line in &mut lines {
        line.strokes[0].sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    lines
}

/// Adds a point to the line of this label.
fn add(lines: &mut Vec<Line>, label: &str, point: (f64, f64)) {
    match lines.iter_mut().find(|line| line.label == label) {
        Some(line) => line.strokes[0].push(point),
        None => lines.push(Line::new(label, vec![point])),
    }
}

fn x_of(row: &Value) -> Option<f64> {
    row["bytes"].as_u64().or(row["elements"].as_u64()).map(|size| size.max(1) as f64)
}

fn label_of(row: &Value) -> String {
    let method = row["method"].as_str().unwrap_or("median").to_owned();
    match (row["nodes"].as_u64(), row["blocks"].as_u64()) {
        (Some(nodes), _) => format!("{method}, {nodes} nodes"),
        (None, Some(blocks)) if blocks > 1 => format!("{method}, {blocks} blocks"),
        _ => method,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Check, Options, Report, Row, Samples, Team};

    #[test]
    fn draws_a_line_per_method_and_peer() {
        let mut report = Report::new("rma-pingpong", &Team::alone(), &Options::default());
        for method in ["poll", "notification"] {
            for bytes in [8, 64, 512] {
                let samples = Samples::new(vec![bytes as f64 * 10.0], 1);
                let row = Row::new(&samples).method(method).bytes(bytes);
                report.push(row.with("peer", "Other 1.2").with("peer_value", 3.0), Check::default());
            }
        }
        let svg = report.svg().unwrap();
        assert!(
            ["</svg>", "notification", "poll", "Other 1.2", "rma-pingpong (2 nodes, cpu)"]
                .iter()
                .all(|part| svg.contains(part))
        );
    }

    #[test]
    fn an_empty_report_is_drawn_and_other_json_refused() {
        let report = Report::new("barrier", &Team::alone(), &Options::default());
        assert!(report.svg().unwrap().contains("</svg>"));
        let error = svg(&serde_json::json!({"rows": 1})).unwrap_err();
        assert!(error.to_string().contains("no rows"), "{error}");
    }

    #[test]
    fn many_lines_have_several_panels_and_colours_of_their_own() {
        let mut report = Report::new("barrier", &Team::alone(), &Options::default());
        const NAMES: [&str; 10] = ["a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "a9"];
        for name in NAMES {
            report.push(Row::new(&Samples::new(vec![1e9], 1)).method(name), Check::default());
        }
        let svg = report.svg().unwrap();
        assert!(svg.contains(r#"height="1080""#), "two panels: {}", &svg[..200]);
        assert!(NAMES.iter().all(|name| svg.contains(&format!("\n{name}\n"))), "{svg}");
        assert!(!svg.contains(".0\n</text>"), "numbers are short");
    }
}

use std::ops::Range;
use std::path::Path;

use plotters::prelude::*;
use serde_json::Value;

use crate::BenchError;

const SIZE: (u32, u32) = (900, 540);

/// One line of the plot.
struct Series {
    label: String,
    points: Vec<(f64, f64)>,
}

/// Draws a report's JSON, of this run or an earlier one: latency over size, both axes logarithmic, one line per method
/// and one for each peer.
pub(crate) fn write_svg(report: &Value, path: &Path) -> Result<(), BenchError> {
    let failed = |error: &dyn std::fmt::Display| BenchError::Output(format!("{}: {error}", path.display()));
    let rows =
        report["rows"].as_array().ok_or_else(|| failed(&"no report of a benchmark: it has no rows"))?;
    let text = |key: &str| report[key].as_str().unwrap_or("?").to_owned();
    let title = format!("{} ({} nodes, {})", text("bench"), report["nodes"], text("device"));
    draw(&title, rows, &series_of(rows), path).map_err(|error| failed(&error))
}

fn series_of(rows: &[Value]) -> Vec<Series> {
    let mut series: Vec<Series> = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let label = label_of(row);
        let median = row["latency_us"]["median"].as_f64().unwrap_or(0.0);
        let point = (x_of(row).unwrap_or(index as f64 + 1.0), median.max(1e-3));
        match series.iter_mut().find(|line| line.label == label) {
            Some(line) => line.points.push(point),
            None => series.push(Series { label, points: vec![point] }),
        }
    }
    series.extend(peers_of(rows));
    series
}

/// Times of peers, one line for each.
fn peers_of(rows: &[Value]) -> Vec<Series> {
    let mut series: Vec<Series> = Vec::new();
    for row in rows.iter().filter(|row| row["peer_unit"].is_null()) {
        let peer = (row["peer"].as_str(), row["peer_value"].as_f64(), x_of(row));
        let (Some(label), Some(value), Some(x)) = peer else { continue };
        let point = (x, value.max(1e-3));
        match series.iter_mut().find(|line| line.label == label) {
            Some(line) if line.points.contains(&point) => {}
            Some(line) => line.points.push(point),
            None => series.push(Series { label: label.to_owned(), points: vec![point] }),
        }
    }
    for line in &mut series {
        line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    series
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

/// From a decade below the smallest value to one above the largest, at least a factor of ten.
fn span(values: impl Iterator<Item = f64>) -> Range<f64> {
    let (low, high) = values.fold((f64::INFINITY, 0.0_f64), |(low, high), v| (low.min(v), high.max(v)));
    if low.is_finite() { low / 1.5..(high * 1.5).max(low * 10.0) } else { 1.0..10.0 }
}

fn draw(
    title: &str,
    rows: &[Value],
    series: &[Series],
    path: &Path,
) -> Result<(), Box<dyn std::error::Error>> {
    let points = || series.iter().flat_map(|line| line.points.iter());
    let sized = rows.iter().any(|row| x_of(row).is_some());
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 22))
        .margin(16)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(
            span(points().map(|p| p.0)).log_scale(),
            span(points().map(|p| p.1)).log_scale(),
        )?;
    chart
        .configure_mesh()
        .x_desc(match (sized, rows.iter().any(|row| row["bytes"].is_u64())) {
            (true, true) => "bytes",
            (true, false) => "elements",
            (false, _) => "row",
        })
        .y_desc("median latency, us")
        .draw()?;
    for (index, line) in series.iter().enumerate() {
        let color = Palette99::pick(index).to_rgba();
        chart
            .draw_series(LineSeries::new(line.points.iter().copied(), color.stroke_width(2)).point_size(3))?
            .label(line.label.clone())
            .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 18, y)], color.stroke_width(2)));
    }
    chart.configure_series_labels().border_style(BLACK).background_style(WHITE.mix(0.8)).draw()?;
    root.present()?;
    Ok(())
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
        let path = std::env::temp_dir().join(format!("ggas-plot-{}.svg", std::process::id()));
        report.write_svg(&path).unwrap();
        let svg = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(
            ["</svg>", "notification", "poll", "Other 1.2", "rma-pingpong (2 nodes, cpu)"]
                .iter()
                .all(|part| svg.contains(part))
        );
    }

    #[test]
    fn an_empty_report_a_bad_path_and_other_json_do_no_harm() {
        let report = Report::new("barrier", &Team::alone(), &Options::default());
        let error = report.write_svg(Path::new("/nonexistent/plot.svg")).unwrap_err();
        assert!(matches!(error, BenchError::Output(_)));
        let error = write_svg(&serde_json::json!({"rows": 1}), Path::new("plot.svg")).unwrap_err();
        assert!(error.to_string().contains("no rows"), "{error}");
    }
}

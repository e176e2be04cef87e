use std::ops::Range;
use std::path::Path;

use plotters::prelude::*;

use crate::{BenchError, Report, Row};

const SIZE: (u32, u32) = (900, 540);

/// One line of the plot.
struct Series {
    label: String,
    points: Vec<(f64, f64)>,
}

/// Draws latency over size, both axes logarithmic, one line per method.
pub(crate) fn write_svg(report: &Report, path: &Path) -> Result<(), BenchError> {
    let series = series_of(report);
    draw(report, &series, path).map_err(|error| BenchError::Output(format!("{}: {error}", path.display())))
}

fn series_of(report: &Report) -> Vec<Series> {
    let mut series: Vec<Series> = Vec::new();
    for (index, row) in report.rows.iter().enumerate() {
        let label = label_of(row);
        let point = (x_of(row).unwrap_or(index as f64 + 1.0), row.latency_us.median.max(1e-3));
        match series.iter_mut().find(|line| line.label == label) {
            Some(line) => line.points.push(point),
            None => series.push(Series { label, points: vec![point] }),
        }
    }
    series.extend(peers_of(report));
    series
}

/// Times of peers, one line for each.
fn peers_of(report: &Report) -> Vec<Series> {
    let mut series: Vec<Series> = Vec::new();
    for row in report.rows.iter().filter(|row| !row.extra.contains_key("peer_unit")) {
        let text = |key| row.extra.get(key).and_then(|value| value.as_str());
        let value = row.extra.get("peer_value").and_then(serde_json::Value::as_f64);
        let (Some(label), Some(value), Some(x)) = (text("peer"), value, x_of(row)) else { continue };
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

fn x_of(row: &Row) -> Option<f64> {
    row.bytes.or(row.elements).map(|size| size.max(1) as f64)
}

fn label_of(row: &Row) -> String {
    let method = row.method.clone().unwrap_or_else(|| "median".to_owned());
    match (row.nodes, row.blocks) {
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

fn draw(report: &Report, series: &[Series], path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let points = || series.iter().flat_map(|line| line.points.iter());
    let sized = report.rows.iter().any(|row| x_of(row).is_some());
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(format!("{} ({} nodes, {})", report.bench, report.nodes, report.device), ("sans-serif", 22))
        .margin(16)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(
            span(points().map(|p| p.0)).log_scale(),
            span(points().map(|p| p.1)).log_scale(),
        )?;
    chart
        .configure_mesh()
        .x_desc(match (sized, report.rows.iter().any(|row| row.bytes.is_some())) {
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
    use crate::{Check, Options, Samples, Team};

    #[test]
    fn draws_a_line_per_method() {
        let mut report = Report::new("rma-pingpong", &Team::alone(), &Options::default());
        for method in ["poll", "notification"] {
            for bytes in [8, 64, 512] {
                let samples = Samples::new(vec![bytes as f64 * 10.0], 1);
                report.push(Row::new(&samples).method(method).bytes(bytes), Check::default());
            }
        }
        let path = std::env::temp_dir().join(format!("ggas-plot-{}.svg", std::process::id()));
        write_svg(&report, &path).unwrap();
        let svg = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(svg.contains("</svg>") && svg.contains("notification") && svg.contains("poll"));
    }

    #[test]
    fn an_empty_report_and_a_bad_path_do_no_harm() {
        let report = Report::new("barrier", &Team::alone(), &Options::default());
        let error = write_svg(&report, Path::new("/nonexistent/plot.svg")).unwrap_err();
        assert!(matches!(error, BenchError::Output(_)));
    }
}

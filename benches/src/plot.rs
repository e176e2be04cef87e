use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use serde_json::Value;

use crate::BenchError;

/// Of a panel, and what of its width is for the names of the lines.
const SIZE: (u32, u32) = (1080, 540);
const LEGEND: u32 = 230;

/// Colours that people who see fewer of them tell apart, too (Okabe and Ito), and grey.
const COLOURS: [(u8, u8, u8); 8] = [
    (0, 114, 178),
    (213, 94, 0),
    (0, 158, 115),
    (204, 121, 167),
    (86, 180, 233),
    (230, 159, 0),
    (0, 0, 0),
    (140, 140, 140),
];

/// One line of the plot.
struct Series {
    label: String,
    points: Vec<(f64, f64)>,
}

/// Draws a report's JSON, of this run or an earlier one: latency over size, both axes logarithmic, one line per method
/// and one for each peer.
pub(crate) fn svg(report: &Value) -> Result<String, BenchError> {
    let failed = |error: &dyn std::fmt::Display| BenchError::NoReport(error.to_string());
    let rows = report["rows"].as_array().ok_or_else(|| failed(&"it has no rows"))?;
    let text = |key: &str| report[key].as_str().unwrap_or("?").to_owned();
    let title = format!("{} ({} nodes, {})", text("bench"), report["nodes"], text("device"));
    let mut svg = String::new();
    draw(&title, rows, &series_of(rows), &mut svg).map_err(|error| failed(&error))?;
    Ok(svg)
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

/// A little more than the values take, at least a factor of ten.
fn span(values: impl Iterator<Item = f64>) -> Range<f64> {
    let (low, high) = values.fold((f64::INFINITY, 0.0_f64), |(low, high), v| (low.min(v), high.max(v)));
    if low.is_finite() { low / 1.5..(high * 1.5).max(low * 10.0) } else { 1.0..10.0 }
}

/// What the axes of all panels have in common.
struct Axes {
    /// Sizes; else the rows have numbers only.
    sized: bool,
    unit: &'static str,
    x: Range<f64>,
    y: Range<f64>,
}

fn draw(
    title: &str,
    rows: &[Value],
    series: &[Series],
    svg: &mut String,
) -> Result<(), Box<dyn std::error::Error>> {
    let points = || series.iter().flat_map(|line| line.points.iter());
    let sized = rows.iter().any(|row| x_of(row).is_some());
    let axes = Axes {
        sized,
        unit: match (sized, rows.iter().any(|row| row["bytes"].is_u64())) {
            (true, true) => "bytes",
            (true, false) => "elements",
            (false, _) => "row",
        },
        x: if sized { span(points().map(|p| p.0)) } else { 0.0..rows.len() as f64 + 1.0 },
        y: span(points().map(|p| p.1)),
    };
    // What a picture shows at once, and colours tell apart, is no more than that.
    let panels: Vec<&[Series]> =
        if series.is_empty() { vec![&[]] } else { series.chunks(COLOURS.len()).collect() };
    let root = SVGBackend::with_string(svg, (SIZE.0, SIZE.1 * panels.len() as u32)).into_drawing_area();
    root.fill(&WHITE)?;
    for (area, lines) in root.split_evenly((panels.len(), 1)).iter().zip(panels) {
        let (chart, legend) = area.split_horizontally(SIZE.0 - LEGEND);
        match axes.sized {
            true => panel(&chart, title, lines, &axes, axes.x.clone().log_scale())?,
            false => panel(&chart, title, lines, &axes, axes.x.clone())?,
        }
        for (index, line) in lines.iter().enumerate() {
            let (at, colour) = (60 + 22 * index as i32, colour(index));
            legend.draw(&PathElement::new(vec![(0, at), (18, at)], colour.stroke_width(3)))?;
            legend.draw(&Text::new(line.label.clone(), (24, at - 7), ("sans-serif", 14)))?;
        }
    }
    root.present()?;
    Ok(())
}

fn colour(index: usize) -> RGBColor {
    let (red, green, blue) = COLOURS[index % COLOURS.len()];
    RGBColor(red, green, blue)
}

fn panel<X>(
    area: &DrawingArea<SVGBackend, Shift>,
    title: &str,
    lines: &[Series],
    axes: &Axes,
    x: X,
) -> Result<(), Box<dyn std::error::Error>>
where
    X: AsRangedCoord<Value = f64>,
    X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 22))
        .margin(16)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(x, axes.y.clone().log_scale())?;
    chart
        .configure_mesh()
        .x_desc(axes.unit)
        .y_desc("median latency, us")
        .x_label_formatter(&|x| if axes.sized { size(*x) } else { number(*x) })
        .y_label_formatter(&|y| number(*y))
        .draw()?;
    for (index, line) in lines.iter().enumerate() {
        let colour = colour(index);
        chart.draw_series(LineSeries::new(line.points.iter().copied(), colour.stroke_width(2)))?;
        chart.draw_series(line.points.iter().map(|point| Circle::new(*point, 3, colour.filled())))?;
    }
    Ok(())
}

/// 512, 4 Ki, 1 Mi.
fn size(value: f64) -> String {
    let units = [(30, "Gi"), (20, "Mi"), (10, "Ki")];
    let unit = units.into_iter().find(|(power, _)| value >= f64::from(1u32 << power));
    unit.map_or_else(
        || number(value),
        |(power, unit)| format!("{} {unit}", number(value / f64::from(1u32 << power))),
    )
}

/// Without digits that say nothing.
fn number(value: f64) -> String {
    let text = if value < 10.0 { format!("{value:.2}") } else { format!("{value:.0}") };
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
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

    #[test]
    fn numbers_are_short() {
        assert_eq!([1000000.0, 0.05, 2.5, 12.34].map(number), ["1000000", "0.05", "2.5", "12"]);
        assert_eq!([8.0, 4096.0, 1048576.0, 1536.0].map(size), ["8", "4 Ki", "1 Mi", "1.5 Ki"]);
    }
}

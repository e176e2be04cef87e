//! Pictures of results (SVG): lines over an axis, drawn alike by benchmarks and figures of papers.

use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

/// Of a panel, and what of its width is for the names of the lines.
const SIZE: (u32, u32) = (1080, 540);
const LEGEND: u32 = 230;

/// Heights at which the names of bands stand.
const ROWS_OF_NAMES: usize = 6;

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

/// Why a picture could not be drawn.
#[derive(Debug, thiserror::Error)]
#[error("cannot be drawn: {0}")]
pub struct PictureError(String);

/// How values lie on an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// From 0, or from the lowest value where one is below.
    Linear,
    /// Values must be above 0.
    Logarithmic,
    /// As [`Logarithmic`](Scale::Logarithmic), written as 512, 4 Ki, 1 Mi.
    Sizes,
}

/// What an axis shows, with its unit.
#[derive(Clone, Debug)]
pub struct Axis {
    /// What the values are.
    pub name: String,
    /// How they lie on it.
    pub scale: Scale,
}

impl Axis {
    /// An axis of this name.
    pub fn new(name: &str, scale: Scale) -> Axis {
        Axis { name: name.to_owned(), scale }
    }
}

/// One line, in one colour. It may have gaps.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its name in the legend.
    pub label: String,
    /// Points that are joined, one list for each stretch between gaps.
    pub strokes: Vec<Vec<(f64, f64)>>,
}

impl Line {
    /// A line without gaps.
    pub fn new(label: &str, points: Vec<(f64, f64)>) -> Line {
        Line { label: label.to_owned(), strokes: vec![points] }
    }

    fn points(&self) -> impl Iterator<Item = &(f64, f64)> {
        self.strokes.iter().flatten()
    }
}

/// A stretch of the horizontal axis that is marked.
#[derive(Clone, Debug, PartialEq)]
pub struct Band {
    /// What it is, at its upper end.
    pub label: String,
    /// Where it begins.
    pub from: f64,
    /// Where it ends.
    pub to: f64,
}

/// Values over time: lines without dots, as there are many points, before the stretches of time that are marked. The axes
/// of the picture are linear.
#[derive(Clone, Debug)]
pub struct OverTime {
    /// The lines and their axes.
    pub picture: Picture,
    /// What is marked.
    pub bands: Vec<Band>,
}

impl OverTime {
    /// The picture as SVG.
    ///
    /// # Errors
    /// As [`Picture::svg`].
    pub fn svg(&self) -> Result<String, PictureError> {
        self.picture.svg_with(&Style { bands: &self.bands, dots: false })
    }
}

/// How lines are drawn, and on what.
struct Style<'a> {
    bands: &'a [Band],
    dots: bool,
}

/// Lines in a plane: at most eight in a panel, panels below each other.
#[derive(Clone, Debug)]
pub struct Picture {
    /// Above each panel.
    pub title: String,
    /// To the right.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// The lines, in the order of the legend.
    pub lines: Vec<Line>,
}

impl Picture {
    /// The picture as SVG.
    ///
    /// # Errors
    /// [`PictureError`], for values that no axis has, for example.
    pub fn svg(&self) -> Result<String, PictureError> {
        self.svg_with(&Style { bands: &[], dots: true })
    }

    fn svg_with(&self, style: &Style) -> Result<String, PictureError> {
        let mut svg = String::new();
        self.draw(&mut svg, style).map_err(|error| PictureError(error.to_string()))?;
        Ok(svg)
    }

    fn draw(&self, svg: &mut String, style: &Style) -> Result<(), Box<dyn std::error::Error>> {
        let points = || self.lines.iter().flat_map(Line::points);
        let marked = style.bands.iter().flat_map(|band| [band.from, band.to]);
        let x = span(self.x.scale, points().map(|p| p.0).chain(marked));
        let y = span(self.y.scale, points().map(|p| p.1));
        // What a picture shows at once, and colours tell apart, is no more than that.
        let panels: Vec<&[Line]> =
            if self.lines.is_empty() { vec![&[]] } else { self.lines.chunks(COLOURS.len()).collect() };
        let root = SVGBackend::with_string(svg, (SIZE.0, SIZE.1 * panels.len() as u32)).into_drawing_area();
        root.fill(&WHITE)?;
        for (area, lines) in root.split_evenly((panels.len(), 1)).iter().zip(panels) {
            let (chart, legend) = area.split_horizontally(SIZE.0 - LEGEND);
            match (self.x.scale, self.y.scale) {
                (Scale::Linear, Scale::Linear) => self.panel(&chart, lines, x.clone(), y.clone(), style)?,
                (Scale::Linear, _) => self.panel(&chart, lines, x.clone(), y.clone().log_scale(), style)?,
                (_, Scale::Linear) => self.panel(&chart, lines, x.clone().log_scale(), y.clone(), style)?,
                (_, _) => self.panel(&chart, lines, x.clone().log_scale(), y.clone().log_scale(), style)?,
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

    fn panel<X, Y>(
        &self,
        area: &DrawingArea<SVGBackend, Shift>,
        lines: &[Line],
        x: X,
        y: Y,
        style: &Style,
    ) -> Result<(), Box<dyn std::error::Error>>
    where
        X: AsRangedCoord<Value = f64>,
        X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
        Y: AsRangedCoord<Value = f64>,
        Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, ("sans-serif", 22))
            .margin(16)
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d(x, y)?;
        chart
            .configure_mesh()
            .x_desc(&self.x.name)
            .y_desc(&self.y.name)
            .x_label_formatter(&|x| label(self.x.scale, *x))
            .y_label_formatter(&|y| label(self.y.scale, *y))
            .draw()?;
        let range = chart.y_range();
        for (index, band) in style.bands.iter().enumerate() {
            let corners = [(band.from, range.start), (band.to, range.end)];
            chart.draw_series([Rectangle::new(corners, BLACK.mix(0.08).filled())])?;
            // Names of short neighbours stand below each other.
            let below = (range.end - range.start) * 0.04 * (index % ROWS_OF_NAMES) as f64;
            let name = Text::new(band.label.clone(), (band.from, range.end - below), ("sans-serif", 12));
            chart.draw_series([name])?;
        }
        for (index, line) in lines.iter().enumerate() {
            let colour = colour(index);
            for stroke in &line.strokes {
                chart.draw_series(LineSeries::new(stroke.iter().copied(), colour.stroke_width(2)))?;
            }
            let dotted = line.points().filter(|_| style.dots);
            chart.draw_series(dotted.map(|point| Circle::new(*point, 3, colour.filled())))?;
        }
        Ok(())
    }
}

fn colour(index: usize) -> RGBColor {
    let (red, green, blue) = COLOURS[index % COLOURS.len()];
    RGBColor(red, green, blue)
}

/// A little more than the values take; on a logarithmic axis at least a factor of ten.
fn span(scale: Scale, values: impl Iterator<Item = f64>) -> Range<f64> {
    let (low, high) =
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
    match (scale, low.is_finite()) {
        (Scale::Linear, true) => low.min(0.0)..(low.min(0.0) + (high - low.min(0.0)) * 1.05).max(1e-9),
        (_, true) => low / 1.5..(high * 1.5).max(low * 10.0),
        (_, false) => 1.0..10.0,
    }
}

fn label(scale: Scale, value: f64) -> String {
    if scale == Scale::Sizes { size(value) } else { number(value) }
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

    #[test]
    fn lines_with_gaps_and_linear_axes_are_drawn() {
        let mut lines = vec![Line::new("speed-up", vec![(2.0, 1.4), (32.0, 0.9)])];
        lines.push(Line { label: "launch".to_owned(), strokes: vec![vec![(0.0, 1.0), (1.5, 1.0)], vec![]] });
        let (x, y) = (Axis::new("nodes", Scale::Linear), Axis::new("times as fast", Scale::Linear));
        let svg = Picture { title: "A figure".to_owned(), x, y, lines }.svg().unwrap();
        assert!(["</svg>", "A figure", "speed-up", "launch", "nodes"].iter().all(|part| svg.contains(part)));
    }

    #[test]
    fn stretches_of_time_are_marked_and_points_are_not() {
        let lines = vec![Line::new("gpu 0", vec![(0.0, 100.0), (1.0, 100.0), (1.0, 400.0)])];
        let (x, y) = (Axis::new("seconds", Scale::Linear), Axis::new("W", Scale::Linear));
        let picture = Picture { title: "Power".to_owned(), x, y, lines };
        let band = Band { label: "put, 8 B".to_owned(), from: 0.5, to: 2.0 };
        let svg = OverTime { picture: picture.clone(), bands: vec![band] }.svg().unwrap();
        assert!(svg.contains("put, 8 B") && svg.contains(r#"opacity="0.08""#), "{svg}");
        assert!(!svg.contains("<circle") && picture.svg().unwrap().contains("<circle"));
    }

    #[test]
    fn axes_hold_all_values() {
        assert_eq!(span(Scale::Linear, [2.0, 4.0].into_iter()), 0.0..4.2);
        assert_eq!(span(Scale::Linear, [-1.0, 1.0].into_iter()), -1.0..1.1);
        assert_eq!(span(Scale::Sizes, [3.0].into_iter()), 2.0..30.0);
        assert_eq!(span(Scale::Linear, [].into_iter()), 1.0..10.0);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([1000000.0, 0.05, 2.5, 12.34].map(number), ["1000000", "0.05", "2.5", "12"]);
        assert_eq!([8.0, 4096.0, 1048576.0, 1536.0].map(size), ["8", "4 Ki", "1 Mi", "1.5 Ki"]);
    }
}

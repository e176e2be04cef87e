//! No paper: the timed model against what we measured on two H200 (`benches/results/two-gpus`).
//!
//! The model has no software. What a benchmark's kernel adds to a round (checks of arguments, meetings of threads, the
//! clock) is one time for each form, the difference at one size that the case names; below 0 where entries that are
//! assumed are too high. That size is then a parameter and
//! is not judged, nor are those that entries of `h200-nvlink.toml` were taken from; all others are.

mod cases;
mod rounds;

use extoll_sim::timed::System;
use ggas_plot::{Axis, Line, Picture, Scale};
use serde_json::json;

use crate::claim::short;
use crate::parameters::parameters;
use crate::report::Parameter;
use crate::today::{GGAS, GGAS_BANDWIDTH, Kept, PUT_SIGNAL};
use crate::{Claim, Figure, PaperError, Report, Settings, Verdict};

const SYSTEM: &str = "h200-nvlink";
/// How far a prediction may be off, in percent of what was measured.
const TOLERANCE: f64 = 15.0;

pub(crate) const FIGURES: &[Figure] = &[
    Figure { number: "store", about: "half a round trip of remote stores of 8 B to 8 KiB", run: store },
    Figure { number: "load", about: "remote loads of 8 B to 8 KiB", run: load },
    Figure {
        number: "bandwidth",
        about: "copies by remote stores and loads, 64 KiB to 16 MiB",
        run: bandwidth,
    },
    Figure {
        number: "put-signal",
        about: "half a round trip of put and signal by thread, warp, block and grid",
        run: put_signal,
    },
];

/// A row of a benchmark.
struct Case {
    /// The benchmark's method.
    form: &'static str,
    bytes: u64,
    blocks: usize,
    threads: u64,
    /// Form and size whose difference is what the kernel adds.
    added_at: (&'static str, u64),
    /// A parameter of the system was taken from it.
    gave_rate: bool,
}

type Program = fn(&System, &Case, u64) -> Result<f64, PaperError>;

/// A case beside what the model and the GPUs gave for it.
struct Point<'c> {
    case: &'c Case,
    model_us: f64,
    measured_us: f64,
}

/// What a figure compares.
struct Comparison<'c> {
    kept: &'static Kept,
    points: Vec<Point<'c>>,
    as_rate: bool,
    lacks: &'static str,
}

impl Case {
    fn is(&self, (form, bytes): (&str, u64)) -> bool {
        self.form == form && self.bytes == bytes
    }

    fn measured(&self, kept: &Kept) -> f64 {
        // Not in the file: no number, and the claim does not hold.
        kept.median(self.form, &[("bytes", self.bytes), ("threads", self.threads)]).unwrap_or(f64::NAN)
    }
}

impl<'c> Comparison<'c> {
    fn run(
        kept: &'static Kept,
        cases: &'c [Case],
        system: &System,
        seed: u64,
        program: impl Fn(&Case) -> Program,
    ) -> Result<Comparison<'c>, PaperError> {
        let point = |case: &'c Case| {
            let model_us = program(case)(system, case, seed)?;
            Ok(Point { case, model_us, measured_us: case.measured(kept) })
        };
        let points = cases.iter().map(point).collect::<Result<_, PaperError>>()?;
        Ok(Comparison { kept, points, as_rate: false, lacks: "" })
    }

    /// What a form's kernel adds, in us.
    fn added(&self, case: &Case) -> f64 {
        let at = self.points.iter().find(|point| point.case.is(case.added_at));
        at.map_or(f64::NAN, |point| point.measured_us - point.model_us)
    }

    fn is_judged(&self, case: &Case) -> bool {
        !case.gave_rate && !self.points.iter().any(|point| case.is(point.case.added_at))
    }

    /// Predicted and measured, as the figure shows them.
    fn values(&self, point: &Point<'_>) -> (f64, f64) {
        let shown = |us: f64| if self.as_rate { point.case.bytes as f64 / us / 1e3 } else { us };
        (shown(point.model_us + self.added(point.case)), shown(point.measured_us))
    }

    /// Percent that the prediction is above what was measured.
    fn off(&self, point: &Point<'_>) -> f64 {
        let (predicted, measured) = self.values(point);
        100.0 * (predicted / measured - 1.0)
    }

    fn forms(&self) -> Vec<&'static str> {
        let mut forms: Vec<_> = self.points.iter().map(|point| point.case.form).collect();
        forms.dedup();
        forms
    }

    fn of<'a>(&'a self, form: &'a str) -> impl Iterator<Item = &'a Point<'c>> {
        self.points.iter().filter(move |point| point.case.form == form)
    }

    /// All sizes of a form that no parameter was taken from; the worst of them is the claim's value.
    fn verdict(&self, form: &'static str) -> Verdict {
        let judged = || self.of(form).filter(|point| self.is_judged(point.case));
        let size = |off: f64| if off.is_nan() { f64::INFINITY } else { off.abs() };
        let worst = judged().max_by(|a, b| size(self.off(a)).total_cmp(&size(self.off(b))));
        let named = worst.map_or(0, |point| point.case.bytes);
        let text = format!(
            "{form}: {} of {} sizes gave no parameter; the worst of these, {named} B, is off by",
            judged().count(),
            self.of(form).count()
        );
        let off: Vec<_> = judged()
            .filter(|point| size(self.off(point)) > TOLERANCE)
            .map(|point| format!("{} B by {}%", point.case.bytes, short(self.off(point))))
            .collect();
        Claim::near(&text, self.kept.name(), 0.0, TOLERANCE, "%")
            .judge(worst.map(|point| self.off(point)))
            .because(|| format!("{} ({})", self.lacks, off.join(", ")))
    }

    fn parameters(&self) -> Vec<Parameter> {
        let mut found: Vec<Parameter> = Vec::new();
        for point in &self.points {
            let (form, bytes) = point.case.added_at;
            let name = format!("added.{form}-{bytes}");
            if found.iter().all(|parameter| parameter.name != name) {
                let value = format!("{} us", short(self.added(point.case)));
                let source = format!("{}, {form}, {bytes} B: measured, less the model's", self.kept.name());
                found.push(Parameter { name, value, source });
            }
        }
        found
    }

    fn report(self, figure: &Figure, settings: &Settings, system: &System) -> Report {
        let mut all = parameters(settings, SYSTEM);
        all.extend(self.parameters());
        let unit = if self.as_rate { "GB/s" } else { "us" };
        let mut report = Report {
            parameters: all,
            claims: self.forms().into_iter().map(|form| self.verdict(form)).collect(),
            notes: vec![format!("the model lacks: {}", self.lacks)],
            ..Report::of(
                "h200",
                figure,
                settings,
                system,
                if self.as_rate { &COLUMNS_OF_RATES } else { &COLUMNS },
                Picture {
                    title: format!("Two H200, {}", figure.number()),
                    x: Axis::new("bytes", Scale::Sizes),
                    y: Axis::new(unit, Scale::Logarithmic),
                    lines: Vec::new(),
                },
            )
        };
        for point in &self.points {
            let Case { form, bytes, blocks, threads, .. } = *point.case;
            let (predicted, measured) = self.values(point);
            let off = self.off(point);
            let verdict = match self.is_judged(point.case) {
                false => "a parameter was taken from it",
                true if off.abs() <= TOLERANCE => "within 15%",
                true => "NOT within 15%",
            };
            let (predicted, measured, off) = (json!(predicted), json!(measured), json!(off));
            report.row([
                json!(form),
                json!(bytes),
                json!(blocks),
                json!(threads),
                predicted,
                measured,
                off,
                json!(verdict),
            ]);
        }
        for form in self.forms() {
            let line = |value: fn((f64, f64)) -> f64| {
                self.of(form).map(|point| (point.case.bytes as f64, value(self.values(point)))).collect()
            };
            report.picture.lines.push(Line::new(&format!("{form}, model"), line(|both| both.0)));
            report.picture.lines.push(Line::new(&format!("{form}, measured"), line(|both| both.1)));
        }
        report
    }
}

const COLUMNS: [&str; 8] =
    ["form", "bytes", "blocks", "threads", "model us", "measured us", "off %", "verdict"];
const COLUMNS_OF_RATES: [&str; 8] =
    ["form", "bytes", "blocks", "threads", "model GB/s", "measured GB/s", "off %", "verdict"];

fn store(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let (system, cases) = (settings.system(SYSTEM)?, cases::stores());
    let mut all = Comparison::run(&GGAS, &cases, &system, settings.seed, |_| rounds::store)?;
    all.lacks = "that the last of many threads sees its word later than one alone";
    Ok(all.report(figure, settings, &system))
}

fn load(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let (system, cases) = (settings.system(SYSTEM)?, cases::loads());
    let mut all = Comparison::run(&GGAS, &cases, &system, settings.seed, |_| rounds::load)?;
    all.lacks = "the fences of several warps, which take longer than that of one";
    Ok(all.report(figure, settings, &system))
}

fn bandwidth(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let (system, cases) = (settings.system(SYSTEM)?, cases::copies());
    let program =
        |case: &Case| -> Program { if case.form == "load" { rounds::load_all } else { rounds::store_all } };
    let mut all = Comparison::run(&GGAS_BANDWIDTH, &cases, &system, settings.seed, program)?;
    all.as_rate = true;
    all.lacks = "the meeting of blocks, and sectors: accesses that do not coalesce are not asked for";
    Ok(all.report(figure, settings, &system))
}

fn put_signal(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let (system, cases) = (settings.system(SYSTEM)?, cases::puts());
    let mut all = Comparison::run(&PUT_SIGNAL, &cases, &system, settings.seed, |_| rounds::put_signal)?;
    all.lacks =
        "warps of a block that load and store at times of their own, and what they wait for each other";
    Ok(all.report(figure, settings, &system))
}

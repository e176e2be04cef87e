//! Figures 5.27, 5.28 and 5.29: two GPUs, four forms, nine sizes (Table 5.6).

use extoll_sim::timed::System;
use ggas_plot::{Axis, Line, Scale};
use serde_json::json;

use super::{Form, Himeno, iteration};
use crate::parameters::parameters;
use crate::thesis::energy::Power;
use crate::thesis::{INFINIBAND, report};
use crate::{Claim, Figure, PaperError, Report, Settings, Verdict};

const FORMS: [Form; 4] = [Form::Hybrid, Form::InKernel, Form::Stream, Form::Device];
/// Those whose communication the GPU controls.
const BY_GPU: [Form; 3] = [Form::InKernel, Form::Stream, Form::Device];
/// Points of the whole grid. Table 5.6 has two rows of 256 x 256 x 256; the second's operations and memory are those of 512.
const SIZES: [[u64; 3]; 9] = [
    [256, 256, 256],
    [256, 256, 512],
    [256, 256, 1024],
    [512, 512, 256],
    [512, 512, 512],
    [512, 512, 640],
    [640, 640, 128],
    [640, 640, 256],
    [640, 640, 386],
];
/// Indices of the sizes that the text speaks of.
const SMALL: usize = 0;
const LARGE: usize = 8;

/// An iteration of one size: us with communication and without, for each form.
struct Point {
    size: [u64; 3],
    operations: f64,
    us: [f64; 4],
    alone: [f64; 4],
}

impl Point {
    fn of(form: Form) -> usize {
        FORMS.iter().position(|other| *other == form).unwrap_or_default()
    }

    fn us(&self, form: Form) -> f64 {
        self.us[Point::of(form)]
    }

    fn overhead(&self, form: Form) -> f64 {
        self.us(form) - self.alone[Point::of(form)]
    }

    /// Performance as a share of the hybrid form's, in percent.
    fn share(&self, form: Form) -> f64 {
        100.0 * self.us(Form::Hybrid) / self.us(form)
    }

    /// Millions of operations for a joule of both nodes.
    fn per_joule(&self, form: Form) -> f64 {
        self.operations / (2.0 * Power::of(form == Form::Hybrid).watts() * self.us(form))
    }

    fn name(&self) -> String {
        self.size.map(|side| side.to_string()).join("x")
    }
}

/// With times without communication where they are asked for.
fn sweep(system: &System, alone_too: bool, seed: u64) -> Result<Vec<Point>, PaperError> {
    let point = |size: [u64; 3]| {
        let (mut us, mut alone) = ([0.0; 4], [0.0; 4]);
        for (at, form) in FORMS.into_iter().enumerate() {
            let himeno = Himeno { size, nodes: 2, form, communicates: true };
            us[at] = iteration(system, himeno, seed)?.as_us();
            if alone_too {
                alone[at] = iteration(system, Himeno { communicates: false, ..himeno }, seed)?.as_us();
            }
        }
        let operations = Himeno { size, nodes: 2, form: Form::Hybrid, communicates: true }.operations();
        Ok(Point { size, operations, us, alone })
    };
    SIZES.into_iter().map(point).collect()
}

/// A figure over all sizes: a row each, with a value for each form, which is drawn too.
fn figure(
    figure: &Figure,
    settings: &Settings,
    columns: &'static [&'static str],
    unit: &str,
    value: impl Fn(&Point, Form) -> f64,
    claims: impl Fn(&System, &[Point]) -> Vec<Verdict>,
) -> Result<Report, PaperError> {
    let system = settings.system(INFINIBAND)?;
    let points = sweep(&system, figure.number() == "5.28", settings.seed)?;
    let mut report = report("thesis-5", figure, settings, &system, columns);
    report.parameters = parameters(settings, INFINIBAND);
    for point in &points {
        let [hybrid, in_kernel, stream, device] = FORMS.map(|form| json!(value(point, form)));
        report.row([json!(point.name()), json!(point.operations / 2e6), hybrid, in_kernel, stream, device]);
    }
    report.claims = claims(&system, &points);
    report.notes.push(
        "two nodes; the mean of 2 iterations in step; kernels have as many blocks as the GPU holds, with even shares"
            .to_owned(),
    );
    report.picture.x = Axis::new("million operations of a GPU, an iteration", Scale::Logarithmic);
    report.picture.y = Axis::new(unit, Scale::Linear);
    let line = |form: Form| {
        let mut line: Vec<_> =
            points.iter().map(|point| (point.operations / 2e6, value(point, form))).collect();
        line.sort_by(|a, b| a.0.total_cmp(&b.0));
        Line::new(form.name(), line)
    };
    report.picture.lines = FORMS.map(line).to_vec();
    Ok(report)
}

/// Figure 5.27.
pub(in crate::thesis) fn performance(of: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let columns = &[
        "size",
        "MFLOP of a GPU",
        "hybrid GFLOP/s",
        "in-kernel GFLOP/s",
        "stream GFLOP/s",
        "device GFLOP/s",
    ];
    let gflops = |point: &Point, form: Form| point.operations / point.us(form) / 1e3;
    figure(of, settings, columns, "GFLOP/s of two GPUs", gflops, performance_claims)
}

/// Why the in-kernel form is quicker than in the thesis.
fn no_slow_blocks(system: &System) -> String {
    format!(
        "the model's in-kernel form pays what the text names, blocks that wait, a counter, and {:.1} us of posts by the \
         last block, and saves the other forms' kernels; the thesis assumes that blocks which advance slower hold the \
         others up, and gives no cost for that",
        2.0 * system.gpu.post_ns / 1e3
    )
}

/// What the host's part is in the model.
fn staged(system: &System) -> String {
    let gpu = &system.gpu;
    let copy = (gpu.copy_call_ns + 262_144.0 / gpu.copy_bytes_per_ns) / 1e3;
    format!(
        "the host stages each boundary before it launches the next kernel (4.3.8, Fig. 4.16), {copy:.0} us for 256 KiB, \
         and the GPU has nothing to do meanwhile"
    )
}

fn performance_claims(system: &System, points: &[Point]) -> Vec<Verdict> {
    let [small, large] = [SMALL, LARGE].map(|at| &points[at]);
    let share = |point: &Point, form: Form, paper: f64| {
        let text = format!("{} against hybrid, {}", form.name(), point.name());
        Claim::near(&text, "5.8.4, Fig. 5.27", paper, 10.0, "%").judge(point.share(form))
    };
    let best = |form: Form, among: &[Form]| {
        let is_best = |point: &&Point| among.iter().all(|other| point.us(form) <= point.us(*other));
        points.iter().filter(is_best).count() as f64
    };
    let all = SIZES.len() as f64;
    vec![
        Claim::at_least("hybrid performs best, of 9 sizes at", "5.8.4", all, "sizes")
            .judge(best(Form::Hybrid, &FORMS))
            .because(|| staged(system)),
        Claim::at_least(
            "stream performs best of those that the GPU controls, of 9 sizes at",
            "5.8.4",
            all,
            "sizes",
        )
        .judge(best(Form::Stream, &BY_GPU))
        .because(|| no_slow_blocks(system)),
        share(small, Form::Stream, 96.0).because(|| staged(system)),
        share(large, Form::Stream, 99.0).because(|| staged(system)),
        share(small, Form::InKernel, 88.0).because(|| no_slow_blocks(system)),
        share(large, Form::InKernel, 67.0).because(|| no_slow_blocks(system)),
    ]
}

/// Figure 5.28.
pub(in crate::thesis) fn overhead(of: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let columns = &["size", "MFLOP of a GPU", "hybrid us", "in-kernel us", "stream us", "device us"];
    let unit = "us that communication adds to an iteration";
    figure(of, settings, columns, unit, |point, form| point.overhead(form), overhead_claims)
}

fn overhead_claims(system: &System, points: &[Point]) -> Vec<Verdict> {
    let [small, large] = [SMALL, LARGE].map(|at| &points[at]);
    let share = 100.0 * small.overhead(Form::Hybrid) / small.us(Form::Hybrid);
    let least = BY_GPU.map(|form| (form.name(), small.overhead(form)));
    let [in_kernel, stream, device] = least;
    let growth = |form: Form| large.overhead(form) / small.overhead(form);
    vec![
        Claim::at_most(
            &format!("hybrid's overhead is within what can be measured, {}", small.name()),
            "5.8.4, Fig. 5.28",
            2.0,
            "%",
        )
        .judge(share)
        .because(|| staged(system)),
        Claim::order("overhead in us, the smallest size", "5.8.4", &[stream, device]).because(|| {
            let gpu = &system.gpu;
            let kernels = 2.0 * (gpu.launch_ns + gpu.end_ns) / 1e3;
            format!(
                "the model's control kernel launches at a host's cost, as the thesis gives none for launches by kernels, and \
                 saves the stream's kernels that send and wait, {kernels:.0} us"
            )
        }),
        Claim::order("overhead in us, the smallest size", "5.8.4", &[stream, in_kernel])
            .because(|| no_slow_blocks(system)),
        Claim::between(
            "stream's overhead stays constant: the largest size's over the smallest's",
            "5.8.4",
            0.5,
            2.0,
            "",
        )
        .judge(growth(Form::Stream))
        .because(|| "a longer boundary is read for longer than its neighbour's part is computed".to_owned()),
        Claim::at_least(
            "in-kernel's overhead grows: the largest size's over the smallest's",
            "5.8.4",
            1.5,
            "",
        )
        .judge(growth(Form::InKernel))
        .because(|| no_slow_blocks(system)),
    ]
}

/// Figure 5.29.
pub(in crate::thesis) fn energy(of: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let columns = &[
        "size",
        "MFLOP of a GPU",
        "hybrid MFLOP/J",
        "in-kernel MFLOP/J",
        "stream MFLOP/J",
        "device MFLOP/J",
    ];
    let per_joule = |point: &Point, form: Form| point.per_joule(form);
    let mut report = figure(of, settings, columns, "MFLOP for a joule", per_joule, energy_claims)?;
    report.parameters.extend(Power::parameters());
    report.notes.push(Power::NOTE.to_owned());
    Ok(report)
}

fn energy_claims(system: &System, points: &[Point]) -> Vec<Verdict> {
    let large = &points[LARGE];
    let gain = 100.0 * (large.per_joule(Form::Stream) / large.per_joule(Form::Hybrid) - 1.0);
    let is_best =
        |point: &&Point| FORMS.iter().all(|form| point.per_joule(Form::Stream) >= point.per_joule(*form));
    let best = points.iter().filter(is_best).count() as f64;
    let order = [Form::Hybrid, Form::Device].map(|form| (form.name(), large.per_joule(form)));
    vec![
        Claim::at_least(
            "stream is the most efficient, of 9 sizes at",
            "5.8.5, Fig. 5.29",
            SIZES.len() as f64,
            "sizes",
        )
        .judge(best)
        .because(|| no_slow_blocks(system)),
        Claim::near(&format!("stream over hybrid, {}", large.name()), "5.8.5", 10.0, 5.0, "%").judge(gain),
        Claim::order(&format!("MFLOP for a joule, {}", large.name()), "5.8.5", &order),
    ]
}

//! Figure 1 (section 1): launches cost 3 to 20 us. What follows for Figure 8's message, whose system has 3 us.

use ggas_plot::{Axis, Line, Picture, Scale};
use serde_json::json;

use super::SYSTEM;
use super::line;
use super::way::{Way, below};
use crate::parameters::parameters;
use crate::{Checked, Claim, Figure, PaperError, Report, Settings, Verdict, today};

/// Launch and end of a kernel together, in us; half each, as in Table 2.
const COSTS: [f64; 7] = [3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 20.0];

/// One cost, and what HDN, GDS and GPU-TN take then, in us.
struct Point {
    cost: f64,
    us: [f64; 3],
}

pub(super) fn run(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let base = settings.system(SYSTEM)?;
    let (mut points, mut checked) = (Vec::new(), Checked::default());
    for cost in COSTS {
        let mut system = base.clone();
        (system.gpu.launch_ns, system.gpu.end_ns) = (cost * 500.0, cost * 500.0);
        let (times, compared) = line::all(&system, settings.seed)?;
        checked.add(compared);
        points.push(Point { cost, us: times.map(|times| times.seen.as_us()) });
    }
    let mut report = Report {
        parameters: parameters(settings, SYSTEM),
        claims: claims(&points),
        checked,
        notes: Vec::new(),
        ..Report::of(
            "gpu-tn",
            figure,
            settings,
            &base,
            &["launch and end us", "HDN us", "GDS us", "GPU-TN us", "below GDS %", "below HDN %"],
            picture(&points),
        )
    };
    for Point { cost, us: [hdn, gds, tn] } in &points {
        let (of_gds, of_hdn) = (json!(below(*tn, *gds)), json!(below(*tn, *hdn)));
        report.row([json!(cost), json!(hdn), json!(gds), json!(tn), of_gds, of_hdn]);
    }
    Ok(report)
}

fn claims(points: &[Point]) -> Vec<Verdict> {
    let gains: Vec<f64> = points.iter().map(|Point { us: [_, gds, tn], .. }| below(*tn, *gds)).collect();
    let least = gains.windows(2).map(|pair| pair[1] - pair[0]).fold(f64::INFINITY, f64::min);
    // Beyond what the launch adds, nothing may change: a kernel that ends later sends later, and that is all.
    let (first, last) = (&points[0], &points[points.len() - 1]);
    let slope = |way: usize| (last.us[way] - first.us[way]) / (last.cost - first.cost);
    vec![
        Claim::at_least(
            "GPU-TN gains more on GDS with each step of the launch's cost, at least",
            "5.1",
            0.0,
            "%",
        )
        .judge(least),
        Claim::near("of each us of launch and end, HDN's message pays", "Fig. 3", 1.0, 0.05, "us")
            .judge(slope(0)),
        Claim::near("of each us of launch and end, GPU-TN's message pays", "Fig. 3", 0.5, 0.05, "us")
            .judge(slope(2)),
        Claim::between("a kernel's launch and end", "1, Fig. 1", 3.0, 20.0, "us")
            .judge(today::relaunch_by_host_us())
            .today(today::relaunch()),
    ]
}

fn picture(points: &[Point]) -> Picture {
    let line = |(at, way): (usize, Way)| {
        Line::new(way.name(), points.iter().map(|point| (point.cost, point.us[at])).collect())
    };
    Picture {
        title: "GPU-TN, Fig. 1: launches, and Fig. 8's message".to_owned(),
        x: Axis::new("launch and end of a kernel, us", Scale::Linear),
        y: Axis::new("message, us", Scale::Linear),
        lines: Way::GPU.into_iter().enumerate().map(line).collect(),
    }
}

//! Figure 3.4: GSB and BTB against a flat allreduce through the host, on one GPU of a K80.

use ggas_plot::{Axis, Line, Picture, Scale};
use ggas_shared_gpu::Algorithm;
use serde_json::json;

use super::machine::{Machine, Way};
use crate::{Checked, Claim, Figure, PaperError, Report, Settings, Verdict};

const RANKS: [usize; 4] = [4, 8, 16, 24];
const WAYS: [(&str, Way); 3] =
    [("MPI", Way::Mpi), ("GSB", Way::Ours(Algorithm::Gsb)), ("BTB", Way::Ours(Algorithm::Btb))];
const COLUMNS: &[&str] = &["processes", "bytes", "MPI us", "GSB us", "BTB us", "MPI/GSB", "MPI/BTB"];

struct Point {
    ranks: usize,
    bytes: usize,
    us: [f64; 3],
}

pub(super) fn run(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let machine = Machine::k80();
    let sizes = (2..=24).map(|power| 1_usize << power);
    let points: Vec<Point> = RANKS
        .into_iter()
        .flat_map(|ranks| sizes.clone().map(move |bytes| (ranks, bytes)))
        .map(|(ranks, bytes)| {
            let us = WAYS.map(|(_, way)| machine.us_of(way, ranks, bytes).unwrap_or(f64::NAN));
            Point { ranks, bytes, us }
        })
        .collect();
    let mut report = Report {
        parameters: machine.parameters(),
        claims: claims(&points),
        checked: Checked::default(),
        ..Report::of("faraji", figure, settings, &settings.system("infiniband")?, COLUMNS, picture(&points))
    };
    report.systems = vec!["faraji-k80".to_owned()];
    report.notes.push(
        "The text tells no times of copies and kernels: starts are assumed, rates are of data sheets (k80.toml)."
            .to_owned(),
    );
    for Point { ranks, bytes, us: [mpi, gsb, btb] } in &points {
        let ratios = (json!(mpi / gsb), json!(mpi / btb));
        report.row([json!(ranks), json!(bytes), json!(mpi), json!(gsb), json!(btb), ratios.0, ratios.1]);
    }
    Ok(report)
}

fn claims(points: &[Point]) -> Vec<Verdict> {
    let from = |ranks: usize| {
        let of = points.iter().filter(|point| point.ranks == ranks);
        let slower = of.filter(|point| point.us[1] >= point.us[0]).map(|point| point.bytes).max();
        slower.map_or(4.0, |bytes| 2.0 * bytes as f64)
    };
    let most = points.iter().map(|point| point.us[0] / point.us[1]).fold(0.0, f64::max);
    let gap = points.iter().map(|point| point.us[1] / point.us[2]).fold(0.0, f64::max);
    let start = || {
        "the text tells no cost of starting a copy, and has GSB pay at all sizes on the K20: starts that explain one of the two \
         contradict the other"
            .to_owned()
    };
    let pays = |ranks: usize| {
        Claim::between(
            &format!("{ranks} processes: GSB is quicker from, in bytes"),
            "3.3.2, Fig. 3.4",
            131_072.0,
            524_288.0,
            "B",
        )
        .judge(from(ranks))
        .because(start)
    };
    let mut claims: Vec<Verdict> = RANKS.into_iter().map(pays).collect();
    claims.push(Claim::between("most that GSB gains", "3.3.2, Fig. 3.4", 9.75, 39.0, "x").judge(most));
    let text = "GSB over BTB, at its worst";
    claims.push(Claim::at_most(text, "3.3.2: superior or at least similar", 1.1, "x").judge(gap));
    claims
}

fn picture(points: &[Point]) -> Picture {
    let line = |(at, (name, _)): (usize, (&str, Way))| {
        let of_24 = points.iter().filter(|point| point.ranks == 24);
        Line::new(name, of_24.map(|point| (point.bytes as f64, point.us[at])).collect())
    };
    Picture {
        title: "Faraji, Fig. 3.4(d): allreduce of 24 processes on one GPU".to_owned(),
        x: Axis::new("vector, bytes", Scale::Sizes),
        y: Axis::new("allreduce, us", Scale::Logarithmic),
        lines: WAYS.into_iter().enumerate().map(line).collect(),
    }
}

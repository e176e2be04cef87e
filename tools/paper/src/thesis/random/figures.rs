//! Figures 6.23 and 6.26.

use extoll_sim::timed::System;
use ggas_plot::{Axis, Line, Scale};
use serde_json::json;

use super::{LOOK_AHEAD, Way, requests_of_round, round};
use crate::parameters::parameters;
use crate::thesis::energy::Power;
use crate::thesis::{SYSTEM, report};
use crate::{Claim, Figure, PaperError, Report, Settings, Verdict};

const NODES: [usize; 4] = [2, 4, 8, 12];

/// A round on some GPUs: us in the order of [`Way::ALL`].
struct Point {
    nodes: usize,
    us: [f64; 3],
    /// Of a node to its card, by GGAS.
    requests: f64,
}

impl Point {
    fn of(system: &System, nodes: usize, seed: u64) -> Result<Point, PaperError> {
        let mut us = [0.0; 3];
        for way in Way::ALL {
            us[way as usize] = round(system, way, nodes, seed)?.as_us();
        }
        Ok(Point { nodes, us, requests: requests_of_round(nodes, seed) })
    }

    fn updates(&self) -> f64 {
        self.nodes as f64 * LOOK_AHEAD as f64
    }

    /// Billions of updates a second, of all nodes.
    fn gups(&self, way: Way) -> f64 {
        self.updates() / self.us[way as usize] / 1e3
    }

    /// Of all nodes.
    fn per_joule(&self, way: Way) -> f64 {
        let watts = Power::of(way == Way::Mpi).watts() * self.nodes as f64;
        1e6 * self.updates() / (watts * self.us[way as usize])
    }

    /// Claims that one way is above the others.
    fn above(
        &self,
        best: Way,
        (what, source): (&str, &'static str),
        value: impl Fn(&Point, Way) -> f64,
        system: &System,
    ) -> Vec<Verdict> {
        let text = format!("{what}, {} GPUs", self.nodes);
        let others = Way::ALL.into_iter().filter(|way| *way != best);
        let order = |other: Way| [other, best].map(|way| (way.name(), value(self, way)));
        others
            .map(|other| {
                Claim::order(&text, source, &order(other)).because(|| self.costs(system, [other, best]))
            })
            .collect()
    }

    /// What a round of two ways is made of.
    fn costs(&self, system: &System, ways: [Way; 2]) -> String {
        let System { host, gpu, card, .. } = system;
        let others = self.nodes as f64 - 1.0;
        let of = |way: Way| match way {
            Way::Mpi => format!(
                "MPI's {:.1} us have {:.1} of a copy's call and a launch with its begin and end, and {:.1} of the software of \
                 {others} messages each way, which the thesis does not tell and extoll-fpga.toml assumes",
                self.us[Way::Mpi as usize],
                (gpu.copy_call_ns + gpu.launch_call_ns + gpu.launch_ns + gpu.end_ns) / 1e3,
                others * (host.send_ns + host.receive_ns) / 1e3
            ),
            Way::Rma => format!(
                "RMA's {:.1} us have {:.1} of a kernel's begin and end, {:.1} of posts, and {:.1} of reading and freeing {} \
                 notifications in host memory, half of them for a put that the next one waits for",
                self.us[Way::Rma as usize],
                (gpu.launch_ns + gpu.end_ns) / 1e3,
                others * gpu.post_ns / 1e3,
                2.0 * others * 3.0 * (gpu.poll_host_ns + gpu.store_ns) / 1e3,
                2.0 * others
            ),
            Way::Ggas => format!(
                "GGAS's {:.1} us have {:.1} of {:.0} requests in the card's window, as a warp's 32 numbers go to {} nodes",
                self.us[Way::Ggas as usize],
                self.requests * card.window_busy_ns / 1e3,
                self.requests,
                self.nodes
            ),
        };
        format!("{}; {}", of(ways[0]), of(ways[1]))
    }
}

/// A row for each number of GPUs, with a value for each way, which is drawn too.
fn sweep(
    figure: &Figure,
    settings: &Settings,
    (columns, unit): (&'static [&'static str], &str),
    value: impl Fn(&Point, Way) -> f64,
) -> Result<(Report, Vec<Point>, System), PaperError> {
    let system = settings.system(SYSTEM)?;
    let mut report = report("thesis-6", figure, settings, &system, columns);
    report.parameters = parameters(settings, SYSTEM);
    report.parameters.extend(super::parameters());
    let mut points = Vec::new();
    for nodes in NODES {
        let point = Point::of(&system, nodes, settings.seed)?;
        let [mpi, rma, ggas] = Way::ALL.map(|way| json!(value(&point, way)));
        report.row([json!(nodes), mpi, rma, ggas]);
        points.push(point);
    }
    report.notes.push(
        "rounds of one look-ahead each, from a sequence of owners that is the same for all; the table itself is not there, an \
         update is its bytes"
            .to_owned(),
    );
    report.notes.push(
        "the thesis leaves the programs to another work: MPI's host sends one message to each other host; RMA's kernel waits for \
         each put's notification before the next put (5.6.3) and begins anew for each look-ahead; GGAS's kernel stores each \
         number and lasts"
            .to_owned(),
    );
    report.picture.x = Axis::new("GPUs", Scale::Linear);
    report.picture.y = Axis::new(unit, Scale::Linear);
    let line = |way: Way| {
        let points = points.iter().map(|point| (point.nodes as f64, value(point, way))).collect();
        Line::new(way.name(), points)
    };
    report.picture.lines = Way::ALL.map(line).to_vec();
    Ok((report, points, system))
}

/// Figure 6.23.
pub(in crate::thesis) fn performance(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let columns = (&["GPUs", "MPI GUPS", "RMA GUPS", "GGAS GUPS"] as &[&str], "GUPS");
    let (mut report, points, system) = sweep(figure, settings, columns, Point::gups)?;
    report.claims = performance_claims(&system, &points);
    Ok(report)
}

fn performance_claims(system: &System, points: &[Point]) -> Vec<Verdict> {
    let (two, more) = (&points[0], &points[1..]);
    let gain = |point: &Point, over: Way| point.gups(Way::Ggas) / point.gups(over);
    let costs = |point: &Point, over: Way| point.costs(system, [over, Way::Ggas]);
    let mut claims = Vec::new();
    for point in more {
        claims.extend(point.above(Way::Ggas, ("GUPS", "6.9.3, Fig. 6.23"), Point::gups, system));
    }
    for over in [Way::Mpi, Way::Rma] {
        let names = ["4 GPUs", "8 GPUs", "12 GPUs"];
        let gains: Vec<_> = names.into_iter().zip(more.iter().map(|point| gain(point, over))).collect();
        let text = format!("GGAS over {} grows with the GPUs", over.name());
        let last = &more[more.len() - 1];
        claims.push(Claim::order(&text, "6.9.3", &gains).because(|| costs(last, over)));
    }
    for point in &more[1..] {
        for over in [Way::Mpi, Way::Rma] {
            let text = format!("GGAS is almost twice {}, {} GPUs", over.name(), point.nodes);
            let claim = Claim::near(&text, "6.9.3", 1.9, 0.3, "times");
            claims.push(claim.judge(gain(point, over)).because(|| costs(point, over)));
        }
    }
    for point in more {
        let share = |point: &Point| 100.0 / gain(point, Way::Rma);
        let (name, text) = (
            format!("{} GPUs", point.nodes),
            format!("RMA is worse for more than two GPUs: its share of GGAS's in %, {} GPUs", point.nodes),
        );
        let verdict = Claim::order(&text, "6.9.3", &[(&name, share(point)), ("2 GPUs", share(two))]);
        claims.push(verdict.because(|| costs(point, Way::Rma)));
    }
    claims
}

/// Figure 6.26.
pub(in crate::thesis) fn energy(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let columns =
        (&["GPUs", "MPI updates/J", "RMA updates/J", "GGAS updates/J"] as &[&str], "updates for a joule");
    let (mut report, points, system) = sweep(figure, settings, columns, Point::per_joule)?;
    report.parameters.extend(Power::parameters());
    report.notes.push(Power::NOTE.to_owned());
    report.claims = energy_claims(&system, &points);
    Ok(report)
}

fn energy_claims(system: &System, points: &[Point]) -> Vec<Verdict> {
    let mut claims = Vec::new();
    for point in points {
        let best = if point.nodes == 2 { Way::Rma } else { Way::Ggas };
        let what = ("updates for a joule", "6.10.3, Fig. 6.26");
        claims.extend(point.above(best, what, Point::per_joule, system));
    }
    for point in points.iter().filter(|point| point.nodes >= 8) {
        for over in [Way::Mpi, Way::Rma] {
            let gain = point.per_joule(Way::Ggas) / point.per_joule(over);
            let text = format!("GGAS is more than twice {}, {} GPUs", over.name(), point.nodes);
            let verdict = Claim::at_least(&text, "6.10.3", 2.0, "times").judge(gain);
            claims.push(verdict.because(|| point.costs(system, [over, Way::Ggas])));
        }
    }
    claims
}

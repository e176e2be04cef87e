//! Figures 4.17, 6.20, 6.21 and 6.24: more GPUs, on a grid that grows with them or stays as it is.

use extoll_sim::timed::System;
use ggas_plot::{Axis, Line, Scale};
use serde_json::json;

use super::{Form, Himeno, iteration};
use crate::parameters::parameters;
use crate::thesis::energy::Power;
use crate::thesis::{INFINIBAND, SYSTEM, report};
use crate::{Claim, Figure, PaperError, Report, Settings, Verdict};

/// Figure 4.17's GPUs, and its problems of Table 4.2.
const GPUS: [usize; 4] = [2, 4, 8, 16];
const MEDIUM: [u64; 3] = [128, 128, 256];
const LARGE: [u64; 3] = [256, 256, 512];

/// Forms of chapter 6. "RMA" is put and get by the GPU in its best form (section 5.8.4).
const FORMS: [(Form, &str); 3] = [(Form::Mpi, "MPI"), (Form::Stream, "RMA"), (Form::Ggas, "GGAS")];
const CHAPTER_6: [usize; 4] = [2, 4, 8, 12];
/// Points of a GPU in Fig. 6.20, and of all in Fig. 6.21.
const WEAK: [u64; 3] = [128, 192, 64];
const STRONG: [u64; 3] = [128, 128, 192];

fn speedup(system: &System, size: [u64; 3], nodes: usize, form: Form, seed: u64) -> Result<f64, PaperError> {
    let himeno = Himeno { size, nodes, form, communicates: true };
    // One GPU's kernels are queued one behind the other.
    let alone = Himeno { nodes: 1, form: Form::Stream, ..himeno };
    Ok(iteration(system, alone, seed)?.as_us() / iteration(system, himeno, seed)?.as_us())
}

/// Figure 4.17.
pub(in crate::thesis) fn gaspi(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let system = settings.system(INFINIBAND)?;
    let columns = &["GPUs", "M, GASPI", "M, MPI", "L, GASPI", "L, MPI"];
    let mut report = report("thesis-4", figure, settings, &system, columns);
    report.parameters = parameters(settings, INFINIBAND);
    let mut points = Vec::new();
    for nodes in GPUS {
        let mut speedups = [0.0; 4];
        for (at, (size, form)) in
            [(MEDIUM, Form::Hybrid), (MEDIUM, Form::Mpi), (LARGE, Form::Hybrid), (LARGE, Form::Mpi)]
                .into_iter()
                .enumerate()
        {
            speedups[at] = speedup(&system, size, nodes, form, settings.seed)?;
        }
        let [m, m_mpi, l, l_mpi] = speedups.map(|speedup| json!(speedup));
        report.row([json!(nodes), m, m_mpi, l, l_mpi]);
        points.push((nodes, speedups));
    }
    report.claims = gaspi_claims(&system, &points);
    report.notes.push("a GPU for each node; the thesis does not tell how its 16 were placed".to_owned());
    report.picture.x = Axis::new("GPUs", Scale::Linear);
    report.picture.y = Axis::new("speed-up over one GPU", Scale::Linear);
    let line = |at: usize| {
        let points = points.iter().map(|(nodes, speedups)| (*nodes as f64, speedups[at])).collect();
        Line::new(columns[at + 1], points)
    };
    report.picture.lines = (0..4).map(line).collect();
    Ok(report)
}

fn gaspi_claims(system: &System, points: &[(usize, [f64; 4])]) -> Vec<Verdict> {
    let (two, sixteen) = (points[0].1, points[points.len() - 1].1);
    let why = || {
        let gpu = &system.gpu;
        let kernel = (gpu.launch_call_ns + gpu.launch_ns + gpu.end_ns) / 1e3;
        format!(
            "each half of an iteration costs a launch and its end, {kernel:.0} us (Table 4.1), and a copy to the host whose call \
             is {:.0} us; MPI's copies at the other end, and its messages' {:.1} us of software, lie beside a kernel that runs, \
             and the thesis tells no other costs of MPI",
            gpu.copy_call_ns / 1e3,
            (system.host.send_ns + system.host.receive_ns) / 1e3
        )
    };
    let near = |text: &str, value: f64, ours: f64| {
        Claim::near(text, "4.5.2, Fig. 4.17", value, value / 5.0, "times").judge(ours).because(why)
    };
    vec![
        near("M on 16 GPUs, GASPI", 7.3, sixteen[0]),
        near("M on 16 GPUs, MPI", 5.0, sixteen[1]),
        near("L on 16 GPUs, GASPI", 16.0, sixteen[2]),
        near("L on 16 GPUs, MPI", 13.0, sixteen[3]),
        Claim::order("speed-up of M on 16 GPUs", "4.5.2", &[("MPI", sixteen[1]), ("GASPI", sixteen[0])]),
        Claim::order("speed-up of L on 16 GPUs", "4.5.2", &[("MPI", sixteen[3]), ("GASPI", sixteen[2])]),
        Claim::near("MPI and GASPI are the same on two GPUs, M", "4.5.2", 1.0, 0.1, "times")
            .judge(two[1] / two[0])
            .because(why),
        Claim::near("MPI and GASPI are the same on two GPUs, L", "4.5.2", 1.0, 0.1, "times")
            .judge(two[3] / two[2])
            .because(why),
    ]
}

/// An iteration on some GPUs, in us, in the order of [`FORMS`].
struct Point {
    nodes: usize,
    operations: f64,
    us: [f64; 3],
}

impl Point {
    fn of(system: &System, size: [u64; 3], nodes: usize, seed: u64) -> Result<Point, PaperError> {
        let mut us = [0.0; 3];
        let himeno = |form: Form| Himeno { size, nodes, form, communicates: true };
        for (us, (form, _)) in us.iter_mut().zip(FORMS) {
            *us = iteration(system, himeno(form), seed)?.as_us();
        }
        Ok(Point { nodes, operations: himeno(Form::Ggas).operations(), us })
    }

    fn gflops(&self, at: usize) -> f64 {
        self.operations / self.us[at] / 1e3
    }

    /// Millions of operations for a joule of all nodes.
    fn per_joule(&self, at: usize) -> f64 {
        let watts = Power::of(FORMS[at].0 == Form::Mpi).watts() * self.nodes as f64;
        self.operations / (watts * self.us[at])
    }

    fn named(&self, value: impl Fn(&Point, usize) -> f64) -> [(&'static str, f64); 3] {
        [0, 1, 2].map(|at| (FORMS[at].1, value(self, at)))
    }
}

/// The figures of chapter 6, with a value for each number of GPUs and form.
fn chapter_6(
    figure: &Figure,
    settings: &Settings,
    (columns, unit): (&'static [&'static str], &str),
    size: impl Fn(u64) -> [u64; 3],
    value: impl Fn(&Point, usize) -> f64 + Copy,
) -> Result<(Report, Vec<Point>, System), PaperError> {
    let system = settings.system(SYSTEM)?;
    let mut report = report("thesis-6", figure, settings, &system, columns);
    report.parameters = parameters(settings, SYSTEM);
    let mut points = Vec::new();
    for nodes in CHAPTER_6 {
        let point = Point::of(&system, size(nodes as u64), nodes, settings.seed)?;
        let [mpi, rma, ggas] = [0, 1, 2].map(|at| json!(value(&point, at)));
        report.row([json!(nodes), mpi, rma, ggas]);
        points.push(point);
    }
    report.notes.push(
        "RMA is the stream form; MPI copies boundaries to and from the host at both ends; kernels have as many blocks as \
         the GPU holds, with even shares"
            .to_owned(),
    );
    report.picture.x = Axis::new("GPUs", Scale::Linear);
    report.picture.y = Axis::new(unit, Scale::Linear);
    let line = |at: usize| {
        let points = points.iter().map(|point| (point.nodes as f64, value(point, at))).collect();
        Line::new(FORMS[at].1, points)
    };
    report.picture.lines = (0..3).map(line).collect();
    Ok((report, points, system))
}

const GFLOPS: (&[&str], &str) = (&["GPUs", "MPI GFLOP/s", "RMA GFLOP/s", "GGAS GFLOP/s"], "GFLOP/s");

/// What a boundary costs each form in the model.
fn boundaries(system: &System, size: [u64; 3]) -> String {
    let bytes = (size[0] * size[1] * 4) as f64;
    let System { network, bus, gpu, .. } = system;
    format!(
        "a boundary of {:.0} KiB takes {:.0} us of the link, and {:.0} us to be read from the GPU (RMA); MPI's copy of it to the \
         host takes {:.0} us, and its read there {:.0} us",
        bytes / 1024.0,
        bytes / network.link_bytes_per_ns / 1e3,
        bytes / bus.gpu_read_bytes_per_ns / 1e3,
        (gpu.copy_call_ns + bytes / gpu.copy_bytes_per_ns) / 1e3,
        bytes / bus.read_bytes_per_ns / 1e3,
    )
}

fn weak_size(nodes: u64) -> [u64; 3] {
    [WEAK[0], WEAK[1], WEAK[2] * nodes]
}

/// Figure 6.20.
pub(in crate::thesis) fn weak(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let (mut report, points, system) = chapter_6(figure, settings, GFLOPS, weak_size, Point::gflops)?;
    let why = || boundaries(&system, WEAK);
    for point in &points {
        let [mpi, rma, ggas] = point.named(Point::gflops);
        let text = |what: &str| format!("{what}, {} GPUs", point.nodes);
        if point.nodes > 2 {
            report
                .claims
                .push(Claim::order(&text("RMA performs best"), "6.9.1, Fig. 6.20", &[mpi, rma]).because(why));
        }
        report
            .claims
            .push(Claim::order(&text("GGAS performs poorly"), "6.9.1, Fig. 6.20", &[ggas, mpi]).because(why));
    }
    Ok(report)
}

/// Figure 6.21.
pub(in crate::thesis) fn strong(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let (mut report, points, system) = chapter_6(figure, settings, GFLOPS, |_| STRONG, Point::gflops)?;
    let why = || boundaries(&system, STRONG);
    let (eight, twelve) = (&points[2], &points[3]);
    let [mpi, rma, ggas] = twelve.named(Point::gflops);
    let growth = |at: usize| twelve.gflops(at) / eight.gflops(at);
    report.claims = vec![
        Claim::order("GGAS performs best on 12 GPUs", "6.9.1, Fig. 6.21", &[mpi, ggas]).because(why),
        Claim::order("GGAS performs best on 12 GPUs", "6.9.1, Fig. 6.21", &[rma, ggas]).because(why),
        Claim::between("GGAS on 12 GPUs is only slightly better than on 8", "6.9.1", 1.0, 1.25, "times")
            .judge(growth(2))
            .because(why),
        Claim::at_most("MPI on 12 GPUs is worse than on 8", "6.9.1", 1.0, "times")
            .judge(growth(0))
            .because(why),
    ];
    Ok(report)
}

/// Figure 6.24.
pub(in crate::thesis) fn energy(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let columns = (&["GPUs", "MPI MFLOP/J", "RMA MFLOP/J", "GGAS MFLOP/J"] as &[&str], "MFLOP for a joule");
    let (mut report, points, system) = chapter_6(figure, settings, columns, weak_size, Point::per_joule)?;
    report.parameters.extend(Power::parameters());
    report.notes.push(Power::NOTE.to_owned());
    let why = || boundaries(&system, WEAK);
    for (point, paper) in points.iter().zip([10.0, 15.0, 15.0]) {
        let [mpi, rma, ggas] = point.named(Point::per_joule);
        let over = |other: f64| 100.0 * (rma.1 / other - 1.0);
        let text = |what: &str| format!("{what}, {} GPUs", point.nodes);
        let near = |what: &str| Claim::near(&text(what), "6.10.1, Fig. 6.24", paper, 10.0, "%");
        report.claims.push(near("RMA over MPI").judge(over(mpi.1)).because(why));
        report.claims.push(near("RMA over GGAS").judge(over(ggas.1)).because(why));
        let order = if point.nodes == 2 { [ggas, mpi] } else { [mpi, ggas] };
        let verdict = Claim::order(&text("MFLOP for a joule"), "6.10.1, Fig. 6.24", &order);
        report.claims.push(verdict.because(why));
    }
    Ok(report)
}

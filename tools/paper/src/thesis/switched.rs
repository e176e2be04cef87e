//! Section 6.8.5: allreduce by stores of the GPUs, with the method that suits the size, and by MPI of the hosts.

use extoll_sim::timed::{Flag, Node, Ps, Put, System, Timed};
use ggas_plot::{Axis, Line, Scale};
use serde_json::json;

use super::allreduce::{FLOAT, Method, NODES, SIZES, measure};
use super::{SYSTEM, report};
use crate::programs::on_all;
use crate::{Claim, Figure, PaperError, Report, Settings};

/// What MPI's hosts do: the vector comes from the GPU, hosts exchange it by recursive doubling and add, and the sum goes back.
struct Mpi {
    floats: u64,
    /// What arrives, by step and node.
    arrived: Vec<Vec<Flag>>,
}

impl Mpi {
    fn run(&self, system: &System, node: Node<'_>) {
        let (me, bytes) = (node.index(), self.floats * FLOAT);
        node.copy(bytes);
        for (step, arrived) in self.arrived.iter().enumerate() {
            let to = me ^ 1 << step;
            node.work(Ps::ns(system.host.send_ns));
            node.put(Put::new(to, bytes).notified().arrived(&arrived[to]));
            node.wait(&arrived[me], 1);
            node.work(Ps::ns(system.host.receive_ns));
            node.compute(self.floats, 3 * bytes);
        }
        node.copy(bytes);
    }

    fn time(system: &System, floats: u64, seed: u64) -> Result<Ps, PaperError> {
        let timed = Timed::new(system, NODES, seed)?;
        let flags = |_| (0..NODES).map(|_| timed.flag()).collect();
        let mpi = Mpi { floats, arrived: (0..NODES.ilog2()).map(flags).collect() };
        on_all(&timed, NODES, |node| mpi.run(system, node));
        Ok(timed.now())
    }
}

pub(super) fn run(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let system = settings.system(SYSTEM)?;
    let columns = &["floats", "GGAS by", "GGAS us", "MPI us"];
    let mut report = report("thesis-6", figure, settings, &system, columns);
    let (mut ggas, mut mpi) = (Vec::new(), Vec::new());
    let mut chosen = Vec::new();
    for floats in SIZES {
        let us = |method| Ok::<f64, PaperError>(measure(&system, method, floats, None)?.0.as_us());
        let (gather, to_all) = (us(Method::AllGather)?, us(Method::AllToAll)?);
        let (method, ours) =
            if to_all < gather { (Method::AllToAll, to_all) } else { (Method::AllGather, gather) };
        let theirs = Mpi::time(&system, floats, settings.seed)?.as_us();
        report.row([json!(floats), json!(method.name()), json!(ours), json!(theirs)]);
        ggas.push((floats as f64, ours));
        mpi.push((floats as f64, theirs));
        chosen.push(method);
    }
    let gains = || ggas.iter().zip(&mpi).map(|(ggas, mpi)| mpi.1 / ggas.1);
    let switches = chosen.windows(2).filter(|pair| pair[0] != pair[1]).count();
    let why = || {
        let gpu = &system.gpu;
        format!(
            "GGAS's time has a launch and an end of {:.1} us; each of MPI's two copies has a call of {:.0} us",
            (gpu.launch_call_ns + gpu.launch_ns + gpu.end_ns) / 1e3,
            gpu.copy_call_ns / 1e3
        )
    };
    report.claims = vec![
        Claim::at_least(
            "GGAS is quicker than MPI at all sizes: the least gain",
            "6.8.5, Fig. 6.18",
            1.0,
            "times",
        )
        .judge(gains().fold(f64::INFINITY, f64::min))
        .because(why),
        Claim::between(
            "one method for small and one for large vectors: changes of method",
            "6.8.5",
            1.0,
            1.0,
            "",
        )
        .judge(switches as f64),
    ];
    report.picture.x = Axis::new("floats", Scale::Sizes);
    report.picture.y = Axis::new("us", Scale::Logarithmic);
    report.picture.lines = vec![Line::new("GGAS", ggas), Line::new("MPI", mpi)];
    Ok(report)
}

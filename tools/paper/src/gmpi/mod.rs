//! Y. Kuwahara, T. Hanawa, T. Boku: A proposal of GMPI, 2016: kernels that call MPI by a daemon of the host.
//!
//! The protocol's steps (sections III B to III D) with the costs of parts: the daemon of `userlib/gmpi` works on real memory and cannot run on
//! the timed driver. Its placements are the same: GPU memory read by gdrcopy, mapped host memory, GPU memory and `cudaMemcpy`.

mod attribute;
mod costs;
mod daemon;
mod himeno;
mod launch;
mod messages;
mod pingpong;
mod polling;
mod ring;

use extoll_sim::timed::System;
use ggas_plot::{Axis, Picture, Scale};

use crate::parameters::parameters;
use crate::{Figure, Report, Settings};

/// The authors' two nodes.
const SYSTEM: &str = "ha-pacs";

/// Those that are answered.
pub(crate) const FIGURES: &[Figure] = &[
    Figure {
        number: "T3",
        about: "a kernel's launch, alone and with the host's wait for its end (Table 3)",
        run: launch::run,
    },
    Figure {
        number: "5",
        about: "a call's attribute from a kernel to the host, over its arguments",
        run: attribute::run,
    },
    Figure {
        number: "7",
        about: "ping-pong between two GPUs: by hosts, by kernels that end, by kernels that call",
        run: pingpong::run,
    },
    Figure {
        number: "8",
        about: "Himeno on two GPUs: computation, halo and convergence, by kernels that end and that call",
        run: himeno::run,
    },
    Figure {
        number: "8-polling",
        about: "what a daemon's looks at GPU memory can take from a kernel (section VI B's open question)",
        run: polling::run,
    },
];

/// A report without rows, with the parameters of system and rings.
fn report(
    figure: &Figure,
    settings: &Settings,
    system: &System,
    columns: &'static [&'static str],
    x: Axis,
) -> Report {
    let picture = Picture {
        title: format!("GMPI, Fig. {}", figure.number()),
        x,
        y: Axis::new("us", Scale::Linear),
        lines: Vec::new(),
    };
    let mut report = Report::of("gmpi", figure, settings, system, columns, picture);
    report.parameters = parameters(settings, SYSTEM);
    report.parameters.extend(costs::parameters());
    report
}

//! J. Cabezas et al., Runtime and Architecture Support for Efficient Data Exchange in Multi-Accelerator Applications, 2014: copies between
//! GPUs of two PCIe buses, and the programs that live on them.
//!
//! A node of the timed driver is a memory: nodes 0 to 3 are those of the GPUs, two on each bus, nodes 4 to 7 pinned memory of the host. What
//! goes over lanes is a put; who controls it is a thread of the host.

mod copies;
mod fft;
mod machine;
mod sharing;
mod stencil;
mod thread;
mod waits;

use extoll_sim::timed::System;
use ggas_plot::{Axis, Picture, Scale};

use crate::parameters::parameters;
use crate::{Figure, Report, Settings};

const SYSTEM: &str = "hpe";
/// GPUs of the machine.
const GPUS: usize = 4;

/// Those that are answered. Merge sort (9c) is not: the text tells neither its inputs nor what sorting a part takes; disk and MPI (11, 12) are
/// not the buses' matter.
pub(crate) const FIGURES: &[Figure] = &[
    Figure {
        number: "4.1",
        about: "threads that share a GPU's context and poll it each 20 us",
        run: sharing::run,
    },
    Figure {
        number: "7",
        about: "throughput between two GPUs of a bus, one way and both ways, over the size",
        run: copies::run,
    },
    Figure {
        number: "8",
        about: "what threads wait for locks and for each other's buffers",
        run: waits::run,
    },
    Figure { number: "9a", about: "stencil on 2 and 4 GPUs, exchange beside computation", run: stencil::run },
    Figure {
        number: "9b",
        about: "FFT on 2 and 4 GPUs: speed-up, and the exchange's share of the time (Fig. 10b)",
        run: fft::run,
    },
];

/// A report without rows, with the parameters of machine and runtime.
fn report(
    figure: &Figure,
    settings: &Settings,
    system: &System,
    columns: &'static [&'static str],
    (x, y): (Axis, Axis),
) -> Report {
    let picture = Picture { title: format!("HPE, Fig. {}", figure.number()), x, y, lines: Vec::new() };
    let mut report = Report::of("hpe", figure, settings, system, columns, picture);
    report.parameters = parameters(settings, SYSTEM);
    report.parameters.extend(machine::parameters());
    report
}

fn sizes() -> Axis {
    Axis::new("bytes", Scale::Sizes)
}

/// "2 MB" and so on.
fn named(bytes: u64) -> String {
    if bytes < 1 << 20 { format!("{} KB", bytes >> 10) } else { format!("{} MB", bytes >> 20) }
}

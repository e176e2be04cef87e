//! The thesis: put and get by GPUs (chapter 5), the global address space (chapter 6), on EXTOLL cards in FPGAs.

mod allreduce;
mod barrier;
mod ggas;
mod put;

use extoll_sim::timed::System;
use ggas_plot::{Axis, Picture, Scale};

use crate::{Figure, Report, Settings};

/// Two nodes and more with a K20 and an FPGA EXTOLL each, as the model's file has them.
const SYSTEM: &str = "extoll-fpga";

/// Chapter 5.
pub(crate) const CHAPTER_5: &[Figure] = &[
    Figure {
        number: "5.17",
        about: "latency between two GPUs by the RMA unit, started by host or GPU",
        run: put::latency,
    },
    Figure {
        number: "5.18",
        about: "bandwidth between two GPUs by the RMA unit, started by host or GPU",
        run: put::bandwidth,
    },
];

/// Chapter 6.
pub(crate) const CHAPTER_6: &[Figure] = &[
    Figure { number: "6.7", about: "latency of remote stores and loads", run: ggas::latency },
    Figure { number: "6.8", about: "bandwidth of remote stores and loads", run: ggas::bandwidth },
    Figure { number: "6.10", about: "barrier of 2 to 8 GPUs", run: barrier::run },
    Figure {
        number: "6.17",
        about: "allreduce on eight GPUs: which method at which size",
        run: allreduce::run,
    },
];

/// A report without rows; its picture is over bytes.
fn report(
    paper: &'static str,
    figure: &Figure,
    settings: &Settings,
    system: &System,
    columns: &'static [&'static str],
) -> Report {
    let picture = Picture {
        title: format!("Thesis, Fig. {}", figure.number()),
        x: Axis::new("bytes", Scale::Sizes),
        y: Axis::new("", Scale::Logarithmic),
        lines: Vec::new(),
    };
    Report::of(paper, figure, settings, system, columns, picture)
}

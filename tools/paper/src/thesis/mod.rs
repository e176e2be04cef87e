//! The thesis: data transfer (chapter 3), communication by the host (chapter 4), put and get by GPUs (chapter 5), the global
//! address space (chapter 6), on InfiniBand and on EXTOLL cards in FPGAs.

mod allreduce;
mod barrier;
mod coalescing;
mod energy;
mod gaspi;
mod ggas;
pub(crate) mod himeno;
mod host;
mod put;
mod random;
mod reduction;
mod switched;
mod transfer;
mod verbs;

use extoll_sim::timed::System;
use ggas_plot::{Axis, Picture, Scale};

use crate::{Figure, Report, Settings};

/// Two nodes and more with a K20 and an FPGA EXTOLL each, as the model's file has them.
const SYSTEM: &str = "extoll-fpga";
/// Nodes with a K20 and an InfiniBand card each: chapter 4, and Himeno in chapter 5.
const INFINIBAND: &str = "infiniband";

/// Chapter 3.
pub(crate) const CHAPTER_3: &[Figure] = &[
    Figure {
        number: "3.12",
        about: "between two GPUs directly and through memory of the hosts, by the RMA unit",
        run: transfer::staging,
    },
    Figure {
        number: "3.13a",
        about: "host and GPU memory as source and destination, by InfiniBand (Table 3.1a)",
        run: transfer::by_infiniband,
    },
    Figure {
        number: "3.13b",
        about: "host and GPU memory as source and destination, by the RMA unit (Table 3.1b)",
        run: transfer::by_rma,
    },
];

/// Chapter 4.
pub(crate) const CHAPTER_4: &[Figure] = &[
    Figure {
        number: "4.8",
        about: "bandwidth between GPUs of two nodes: gaspi_write, gaspi_gpu_write, MPI",
        run: gaspi::bandwidth,
    },
    Figure {
        number: "4.9",
        about: "latency between GPUs of two nodes: gaspi_write, gaspi_gpu_write, MPI",
        run: gaspi::latency,
    },
    Figure {
        number: "4.10",
        about: "what a transfer costs the host that works meanwhile: post, work, wait",
        run: host::post_work_wait,
    },
    Figure {
        number: "4.13",
        about: "how a host learns of a kernel's end (Table 4.1)",
        run: host::synchronization,
    },
    Figure {
        number: "4.17",
        about: "Himeno on 2 to 16 GPUs that hosts control: strong scaling",
        run: himeno::gaspi,
    },
];

/// Chapter 5.
pub(crate) const CHAPTER_5: &[Figure] = &[
    Figure {
        number: "5.16",
        about: "posts and polls of verbs, step by step (Tables 5.3, 5.4)",
        run: verbs::ladder,
    },
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
    Figure {
        number: "5.27",
        about: "Himeno on two GPUs: performance of the forms of communication",
        run: himeno::performance,
    },
    Figure {
        number: "5.28",
        about: "Himeno on two GPUs: what communication adds to an iteration",
        run: himeno::overhead,
    },
    Figure { number: "5.29", about: "Himeno on two GPUs: energy", run: himeno::energy_of_forms },
];

/// Chapter 6.
pub(crate) const CHAPTER_6: &[Figure] = &[
    Figure { number: "6.7", about: "latency of remote stores and loads", run: ggas::latency },
    Figure { number: "6.8", about: "bandwidth of remote stores and loads", run: ggas::bandwidth },
    Figure {
        number: "6.9",
        about: "remote stores and loads of neighbouring values and of every second one",
        run: coalescing::run,
    },
    Figure { number: "6.10", about: "barrier of 2 to 8 GPUs", run: barrier::run },
    Figure {
        number: "6.17",
        about: "allreduce on eight GPUs: which method at which size",
        run: allreduce::run,
    },
    Figure {
        number: "6.18",
        about: "allreduce on eight GPUs, with the method that suits the size, and by MPI",
        run: switched::run,
    },
    Figure {
        number: "6.20",
        about: "Himeno on 2 to 12 GPUs, a grid that grows with them",
        run: himeno::weak,
    },
    Figure { number: "6.21", about: "Himeno on 2 to 12 GPUs, one grid", run: himeno::strong },
    Figure { number: "6.23", about: "RandomAccess on 2 to 12 GPUs", run: random::performance },
    Figure {
        number: "6.24",
        about: "Himeno on 2 to 12 GPUs, a grid that grows with them: energy",
        run: himeno::energy_of_scaling,
    },
    Figure {
        number: "6.25",
        about: "sum over eight GPUs: energy, and the times of Fig. 6.22",
        run: reduction::energy,
    },
    Figure { number: "6.26", about: "RandomAccess on 2 to 12 GPUs: energy", run: random::energy },
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

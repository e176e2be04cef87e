//! GPU-TN: kernels that trigger network operations which the host registered (SC 2017).

mod allreduce;
mod field;
mod jacobi;
mod launch;
pub mod learning;
mod line;
mod relax;
mod ring;
mod way;

use crate::Figure;

/// The system of Table 2, as the model's file has it.
const SYSTEM: &str = "gpu-tn";

/// Those that the model answers.
pub(crate) const FIGURES: &[Figure] = &[
    Figure { number: "1", about: "what a kernel's launch costs, and what follows from it", run: launch::run },
    Figure {
        number: "8",
        about: "one cache line copied by a kernel and sent: where the time goes",
        run: line::run,
    },
    Figure {
        number: "9",
        about: "one iteration of a two-dimensional Jacobi relaxation over the local grid's size",
        run: jacobi::run,
    },
    Figure { number: "10", about: "ring allreduce of 8 MB of floats, strong scaling", run: allreduce::run },
    Figure { number: "11", about: "deep learning on 8 nodes, projected from allreduces", run: learning::run },
];

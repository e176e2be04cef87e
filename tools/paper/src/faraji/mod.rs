//! I. Faraji, Improving Communication Performance in GPU-Accelerated HPC Clusters, 2018.

mod allreduce;
mod gpus;
mod machine;
mod mapping;

use crate::Figure;

/// Those that are answered.
pub(crate) const FIGURES: &[Figure] = &[
    Figure {
        number: "3.3",
        about: "allreduce of 4, 8 and 16 processes on one K20: GSB, BTB, and flat through the host",
        run: allreduce::on_k20,
    },
    Figure {
        number: "3.4",
        about: "allreduce of 4, 8, 16 and 24 processes on one GPU of a K80: GSB, BTB, and flat through the host",
        run: allreduce::on_k80,
    },
    Figure {
        number: "4.6-4.7",
        about: "allreduce of 24 processes on 4 and 8 GPUs of a node: the four combinations inside and between them",
        run: gpus::run,
    },
    Figure {
        number: "6.4-6.8",
        about: "stencils and all-to-all of 16 ranks on a tree of 16 GPUs: mapped, by default and at random",
        run: mapping::run,
    },
];

//! I. Faraji, Improving Communication Performance in GPU-Accelerated HPC Clusters, 2018.

mod allreduce;
mod cluster;
mod flat;
mod gpus;
mod hosts;
mod hyper_q;
mod hyper_q_nodes;
mod machine;
mod mapping;
mod nodes;
mod rounds;
mod setup;
#[cfg(test)]
mod tests;

use crate::Figure;

/// Those that are answered.
pub(crate) const FIGURES: &[Figure] = &[
    Figure {
        number: "2.2",
        about: "well-known algorithms of MPI libraries, between 16 processes of a host and 64 on four",
        run: hosts::run,
    },
    Figure {
        number: "2.3.4",
        about: "how libraries bring vectors of 64 processes on four nodes to the hosts and back: whole, in blocks, by gdrcopy, by loopback",
        run: hosts::libraries,
    },
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
        number: "3.5",
        about: "how many allreduces pay for the set-up of GSB, 4, 8 and 16 processes on one K20",
        run: setup::run,
    },
    Figure {
        number: "3.6",
        about: "allreduce of 16 to 96 processes on four nodes with one GPU of a K80 each: GSB, BTB, and flat through the hosts",
        run: nodes::run,
    },
    Figure {
        number: "4.6-4.7",
        about: "allreduce of 24 processes on 4 and 8 GPUs of a node: the four combinations inside and between them",
        run: gpus::run,
    },
    Figure { number: "4.8-4.9", about: "the same on four nodes, up to 96 processes", run: gpus::on_nodes },
    Figure {
        number: "5.1-5.2",
        about: "four pairs that send at once on one GPU, through the host and directly: with and without MPS",
        run: hyper_q::pairs,
    },
    Figure {
        number: "5.5",
        about: "allgather of 4, 8 and 16 processes on one GPU: static, dynamic, and flat through the host, with and without MPS",
        run: hyper_q::gather,
    },
    Figure {
        number: "5.6-5.7",
        about: "allreduce of 4, 8 and 16 processes on one GPU: the same, and the copies that the dynamic algorithm takes",
        run: hyper_q::reduce,
    },
    Figure {
        number: "5.8",
        about: "allgather of 16, 32 and 64 processes on four nodes with a GPU each: static, dynamic, and flat, with and without MPS",
        run: hyper_q_nodes::gather,
    },
    Figure {
        number: "5.9",
        about: "allreduce of 16, 32 and 64 processes on four nodes with a GPU each: the same",
        run: hyper_q_nodes::reduce,
    },
    Figure {
        number: "5.10",
        about: "allreduce of 64 processes on four nodes with a GPU each, with MPS: static against all others",
        run: hyper_q_nodes::all,
    },
    Figure {
        number: "6.4-6.8",
        about: "stencils and all-to-all of 16 ranks on a tree of 16 GPUs: mapped, by default and at random",
        run: mapping::run,
    },
    Figure {
        number: "6.14",
        about: "stencils and all-to-all of the cores and GPUs of 64 ranks on four nodes: mapped in three phases, and by default",
        run: cluster::run,
    },
];

//! Compiles every kernel of the suite twice: for the CPU executor, and for GPUs.

fn main() {
    ggas_compile::Kernels::in_folder("src")
        .include("exec")
        .host_only("exec/table.cpp")
        .host_only("exec/planted.cu")
        .compile();
}

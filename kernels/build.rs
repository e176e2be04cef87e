//! Compiles every kernel of the library twice: for the CPU executor, and for GPUs.

fn main() {
    ggas_compile::Kernels::in_folder("src")
        .host_only("exec/table.cpp")
        .without_windows(&["copier.cu", "engine.cu"])
        .compile();
}

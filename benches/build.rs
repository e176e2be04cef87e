//! Compiles the benchmarks' kernels.

fn main() {
    ggas_compile::Kernels::in_folder("kernels").of_tests().compile();
}

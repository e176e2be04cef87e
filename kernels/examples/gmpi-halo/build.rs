//! Compiles `kernels/*.cu` for the CPU executor and, where nvcc is found, for GPUs.

fn main() {
    ggas_compile::Kernels::in_folder("kernels").of_tests().compile();
}

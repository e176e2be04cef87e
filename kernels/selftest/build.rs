//! Compiles the kernels of the tests: for the CPU executor, and for GPUs but for those with planted bugs.

fn main() {
    ggas_compile::Kernels::in_folder("kernels").of_tests().host_only("host/planted.cu").compile();
}

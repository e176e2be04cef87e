//! Kernels of the suite and where they run: a GPU or the CPU executor.

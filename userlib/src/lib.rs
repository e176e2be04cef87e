//! Communication for GPUs that GPU kernels start themselves.

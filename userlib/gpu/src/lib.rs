//! NVIDIA GPUs through the CUDA driver: probing, memory, launches, the copier.

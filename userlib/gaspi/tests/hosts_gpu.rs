//! Collectives of vectors in GPU memory as on one host, with the ranks on two, by turns.

#[path = "gpu_vectors.rs"]
mod gpu_vectors;

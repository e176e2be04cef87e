//! Tests of one host, with the ranks on two, by turns: each is next to one that it shares no memory with.

#[path = "../jobs/mod.rs"]
mod jobs;

#[path = "../gaspi/gpu_vectors.rs"]
mod gpu_vectors;
#[path = "../gaspi/processes.rs"]
mod processes;

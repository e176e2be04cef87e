//! Benchmarks on one harness.

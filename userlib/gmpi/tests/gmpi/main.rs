//! GMPI over our own messages: scripts of calls that kernels make, among nodes in this process. On the CPU executor, or on the
//! first two GPUs with `GGAS_TEST_GPUS=2`.

mod collectives;
mod direct;
mod direct_collectives;
mod direct_late;
mod direct_now;
mod direct_one_place;
mod direct_traced;
mod errors;
mod limits;
mod many;
mod messages;
mod programs;
mod random;
mod rooted;
mod short;
mod types;
mod types_refused;
mod windows;
mod world;

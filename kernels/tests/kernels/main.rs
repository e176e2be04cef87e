//! Kernels on the executor. One program: linking takes longer than compiling each of these.

mod blocks;
mod copier;
mod executor;
mod gputest;
mod images;
mod proxy;
mod stream;
mod trap;

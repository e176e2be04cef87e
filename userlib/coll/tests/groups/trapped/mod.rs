//! Kernels in windows whose other parts lie behind the model's SMFU: each access is a packet that the unit counts, over
//! clean links and lossy ones, by intervals and by address bits, and each one ends, though nodes die.

mod atomics;
mod collectives;
mod counts;
mod failures;
mod puts;
mod sides;
mod traced;

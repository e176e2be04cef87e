//! Jobs of real processes: transfers between them, and what remains when one dies, leaves or stops.

mod common;
mod death;
mod stopped;
mod transfer;

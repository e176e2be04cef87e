//! Jobs that measure GASPI, and what stands beside it: our own puts in the same processes.

mod bare;
mod gpu;
mod himeno;
mod part;

pub(crate) use gpu::{GpuWrite, NAME as GPU_WRITE};
pub(crate) use himeno::NAME as HIMENO;
pub(crate) use part::part;

use crate::job::{Job, Line};

//! Shared objects: one pointer for the host and a device.

pub(crate) mod fault;
pub(crate) mod hold;
pub(crate) mod launch;
mod memory_file;
pub(crate) mod object;
pub(crate) mod serve;
pub(crate) mod table;
pub(crate) mod track;
pub(crate) mod userfault;

//! Memory of another process, as its owner describes it.

use ggas_rma::{Address, Region, RegionError};
use serde::{Deserialize, Serialize};

/// Where a registered region of another port is: what [`Job::exchange_values`](crate::Job::exchange_values) hands
/// round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteRegion {
    port: Address,
    nla: u64,
    len: u64,
}

impl RemoteRegion {
    /// All of a region, for the port that it is registered on.
    pub fn of(region: &Region) -> RemoteRegion {
        // One past no byte at all is always inside.
        let nla = region.nla(0).unwrap_or_default();
        RemoteRegion { port: region.port(), nla, len: region.len() as u64 }
    }

    /// The port that commands for it go to.
    pub fn port(&self) -> Address {
        self.port
    }

    /// Length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Always `false`: regions have at least one byte.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Network logical address of `len` bytes at `offset`.
    ///
    /// # Errors
    /// [`RegionError::Range`] when they leave the region.
    pub fn nla(&self, offset: u64, len: u64) -> Result<u64, RegionError> {
        match offset.checked_add(len) {
            Some(end) if end <= self.len => Ok(self.nla.wrapping_add(offset)),
            _ => {
                let (offset, len, region) = (offset as usize, len as usize, self.len as usize);
                Err(RegionError::Range { offset, len, region })
            }
        }
    }
}

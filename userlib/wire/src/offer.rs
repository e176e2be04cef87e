//! What the providers of a library can do here.

use std::ffi::c_int;
use std::fmt;

use crate::error::WireError;
use crate::library::Library;
use crate::table::{self, NAME_MAX, RawOffer};

/// Providers that are listed at most.
const MOST: usize = 64;

/// One way of a library to reach peers (a *provider* of libfabric), and what it can do on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Its name, as `GGAS_FABRIC` takes it.
    pub provider: String,
    /// The network device that it would use; empty where it is not fit.
    pub device: String,
    /// Most bytes of a [write](crate::Endpoint::write) or read.
    pub write_max: u64,
    /// Reliable messages, in order, together with reads and writes of a peer's memory. Without them it is not used.
    pub fit: bool,
    /// Writes that tell their target of themselves, behind their data.
    pub notifies: bool,
    /// Such writes and messages come in the order in which they went.
    pub keeps_order: bool,
    /// There is a [descriptor](crate::Endpoint::descriptor) to sleep on.
    pub sleeps: bool,
    /// It reaches GPU memory, if it is [let](crate::GpuWay).
    pub gpu_memory: bool,
    /// Network devices read and write memory themselves.
    pub rdma: bool,
}

impl Offer {
    fn of(raw: &RawOffer) -> Offer {
        let can = |bit| raw.can & bit != 0;
        Offer {
            provider: name(&raw.name),
            device: name(&raw.device),
            write_max: raw.write_max,
            fit: can(table::CAN_MESSAGES) && can(table::CAN_MEMORY),
            notifies: can(table::CAN_NOTIFY),
            keeps_order: can(table::CAN_ORDER),
            sleeps: can(table::CAN_SLEEP),
            gpu_memory: can(table::CAN_GPU),
            rdma: can(table::CAN_RDMA),
        }
    }
}

impl fmt::Display for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.fit {
            return f.write_str("no: no reliable messages together with access to memory");
        }
        write!(f, "yes, on {}: messages, memory", self.device)?;
        let notifies = match self.keeps_order {
            true => "notified writes in order with messages",
            false => "notified writes",
        };
        for (can, what) in
            [(self.notifies, notifies), (self.sleeps, "sleep"), (self.gpu_memory, "GPU memory")]
        {
            if can {
                write!(f, ", {what}")?;
            }
        }
        Ok(())
    }
}

fn name(bytes: &[u8; NAME_MAX]) -> String {
    let len = bytes.iter().position(|byte| *byte == 0).unwrap_or(NAME_MAX);
    String::from_utf8_lossy(&bytes[..len]).into_owned()
}

impl Library {
    /// What its providers can do here, those that are not fit included, in the library's order.
    pub fn offers(self) -> Result<Vec<Offer>, WireError> {
        let table = self.table()?;
        let none = RawOffer { name: [0; NAME_MAX], device: [0; NAME_MAX], write_max: 0, can: 0, reserved: 0 };
        let mut raw = vec![none; MOST];
        // SAFETY: as many offers as it is told.
        let count = unsafe { (table.list)(raw.as_mut_ptr(), MOST as c_int) };
        if count < 0 {
            return Err(self.failed("listing its providers", count));
        }
        Ok(raw.iter().take(count as usize).map(Offer::of).collect())
    }
}

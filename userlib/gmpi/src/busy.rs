//! What the daemon's thread is in: a call of an MPI library may never return, and who waits for the thread then says which it is.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::layout::GMPI_CALLS;

/// Names of the calls of kernels, by their numbers.
const NAMES: [&str; GMPI_CALLS as usize] = [
    "no call",
    "GMPI_Isend",
    "GMPI_Irecv",
    "GMPI_Send_init",
    "GMPI_Recv_init",
    "GMPI_Send",
    "GMPI_Recv",
    "GMPI_Wait",
    "GMPI_Test",
    "GMPI_Start",
    "GMPI_Request_free",
    "GMPI_Waitall",
    "GMPI_Startall",
    "GMPI_Probe",
    "GMPI_Iprobe",
    "GMPI_Barrier",
    "GMPI_Bcast",
    "GMPI_Reduce",
    "GMPI_Allreduce",
    "GMPI_Allgather",
    "GMPI_Alltoall",
    "GMPI_Put",
    "GMPI_Get",
    "GMPI_Win_flush",
    "GMPI_Win_fence",
    "GMPI_Comm_rank",
    "GMPI_Echo",
    "GMPI_Sendrecv",
    "GMPI_Testall",
    "GMPI_Waitany",
    "GMPI_Testany",
    "GMPI_Waitsome",
    "GMPI_Testsome",
    "GMPI_Request_get_status",
    "GMPI_Ibarrier",
    "GMPI_Ibcast",
    "GMPI_Ireduce",
    "GMPI_Iallreduce",
    "GMPI_Iallgather",
    "GMPI_Ialltoall",
    "GMPI_Gather",
    "GMPI_Scatter",
    "GMPI_Igather",
    "GMPI_Iscatter",
];

/// Written by the daemon, read by the host.
#[derive(Debug, Default)]
pub(crate) struct Busy {
    /// A kernel's call, and from bit 32 on its port; 0: none.
    call: AtomicU64,
    task: Mutex<Option<&'static str>>,
}

impl Busy {
    /// The daemon begins a kernel's call.
    pub fn begin(&self, port: usize, function: u32) {
        self.call.store((port as u64) << 32 | u64::from(function), Ordering::Relaxed);
    }

    /// It has made it.
    pub fn end(&self) {
        self.call.store(0, Ordering::Relaxed);
    }

    /// Does what the host asked for.
    pub fn with(&self, what: &'static str, work: impl FnOnce()) {
        self.set(Some(what));
        work();
        self.set(None);
    }

    fn set(&self, what: Option<&'static str>) {
        *self.task.lock().unwrap_or_else(PoisonError::into_inner) = what;
    }

    /// In words.
    pub fn text(&self) -> String {
        if let Some(what) = *self.task.lock().unwrap_or_else(PoisonError::into_inner) {
            return what.to_owned();
        }
        match self.call.load(Ordering::Relaxed) {
            0 => "no call".to_owned(),
            call => {
                let name = NAMES.get(call as u32 as usize).copied().unwrap_or("an unknown call");
                format!("{name} of port {}", call >> 32)
            }
        }
    }
}

//! Communicators and windows.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use ggas::Window;
use ggas_gmpi::layout::GMPI_UNDEFINED;
use ggas_gmpi::{Class, Comm, Direct, GmpiError, Win};

use crate::error::Failure;
use crate::ffi::{export, get, put};
use crate::host::{CHost, Host, host, locked};

/// `MPI_COMM_NULL` and `MPI_WIN_NULL`.
const NULL: u64 = 0;

impl Host {
    fn direct(&self, of: Comm, direct: &Direct) -> Result<Comm, Failure> {
        let refuse = |why: &str| Failure::new(Class::WIN, why);
        let job = self.job.as_ref().ok_or_else(|| {
            refuse("direct communicators are for processes that ggas run has started: use the communicator as it is")
        })?;
        let place = self.gmpi.place(of)?;
        let other = || {
            refuse("this communicator has other members than the job, or another order: copy GMPI_COMM_WORLD")
        };
        if place.size != job.size() {
            return Err(other());
        }
        // All refuse alike, so that nobody waits for the window of one who did not.
        let ranks = job.exchange_values(&place.rank, self.timeout).map_err(GmpiError::from)?;
        if !ranks.into_iter().eq(0..job.size()) {
            return Err(other());
        }
        let members = job.size() as usize;
        let bytes =
            direct.end(self.gmpi.ports(), members).ok_or_else(|| refuse("the mailboxes are too large"))?;
        let window = Window::across(job.membership(), job.node(), &self.processor, bytes, self.timeout);
        let window = Arc::new(window.map_err(|error| Failure::new(Class::WIN, error))?);
        Ok(self.gmpi.direct(of, &window, direct)?)
    }
}

export! {
    fn gmpi_comm_rank(gmpi: *mut CHost, comm: u64, rank: *mut c_int) {
        put(rank, host(gmpi)?.gmpi.place(Comm(comm))?.rank as c_int)
    }

    fn gmpi_comm_size(gmpi: *mut CHost, comm: u64, size: *mut c_int) {
        put(size, host(gmpi)?.gmpi.place(Comm(comm))?.size as c_int)
    }

    fn gmpi_comm_dup(gmpi: *mut CHost, comm: u64, made: *mut u64) {
        get(made)?;
        put(made, host(gmpi)?.gmpi.dup(Comm(comm))?.0)
    }

    fn gmpi_comm_split(gmpi: *mut CHost, comm: u64, color: c_int, key: c_int, made: *mut u64) {
        get(made)?;
        let colored = u32::try_from(color).ok();
        if colored.is_none() && color != GMPI_UNDEFINED {
            let why = format!("color {color} is below 0: GMPI_UNDEFINED is for who is in no communicator");
            return Err(Failure::new(Class::ARG, why));
        }
        let comm = host(gmpi)?.gmpi.split(Comm(comm), colored, key)?;
        put(made, comm.map_or(NULL, |comm| comm.0))
    }

    fn gmpi_comm_direct(gmpi: *mut CHost, comm: u64, slots: u32, slot_bytes: u32, made: *mut u64) {
        get(made)?;
        let mut direct = Direct::default();
        if slots != 0 {
            direct.slots = slots;
        }
        if slot_bytes != 0 {
            direct.slot_bytes = slot_bytes;
        }
        put(made, host(gmpi)?.direct(Comm(comm), &direct)?.0)
    }

    fn gmpi_comm_free(gmpi: *mut CHost, comm: *mut u64) {
        let host = host(gmpi)?;
        host.gmpi.free(Comm(get(comm)?))?;
        put(comm, NULL)
    }

    fn gmpi_win_create(gmpi: *mut CHost, memory: *mut c_void, comm: u64, win: *mut u64) {
        let host = host(gmpi)?;
        get(win)?;
        let found = locked(&host.memory).get(&(memory as u64)).cloned();
        let none = || Failure::new(Class::BUFFER, format!("no attached memory begins at {memory:p}: attach it first"));
        put(win, host.gmpi.window(Comm(comm), &found.ok_or_else(none)?)?.0)
    }

    fn gmpi_win_free(gmpi: *mut CHost, win: *mut u64) {
        let host = host(gmpi)?;
        host.gmpi.free_window(Win(get(win)?))?;
        put(win, NULL)
    }
}

//! The process: begin, end, who it is.

use std::ffi::{c_float, c_uint, c_ulong};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use arc_swap::{ArcSwapOption, Guard};
use ggas_gaspi::{Gaspi, GaspiError, Timeout};

use crate::ffi::{check, export, put};
use crate::{config, numa};

static PROCESS: ArcSwapOption<Gaspi> = ArcSwapOption::const_empty();
/// One thread begins or ends at a time.
static CHANGE: Mutex<()> = Mutex::new(());
static HAS_ENDED: AtomicBool = AtomicBool::new(false);

/// The process in a call.
pub(crate) struct Here(Guard<Option<std::sync::Arc<Gaspi>>>);

impl std::ops::Deref for Here {
    type Target = Gaspi;

    #[inline]
    fn deref(&self) -> &Gaspi {
        match &*self.0 {
            Some(gaspi) => gaspi,
            None => unreachable!("`here` looked"),
        }
    }
}

/// Between begin and end.
#[inline]
pub(crate) fn here() -> Result<Here, GaspiError> {
    let guard = PROCESS.load();
    if guard.is_some() { Ok(Here(guard)) } else { Err(GaspiError::NotInitialized) }
}

pub(crate) fn has_begun() -> bool {
    PROCESS.load().is_some()
}

export! {
    /// Joins the job; collective.
    fn pgaspi_proc_init / gaspi_proc_init(timeout: c_ulong) {
        let _change = CHANGE.lock().unwrap_or_else(PoisonError::into_inner);
        if has_begun() {
            return Err(GaspiError::Initialized);
        }
        if HAS_ENDED.load(Ordering::Acquire) {
            return Err(GaspiError::Ended);
        }
        let limits = config::current().limits();
        let gaspi = Gaspi::init(limits, Timeout::from_millis(timeout))?;
        let (own, _) = gaspi.on_this_host();
        PROCESS.store(Some(gaspi.into()));
        numa::stay(own);
        Ok(())
    }

    /// Ends; local.
    fn pgaspi_proc_term / gaspi_proc_term(_timeout: c_ulong) {
        let _change = CHANGE.lock().unwrap_or_else(PoisonError::into_inner);
        here()?;
        HAS_ENDED.store(true, Ordering::Release);
        crate::gpu::end();
        drop(PROCESS.swap(None));
        Ok(())
    }

    /// 1 between begin and end, else 0; at any time.
    fn pgaspi_initialized / gaspi_initialized(flag: *mut c_uint) {
        put(flag, has_begun().into())
    }

    /// Own rank.
    fn pgaspi_proc_rank / gaspi_proc_rank(rank: *mut u16) {
        let rank_here = here()?.rank();
        put(rank, rank_here)
    }

    /// Ranks.
    fn pgaspi_proc_num / gaspi_proc_num(count: *mut u16) {
        let ranks = here()?.ranks();
        put(count, ranks)
    }

    /// Own number among the ranks of this host.
    fn pgaspi_proc_local_rank / gaspi_proc_local_rank(rank: *mut u16) {
        let (own, _) = here()?.on_this_host();
        put(rank, own)
    }

    /// Ranks of this host.
    fn pgaspi_proc_local_num / gaspi_proc_local_num(count: *mut u16) {
        let (_, all) = here()?.on_this_host();
        put(count, all)
    }

    /// Ends a rank at once.
    fn pgaspi_proc_kill / gaspi_proc_kill(rank: u16, timeout: c_ulong) {
        here()?.kill(rank, Timeout::from_millis(timeout))
    }

    /// Whether a rank is alive.
    fn pgaspi_proc_ping / gaspi_proc_ping(rank: u16, timeout: c_ulong) {
        here()?.ping(rank, Timeout::from_millis(timeout))
    }

    /// The version of the interface; at any time.
    fn pgaspi_version / gaspi_version(version: *mut c_float) {
        put(version, 1.6)
    }

    /// One byte for each rank: 0, or 1 where something with it has failed.
    fn pgaspi_state_vec_get / gaspi_state_vec_get(states: *mut u8) {
        let here = here()?;
        check(states)?;
        let bytes: Vec<u8> = here.state_vector().into_iter().map(u8::from).collect();
        crate::ffi::put_bytes(states, &bytes)
    }

    /// Makes sure that a rank answers: nodes of a job need no connection.
    fn pgaspi_connect / gaspi_connect(rank: u16, timeout: c_ulong) {
        let here = here()?;
        if rank == here.rank() { Ok(()) } else { here.ping(rank, Timeout::from_millis(timeout)) }
    }

    /// Checks the rank: there is no connection to end.
    fn pgaspi_disconnect / gaspi_disconnect(rank: u16, _timeout: c_ulong) {
        if rank < here()?.ranks() { Ok(()) } else { Err(GaspiError::Rank) }
    }
}

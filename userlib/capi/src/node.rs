//! Finding the node that this process's ports are on.
//!
//! A program that was started plainly gets a model of one node of its own, made when the first port is opened and
//! kept until the process ends. A child of fork has none of the parent's ports and gets a node of its own too.

use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Mutex, Once, PoisonError};

use ggas::{Cluster, Node, Progress};

use crate::error::{Code, FD, NO_DEVICE, NO_MEM, Result, because};
use crate::settings::{self, Device, Timeouts};

/// The process's node, with what it needs.
pub(crate) struct Home {
    pub(crate) node: Node,
    pub(crate) nodes: u32,
    pub(crate) timeouts: Timeouts,
}

/// Set once; forgotten by a child of fork, which has no threads to drive it.
static HOME: AtomicPtr<Home> = AtomicPtr::new(std::ptr::null_mut());
static MAKING: Mutex<()> = Mutex::new(());
static CHILD: AtomicBool = AtomicBool::new(false);
static WATCH_FORK: Once = Once::new();

/// The node, started when first asked for.
pub(crate) fn home() -> Result<&'static Home> {
    if let Some(home) = made() {
        return Ok(home);
    }
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(home) = made() {
        return Ok(home);
    }
    // SAFETY: the handler only stores atomics.
    WATCH_FORK.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(forget));
    });
    let home = Box::into_raw(Box::new(start()?));
    HOME.store(home, Ordering::Release);
    // SAFETY: just made, and never freed.
    Ok(unsafe { &*home })
}

fn made() -> Option<&'static Home> {
    // SAFETY: what stands there is never freed.
    unsafe { HOME.load(Ordering::Acquire).as_ref() }
}

/// In a child of fork: what the parent had is not the child's.
extern "C" fn forget() {
    CHILD.store(true, Ordering::Relaxed);
    HOME.store(std::ptr::null_mut(), Ordering::Release);
    crate::registry::forget();
}

fn start() -> Result<Home> {
    let wrong = |text: String| because(NO_DEVICE, text);
    let timeouts = settings::timeouts().map_err(wrong)?;
    match settings::device().map_err(wrong)? {
        Device::Hw => Err(no_card()),
        Device::Sim => {
            let limit = settings::locked_memory().map_err(wrong)?;
            // The process's NIC threads did not come along into a child of fork.
            let progress =
                if CHILD.load(Ordering::Relaxed) { Progress::Threads(1) } else { Progress::default() };
            let cluster = Cluster::builder().nodes(1).locked_memory(limit).progress(progress).build();
            let node = cluster.and_then(|cluster| cluster.node(0).cloned());
            let node = node.map_err(|error| because(NO_MEM, error))?;
            Ok(Home { node, nodes: 1, timeouts })
        }
    }
}

fn no_card() -> Code {
    match ggas::device::hw::probe() {
        Err(error) => because(FD, error),
        Ok(()) => FD,
    }
}

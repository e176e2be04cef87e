//! Finding the node that this process's ports are on.
//!
//! A process of a job (`ggas run`, or the GGAS_* variables) gets its node of the job: it joins when it opens its first
//! port, and leaves when it ends. A program that was started plainly gets a model of one node of its own. A child of
//! fork has none of the parent's ports, is in no job, and gets a node of its own too. With EXTOLL_DEVICE=hw the node is
//! this machine's card, whatever job there is.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Mutex, Once, PoisonError};

use ggas::{Cluster, Job, LockedMemory, Node, Progress};

use crate::error::{FD, NO_CONNECT, NO_DEVICE, NO_MEM, Result, because};
use crate::settings::{self, Device, Timeouts};

/// Node ids of a network.
const NODES: u32 = extoll_abi::regs::EXTOLL_NODES as u32;

/// The process's node, with what it needs.
pub(crate) struct Home {
    pub(crate) node: Node,
    pub(crate) nodes: u32,
    pub(crate) timeouts: Timeouts,
    /// Left when the process ends.
    job: Mutex<Option<Job>>,
}

/// Set once; forgotten by a child of fork, which has no threads to drive it.
static HOME: AtomicPtr<Home> = AtomicPtr::new(std::ptr::null_mut());
static MAKING: Mutex<()> = Mutex::new(());
static CHILD: AtomicBool = AtomicBool::new(false);
static WATCH: Once = Once::new();

/// The node, started when first asked for.
pub(crate) fn home() -> Result<&'static Home> {
    if let Some(home) = made() {
        return Ok(home);
    }
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(home) = made() {
        return Ok(home);
    }
    // SAFETY: the handlers stay where they are: the library is never unloaded with threads of its own running.
    WATCH.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(forget));
        libc::atexit(leave);
    });
    let standard = standard_files();
    let home = Box::into_raw(Box::new(start()?));
    drop(standard);
    HOME.store(home, Ordering::Release);
    // SAFETY: just made, and never freed.
    Ok(unsafe { &*home })
}

/// Takes the places of standard files that are closed, while files are opened that stay: what a program prints after
/// it has closed them must not reach a socket of the job.
fn standard_files() -> Vec<File> {
    let next = || File::open("/dev/null").ok();
    std::iter::from_fn(next).take_while(|file| file.as_raw_fd() <= libc::STDERR_FILENO).collect()
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
    crate::pmap::forget();
}

/// At the end of the process: peers see that it left, and need not take it for dead.
extern "C" fn leave() {
    if let Some(home) = made() {
        drop(home.job.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

fn start() -> Result<Home> {
    let wrong = |text: String| because(NO_DEVICE, text);
    let timeouts = settings::timeouts().map_err(wrong)?;
    match settings::device().map_err(wrong)? {
        Device::Hw => card(timeouts),
        Device::Sim => {
            let limit = settings::locked_memory().map_err(wrong)?;
            let alone = CHILD.load(Ordering::Relaxed) || !ggas::boot::Job::is_launched();
            if alone { one_node(limit, timeouts) } else { join(limit, timeouts) }
        }
    }
}

/// This process's node of its job.
fn join(limit: LockedMemory, timeouts: Timeouts) -> Result<Home> {
    let job = Job::builder().locked_memory(limit).join().map_err(|error| because(NO_CONNECT, error))?;
    Ok(Home { node: job.node().clone(), nodes: job.nodes(), timeouts, job: Mutex::new(Some(job)) })
}

/// A model of one node.
fn one_node(limit: LockedMemory, timeouts: Timeouts) -> Result<Home> {
    // The process's NIC threads did not come along into a child of fork.
    let progress = if CHILD.load(Ordering::Relaxed) { Progress::Threads(1) } else { Progress::default() };
    let cluster = Cluster::builder().nodes(1).locked_memory(limit).progress(progress).build();
    let node = cluster.and_then(|cluster| cluster.node(0).cloned());
    let node = node.map_err(|error| because(NO_MEM, error))?;
    Ok(Home { node, nodes: 1, timeouts, job: Mutex::new(None) })
}

/// The card of this machine. It does not know how many nodes its network has: any node id may be there.
fn card(timeouts: Timeouts) -> Result<Home> {
    let device = ggas::device::hw::open().map_err(|error| because(FD, error))?;
    Ok(Home { node: Node::new(device), nodes: NODES, timeouts, job: Mutex::new(None) })
}

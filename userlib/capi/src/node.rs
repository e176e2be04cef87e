//! The node of this process's ports.
//!
//! A process joins its network (its job's, GGAS_NETWORK, or this user's default one) when it opens its first port,
//! without waiting for anyone, and leaves when it ends. A child of fork has none of the parent's ports; it joins as a
//! member of its own. Where the card is chosen ([`ggas::device::choose`]) the node is the card's, whatever network there is.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Mutex, Once, PoisonError};

use ggas::{ChoiceError, DeviceError, DeviceKind, JoinError, Network, Node, Progress};

use crate::error::{Code, FD, NO_CONNECT, NO_DEVICE, Result, because};
use crate::settings::{self, Timeouts};

/// The process's node, with what it needs.
pub(crate) struct Home {
    pub(crate) node: Node,
    pub(crate) nodes: u32,
    pub(crate) timeouts: Timeouts,
    /// Left when the process ends.
    network: Mutex<Option<Network>>,
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
    let Some(home) = made() else { return };
    let network = home.network.lock().unwrap_or_else(PoisonError::into_inner).take();
    // The node stays for calls of other threads, and with it the member.
    if let Some(member) = network.as_ref().and_then(Network::member) {
        member.leave();
    }
}

fn start() -> Result<Home> {
    let wrong = |text: String| because(NO_DEVICE, text);
    let timeouts = settings::timeouts().map_err(wrong)?;
    let limit = settings::locked_memory().map_err(wrong)?;
    // The process's NIC threads did not come along into a child of fork.
    let progress = if CHILD.load(Ordering::Relaxed) { Progress::Threads(1) } else { Progress::default() };
    let network = Network::builder().locked_memory(limit).progress(progress).join();
    let network = network.map_err(|error| because(of_join(&error), error))?;
    let (node, nodes) = (network.node().clone(), network.nodes());
    Ok(Home { node, nodes, timeouts, network: Mutex::new(Some(network)) })
}

/// The device is not there, is none of this interface's, or its network is not to be joined.
fn of_join(error: &JoinError) -> Code {
    match error {
        JoinError::Choice(ChoiceError::NotThere { kind: DeviceKind::Hw, .. }) => FD,
        JoinError::Device(DeviceError::NotAvailable { kind: DeviceKind::Nvlink, .. }) => NO_DEVICE,
        JoinError::Choice(_) => NO_DEVICE,
        JoinError::Device(_) => FD,
        _ => NO_CONNECT,
    }
}

//! Sockets: which one this process is to use, and its cores.

use std::ffi::CString;

use ggas_gaspi::GaspiError;

use crate::ffi::{check, export, put, refuse, say};
use crate::print::ggas_gaspi_print;
use crate::process::here;

/// Most nodes.
const NODES: u8 = 16;
/// Set to 1 where each process of a host has a node of its own.
const WANTED: &str = "GASPI_SET_NUMA_SOCKET";

/// Cores of a list as the system writes it: `0-3,8`.
fn cores(list: &str) -> Option<Vec<usize>> {
    let mut cores = Vec::new();
    for part in list.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if last >= libc::CPU_SETSIZE as usize {
            return None;
        }
        cores.extend(first..=last);
    }
    Some(cores).filter(|cores| !cores.is_empty())
}

/// Binds the calling thread to the cores of a node.
fn bind(node: u8) -> Option<()> {
    let path = format!("/sys/devices/system/node/node{node}/cpulist");
    let cores = cores(&std::fs::read_to_string(path).ok()?)?;
    // SAFETY: a set of no cores is all zeros.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the cores are below the size of the set.
    cores.into_iter().for_each(|core| unsafe { libc::CPU_SET(core, &mut set) });
    // SAFETY: reads the set.
    let bound = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) };
    (bound == 0).then_some(())
}

fn is_wanted() -> bool {
    std::env::var(WANTED).is_ok_and(|set| set == "1")
}

/// Where each process has a node of its own, the calling thread stays there, and those that it starts from then on.
pub(crate) fn stay(own: u16) {
    if is_wanted() && u8::try_from(own).ok().and_then(bind).is_none() {
        say(format!("{WANTED}=1: this host has no socket {own} whose cores this process may use"));
    }
}

export! {
    /// The node that this process is to use: its local rank.
    fn pgaspi_numa_socket / gaspi_numa_socket(socket: *mut u8) {
        check(socket)?;
        if !is_wanted() {
            return Err(GaspiError::Environment);
        }
        let (own, _) = here()?.on_this_host();
        put(socket, own as u8)
    }

    /// Binds the calling thread to the cores of a node.
    fn pgaspi_set_socket_affinity / gaspi_set_socket_affinity(socket: u8) {
        let refused = |why: &str| refuse(GaspiError::Argument, format!("gaspi_set_socket_affinity: {why}"));
        if socket >= NODES {
            return Err(refused(&format!("socket {socket}: use 0 to {}", NODES - 1)));
        }
        bind(socket).ok_or_else(|| refused(&format!("this host has no socket {socket} with cores that this process may use")))
    }
}

/// Prints the cores that the calling thread may use, as `gaspi_printf` does.
#[unsafe(no_mangle)]
pub extern "C" fn gaspi_print_affinity_mask() {
    // SAFETY: a set of no cores is all zeros.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: writes the set.
    let got = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) };
    if got != 0 {
        return;
    }
    // SAFETY: the cores are below the size of the set.
    let is_in = |core: &usize| unsafe { libc::CPU_ISSET(*core, &set) };
    let cores: Vec<String> =
        (0..libc::CPU_SETSIZE as usize).filter(is_in).map(|core| core.to_string()).collect();
    if let Ok(text) = CString::new(format!("cores: {}\n", cores.join(","))) {
        ggas_gaspi_print(0, text.as_ptr());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cores_are_read_as_the_system_writes_them() {
        assert_eq!(cores("0-2,8\n"), Some(vec![0, 1, 2, 8]));
        assert_eq!(cores("5"), Some(vec![5]));
        assert_eq!(cores("\n"), None, "a node of memory alone");
        assert_eq!((cores("0-99999"), cores("x")), (None, None));
    }
}

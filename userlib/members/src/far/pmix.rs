//! A job that a launcher has started which speaks PMIx (`mpirun`, `srun --mpi=pmix`) or PMI (`mpiexec` of MPICH). Rank 0 tells all others by it where it is
//! met, and a secret; all else is as in any job over hosts.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ggas_pmix::Session;

use super::Meet;
use super::reach::listen;
use crate::JobError;
use crate::meeting::random;
use crate::place::{JOB_PREFIX, Place, Rank, checked_shape};

/// Of what rank 0 tells.
const KEY: &str = "ggas.meet";
/// Longest name of a job that is taken as it is.
const NAME_MAX: usize = 48;

/// This process's place, and what has to be kept as long as the job.
pub(crate) fn place(per_node: u32, timeout: Duration) -> Result<(Place, Session), JobError> {
    let session = Session::open()?;
    let shape = checked_shape(session.size(), per_node)?;
    let rank = Rank { rank: session.rank(), shape };
    let network = format!("{JOB_PREFIX}{}", name_of(session.name()));
    let (listener, own) = if rank.rank == 0 { tells()? } else { (None, Vec::new()) };
    let said = session.of_rank_0(KEY, &own, timeout)?;
    let told: Result<([u8; 16], Vec<String>), _> = postcard::from_bytes(&said);
    let (secret, places) = told.map_err(|_| JobError::Refused {
        why: "what rank 0 told by the launcher is of another version of ggas: install the same one on all hosts"
            .to_owned(),
    })?;
    let meet = Some(Meet { places, secret, listener });
    Ok((Place { network, node: shape.node_of(rank.rank), rank: Some(rank), timeout, meet }, session))
}

/// Rank 0's listener, and what it tells of it.
fn tells() -> Result<(Option<Arc<std::net::TcpListener>>, Vec<u8>), JobError> {
    let system = || JobError::system("listen for other hosts");
    let listener = listen(0).map_err(system())?;
    let port = listener.local_addr().map_err(system())?.port();
    let mut secret = [0; 16];
    for half in secret.chunks_exact_mut(8) {
        half.copy_from_slice(&random().map_err(JobError::system("read /dev/urandom"))?.to_le_bytes());
    }
    let mut places: Vec<String> =
        addresses().map(|address| SocketAddr::new(address, port).to_string()).collect();
    places.truncate(16);
    if let Some(name) = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()) {
        places.push(format!("{name}:{port}"));
    }
    let told = postcard::to_stdvec(&(secret, places)).map_err(std::io::Error::other).map_err(system())?;
    Ok((Some(Arc::new(listener)), told))
}

/// A name that a network may have.
fn name_of(nspace: &str) -> String {
    let good = |c: char| if c.is_ascii_alphanumeric() || "_-".contains(c) { c } else { '-' };
    nspace.chars().rev().take(NAME_MAX).collect::<Vec<_>>().into_iter().rev().map(good).collect()
}

/// Those of this host by which others may reach it.
fn addresses() -> impl Iterator<Item = IpAddr> {
    let mut found = Vec::new();
    let mut list = std::ptr::null_mut();
    // SAFETY: a place for the list, which is given back below.
    if unsafe { libc::getifaddrs(&mut list) } == 0 {
        let mut next = list;
        // SAFETY: entries of the list, which ends with none.
        while let Some(entry) = unsafe { next.as_ref() } {
            found.extend(address_of(entry));
            next = entry.ifa_next;
        }
        // SAFETY: the list that the system gave.
        unsafe { libc::freeifaddrs(list) };
    }
    // Those of the older kind first: more often they lead somewhere.
    found.sort_by_key(IpAddr::is_ipv6);
    found.into_iter()
}

fn address_of(entry: &libc::ifaddrs) -> Option<IpAddr> {
    let up = (libc::IFF_UP | libc::IFF_LOOPBACK) as u32;
    if entry.ifa_addr.is_null() || entry.ifa_flags & up != libc::IFF_UP as u32 {
        return None;
    }
    // SAFETY: an address begins with its family.
    let family = i32::from(unsafe { (*entry.ifa_addr).sa_family });
    match family {
        libc::AF_INET => {
            // SAFETY: of this family.
            let address = unsafe { *entry.ifa_addr.cast::<libc::sockaddr_in>() };
            Some(IpAddr::from(address.sin_addr.s_addr.to_ne_bytes()))
        }
        libc::AF_INET6 => {
            // SAFETY: of this family.
            let address = unsafe { *entry.ifa_addr.cast::<libc::sockaddr_in6>() };
            let address = std::net::Ipv6Addr::from(address.sin6_addr.s6_addr);
            // Those of a link need to be said with it.
            (!address.is_unicast_link_local()).then_some(IpAddr::V6(address))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_launchers_become_names_of_networks() {
        assert_eq!(name_of("slurm.pmix.12.0"), "slurm-pmix-12-0");
        assert_eq!(name_of(&"x/1".repeat(40)).len(), NAME_MAX);
        assert!(addresses().all(|address| !address.is_loopback()));
    }
}

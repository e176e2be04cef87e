//! What meetings of processes on several hosts are made of, whoever meets: connections, numbers that nobody guesses, and codes that
//! only who has the secret can make.

use std::collections::HashMap;
use std::hash::Hasher;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use siphasher::sip128::{Hasher128, SipHasher24};

/// Bytes of a [`code`].
pub const CODE: usize = 16;

/// SipHash-2-4 of what was said under a secret: `side` speaks, `before` was said on this connection.
pub fn code(secret: &[u8; 16], side: u8, before: &[u8], more: &[&[u8]]) -> [u8; CODE] {
    let mut hasher = SipHasher24::new_with_key(secret);
    hasher.write(&[side]);
    hasher.write(&(before.len() as u64).to_le_bytes());
    hasher.write(before);
    more.iter().for_each(|part| hasher.write(part));
    hasher.finish128().as_bytes()
}

/// Whether what came is this code. No early end: how long it takes says nothing of the code.
pub fn is_code(code: &[u8; CODE], came: &[u8]) -> bool {
    came.len() == CODE && code.iter().zip(came).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

/// A number that nobody guesses.
///
/// # Errors
/// The system has none.
pub fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    // Without a descriptor: there may be none left. SAFETY: as many bytes as it is told.
    match unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) } {
        8 => Ok(u64::from_le_bytes(bytes)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// What came is not what it should be.
pub fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Whether nobody could be let in for want of room, not for the caller's fault: a listener stays ready then.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}

/// Which of the callers that have not proven what they are makes room for another one, by the addresses that they came from, oldest first:
/// the oldest of the host that has most of them. So callers of other hosts, however many and however often, cut nobody off who comes
/// from a host with fewer. `None`: there are none.
pub fn makes_room(from: impl Iterator<Item = IpAddr> + Clone) -> Option<usize> {
    let mut counts = HashMap::new();
    from.clone().for_each(|from| *counts.entry(host(from)).or_insert(0_usize) += 1);
    let most = counts.values().copied().max()?;
    from.into_iter().position(|from| counts[&host(from)] == most)
}

/// What a host has one of: it takes as many addresses as it likes of the 64 bits that its network of IPv6 leaves to it.
fn host(from: IpAddr) -> u128 {
    match from.to_canonical() {
        IpAddr::V4(from) => u128::from(u32::from(from)),
        IpAddr::V6(from) => u128::from(from) >> 64 << 64,
    }
}

/// A connection to `HOST:PORT`, at the first of its addresses that answers; each may take `bound`.
///
/// # Errors
/// Of the last address. A name without one is [`NotFound`](io::ErrorKind::NotFound).
pub fn connect(place: &str, bound: Duration) -> io::Result<TcpStream> {
    let unknown = |why: &dyn std::fmt::Display| {
        io::Error::new(
            io::ErrorKind::NotFound,
            format!("its name has no address here ({why}): is it written right?"),
        )
    };
    let mut last = unknown(&"none was found");
    for address in place.to_socket_addrs().map_err(|error| unknown(&error))? {
        match TcpStream::connect_timeout(&address, bound) {
            Ok(stream) => match is_another(&stream, address) {
                Ok(()) => return Ok(stream),
                Err(error) => last = error,
            },
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Nobody listens there, but the system gave this very port to the call, which then answers itself.
fn is_another(stream: &TcpStream, address: SocketAddr) -> io::Result<()> {
    if stream.local_addr()? == address { Err(io::ErrorKind::ConnectionRefused.into()) } else { Ok(()) }
}

/// Begins a connection and does not wait for it: once the socket can be written to, or there is an error,
/// [`begun`] says which. It does not block.
///
/// # Errors
/// It cannot begin, or is refused at once.
pub fn begin(address: SocketAddr) -> io::Result<TcpStream> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let stream = TcpStream::from(socket_with(family, SocketType::STREAM, flags, None)?);
    match rustix::net::connect(&stream, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(stream),
        Err(error) => Err(error.into()),
    }
}

/// What has become of a connection that was [begun](begin).
///
/// # Errors
/// There is none.
pub fn begun(stream: &TcpStream, address: SocketAddr) -> io::Result<()> {
    stream.take_error()?.map_or(Ok(()), Err)?;
    is_another(stream, address)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::fd::AsFd;

    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    use super::*;

    /// What becomes of a connection that is begun.
    fn becomes(address: SocketAddr) -> io::Result<()> {
        let stream = begin(address)?;
        poll(&mut [PollFd::new(stream.as_fd(), PollFlags::POLLOUT)], PollTimeout::NONE)?;
        begun(&stream, address)
    }

    #[test]
    fn a_connection_begins_and_tells_what_became_of_it() {
        for host in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(host) else { continue };
            let address = listener.local_addr().unwrap();
            becomes(address).unwrap();
            drop(listener);
            assert_eq!(becomes(address).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        }
    }

    fn room(from: &[&str]) -> Option<usize> {
        makes_room(from.iter().map(|from| from.parse().unwrap()))
    }

    #[test]
    fn the_oldest_of_the_host_with_most_callers_makes_room() {
        assert_eq!(room(&[]), None);
        assert_eq!(room(&["10.0.0.1", "10.0.0.2"]), Some(0));
        assert_eq!(room(&["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.2"]), Some(1));
        // One host, as an IPv6 listener sees it, and one with several addresses.
        assert_eq!(room(&["10.0.0.1", "::ffff:10.0.0.2", "10.0.0.2"]), Some(1));
        assert_eq!(room(&["2001:db8:0:1::1", "2001:db8:0:2::1", "2001:db8:0:2::2"]), Some(1));
    }
}

//! What meetings of processes on several hosts are made of, whoever meets: connections, numbers that nobody guesses, and codes that
//! only who has the secret can make.

use std::hash::Hasher;
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

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
            // Nobody listens there, but the system gave this very port to the call, which then answers itself.
            Ok(stream) if stream.local_addr()? == address => last = io::ErrorKind::ConnectionRefused.into(),
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

//! Connections between processes that keep message boundaries: bounded messages, with file descriptors.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use ggas_clock::Clock;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout};
#[cfg(test)]
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use nix::sys::socket::{ControlMessage, MsgFlags, Shutdown, sendmsg, shutdown};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::fds::kept;
use crate::table;

/// What each message begins with, and the version behind it, before anything whose layout could change.
const MAGIC: [u8; 4] = *b"GGAS";
const VERSION: u16 = table::VERSION as u16;
/// Longest message.
pub(crate) const MAX_MESSAGE: usize = 8192;

/// Descriptors that the kernel carries in one message (SCM_MAX_FD).
pub(crate) const MAX_FDS: usize = 253;
/// Before trying again where the kernel announces nothing: too many descriptors in flight.
const NAP: Duration = Duration::from_micros(200);

/// Why nothing was sent or received.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WireError {
    #[error("the other side closed the connection")]
    Closed,
    #[error("nothing came in time")]
    Timeout,
    #[error("{0}")]
    Malformed(String),
    /// Descriptors came that this process had no room for; they are gone, and the message with them.
    #[error("its file descriptors are more than this process may open: raise `ulimit -n`")]
    NoFiles,
    #[error("version {theirs} instead of {VERSION}")]
    Version { theirs: u16 },
    #[error(transparent)]
    System(io::Error),
}

impl From<io::Error> for WireError {
    fn from(error: io::Error) -> WireError {
        WireError::System(error)
    }
}

impl From<Errno> for WireError {
    fn from(errno: Errno) -> WireError {
        match errno {
            Errno::EPIPE | Errno::ECONNRESET | Errno::ECONNREFUSED | Errno::ENOTCONN => WireError::Closed,
            other => WireError::System(other.into()),
        }
    }
}

/// One end of a `SOCK_SEQPACKET` connection.
#[derive(Debug)]
pub(crate) struct Channel(OwnedFd);

impl Channel {
    /// Two ends, both closed on exec.
    #[cfg(test)]
    pub(crate) fn pair() -> io::Result<(Channel, Channel)> {
        let (a, b) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)?;
        Ok((Channel(a), Channel(b)))
    }

    /// Takes over a descriptor. It must be a `SOCK_SEQPACKET` socket; sends and receives fail otherwise.
    pub(crate) fn new(fd: OwnedFd) -> Channel {
        Channel(fd)
    }

    /// Sends one message by `deadline`.
    pub(crate) fn send<T: Serialize>(
        &self,
        message: &T,
        fds: &[BorrowedFd<'_>],
        deadline: Instant,
    ) -> Result<(), WireError> {
        let bytes = encode(message)?;
        loop {
            match self.send_bytes(&bytes, fds) {
                Err(WireError::Timeout) => self.wait_for_room(deadline)?,
                other => return other,
            }
        }
    }

    fn send_bytes(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), WireError> {
        let raw: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
        let control = [ControlMessage::ScmRights(&raw)];
        let control = if raw.is_empty() { &control[..0] } else { &control[..] };
        let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
        loop {
            match sendmsg::<()>(self.0.as_raw_fd(), &[IoSlice::new(bytes)], control, flags, None) {
                Ok(_) => return Ok(()),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN | Errno::ENOBUFS | Errno::ETOOMANYREFS) => return Err(WireError::Timeout),
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Room for a message; of descriptors in flight (ETOOMANYREFS) the kernel tells nobody when they are fewer.
    pub(crate) fn wait_for_room(&self, deadline: Instant) -> Result<(), WireError> {
        if wait(self.0.as_fd(), PollFlags::POLLOUT, deadline)? {
            Clock::REAL.sleep(NAP);
        }
        if Clock::REAL.now() >= deadline { Err(WireError::Timeout) } else { Ok(()) }
    }

    /// Ends the connection for both sides, after what was sent.
    pub(crate) fn shut_down(&self) {
        // It may be closed already.
        let _ = shutdown(self.0.as_raw_fd(), Shutdown::Both);
    }

    /// Receives one message if it is there; `Timeout` if not. Descriptors of a bad message are closed.
    pub(crate) fn try_receive<T: DeserializeOwned>(&self) -> Result<(T, Vec<OwnedFd>), WireError> {
        let mut bytes = [0u8; MAX_MESSAGE];
        let (len, said, fds) = receive_raw(self.0.as_fd(), &mut bytes)?;
        if len == 0 {
            return Err(WireError::Closed);
        }
        if said & libc::MSG_TRUNC != 0 {
            return Err(WireError::Malformed(format!("more than {MAX_MESSAGE} bytes")));
        }
        if said & libc::MSG_CTRUNC != 0 {
            return Err(WireError::NoFiles);
        }
        Ok((decode(&bytes[..len])?, fds))
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// One message: its length, flags, and descriptors. Not nix's: that gives no descriptors of a message that did not
/// come whole, and the kernel has opened some of them here.
fn receive_raw(fd: BorrowedFd<'_>, bytes: &mut [u8]) -> Result<(usize, i32, Vec<OwnedFd>), WireError> {
    // In words, because control messages are aligned to them.
    let mut control = [0u64; (MAX_FDS * size_of::<RawFd>() + 64) / 8];
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: all zeroes is a msghdr without anything.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of_val(&control);
    let flags = libc::MSG_CMSG_CLOEXEC | libc::MSG_DONTWAIT;
    let len = loop {
        // SAFETY: the header names `bytes` and `control`, both writable and alive.
        let len = unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut header, flags) };
        match (usize::try_from(len), Errno::last()) {
            (Ok(len), _) => break len,
            // Said once where the other side left before it had read everything; what it sent is there all the same.
            (Err(_), Errno::EINTR | Errno::ECONNRESET) => {}
            (Err(_), Errno::EAGAIN) => return Err(WireError::Timeout),
            (Err(_), errno) => return Err(errno.into()),
        }
    };
    let mut fds = Vec::new();
    // SAFETY: the kernel has filled in the header, and what it points to is alive; so for every CMSG call below.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(&raw const header) };
    // SAFETY: CMSG_FIRSTHDR and CMSG_NXTHDR give a header inside the control part, or null.
    while let Some(entry) = unsafe { next.as_ref() } {
        if (entry.cmsg_level, entry.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
            // SAFETY: arithmetic on a length.
            let bytes = entry.cmsg_len - unsafe { libc::CMSG_LEN(0) } as usize;
            // SAFETY: the data of this control message.
            let list: *const RawFd = unsafe { libc::CMSG_DATA(next) }.cast();
            for i in 0..bytes / size_of::<RawFd>() {
                // SAFETY: the i-th of the descriptors that the kernel has just opened here, known to nobody else.
                fds.push(kept(unsafe { OwnedFd::from_raw_fd(list.add(i).read_unaligned()) }));
            }
        }
        // SAFETY: as above.
        next = unsafe { libc::CMSG_NXTHDR(&raw const header, next) };
    }
    Ok((len, header.msg_flags, fds))
}

fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, WireError> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    let bytes = postcard::to_extend(message, bytes)
        .map_err(|error| WireError::Malformed(format!("unsendable: {error}")))?;
    if bytes.len() > MAX_MESSAGE {
        return Err(WireError::Malformed(format!("{} bytes are more than {MAX_MESSAGE}", bytes.len())));
    }
    Ok(bytes)
}

fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, WireError> {
    let body = bytes
        .strip_prefix(&MAGIC)
        .ok_or_else(|| WireError::Malformed("it does not begin with GGAS".into()))?;
    let (version, body) =
        body.split_first_chunk().ok_or_else(|| WireError::Malformed("it ends before its version".into()))?;
    let theirs = u16::from_le_bytes(*version);
    if theirs != VERSION {
        return Err(WireError::Version { theirs });
    }
    let (message, rest) = postcard::take_from_bytes(body)
        .map_err(|error| WireError::Malformed(format!("{} bytes cannot be read: {error}", bytes.len())))?;
    if rest.is_empty() {
        Ok(message)
    } else {
        Err(WireError::Malformed(format!("{} bytes too many", rest.len())))
    }
}

/// Waits for `events` (or a hang-up) until `deadline`: `false` if the time is over.
pub(crate) fn wait(fd: BorrowedFd<'_>, events: PollFlags, deadline: Instant) -> io::Result<bool> {
    let mut fds = [PollFd::new(fd, events)];
    Ok(poll_until(&mut fds, Some(deadline))? > 0)
}

/// `poll`, to the deadline whatever interrupts it. Rounded up, so that no caller spins in the last millisecond.
pub(crate) fn poll_until(fds: &mut [PollFd<'_>], deadline: Option<Instant>) -> io::Result<i32> {
    loop {
        let left = deadline.map(|at| at.saturating_duration_since(Clock::REAL.now()));
        let timeout = match left {
            None => PollTimeout::NONE,
            Some(left) => i32::try_from(left.as_micros().div_ceil(1000))
                .ok()
                .and_then(|millis| PollTimeout::try_from(millis).ok())
                .unwrap_or(PollTimeout::MAX),
        };
        match nix::poll::poll(fds, timeout) {
            Err(Errno::EINTR) => {}
            other => return Ok(other?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hear(channel: &Channel) -> String {
        match channel.try_receive::<u32>() {
            Ok((number, fds)) => format!("{number} and {}", fds.len()),
            Err(error) => error.to_string(),
        }
    }

    fn say(channel: &Channel, number: u32) {
        channel.send(&number, &[], Clock::REAL.now()).unwrap();
    }

    #[test]
    fn what_was_sent_before_the_end_is_heard() {
        let (a, b) = Channel::pair().unwrap();
        say(&a, 1);
        say(&b, 2);
        say(&b, 3);
        // It has not read what came: the system calls that a reset.
        drop(b);
        assert_eq!([hear(&a), hear(&a)], ["2 and 0", "3 and 0"]);
        assert_eq!(hear(&a), WireError::Closed.to_string());
    }

    #[test]
    fn an_end_is_one_whoever_has_copies() {
        let (a, b) = Channel::pair().unwrap();
        let copy = b.0.try_clone().unwrap();
        say(&b, 5);
        b.shut_down();
        drop(b);
        assert_eq!([hear(&a), hear(&a)], ["5 and 0".to_string(), WireError::Closed.to_string()]);
        drop(copy);
    }

    #[test]
    fn messages_that_are_none() {
        let (a, b) = Channel::pair().unwrap();
        let null = std::fs::File::open("/dev/null").unwrap();
        let mut random = fastrand::Rng::with_seed(3);
        for len in 1..400 {
            let bytes: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(len).collect();
            b.send_bytes(&bytes, &[null.as_fd()]).unwrap();
            assert!(a.try_receive::<u32>().is_err());
        }
        b.send_bytes(&[0; 3 * MAX_MESSAGE], &[]).unwrap();
        assert!(hear(&a).contains("more than"), "too long");
        let version = [MAGIC.as_slice(), &(VERSION + 1).to_le_bytes(), &[7]].concat();
        b.send_bytes(&version, &[]).unwrap();
        assert!(hear(&a).contains("version"), "another version");
        let longer = [encode(&7u32).unwrap(), vec![0]].concat();
        b.send_bytes(&longer, &[]).unwrap();
        assert!(hear(&a).contains("1 bytes too many"));
    }
}

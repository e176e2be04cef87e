//! A connection of a meeting: what was said and not written, what was read and not understood.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

use ggas_members::meeting::random;
use nix::sys::epoll::EpollFlags;

use super::proof::{Challenge, Side, Talk};

/// Bytes that are read at once.
const READ: usize = 2048;
/// Bytes that wait to be written: who reads none of so many is given up.
const WRITE_MAX: usize = 16 << 10;

/// A connection.
pub(super) struct Stream {
    pub socket: TcpStream,
    pub talk: Talk,
    /// The caller has shown its pass.
    pub passed: bool,
    /// Who is called has said its challenge.
    pub begun: bool,
    pub came: Vec<u8>,
    pub goes: Vec<u8>,
    /// Nothing is heard any more; it goes once all is said.
    pub closing: bool,
    /// What it was last said to wait for.
    pub watched: EpollFlags,
}

impl Stream {
    pub fn new(socket: TcpStream, secret: [u8; 16], side: Side) -> io::Result<Stream> {
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        let (talk, came, goes) = (Talk::new(secret, side), Vec::new(), Vec::new());
        let watched = EpollFlags::empty();
        let passed = side == Side::Caller;
        let mut stream = Stream { socket, talk, passed, begun: !passed, came, goes, closing: false, watched };
        if side == Side::Called {
            stream.say(&Challenge::bytes(random()?))?;
        }
        Ok(stream)
    }

    /// Hears the challenge. Who cannot be met because of it hears at least what this process is.
    pub fn begin(&mut self, body: &[u8]) -> io::Result<()> {
        self.begun = true;
        Challenge::check(body).inspect_err(|_| {
            let _ = self.say(&Challenge::bytes(0)); // it begins as all frames
        })
    }

    /// Whose it is, for whoever reads of it.
    pub fn from(&self) -> String {
        self.socket.peer_addr().map_or_else(|_| "somebody".to_owned(), |from| from.ip().to_string())
    }

    pub fn say(&mut self, body: &[u8]) -> io::Result<()> {
        self.add(body)?;
        self.write()
    }

    /// Says something with the next [`write`](Self::write).
    pub fn add(&mut self, body: &[u8]) -> io::Result<()> {
        let frame = self.talk.say(body)?;
        self.goes.extend_from_slice(&frame);
        Ok(())
    }

    pub fn write(&mut self) -> io::Result<()> {
        while !self.goes.is_empty() {
            match self.socket.write(&self.goes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => drop(self.goes.drain(..written)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock && self.goes.len() <= WRITE_MAX => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads what is there; an error also where the other side has closed it.
    pub fn read(&mut self) -> io::Result<()> {
        let mut bytes = [0; READ];
        match self.socket.read(&mut bytes) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(len) => {
                self.came.extend_from_slice(&bytes[..len]);
                Ok(())
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub fn waits_for(&self) -> EpollFlags {
        let write = if self.goes.is_empty() { EpollFlags::empty() } else { EpollFlags::EPOLLOUT };
        if self.closing { write } else { write | EpollFlags::EPOLLIN }
    }
}

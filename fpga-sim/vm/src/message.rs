//! Messages of the vfio-user protocol on a connection, whole and of bounded size.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

/// Bytes of a header: id, command, size, flags, error.
pub(crate) const HEADER: usize = 16;
/// Most bytes that one access moves, where the client wants no less.
pub(crate) const MAX_DATA: u32 = 1 << 20;
/// Offset, region and count of an access, before its data.
pub(crate) const ACCESS: usize = 16;
/// Files that Linux puts into one message at most (`SCM_MAX_FD`): with room for all of them none is lost.
const MAX_FILES: usize = 253;

const REPLY: u32 = 1;
const TYPE: u32 = 0xf;
const NO_REPLY: u32 = 1 << 4;
const ERROR: u32 = 1 << 5;

/// Why a connection ends.
#[derive(thiserror::Error)]
pub(crate) enum Ended {
    /// The client has closed it between two messages.
    #[error("the client closed the connection")]
    Closed,
    /// What follows cannot be told apart any more.
    #[error("{0}")]
    Malformed(String),
    /// The system's.
    #[error("the connection broke: {0}")]
    Broken(#[from] io::Error),
}

ggas_errors::debug_as_display!(Ended);

/// What a command begins with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    id: u16,
    pub(crate) command: u16,
    size: u32,
    flags: u32,
}

impl Header {
    /// Whether the client wants none.
    pub(crate) fn no_reply(&self) -> bool {
        self.flags & NO_REPLY != 0
    }

    fn parse(bytes: &[u8; HEADER]) -> Result<Header, Ended> {
        let half = |at| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let word = |at| u32_at(bytes, at).unwrap_or_default();
        let header = Header { id: half(0), command: half(2), size: word(4), flags: word(8) };
        let most = HEADER + ACCESS + MAX_DATA as usize;
        if !(HEADER..=most).contains(&(header.size as usize)) {
            return Err(Ended::Malformed(format!(
                "message of {} bytes (command {}); they have {HEADER} to {most}",
                header.size, header.command
            )));
        }
        if header.flags & TYPE != 0 {
            return Err(Ended::Malformed(format!("message with flags {:#x} is no command", header.flags)));
        }
        Ok(header)
    }
}

/// The `u32` at an offset.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

/// The `u64` at an offset.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

/// One client's connection.
pub(crate) struct Connection {
    stream: UnixStream,
}

impl Connection {
    pub(crate) fn new(stream: UnixStream) -> Connection {
        Connection { stream }
    }

    /// The next command: its header, its body in `body`, its files.
    pub(crate) fn receive(&mut self, body: &mut Vec<u8>) -> Result<(Header, Vec<File>), Ended> {
        let mut bytes = [0; HEADER];
        let (got, files) = self.receive_with_files(&mut bytes)?;
        if got == 0 {
            return Err(Ended::Closed);
        }
        self.fill(&mut bytes[got..])?;
        let header = Header::parse(&bytes)?;
        body.clear();
        body.resize(header.size as usize - HEADER, 0);
        self.fill(body)?;
        Ok((header, files))
    }

    /// Files come with the first byte of a message.
    fn receive_with_files(&mut self, bytes: &mut [u8]) -> Result<(usize, Vec<File>), Ended> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(bytes)];
        let got = rustix::io::retry_on_intr(|| {
            recvmsg(&self.stream, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)
        })
        .map_err(io::Error::from)?;
        let rights = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(files) => Some(files),
            _ => None,
        });
        Ok((got.bytes, rights.flatten().map(|file: OwnedFd| file.into()).collect()))
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), Ended> {
        self.stream.read_exact(bytes).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                Ended::Malformed("the client closed the connection within a message".to_owned())
            }
            _ => error.into(),
        })
    }

    /// Replies to a command. `reply` is room for the header, then the body.
    pub(crate) fn reply(
        &mut self,
        to: &Header,
        reply: &mut [u8],
        file: Option<BorrowedFd<'_>>,
    ) -> io::Result<()> {
        let size = reply.len() as u32;
        head(reply, to, size, REPLY, 0);
        let mut sent = 0;
        if let Some(file) = file {
            let files = [file];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            control.push(SendAncillaryMessage::ScmRights(&files));
            let parts = [IoSlice::new(reply)];
            sent = rustix::io::retry_on_intr(|| {
                sendmsg(&self.stream, &parts, &mut control, SendFlags::NOSIGNAL)
            })?;
        }
        self.stream.write_all(&reply[sent..])
    }

    /// Replies that a command failed.
    pub(crate) fn refuse(&mut self, to: &Header, errno: i32) -> io::Result<()> {
        let mut reply = [0; HEADER];
        head(&mut reply, to, HEADER as u32, REPLY | ERROR, errno as u32);
        self.stream.write_all(&reply)
    }
}

fn head(reply: &mut [u8], to: &Header, size: u32, flags: u32, error: u32) {
    reply[0..2].copy_from_slice(&to.id.to_le_bytes());
    reply[2..4].copy_from_slice(&to.command.to_le_bytes());
    for (at, word) in [(4, size), (8, flags), (12, error)] {
        reply[at..at + 4].copy_from_slice(&word.to_le_bytes());
    }
}

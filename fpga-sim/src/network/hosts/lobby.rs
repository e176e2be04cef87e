//! Where processes of a network of hosts meet: the sockets of their [meetings](super::meeting), on one thread.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ggas_clock::Clock;
use ggas_members::quiet;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};

use super::events::{Connection, Out};
use super::fabric::Shared;
use super::proof::{Challenge, Side, Talk};
use ggas_members::meeting::{connect, is_full, random};

/// Bytes that are read at once.
const READ: usize = 2048;
/// Bytes that wait to be written: who reads none of so many is given up.
const WRITE_MAX: usize = 16 << 10;
/// So long nobody is let in where that failed: most often the process may open no more files.
const FULL: Duration = Duration::from_millis(100);

type Connected = (Connection, io::Result<TcpStream>);

pub(super) struct Lobby {
    news: EventFd,
    /// Calls that are through, or not.
    connected: Mutex<Vec<Connected>>,
}

impl Lobby {
    pub fn new() -> io::Result<Lobby> {
        let news = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?;
        Ok(Lobby { news, connected: Mutex::default() })
    }

    /// Has the thread look at what changed.
    pub fn tell(&self) {
        let _ = self.news.write(1); // full: it will look
    }

    fn connected(&self) -> MutexGuard<'_, Vec<Connected>> {
        self.connected.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection.
struct Stream {
    socket: TcpStream,
    talk: Talk,
    /// Who is called has said its challenge.
    begun: bool,
    came: Vec<u8>,
    goes: Vec<u8>,
    /// Nothing is heard any more; it goes once all is said.
    closing: bool,
}

impl Stream {
    fn new(socket: TcpStream, secret: [u8; 16], side: Side) -> io::Result<Stream> {
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        let (talk, came, goes) = (Talk::new(secret, side), Vec::new(), Vec::new());
        let mut stream = Stream { socket, talk, begun: false, came, goes, closing: false };
        if side == Side::Called {
            stream.say(&Challenge::bytes(random()?))?;
            stream.begun = true;
        }
        Ok(stream)
    }

    /// Hears the challenge. Who cannot be met because of it hears at least what this process is.
    fn begin(&mut self, body: &[u8]) -> io::Result<()> {
        self.begun = true;
        Challenge::check(body).inspect_err(|_| {
            let _ = self.say(&Challenge::bytes(0)); // it begins as all frames
        })
    }

    fn say(&mut self, body: &[u8]) -> io::Result<()> {
        let frame = self.talk.say(body)?;
        self.goes.extend_from_slice(&frame);
        self.write()
    }

    fn write(&mut self) -> io::Result<()> {
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
    fn read(&mut self) -> io::Result<()> {
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

    fn waits_for(&self) -> PollFlags {
        let write = if self.goes.is_empty() { PollFlags::empty() } else { PollFlags::POLLOUT };
        if self.closing { write } else { write | PollFlags::POLLIN }
    }
}

/// The thread's life: takes calls, and hears of the end of others.
pub(super) fn attend(shared: &Arc<Shared>, listener: &TcpListener) {
    let mut streams = Streams { shared, open: HashMap::new(), full: false };
    loop {
        let stops = shared.stops();
        let (out, next) = shared.with_core(|core| {
            let next = core.look();
            (core.take_out(), next)
        });
        for out in out {
            streams.obey(out);
        }
        shared.tell_lost();
        if stops {
            return;
        }
        // Closing what failed may be news.
        if !shared.with_core(|core| core.has_out()) {
            streams.wait(listener, next.map(|next| Clock::REAL.until(next)));
        }
    }
}

struct Streams<'a> {
    shared: &'a Arc<Shared>,
    open: HashMap<Connection, Stream>,
    /// Whoever calls has to wait a moment.
    full: bool,
}

impl Streams<'_> {
    fn obey(&mut self, out: Out) {
        match out {
            Out::Call(node, on) => call(self.shared, node, on),
            Out::Say(on, body) => {
                if let Some(stream) = self.open.get_mut(&on)
                    && let Err(error) = stream.say(&body)
                {
                    self.broke(on, &error);
                }
            }
            Out::Close(on) => {
                if let Some(stream) = self.open.get_mut(&on) {
                    stream.closing = true;
                    if stream.goes.is_empty() {
                        self.open.remove(&on);
                    }
                }
            }
            Out::Unanswered(node) => self.shared.unmet(node, &ErrorKind::TimedOut.into()),
            Out::Unheard(node) => self.shared.unheard(node),
        }
    }

    /// Waits until something happens, at most for `time`, and sees to it.
    fn wait(&mut self, listener: &TcpListener, time: Option<Duration>) {
        let names: Vec<Connection> = self.open.keys().copied().collect();
        let (full, calls) = match std::mem::take(&mut self.full) {
            true => (Some(FULL), PollFlags::empty()),
            false => (None, PollFlags::POLLIN),
        };
        let time = time.into_iter().chain(full).min();
        let mut polled = vec![
            PollFd::new(self.shared.lobby.news.as_fd(), PollFlags::POLLIN),
            PollFd::new(listener.as_fd(), calls),
        ];
        polled.extend(names.iter().map(|on| {
            let stream = &self.open[on];
            PollFd::new(stream.socket.as_fd(), stream.waits_for())
        }));
        // A millisecond more: what is due then is due.
        let time = time.map(|time| time.as_millis().saturating_add(1).min(60_000) as u16);
        if poll(&mut polled, time.map_or(PollTimeout::NONE, PollTimeout::from)).is_err() {
            return; // a signal
        }
        let there: Vec<bool> = polled.iter().map(|fd| fd.any().unwrap_or(false)).collect();
        if there[0] {
            let _ = self.shared.lobby.news.read();
            let connected = std::mem::take(&mut *self.shared.lobby.connected());
            connected.into_iter().for_each(|(on, socket)| self.connected(on, socket));
        }
        if there[1] {
            self.accept(listener);
        }
        for (on, _) in names.iter().zip(&there[2..]).filter(|(_, there)| **there) {
            self.serve(*on);
        }
    }

    /// The other side speaks first.
    fn connected(&mut self, on: Connection, socket: io::Result<TcpStream>) {
        match socket.and_then(|socket| Stream::new(socket, self.shared.secret, Side::Caller)) {
            Ok(stream) => drop(self.open.insert(on, stream)),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                self.shared.with_core(|core| core.refused(on));
            }
            Err(error) => self.broke(on, &error),
        }
    }

    /// Somebody with the secret listens there.
    fn connected_to(&self, on: Connection) {
        let calls = self.shared.with_core(|core| {
            core.connected(on);
            core.calls(on)
        });
        calls.into_iter().for_each(|node| self.shared.complaints.met(node));
    }

    fn accept(&mut self, listener: &TcpListener) {
        let accepted =
            listener.accept().and_then(|(socket, _)| Stream::new(socket, self.shared.secret, Side::Called));
        match accepted {
            Ok(stream) => {
                let on = self.shared.with_core(|core| core.accepted());
                self.open.insert(on, stream);
            }
            Err(error) => {
                tracing::debug!("a call was not taken: {error}");
                self.full = is_full(&error);
            }
        }
    }

    /// Writes and reads as much as goes.
    fn serve(&mut self, on: Connection) {
        let Some(stream) = self.open.get_mut(&on) else { return };
        if let Err(error) = stream.write() {
            return self.broke(on, &error);
        }
        if stream.closing {
            if stream.goes.is_empty() {
                self.open.remove(&on);
            }
            return;
        }
        let end = stream.read().err();
        loop {
            let Some(stream) = self.open.get_mut(&on).filter(|stream| !stream.closing) else { return };
            match stream.talk.hear(&mut stream.came) {
                Ok(Some(body)) if stream.begun => self.hear(on, &body),
                Ok(Some(body)) => match stream.begin(&body) {
                    Ok(()) => self.connected_to(on),
                    Err(error) => return self.broke(on, &error),
                },
                Ok(None) => break,
                Err(error) => return self.broke(on, &error),
            }
        }
        if let Some(error) = end {
            self.broke(on, &error);
        }
    }

    fn hear(&mut self, on: Connection, body: &[u8]) {
        let (calls, heard) = self.shared.with_core(|core| (core.calls(on), core.heard(on, body)));
        if let (Err(error), Some(stream)) = (heard, self.open.get_mut(&on)) {
            stream.closing = true;
            if let Some(node) = calls {
                return self.shared.unmet(node, &error);
            }
            let from = stream
                .socket
                .peer_addr()
                .map_or_else(|_| "somebody".to_owned(), |from| from.ip().to_string());
            // Whoever started the processes has to change something; without it nothing of this process goes there.
            match error.kind() {
                ErrorKind::Unsupported => {
                    self.shared.complaints.say(format!("no packets go to {from}: {error}"))
                }
                _ => tracing::warn!("a connection with {from} ends: {error}"),
            }
        }
    }

    fn broke(&mut self, on: Connection, error: &io::Error) {
        tracing::debug!("connection {on} is over: {error}");
        self.open.remove(&on);
        let calls = self.shared.with_core(|core| {
            let calls = core.calls(on);
            core.broke(on);
            calls
        });
        if let Some(node) = calls {
            self.shared.unmet(node, error);
        }
    }
}

/// Calls a node, on a thread: names are looked up, and a silent host is waited for.
fn call(shared: &Arc<Shared>, node: u16, on: Connection) {
    let own = shared.clone();
    let spawned = quiet::spawn("ggas-call", move || {
        let place = &own.places[usize::from(node)];
        let socket = connect(place, own.bounds.meeting).inspect_err(|error| own.unmet(node, error));
        own.lobby.connected().push((on, socket));
        own.lobby.tell();
    });
    if let Err(error) = spawned {
        tracing::warn!("no thread to call node {node}: {error}");
        shared.with_core(|core| core.broke(on));
    }
}

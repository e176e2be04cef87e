//! Where processes of a network of hosts meet: the sockets of their [meetings](super::meeting), on one thread.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ggas_clock::Clock;
use ggas_members::quiet;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};

use super::events::{Connection, Out};
use super::proof::{Challenge, Side, Talk, pass, take_pass};
use super::shared::Shared;
use ggas_members::meeting::{connect, is_full, random};

/// Bytes that are read at once.
const READ: usize = 2048;
/// Bytes that wait to be written: who reads none of so many is given up.
const WRITE_MAX: usize = 16 << 10;
/// So long nobody is let in where that failed: most often the process may open no more files.
const FULL: Duration = Duration::from_millis(100);
/// Descriptors that are served behind one sleep.
const SERVED: usize = 64;
/// What tells of news, and the listener, among descriptors; others have the names of their connections, from 1.
const NEWS: u64 = u64::MAX;
const CALLS: u64 = 0;

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
    /// The caller has shown its pass.
    passed: bool,
    /// Who is called has said its challenge.
    begun: bool,
    came: Vec<u8>,
    goes: Vec<u8>,
    /// Nothing is heard any more; it goes once all is said.
    closing: bool,
    /// What it was last said to wait for.
    watched: EpollFlags,
}

impl Stream {
    fn new(socket: TcpStream, secret: [u8; 16], side: Side) -> io::Result<Stream> {
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
    fn begin(&mut self, body: &[u8]) -> io::Result<()> {
        self.begun = true;
        Challenge::check(body).inspect_err(|_| {
            let _ = self.say(&Challenge::bytes(0)); // it begins as all frames
        })
    }

    /// Whose it is, for whoever reads of it.
    fn from(&self) -> String {
        self.socket.peer_addr().map_or_else(|_| "somebody".to_owned(), |from| from.ip().to_string())
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

    fn waits_for(&self) -> EpollFlags {
        let write = if self.goes.is_empty() { EpollFlags::empty() } else { EpollFlags::EPOLLOUT };
        if self.closing { write } else { write | EpollFlags::EPOLLIN }
    }
}

/// The thread's life: takes calls, and hears of the end of others.
pub(super) fn attend(shared: &Arc<Shared>, listener: &TcpListener) {
    let mut streams = match Streams::new(shared, listener) {
        Ok(streams) => streams,
        Err(error) => return shared.complaints.say(format!("nobody can be met: {error}")),
    };
    loop {
        let stops = shared.stops();
        let (out, next) = shared.with_core_in_lobby(|core| {
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
        if !shared.with_core_in_lobby(|core| core.has_out()) {
            streams.wait(listener, next.map(|next| Clock::REAL.until(next)));
        }
    }
}

struct Streams<'a> {
    shared: &'a Arc<Shared>,
    open: HashMap<Connection, Stream>,
    watch: Epoll,
    /// Whoever calls has to wait a moment.
    full: bool,
}

impl<'a> Streams<'a> {
    fn new(shared: &'a Arc<Shared>, listener: &TcpListener) -> io::Result<Streams<'a>> {
        let watch = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        watch.add(&shared.lobby.news, EpollEvent::new(EpollFlags::EPOLLIN, NEWS))?;
        watch.add(listener, EpollEvent::new(EpollFlags::EPOLLIN, CALLS))?;
        Ok(Streams { shared, open: HashMap::new(), watch, full: false })
    }
}

impl Streams<'_> {
    fn obey(&mut self, out: Out) {
        match out {
            Out::Call(node, on) => call(self.shared, node, on),
            Out::Say(on, body) => match self.open.get_mut(&on).map(|stream| stream.say(&body)) {
                Some(Err(error)) => self.broke(on, &error),
                _ => self.watch(on),
            },
            Out::Close(on) => {
                if let Some(stream) = self.open.get_mut(&on) {
                    stream.closing = true;
                    if stream.goes.is_empty() {
                        self.open.remove(&on);
                    }
                    self.watch(on);
                }
            }
            Out::Unanswered(node) => self.shared.unmet(node, &ErrorKind::TimedOut.into()),
            Out::Unheard(node) => self.shared.unheard(node),
        }
    }

    /// Waits until something happens, at most for `time`, and sees to it.
    fn wait(&mut self, listener: &TcpListener, time: Option<Duration>) {
        let time = time.into_iter().chain(self.full.then_some(FULL)).min();
        // A millisecond more: what is due then is due.
        let time = time.map(|time| time.as_millis().saturating_add(1).min(60_000) as u16);
        let mut there = [EpollEvent::empty(); SERVED];
        let count = self.watch.wait(&mut there, time.map_or(EpollTimeout::NONE, EpollTimeout::from));
        if std::mem::take(&mut self.full) {
            self.watch_calls(listener, EpollFlags::EPOLLIN);
        }
        let there = there.map(|event| event.data());
        let there = &there[..count.unwrap_or(0)]; // a signal
        if there.contains(&NEWS) {
            let _ = self.shared.lobby.news.read();
            let connected = std::mem::take(&mut *self.shared.lobby.connected());
            connected.into_iter().for_each(|(on, socket)| self.connected(on, socket));
        }
        there.iter().filter(|on| ![NEWS, CALLS].contains(on)).for_each(|on| self.serve(*on));
        // Who has said something is heard before the next one makes it leave.
        if there.contains(&CALLS) {
            self.accept(listener);
        }
    }

    /// What of the listener ends a sleep.
    fn watch_calls(&self, listener: &TcpListener, what: EpollFlags) {
        // It is there since the beginning, so this does not fail.
        let _ = self.watch.modify(listener, &mut EpollEvent::new(what, CALLS));
    }

    /// Keeps a connection.
    fn keep(&mut self, on: Connection, mut stream: Stream) {
        stream.watched = stream.waits_for();
        match self.watch.add(&stream.socket, EpollEvent::new(stream.watched, on)) {
            Ok(()) => drop(self.open.insert(on, stream)),
            Err(error) => self.broke(on, &error.into()),
        }
    }

    /// Has the next sleep end when a connection can go on.
    fn watch(&mut self, on: Connection) {
        let Some(stream) = self.open.get_mut(&on) else { return };
        let waits_for = stream.waits_for();
        if waits_for != std::mem::replace(&mut stream.watched, waits_for) {
            let watched = self.watch.modify(&stream.socket, &mut EpollEvent::new(waits_for, on));
            if let Err(error) = watched {
                self.broke(on, &error.into());
            }
        }
    }

    /// The other side speaks first.
    fn connected(&mut self, on: Connection, socket: io::Result<TcpStream>) {
        match socket.and_then(|socket| Stream::new(socket, self.shared.secret, Side::Caller)) {
            Ok(stream) => self.keep(on, stream),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                self.shared.with_core_in_lobby(|core| core.refused(on));
            }
            Err(error) => self.broke(on, &error),
        }
    }

    /// Somebody with the secret listens there.
    fn connected_to(&self, on: Connection) {
        let calls = self.shared.with_core_in_lobby(|core| {
            core.connected(on);
            core.calls(on)
        });
        calls.into_iter().for_each(|node| self.shared.complaints.met(node));
    }

    fn accept(&mut self, listener: &TcpListener) {
        let accepted = listener.accept().and_then(|(socket, from)| {
            Ok((Stream::new(socket, self.shared.secret, Side::Called)?, from.ip()))
        });
        match accepted {
            Ok((stream, from)) => {
                let on = self.shared.with_core_in_lobby(|core| core.accepted(from));
                self.keep(on, stream);
                self.serve(on); // its pass is there most often, so that it makes room for no stranger
            }
            Err(error) => {
                tracing::debug!("a call was not taken: {error}");
                self.full = is_full(&error);
                if self.full {
                    self.watch_calls(listener, EpollFlags::empty());
                }
            }
        }
    }

    /// Writes and reads as much as goes.
    fn serve(&mut self, on: Connection) {
        self.go_on(on);
        self.watch(on);
    }

    fn go_on(&mut self, on: Connection) {
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
            if !stream.passed {
                match take_pass(self.shared.secret, &mut stream.came) {
                    Ok(true) => stream.passed = true,
                    Ok(false) => break,
                    Err(error) => return self.broke(on, &error),
                }
                self.shared.with_core_in_lobby(|core| core.passed(on));
                continue;
            }
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
        let (calls, heard) = self.shared.with_core_in_lobby(|core| (core.calls(on), core.heard(on, body)));
        if let (Err(error), Some(stream)) = (heard, self.open.get_mut(&on)) {
            stream.closing = true;
            if let Some(node) = calls {
                return self.shared.unmet(node, &error);
            }
            // Whoever started the processes has to change something; without it nothing of this process goes there.
            match error.kind() {
                ErrorKind::Unsupported => {
                    self.shared.complaints.say(format!("no packets go to {}: {error}", stream.from()))
                }
                _ => tracing::warn!("a connection with {} ends: {error}", stream.from()),
            }
        }
    }

    fn broke(&mut self, on: Connection, error: &io::Error) {
        tracing::debug!("connection {on} is over: {error}");
        let stream = self.open.remove(&on);
        let calls = self.shared.with_core_in_lobby(|core| {
            let calls = core.calls(on);
            core.broke(on);
            calls
        });
        match (calls, stream) {
            (Some(node), _) => self.shared.unmet(node, error),
            // Another version, which hears so too. It has not proven to be of this network.
            (None, Some(stream)) if error.kind() == ErrorKind::Unsupported => {
                self.shared.complaints.say_of_stranger(format!("{} called: {error}", stream.from()));
            }
            _ => {}
        }
    }
}

/// Calls a node, on a thread: names are looked up, and a silent host is waited for.
fn call(shared: &Arc<Shared>, node: u16, on: Connection) {
    let own = shared.clone();
    let spawned = quiet::spawn("ggas-call", move || {
        let place = &own.places[usize::from(node)];
        let socket = connect(place, own.bounds.meeting).and_then(|mut socket| {
            // Here, since the lobby may have other things to do. It fits what a new connection takes.
            socket.write_all(&pass(own.secret)?)?;
            Ok(socket)
        });
        let socket = socket.inspect_err(|error| own.unmet(node, error));
        own.lobby.connected().push((on, socket));
        own.lobby.tell();
    });
    if let Err(error) = spawned {
        tracing::warn!("no thread to call node {node}: {error}");
        shared.with_core(|core| core.broke(on));
    }
}

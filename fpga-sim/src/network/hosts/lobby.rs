//! Where processes of a network of hosts meet: the sockets of their [meetings](super::meeting), on one thread.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ggas_clock::Clock;
use ggas_members::quiet;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};

use super::events::{Connection, Out};
use super::proof::{Side, pass, take_pass};
use super::shared::Shared;
use super::stream::Stream;
use ggas_members::meeting::{begin, begun, connect, is_full};

/// So long nobody is let in where that failed: most often the process may open no more files.
const FULL: Duration = Duration::from_millis(100);
/// Descriptors that are served behind one sleep, and calls that are taken: who makes room for them is closed behind that.
const SERVED: usize = 64;
const TAKEN: usize = 8;
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
        streams.obey_all(out);
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

/// A call to an address.
struct Call {
    node: u16,
    socket: TcpStream,
    address: SocketAddr,
}

struct Streams<'a> {
    shared: &'a Arc<Shared>,
    open: HashMap<Connection, Stream>,
    /// Calls that are not through.
    calls: HashMap<Connection, Call>,
    watch: Epoll,
    /// Whoever calls has to wait a moment.
    full: bool,
}

impl<'a> Streams<'a> {
    fn new(shared: &'a Arc<Shared>, listener: &TcpListener) -> io::Result<Streams<'a>> {
        let watch = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        watch.add(&shared.lobby.news, EpollEvent::new(EpollFlags::EPOLLIN, NEWS))?;
        watch.add(listener, EpollEvent::new(EpollFlags::EPOLLIN, CALLS))?;
        Ok(Streams { shared, open: HashMap::new(), calls: HashMap::new(), watch, full: false })
    }
}

impl Streams<'_> {
    fn obey_all(&mut self, out: Vec<Out>) {
        let mut said = Vec::new();
        for out in out {
            if let Out::Say(on, _) = out
                && said.last() != Some(&on)
            {
                said.push(on);
            }
            self.obey(out);
        }
        // Behind all that is said on a connection: the other side wakes once.
        said.into_iter().for_each(|on| self.flush(on));
    }

    fn flush(&mut self, on: Connection) {
        match self.open.get_mut(&on).map(Stream::write) {
            Some(Err(error)) => self.broke(on, &error),
            _ => {
                self.remove_if_over(on);
                self.watch(on);
            }
        }
    }

    fn obey(&mut self, out: Out) {
        match out {
            Out::Call(node, on) => self.call(node, on),
            Out::Say(on, body) => {
                if let Some(Err(error)) = self.open.get_mut(&on).map(|stream| stream.add(&body)) {
                    self.broke(on, &error);
                }
            }
            Out::Close(on) => {
                self.calls.remove(&on);
                if let Some(stream) = self.open.get_mut(&on) {
                    stream.closing = true;
                }
                self.remove_if_over(on);
                self.watch(on);
            }
            Out::Look => {}
            Out::Unanswered(node) => self.shared.unmet(node, &ErrorKind::TimedOut.into()),
            Out::Unheard(node) => self.shared.unheard(node),
        }
    }

    /// Calls a node. Where it has a name, that is looked up on a thread, which takes as long as it takes.
    fn call(&mut self, node: u16, on: Connection) {
        let Ok(address) = self.shared.places[usize::from(node)].parse() else {
            return call_by_name(self.shared, node, on);
        };
        let begun = begin(address).and_then(|socket| {
            self.watch.add(&socket, EpollEvent::new(EpollFlags::EPOLLOUT, on))?;
            Ok(socket)
        });
        match begun {
            Ok(socket) => drop(self.calls.insert(on, Call { node, socket, address })),
            Err(error) => self.not_through(node, on, error),
        }
    }

    /// A call is through, or not.
    fn go_through(&mut self, on: Connection, call: Call) {
        let Call { node, mut socket, address } = call;
        let through = begun(&socket, address).and_then(|()| socket.write_all(&pass(self.shared.secret)?));
        match through.and_then(|()| self.watch.delete(&socket).map_err(io::Error::from)) {
            Ok(()) => self.connected(on, Ok(socket)),
            Err(error) => self.not_through(node, on, error),
        }
    }

    fn not_through(&mut self, node: u16, on: Connection, error: io::Error) {
        self.shared.unmet(node, &error);
        self.connected(on, Err(error));
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
            let _ = (0..TAKEN).take_while(|_| self.accept(listener)).count();
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

    /// Of a connection that is closed all has been said.
    fn remove_if_over(&mut self, on: Connection) {
        if self.open.get(&on).is_some_and(|stream| stream.closing && stream.goes.is_empty()) {
            self.open.remove(&on);
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

    /// Takes the next call; false: there is none.
    fn accept(&mut self, listener: &TcpListener) -> bool {
        let accepted = listener.accept().and_then(|(socket, from)| {
            Ok((Stream::new(socket, self.shared.secret, Side::Called)?, from.ip()))
        });
        match accepted {
            Ok((stream, from)) => {
                let on = self.shared.with_core_in_lobby(|core| core.accepted(from));
                self.keep(on, stream);
                self.serve(on); // its pass is there most often, so that it makes room for no stranger
                true
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => false,
            Err(error) => {
                tracing::debug!("a call was not taken: {error}");
                self.full = is_full(&error);
                if self.full {
                    self.watch_calls(listener, EpollFlags::empty());
                }
                false
            }
        }
    }

    /// Writes and reads as much as goes.
    fn serve(&mut self, on: Connection) {
        if let Some(call) = self.calls.remove(&on) {
            return self.go_through(on, call);
        }
        self.go_on(on);
        self.watch(on);
    }

    fn go_on(&mut self, on: Connection) {
        let Some(stream) = self.open.get_mut(&on) else { return };
        if let Err(error) = stream.write() {
            return self.broke(on, &error);
        }
        if stream.closing {
            return self.remove_if_over(on);
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
fn call_by_name(shared: &Arc<Shared>, node: u16, on: Connection) {
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

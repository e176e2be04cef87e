//! Rank 0's hub: the place where the ranks of a job over hosts meet, hear of each other's ends, and do barriers and exchanges.
//!
//! One thread serves all ranks; each of those that call is first listened to on a thread of its own, [for a while](super::callers).

mod calls;
mod papers;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use ggas_clock::Clock;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};

use super::callers::Callers;
use super::frame::{FROM_RANK, FromHub, FromRank, Hello, Whereabouts, frame, take};
use super::shared::WINDOW;
use crate::meeting::bad;
use crate::quiet;
use crate::shape::Shape;
use papers::Papers;

/// So long nobody is let in where that failed: most often the process may open no more files.
const FULL_MS: u8 = 100;
/// Questions of a rank that does not hear the answers.
const ASKS_MAX: u32 = 256;
/// Reads of a rank in a row, before others have their turn.
const READS: usize = 16;
/// How long the end may take: others still get what was said before.
const FLUSH: Duration = Duration::from_secs(2);
const READ: usize = 64 << 10;

/// The hub's thread; it ends with this value.
pub(super) struct Hub {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    job: String,
    shape: Shape,
    secret: [u8; 16],
    news: EventFd,
    stop: AtomicBool,
    callers: Callers,
    came: Mutex<Vec<(Hello, Arc<TcpStream>)>>,
    /// Ranks that have come, so that none comes twice.
    taken: Mutex<Vec<Option<String>>>,
}

impl Hub {
    pub fn start(listener: TcpListener, job: &str, shape: Shape, secret: [u8; 16]) -> io::Result<Hub> {
        listener.set_nonblocking(true)?;
        let shared = Arc::new(Shared::new(job, shape, secret)?);
        let own = shared.clone();
        let thread = quiet::spawn("ggas-hub", move || Serving::new(own).run(&listener))?;
        Ok(Hub { shared, thread: Some(thread) })
    }

    /// A fork's copy: the thread is its parent's.
    pub fn forget(&mut self) {
        std::mem::forget(self.thread.take());
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        self.shared.stop.store(true, Ordering::Release);
        let _ = self.shared.news.write(1); // full: it will look
        let _ = thread.join();
    }
}

impl Shared {
    fn new(job: &str, shape: Shape, secret: [u8; 16]) -> io::Result<Shared> {
        Ok(Shared {
            job: job.to_owned(),
            shape,
            secret,
            news: EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?,
            stop: AtomicBool::new(false),
            callers: Callers::default(),
            came: Mutex::default(),
            taken: Mutex::new(vec![None; shape.processes() as usize]),
        })
    }
}

/// A rank that has come.
struct Rank {
    stream: Arc<TcpStream>,
    hello: Hello,
    came: Vec<u8>,
    /// What it has not been told yet, and how much of the first it has.
    out: VecDeque<Arc<[u8]>>,
    told: usize,
    /// Questions since it heard all.
    asks: u32,
}

impl Rank {
    /// What it says, in so many reads at most; what came before an error stays heard.
    fn hear(&mut self, reads: usize, heard: &mut Vec<FromRank>) -> io::Result<()> {
        let (mut bytes, mut over) = (vec![0; READ], false);
        for _ in 0..reads {
            match self.stream.as_ref().read(&mut bytes) {
                Ok(0) => over = true,
                Ok(len) => self.came.extend_from_slice(&bytes[..len]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            while let Some(said) = take(&mut self.came, FROM_RANK)? {
                heard.push(said);
            }
            if over {
                break;
            }
        }
        // Who says that it leaves ends its connection behind that.
        if over && !heard.contains(&FromRank::Leave) {
            Err(io::ErrorKind::UnexpectedEof.into())
        } else {
            Ok(())
        }
    }
}

/// What the thread has.
struct Serving {
    shared: Arc<Shared>,
    ranks: Vec<Option<Rank>>,
    gone: Vec<bool>,
    started: bool,
    /// The call that is under way, from 1; what ranks gave for it.
    call: u64,
    given: Vec<Option<Option<Vec<u8>>>>,
    /// Messages from one rank to another of which the latter has not said that it has them.
    under_way: HashMap<(u32, u32), u32>,
    papers: Papers,
    /// Whoever calls has to wait a moment.
    full: bool,
}

impl Serving {
    fn new(shared: Arc<Shared>) -> Serving {
        let size = shared.shape.processes() as usize;
        Serving {
            shared,
            ranks: (0..size).map(|_| None).collect(),
            gone: vec![false; size],
            started: false,
            call: 1,
            given: vec![None; size],
            under_way: HashMap::new(),
            papers: Papers::of(size),
            full: false,
        }
    }

    fn run(mut self, listener: &TcpListener) {
        while !self.shared.stop.load(Ordering::Acquire) {
            let (there, ranks) = self.sleep(Some(listener), PollTimeout::NONE);
            self.full = there && self.shared.accept(listener);
            self.enter_those_who_came();
            ranks.into_iter().for_each(|rank| self.serve(rank));
        }
        // Rank 0 leaves: what was said to the others before, and that, they still hear.
        let entered = self.call - u64::from(self.given[0].is_none());
        self.ranks[0] = None;
        self.tell_all(&FromHub::Gone { rank: 0, left: true, entered });
        let end = Clock::REAL.deadline(FLUSH);
        let owes = |serving: &Serving| serving.ranks.iter().flatten().any(|rank| !rank.out.is_empty());
        while owes(&self) && Clock::REAL.now() < end {
            let (_, ranks) = self.sleep(None, PollTimeout::from(20_u16));
            ranks.into_iter().for_each(|rank| self.serve(rank));
        }
    }

    /// Sleeps until something can be done: whether somebody calls, and ranks that said something or can be told more.
    fn sleep(&self, listener: Option<&TcpListener>, most: PollTimeout) -> (bool, Vec<usize>) {
        let (listener, most) = if self.full { (None, PollTimeout::from(FULL_MS)) } else { (listener, most) };
        let mut polled = vec![PollFd::new(self.shared.news.as_fd(), PollFlags::POLLIN)];
        polled.extend(listener.map(|listener| PollFd::new(listener.as_fd(), PollFlags::POLLIN)));
        let first = polled.len();
        let mut who = Vec::new();
        for (rank, of) in self.ranks.iter().enumerate().filter_map(|(rank, of)| Some((rank, of.as_ref()?))) {
            let out = if of.out.is_empty() { PollFlags::empty() } else { PollFlags::POLLOUT };
            polled.push(PollFd::new(of.stream.as_fd(), PollFlags::POLLIN | out));
            who.push(rank);
        }
        if poll(&mut polled, most).is_err() {
            return (false, Vec::new()); // a signal
        }
        let there: Vec<bool> = polled.iter().map(|fd| fd.any().unwrap_or(false)).collect();
        if there[0] {
            let _ = self.shared.news.read();
        }
        let ranks = who.into_iter().zip(&there[first..]).filter(|(_, there)| **there).map(|(rank, _)| rank);
        (listener.is_some() && there[1], ranks.collect())
    }

    fn enter_those_who_came(&mut self) {
        let came = std::mem::take(&mut *self.shared.came.lock().unwrap_or_else(PoisonError::into_inner));
        for (hello, stream) in came {
            let at = hello.rank as usize;
            let (came, out) = (Vec::new(), VecDeque::new());
            self.ranks[at] = Some(Rank { stream, hello, came, out, told: 0, asks: 0 });
        }
        if !self.started && self.ranks.iter().all(Option::is_some) {
            self.started = true;
            let start = self.whereabouts().map_or_else(FromHub::Refused, FromHub::Start);
            self.tell_all(&start);
        }
    }

    /// Where all ranks are, or why they cannot be one job.
    fn whereabouts(&self) -> Result<Vec<Whereabouts>, String> {
        let ranks: Vec<&Rank> = self.ranks.iter().flatten().collect();
        let shape = self.shared.shape;
        for node in 0..shape.nodes() as u16 {
            let mut of_node = shape.ranks_of(node).filter_map(|rank| ranks.get(rank as usize));
            let Some(first) = of_node.next() else { continue };
            if let Some(other) = of_node.find(|other| other.hello.token != first.hello.token) {
                return Err(format!(
                    "ranks {} and {} are both on node {node}, and on different hosts ({} and {}): a node is of one host, so \
                     start them with one rank on each node (--per-node 1, GGAS_PER_NODE=1), or place them otherwise",
                    first.hello.rank, other.hello.rank, first.hello.host, other.hello.host
                ));
            }
        }
        // Ranks of this host call it from the inside; others know this host as the address that they have called.
        let own = ranks.first().map_or(0, |rank| rank.hello.token);
        let inside = |rank: &Rank| rank.hello.token == own;
        let outside = ranks.iter().find(|rank| !inside(rank)).and_then(|rank| rank.stream.local_addr().ok());
        let address = |rank: &Rank| -> Option<IpAddr> {
            match inside(rank) {
                true => outside.map(|at| at.ip()).or_else(|| rank.stream.peer_addr().ok().map(|at| at.ip())),
                false => rank.stream.peer_addr().ok().map(|at| at.ip()),
            }
        };
        let about = |rank: &&Rank| {
            let address = address(rank).ok_or_else(|| format!("rank {} is gone", rank.hello.rank))?;
            // An address of the older kind in the form of the newer: a listener took both.
            let place = std::net::SocketAddr::new(address.to_canonical(), rank.hello.port).to_string();
            let Hello { token, ref host, nonce, .. } = rank.hello;
            Ok(Whereabouts { token, host: host.clone(), place, nonce })
        };
        ranks.iter().map(about).collect()
    }

    /// Tells a rank what it has not been told, and hears it: of one that cannot be told any more, all that it said before.
    fn serve(&mut self, rank: usize) {
        let told = self.tell(rank);
        let heard = self.hear(rank, if told.is_ok() { READS } else { usize::MAX });
        match heard.and_then(|left| if left { Ok(true) } else { told.map(|()| false) }) {
            Ok(false) => {}
            Ok(true) => self.part(rank, true),
            Err(error) => {
                tracing::debug!("rank {rank}: {error}");
                self.part(rank, false);
            }
        }
    }

    /// Whether the rank says that it leaves. What it said before it ended counts.
    fn hear(&mut self, rank: usize, reads: usize) -> io::Result<bool> {
        let Some(of) = &mut self.ranks[rank] else { return Ok(false) };
        let mut heard = Vec::new();
        let ended = of.hear(reads, &mut heard);
        for said in heard {
            match said {
                FromRank::Leave => return Ok(true),
                FromRank::Enter { call, bytes } if call == self.call => self.given[rank] = Some(bytes),
                FromRank::Enter { .. } => return Err(bad("it is in a call that is not under way")),
                FromRank::Who { call } => {
                    let ranks = (0..self.given.len()).filter(|other| self.is_missing(*other, call, rank));
                    let missing = FromHub::Missing { call, ranks: ranks.map(|rank| rank as u32).collect() };
                    let Some(of) = &mut self.ranks[rank] else { return Ok(false) };
                    of.asks += 1;
                    if of.asks > ASKS_MAX {
                        return Err(bad("it asks, and does not listen"));
                    }
                    of.out.push_back(frame(&missing).into());
                }
                FromRank::Tell { to, kind, body } => {
                    self.count_told(rank as u32, to)?;
                    self.pass(to, &FromHub::Told { from: rank as u32, kind, body });
                }
                FromRank::Papers(papers) => self.papers.hear(rank, papers)?,
                FromRank::Took { from, messages } => {
                    self.count_taken(from, rank as u32, messages)?;
                    self.pass(from, &FromHub::Took { by: rank as u32, messages });
                }
            }
        }
        self.end_call();
        self.tell_papers();
        ended.map(|()| false)
    }

    /// Tells all ranks what they gave, once all have entered the call.
    fn end_call(&mut self) {
        if self.given.iter().all(Option::is_some) {
            let given = std::mem::replace(&mut self.given, vec![None; self.ranks.len()]);
            let all = FromHub::All { call: self.call, bytes: given.into_iter().flatten().collect() };
            self.call += 1;
            self.tell_all(&all);
        }
    }

    /// Whether a rank has not entered a call; before the first one: not come.
    fn is_missing(&self, other: usize, call: u64, asks: usize) -> bool {
        match call {
            0 => other != asks && self.ranks[other].is_none(),
            _ => call == self.call && self.given[other].is_none(),
        }
    }

    /// A rank has a message for another one, which is to be there.
    fn count_told(&mut self, from: u32, to: u32) -> io::Result<()> {
        if self.ranks.get(to as usize).is_none_or(Option::is_none) {
            return Ok(());
        }
        let under_way = self.under_way.entry((from, to)).or_default();
        if *under_way >= WINDOW {
            return Err(bad("it sends more messages than it may"));
        }
        *under_way += 1;
        Ok(())
    }

    fn count_taken(&mut self, from: u32, by: u32, messages: u32) -> io::Result<()> {
        let under_way = self.under_way.get_mut(&(from, by)).filter(|under_way| **under_way >= messages);
        match under_way {
            Some(under_way) => *under_way -= messages,
            None if self.ranks.get(from as usize).is_none_or(Option::is_none) => {} // whose messages these were is gone
            None => return Err(bad("it has more messages than were sent")),
        }
        Ok(())
    }

    /// Passes something on to a rank; one that is gone does not get it. How much there is of it, windows bound.
    fn pass(&mut self, to: u32, said: &FromHub) {
        let to = to as usize;
        let Some(Some(of)) = self.ranks.get_mut(to) else { return };
        of.out.push_back(frame(said).into());
        // Who cannot be told is found when it is next looked at.
        let _ = self.tell(to);
    }

    fn tell_all(&mut self, said: &FromHub) {
        let frame: Arc<[u8]> = frame(said).into();
        for rank in 0..self.ranks.len() {
            if let Some(of) = &mut self.ranks[rank] {
                of.out.push_back(frame.clone());
                // Who cannot be told is found when it is next looked at.
                let _ = self.tell(rank);
            }
        }
    }

    fn tell(&mut self, rank: usize) -> io::Result<()> {
        let Some(of) = &mut self.ranks[rank] else { return Ok(()) };
        while let Some(first) = of.out.front() {
            match of.stream.as_ref().write(&first[of.told..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(len) if of.told + len == first.len() => {
                    of.out.pop_front();
                    of.told = 0;
                }
                Ok(len) => of.told += len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        of.asks = 0;
        Ok(())
    }

    /// A rank is gone: all others are told.
    fn part(&mut self, rank: usize, left: bool) {
        self.end_call(); // it may have entered it as the last one
        self.under_way.retain(|(from, to), _| ![*from, *to].contains(&(rank as u32)));
        self.ranks[rank] = None;
        self.gone[rank] = true;
        let entered = self.call - u64::from(self.given[rank].is_none());
        self.tell_all(&FromHub::Gone { rank: rank as u32, left, entered });
        self.tell_papers(); // the others may have waited for its own
    }
}

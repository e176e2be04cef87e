//! What a rank has heard of rank 0, and the thread that hears it.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use ggas_clock::Clock;

use super::GENERATION;
use super::frame::{FROM_HUB, FromHub, FromRank, Whereabouts, frame, take};
use crate::table::{MemberId, PeerState};

/// Whoever wants to know of ends.
pub(super) type Report = Box<dyn Fn(MemberId, PeerState) + Send + Sync>;

/// Whoever takes messages of ranks on other hosts: the rank, the kind, the message. It does not wait for anything.
pub(super) type Mail = Box<dyn Fn(MemberId, u16, Vec<u8>) + Send + Sync>;

/// What a transport hears of the hub.
#[derive(Debug)]
pub enum HubNews {
    /// What the transports of all ranks have [said](HubLine::publish), by rank. Of those that were gone before, nothing.
    Papers(Vec<Option<Vec<u8>>>),
    /// A rank has left, or is lost. Behind the end of rank 0 the hub tells of others for 2 s at most, while some have not heard all that was said before.
    Gone {
        /// It.
        rank: u32,
        /// In good order.
        left: bool,
    },
}

/// A transport's line to rank 0's hub.
pub struct HubLine(pub(super) Arc<Shared>);

impl HubLine {
    /// Has `told` hear news from now on, and of ends before. The first call counts.
    pub fn listen(&self, told: impl Fn(HubNews) + Send + Sync + 'static) {
        let before = {
            let state = self.0.state();
            let _ = self.0.line.set(Box::new(told));
            state.ends()
        };
        before.into_iter().for_each(|(rank, how)| self.0.tell_line(rank, how));
    }

    /// Tells the transports of all other ranks something, once: up to 5 KiB. They hear it when all ranks have done so.
    ///
    /// # Errors
    /// Rank 0 is gone.
    pub fn publish(&self, papers: &[u8]) -> io::Result<()> {
        self.0.say(&FromRank::Papers(papers.to_vec()))
    }
}

/// Messages to a rank that are on their way at most.
pub(super) const WINDOW: u32 = 256;
/// After so many the receiver says that it has got them.
const TOOK: u32 = WINDOW / 4;

/// How long the hub may take to say who is missing.
const WHO: Duration = Duration::from_secs(2);
/// Longest wait between two looks at the time.
const SLICE: Duration = Duration::from_secs(1);

pub(super) struct Shared {
    pub stream: TcpStream,
    pub state: Mutex<State>,
    pub news: Condvar,
    pub report: OnceLock<Report>,
    /// The transport's ear.
    pub line: OnceLock<Box<dyn Fn(HubNews) + Send + Sync>>,
    /// Whose turn it is to write to the hub.
    pub turn: Mutex<()>,
}

pub(super) struct State {
    /// What became of ranks.
    pub gone: Vec<Option<Gone>>,
    pub start: Option<Result<Vec<Whereabouts>, String>>,
    pub all: Option<(u64, Vec<Option<Vec<u8>>>)>,
    pub missing: Option<(u64, Vec<u32>)>,
    /// By rank: messages to it that are on their way, and those from it of which it has not heard.
    under_way: Vec<u32>,
    taken: Vec<u32>,
    mail: Option<Mail>,
    /// Messages that came before anyone took them.
    early: Vec<(u32, u16, Vec<u8>)>,
}

impl State {
    /// Of a job of so many.
    pub fn new(size: usize) -> State {
        State {
            gone: vec![None; size],
            start: None,
            all: None,
            missing: None,
            under_way: vec![0; size],
            taken: vec![0; size],
            mail: None,
            early: Vec::new(),
        }
    }

    /// Ranks that are gone.
    pub fn ends(&self) -> Vec<(u32, PeerState)> {
        let gone = |(rank, gone): (usize, &Option<Gone>)| gone.map(|gone| (rank as u32, gone.how));
        self.gone.iter().enumerate().filter_map(gone).collect()
    }
}

fn id(rank: u32) -> MemberId {
    MemberId { slot: rank, generation: GENERATION }
}

/// The end of a rank.
#[derive(Clone, Copy)]
pub(super) struct Gone {
    pub how: PeerState,
    /// The last call that it had entered; where rank 0 has not told of its end, nobody knows.
    entered: Option<u64>,
}

/// The first rank that has not entered a call and never will.
pub(super) fn lost_before(state: &State, call: u64) -> Option<u32> {
    let is_lost = |gone: &Option<Gone>| gone.and_then(|gone| gone.entered).is_some_and(|last| last < call);
    state.gone.iter().position(is_lost).map(|rank| rank as u32)
}

impl Shared {
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn lost_before(&self, call: u64) -> Option<u32> {
        lost_before(&self.state(), call)
    }

    /// Waits for news; `false`: time is over.
    pub fn wait(&self, state: MutexGuard<'_, State>, deadline: Instant) -> bool {
        let left = deadline.saturating_duration_since(Clock::REAL.now());
        if !left.is_zero() {
            drop(Clock::REAL.wait(&self.news, state, left.min(SLICE)));
        }
        !left.is_zero()
    }

    pub fn say(&self, said: &FromRank) -> io::Result<()> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        (&self.stream).write_all(&frame(said))
    }

    /// Sends a message to a rank, by way of rank 0. `Ok(false)`: it had no room until `deadline`.
    pub fn send(&self, to: u32, kind: u16, body: &[u8], deadline: Instant) -> io::Result<bool> {
        loop {
            let mut state = self.state();
            if [to, 0].iter().any(|rank| state.gone[*rank as usize].is_some()) {
                return Err(io::ErrorKind::NotConnected.into());
            }
            let under_way = &mut state.under_way[to as usize];
            if *under_way < WINDOW {
                *under_way += 1;
                drop(state);
                return self.say(&FromRank::Tell { to, kind, body: body.to_vec() }).map(|()| true);
            }
            if !self.wait(state, deadline) {
                return Ok(false);
            }
        }
    }

    /// From now on messages are taken, those that came before first.
    pub fn mail(&self, mail: Mail) {
        let mut state = self.state();
        for (from, kind, body) in std::mem::take(&mut state.early) {
            mail(id(from), kind, body);
        }
        state.mail = Some(mail);
    }

    /// A message came. Its sender hears of it now and then.
    fn told(&self, from: u32, kind: u16, body: Vec<u8>) {
        let mut state = self.state();
        match &state.mail {
            Some(mail) => mail(id(from), kind, body),
            None => state.early.push((from, kind, body)),
        }
        let Some(taken) = state.taken.get_mut(from as usize) else { return };
        *taken += 1;
        if *taken == TOOK {
            *taken = 0;
            drop(state);
            // Where rank 0 is gone, nobody waits for it.
            let _ = self.say(&FromRank::Took { from, messages: TOOK });
        }
    }

    /// Who has not entered a call, as rank 0 knows; nobody, where it does not answer.
    pub fn who(&self, call: u64) -> Vec<u32> {
        self.state().missing = None;
        if self.say(&FromRank::Who { call }).is_err() {
            return vec![0];
        }
        let deadline = Clock::REAL.deadline(WHO);
        loop {
            let mut state = self.state();
            if let Some((_, ranks)) = state.missing.take_if(|(of, _)| *of == call) {
                return ranks;
            }
            if !self.wait(state, deadline) {
                return vec![0];
            }
        }
    }

    /// The thread's life.
    pub fn run(&self) {
        let (mut came, mut bytes) = (Vec::new(), vec![0; 64 << 10]);
        loop {
            match (&self.stream).read(&mut bytes) {
                Ok(0) | Err(_) => break,
                Ok(len) => came.extend_from_slice(&bytes[..len]),
            }
            loop {
                match take(&mut came, FROM_HUB) {
                    Ok(Some(said)) => self.heard(said),
                    Ok(None) => break,
                    Err(error) => {
                        tracing::warn!("rank 0: {error}");
                        return self.over(0, PeerState::Lost, Some(0));
                    }
                }
            }
        }
        self.over(0, PeerState::Lost, Some(0));
    }

    fn heard(&self, said: FromHub) {
        let mut state = self.state();
        match said {
            FromHub::Start(ranks) if ranks.len() == state.gone.len() => state.start = Some(Ok(ranks)),
            FromHub::Start(_) => state.start = Some(Err("rank 0 is of another job".to_owned())),
            FromHub::Refused(why) => state.start = Some(Err(why)),
            FromHub::All { call, bytes } if bytes.len() == state.gone.len() => {
                state.all = Some((call, bytes))
            }
            FromHub::All { .. } => {}
            FromHub::Papers(papers) if papers.len() == state.gone.len() => {
                drop(state);
                if let Some(told) = self.line.get() {
                    told(HubNews::Papers(papers));
                }
                return;
            }
            FromHub::Papers(_) => {}
            FromHub::Missing { call, ranks } => state.missing = Some((call, ranks)),
            FromHub::Told { from, kind, body } => {
                drop(state);
                return self.told(from, kind, body);
            }
            FromHub::Took { by, messages } => {
                if let Some(under_way) = state.under_way.get_mut(by as usize) {
                    *under_way = under_way.saturating_sub(messages);
                }
            }
            FromHub::Gone { rank, left, entered } => {
                drop(state);
                return self.over(rank, if left { PeerState::Left } else { PeerState::Lost }, Some(entered));
            }
        }
        drop(state);
        self.news.notify_all();
    }

    /// A rank is gone; what is said of it first holds.
    pub fn over(&self, rank: u32, how: PeerState, entered: Option<u64>) {
        let is_news = {
            let mut state = self.state();
            let place = state.gone.get_mut(rank as usize);
            place.is_some_and(|place| {
                let is_news = place.is_none();
                let gone = place.get_or_insert(Gone { how, entered });
                gone.entered = gone.entered.or(entered);
                is_news
            })
        };
        self.news.notify_all();
        if is_news {
            self.tell(rank, how);
        }
    }

    pub fn tell(&self, rank: u32, how: PeerState) {
        if let Some(report) = self.report.get() {
            report(id(rank), how);
        }
        self.tell_line(rank, how);
    }

    fn tell_line(&self, rank: u32, how: PeerState) {
        if let Some(told) = self.line.get() {
            told(HubNews::Gone { rank, left: how == PeerState::Left });
        }
    }
}

//! What a rank has heard of rank 0, and the thread that hears it.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use ggas_clock::Clock;

use super::GENERATION;
use super::frame::{FROM_HUB, FromHub, FromRank, Whereabouts, frame, take};
use crate::table::{MemberId, PeerState};

/// Whoever wants to know of ends.
pub(super) type Report = Box<dyn Fn(MemberId, PeerState) + Send + Sync>;

/// How long the hub may take to say who is missing.
const WHO: Duration = Duration::from_secs(2);
/// Longest wait between two looks at the time.
const SLICE: Duration = Duration::from_secs(1);

pub(super) struct Shared {
    pub stream: TcpStream,
    pub state: Mutex<State>,
    pub news: Condvar,
    pub report: OnceLock<Report>,
}

pub(super) struct State {
    /// What became of ranks.
    pub gone: Vec<Option<Gone>>,
    pub start: Option<Result<Vec<Whereabouts>, String>>,
    pub all: Option<(u64, Vec<Option<Vec<u8>>>)>,
    pub missing: Option<(u64, Vec<u32>)>,
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
        (&self.stream).write_all(&frame(said))
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
            FromHub::Missing { call, ranks } => state.missing = Some((call, ranks)),
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
            report(MemberId { slot: rank, generation: GENERATION }, how);
        }
    }
}

//! The host posts, without kernels: a thread for each queue pair (thesis 5.5.4).

use std::sync::{Barrier, Mutex, PoisonError};

use ggas_clock::{Backoff, Clock, Ladder};
use ggas_verbs::layout::{GGAS_IBV_CMP_SWAP, GGAS_IBV_WRITE};
use ggas_verbs::{Operation, SendWork, Sges, Status};

use super::sides::{Pair, Side};
use super::{DEPTH, Load};
use crate::error::Doing;
use crate::setup::Setup;
use crate::stats::{calls, time_calls};
use crate::{BenchError, Options, Samples};

/// One queue pair as a thread of the host uses it.
pub(super) struct Poster<'a> {
    side: &'a Side,
    peer: &'a Side,
    pair: &'a Pair,
    number: u64,
    load: Load,
    options: &'a Options,
    pub posted: u64,
    pub done: u64,
}

impl<'a> Poster<'a> {
    pub fn new(
        (side, peer): (&'a Side, &'a Side),
        number: usize,
        load: Load,
        options: &'a Options,
    ) -> Poster<'a> {
        let pair = &side.pairs[number];
        Poster { side, peer, pair, number: number as u64, load, options, posted: 0, done: 0 }
    }

    /// Posts the next request, if there is room.
    pub fn post(&mut self) -> Result<bool, BenchError> {
        if self.posted - self.done >= DEPTH.into() {
            return Ok(false);
        }
        let (load, number) = (self.load, self.posted);
        let (round, k) = (number / u64::from(load.batch), number % u64::from(load.batch));
        let at = if load.is_write() { k * load.bytes } else { 0 };
        let (mr, to) = (&self.side.mr, self.peer.mr.remote());
        let source = mr.address() + load.source(self.number, round) + at;
        let (address, rkey) = (to.address + load.arrival(self.number) + at, to.rkey);
        let operation = match load.operation {
            GGAS_IBV_WRITE => Operation::Write { address, rkey, immediate: None },
            GGAS_IBV_CMP_SWAP => Operation::CompareSwap { address, rkey, compare: number, swap: number + 1 },
            _ => Operation::FetchAdd { address, rkey, add: 1 },
        };
        let work = SendWork::new(number, operation, Sges::one(source, load.bytes as u32, mr.lkey()));
        self.pair.qp.post_send(&work).doing("posting a request")?;
        self.posted += 1;
        Ok(true)
    }

    /// Takes completions. Whether there were some.
    pub fn take(&mut self) -> Result<bool, BenchError> {
        let before = self.done;
        while let Some(done) = self.pair.send.poll().doing("polling")? {
            if done.status != Status::Success {
                return Err(BenchError::Unsupported(format!("request {}: {:?}", done.id, done.status)));
            }
            self.done += 1;
        }
        Ok(self.done > before)
    }

    /// A round: its requests, and their completions.
    fn round(&mut self) -> Result<(), BenchError> {
        let end = self.posted + u64::from(self.load.batch);
        let mut waits = patience(self.options);
        while self.done < end {
            let mut moved = false;
            while self.posted < end && self.post()? {
                moved = true;
            }
            moved |= self.side.network().step() | self.take()?;
            wait(&mut waits, (self.options, moved), || {
                format!("request {} of {end} is not complete", self.done)
            })?;
        }
        Ok(())
    }
}

/// A wait for what the adapters do; a new one each time they did something.
pub(super) fn patience(options: &Options) -> Backoff<'static> {
    Backoff::on(Ladder::DEVICE, Clock::REAL, options.timeout)
}

/// Goes on waiting, or says what is late.
pub(super) fn wait(
    patience: &mut Backoff<'static>,
    (options, moved): (&Options, bool),
    what: impl FnOnce() -> String,
) -> Result<(), BenchError> {
    if moved {
        *patience = self::patience(options);
        return Ok(());
    }
    patience.pause().map_err(|_| BenchError::Unsupported(what()))
}

/// Times of rounds, and how many there were.
pub(super) fn run(setup: &Setup, sides: &[Side; 2], load: Load) -> Result<(Samples, u64), BenchError> {
    let options = setup.options;
    let ends = (&sides[0], &sides[1]);
    let meeting = Barrier::new(load.pairs as usize);
    let failed = Mutex::new(None);
    // Who has failed still comes to the meetings: others wait there.
    let fails = |result: Result<(), BenchError>| {
        if let Err(error) = result {
            failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    };
    let is_well = || failed.lock().unwrap_or_else(PoisonError::into_inner).is_none();
    let round = |poster: &mut Poster| {
        meeting.wait();
        if is_well() {
            fails(poster.round());
        }
        meeting.wait();
    };
    let rounds = calls(load.rounds);
    let samples = std::thread::scope(|scope| {
        for number in 1..load.pairs as usize {
            let round = &round;
            scope.spawn(move || {
                let mut poster = Poster::new(ends, number, load, options);
                (0..rounds).for_each(|_| round(&mut poster));
            });
        }
        let mut poster = Poster::new(ends, 0, load, options);
        time_calls::<BenchError>(load.rounds, |_| {
            round(&mut poster);
            Ok(())
        })
    })?;
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok((samples, rounds)),
    }
}

//! The daemon: takes calls from the rings of kernels, makes them, and answers (GMPI paper, III C). It never waits for one call while
//! others could go on: what MPI would wait for is started, and looked at each round.

mod collectives;
mod decode;
mod exchange;
mod handles;
mod losses;
mod port;
mod requests;
mod settle;
mod short;
mod waits;

use std::sync::Arc;
use std::time::Instant;

use ggas_clock::Clock;

use self::exchange::Exchange;
use self::handles::Handles;
use self::losses::Marks;
use self::port::Port;
use self::requests::Requests;
use self::short::Message;
use self::waits::{Asked, Wanted};
use crate::busy::Busy;
use crate::carrier::{Carrier, Comm, Operation, Place, Token, Win};
use crate::layout;
use crate::memory::Attached;
use crate::rings::{self, Attribute, Rings};
use crate::{Class, Config, GmpiError, Status};

/// The error class in an answer's first word.
const ERROR: u64 = (1 << layout::GMPI_ANSWER_ERROR_BITS) - 1;

/// What a call waits for.
#[derive(Debug)]
enum Waiting {
    /// An operation; whether its status is told.
    Operation(Token, bool),
    Requests(Asked),
    Exchange(Box<Exchange>),
    Message(Comm, Option<u32>, Option<i32>),
    /// Room for what it starts.
    Room(Box<Attribute>),
    /// A fence's flush; its barrier comes behind it.
    Fence(Token, Comm),
}

/// What has become of a call so far.
enum Outcome {
    Answer(Vec<u64>),
    Waits(Waiting),
}

/// What the daemon's thread has. Nothing of it waits.
pub(crate) struct Daemon {
    pub carrier: Box<dyn Carrier>,
    pub attached: Attached,
    pub comms: Handles<Comm>,
    pub wins: Handles<Win>,
    pub busy: Arc<Busy>,
    ports: Vec<Port>,
    requests: Requests,
    /// Where members that are dead are marked for kernels, and of how many the carrier knew at the last look.
    marks: Option<Marks>,
    losses: usize,
    config: Config,
    clock: Clock,
}

/// An answer: an error, or none; a flag; statuses.
fn answer(error: Option<Class>, flag: bool, statuses: &[Status]) -> Vec<u64> {
    let count = statuses.len() as u64;
    let first = error.map_or(0, |class| u64::from(class.0))
        | count << layout::GMPI_ANSWER_STATUSES_SHIFT
        | u64::from(flag) << layout::GMPI_ANSWER_FLAG_SHIFT;
    std::iter::once(first).chain(statuses.iter().flat_map(|status| status.words())).collect()
}

impl From<Result<Outcome, Class>> for Outcome {
    fn from(result: Result<Outcome, Class>) -> Outcome {
        result.unwrap_or_else(|class| Outcome::Answer(answer(Some(class), false, &[])))
    }
}

/// The other process has not taken enough yet: the call is made once it has, or gets `GMPI_ERR_NO_MEM`.
fn room_for(call: &Attribute) -> Outcome {
    Outcome::Waits(Waiting::Room(Box::new(*call)))
}

/// Buffer, count, type, rank, tag, communicator.
fn words(call: &Attribute) -> [u64; 6] {
    let [_, at, count, of, rank, tag, comm, ..] = call.elements;
    [at, count, of, rank, tag, comm]
}

fn done() -> Outcome {
    Outcome::Answer(answer(None, false, &[]))
}

impl Daemon {
    pub fn new(carrier: Box<dyn Carrier>, rings: Vec<Rings>, config: Config, busy: Arc<Busy>) -> Daemon {
        let ports = rings.into_iter().map(Port::new).collect();
        let (comms, wins, clock) = (Handles::of([0, 1]), Handles::of([]), config.clock.clone());
        let (attached, requests) = (Attached::default(), Requests::default());
        let (marks, losses) = (None, 0);
        Daemon { carrier, attached, comms, wins, busy, ports, requests, marks, losses, config, clock }
    }

    /// Looks at everything once; whether anything moved.
    pub fn round(&mut self) -> Result<bool, GmpiError> {
        let mut moved = self.carrier.progress();
        self.look_for_losses()?;
        self.requests.step_freed(&mut *self.carrier);
        for port in 0..self.ports.len() {
            moved |= self.serve(port)?;
        }
        Ok(moved)
    }

    fn serve(&mut self, port: usize) -> Result<bool, GmpiError> {
        if let Some((waiting, deadline)) = self.ports[port].waiting.take() {
            match self.go_on(port, waiting, deadline) {
                Outcome::Answer(words) => self.ports[port].answer(words)?,
                Outcome::Waits(waiting) => {
                    self.ports[port].waiting = Some((waiting, deadline));
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        let Some(call) = self.ports[port].rings.poll()? else { return Ok(false) };
        match self.make(port, &call) {
            Outcome::Answer(words) => self.ports[port].answer(words)?,
            Outcome::Waits(waiting) => {
                let deadline = self.clock.deadline(self.config.timeout);
                self.ports[port].waiting = Some((waiting, deadline));
            }
        }
        Ok(true)
    }

    /// Makes a call, and says meanwhile which.
    fn make(&mut self, port: usize, call: &Attribute) -> Outcome {
        self.busy.begin(port, call.function());
        let outcome = self.call(port, call).into();
        self.busy.end();
        self.ports[port].note(call, &outcome);
        outcome
    }

    fn call(&mut self, port: usize, call: &Attribute) -> Result<Outcome, Class> {
        let handle = requests::handle(port, call.number);
        let [_, first, second, ..] = call.elements;
        let function = call.function();
        if rings::arguments(call.elements[0], || first).is_none() {
            return Err(Class::CALL);
        }
        match function {
            layout::GMPI_CALL_ISEND | layout::GMPI_CALL_IRECV => self.begin(call, handle),
            layout::GMPI_CALL_SEND_INIT | layout::GMPI_CALL_RECV_INIT => self.prepare(call, handle),
            layout::GMPI_CALL_START | layout::GMPI_CALL_STARTALL => self.begin_again(call),
            layout::GMPI_CALL_REQUEST_FREE => self.requests.free(first).map(|()| done()),
            layout::GMPI_CALL_SEND => match self.message(words(call), call.carried(7), false)? {
                Some(message) if !self.carrier.has_room(&message.operation) => Ok(room_for(call)),
                message => self.pass(message, false),
            },
            layout::GMPI_CALL_RECV => self.pass(self.message(words(call), call.carried(7), true)?, true),
            layout::GMPI_CALL_SENDRECV => self.exchange(call),
            layout::GMPI_CALL_WAIT => Ok(Outcome::Waits(Waiting::Requests(Asked::one(Wanted::All, first)))),
            layout::GMPI_CALL_WAITALL => self.wait_for(Wanted::All, call),
            layout::GMPI_CALL_WAITANY => self.wait_for(Wanted::Any, call),
            layout::GMPI_CALL_WAITSOME => self.wait_for(Wanted::Some, call),
            layout::GMPI_CALL_TEST => Ok(self.look_at(port, Asked::one(Wanted::All, first), None)),
            layout::GMPI_CALL_TESTALL => Ok(self.look_at(port, self.asked(Wanted::All, call)?, None)),
            layout::GMPI_CALL_TESTANY => Ok(self.look_at(port, self.asked(Wanted::Any, call)?, None)),
            layout::GMPI_CALL_TESTSOME => Ok(self.look_at(port, self.asked(Wanted::Some, call)?, None)),
            layout::GMPI_CALL_GET_STATUS => Ok(self.look_at(port, self.asked(Wanted::Look, call)?, None)),
            layout::GMPI_CALL_PROBE => {
                let (comm, from, tag) = self.wanted(call)?;
                Ok(Outcome::Waits(Waiting::Message(comm, from, tag)))
            }
            layout::GMPI_CALL_IPROBE => {
                let (comm, from, tag) = self.wanted(call)?;
                let found = self.carrier.probe(comm, from, tag)?;
                Ok(Outcome::Answer(answer(None, found.is_some(), found.as_slice())))
            }
            layout::GMPI_CALL_BARRIER
            | layout::GMPI_CALL_BCAST
            | layout::GMPI_CALL_REDUCE
            | layout::GMPI_CALL_ALLGATHER
            | layout::GMPI_CALL_ALLTOALL
            | layout::GMPI_CALL_GATHER
            | layout::GMPI_CALL_SCATTER => self.run(&self.collective(call, function)?),
            layout::GMPI_CALL_ALLREDUCE => {
                let operation = self.collective(call, function)?;
                let message = self.carry(operation, call.carried(7))?;
                self.pass(Some(message), false)
            }
            layout::GMPI_CALL_IBARRIER
            | layout::GMPI_CALL_IBCAST
            | layout::GMPI_CALL_IREDUCE
            | layout::GMPI_CALL_IALLREDUCE
            | layout::GMPI_CALL_IALLGATHER
            | layout::GMPI_CALL_IALLTOALL
            | layout::GMPI_CALL_IGATHER
            | layout::GMPI_CALL_ISCATTER => self.begin_collective(call, function, handle),
            layout::GMPI_CALL_PUT | layout::GMPI_CALL_GET => self.start_one_sided(call),
            layout::GMPI_CALL_WIN_FLUSH => self.run(&self.flush(first, second)?),
            layout::GMPI_CALL_WIN_FENCE => self.fence(second),
            layout::GMPI_CALL_COMM_PLACE => {
                let (_, Place { rank, size }) = self.comm(first)?;
                Ok(Outcome::Answer(vec![0, u64::from(rank) | u64::from(size) << 32]))
            }
            layout::GMPI_CALL_ECHO => Ok(done()),
            _ => Err(Class::CALL),
        }
    }

    fn wait_for(&self, wanted: Wanted, call: &Attribute) -> Result<Outcome, Class> {
        Ok(Outcome::Waits(Waiting::Requests(self.asked(wanted, call)?)))
    }

    fn begin(&mut self, call: &Attribute, handle: u64) -> Result<Outcome, Class> {
        let receives = call.function() == layout::GMPI_CALL_IRECV;
        let (what, place) = (if receives { "receive" } else { "send" }, call.elements[7]);
        if self.requests.is_full() {
            self.requests.refuse(handle);
            return Err(Class::NO_MEM);
        }
        let started = match self.message(words(call), call.carried(8), receives) {
            Ok(None) => {
                self.requests.add_over(handle, place, what);
                return Ok(done());
            }
            Ok(Some(message)) if !self.carrier.has_room(&message.operation) => return Ok(room_for(call)),
            Ok(Some(message)) => message.start(&mut *self.carrier),
            Err(class) => Err(class),
        };
        self.requests.add(handle, place, what, started);
        started.map(|_| done())
    }

    fn prepare(&mut self, call: &Attribute, handle: u64) -> Result<Outcome, Class> {
        let receives = call.function() == layout::GMPI_CALL_RECV_INIT;
        let what = if receives { "persistent receive" } else { "persistent send" };
        if self.requests.is_full() {
            self.requests.refuse(handle);
            return Err(Class::NO_MEM);
        }
        let message =
            self.message(words(call), call.carried(8), receives).and_then(|message| match message {
                // What is sent then is there when it is started.
                Some(message) if message.is_carried() => Err(Class::CALL),
                message => Ok(message),
            });
        let error = message.as_ref().err().copied();
        let message = message.and_then(|message| message.ok_or(Class::OTHER));
        self.requests.add_persistent(handle, what, message);
        error.map_or(Ok(done()), Err)
    }

    /// Persistent requests. All that can begin do, whatever is wrong with others.
    fn begin_again(&mut self, call: &Attribute) -> Result<Outcome, Class> {
        let handles = self.started(call)?;
        if !handles.iter().all(|handle| self.requests.has_room(*handle, &*self.carrier)) {
            return Ok(room_for(call));
        }
        let mut start = |handle: &u64| self.requests.start(*handle, &mut *self.carrier).err();
        let errors: Vec<Class> = handles.iter().filter_map(&mut start).collect();
        errors.first().map_or(Ok(done()), |class| Err(*class))
    }

    /// What START and STARTALL name.
    fn started(&self, call: &Attribute) -> Result<Vec<u64>, Class> {
        match call.function() {
            layout::GMPI_CALL_START => Ok(vec![call.elements[1]]),
            _ => self.listed(call),
        }
    }

    /// An operation that the call waits for.
    fn run(&mut self, operation: &Operation) -> Result<Outcome, Class> {
        Ok(Outcome::Waits(Waiting::Operation(self.carrier.start(operation)?, false)))
    }

    /// A message that the call waits for; with nobody it is over.
    fn pass(&mut self, message: Option<Message>, tells: bool) -> Result<Outcome, Class> {
        match message {
            Some(message) => {
                Ok(Outcome::Waits(Waiting::Operation(message.start(&mut *self.carrier)?, tells)))
            }
            None if tells => Ok(Outcome::Answer(answer(None, false, &[Status::NOBODY]))),
            None => Ok(done()),
        }
    }

    /// A put or get: a flush waits for it. One that failed is told now.
    fn start_one_sided(&mut self, call: &Attribute) -> Result<Outcome, Class> {
        if let Some(operation) = self.one_sided(call)? {
            if !self.carrier.has_room(&operation) {
                return Ok(room_for(call));
            }
            let token = self.carrier.start(&operation)?;
            match self.carrier.test(token) {
                Some(ended) => ended.map(drop)?,
                None => self.carrier.forget(token),
            }
        }
        Ok(done())
    }

    fn fence(&mut self, win: u64) -> Result<Outcome, Class> {
        let operation = self.flush(layout::GMPI_ALL_RANKS.into(), win)?;
        let comm = self.wins.get(win).and_then(|win| self.carrier.window_comm(win)).ok_or(Class::WIN)?;
        Ok(Outcome::Waits(Waiting::Fence(self.carrier.start(&operation)?, comm)))
    }

    /// Looks at what a call waits for.
    fn go_on(&mut self, port: usize, waiting: Waiting, deadline: Instant) -> Outcome {
        let result = match waiting {
            Waiting::Operation(token, tells) => match self.carrier.test(token) {
                Some(ended) => {
                    let status = ended.ok().filter(|_| tells);
                    let words = answer(ended.err(), false, status.as_slice());
                    Ok(Outcome::Answer(short::bring(words, self.carrier.landed(token))))
                }
                None if self.is_over(deadline) => {
                    self.carrier.forget(token);
                    Err(Class::TIMEOUT)
                }
                None => Ok(Outcome::Waits(Waiting::Operation(token, tells))),
            },
            Waiting::Fence(token, comm) => match self.carrier.test(token) {
                Some(Ok(_)) => self.run(&Operation::Barrier { comm }),
                Some(Err(class)) => Err(class),
                None if self.is_over(deadline) => {
                    self.carrier.forget(token);
                    Err(Class::TIMEOUT)
                }
                None => Ok(Outcome::Waits(Waiting::Fence(token, comm))),
            },
            Waiting::Message(comm, from, tag) => match self.carrier.probe(comm, from, tag) {
                Ok(Some(status)) => Ok(Outcome::Answer(answer(None, false, &[status]))),
                Ok(None) if self.is_over(deadline) => Err(Class::TIMEOUT),
                Ok(None) => Ok(Outcome::Waits(Waiting::Message(comm, from, tag))),
                Err(class) => Err(class),
            },
            Waiting::Requests(asked) => return self.look_at(port, asked, Some(deadline)),
            Waiting::Exchange(exchange) => return self.go_on_exchange(*exchange, deadline),
            Waiting::Room(call) if self.is_over(deadline) => {
                match call.function() {
                    layout::GMPI_CALL_ISEND => {
                        let handle = requests::handle(port, call.number);
                        self.requests.add(handle, call.elements[7], "send", Err(Class::NO_MEM));
                    }
                    layout::GMPI_CALL_START | layout::GMPI_CALL_STARTALL => {
                        let handles = self.started(&call).unwrap_or_default();
                        handles.iter().for_each(|handle| self.requests.fail(*handle, Class::NO_MEM));
                    }
                    _ => {}
                }
                let refused = Outcome::from(Err(Class::NO_MEM));
                self.ports[port].note(&call, &refused);
                return refused;
            }
            Waiting::Room(call) => Ok(self.make(port, &call)),
        };
        result.into()
    }

    fn is_over(&self, deadline: Instant) -> bool {
        self.clock.until(deadline).is_zero()
    }
}

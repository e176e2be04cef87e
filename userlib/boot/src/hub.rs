//! The host's side of job start: seats the members as they say hello, then introduces everyone to everyone.
//!
//! Runs in a thread of the launcher, or of rank 0's process. It serves the start only; afterwards nobody needs it.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use extoll_sim::process::{Arena, Inbox, JobSegment, Shape};
use nix::poll::{PollFd, PollFlags};
use nix::sys::socket::sockopt::SockType as TypeOption;
use nix::sys::socket::{SockType, getsockopt};

use crate::channel::{Channel, WireError, poll_until};
use crate::protocol::{FromHost, Hello, PEER_FDS, PEERS_PER_MESSAGE, Refusal, VERSION};
use crate::rendezvous::Listener;

/// A connection that has not said hello in this time makes room for others.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
/// Connections beyond one per rank that may wait with their hello at once.
pub(crate) const STRANGERS: usize = 64;

/// What a host knows about the job.
pub(crate) struct Hub {
    pub(crate) shape: Shape,
    pub(crate) name: String,
    /// How long to wait from the first hello on.
    pub(crate) timeout: Duration,
    /// Members end when the process behind this pidfd does.
    pub(crate) guardian: Option<OwnedFd>,
    /// What became of a rank whose connection ended.
    pub(crate) fate: Box<dyn Fn(u32) -> String + Send>,
}

/// A connection without a seat.
pub(crate) struct Guest {
    pub(crate) channel: Channel,
    /// The rank as which the launcher started it.
    pub(crate) started_as: Option<u32>,
    pub(crate) until: Option<Instant>,
}

/// How the start ended where nothing was wrong.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// All have joined.
    Complete,
    /// Every process ended without having joined: no programs of a job.
    NobodyCame,
    /// The host was told to stop.
    Stopped,
}

struct Seat {
    channel: Channel,
    fds: Vec<OwnedFd>,
}

struct Hall<'a> {
    hub: &'a Hub,
    guests: Vec<Guest>,
    seats: Vec<Option<Seat>>,
    /// Ranks whose processes ended without a hello.
    absent: Vec<u32>,
    deadline: Option<Instant>,
}

impl Hub {
    /// Seats and introduces everyone. `stop` ends it when it becomes readable or its other side is closed.
    pub(crate) fn run(
        self,
        listener: Option<Listener>,
        guests: Vec<Guest>,
        stop: Option<BorrowedFd<'_>>,
    ) -> Result<Ended, Refusal> {
        let seats = (0..self.shape.processes()).map(|_| None).collect();
        let mut hall = Hall { hub: &self, guests, seats, absent: Vec::new(), deadline: None };
        let ended = hall.fill(listener.as_ref(), stop);
        // Nobody else is expected: the names disappear before the first member can end.
        drop(listener);
        match ended {
            Ok(Ended::Complete) => hall.introduce().map(|()| Ended::Complete),
            Ok(other) => Ok(other),
            Err(refusal) => {
                hall.refuse_all(&refusal);
                Err(refusal)
            }
        }
    }
}

impl Hall<'_> {
    fn fill(&mut self, listener: Option<&Listener>, stop: Option<BorrowedFd<'_>>) -> Result<Ended, Refusal> {
        let host_failed = |error: std::io::Error| Refusal::Host { what: error.to_string() };
        loop {
            if self.seats.iter().all(Option::is_some) {
                return Ok(Ended::Complete);
            }
            if listener.is_none() && self.guests.is_empty() {
                return Ok(Ended::NobodyCame);
            }
            let room = self.guests.len() < self.seats.len() + STRANGERS;
            let door = listener.filter(|_| room);
            let ready = self.wait(door, stop).map_err(host_failed)?;
            if ready.stop {
                return Ok(Ended::Stopped);
            }
            if ready.door
                && let Some(channel) = door.map(Listener::accept).transpose().map_err(host_failed)?.flatten()
            {
                let until = Some(Instant::now() + HELLO_TIMEOUT);
                self.guests.push(Guest { channel, started_as: None, until });
            }
            self.check_seats()?;
            self.hear_guests()?;
            self.check_absent(listener.is_some())?;
            self.check_time()?;
        }
    }

    /// Waits until something happens; guests and seats are then asked in turn, without blocking.
    fn wait(&self, door: Option<&Listener>, stop: Option<BorrowedFd<'_>>) -> std::io::Result<Ready> {
        let mut fds = Vec::with_capacity(self.guests.len() + self.seats.len() + 2);
        let watch = |fd| PollFd::new(fd, PollFlags::POLLIN);
        fds.extend(stop.map(watch));
        fds.extend(door.map(|door| watch(door.as_fd())));
        fds.extend(self.guests.iter().map(|guest| watch(guest.channel.as_fd())));
        fds.extend(self.seats.iter().flatten().map(|seat| watch(seat.channel.as_fd())));
        let deadline = self.guests.iter().filter_map(|guest| guest.until).chain(self.deadline).min();
        poll_until(&mut fds, deadline)?;
        let happened = |at: usize| fds.get(at).and_then(PollFd::any).unwrap_or(false);
        let first = usize::from(stop.is_some());
        Ok(Ready { stop: stop.is_some() && happened(0), door: door.is_some() && happened(first) })
    }

    /// A seated member says nothing more: anything from it, above all its end, ends the start.
    fn check_seats(&mut self) -> Result<(), Refusal> {
        for (rank, seat) in (0..).zip(&self.seats) {
            let Some(seat) = seat else { continue };
            match seat.channel.try_receive::<Hello>() {
                Err(WireError::Timeout) => {}
                Err(_) => return Err(Refusal::Gone { rank, how: (self.hub.fate)(rank) }),
                Ok(_) => return Err(Refusal::Gone { rank, how: "said hello twice".into() }),
            }
        }
        Ok(())
    }

    fn hear_guests(&mut self) -> Result<(), Refusal> {
        for guest in std::mem::take(&mut self.guests) {
            let refusal = match guest.channel.try_receive::<Hello>() {
                Err(WireError::Timeout) => {
                    self.guests.push(guest);
                    continue;
                }
                Err(WireError::Closed) => match guest.started_as {
                    // Without a launcher, somebody who looked in and went away: no rank is known by that.
                    None => continue,
                    Some(rank) => {
                        self.absent.push(rank);
                        continue;
                    }
                },
                Err(WireError::Version { theirs }) => Refusal::Version { ours: VERSION, theirs },
                Err(error) => Refusal::Malformed { what: error.to_string() },
                Ok((hello, fds)) => match self.check(&guest, &hello, &fds) {
                    Ok(()) => {
                        self.seat(hello.rank, Seat { channel: guest.channel, fds });
                        continue;
                    }
                    Err(refusal) => refusal,
                },
            };
            tracing::warn!("job {}: a process was refused: {refusal}", self.hub.name);
            let _ = guest.channel.try_send(&FromHost::Refused(refusal.clone()), &[]);
            // Nobody else can take the place of a process that the launcher started.
            if let Some(rank) = guest.started_as {
                return Err(Refusal::Gone { rank, how: format!("was refused ({refusal})") });
            }
        }
        Ok(())
    }

    /// That a program ends without joining is an error once another waits for it: a launcher may start any program.
    fn check_absent(&self, others_may_come: bool) -> Result<(), Refusal> {
        let waited_for = others_may_come || self.seats.iter().any(Option::is_some);
        match self.absent.first() {
            Some(&rank) if waited_for => Err(Refusal::Gone { rank, how: (self.hub.fate)(rank) }),
            _ => Ok(()),
        }
    }

    fn seat(&mut self, rank: u32, seat: Seat) {
        self.deadline.get_or_insert_with(|| Instant::now() + self.hub.timeout);
        self.seats[rank as usize] = Some(seat);
    }

    fn check(&self, guest: &Guest, hello: &Hello, fds: &[OwnedFd]) -> Result<(), Refusal> {
        let (size, per_node) = (self.hub.shape.processes(), self.hub.shape.per_node());
        let rank = hello.rank;
        if (hello.size, hello.per_node) != (size, per_node) {
            let (its_size, its_per_node) = (hello.size, hello.per_node);
            return Err(Refusal::Shape { size, per_node, its_size, its_per_node });
        }
        if rank >= size {
            return Err(Refusal::NoSuchRank { rank, size });
        }
        if let Some(started_as) = guest.started_as.filter(|started_as| *started_as != rank) {
            return Err(Refusal::OtherRank { started_as, says: rank });
        }
        if self.seats[rank as usize].is_some() {
            return Err(Refusal::RankTaken { rank });
        }
        check_fds(fds, self.hub.shape).map_err(|what| Refusal::Malformed { what })
    }

    fn check_time(&mut self) -> Result<(), Refusal> {
        let now = Instant::now();
        self.guests.retain(|guest| guest.until.is_none_or(|until| now < until));
        if self.deadline.is_none_or(|deadline| now < deadline) {
            return Ok(());
        }
        let missing =
            (0..).zip(&self.seats).filter(|(_, seat)| seat.is_none()).map(|(rank, _)| rank).collect();
        Err(Refusal::Missing { ranks_missing: missing, waited: self.hub.timeout })
    }

    /// Best effort: whoever does not hear it sees the connection end.
    fn refuse_all(&self, refusal: &Refusal) {
        let message = FromHost::Refused(refusal.clone());
        let waiting = self.seats.iter().flatten().map(|seat| &seat.channel);
        for channel in waiting.chain(self.guests.iter().map(|guest| &guest.channel)) {
            let _ = channel.try_send(&message, &[]);
        }
    }

    /// Everyone gets the job segment and the descriptors of everyone else. A member that ends now is noticed by its
    /// peers, as it would be later.
    fn introduce(&self) -> Result<(), Refusal> {
        let failed = |error: std::io::Error| Refusal::Host { what: error.to_string() };
        let (_segment, fd) = JobSegment::create(self.hub.shape).map_err(failed)?;
        let mut first: Vec<BorrowedFd<'_>> = vec![fd.as_fd()];
        first.extend(self.hub.guardian.as_ref().map(AsFd::as_fd));
        let start = FromHost::Start { name: self.hub.name.clone(), guarded: self.hub.guardian.is_some() };
        let deadline = Instant::now() + self.hub.timeout;
        for (rank, seat) in self.seats.iter().flatten().enumerate() {
            let sent = seat
                .channel
                .send(&start, &first, deadline)
                .and_then(|()| self.send_peers(rank, seat, deadline));
            if let Err(error) = sent {
                tracing::warn!("job {}: rank {rank} was not introduced to its peers: {error}", self.hub.name);
            }
        }
        Ok(())
    }

    fn send_peers(&self, to: usize, seat: &Seat, deadline: Instant) -> Result<(), WireError> {
        let others: Vec<(usize, &Seat)> =
            self.seats.iter().flatten().enumerate().filter(|(rank, _)| *rank != to).collect();
        for part in others.chunks(PEERS_PER_MESSAGE) {
            let ranks = part.iter().map(|(rank, _)| *rank as u32).collect();
            let fds: Vec<BorrowedFd<'_>> =
                part.iter().flat_map(|(_, seat)| seat.fds.iter().map(AsFd::as_fd)).collect();
            seat.channel.send(&FromHost::Peers(ranks), &fds, deadline)?;
        }
        Ok(())
    }
}

struct Ready {
    stop: bool,
    door: bool,
}

/// A hello brings what it must: a process, two sealed memories, a socket that keeps messages apart.
fn check_fds(fds: &[OwnedFd], shape: Shape) -> Result<(), String> {
    let [process, inbox, arena, mailbox] = fds else {
        return Err(format!("it came with {} descriptors instead of {PEER_FDS}", fds.len()));
    };
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", process.as_raw_fd()));
    if !info.is_ok_and(|info| info.lines().any(|line| line.starts_with("Pid:"))) {
        return Err("its first descriptor is no process".into());
    }
    // One that its peers cannot use would fail them all.
    Inbox::check(inbox.as_fd(), shape).map_err(|error| error.to_string())?;
    Arena::check(arena.as_fd()).map_err(|error| error.to_string())?;
    match getsockopt(mailbox, TypeOption) {
        Ok(SockType::SeqPacket) => Ok(()),
        _ => Err("its mailbox is no socket for messages".into()),
    }
}

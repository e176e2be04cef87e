//! Who calls rank 0, and has not proven yet what it is: anybody. Each is listened to for a few seconds in all. Where there are too many one
//! is cut off: of those from whom nothing has come that was not listened to, since a rank says at once what it is, the oldest of
//! the host that has most of them. Who has proven to be a rank makes room for ranks alone.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ggas_clock::Clock;
use rustix::net::{RecvFlags, recv};

use crate::meeting::makes_room;

/// Callers that are listened to at a time.
const MOST: usize = 64;
/// The same of those that have said something with the secret of the job: ranks, or who plays again what a rank has said.
const PROVEN_MOST: usize = 256;

/// See the module's description.
#[derive(Default)]
pub(super) struct Callers(Mutex<State>);

#[derive(Default)]
struct State {
    last: u64,
    /// Oldest first.
    strangers: VecDeque<Caller>,
    proven: VecDeque<Caller>,
}

struct Caller {
    number: u64,
    from: IpAddr,
    stream: Arc<TcpStream>,
}

impl Caller {
    /// Whether nothing is there to be heard of it.
    fn is_silent(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        !recv(&self.stream, &mut [0_u8; 1], flags).is_ok_and(|(_, len)| len > 0)
    }
}

/// Cuts one off: whoever listens to it hears that.
fn cut_off(callers: &mut VecDeque<Caller>, at: usize) {
    if let Some(caller) = callers.remove(at) {
        let _ = caller.stream.shutdown(Shutdown::Both);
    }
}

impl State {
    /// Which of the strangers makes room.
    fn makes_room(&self) -> Option<usize> {
        let silent: Vec<usize> =
            (0..self.strangers.len()).filter(|at| self.strangers[*at].is_silent()).collect();
        let of_silent = makes_room(silent.iter().map(|at| self.strangers[*at].from));
        // Where all have spoken, they are about to be heard.
        of_silent.map(|at| silent[at]).or_else(|| makes_room(self.strangers.iter().map(|caller| caller.from)))
    }
}

impl Callers {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more: its number.
    pub fn add(&self, stream: &Arc<TcpStream>, from: IpAddr) -> u64 {
        let state = &mut *self.state();
        // Before this one is among them, which has had no time to speak.
        if state.strangers.len() >= MOST
            && let Some(at) = state.makes_room()
        {
            cut_off(&mut state.strangers, at);
        }
        state.last += 1;
        state.strangers.push_back(Caller { number: state.last, from, stream: stream.clone() });
        state.last
    }

    /// It has said something with the secret.
    pub fn has_proven(&self, number: u64) {
        let state = &mut *self.state();
        let at = state.strangers.iter().position(|caller| caller.number == number);
        if let Some(caller) = at.and_then(|at| state.strangers.remove(at)) {
            state.proven.push_back(caller);
            if state.proven.len() > PROVEN_MOST {
                cut_off(&mut state.proven, 0);
            }
        }
    }

    /// It is none any more.
    pub fn remove(&self, number: u64) {
        let state = &mut *self.state();
        state.strangers.retain(|caller| caller.number != number);
        state.proven.retain(|caller| caller.number != number);
    }
}

/// A connection that is used for so long in all, however often.
pub(super) struct Timed<'a> {
    stream: &'a TcpStream,
    end: Instant,
}

impl<'a> Timed<'a> {
    pub fn new(stream: &'a TcpStream, time: Duration) -> Timed<'a> {
        Timed { stream, end: Clock::REAL.deadline(time) }
    }

    fn left(&self) -> io::Result<Duration> {
        let left = Clock::REAL.until(self.end);
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

/// What the system says of time that is over.
fn in_time(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::WouldBlock { io::ErrorKind::TimedOut.into() } else { error }
}

impl Read for Timed<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        self.stream.read(bytes).map_err(in_time)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        self.stream.write(bytes).map_err(in_time)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener};

    fn pair() -> (TcpStream, Arc<TcpStream>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let caller = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (caller, Arc::new(listener.accept().unwrap().0))
    }

    const OWN: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 9));

    fn is_cut(stream: &TcpStream) -> bool {
        stream.set_nonblocking(true).unwrap();
        let mut stream = stream;
        stream.read(&mut [0]).is_ok_and(|len| len == 0)
    }

    #[test]
    fn the_oldest_makes_room() {
        let callers = Callers::default();
        let all: Vec<_> = (0..MOST + 2).map(|_| pair()).collect();
        let numbers: Vec<u64> = all.iter().map(|(_, stream)| callers.add(stream, OWN)).collect();
        assert_eq!(callers.state().strangers.len(), MOST);
        let cut: Vec<bool> = all.iter().map(|(_, stream)| is_cut(stream)).collect();
        assert_eq!(cut.iter().take_while(|cut| **cut).count(), 2);
        assert_eq!(cut.iter().filter(|cut| **cut).count(), 2);
        numbers.iter().for_each(|number| callers.remove(*number));
        assert!(callers.state().strangers.is_empty());
    }

    /// However often others call.
    #[test]
    fn a_rank_is_not_cut_off_for_strangers() {
        let (callers, ranks) = (Callers::default(), [pair(), pair(), pair()]);
        let numbers = ranks.each_ref().map(|(_, stream)| callers.add(stream, OWN));
        // One has proven what it is, one has spoken and was not heard yet, and one comes from a host with few callers.
        callers.has_proven(numbers[0]);
        (&ranks[1].0).write_all(b"hello").unwrap();
        let mut strangers: VecDeque<_> = (0..MOST).map(|_| pair()).collect();
        for (_, stream) in &strangers {
            callers.add(stream, OTHER);
        }
        for _ in 0..4 * MOST {
            strangers.pop_front();
            let another = pair();
            callers.add(&another.1, OTHER);
            strangers.push_back(another);
        }
        assert!(!ranks.iter().any(|(_, stream)| is_cut(stream)));
        // Of its own host there are so many now that the silent one makes room, and the others do not.
        for _ in 0..4 * MOST {
            let another = pair();
            callers.add(&another.1, OWN);
            strangers.push_back(another);
        }
        assert_eq!(ranks.each_ref().map(|(_, stream)| is_cut(stream)), [false, false, true]);
    }

    #[test]
    fn what_ranks_have_said_opens_no_end_of_connections() {
        let callers = Callers::default();
        let all: Vec<_> = (0..PROVEN_MOST + 1).map(|_| pair()).collect();
        for (_, stream) in &all {
            callers.has_proven(callers.add(stream, OWN));
        }
        assert_eq!(callers.state().proven.len(), PROVEN_MOST);
        assert!(is_cut(&all[0].1) && !is_cut(&all[1].1));
    }

    /// Who says a byte now and then gets no more time than who says nothing.
    #[test]
    fn a_slow_caller_is_not_heard_for_ever() {
        let (mut caller, stream) = pair();
        let slow = std::thread::spawn(move || {
            while caller.write_all(&[0]).is_ok() {
                Clock::REAL.sleep(Duration::from_millis(20));
            }
        });
        let mut timed = Timed::new(&stream, Duration::from_millis(300));
        let heard = timed.read_exact(&mut [0; 100_000]).unwrap_err();
        assert_eq!(heard.kind(), io::ErrorKind::TimedOut);
        drop(stream);
        slow.join().unwrap();
    }
}

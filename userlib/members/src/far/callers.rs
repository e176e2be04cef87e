//! Who calls rank 0, and has not proven yet what it is: anybody. Each is listened to for a few seconds in all, and the oldest is cut off
//! where there are too many: whoever has something to say does so at once.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ggas_clock::Clock;

/// Callers that are listened to at a time.
const MOST: usize = 64;

/// See the module's description.
#[derive(Default)]
pub(super) struct Callers(Mutex<State>);

#[derive(Default)]
struct State {
    last: u64,
    all: VecDeque<(u64, Arc<TcpStream>)>,
}

impl Callers {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more: its number.
    pub fn add(&self, stream: &Arc<TcpStream>) -> u64 {
        let state = &mut *self.state();
        state.last += 1;
        state.all.push_back((state.last, stream.clone()));
        if state.all.len() > MOST
            && let Some((_, oldest)) = state.all.pop_front()
        {
            let _ = oldest.shutdown(Shutdown::Both); // whoever listens to it hears that
        }
        state.last
    }

    /// It is none any more.
    pub fn remove(&self, number: u64) {
        self.state().all.retain(|(other, _)| *other != number);
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
    use std::net::TcpListener;

    fn pair() -> (TcpStream, Arc<TcpStream>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let caller = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (caller, Arc::new(listener.accept().unwrap().0))
    }

    #[test]
    fn the_oldest_makes_room() {
        let callers = Callers::default();
        let all: Vec<_> = (0..MOST + 2).map(|_| pair()).collect();
        let numbers: Vec<u64> = all.iter().map(|(_, stream)| callers.add(stream)).collect();
        assert_eq!(callers.state().all.len(), MOST);
        let is_cut = |at: usize| all[at].1.as_ref().read(&mut [0]).is_ok_and(|len| len == 0);
        assert!(is_cut(0) && is_cut(1));
        all[2].1.set_nonblocking(true).unwrap();
        assert!(!is_cut(2));
        numbers.iter().for_each(|number| callers.remove(*number));
        assert!(callers.state().all.is_empty());
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

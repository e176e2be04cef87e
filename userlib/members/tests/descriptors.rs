//! A process that has no descriptor left for those who connect to it. Alone in its program: all descriptors are taken.

use std::fs::File;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use ggas_members::{Member, Members, NetworkShape};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::time::{ClockId, clock_gettime};

/// Bound of every wait that is expected to succeed, on a machine that may stall for seconds.
const SOON: Duration = Duration::from_secs(60);
const KIND: u16 = 40;
/// How long use is measured, and what is too much of it.
const WINDOW: Duration = Duration::from_millis(300);
const MUCH: Duration = Duration::from_millis(60);

#[test]
fn who_has_no_descriptor_left_waits_for_one_and_does_not_spin() {
    let first = Member::join_private(&NetworkShape::default(), 0).unwrap();
    let other = Member::join_network(first.network(), first.shape(), 1).unwrap();
    let (say, heard) = channel();
    first.handle(KIND, Arc::new(move |_, body, _| say.send(body).unwrap_or_default()));
    // Its thread is kept from accepting until all descriptors are taken.
    let held = Arc::new(Barrier::new(2));
    let there = held.clone();
    first.soon(Duration::ZERO, move || {
        there.wait();
        there.wait();
    });
    held.wait();
    // The other's thread has begun: what it opens and closes as it does so is not given to who waits.
    let (begins, begun) = channel();
    other.soon(Duration::ZERO, move || begins.send(()).unwrap_or_default());
    begun.recv_timeout(SOON).unwrap();
    assert!(other.send(first.me(), KIND, b"here", &[], Instant::now() + SOON).unwrap());
    let (before, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, before.min(256), most).unwrap();
    let all: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    held.wait();
    let used = || Duration::from(clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).unwrap());
    // What takes the processor away may count as use, but not each time.
    let least = (0..10).map(|_| {
        let before = used();
        assert_eq!(heard.recv_timeout(WINDOW), Err(RecvTimeoutError::Timeout), "all descriptors are taken");
        used() - before
    });
    let uses: Vec<Duration> = least.take_while(|used| *used >= MUCH).collect();
    assert!(uses.len() < 10, "{uses:?} in {WINDOW:?} each");
    drop(all);
    assert_eq!(heard.recv_timeout(SOON).as_deref(), Ok(&b"here"[..]), "now there are some");
}

//! Connections of ranks to rank 0.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use ggas_clock::Clock;
use rustix::net::sockopt;

use super::Meet;
use super::callers::Timed;
use super::frame::{Answer, Hello};
use super::proof::{Side, Talk};
use crate::JobError;
use crate::meeting::{bad, connect};

/// How long it may take until both sides have proven who they are.
pub(super) const STEP: Duration = Duration::from_secs(5);
/// A host that is silent is asked after a second, again each second, and given up after four more.
const ASK: Duration = Duration::from_secs(1);
const ASKS: u32 = 4;
const UNANSWERED_MS: u32 = 5000;
/// So often in a row whoever listens at rank 0's place has to hang up before that counts: rank 0 does so where too many call at once.
const HANG_UPS: u32 = 5;
/// Between two attempts to reach rank 0, which may not have begun.
const AGAIN: Duration = Duration::from_millis(20);

/// A socket on all addresses of this host.
pub(crate) fn listen(port: u16) -> io::Result<TcpListener> {
    let newer = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port));
    match newer {
        Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))
        }
        other => other,
    }
}

pub(super) fn listen_as_hub(meet: &Meet) -> Result<TcpListener, JobError> {
    let system = JobError::system("listen for other hosts");
    if let Some(listener) = &meet.listener {
        return listener.try_clone().map_err(system);
    }
    let place = meet.places.first().cloned().unwrap_or_default();
    let port = place.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or(0);
    listen(port).map_err(|source| JobError::Listen { place, source })
}

/// A connection to rank 0 on which both have proven what they are. Tries again until there is no time left: it may not have
/// begun.
pub(super) fn reach(
    rank: u32,
    meet: &Meet,
    hello: &Hello,
    deadline: Instant,
    waited: Duration,
) -> Result<TcpStream, JobError> {
    let (place, mut hang_ups) = (meet.places.join(", "), 0);
    let mut stays = |source: &io::Error| {
        hang_ups = if source.kind() == io::ErrorKind::ConnectionAborted { hang_ups + 1 } else { 0 };
        hang_ups >= HANG_UPS || source.kind() == io::ErrorKind::InvalidData
    };
    loop {
        let mut last = bad("there is no place at which rank 0 is met");
        for at in &meet.places {
            let own = format!("127.0.0.1:{}", at.rsplit(':').next().unwrap_or_default());
            // Its own host may know itself by no name.
            let at = if rank == 0 { &own } else { at };
            let left = deadline.saturating_duration_since(Clock::REAL.now());
            match call(at, meet.secret, hello, left.clamp(AGAIN, STEP)) {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(why)) => return Err(JobError::Refused { why }),
                // Another one listens there, or this one is not of this job: that stays so.
                Err(source) if meet.places.len() == 1 && stays(&source) => {
                    return Err(JobError::Unmet { place, waited, source });
                }
                Err(source) => last = source,
            }
        }
        if Clock::REAL.now() >= deadline {
            return Err(JobError::Unmet { place, waited, source: last });
        }
        Clock::REAL.sleep(AGAIN);
    }
}

/// Or why rank 0 refuses this rank.
fn call(at: &str, secret: [u8; 16], hello: &Hello, step: Duration) -> io::Result<Result<TcpStream, String>> {
    let stream = connect(at, step)?;
    prepare(&stream)?;
    let mut timed = Timed::new(&stream, step);
    let mut talk = Talk::new(&mut timed, secret, Side::Rank);
    talk.say(&hello.bytes()?)?;
    let answer = talk.hear().map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::new(
            io::ErrorKind::ConnectionAborted,
            "whoever listens there hung up: it is not rank 0 of this job, or has another secret (GGAS_SECRET)",
        ),
        _ => error,
    })?;
    let answer: Answer = postcard::from_bytes(&answer).map_err(|_| bad("what came is damaged"))?;
    if let Some(why) = answer.refused {
        return Ok(Err(why));
    }
    talk.say(&[])?;
    // From now on nothing but the end of the other side, or of its host, ends the connection.
    stream.set_read_timeout(None)?;
    stream.set_write_timeout(None)?;
    Ok(Ok(stream))
}

pub(super) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, ASK)?;
    sockopt::set_tcp_keepintvl(stream, ASK)?;
    sockopt::set_tcp_keepcnt(stream, ASKS)?;
    sockopt::set_tcp_user_timeout(stream, UNANSWERED_MS)?;
    Ok(())
}

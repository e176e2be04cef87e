//! Connections of ranks to rank 0.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use ggas_clock::Clock;
use rustix::net::sockopt;

use super::Meet;
use super::frame::{Answer, Hello};
use super::proof::{Side, Talk};
use crate::JobError;
use crate::meeting::{bad, connect};

/// How long a step of the beginning may take.
pub(super) const STEP: Duration = Duration::from_secs(5);
/// A host that is silent is asked after a second, again each second, and given up after four more.
const ASK: Duration = Duration::from_secs(1);
const ASKS: u32 = 4;
const UNANSWERED_MS: u32 = 5000;
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
    let place = meet.places.join(", ");
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
                Err(source) if source.kind() == io::ErrorKind::InvalidData && meet.places.len() == 1 => {
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
    let mut stream = connect(at, step)?;
    prepare(&stream, Some(step))?;
    let mut talk = Talk::new(&mut stream, secret, Side::Rank);
    talk.say(&hello.bytes()?)?;
    let answer = talk.hear().map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => bad(
            "whoever listens there hung up: it is not rank 0 of this job, or has another secret (GGAS_SECRET)",
        ),
        _ => error,
    })?;
    let answer: Answer = postcard::from_bytes(&answer).map_err(|_| bad("what came is damaged"))?;
    if let Some(why) = answer.refused {
        return Ok(Err(why));
    }
    talk.say(&[])?;
    prepare(&stream, None)?;
    Ok(Ok(stream))
}

/// `step`: of the beginning; later nothing but the end of the other side, or of its host, ends a connection.
pub(super) fn prepare(stream: &TcpStream, step: Option<Duration>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(step)?;
    stream.set_write_timeout(step)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, ASK)?;
    sockopt::set_tcp_keepintvl(stream, ASK)?;
    sockopt::set_tcp_keepcnt(stream, ASKS)?;
    sockopt::set_tcp_user_timeout(stream, UNANSWERED_MS)?;
    Ok(())
}

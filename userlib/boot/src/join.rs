//! A member's side of job start.

use std::os::fd::{AsFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use extoll_sim::process::{
    ARENA_BYTES, Arena, Inbox, JobSegment, Membership, Peer, PeerState, ProcessFabric, Shape,
};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::socket::sockopt::SockType as TypeOption;
use nix::sys::socket::{SockType, getsockopt};

use crate::channel::{Channel, WireError};
use crate::collective::Collective;
use crate::env::{Lookup, Place, Way, runtime_dir};
use crate::hub::{Guest, Hub};
use crate::job::{Job, Parts};
use crate::protocol::{FromHost, Hello, PEER_FDS};
use crate::rendezvous::{Directory, Listener, find};
use crate::watch::{Setup, Watch, Watched, Watcher};
use crate::{JobError, limits, pidfd, quiet};

/// The host answers by its own deadline; it knows more about who is missing.
const HOST_SLACK: Duration = Duration::from_secs(2);

/// The process that joined a job of several, 0 for none: a fork has the same, and a process joins once.
static MEMBER: AtomicU32 = AtomicU32::new(0);

/// What a member gives its peers.
struct Own {
    pidfd: OwnedFd,
    inbox: Inbox,
    arena: Arc<Arena>,
    /// The receiving end.
    mailbox: Channel,
    /// The sending end; ours is closed once the peers have it.
    post: Channel,
}

/// What the host says of the job.
struct Introduction {
    name: String,
    segment: OwnedFd,
    guardian: Option<OwnedFd>,
    /// By rank.
    peers: Vec<Option<[OwnedFd; PEER_FDS]>>,
}

pub(crate) fn join(lookup: Lookup<'_>) -> Result<Job, JobError> {
    let place = Place::from(lookup)?;
    let deadline = Instant::now() + place.timeout;
    if place.way == Way::Alone {
        return alone(place.shape);
    }
    join_once()?;
    limits::check_descriptors(
        place.shape.processes(),
        place.rank == 0 && !matches!(place.way, Way::Launcher(_)),
    )?;
    // Declared before the channel, and so dropped behind it, whatever fails.
    let mut hosting = None;
    let (channel, who) = match &place.way {
        Way::Launcher(fd) => (adopt(*fd)?, "the launcher"),
        Way::Rendezvous { name } => {
            let directory = Directory::open(&runtime_dir(lookup)?)?;
            let channel = match place.rank {
                0 => {
                    let (channel, thread) = host(directory, name, &place)?;
                    hosting = Some(thread);
                    channel
                }
                _ => find(&directory, name, place.timeout)?,
            };
            (channel, "rank 0")
        }
        Way::Alone => return alone(place.shape),
    };
    let own = Own::create(place.shape)?;
    let introduction = introduce(&channel, &place, &own, who);
    drop(channel);
    drop(hosting);
    enter(&place, own, introduction?, deadline)
}

/// A job of one process: nobody to find, nothing to wait for.
fn alone(shape: Shape) -> Result<Job, JobError> {
    let (job, _) = JobSegment::create(shape).map_err(JobError::system("make the job segment"))?;
    let own = Own::create(shape)?;
    job.set_state(0, PeerState::Joined);
    let membership = Membership { rank: 0, job, inbox: own.inbox, arena: own.arena, peers: vec![None] };
    let fabric = ProcessFabric::new(membership)?;
    let parts =
        Parts { name: "alone".into(), fabric, watched: Arc::default(), watcher: None, peers: vec![None] };
    Ok(Job::new(parts, Collective::default()))
}

fn join_once() -> Result<(), JobError> {
    let me = std::process::id();
    match MEMBER.compare_exchange(0, me, Ordering::SeqCst, Ordering::SeqCst) {
        Ok(_) => Ok(()),
        Err(member) if member == me => Err(JobError::JoinedAlready),
        Err(member) => Err(JobError::Forked { member, child: me }),
    }
}

/// The socket that the launcher left to us.
fn adopt(fd: RawFd) -> Result<Channel, JobError> {
    let refuse = |why: String| JobError::NoLauncher { fd, why };
    if fd <= 2 {
        return Err(refuse("0 to 2 are the standard streams".into()));
    }
    // SAFETY: F_GETFD asks about a number that may be open or not.
    if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
        return Err(refuse("it is not open".into()));
    }
    // SAFETY: it is open, and belongs to us if it is the launcher's: nobody else in this program knows of it.
    // `join_once` lets only one caller come here.
    let fd_owned = unsafe { OwnedFd::from_raw_fd(fd) };
    match getsockopt(&fd_owned, TypeOption) {
        Ok(SockType::SeqPacket) => {}
        _ => {
            // It is something else of the program: leave it open.
            let _ = std::os::fd::IntoRawFd::into_raw_fd(fd_owned);
            return Err(refuse("it is no socket of the launcher's kind".into()));
        }
    }
    // Programs started from here are no members.
    fcntl(&fd_owned, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))
        .map_err(|errno| JobError::System { what: "close the job's socket on exec", source: errno.into() })?;
    Ok(Channel::new(fd_owned))
}

/// The thread that sets the job up. Rank 0 goes nowhere, not even to its end, before everyone else has been told.
struct Hosting(Option<JoinHandle<()>>);

impl Drop for Hosting {
    fn drop(&mut self) {
        // A panic of it has been printed, and ends the start for everyone.
        let _ = self.0.take().map(JoinHandle::join);
    }
}

/// Rank 0 without a launcher: opens the job, and sets it up in a thread that ends with that.
fn host(directory: Directory, name: &str, place: &Place) -> Result<(Channel, Hosting), JobError> {
    let listener = Listener::open(directory, name, place.shape.processes())?;
    let (mine, theirs) = Channel::pair().map_err(JobError::system("make a socket"))?;
    let hub = Hub {
        shape: place.shape,
        name: name.into(),
        timeout: place.timeout,
        guardian: None,
        fate: Box::new(|_| "ended, or gave up, while the others joined".into()),
    };
    let guests = vec![Guest { channel: theirs, started_as: Some(0), until: None }];
    // It ends with our side of the connection, at the latest.
    let run = move || match hub.run(Some(listener), guests, None) {
        Ok(_) => {}
        Err(refusal) => tracing::debug!("the job did not begin: {refusal}"),
    };
    let thread = quiet::spawn("ggas-host", run).map_err(JobError::system("start a thread"))?;
    Ok((mine, Hosting(Some(thread))))
}

impl Own {
    fn create(shape: Shape) -> Result<Own, JobError> {
        let (post, mailbox) = Channel::pair().map_err(JobError::system("make a mailbox"))?;
        Ok(Own {
            pidfd: pidfd::open(std::process::id())
                .map_err(JobError::system("open this process (pidfd_open, Linux 5.3)"))?,
            inbox: Inbox::create(shape).map_err(JobError::system("make the inbox"))?,
            arena: Arena::create(ARENA_BYTES)
                .map_err(|source| JobError::Memory { bytes: 1 << 20, source })?,
            mailbox,
            post,
        })
    }
}

/// Says hello and hears of everyone.
fn introduce(
    channel: &Channel,
    place: &Place,
    own: &Own,
    who: &'static str,
) -> Result<Introduction, JobError> {
    let Place { rank, shape, timeout, .. } = *place;
    let deadline = Instant::now() + timeout + HOST_SLACK;
    let failed = |error: WireError| match error {
        WireError::Closed => match place.way {
            Way::Launcher(fd) => JobError::NoLauncher { fd, why: "the launcher closed it".into() },
            _ => JobError::HostGone { who },
        },
        WireError::Timeout => JobError::HostSilent { who, waited: timeout + HOST_SLACK },
        WireError::System(source) => JobError::System { what: "talk to the job's host", source },
        error @ (WireError::Malformed(_) | WireError::Version { .. }) => {
            JobError::Malformed { who, what: error.to_string() }
        }
    };
    let malformed = |what: &str| JobError::Malformed { who, what: what.into() };
    let hello = Hello { rank, size: shape.processes(), per_node: shape.per_node() };
    let given = [own.pidfd.as_fd(), own.inbox.fd(), own.arena.fd(), own.post.as_fd()];
    // A host that has refused may have closed its end already: its reason is still there to be read.
    match channel.send(&hello, &given, deadline) {
        Ok(()) | Err(WireError::Closed) => {}
        Err(error) => return Err(failed(error)),
    }
    let (name, segment, guardian) = match channel.receive::<FromHost>(deadline).map_err(failed)? {
        (FromHost::Start { name, guarded }, fds) if fds.len() == 1 + usize::from(guarded) => {
            let mut fds = fds.into_iter();
            let segment = fds.next().ok_or_else(|| malformed("no job segment"))?;
            (name, segment, fds.next())
        }
        (FromHost::Refused(refusal), _) => return Err(refusal.into()),
        _ => return Err(malformed("peers before the start")),
    };
    let mut peers: Vec<Option<[OwnedFd; PEER_FDS]>> = (0..shape.processes()).map(|_| None).collect();
    let mut missing = peers.len() - 1;
    while missing > 0 {
        let (FromHost::Peers(ranks), fds) = channel.receive::<FromHost>(deadline).map_err(failed)? else {
            return Err(malformed("something else where peers belong"));
        };
        if ranks.is_empty() || fds.len() != ranks.len() * PEER_FDS {
            return Err(malformed("peers without their descriptors"));
        }
        let mut fds = fds.into_iter();
        for peer in ranks {
            let four = [fds.next(), fds.next(), fds.next(), fds.next()];
            let [Some(pidfd), Some(inbox), Some(arena), Some(mailbox)] = four else {
                return Err(malformed("peers without their descriptors"));
            };
            match peers.get_mut(peer as usize) {
                Some(place @ None) if peer != rank => *place = Some([pidfd, inbox, arena, mailbox]),
                _ => return Err(malformed("a peer that cannot be")),
            }
            missing -= 1;
        }
    }
    Ok(Introduction { name, segment, guardian, peers })
}

/// Maps everything, takes part, and waits until all others do.
fn enter(place: &Place, own: Own, told: Introduction, deadline: Instant) -> Result<Job, JobError> {
    let Place { rank, shape, .. } = *place;
    let job = JobSegment::map(told.segment)?;
    if job.shape() != shape {
        return Err(JobError::Malformed {
            who: "the job's host",
            what: "a job segment of another shape".into(),
        });
    }
    let mut leaver = Leaver { job: job.clone(), rank, leaves: true };
    let mut peers = Vec::new();
    let mut mailboxes = Vec::new();
    let mut watches = Vec::new();
    for (peer, fds) in (0..).zip(told.peers) {
        let Some([pidfd, inbox, arena, mailbox]) = fds else {
            peers.push(None);
            mailboxes.push(None);
            continue;
        };
        let mailbox = Arc::new(Channel::new(mailbox));
        peers.push(Some(Peer { inbox, arena }));
        mailboxes.push(Some(mailbox.clone()));
        watches.push(Watch { rank: peer, pidfd, mailbox });
    }
    let fabric =
        ProcessFabric::new(Membership { rank, job: job.clone(), inbox: own.inbox, arena: own.arena, peers })?;
    job.set_state(rank, PeerState::Joined);
    let watched = Arc::new(Watched::default());
    let watcher = Watcher::start(Setup {
        fabric: fabric.clone(),
        watched: watched.clone(),
        peers: watches,
        mailbox: own.mailbox,
        guardian: told.guardian,
    })
    .map_err(JobError::system("start a thread"))?;
    leaver.leaves = false;
    let parts = Parts { name: told.name, fabric, watched, watcher: Some(watcher), peers: mailboxes };
    let job = Job::new(parts, Collective::default());
    job.barrier(deadline.saturating_duration_since(Instant::now()).max(HOST_SLACK))?;
    Ok(job)
}

/// Tells peers, who may have begun to wait, that this process does not come.
struct Leaver {
    job: Arc<JobSegment>,
    rank: u32,
    /// Cleared once the process is there.
    leaves: bool,
}

impl Drop for Leaver {
    fn drop(&mut self) {
        if self.leaves {
            self.job.set_state(self.rank, PeerState::Left);
        }
    }
}

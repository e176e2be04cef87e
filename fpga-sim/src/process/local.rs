//! A job whose members are all in this process: for tests, and for scenarios on this fabric.

use std::io;
use std::sync::Arc;

use super::arena::Arena;
use super::fabric::{Membership, Peer};
use super::inbox::Inbox;
use super::job::JobSegment;
use super::shape::Shape;

/// Address space of each member's arena: every member maps every arena here.
const ARENA: u64 = 1 << 30;

/// All members of a job of this shape, joined already.
///
/// # Errors
/// No memory, or too few file descriptors (each member takes two for each other member).
pub fn local(shape: Shape) -> io::Result<Vec<Membership>> {
    let (job, _) = JobSegment::create(shape)?;
    let ranks = 0..shape.processes();
    let inboxes: Vec<Inbox> = ranks.clone().map(|_| Inbox::create(shape)).collect::<io::Result<_>>()?;
    let arenas: Vec<Arc<Arena>> = ranks.clone().map(|_| Arena::create(ARENA)).collect::<io::Result<_>>()?;
    let peer = |rank: usize| {
        let inbox = inboxes[rank].fd().try_clone_to_owned()?;
        Ok(Peer { inbox, arena: arenas[rank].fd().try_clone_to_owned()? })
    };
    let peers: Vec<Vec<Option<Peer>>> = ranks
        .clone()
        .map(|me| ranks.clone().map(|r| (r != me).then(|| peer(r as usize)).transpose()).collect())
        .collect::<io::Result<_>>()?;
    for rank in ranks {
        job.set_state(rank, super::PeerState::Joined);
    }
    let parts = inboxes.into_iter().zip(arenas).zip(peers).enumerate();
    let member = |(rank, ((inbox, arena), peers))| {
        let rank = rank as u32;
        Membership { rank, job: job.clone(), inbox, arena, peers }
    };
    Ok(parts.map(member).collect())
}

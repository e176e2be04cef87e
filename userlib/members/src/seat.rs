//! A member's slot in the table, and unique names for networks.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::directory::Directory;
use crate::network::check_shape;
use crate::place::{Place, Rank};
use crate::shape::NetworkShape;
use crate::socket::{open_socket, socket_name};
use crate::table::{MemberId, PeerState, Table};
use crate::{JobError, words};

/// A place in the table, and the socket that belongs to it; under the directory's lock.
pub(crate) fn take_seat(
    place: &Place,
    shape: &NetworkShape,
    directory: &Directory,
    table: &Table,
) -> Result<(MemberId, OwnedFd), JobError> {
    let name = || directory.name().to_owned();
    if place.rank.is_some() || shape.ranks().is_some() || *shape != NetworkShape::default() {
        check_shape(directory.name(), table, shape)?;
    }
    let nodes = table.shape.nodes();
    if u32::from(place.node) >= nodes {
        return Err(JobError::NoSuchNode { network: name(), node: place.node, nodes });
    }
    let is_free = |slot: &u32| !matches!(table.last(*slot), Some((_, PeerState::Joined)));
    let slot = match place.rank {
        Some(Rank { rank, .. }) if is_free(&rank) => rank,
        Some(Rank { rank, .. }) => {
            let pid = table.slot(rank).map_or(0, |slot| slot.who.pid.load(Ordering::Relaxed));
            let taken = JobError::RankTaken { rank, pid };
            return Err(if table.is_this_process(rank) { JobError::JoinedAlready } else { taken });
        }
        None => {
            let full = || JobError::NetworkFull { network: name(), members: table.shape.members() };
            // Those of ranks are for ranks.
            let slots = table.shape.rank_slots().end..table.slots().end;
            slots.into_iter().find(is_free).ok_or_else(full)?
        }
    };
    let listener = open_socket(directory, &socket_name(slot))?;
    if place.rank.is_some() {
        words::begin(table, slot);
    }
    let full = || JobError::NetworkFull { network: name(), members: table.shape.members() };
    Ok((table.take(slot, place.node).ok_or_else(full)?, listener))
}

/// A name that no other network has.
pub(crate) fn private_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let (pid, start, _) = crate::process::this();
    format!("private-{pid}-{start}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

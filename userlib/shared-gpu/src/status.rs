//! The eight states of a rank's copy, and which may follow which (5.3.2, "Implementation Details").

use crate::choosing::Copier;
use crate::plan::Fault;
use crate::station::{Station, Word};

/// A state, in [`Word::Status`]. Those of a direct copy are of one copier each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Init,
    /// Ready to send.
    Rts,
    IpcAssigned(Copier),
    HsAssigned,
    IpcInitiated(Copier),
    HsInitiated,
    IpcComplete(Copier),
    HsComplete,
}

use Status::*;

/// Who changes a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Leader,
    Owner,
}

/// Behind the eight states in their word: the copier.
const COPIER_SHIFT: u32 = 3;

impl Status {
    /// In [`Word::Status`], which is zero at first.
    pub(crate) fn value(self) -> u64 {
        let (state, copier) = match self {
            Init => (0, Copier::Engine),
            Rts => (1, Copier::Engine),
            IpcAssigned(copier) => (2, copier),
            HsAssigned => (3, Copier::Engine),
            IpcInitiated(copier) => (4, copier),
            HsInitiated => (5, Copier::Engine),
            IpcComplete(copier) => (6, copier),
            HsComplete => (7, Copier::Engine),
        };
        state | (copier as u64) << COPIER_SHIFT
    }

    pub(crate) fn all() -> impl Iterator<Item = Status> {
        let direct = |of: fn(Copier) -> Status| Copier::ALL.map(of);
        let others = [Init, Rts, HsAssigned, HsInitiated, HsComplete];
        others.into_iter().chain([IpcAssigned, IpcInitiated, IpcComplete].into_iter().flat_map(direct))
    }

    pub(crate) fn of<S: Station>(station: &S, rank: usize) -> Option<Status> {
        let value = station.load(Word::Status(rank));
        Status::all().find(|status| status.value() == value)
    }

    /// Whether `next` may follow. In the broadcast the leader assigns to ranks in the first state. A copy that has begun may be
    /// assigned again, to a mechanism that does not queue behind it.
    pub(crate) fn leads_to(self, next: Status, by: By) -> bool {
        match (by, self, next) {
            (By::Owner, IpcAssigned(copier), IpcInitiated(same)) => copier == same,
            (By::Owner, Init, Rts)
            | (By::Owner, HsAssigned, HsInitiated)
            | (By::Owner, HsInitiated, HsComplete) => true,
            (By::Leader, IpcInitiated(copier), IpcComplete(same)) => copier == same,
            (By::Leader, IpcInitiated(copier), IpcAssigned(other)) => copier.lane() != other.lane(),
            (By::Leader, Init | Rts | HsInitiated, IpcAssigned(_))
            | (By::Leader, Init | Rts | IpcInitiated(_), HsAssigned)
            | (By::Leader, IpcComplete(_) | HsComplete, Init) => true,
            _ => false,
        }
    }

    /// Changes a rank's state from this one; `false`: it was another by then. A change that no state leads to ends the call.
    pub(crate) async fn change<S: Station>(self, station: &S, rank: usize, next: Status, by: By) -> bool {
        if !self.leads_to(next, by) {
            Fault::State.tell(station, rank).await;
        }
        station.exchange(Word::Status(rank), self.value(), next.value()).await
    }

    /// The same, where nobody else may have changed it.
    pub(crate) async fn must_change<S: Station>(self, station: &S, rank: usize, next: Status, by: By) {
        if !self.change(station, rank, next, by).await {
            Fault::State.tell(station, rank).await;
        }
    }
}

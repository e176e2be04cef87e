//! The eight states of a rank's copy, and which may follow which (5.3.2, "Implementation Details").

use crate::plan::Fault;
use crate::station::{Station, Word};

/// A state, in [`Word::Status`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Status {
    Init,
    /// Ready to send.
    Rts,
    IpcAssigned,
    HsAssigned,
    IpcInitiated,
    HsInitiated,
    IpcComplete,
    HsComplete,
}

use Status::*;

/// Who changes a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Leader,
    Owner,
}

impl Status {
    pub(crate) const ALL: [Status; 8] =
        [Init, Rts, IpcAssigned, HsAssigned, IpcInitiated, HsInitiated, IpcComplete, HsComplete];

    pub(crate) fn of<S: Station>(station: &S, rank: usize) -> Option<Status> {
        Status::ALL.get(station.load(Word::Status(rank)) as usize).copied()
    }

    /// Whether `next` may follow. In the broadcast the leader assigns to ranks in the first state. A copy that has begun may be
    /// assigned again, to the other mechanism.
    pub(crate) fn leads_to(self, next: Status, by: By) -> bool {
        match by {
            By::Owner => matches!(
                (self, next),
                (Init, Rts)
                    | (IpcAssigned, IpcInitiated)
                    | (HsAssigned, HsInitiated)
                    | (HsInitiated, HsComplete)
            ),
            By::Leader => matches!(
                (self, next),
                (Init | Rts, IpcAssigned | HsAssigned)
                    | (IpcInitiated, IpcComplete)
                    | (HsInitiated, IpcAssigned)
                    | (IpcInitiated, HsAssigned)
                    | (IpcComplete | HsComplete, Init)
            ),
        }
    }

    /// Changes a rank's state from this one; `false`: it was another by then. A change that no state leads to ends the call.
    pub(crate) async fn change<S: Station>(self, station: &S, rank: usize, next: Status, by: By) -> bool {
        if !self.leads_to(next, by) {
            Fault::State.tell(station, rank).await;
        }
        station.exchange(Word::Status(rank), self as u64, next as u64).await
    }

    /// The same, where nobody else may have changed it.
    pub(crate) async fn must_change<S: Station>(self, station: &S, rank: usize, next: Status, by: By) {
        if !self.change(station, rank, next, by).await {
            Fault::State.tell(station, rank).await;
        }
    }
}

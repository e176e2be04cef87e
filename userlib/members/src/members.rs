//! [`Members`]: who is in a network and where, apart from how their packets travel.

use std::sync::Arc;
use std::time::Duration;

use crate::{JobError, MemberId, MemberInfo, NetworkShape, PeerState};

/// Who is in a network, and where, as one of its members sees it.
///
/// Here members are processes of this host ([`Member`](crate::Member)). How packets travel between them is a
/// transport's business, and what packets do a card's.
pub trait Members: std::fmt::Debug + Send + Sync {
    /// This member.
    fn me(&self) -> MemberId;
    /// The node that it is on.
    fn node(&self) -> u16;
    /// Its number among the processes of its job; `None`: it is in a network of no job.
    fn rank(&self) -> Option<u32>;
    /// The network's name.
    fn network(&self) -> &str;
    /// The network's shape.
    fn shape(&self) -> &NetworkShape;
    /// The host that a member is on; `None`: it is not known.
    fn host(&self, id: MemberId) -> Option<String>;
    /// What is known of a member. The end of one that this member never had to do with shows when it is addressed.
    fn state(&self, id: MemberId) -> PeerState;
    /// Who has a slot (a rank, in a job), or had it last; `None`: nobody ever.
    fn at(&self, slot: u32) -> Option<MemberInfo>;
    /// Who takes part now.
    fn list(&self) -> Vec<MemberInfo>;
    /// Says something for everyone to read, of at most 64 KiB; a key is letters and digits.
    ///
    /// # Errors
    /// [`JobError::TooLong`], [`JobError::Full`], [`JobError::Setting`] for a bad key.
    fn publish(&self, key: &str, bytes: &[u8]) -> Result<(), JobError>;
    /// What a member published last under a key; `None`: nothing.
    ///
    /// # Errors
    /// [`JobError::System`].
    fn look_up(&self, id: MemberId, key: &str) -> Result<Option<Vec<u8>>, JobError>;
    /// Waits until all ranks of the job have called it; see [`Job::barrier`](crate::Job::barrier).
    ///
    /// # Errors
    /// As there; [`JobError::NoJob`].
    fn barrier(&self, timeout: Duration) -> Result<(), JobError>;
    /// Gives all ranks of the job some bytes; see [`Job::exchange`](crate::Job::exchange).
    ///
    /// # Errors
    /// As there; [`JobError::NoJob`].
    fn exchange(&self, bytes: &[u8], timeout: Duration) -> Result<Vec<Vec<u8>>, JobError>;
    /// Calls `handler` once for each member whose end is noticed from now on, on a thread that must not block. Members
    /// that this one never had to do with may end unnoticed; ranks of a job do not.
    fn on_gone(&self, handler: Arc<dyn Fn(MemberId, PeerState) + Send + Sync>) -> GoneGuard;
}

/// Ends a registration of [`Members::on_gone`] when dropped. A call that is running then runs to its end.
pub struct GoneGuard(pub(crate) Option<Box<dyn FnOnce() + Send + Sync>>);

impl Drop for GoneGuard {
    fn drop(&mut self) {
        if let Some(end) = self.0.take() {
            end();
        }
    }
}

impl std::fmt::Debug for GoneGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("GoneGuard")
    }
}

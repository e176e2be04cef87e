//! [`Members`]: the members of a network and their nodes, independent of the transport of packets.

use std::sync::Arc;
use std::time::Duration;

use crate::{JobError, MemberId, MemberInfo, NetworkShape, PeerState};

/// The members of a network and their nodes, as one member sees them.
///
/// In this crate members are processes of one host ([`Member`](crate::Member)).
pub trait Members: std::fmt::Debug + Send + Sync {
    /// This member.
    fn me(&self) -> MemberId;
    /// The node that this member is on.
    fn node(&self) -> u16;
    /// This member's rank in its job; `None`: its network is no job's.
    fn rank(&self) -> Option<u32>;
    /// The network's name.
    fn network(&self) -> &str;
    /// The network's shape.
    fn shape(&self) -> &NetworkShape;
    /// The host that a member is on; `None`: unknown.
    fn host(&self, id: MemberId) -> Option<String>;
    /// Whether a member is in the network, has left or is lost. The end of a member without a connection to this one
    /// shows when the member is addressed.
    fn state(&self, id: MemberId) -> PeerState;
    /// The member that has a slot (in a job: a rank), or had it last; `None`: the slot was never used.
    fn at(&self, slot: u32) -> Option<MemberInfo>;
    /// The members that are in the network now.
    fn list(&self) -> Vec<MemberInfo>;
    /// Publishes bytes under a key for all members to read, at most 64 KiB; a key is letters and digits.
    ///
    /// # Errors
    /// [`JobError::TooLong`], [`JobError::Full`], [`JobError::Setting`] for a bad key.
    fn publish(&self, key: &str, bytes: &[u8]) -> Result<(), JobError>;
    /// The bytes that a member published last under a key; `None`: it published none.
    ///
    /// # Errors
    /// [`JobError::System`].
    fn look_up(&self, id: MemberId, key: &str) -> Result<Option<Vec<u8>>, JobError>;
    /// Waits until all ranks of the job have called `barrier`; see [`Job::barrier`](crate::Job::barrier).
    ///
    /// # Errors
    /// As there; [`JobError::NoJob`].
    fn barrier(&self, timeout: Duration) -> Result<(), JobError>;
    /// Exchanges bytes among all ranks of the job; see [`Job::exchange`](crate::Job::exchange).
    ///
    /// # Errors
    /// As there; [`JobError::NoJob`].
    fn exchange(&self, bytes: &[u8], timeout: Duration) -> Result<Vec<Vec<u8>>, JobError>;
    /// Calls `handler` once for each member whose end is noticed from now on, on a thread that must not block. The end of
    /// a member without a connection to this one may stay unnoticed; the end of a rank of the same job does not.
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

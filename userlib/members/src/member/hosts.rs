//! What a [`Member`] has of ranks on other hosts.

use std::time::Duration;

use super::Member;
use crate::far::{Far, HostsOfJob, Meet, Own};
use crate::members::Members;
use crate::{JobError, Shape};

impl Member {
    /// Meets the ranks of all hosts.
    pub(super) fn meet_hosts(&self, meet: &Meet, shape: Shape, timeout: Duration) -> Result<(), JobError> {
        let token = self.network.table.token();
        let own = Own { job: self.network(), rank: self.me.slot, shape, token };
        let met = Far::meet(&own, meet, timeout)?;
        let far = self.far.get_or_init(|| met);
        let post = self.postman.post.clone();
        // Of ranks of this host the post itself hears. On its thread: a rank's end comes behind its messages.
        let near: Vec<bool> = (0..shape.processes()).map(|rank| !far.is_far(rank)).collect();
        far.report(Box::new(move |id, how| {
            if near.get(id.slot as usize) == Some(&false) {
                let own = post.clone();
                post.soon(Duration::ZERO, Box::new(move || own.report(id, how)));
            }
        }));
        let post = self.postman.post.clone();
        far.mail(Box::new(move |from, kind, body| {
            let own = post.clone();
            post.soon(Duration::ZERO, Box::new(move || own.take(from, kind, body, Vec::new())));
        }));
        Ok(())
    }

    /// Whether the ranks of the job are on several hosts.
    pub fn spans_hosts(&self) -> bool {
        self.far.get().is_some_and(Far::spans)
    }

    /// Whether a slot is that of a rank on another host.
    #[inline]
    pub fn is_far(&self, slot: u32) -> bool {
        self.far.get().is_some_and(|far| far.is_far(slot))
    }

    /// What a transport between the hosts of this job needs: for one transport. `None`: the job is of one host.
    pub fn hosts_of_job(&self) -> Option<HostsOfJob> {
        self.far.get().filter(|far| far.spans())?.hosts()
    }

    /// A transport between hosts found that a rank is lost: this process hears of it also where rank 0, which tells all ranks of
    /// ends on other hosts, is gone itself.
    pub fn lost_far(&self, rank: u32) {
        if let Some(far) = self.far.get().filter(|_| self.check_member().is_ok()) {
            far.lost(rank);
        }
    }

    /// Whether memory and file descriptors reach a rank.
    pub(crate) fn check_near(&self, rank: u32) -> Result<(), JobError> {
        match self.far.get().filter(|far| far.is_far(rank)) {
            Some(far) => {
                Err(JobError::OtherHost { rank, host: far.host(rank).unwrap_or_default().to_owned() })
            }
            None => Ok(()),
        }
    }
}

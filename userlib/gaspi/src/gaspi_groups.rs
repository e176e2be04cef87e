//! Calls of groups and collectives.

use crate::collective::Kind;
use crate::{Datatype, Gaspi, GaspiError, Operation, Reduction, Timeout};

impl Gaspi {
    /// An empty group of the lowest free id.
    ///
    /// # Errors
    /// [`GaspiError::ManyGroups`].
    pub fn group_create(&self) -> Result<u8, GaspiError> {
        self.shared.groups.create(self.config().group_max)
    }

    /// Deletes a group of this process.
    ///
    /// # Errors
    /// [`GaspiError::Group`], also for the group of all.
    pub fn group_delete(&self, group: u8) -> Result<(), GaspiError> {
        self.shared.group_delete(group)
    }

    /// Adds a rank to a group that is not committed.
    ///
    /// # Errors
    /// [`GaspiError::Group`]; [`GaspiError::Rank`], also for a rank that is in it.
    pub fn group_add(&self, group: u8, rank: u16) -> Result<(), GaspiError> {
        self.shared.groups.ranks(group)?;
        self.shared.check_rank(rank)?;
        self.shared.groups.add(group, rank)
    }

    /// Waits until all members have a group of the same id with the same members. Collectives are possible then.
    ///
    /// # Errors
    /// [`GaspiError::Group`]: this process is no member. [`GaspiError::Timeout`], [`GaspiError::Failed`],
    /// [`GaspiError::Memory`].
    pub fn group_commit(&self, group: u8, timeout: Timeout) -> Result<(), GaspiError> {
        self.shared.group_commit(group, timeout)
    }

    /// Groups, with that of all.
    pub fn group_num(&self) -> u32 {
        self.shared.groups.count()
    }

    /// Members of a group, ascending; before the commit as well.
    ///
    /// # Errors
    /// [`GaspiError::Group`].
    pub fn group_ranks(&self, group: u8) -> Result<Vec<u16>, GaspiError> {
        self.shared.groups.ranks(group)
    }

    /// Waits until all members have called it. It says nothing of requests in queues.
    ///
    /// # Errors
    /// [`GaspiError::Group`]; [`GaspiError::Timeout`], and the next call goes on with the same barrier;
    /// [`GaspiError::ActiveCollective`]; [`GaspiError::Dead`]: a member is dead, and it cannot come to an end, or not within
    /// [`Config::failure_timeout`](crate::Config::failure_timeout); [`GaspiError::Device`].
    pub fn barrier(&self, group: u8, timeout: Timeout) -> Result<(), GaspiError> {
        self.shared.barrier(group, timeout)
    }

    /// Combines vectors of elements of all members; each gets the result. All give as many elements.
    ///
    /// # Errors
    /// [`GaspiError::Size`]: no whole elements. [`GaspiError::Number`] above the limit. [`GaspiError::Unlike`], of all
    /// members: one has called it with another number, operation or type. As of [`barrier`](Self::barrier).
    pub fn allreduce(
        &self,
        group: u8,
        send: &[u8],
        operation: Operation,
        datatype: Datatype,
        timeout: Timeout,
    ) -> Result<Vec<u8>, GaspiError> {
        self.shared.groups.check(group)?;
        if !send.len().is_multiple_of(datatype.size()) {
            return Err(GaspiError::Size);
        }
        if send.len() / datatype.size() > self.config().allreduce_elem_max as usize {
            return Err(GaspiError::Number);
        }
        self.shared.allreduce_of(group, send, (operation, datatype), timeout)
    }

    /// The same by a function of the program, which combines its second vector into the first. It must be associative and
    /// commutative, since the order is not said, nor by which members it is called. `elements`: how many the vector has.
    ///
    /// # Errors
    /// [`GaspiError::Size`] above the limit; [`GaspiError::Unlike`]: members have called it with other sizes;
    /// [`GaspiError::Failed`] where the function failed; as of [`barrier`](Self::barrier).
    pub fn allreduce_user(
        &self,
        group: u8,
        send: &[u8],
        elements: u32,
        combine: &mut Reduction<'_>,
        timeout: Timeout,
    ) -> Result<Vec<u8>, GaspiError> {
        self.shared.groups.check(group)?;
        if send.len() as u64 > self.config().reduction_bytes() {
            return Err(GaspiError::Size);
        }
        self.shared.allreduce(group, (Kind::AllreduceUser, u64::from(elements) << 24), send, combine, timeout)
    }
}

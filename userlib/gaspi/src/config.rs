//! Limits and sizes, the same in all processes of a job.

use std::time::Duration;

use crate::GaspiError;

/// Most queues of a process.
pub const QUEUES_MAX: u32 = 16;
/// Most segments of a process.
pub const SEGMENTS_MAX: u32 = 255;
/// Most bytes of a transfer.
pub const TRANSFER_MAX: u64 = 1 << 30;
/// Most bytes of a passive message.
pub const PASSIVE_MAX: u64 = 65535;
/// Most requests of a queue.
const QUEUE_SIZE_MAX: u32 = 4096;
/// Most elements of a list.
const LIST_MAX: u32 = 255;

/// Fields that are the same in all processes.
pub(crate) const COMMON: [&str; 9] = [
    "queue_size_max",
    "queue_num",
    "group_max",
    "segment_max",
    "transfer_size_max",
    "notification_num",
    "passive_transfer_size_max",
    "allreduce_elem_max",
    "rw_list_elem_max",
];

/// The first process whose configuration is not that of rank 0, and the field.
///
/// # Errors
/// [`GaspiError::Unequal`].
pub(crate) fn compare(all: impl IntoIterator<Item = [u64; COMMON.len()]>) -> Result<(), GaspiError> {
    let mut first = None;
    for (rank, values) in all.into_iter().enumerate() {
        let first = *first.get_or_insert(values);
        if let Some(at) = (0..COMMON.len()).find(|at| first[*at] != values[*at]) {
            return Err(GaspiError::Unequal { rank: rank as u16, field: COMMON[at] });
        }
    }
    Ok(())
}

/// Limits of a process, fixed when it begins. All processes of a job must have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Requests that a queue holds, 1 to 4096.
    pub queue_size_max: u32,
    /// Queues that exist at the beginning, 1 to 16.
    pub queue_num: u32,
    /// Groups at a time, the group of all included; 256 at most.
    pub group_max: u32,
    /// Segments of a process, 1 to 255.
    pub segment_max: u32,
    /// Bytes of a transfer, 2^30 at most.
    pub transfer_size_max: u64,
    /// Notifications of a segment.
    pub notification_num: u32,
    /// Bytes of a passive message, 65535 at most.
    pub passive_transfer_size_max: u64,
    /// Elements of a reduction, of 8 bytes at most.
    pub allreduce_elem_max: u32,
    /// Elements of a list, 1 to 255.
    pub rw_list_elem_max: u32,
    /// How long a collective goes on once a member has died that others may have met before. Each process has its own.
    pub failure_timeout: Duration,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            queue_size_max: 1024,
            queue_num: 8,
            group_max: 32,
            segment_max: SEGMENTS_MAX,
            transfer_size_max: TRANSFER_MAX,
            notification_num: 65536,
            passive_transfer_size_max: PASSIVE_MAX,
            allreduce_elem_max: 255,
            rw_list_elem_max: LIST_MAX,
            failure_timeout: Duration::from_secs(30),
        }
    }
}

impl Config {
    /// Takes the fields of `new` in their order, up to the first that is out of range.
    ///
    /// # Errors
    /// [`GaspiError::Config`]: that one and those behind it are as before.
    pub fn set(&mut self, new: &Config) -> Result<(), GaspiError> {
        let within = |is_good: bool| if is_good { Ok(()) } else { Err(GaspiError::Config) };
        within((1..=QUEUE_SIZE_MAX).contains(&new.queue_size_max))?;
        self.queue_size_max = new.queue_size_max;
        within((1..=QUEUES_MAX).contains(&new.queue_num))?;
        self.queue_num = new.queue_num;
        self.group_max = new.group_max;
        within((1..=SEGMENTS_MAX).contains(&new.segment_max))?;
        self.segment_max = new.segment_max;
        within(new.transfer_size_max <= TRANSFER_MAX)?;
        self.transfer_size_max = new.transfer_size_max;
        self.notification_num = new.notification_num;
        within(new.passive_transfer_size_max <= PASSIVE_MAX)?;
        self.passive_transfer_size_max = new.passive_transfer_size_max;
        self.allreduce_elem_max = new.allreduce_elem_max;
        within((1..=LIST_MAX).contains(&new.rw_list_elem_max))?;
        self.rw_list_elem_max = new.rw_list_elem_max;
        self.failure_timeout = new.failure_timeout;
        Ok(())
    }

    /// What all processes of a job must have alike, in the order of [`COMMON`].
    pub(crate) fn common(&self) -> [u64; COMMON.len()] {
        [
            self.queue_size_max.into(),
            self.queue_num.into(),
            self.group_max.into(),
            self.segment_max.into(),
            self.transfer_size_max,
            self.notification_num.into(),
            self.passive_transfer_size_max,
            self.allreduce_elem_max.into(),
            self.rw_list_elem_max.into(),
        ]
    }

    /// Bytes of a reduction at most.
    pub fn reduction_bytes(&self) -> u64 {
        u64::from(self.allreduce_elem_max) * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_and_the_field_that_differ_are_named() {
        let config = |notification_num| Config { notification_num, ..Config::default() }.common();
        assert_eq!(compare([config(5); 4]), Ok(()));
        let unequal = GaspiError::Unequal { rank: 2, field: "notification_num" };
        assert_eq!(compare([config(5), config(5), config(6), config(7)]), Err(unequal));
        // Each field counts, in its place.
        let bits = Config::default().common();
        for at in 0..COMMON.len() {
            let mut other = bits;
            other[at] ^= 1;
            assert_eq!(compare([bits, other]), Err(GaspiError::Unequal { rank: 1, field: COMMON[at] }));
        }
    }

    #[test]
    fn fields_before_a_bad_one_are_set_and_those_behind_it_are_not() {
        let mut config = Config::default();
        let new = Config { queue_size_max: 4096, queue_num: 17, segment_max: 1, ..Config::default() };
        assert_eq!(config.set(&new), Err(GaspiError::Config));
        assert_eq!((config.queue_size_max, config.queue_num, config.segment_max), (4096, 8, 255));
        let bad: [fn(&mut Config); 8] = [
            |c| c.queue_size_max = 0,
            |c| c.queue_size_max = 4097,
            |c| c.queue_num = 0,
            |c| c.segment_max = 0,
            |c| c.segment_max = 256,
            |c| c.transfer_size_max = (1 << 30) + 1,
            |c| c.passive_transfer_size_max = 65536,
            |c| c.rw_list_elem_max = 256,
        ];
        for (number, spoil) in bad.into_iter().enumerate() {
            let mut new = Config::default();
            spoil(&mut new);
            assert_eq!(Config::default().set(&new), Err(GaspiError::Config), "{number}");
        }
        let wide = Config { notification_num: 131_072, allreduce_elem_max: 1_000_000, ..Config::default() };
        config.set(&wide).unwrap();
        assert_eq!(config, wide);
    }
}

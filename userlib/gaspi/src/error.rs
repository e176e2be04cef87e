//! What can go wrong, each with the code that the C interface gives for it.

use std::cell::RefCell;

/// Errors of all calls; [`code`](GaspiError::code) is the number in the C interface.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GaspiError {
    /// The time is over. The call has made progress; the same call again goes on where it stopped. Calls of GPUs may begin anew.
    #[error(
        "the time is over: call again with the same arguments, which goes on where this call stopped; calls of GPUs may begin anew, \
         and `Test` may be too short for them"
    )]
    Timeout,
    /// Something failed beyond this process.
    #[error("a transfer, or the process at its other end, failed: the state vector says whose")]
    Failed,
    /// The process has no room for more files.
    #[error("this process has too many files open: close some, or raise the limit (ulimit -n)")]
    Files,
    /// The environment names no job.
    #[error(
        "the environment names no job of several processes: start the program with `ggas run -n N -- PROGRAM`"
    )]
    Environment,
    /// A field of a configuration is out of range.
    #[error(
        "a field of the configuration is out of range: those before it are set, it and those behind it are not"
    )]
    Config,
    /// The processes do not have the same configuration.
    #[error("rank {rank} has another {field} than rank 0: give all processes the same configuration")]
    Unequal {
        /// The first process that differs from rank 0.
        rank: u16,
        /// The first field in which it does.
        field: &'static str,
    },
    /// Before [`Gaspi::init`](crate::Gaspi::init), or after its end.
    #[error("this process has not begun, or has ended already: initialize first")]
    NotInitialized,
    /// Not possible any more.
    #[error("this process has begun already: do this before")]
    Initialized,
    /// This process was there before, and has ended its part.
    #[error("this process has ended its part in the job: it cannot begin again, start another process")]
    Ended,
    /// An argument that is none of those that the interface names.
    #[error("an argument is none of those that the interface names: see the headers")]
    Argument,
    /// A null pointer, or a segment that was never there.
    #[error("a pointer is null, or no segment has ever had this id: create or register it first")]
    Null,
    /// A segment of no bytes, or one that was deleted.
    #[error("the segment has no bytes, or was deleted: create it again")]
    SegmentSize,
    /// A segment id out of range or in use.
    #[error("the segment id is out of range or in use: choose a free one below the configured maximum")]
    Segment,
    /// No such group, or not one of its members.
    #[error("there is no such group, or it is not committed, or this process is not in it")]
    Group,
    /// No such rank, or none for this call.
    #[error(
        "there is no such rank, or it is none for this call: one that is in the group already, or this process, which \
         cannot kill itself"
    )]
    Rank,
    /// No such queue.
    #[error("there is no such queue: create it first")]
    Queue,
    /// Outside of the local segment.
    #[error("the local offset is outside of the segment")]
    LocalOffset,
    /// Outside of the remote segment.
    #[error("the remote offset is outside of the segment")]
    RemoteOffset,
    /// Too many bytes for the segment or for a transfer.
    #[error("the size leaves the segment, or is more than a transfer may have: split it")]
    CommSize,
    /// A notification of value 0.
    #[error("a notification has the value 0, which stands for none: choose another")]
    NotificationValue,
    /// A notification id out of range.
    #[error("the notification id is not below the number of notifications of a segment")]
    NotificationId,
    /// Too many elements, or none.
    #[error("the number of elements is out of range")]
    Number,
    /// The members of a group gave values of a reduction that are not alike.
    #[error(
        "members of the group gave another number of elements, operation or type: call it alike everywhere"
    )]
    Unlike,
    /// Too many bytes for a reduction, or no whole elements; a vector in GPU memory that does not begin at a multiple of an element's bytes.
    #[error(
        "the bytes of a reduction are no whole elements or do not begin at a multiple of one's, or are more than its buffer has: \
         reduce in parts"
    )]
    Size,
    /// All segment ids are in use.
    #[error("all segments are in use: delete one, or raise segment_max before the start")]
    ManySegments,
    /// All group ids are in use.
    #[error("all groups are in use: delete one, or raise group_max before the start")]
    ManyGroups,
    /// The queue has no room.
    #[error("the queue has no room for this request: wait on it, or post to another")]
    QueueFull,
    /// An atomic word that is not aligned.
    #[error("the offset of an atomic word is no multiple of 8")]
    Unaligned,
    /// Another kind of collective is unfinished on the group.
    #[error("another kind of collective timed out on this group: finish that first")]
    ActiveCollective,
    /// A member of the group has died.
    #[error("a member of the group is dead, the state vector says which: make a group without it")]
    Dead,
    /// The device refused.
    #[error("the device refused: {}", why(GaspiError::Device))]
    Device,
    /// The other processes were not reached at the start.
    #[error("the other processes were not reached: {}", why(GaspiError::Reach))]
    Reach,
    /// No memory.
    #[error("there is no memory for this, or it cannot be registered: {}", why(GaspiError::Memory))]
    Memory,
}

ggas_errors::debug_as_display!(GaspiError);

impl GaspiError {
    /// Its `gaspi_return_t`.
    pub const fn code(self) -> i32 {
        match self {
            GaspiError::Failed | GaspiError::Ended | GaspiError::Argument => -1,
            GaspiError::Timeout => 1,
            GaspiError::Files => 2,
            GaspiError::Environment => 3,
            GaspiError::Config | GaspiError::Unequal { .. } => 5,
            GaspiError::NotInitialized => 6,
            GaspiError::Initialized => 7,
            GaspiError::Null => 8,
            GaspiError::SegmentSize => 9,
            GaspiError::Segment => 10,
            GaspiError::Group => 11,
            GaspiError::Rank => 12,
            GaspiError::Queue => 13,
            GaspiError::LocalOffset => 14,
            GaspiError::RemoteOffset => 15,
            GaspiError::CommSize => 16,
            GaspiError::NotificationValue => 17,
            GaspiError::NotificationId => 18,
            GaspiError::Number | GaspiError::Unlike => 19,
            GaspiError::Size => 20,
            GaspiError::ManySegments => 21,
            GaspiError::ManyGroups => 22,
            GaspiError::QueueFull => 23,
            GaspiError::Unaligned => 24,
            GaspiError::ActiveCollective => 25,
            GaspiError::Device | GaspiError::Dead => 26,
            GaspiError::Reach => 27,
            GaspiError::Memory => 28,
        }
    }

    /// What happened below, if it was this error that it last caused in the calling thread.
    pub fn cause(self) -> Option<String> {
        let of = |last: &RefCell<Option<(GaspiError, String)>>| {
            last.borrow().as_ref().filter(|(error, _)| *error == self).map(|(_, cause)| cause.clone())
        };
        CAUSE.try_with(of).ok().flatten()
    }
}

thread_local! {
    /// The last error that something below caused, and what that was.
    static CAUSE: RefCell<Option<(GaspiError, String)>> = const { RefCell::new(None) };
}

/// Logs what happened below, and keeps it for the error's text, of which the interface has no more than a code.
pub(crate) fn because<E: std::fmt::Display>(error: GaspiError) -> impl FnOnce(E) -> GaspiError {
    move |cause| {
        let cause = cause.to_string();
        tracing::warn!("{cause}");
        // At a thread's end nobody asks any more.
        let _ = CAUSE.try_with(|last| *last.borrow_mut() = Some((error, cause)));
        error
    }
}

/// A cause as an error's text ends with it.
fn why(error: GaspiError) -> String {
    error.cause().unwrap_or_else(|| "the log says why (events of `tracing`, level warn)".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_an_error_names_its_cause() {
        let error = because("GGAS_DEVICE=blah: use sim, hw or nvlink");
        assert_eq!(error.to_string(), "the device refused: GGAS_DEVICE=blah: use sim, hw or nvlink");
        assert_eq!(error.cause().as_deref(), Some("GGAS_DEVICE=blah: use sim, hw or nvlink"));
        // It is that of no other error, nor of another thread.
        assert!(!GaspiError::Memory.to_string().contains("blah"));
        assert_eq!(std::thread::spawn(move || error.cause()).join().unwrap(), None);
    }

    fn because(cause: &str) -> GaspiError {
        super::because(GaspiError::Device)(cause)
    }

    #[test]
    fn who_ran_out_of_time_is_told_that_calls_of_gpus_begin_anew() {
        assert!(GaspiError::Timeout.to_string().contains("GPUs may begin anew"));
    }

    #[test]
    fn a_process_that_would_kill_itself_is_told_so() {
        assert!(GaspiError::Rank.to_string().contains("cannot kill itself"));
    }
}

//! The report that a bounded wait of a kernel leaves behind.

use std::fmt;

use extoll_abi::layout;

/// What a `GGAS_WAIT_*` code (`extoll_abi::layout`) stands for, for messages.
pub fn wait_name(kind: u32) -> &'static str {
    match kind {
        layout::GGAS_WAIT_NOTIFICATION => "a notification",
        layout::GGAS_WAIT_SLOT => "a free requester slot",
        layout::GGAS_WAIT_WCB => "the write-combining buffer",
        layout::GGAS_WAIT_FLAG => "a flag",
        layout::GGAS_WAIT_BARRIER => "a barrier",
        layout::GGAS_WAIT_COLLECTIVE => "a collective",
        layout::GGAS_WAIT_GRID => "the other blocks of the grid",
        layout::GGAS_WAIT_LOCK => "a lock",
        layout::GGAS_WAIT_MESSAGE => "a message",
        layout::GGAS_WAIT_COMPLETION => "the completion of a triggered operation",
        layout::GGAS_WAIT_QUEUE => "operations of a queue",
        layout::GGAS_WAIT_QUEUE_FLAG => "a flag of queues",
        layout::GGAS_WAIT_QUEUE_NOTIFIED => "notifications of a queue",
        layout::GGAS_WAIT_ANSWER => "an answer of GMPI's daemon",
        _ => "something",
    }
}

/// What a wait of queues (`ggas/queue.cuh`) is for, and what it saw, in words: members, and numbers where others have an address.
#[derive(Clone, Copy, Debug)]
pub struct QueueWait {
    /// `GGAS_WAIT_QUEUE*`.
    pub wait: u32,
    /// The member that was waited for.
    pub peer: Option<u32>,
    /// The queue, or the flag and a comparison.
    pub address: u64,
    /// What it waits for.
    pub expected: u64,
    /// What it saw last.
    pub seen: u64,
    /// Line of the call.
    pub line: u32,
}

/// Of `ggas_cmp`, in its order.
const COMPARISONS: [&str; 6] = ["==", "!=", ">", ">=", "<", "<="];

impl QueueWait {
    /// Whether a `GGAS_WAIT_*` is one of queues.
    pub fn is_one(wait: u32) -> bool {
        [layout::GGAS_WAIT_QUEUE, layout::GGAS_WAIT_QUEUE_FLAG, layout::GGAS_WAIT_QUEUE_NOTIFIED]
            .contains(&wait)
    }

    fn of_a_flag(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, expected, seen, line, peer, .. } = self;
        let (number, comparison) = (*address as u32, (address >> 32) as u32);
        match (comparison, peer) {
            (layout::GGAS_QUEUE_FLAG_ANY, _) => {
                return write!(
                    f,
                    "one of {expected} flags from flag {number} on to be other than 0 (line {line})"
                );
            }
            (layout::GGAS_QUEUE_FLAG_ROUND, Some(peer)) => {
                let rounds = if number == 0 { "even" } else { "odd" };
                return write!(f, "the notification of member {peer} in {rounds} rounds (line {line})");
            }
            (_, Some(peer)) => write!(f, "flag {number} (set by member {peer})")?,
            (_, None) => write!(f, "flag {number}")?,
        }
        let sign = COMPARISONS.get(comparison as usize).unwrap_or(&"?");
        write!(f, " to be {sign} {expected} (line {line}), saw {seen}")
    }
}

impl fmt::Display for QueueWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, expected, seen, line, .. } = self;
        match self.wait {
            layout::GGAS_WAIT_QUEUE_FLAG => return self.of_a_flag(f),
            layout::GGAS_WAIT_QUEUE_NOTIFIED => {
                return write!(
                    f,
                    "{expected} notifications of queue {address} (line {line}), of which {seen} have come since the \
                     queues were opened"
                );
            }
            _ => {}
        }
        match u32::try_from(*address) {
            Ok(queue) => write!(f, "operations of queue {queue}")?,
            Err(_) => f.write_str("all operations of one of several queues")?,
        }
        write!(f, " (line {line}): {seen} of {expected} were done")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_of_queues_speak_of_members_and_numbers() {
        let wait = layout::GGAS_WAIT_QUEUE_FLAG;
        let flag = QueueWait { wait, peer: Some(1), address: 3 << 32 | 5, expected: 7, seen: 4, line: 9 };
        assert_eq!(flag.to_string(), "flag 5 (set by member 1) to be >= 7 (line 9), saw 4");
        let queue = QueueWait { wait: layout::GGAS_WAIT_QUEUE, peer: None, address: 2, ..flag };
        assert_eq!(queue.to_string(), "operations of queue 2 (line 9): 4 of 7 were done");
    }
}

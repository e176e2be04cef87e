//! The report that a bounded wait of a kernel leaves behind.

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

//! The report that a bounded wait of a kernel leaves behind.

/// What a `GGAS_WAIT_*` code stands for.
pub(crate) fn wait_name(kind: u32) -> &'static str {
    match kind {
        1 => "a notification",
        2 => "a free requester slot",
        3 => "the write-combining buffer",
        4 => "a flag",
        5 => "a barrier",
        6 => "a collective",
        7 => "the other blocks of the grid",
        8 => "a lock",
        _ => "something",
    }
}

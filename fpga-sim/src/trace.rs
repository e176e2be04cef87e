//! Tracing spans of the units' work. They exist with the feature `trace` only, so that cards without it pay nothing.

/// Opens a span, as [`tracing::trace_span!`] does, until the end of the block. Every build checks its arguments.
macro_rules! span {
    ($($args:tt)*) => {
        let _span = if cfg!(feature = "trace") { Some(tracing::trace_span!($($args)*).entered()) } else { None };
    };
}

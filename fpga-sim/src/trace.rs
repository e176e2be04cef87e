//! Tracing spans of the units' work. They exist with the feature `trace` only, so that cards without it pay nothing.

/// Opens a span, as [`tracing::trace_span!`] does, until the end of the block.
macro_rules! span {
    ($($args:tt)*) => {
        #[cfg(feature = "trace")]
        let _span = tracing::trace_span!($($args)*).entered();
    };
}

//! Tracing spans of the units' work. They exist with the feature `trace` only, so that cards without it pay nothing.

/// Opens a span, as [`tracing::trace_span!`] does, until the end of the block.
#[cfg(feature = "trace")]
macro_rules! span {
    ($($args:tt)*) => {
        let _span = tracing::trace_span!($($args)*).entered();
    };
}

/// Opens none, and has its arguments checked all the same. Nothing is there to be dropped at the end of the block either: that is a call.
#[cfg(not(feature = "trace"))]
macro_rules! span {
    ($($args:tt)*) => {
        if false {
            let _ = tracing::trace_span!($($args)*);
        }
    };
}

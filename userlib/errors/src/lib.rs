//! How the errors of all crates of the suite are shown.
//!
//! A `main` that returns `Result<(), Box<dyn Error>>`, `unwrap` and `expect` print an error with `{:?}`. Derived, that
//! is Rust's view of an enum, and the text that says what to do is never seen. So these errors have one text.

/// Shows errors with `{:?}` as they are shown with `{}`, in place of `derive(Debug)`.
///
/// Their texts contain those of their sources, so the chain is in them.
///
/// ```
/// #[derive(thiserror::Error)]
/// enum PortError {
///     #[error("all {0} ports are open: close one")]
///     InUse(u32),
/// }
/// ggas_errors::debug_as_display!(PortError);
///
/// assert_eq!(format!("{:?}", PortError::InUse(8)), "all 8 ports are open: close one");
/// ```
#[macro_export]
macro_rules! debug_as_display {
    ($error:ty) => {
        impl ::std::fmt::Debug for $error {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                ::std::fmt::Display::fmt(self, f)
            }
        }
    };
}

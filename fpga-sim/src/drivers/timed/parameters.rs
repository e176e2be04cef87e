//! Declares a table of a parameter file: its entries, what each may be, and the checks that follow.

/// What an entry may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// A time that may be nothing.
    Time,
    /// A period or a rate: more than nothing.
    Positive,
}

impl Allowed {
    pub(super) fn allows(self, value: f64) -> bool {
        value.is_finite() && if self == Allowed::Time { value >= 0.0 } else { value > 0.0 }
    }
}

impl std::fmt::Display for Allowed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Allowed::Time => "a number that is not negative",
            Allowed::Positive => "a number above 0",
        })
    }
}

/// `time`: nanoseconds, may be 0. `period`: nanoseconds above 0. `rate`: above 0. `count`: 1 at least. `bytes`: may be 0.
macro_rules! parameters {
    (@type time) => { f64 };
    (@type period) => { f64 };
    (@type rate) => { f64 };
    (@type count) => { u64 };
    (@type bytes) => { u64 };
    (@allowed time) => { Allowed::Time };
    (@allowed bytes) => { Allowed::Time };
    (@allowed $kind:ident) => { Allowed::Positive };
    (
        $(#[$doc:meta])*
        $name:ident = $table:literal $(, plus { $($(#[$extra_doc:meta])* $extra:ident: $extra_type:ty,)* })?
        { $($(#[$entry_doc:meta])* $kind:ident $entry:ident,)* }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($($(#[$extra_doc])* pub $extra: $extra_type,)*)?
            $($(#[$entry_doc])* pub $entry: parameters!(@type $kind),)*
        }

        impl $name {
            /// The first entry that is not as allowed: its name, its value, and what is.
            pub(super) fn wrong(&self) -> Option<(&'static str, f64, Allowed)> {
                let entries = [
                    $((
                        concat!($table, ".", stringify!($entry)),
                        self.$entry as f64,
                        parameters!(@allowed $kind),
                    ),)*
                ];
                entries.into_iter().find(|(_, value, allowed)| !allowed.allows(*value))
            }
        }
    };
}

pub(super) use parameters;

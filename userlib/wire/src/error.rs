//! What can go wrong, and what to do about it.

use crate::library::Library;

/// Errors of finding, choosing and using a library that joins hosts.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The library is not installed, or cannot be used.
    #[error("{library} cannot be used: {why}. {}", library.remedy())]
    Missing {
        /// Which one.
        library: Library,
        /// What the system said.
        why: String,
    },
    /// The program was built where the library's headers were not installed.
    #[error(
        "this program was built without {library}: `cargo xtask setup` installs its headers; then build again"
    )]
    NotBuilt {
        /// Which one.
        library: Library,
    },
    /// `GGAS_FABRIC` does not say what it should.
    #[error(
        "GGAS_FABRIC={value}: write `libfabric` or `ucx`, or `libfabric:PROVIDER` or `ucx:PROVIDER` with one that `ggas info` lists"
    )]
    Word {
        /// Its value.
        value: String,
    },
    /// `GGAS_FABRIC_GPU` does not say what it should.
    #[error("GGAS_FABRIC_GPU={value}: write `direct` or `staged`, or leave it unset")]
    GpuWord {
        /// Its value.
        value: String,
    },
    /// The library does not read and write GPU memory, which is asked for.
    #[error(
        "GGAS_FABRIC_GPU=direct: with the provider {provider} of {library} {}; leave it unset",
        if *.reached { "this is not used" } else { "GPU memory is not reached here" }
    )]
    Gpu {
        /// Which library.
        library: Library,
        /// Its provider.
        provider: String,
        /// It could, but is not used so.
        reached: bool,
    },
    /// None is installed, or can be used.
    #[error("nothing carries messages between hosts: {libfabric}; {ucx}")]
    Nothing {
        /// What is wrong with libfabric.
        libfabric: Box<WireError>,
        /// What is wrong with UCX.
        ucx: Box<WireError>,
    },
    /// The provider that was asked for does not exist here.
    #[error(
        "GGAS_FABRIC asks for the provider {provider}, which {library} has not here{filtered}; it has: {offered}"
    )]
    NoSuchProvider {
        /// Which library.
        library: Library,
        /// The name asked for.
        provider: String,
        /// That `FI_PROVIDER` or `UCX_TLS` hides providers, where it is set.
        filtered: String,
        /// What there is.
        offered: String,
    },
    /// The provider that was asked for cannot do what is needed.
    #[error(
        "the provider {provider} of {library} has no reliable messages together with access to memory; \
         `ggas info` lists those that have"
    )]
    Unfit {
        /// Which library.
        library: Library,
        /// Its provider.
        provider: String,
    },
    /// Nothing that is chosen without being named is there.
    #[error(
        "{library} {version} has none of the providers that are taken unasked{filtered} ({wanted}); \
         it has: {offered}. GGAS_FABRIC={}:PROVIDER takes another one",
        library.word()
    )]
    NoProvider {
        /// Which library.
        library: Library,
        /// Its version.
        version: String,
        /// That `FI_PROVIDER` or `UCX_TLS` hides providers, where it is set.
        filtered: String,
        /// Those that are taken unasked.
        wanted: String,
        /// What there is.
        offered: String,
    },
    /// A call of the library failed.
    #[error("{library}: {call} failed: {why}{}", advice(.why))]
    Call {
        /// Which library.
        library: Library,
        /// What was called.
        call: String,
        /// What it said.
        why: String,
    },
    /// A message is too long.
    #[error(
        "a message has at most {most} bytes, this one has {len}: send several, or write to the peer's memory"
    )]
    TooLong {
        /// Bytes of the message.
        len: usize,
        /// The most.
        most: usize,
    },
    /// A transfer leaves a region.
    #[error("{len} bytes from offset {offset} are not in the {whose} region of {size} bytes")]
    Outside {
        /// `local` or `peer's`.
        whose: &'static str,
        /// Where it would begin.
        offset: u64,
        /// Its length.
        len: u64,
        /// Bytes of the region.
        size: u64,
    },
    /// A peer or a region that was given back.
    #[error("this {what} was given back to the endpoint, or is of another one")]
    Stale {
        /// What.
        what: &'static str,
    },
    /// Operations that read or write a region are not over.
    #[error("{operations} operations on this region are not over: poll until each has ended, then try again")]
    Busy {
        /// How many.
        operations: u32,
    },
    /// Bytes that are no address or no key of this library's.
    #[error(
        "these {len} bytes are no {what} of the provider in use: all processes have to use the same one, of the same version if it is UCX's"
    )]
    Foreign {
        /// `address` or `key`.
        what: &'static str,
        /// How many bytes.
        len: usize,
    },
}

ggas_errors::debug_as_display!(WireError);

fn advice(why: &str) -> &'static str {
    match why {
        why if why.contains("emory") => ". `ulimit -l` limits locked memory",
        why if why.contains("open files") => ". `ulimit -n` limits open files",
        _ => "",
    }
}

//! Which source a program was built from. A crate of its own, which is built again after each change: what is compiled longer, such as the
//! benchmarks' kernels, is not.

/// The commit, with `-dirty` where sources that figures depend on have changed since. `None`: built outside of a repository.
pub const DESCRIBED: Option<&str> = option_env!("GGAS_GIT_DESCRIBE");

//! For the CPU executor: a library of host code.

use std::env;
use std::path::{Path, PathBuf};

use crate::wrapper;

pub fn compile<'a>(out: &Path, includes: &[PathBuf], sources: impl Iterator<Item = &'a PathBuf>) {
    let mut build = cc::Build::new();
    build
        .cpp(true)
        .std("c++20")
        .opt_level(2)
        .cpp_link_stdlib(None)
        .includes(includes)
        .warnings(true)
        .extra_warnings(true)
        // No unwinding through kernels: the executor drops the stacks of a launch that failed.
        .flag("-fno-exceptions")
        .flag("-fno-rtti")
        .flag("-fno-threadsafe-statics")
        .flag("-fno-strict-aliasing");
    for source in sources {
        if source.extension().is_some_and(|extension| extension == "cu") {
            let stem = source.file_stem().unwrap_or_default().to_string_lossy();
            build.file(wrapper(out, &format!("{stem}.cpp"), std::slice::from_ref(source)));
        } else {
            build.file(source);
        }
    }
    let package = env::var("CARGO_PKG_NAME").expect("cargo sets it");
    build.compile(&format!("{}_on_host", package.replace('-', "_")));
}

//! Compiles the shims against the headers of their libraries, where these are installed. The libraries themselves are
//! opened at run time.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=shim");
    println!("cargo::rustc-check-cfg=cfg(libfabric)");
    for name in ["GGAS_WIRE", "CC", "CFLAGS", "CPATH"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    if env::var_os("GGAS_WIRE").is_some_and(|value| value == "none") {
        return;
    }
    let mut shim = cc::Build::new();
    // Libraries that are made of this, such as librma2, show nothing of it.
    shim.warnings(true).extra_warnings(true).flag("-fvisibility=hidden");
    // The preprocessor alone knows where the compiler looks. What it says of a header that is not there is no news.
    let mut probe = shim.clone();
    if probe.cargo_warnings(false).file("shim/libfabric.h").try_expand().is_err() {
        println!(
            "cargo::warning=built without libfabric, for its headers (rdma/fabric.h) are not installed: this build has no \
             network between hosts. `cargo xtask setup` installs them; for a place of your own set CPATH"
        );
        return;
    }
    for file in ["libfabric.c", "libfabric_list.c", "libfabric_load.c", "libfabric_marks.c"] {
        shim.file(format!("shim/{file}"));
    }
    shim.compile("ggas_wire");
    println!("cargo::rustc-link-lib=dl");
    println!("cargo::rustc-cfg=libfabric");
}

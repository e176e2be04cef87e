//! Compiles the shim against rdma-core's headers, where these are installed. The libraries are opened at run time.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=shim");
    println!("cargo::rustc-check-cfg=cfg(rdma_core)");
    for name in ["GGAS_RDMA", "CC", "CFLAGS", "CPATH"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    if env::var_os("GGAS_RDMA").is_some_and(|value| value == "none") {
        return;
    }
    let mut shim = cc::Build::new();
    shim.warnings(true).extra_warnings(true).flag("-fvisibility=hidden");
    // The preprocessor alone knows where the compiler looks. Without headers every call says so: no warning is needed.
    let mut probe = shim.clone();
    if probe.cargo_warnings(false).file("shim/headers.h").try_expand().is_err() {
        return;
    }
    shim.file("shim/load.c").file("shim/queues.c").compile("ggas_rdma");
    println!("cargo::rustc-link-lib=dl");
    println!("cargo::rustc-cfg=rdma_core");
}

//! Compiles the shims against the headers of their libraries, where these are installed. The libraries themselves are
//! opened at run time.

use std::env;

/// A library, the header that says whether it is installed, and its shim.
struct Shim {
    name: &'static str,
    cfg: &'static str,
    header: &'static str,
    files: &'static [&'static str],
}

const SHIMS: [Shim; 2] = [
    Shim {
        name: "libfabric",
        cfg: "libfabric",
        header: "rdma/fabric.h",
        files: &["libfabric.c", "libfabric_list.c", "libfabric_load.c", "strangers.c"],
    },
    Shim {
        name: "UCX",
        cfg: "ucx",
        header: "ucp/api/ucp.h",
        files: &[
            "ucx.c",
            "ucx_chores.c",
            "ucx_gpu.c",
            "ucx_list.c",
            "ucx_load.c",
            "ucx_memory.c",
            "ucx_parcels.c",
            "ucx_peers.c",
            "ucx_transfers.c",
        ],
    },
];

fn main() {
    println!("cargo::rerun-if-changed=shim");
    for name in ["GGAS_WIRE", "CC", "CFLAGS", "CPATH"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    let without = env::var_os("GGAS_WIRE").is_some_and(|value| value == "none");
    let mut build = cc::Build::new();
    // Libraries that are made of this, such as librma2, show nothing of it.
    build.warnings(true).extra_warnings(true).flag("-fvisibility=hidden");
    let (mut missing, mut files) = (Vec::new(), vec!["marks.c"]);
    for shim in &SHIMS {
        println!("cargo::rustc-check-cfg=cfg({})", shim.cfg);
        // The preprocessor alone knows where the compiler looks. What it says of a header that is not there is no news.
        let mut probe = build.clone();
        probe.cargo_warnings(false).file(format!("shim/{}.h", shim.cfg));
        if without || probe.try_expand().is_err() {
            missing.push(format!("{} ({})", shim.name, shim.header));
            continue;
        }
        files.extend(shim.files);
        println!("cargo::rustc-cfg={}", shim.cfg);
    }
    if missing.len() == SHIMS.len() {
        if !without {
            println!(
                "cargo::warning=built without {}, for their headers are not installed: this build has no network between \
                 hosts. `cargo xtask setup` installs them; for a place of your own set CPATH",
                missing.join(" and ")
            );
        }
        return;
    }
    build.files(files.iter().map(|file| format!("shim/{file}"))).compile("ggas_wire");
    println!("cargo::rustc-link-lib=dl");
}

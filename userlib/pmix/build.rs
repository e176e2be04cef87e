//! Compiles the shim against PMIx's headers, where these are installed. The library itself is opened at run time.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=shim");
    println!("cargo::rustc-check-cfg=cfg(pmix)");
    for name in ["GGAS_PMIX", "CC", "CFLAGS", "CPATH", "PKG_CONFIG_PATH"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    if env::var_os("GGAS_PMIX").is_some_and(|value| value == "none") {
        return;
    }
    let mut shim = cc::Build::new();
    // Its headers have warnings of their own; programs that hold this show nothing of it.
    shim.warnings(true).extra_warnings(true).flag("-fvisibility=hidden");
    // Debian has them where the compiler does not look.
    let found = Command::new("pkg-config").args(["--cflags-only-I", "pmix"]).output();
    if let Some(found) = found.ok().filter(|found| found.status.success()) {
        for folder in String::from_utf8_lossy(&found.stdout).split_whitespace() {
            shim.flag(folder.replacen("-I", "-isystem", 1));
        }
    }
    let mut probe = shim.clone();
    // What the preprocessor says of a header that is not there is no news.
    if probe.cargo_warnings(false).file("shim/pmix.c").try_expand().is_err() {
        println!(
            "cargo::warning=built without PMIx, for its headers (pmix.h) are not installed: mpirun and srun start no jobs of \
             this build. apt-get install libpmix-dev pkg-config"
        );
        return;
    }
    shim.file("shim/pmix.c").compile("ggas_pmix");
    println!("cargo::rustc-link-lib=dl");
    println!("cargo::rustc-cfg=pmix");
}

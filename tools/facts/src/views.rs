//! The table of headers that Rust sees. To add one: a row here, then `cargo run -p ggas-facts`.

/// One generated file.
pub struct View {
    /// Headers it shows.
    pub headers: &'static [&'static str],
    /// Include directories.
    pub includes: &'static [&'static str],
    /// Further compiler arguments.
    pub arguments: &'static [&'static str],
    /// Regular expression of the names to show (constants, structures, enumerations).
    pub allow: &'static str,
    /// The file, checked in.
    pub output: &'static str,
}

/// Every generated file; paths are relative to the top of the tree.
pub const VIEWS: &[View] = &[
    View {
        headers: &[
            "kmod/uapi/extoll/desc.h",
            "kmod/uapi/extoll/noti.h",
            "kmod/uapi/extoll/bq.h",
            "kmod/uapi/extoll/atu.h",
            "kmod/uapi/extoll/wcb.h",
            "kmod/uapi/extoll/smfu.h",
            "kmod/uapi/extoll/velo.h",
            "kmod/uapi/extoll/regs.h",
            "kmod/uapi/extoll/ioctl.h",
        ],
        includes: &["kmod/uapi"],
        arguments: &[],
        allow: "(EXTOLL|extoll)_.*",
        output: "userlib/abi/src/bindings.rs",
    },
    View {
        headers: &["kernels/include/ggas/layout.h"],
        includes: &["kernels/include"],
        arguments: &[],
        allow: "(GGAS|ggas)_.*",
        output: "userlib/abi/src/layout.rs",
    },
    View {
        headers: &["kernels/src/args.h"],
        includes: &["kernels/include", "kernels/src"],
        arguments: &[],
        allow: "((selftest|bench|coll)_.*|(SELFTEST|BENCH|COLL)_.*)",
        output: "kernels/src/args.rs",
    },
];

//! The table of headers that Rust sees. To add one: a row here, then `cargo xtask facts`. A structure or constant that
//! is added to a header of the table needs no row.

/// One generated file.
pub struct View {
    /// Headers that are read, with all that they include.
    pub headers: &'static [&'static str],
    /// Include directories.
    pub includes: &'static [&'static str],
    /// Further compiler arguments.
    pub arguments: &'static [&'static str],
    /// Of what was read, constants, structures and enumerations from headers in these folders are shown.
    pub folders: &'static [&'static str],
    /// But not from these headers of the first: what Rust needs of them is written by hand.
    pub except: &'static [&'static str],
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
            "kmod/uapi/extoll/trigger.h",
            "kmod/uapi/extoll/regs.h",
            "kmod/uapi/extoll/ioctl.h",
            "kmod/uapi/gpumap/ioctl.h",
        ],
        includes: &["kmod/uapi"],
        arguments: &[],
        folders: &["kmod/uapi/extoll", "kmod/uapi/gpumap"],
        except: &[],
        output: "userlib/abi/src/bindings.rs",
    },
    View {
        headers: &["kernels/include/ggas/layout.h"],
        includes: &["kernels/include"],
        arguments: &[],
        folders: &["kernels/include/ggas"],
        except: &[],
        output: "userlib/abi/src/layout.rs",
    },
    View {
        headers: &["kernels/include/ggas/verbs_layout.h"],
        includes: &["kernels/include"],
        arguments: &[],
        folders: &["kernels/include/ggas"],
        except: &["layout.h"],
        output: "userlib/verbs/src/layout.rs",
    },
    View {
        headers: &["kernels/include/ggas/gmpi_layout.h"],
        includes: &["kernels/include"],
        arguments: &[],
        folders: &["kernels/include/ggas"],
        except: &[],
        output: "userlib/gmpi/src/layout.rs",
    },
    View {
        headers: &["kernels/include/ggas/hpe_layout.h"],
        includes: &["kernels/include"],
        arguments: &[],
        folders: &["kernels/include/ggas"],
        except: &[],
        output: "userlib/hpe/src/layout.rs",
    },
    View {
        headers: &["kernels/include/ggas/proxy_layout.h"],
        includes: &["kernels/include"],
        arguments: &[],
        folders: &["kernels/include/ggas"],
        except: &[],
        output: "kernels/src/proxy/layout.rs",
    },
    View {
        headers: &["kernels/src/args.h"],
        includes: &["kernels/include", "kernels/src"],
        arguments: &[],
        folders: &["kernels/src"],
        except: &["copier.h"],
        output: "kernels/src/args.rs",
    },
    View {
        headers: &[
            "kernels/selftest/kernels/selftest.h",
            "kernels/selftest/kernels/gputest.h",
            "kernels/selftest/kernels/planted.h",
            "kernels/selftest/kernels/selftest_verbs.h",
        ],
        includes: &[],
        arguments: &[],
        folders: &["kernels/selftest/kernels"],
        except: &[],
        output: "kernels/selftest/src/args.rs",
    },
    View {
        headers: &["benches/kernels/bench.h"],
        includes: &[],
        arguments: &[],
        folders: &["benches/kernels"],
        except: &[],
        output: "benches/src/args.rs",
    },
];

//! What variables of the environment choose, asked of a process that has them.

use crate::common;
use std::path::PathBuf;
use std::process::Command;

use ggas_wire::Library;

/// What the process would use, with these variables and no others that matter.
fn choice_with(variables: &[(&str, &str)]) -> String {
    said_with("choice", variables)
}

/// What the process says of what it is asked for.
fn said_with(what: &str, variables: &[(&str, &str)]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ggas-test-wire"));
    command.arg(what).env_remove("GGAS_FABRIC").env_remove("FI_PROVIDER").env_remove("UCX_TLS");
    let output = command.envs(variables.iter().copied()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_missing_library_is_named_and_how_to_get_it() {
    if common::chosen(Library::Libfabric).is_none() {
        return;
    }
    let said = choice_with(&[("GGAS_FABRIC", "libfabric"), ("GGAS_LIBFABRIC", "/nowhere/libfabric.so.1")]);
    assert!(
        said.contains("/nowhere/libfabric.so.1") && said.contains("apt-get install libfabric1"),
        "{said}"
    );
    // One that is a library, and not this one.
    let said = choice_with(&[("GGAS_FABRIC", "libfabric"), ("GGAS_LIBFABRIC", "libc.so.6")]);
    assert!(said.contains("no function fi_version"), "{said}");
}

/// A library that has these functions and nothing else, in a file that goes with the value.
struct Fake(PathBuf);

impl Fake {
    fn new(name: &str, source: &str) -> Fake {
        let file =
            |end: &str| std::env::temp_dir().join(format!("ggas-fake-{name}-{}{end}", std::process::id()));
        let (code, library) = (file(".c"), file(".so"));
        std::fs::write(&code, source).unwrap();
        let made =
            Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&code).status().unwrap();
        std::fs::remove_file(code).unwrap();
        assert!(made.success());
        Fake(library)
    }

    /// What a process says that is to use it.
    fn choice(&self, library: &str, variable: &str) -> String {
        choice_with(&[("GGAS_FABRIC", library), (variable, self.0.to_str().unwrap())])
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn older_libraries_are_named_with_their_versions() {
    if common::chosen(Library::Libfabric).is_none() || common::chosen(Library::Ucx).is_none() {
        return;
    }
    let rest = "getinfo freeinfo dupinfo fabric strerror"
        .split(' ')
        .map(|name| format!("int fi_{name}(void) {{ return -1; }}"));
    let older = format!("unsigned fi_version(void) {{ return 1 << 16 | 11; }} {}", rest.collect::<String>());
    let said = Fake::new("ofi", &older).choice("libfabric", "GGAS_LIBFABRIC");
    assert!(said.contains("it is 1.11, and 1.17 or a later one is needed"), "{said}");
    let said = Fake::new("ucx", "int x;").choice("ucx", "GGAS_UCX");
    assert!(said.contains("no function ucp_"), "{said}");
    // What is no library.
    for file in ["/etc/passwd", "/tmp"] {
        let said = choice_with(&[("GGAS_FABRIC", "libfabric"), ("GGAS_LIBFABRIC", file)]);
        assert!(said.contains(file) && said.contains("libfabric cannot be used"), "{said}");
    }
}

#[test]
fn a_missing_ucx_is_named_and_how_to_get_it() {
    if common::chosen(Library::Ucx).is_none() {
        return;
    }
    let said = choice_with(&[("GGAS_FABRIC", "ucx"), ("GGAS_UCX", "/nowhere/libucp.so.0")]);
    assert!(said.contains("/nowhere/libucp.so.0") && said.contains("apt-get install libucx0"), "{said}");
    let said = choice_with(&[("GGAS_FABRIC", "ucx"), ("GGAS_UCX", "libc.so.6")]);
    assert!(said.contains("no function ucp_get_version"), "{said}");
    // Neither of the two.
    let nowhere = [("GGAS_LIBFABRIC", "/nowhere/libfabric.so.1"), ("GGAS_UCX", "/nowhere/libucp.so.0")];
    let said = choice_with(&nowhere);
    assert!(said.contains("libfabric cannot be used") && said.contains("UCX cannot be used"), "{said}");
}

#[test]
fn ucx_is_asked_for_or_stands_in() {
    if common::chosen(Library::Ucx).is_none() {
        return;
    }
    let asked = choice_with(&[("GGAS_FABRIC", "ucx")]);
    assert!(asked.starts_with("tcp of UCX 1.") && asked.contains("asks for UCX"), "{asked}");
    let named = choice_with(&[("GGAS_FABRIC", "ucx:all")]);
    assert!(named.starts_with("all of UCX") && named.contains("GGAS_FABRIC asks for it"), "{named}");
    let left = choice_with(&[("GGAS_FABRIC", "ucx"), ("UCX_TLS", "self,tcp")]);
    assert!(left.starts_with("self,tcp of UCX") && left.contains("UCX_TLS leaves"), "{left}");
    let hidden = choice_with(&[("GGAS_FABRIC", "ucx:all"), ("UCX_TLS", "self,tcp")]);
    assert!(hidden.contains("UCX_TLS hides"), "{hidden}");
    let wrong = choice_with(&[("GGAS_FABRIC", "ucx"), ("UCX_TLS", "pigeons")]);
    assert!(wrong.contains("none that is fit") && wrong.contains("UCX_TLS"), "{wrong}");
    let instead = choice_with(&[("GGAS_LIBFABRIC", "/nowhere/libfabric.so.1")]);
    assert!(instead.starts_with("tcp of UCX") && instead.contains("libfabric"), "{instead}");
}

#[test]
fn what_is_asked_for_is_taken_or_refused() {
    if common::chosen(Library::Libfabric).is_none() {
        return;
    }
    let usual = choice_with(&[]);
    assert!(usual.contains("tcp") && usual.contains("the usual one"), "{usual}");
    let named = choice_with(&[("GGAS_FABRIC", "libfabric:tcp;ofi_rxm")]);
    assert!(named.starts_with("tcp;ofi_rxm of libfabric") && named.contains("asks for it"), "{named}");
    let filtered = choice_with(&[("FI_PROVIDER", "tcp,ofi_rxm")]);
    assert!(filtered.contains("FI_PROVIDER leaves"), "{filtered}");
    let hidden = choice_with(&[("FI_PROVIDER", "udp"), ("GGAS_FABRIC", "libfabric:tcp;ofi_rxm")]);
    assert!(hidden.contains("FI_PROVIDER hides"), "{hidden}");
    let unknown = choice_with(&[("GGAS_FABRIC", "pigeons")]);
    assert!(unknown.contains("GGAS_FABRIC=pigeons"), "{unknown}");
}

/// Of the variables that the library reads ours count where nobody set them, and no transport needs others.
#[test]
fn an_endpoint_has_small_buffers() {
    if common::chosen(Library::Libfabric).is_none() {
        return;
    }
    const PROVIDER: (&str, &str) = ("GGAS_FABRIC", "libfabric:tcp;ofi_rxm");
    let takes = |more: &[(&str, &str)]| -> u64 {
        said_with("memory", &[&[PROVIDER], more].concat()).trim().parse().unwrap()
    };
    let (ours, whole) = (takes(&[]), takes(&[("FI_OFI_RXM_BUFFER_SIZE", "8448")]));
    assert!(ours > 0 && 2 * ours < whole, "{ours} KiB, and {whole} with buffers of a message's length");
    let others = takes(&[("FI_PROVIDER", "tcp,verbs,ofi_rxm")]);
    assert!(others * 10 > whole * 9, "{others} KiB where another transport may be taken, {whole} are needed");
}

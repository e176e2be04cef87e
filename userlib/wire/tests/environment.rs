//! What variables of the environment choose, asked of a process that has them.

mod common;

use std::process::Command;

use ggas_wire::Library;

/// What the process would use, with these variables and no others that matter.
fn choice_with(variables: &[(&str, &str)]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ggas-test-wire"));
    command.arg("choice").env_remove("GGAS_FABRIC").env_remove("FI_PROVIDER").env_remove("UCX_TLS");
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

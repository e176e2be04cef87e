//! What variables of the environment choose, asked of a process that has them.

mod common;

use std::process::Command;

/// What the process would use, with these variables and no others that matter.
fn choice_with(variables: &[(&str, &str)]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ggas-test-wire"));
    command.arg("choice").env_remove("GGAS_FABRIC").env_remove("FI_PROVIDER");
    let output = command.envs(variables.iter().copied()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_missing_library_is_named_and_how_to_get_it() {
    if common::chosen().is_none() {
        return;
    }
    let said = choice_with(&[("GGAS_LIBFABRIC", "/nowhere/libfabric.so.1")]);
    assert!(
        said.contains("/nowhere/libfabric.so.1") && said.contains("apt-get install libfabric1"),
        "{said}"
    );
    // One that is a library, and not this one.
    let said = choice_with(&[("GGAS_LIBFABRIC", "libc.so.6")]);
    assert!(said.contains("no function fi_version"), "{said}");
}

#[test]
fn what_is_asked_for_is_taken_or_refused() {
    if common::chosen().is_none() {
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

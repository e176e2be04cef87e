//! Where the output goes does not matter to what is done.

use std::process::Command;

#[test]
fn a_reader_that_goes_is_no_panic() {
    for arguments in [["test", "--list"], ["long", "--list"], ["vm", "--list"]] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut xtask = Command::new(env!("CARGO_BIN_EXE_xtask"));
        let output = xtask.args(arguments).stdout(writer).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), said.as_str()), (Some(0), ""), "{arguments:?}");
    }
}

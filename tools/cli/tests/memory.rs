//! What the command takes of the machine's memory. A process of its own: children are measured together.

use std::process::{Command, Stdio};

use nix::sys::resource::{UsageWho, getrusage};

/// Each node has buffers of every other; without care those of 256 nodes are 64 GiB.
#[test]
fn hundreds_of_nodes_fit_into_a_small_machine() {
    let options = ["--device", "cpu", "--nodes", "256", "--method", "sync", "--iterations", "1"];
    // Should they grow again, the system refuses addresses, instead of ending other processes for their memory.
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v 8388608 && exec \"$@\"", "sh", env!("CARGO_BIN_EXE_ggas")]);
    command.args(["bench", "barrier"]).args(options).args(["--timeout", "300"]);
    let output = command.stdin(Stdio::null()).output().expect("a shell");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let peak = getrusage(UsageWho::RUSAGE_CHILDREN).expect("numbers of children").max_rss() >> 10;
    assert!(peak < 1024, "{peak} MiB");
}
